"""The command ``pixel-gather view``."""

import webbrowser
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from pixel_gather_cli.main import main


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that the browser opens. The user presses Ctrl-C at once."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    addresses: list[str] = []
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupt)

    def open_(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    return addresses


def run(*arguments: str | Path) -> object:
    """Run the command and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["view", *map(str, arguments)])
    return ended.value.code


def test_view_opens_the_address_it_prints_and_ends_quietly(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C is the usual end: exit code 0 and no complaint."""
    (tmp_path / "zarr.json").write_text("{}")

    assert run(tmp_path) == 0

    said = capsys.readouterr()
    assert said.out.strip().startswith("http://127.0.0.1:")
    assert opened == [said.out.strip()]
    assert said.err == "Ctrl-C ends.\n"


def test_view_opens_no_browser_if_told_so(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The address is printed all the same."""
    (tmp_path / "zarr.json").write_text("{}")

    assert run(tmp_path, "--no-open") == 0

    assert capsys.readouterr().out.strip().endswith(f"/{tmp_path.name}/view.html")
    assert not opened


def test_view_of_nothing_says_what_to_name(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a cube is refused before anything is served."""
    assert run(tmp_path) == 2

    assert "no cube is there; name the folder that a gather has written" in capsys.readouterr().err
    assert not opened
