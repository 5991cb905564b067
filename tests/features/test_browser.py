"""The browser of the tests: pinned, and never left out in silence."""

import json
import shutil
from pathlib import Path

import pytest

from infra.node_tools import NodeToolsError
from support import browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.IS_PINNED, reason="npm has a browser for Linux on x86-64 alone"),
]


def test_browser_is_the_one_that_the_package_pins() -> None:
    """Whatever browser is installed on the machine."""
    pinned = json.loads((browser.VIEWER / "package.json").read_text())["devDependencies"][
        "@sparticuz/chromium"
    ]

    with browser.opened_browser() as page:
        version = page.send("Browser.getVersion")["product"]

    assert version.partition("/")[2].split(".")[0] == pinned.split(".")[0]


@pytest.mark.long
def test_browser_that_npm_cannot_fetch_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the page fail and say what npm has said. They are not skipped."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(browser.VIEWER / name, tmp_path)
    monkeypatch.setattr(browser, "VIEWER", tmp_path)
    for option, value in (
        ("registry", "http://127.0.0.1:9"),
        ("cache", str(tmp_path)),
        ("fetch_retries", "0"),
    ):
        monkeypatch.setenv(f"npm_config_{option}", value)

    with (
        pytest.raises(NodeToolsError, match=r"(?s)npm cannot set up .*ECONNREFUSED"),
        browser.opened_browser(),
    ):
        pass
