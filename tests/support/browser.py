"""A headless Chromium, driven by its DevTools protocol: opens a page, runs scripts in it, takes pictures.

The browsers are the two that scripts/viewer/package.json pins. Their packages have a program for Linux on
x86-64. Other machines use the browser that is installed.
"""

import base64
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

from infra.file_lock import file_lock
from infra.node_tools import node_environment, node_modules

VIEWER = Path(__file__).parents[2] / "scripts" / "viewer"
IS_PINNED = (sys.platform, platform.machine()) == ("linux", "x86_64")
_INSTALLED = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_browser = pytest.mark.skipif(
    not IS_PINNED and _INSTALLED is None,
    reason="no chromium or google-chrome on PATH, and npm has one for Linux on x86-64 alone",
)
LATEST, EARLIER = "@sparticuz/chromium", "chromium-147"
"""Packages of the browsers. Chromium 147 compiled a loop of the viewer wrongly."""

_UNPACK = """
const { default: chromium } = await import(process.env.PACKAGE);
await chromium.executablePath();
"""
_WITH_LIBRARIES = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs24.x"}
"""On Lambda, the package also unpacks NSS and expat, which not every machine has."""

_FONTS_CONF = """\
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
"""The package's own names folders of Lambda. A browser without a font crashes."""

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_PATIENCE_S = 60.0
_FAULTS = Path(__file__).parent / "page_faults.js"
_PORT_FILE = "DevToolsActivePort"


LOADED: Final = "document.readyState === 'complete' && document.querySelector('main')"
"""True when a page without a script is there."""

_DRAWN: Final = "['drawn', 'failed'].includes(document.documentElement?.dataset.state)"

CHARTED: Final = f"{_DRAWN} && document.documentElement.dataset.series === 'drawn'"
"""True when the chart of the selected pixels is drawn, too."""


@dataclass
class Page:
    """One tab."""

    connection: Any
    channel: socket.socket
    events: list[dict[str, Any]] = field(default_factory=list)
    """All events so far, such as requests and messages of the console."""

    _n_sent: int = 0
    _text: str = ""
    _replies: dict[int, dict[str, Any]] = field(default_factory=dict)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._n_sent += 1
        message = json.dumps({"id": self._n_sent, "method": method, "params": parameters})
        self.channel.sendall(self.connection.send(TextMessage(data=message)))
        while self._n_sent not in self._replies:
            self._receive()
        reply = self._replies.pop(self._n_sent)
        assert "error" not in reply, reply["error"]
        result: dict[str, Any] = reply["result"]
        return result

    def run(self, script: str) -> Any:
        """Return the value of an expression, or of its promise, in the page."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, name: str) -> Any:
        """Return the text of the element with this id."""
        return self.run(f"document.getElementById('{name}').textContent")

    def texts(self, selector: str) -> Any:
        """Return the texts of all elements that a selector names."""
        return self.run(f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent)")

    def open_(self, url: str, *, until: str = _DRAWN) -> None:
        """Open an address and wait until an expression is true: that the script has drawn or given up."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.wait(until)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        latest = time.monotonic() + _PATIENCE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < latest, f"not in {_PATIENCE_S} s: {condition}"
            time.sleep(0.02)

    def look(self, *, width: int, height: int, is_dark: bool = False) -> None:
        """Set the size of the window in CSS pixels, and the scheme that the user prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.standard_b64decode(shot["data"])

    def _receive(self) -> None:
        content = self.channel.recv(2**20)
        assert content, "the browser has closed the connection"
        self.connection.receive_data(content)
        for event in self.connection.events():
            if isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    self._take(json.loads(self._text))
                    self._text = ""

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._replies[message["id"]] = message
        else:
            self.events.append(message)


def violations(page: Page) -> list[Any]:
    """Return what axe finds: rules of accessibility that the page breaks, each with an element."""
    if page.run("typeof axe") == "undefined":
        page.run((node_modules(VIEWER) / "axe-core" / "axe.min.js").read_text())
    # Elements that pass are not described, which would take half of the time.
    found, n_passed = page.run(
        "axe.run({ resultTypes: ['violations'] }).then(({ violations, passes }) => "
        "[violations.map(({ id, nodes }) => [id, nodes[0].html]), passes.length])"
    )
    assert n_passed > 10
    return list(found)


def faults(page: Page) -> list[str]:
    """Return what is out of place on a page as a reader sees it, the same for every page."""
    return list(page.run(_FAULTS.read_text(encoding="utf-8")))


@contextmanager
def opened_browser(package: str = LATEST) -> Iterator[Page]:
    """Start the browser of a package, and end it with the context. It keeps nothing."""
    program, environment = _browser(package)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [program, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        log = Path(folder) / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)  # noqa: S603 # as above
        try:
            _wait_until_started(process, Path(folder) / _PORT_FILE, log)
            yield _attached(Path(folder) / _PORT_FILE)
        finally:
            process.terminate()
            process.wait(20)


def _browser(package: str) -> tuple[str, dict[str, str]]:
    """Return the browser's program and its environment."""
    if not IS_PINNED:
        assert _INSTALLED is not None
        return _INSTALLED, dict(os.environ)
    unpacked = _unpacked(node_modules(VIEWER), package)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(unpacked / "al2023" / "lib"),
        "FONTCONFIG_FILE": str(unpacked / "fonts" / "fonts.conf"),
    }
    return str(unpacked / "chromium"), environment


def _unpacked(modules: Path, package: str) -> Path:
    """Return the folder of the unpacked browser, 211 MB. It goes with the package that it came from."""
    unpacked = modules / f".{package.rpartition('/')[2]}"
    with file_lock(VIEWER / ".lock"):
        if not unpacked.is_dir():
            with tempfile.TemporaryDirectory(dir=modules) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                subprocess.run(  # noqa: S603 # the lines above
                    ["node", "--input-type=module", "-e", _UNPACK],  # noqa: S607 # node_environment says which
                    cwd=VIEWER,
                    env=node_environment() | _WITH_LIBRARIES | {"TMPDIR": str(made), "PACKAGE": package},
                    check=True,
                )
                (made / "fonts" / "fonts.conf").write_text(_FONTS_CONF)
                made.rename(unpacked)
    return unpacked


def _wait_until_started(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> None:
    latest = time.monotonic() + _PATIENCE_S
    while not (port_file.is_file() and "\n" in port_file.read_text()):
        assert process.poll() is None, f"the browser has ended: {log.read_text(errors='replace')}"
        assert time.monotonic() < latest, f"the browser does not start: {log.read_text(errors='replace')}"
        time.sleep(0.05)


def _attached(port_file: Path) -> Page:
    port, path = port_file.read_text().split()
    browser = _connected(int(port), path)
    target = browser.send("Target.createTarget", url="about:blank")["targetId"]
    page = _connected(int(port), f"/devtools/page/{target}")
    for domain in ("Page", "Runtime", "Network", "Log"):
        page.send(f"{domain}.enable")
    return page


def _connected(port: int, path: str) -> Page:
    channel = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
    connection = WSConnection(ConnectionType.CLIENT)
    channel.sendall(connection.send(Request(host=f"127.0.0.1:{port}", target=path)))
    page = Page(connection=connection, channel=channel)
    while not any(isinstance(event, AcceptConnection) for event in _events(page)):
        pass
    return page


def _events(page: Page) -> list[Any]:
    page.connection.receive_data(page.channel.recv(2**16))
    return list(page.connection.events())
