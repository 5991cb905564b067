"""A headless Chromium, driven by its DevTools protocol: opens a page, runs scripts in it, takes pictures."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser's command; None if there is none."""

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

    def open_(self, url: str) -> None:
        """Open an address and wait until the page's script has drawn something or given up."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.wait("['drawn', 'failed'].includes(document.documentElement?.dataset.state)")

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


@contextmanager
def opened_browser() -> Iterator[Page]:
    """Start the browser, and end it with the context. It keeps nothing."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(  # noqa: S603 # found on the PATH
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield _attached(Path(folder) / "DevToolsActivePort")
        finally:
            process.terminate()
            process.wait(20)


def _attached(port_file: Path) -> Page:
    latest = time.monotonic() + _PATIENCE_S
    while not (port_file.is_file() and "\n" in port_file.read_text()):
        assert time.monotonic() < latest, "the browser does not start"
        time.sleep(0.05)
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
