"""The server of one cube: it reads ranges of this cube, for this machine's user, and nothing else."""

import http.client
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore

import pixel_gather
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.features.gather.gathered import Gathered
from pixel_gather.features.view.view import CubeServer, serving_cube
from pixel_gather.io.cube.served_files import StoredFiles, range_of
from pixel_gather.io.cube.written_report import view_page
from support.local_server import in_thread

_SHARD = bytes(range(256))


@pytest.fixture(scope="module")
def server() -> Iterator[CubeServer]:
    """Return a running server of a cube in memory, with another cube beside it."""
    store: Any = MemoryStore()
    obstore.put(store, "zarr.json", b"{}")
    obstore.put(store, "band_1/c/0", _SHARD)
    obstore.put(store, "cloud cover/c/0", b"column")
    obstore.put(store, "report.html", b"<script>1</script>")
    with CubeServer(StoredFiles(store), "my cube.zarr") as opened, in_thread(opened):
        yield opened


def _ask(
    server: CubeServer, path: str, *, method: str = "GET", host: str | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request to the port, whatever its Host header says."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def _below(server: CubeServer, key: str, **options: Any) -> tuple[http.client.HTTPResponse, bytes]:
    return _ask(server, f"{server.folder}{key}", **options)


def test_server_listens_on_loopback_at_an_address_that_cannot_be_guessed(server: CubeServer) -> None:
    """The token has 24 random bytes. The folder has the cube's name, which the page shows."""
    token, name = server.folder.strip("/").split("/")

    assert server.server_address[0] == "127.0.0.1"
    assert len(token) == 32
    assert name == "my%20cube.zarr"
    assert server.url == f"http://127.0.0.1:{server.server_port}{server.folder}view.html"


def test_server_sends_the_page(server: CubeServer) -> None:
    """It is the one of this version, whether the cube has one or not."""
    answer, content = _below(server, "view.html")

    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert content == view_page()


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("bytes=0-15", 0, 16), ("bytes=250-", 250, 256), ("bytes=-4", 252, 256), ("bytes=200-900", 200, 256)],
)
def test_server_sends_ranges(server: CubeServer, asked: str, start: int, stop: int) -> None:
    """From a start, to a stop, and of the end, which is where shards have their index."""
    answer, content = _below(server, "band_1/c/0", Range=asked)

    assert answer.status == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/256"
    assert content == _SHARD[start:stop]


def test_server_sends_whole_objects_and_heads(server: CubeServer) -> None:
    """Names of columns may need quoting. HEAD tells the size."""
    assert _below(server, "cloud%20cover/c/0")[1] == b"column"
    answer, content = _below(server, "band_1/c/0", method="HEAD")
    assert (answer.status, answer.headers["Content-Length"], content) == (200, "256", b"")


def test_server_says_what_is_missing_or_beyond_the_end(server: CubeServer) -> None:
    """404 is what readers of Zarr take for a chunk that was never written."""
    assert _below(server, "band_1/c/9")[0].status == 404
    assert _below(server, "band_1/c/0", Range="bytes=256-300")[0].status == 416


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/view.html",
        "/favicon.ico",
        "/wrong-token/my%20cube.zarr/zarr.json",
        "{folder}../zarr.json",
        "{folder}band_1/../zarr.json",
        "{folder}%2e%2e/zarr.json",
        "{folder}..%2fzarr.json",
        "{folder}band_1%5c..%5czarr.json",
        "{folder}/zarr.json",
        "{folder}./zarr.json",
        "{folder}%00zarr.json",
        "{folder}",
        "http://127.0.0.1{folder}zarr.json",
    ],
)
def test_server_answers_nothing_outside_the_cube(server: CubeServer, path: str) -> None:
    """A path without the token, or with steps out of the folder, is nowhere."""
    assert _ask(server, path.format(folder=server.folder))[0].status == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"]
)
def test_server_refuses_other_names(server: CubeServer, host: str) -> None:
    """A page elsewhere whose name resolves to this machine sends its own name, and gets nothing."""
    answer, content = _below(server, "zarr.json", host=host.format(port=server.server_port))

    assert answer.status == 421
    assert b"{}" not in content


def test_server_answers_to_localhost(server: CubeServer) -> None:
    """Forwarded ports keep the name that the user typed."""
    assert _below(server, "zarr.json", host=f"localhost:{server.server_port}")[0].status == 200


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "PATCH"])
def test_server_only_reads(server: CubeServer, method: str) -> None:
    """Nothing changes, and no other origin is allowed to ask."""
    answer, _ = _below(server, "zarr.json", method=method)

    assert answer.status == 501
    assert _below(server, "zarr.json")[1] == b"{}"
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_server_keeps_other_pages_from_the_cube(server: CubeServer) -> None:
    """A page from the cube's folder, which anybody may have written, gets an origin of its own."""
    answer, _ = _below(server, "report.html")

    assert answer.headers["Content-Security-Policy"] == "sandbox allow-scripts"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """Those inside it are."""
    (tmp_path / "secret").write_text("secret")
    cube = tmp_path / "cube.zarr"
    cube.mkdir()
    (cube / "zarr.json").write_text("{}")
    (cube / "out").symlink_to(tmp_path / "secret")
    (cube / "within").symlink_to(cube / "zarr.json")
    store: Any = LocalStore(cube)

    files = StoredFiles(store)
    with pytest.raises(FileNotFoundError):
        files.part("out", None)
    for key in ("within", "zarr.json"):
        assert b"".join(bytes(each) for each in files.part(key, None).content) == b"{}"


@pytest.mark.parametrize("header", [None, "bytes=0-1,4-5", "bytes=-", "items=0-1", "bytes=9-3", "bytes=a-b"])
def test_other_ranges_count_as_none(header: str | None) -> None:
    """RFC 9110 lets a server send the whole object instead."""
    assert range_of(header) is None


def test_serving_needs_a_cube(tmp_path: Path) -> None:
    """A folder without metadata, a missing one and other addresses are refused. No folder is created."""
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(StoreError, match="no cube is there"), serving_cube(place):
            pass
    with pytest.raises(RequestError), serving_cube("https://example.com/cube.zarr"):
        pass
    assert not (tmp_path / "none").exists()


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 # our own server
        content: bytes = answer.read()
    return content


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Return a folder with the least that is served as a cube."""
    (tmp_path / "zarr.json").write_text("{}")
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that a browser was told to open."""
    addresses: list[str] = []

    def open_(url: str) -> bool:
        addresses.append(url)
        return True

    monkeypatch.setattr("pixel_gather.features.view.view.webbrowser", SimpleNamespace(open=open_))
    return addresses


def test_a_viewed_cube_is_served_until_it_is_closed(cube: Path, opened: list[str]) -> None:
    """The call returns at once, so that a notebook goes on. Closing twice does no harm."""
    viewed = pixel_gather.view(cube)

    assert opened == [viewed.url]
    assert _read(viewed.url) == view_page()
    assert _read(viewed.url.replace("view.html", "zarr.json")) == b"{}"

    viewed.close()
    viewed.close()
    with pytest.raises(OSError, match="refused"):
        _read(viewed.url)


def test_a_finished_gather_shows_its_cube(cube: Path, opened: list[str]) -> None:
    """In a script the server ends with the context. A notebook shows a link."""
    gathered = Gathered(place=str(cube), report=cast("Any", None), was_complete=True)

    with gathered.view(open_browser=False) as viewed:
        assert _read(viewed.url) == view_page()
        assert f'href="{viewed.url}"' in viewed._repr_html_()
        assert viewed.url in repr(viewed)

    assert not opened
    with pytest.raises(OSError, match="refused"):
        _read(viewed.url)


def test_an_unfinished_cube_is_not_served(cube: Path, opened: list[str]) -> None:
    """Its page would show holes. An append leaves the cube complete, so a growing one is shown."""
    (cube / "zarr.json").write_text('{"attributes": {"complete": 0}}')

    with pytest.raises(StoreError, match=r"the cube is not complete\. If its gather is still at work, wait"):
        pixel_gather.view(cube)

    assert opened == []


def test_a_place_without_a_cube_is_not_served(tmp_path: Path, opened: list[str]) -> None:
    """Nothing is left listening, and no browser opens."""
    threads = threading.active_count()
    with pytest.raises(StoreError, match="no cube is there"):
        pixel_gather.view(tmp_path)

    assert not opened
    assert threading.active_count() == threads
