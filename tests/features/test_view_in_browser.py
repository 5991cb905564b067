"""The page in a headless Chromium: its pixels against zarr-python's, its requests, what is seen where."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, override
from urllib.parse import parse_qs

import matplotlib as mpl
import numpy as np
import obstore
import pytest
import rasterio
import zarr
from rasterio.warp import transform
from zarr.storage import ObjectStore

from pixel_gather import join, make_virtual
from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.report_content import north_in_words
from pixel_gather.features.view import view
from pixel_gather.features.view.view import CubeServer, serving_cube
from pixel_gather.io.cube.served_files import StoredFiles
from pixel_gather.io.cube.written_report import view_page
from pixel_gather.io.pictures.stretch import Stretch
from support.browser import (
    CHARTED,
    EARLIER,
    LATEST,
    Page,
    faults,
    needs_browser,
    opened_browser,
    violations,
)
from support.joined_cubes import FILES
from support.local_server import in_thread
from support.undrawn import gather_undrawn
from support.viewed_cubes import (
    BANDS,
    COVER,
    MISSING,
    NODATA,
    SIDE,
    cover,
    gathered_bgr,
    gathered_classes,
    gathered_cover,
    gathered_months,
    gathered_scenes,
    gathered_valley,
    plain_cube,
    plain_pixels,
    scene_classes,
)

pytestmark = [pytest.mark.slow, needs_browser]
_N_ROWS = 9
_SHIFT = 8
_LEFT: dict[str, Any] = {"button": "left", "buttons": 1, "clickCount": 1}


type _Served = tuple[str, list[tuple[str, str | None]]]
"""The address of a page, and the requests so far: key below the cube, and range."""


class _Counting(view._Handler):
    """Notes each request that the server answers: its key below the cube, and its range."""

    asked: list[tuple[str, str | None]]
    n_busy = 0
    """So many requests for red's pixels are answered by 503."""

    held: dict[str, threading.Event]
    """Requests whose path holds a text wait for its event."""

    @override
    def do_GET(self) -> None:
        for part, may_go in list(self.held.items()):
            if part in self.path:
                may_go.wait(60)
        if "/red/c/" in self.path and type(self).n_busy:
            type(self).n_busy -= 1
            self.send_error(503)
        else:
            super().do_GET()

    @override
    def log_request(self, code: object = "-", size: object = "-") -> None:
        del code, size
        self.asked.append((self.path.split("/", 3)[-1], self.headers["Range"]))


@contextmanager
def _running(server: CubeServer) -> Iterator[_Served]:
    """Serve in a thread."""
    asked: list[tuple[str, str | None]] = []
    server.RequestHandlerClass = type("Counting", (_Counting,), {"asked": asked, "held": {}})
    with in_thread(server):
        yield server.url, asked


@contextmanager
def _held(server: CubeServer, part: Literal["/zarr.json", "/c/"]) -> Iterator[None]:
    """Send no metadata, or no pixels, before the context ends."""
    held: dict[str, threading.Event] = server.RequestHandlerClass.held  # type: ignore[attr-defined]
    held[part] = may_go = threading.Event()
    try:
        yield
    finally:
        del held[part]
        may_go.set()


@contextmanager
def _serving(cube: Any) -> Iterator[_Served]:
    """Serve the page of a cube that is in a folder or in a store."""
    opened = serving_cube(cube) if isinstance(cube, str | Path) else CubeServer(StoredFiles(cube), "cube")
    with opened as server, _running(server) as served:
        yield served


@pytest.fixture(scope="module")
def valley(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the place of a gathered cube of four measurements."""
    return gathered_valley(tmp_path_factory.mktemp("valley"), n_rows=_N_ROWS).place


@pytest.fixture(scope="module")
def short_valley(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the place of a cube of three rows, which has no first picture."""
    return gathered_valley(tmp_path_factory.mktemp("short"), n_rows=3).place


@pytest.fixture(scope="module")
def land_cover(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the place of a cube of classes."""
    return gathered_cover(tmp_path_factory.mktemp("cover")).place


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Join two cubes of two rows each, of which the first has a first picture. Return their folder."""
    folder = tmp_path_factory.mktemp("joined")
    for name in ("a", "b"):
        (folder / name).mkdir()
        gathered_valley(folder / name, n_rows=2, draws_report=name == "a")
    join([str(folder / name / "valley.zarr") for name in ("a", "b")], to=str(folder / "both.icechunk"))
    return folder


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return a tab of a browser."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(valley: str) -> Iterator[_Served]:
    """Serve the page of the valley."""
    with _serving(valley) as running:
        yield running


def _pixels(valley: str, band: str, row: int) -> Any:
    array: Any = zarr.open_group(valley, mode="r")[band]
    return array[row]


_CANVAS = """(() => { const c = document.getElementById("pixels");
  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
  return [c.height, c.width, Array.from(data)]; })()"""

_KEEP_FILES = """(() => { window.kept = []; const made = URL.createObjectURL;
  URL.createObjectURL = (blob) => { const reader = new FileReader();
    reader.onload = () => window.kept.push(reader.result.split(",")[1]);
    reader.readAsDataURL(blob);
    return made.call(URL, blob); }; })()"""
"""Keeps what a page saves, in base 64."""

_FIRST = """(() => { const image = document.getElementById("first");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return Array.from(context.getImageData(0, 0, canvas.width, canvas.height).data); })()"""

_BOX = """(() => { const box = document.getElementById("ID").getBoundingClientRect();
  return [box.left, box.top, box.width, box.height]; })()"""


def _canvas(page: Page, name: str = "pixels") -> Any:
    """Return the colours on display, shape (y, x, 4)."""
    height, width, data = page.run(_CANVAS.replace("pixels", name))
    return np.array(data, dtype="uint8").reshape(height, width, 4)


def _limits(page: Page) -> tuple[float, ...]:
    """Return the ends of the stretch that the link names."""
    return tuple(float(each) for each in page.run("location.hash").partition("limits=")[2].split("%2C"))


def _saved(page: Page, button: str) -> bytes:
    """Return the file that the page saves after a click."""
    page.run(_KEEP_FILES)
    page.run(f"document.getElementById('{button}').click()")
    page.wait("window.kept.length")
    return base64.b64decode(page.run("window.kept[0]"))


@contextmanager
def _metadata(store: Any) -> Iterator[Any]:
    """Change the metadata of a cube."""
    root = json.loads(bytes(obstore.get(store, "zarr.json").bytes()))
    yield root
    obstore.put(store, "zarr.json", json.dumps(root).encode())


def _levels(pixels: Any, limits: Any) -> Any:
    low, high = limits
    return np.floor(np.clip((pixels.astype("float64") - low) / (high - low), 0, 1) * 255 + 0.5).astype(int)


def _check(shown: Any, pixels: Any, limits: Any, *, channel: int = 0) -> None:
    """Assert that a channel has the levels of the pixels that are not nodata."""
    is_valid = pixels != NODATA
    assert (shown[is_valid][:, channel] == _levels(pixels, limits)[is_valid]).all()


def _of(pixels: Any) -> Any:
    stretch = Stretch.of(pixels, pixels != NODATA)
    return stretch.low, stretch.high


def _in_colour(valley: str, band: str) -> Any:
    """Return the limits by which the report would show the pixels that the page samples: one in two."""
    array: Any = zarr.open_group(valley, mode="r")[band]
    assert array.chunks[0] >= array.shape[0] == _N_ROWS
    pixels = array[...]
    sample = pixels[pixels != NODATA][::2]
    stretch = Stretch.of(sample, np.ones(sample.shape, dtype=bool), in_colour=True)
    return stretch.low, stretch.high


@pytest.mark.long
def test_canvas_holds_zarrs_pixels_through_the_stretch(page: Page, served: _Served, valley: str) -> None:
    """Percentiles are NumPy's, colours matplotlib's. Nodata are transparent."""
    url, _ = served
    row = 5
    page.open_(f"{url}#row={row}&show=nir&map=viridis&stretch=row")

    pixels = _pixels(valley, "nir", row)
    is_valid = pixels != NODATA
    colours = mpl.colormaps["viridis"](_levels(pixels, _of(pixels)), bytes=True)
    shown = _canvas(page)
    assert 0 < (~is_valid).sum() < SIDE * SIDE
    assert (shown[is_valid] == colours[is_valid]).all()
    assert (shown[~is_valid, 3] == 0).all()


@pytest.mark.long
@pytest.mark.parametrize("package", [EARLIER, LATEST])
def test_every_load_shows_the_same_pixels(package: str, served: _Served, valley: str) -> None:
    """Chromium 147 compiled the decoder wrongly: bits were lost here and there, in one load of five."""
    url, _ = served
    with opened_browser(package) as page:
        for load in range(40):
            row = load % MISSING
            page.open_(f"{url}#row={row}&show=red&map=grey&stretch=fixed&limits=0,4000")

            _check(_canvas(page), _pixels(valley, "red", row), (0, 4000))


@pytest.mark.long
def test_bands_of_an_axis_are_shown_by_their_names(page: Page, tmp_path: Path) -> None:
    """As if each had an array of its own: pixels, statuses and formulas."""
    place = gathered_valley(tmp_path, n_rows=MISSING + 1, output={"bands": "axis"}).place
    array: Any = zarr.open_group(place, mode="r")["bands"]
    with _serving(place) as (url, _):
        page.open_(f"{url}#row=1&show=nir&map=grey&stretch=fixed&limits=0,4000")
        pixels = array[1, BANDS.index("nir")]
        shown = _canvas(page)
        _check(shown, pixels, (0, 4000))
        assert (shown[pixels == NODATA, 3] == 0).all()

        page.open_(f"{url}#row={MISSING}&show=nir")
        assert not _canvas(page)[..., 3].any()

        page.open_(f"{url}#row=2&show=nir-red&map=grey&stretch=fixed&limits=-1000,1000")
        nir, red = (array[2, BANDS.index(name)].astype("float64") for name in ("nir", "red"))
        is_valid = (nir != NODATA) & (red != NODATA)
        assert (_canvas(page)[is_valid][:, 0] == _levels(nir - red, (-1000, 1000))[is_valid]).all()


def test_canvas_mixes_three_measurements_and_keeps_the_stretch(
    page: Page, served: _Served, valley: str
) -> None:
    """The limits of the rows that were read at first hold for the next rows, until others are taken."""
    url, _ = served
    page.open_(f"{url}#row=3&rgb=red,green,blue&stretch=kept")
    page.run("document.getElementById('next').click()")
    page.wait("location.hash.includes('row=4') && document.documentElement.dataset.state === 'drawn'")

    shown = _canvas(page)
    for channel, band in enumerate(BANDS[:3]):
        _check(shown, _pixels(valley, band, 4), _in_colour(valley, band), channel=channel)

    page.run("document.getElementById('retake').click()")
    page.wait("document.documentElement.dataset.state === 'drawn'")
    pixels = _pixels(valley, "red", 4)
    _check(_canvas(page), pixels, _of(pixels))


def test_a_band_alone_has_the_range_of_its_clear_part(page: Page, served: _Served, valley: str) -> None:
    """Clouds do not make the land dark. All rows of the valley lie in one chunk."""
    url, asked = served
    asked.clear()
    page.open_(f"{url}#row=2&show=green&map=grey&stretch=kept")

    limits = _limits(page)
    assert limits == pytest.approx(_in_colour(valley, "green"))
    pixels = np.stack([_pixels(valley, "green", row) for row in range(_N_ROWS)])
    assert limits[1] < np.percentile(pixels[pixels != NODATA], 98) / 2
    assert len([key for key, _ in asked if key.startswith("green/")]) <= 2


def test_canvas_takes_fixed_limits_from_the_link(page: Page, served: _Served, valley: str) -> None:
    """A link keeps the view: row, measurement, map, limits."""
    url, _ = served
    page.open_(f"{url}#row=2&show=green&map=grey&stretch=fixed&limits=100,900")

    _check(_canvas(page), _pixels(valley, "green", 2), (100, 900), channel=1)
    parts = parse_qs(page.run("location.hash").removeprefix("#"))
    parts.pop("quick", None)
    assert parts == {
        "row": ["2"],
        "show": ["green"],
        "map": ["grey"],
        "stretch": ["fixed"],
        "limits": ["100,900"],
    }


def test_row_that_was_not_read_says_why(page: Page, served: _Served) -> None:
    """No pixel is invented: the canvas is empty, and the status stands over it."""
    url, _ = served
    page.open_(f"{url}#row={MISSING}&show=nir")

    assert (_canvas(page)[..., 3] == 0).all()
    assert "missing" in page.text("why")
    page.wait(f"document.getElementById('href').textContent.endsWith('valley_{MISSING:03}_nir.tif')")


def test_slice_takes_three_requests(page: Page, served: _Served) -> None:
    """Metadata, shard index, chunks. Other rows of the same chunks take none; coordinates one each."""
    url, asked = served
    asked.clear()
    page.open_(f"{url}#row=1&show=red")
    page.wait("document.getElementById('href').textContent")
    first = list(asked)
    asked.clear()
    page.run("document.getElementById('next').click()")
    page.wait("location.hash.includes('row=2') && document.documentElement.dataset.state === 'drawn'")

    of_pixels = [(key, range_) for key, range_ in first if key == "zarr.json" or key.startswith("red/")]
    assert [key for key, _ in of_pixels] == ["zarr.json", "red/c/0/0/0", "red/c/0/0/0"]
    assert str(of_pixels[1][1]).startswith("bytes=-")
    others = sorted(key.split("/")[0] for key, _ in first if (key, _) not in of_pixels)
    small = ("favicon.ico", "quicklooks.npz")
    assert [each for each in others if each not in small] == ["href", "status", "time", "view.html"]
    assert others.count("quicklooks.npz") <= 2  # its directory with the rows, and the picture
    assert not asked


def test_page_asks_no_other_host_and_breaks_no_policy(page: Page, served: _Served) -> None:
    """Every request of the page went to its own server. The browser reports nothing about the policy."""
    url, _ = served
    page.events.clear()
    page.open_(f"{url}#row=0&rgb=red,green,blue&part=10,10,5,5", until=CHARTED)

    sent = [
        each["params"]["request"]["url"]
        for each in page.events
        if each["method"] == "Network.requestWillBeSent"
    ]
    origin = url.split("/", 3)[2]
    assert len(sent) > 5
    assert {each.split("/", 3)[2] for each in sent} == {origin}
    said = [each["params"]["entry"] for each in page.events if each["method"] == "Log.entryAdded"]
    assert [each for each in said if not each.get("url", "").endswith("favicon.ico")] == []
    assert not [each for each in page.events if each["method"] == "Runtime.exceptionThrown"]


def test_click_gives_the_series_of_the_pixel(page: Page, served: _Served, valley: str) -> None:
    """Value, time, source and status of the row; one point of the chart for each row that was read."""
    url, _ = served
    page.open_(f"{url}#row=5&show=nir")
    _drag(page, (50, 100), (50, 100))

    value = int(_pixels(valley, "nir", 5)[100, 50])
    told = page.text("readout")
    assert "column 50, line 100" in told
    assert f"nir{value}status" in told
    assert "2025-03-20 (5)" in told
    page.wait("document.getElementById('readout').textContent.includes('valley_005_nir.tif')")
    dots = page.run("document.querySelector('#chart .dots').getAttribute('d')")
    assert dots.count("M") == _N_ROWS - 1
    assert page.run("document.querySelector('#chart .failed').getAttribute('d')").count("M") == 1


def test_line_breaks_where_a_row_was_not_read(page: Page, served: _Served) -> None:
    """The row behind the gap stands alone. Its spread is drawn, too."""
    url, _ = served
    page.open_(f"{url}#row=5&show=nir")
    _drag(page, (50, 100), (89, 139))

    line, spread = (
        page.run(f"document.querySelector('#chart .{kind}').getAttribute('d')") for kind in ("line", "spread")
    )
    before, alone = line.split("M")[1:]
    assert (before.count("L"), alone.count("L")) == (MISSING - 1, 0)
    assert spread.count("Z") == 2


def test_rectangle_gives_mean_and_spread(page: Page, served: _Served, valley: str) -> None:
    """Nodata do not count. The figures are NumPy's."""
    url, _ = served
    page.open_(f"{url}#row=5&show=blue")
    _drag(page, (0, 0), (39, 39))

    part = _pixels(valley, "blue", 5)[:40, :40]
    valid = part[part != NODATA].astype("float64")
    assert 0 < valid.size < part.size
    told = page.text("readout")
    assert f"{valid.size:,} of 1,600 pixels valid" in told
    assert f"mean {valid.mean():.4g}" in told
    assert f"standard deviation {valid.std():.4g}" in told


def test_keys_move_the_pixel_and_step_through_rows(page: Page, served: _Served) -> None:
    """Everything that a mouse does, keys do."""
    url, _ = served
    page.open_(f"{url}#row=3&show=red&part=20,30,1,1")
    page.run("document.getElementById('stage').focus()")
    for key, shift in (("ArrowRight", 0), ("ArrowDown", 0), ("ArrowRight", 8), ("PageDown", 0)):
        for kind in ("keyDown", "keyUp"):
            page.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=shift)
    page.wait("location.hash.includes('row=4')")

    assert "part=21%2C31%2C2%2C1" in page.run("location.hash")


def test_finger_selects_a_pixel(page: Page, served: _Served) -> None:
    """A tap is a click. Browsers may still scroll and zoom over the picture."""
    url, _ = served
    page.open_(f"{url}#row=2&show=red")
    ((x, y),) = _places(page, (30, 40))
    page.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    page.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.wait(CHARTED)

    assert "part=30%2C40%2C1%2C1" in page.run("location.hash")


def test_play_shows_row_after_row(page: Page, served: _Served) -> None:
    """It starts anew after the last row, and skips rows that were not read if told so."""
    url, _ = served
    page.open_(f"{url}#row={MISSING - 1}&show=nir&skip=1")
    page.run("document.getElementById('speed').value = '16'")
    page.run(
        "window.rows = []; new MutationObserver(() => rows.push(document.getElementById('row').value))"
        ".observe(document.getElementById('count'), { childList: true })"
    )
    page.run("document.getElementById('play').click()")
    page.wait("rows.length >= 3")
    page.run("document.getElementById('play').click()")

    assert page.run("rows")[:3] == ["8", "0", "1"]


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (768, 1024), (390, 844)])
@pytest.mark.parametrize("is_dark", [False, True])
def test_map_and_chart_are_on_one_screen(
    page: Page, served: _Served, *, width: int, height: int, is_dark: bool
) -> None:
    """After a click, nothing is scrolled: map, slider, legend, scale bar, north and chart are in sight."""
    url, _ = served
    page.look(width=width, height=height, is_dark=is_dark)
    page.open_(f"{url}#row=5")
    _drag(page, (50, 100), (50, 100))
    seen = {
        name: page.run(
            f"(({{ left, top, right, bottom }}) => [left, top, right, bottom])"
            f"(document.querySelector('{name}').getBoundingClientRect())"
        )
        for name in ("#stage", "#sheet", "#row", "#key", "#scale", "#north", "#zoom-in", "#label", "#chart")
    }
    page.look(width=1200, height=900)

    for name, (left, top, right, bottom) in seen.items():
        assert 0 <= left < right <= width, name
        assert 0 <= top < bottom <= height, name
    assert seen["#chart"][2] - seen["#chart"][0] > 250
    assert seen["#sheet"][2] - seen["#sheet"][0] > min(width, height) * 0.45
    assert page.run("[scrollX, scrollY, document.documentElement.scrollWidth - innerWidth]")[:2] == [0, 0]


def test_first_look_is_true_colour_and_charts_have_the_colours_of_their_bands(
    page: Page, served: _Served, valley: str
) -> None:
    """Names say which bands are red, green and blue. A line of red is red, alone or with others."""
    url, _ = served
    page.look(width=1440, height=900)
    page.open_(f"{url}#row=4&part=50,100,1,1", until=CHARTED)

    _check(_canvas(page), _pixels(valley, "red", 4), _in_colour(valley, "red"))
    lines = "[...document.querySelectorAll('#chart .line')].map((each) => getComputedStyle(each).stroke)"
    assert page.run(lines) == ["rgb(198, 40, 40)", "rgb(0, 158, 115)", "rgb(0, 114, 178)"]

    page.open_(f"{url}#row=4&show=red&part=50,100,1,1", until=CHARTED)
    assert page.run(lines) == ["rgb(198, 40, 40)"]


def test_line_goes_forward_in_time_where_a_cube_has_grown_backwards(page: Page) -> None:
    """Rows that were added later may have earlier times. The line breaks at the one that was not read."""
    store = plain_cube(6, dim="time")
    opened: Any = zarr.open_group(ObjectStore(store), mode="r+")
    days = np.array([0, 20, 40, 10, 30, 50])
    opened["time"][...] = 1_577_836_800_000_000 + days * 86_400_000_000
    opened["status"][...] = [0, 0, 0, 0, 2, 0]
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=3&part=2,3,1,1", until=CHARTED)
        line = page.run("document.querySelector('#chart .line').getAttribute('d')")
        here = page.run("Number(document.querySelector('#chart .here').getAttribute('cx'))")

    parts = [[float(point.split()[0]) for point in part.split("L")] for part in line.split("M")[1:]]
    first, last = parts[0][0], parts[-1][-1]
    reached = [[round((x - first) / (last - first) * 50) for x in part] for part in parts]
    assert reached == [[0, 10, 20], [40, 50]]
    assert round((here - first) / (last - first) * 50) == 10


@pytest.mark.parametrize("width", [1200, 360])
def test_an_address_reads_from_left_to_right(page: Page, width: int) -> None:
    """If it is too long, its beginning is cut off. Its signs stay where they are."""
    store = plain_cube(2, dim="source")
    hrefs: Any = zarr.open_group(ObjectStore(store), mode="r+")["href"]
    hrefs[...] = np.array([f"/{'long_' * 12}name (1).tif?key=ab=="] * 2, dtype=object)
    page.look(width=width, height=800)
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=0")
        page.wait("document.getElementById('href').textContent.endsWith('==')")
        lefts = page.run("""(() => {
            const text = document.getElementById("href").firstChild, range = document.createRange();
            return Array.from(text.data, (_, n) => {
                range.setStart(text, n);
                range.setEnd(text, n + 1);
                return range.getBoundingClientRect().left;
            });
        })()""")
        page.look(width=1200, height=900)

    assert lefts == sorted(lefts)


def test_wheel_zooms_at_the_pointer_and_a_drag_moves(page: Page, served: _Served) -> None:
    """The pixel under the pointer stays there. The link keeps the place. 0 shows all again."""
    url, _ = served
    page.open_(f"{url}#row=5")
    ((x, y),) = _places(page, (50, 100))
    page.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-600)
    page.wait("location.hash.includes('at=')")
    ((zoomed_x, zoomed_y),) = _places(page, (50, 100))
    assert (zoomed_x, zoomed_y) == pytest.approx((x, y), abs=3)
    assert page.run("document.getElementById('sheet').clientWidth") > 2 * SIDE

    for kind, at in (("mousePressed", x), ("mouseMoved", x - 40), ("mouseReleased", x - 40)):
        page.send("Input.dispatchMouseEvent", type=kind, x=at, y=y, **_LEFT)
    ((moved_x, _),) = _places(page, (50, 100))
    assert moved_x == pytest.approx(zoomed_x - 40, abs=1)
    assert "part=" not in page.run("location.hash")
    link = page.run("location.href")
    page.open_(link)
    assert _places(page, (50, 100))[0][0] == pytest.approx(moved_x, abs=1)

    page.run("document.getElementById('stage').focus()")
    page.send("Input.dispatchKeyEvent", type="keyDown", key="0", text="0")
    page.wait("!location.hash.includes('at=')")


def test_two_fingers_zoom(page: Page, served: _Served) -> None:
    """A pinch of twice the width shows twice as much."""
    url, _ = served
    page.open_(f"{url}#row=5")
    (x, y), (far, _) = _places(page, (80, 100), (110, 100))
    before = page.run("document.getElementById('sheet').clientWidth")
    for kind, end in (("touchStart", far), ("touchMove", 2 * far - x)):
        points = [{"x": x, "y": y, "id": 0}, {"x": end, "y": y, "id": 1}]
        page.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    page.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    assert page.run("document.getElementById('sheet').clientWidth") == pytest.approx(2 * before, rel=0.05)


def test_pointer_reads_all_bands_and_the_place(page: Page, served: _Served, valley: str) -> None:
    """Values are zarr-python's, also of the band that is not shown. Longitude and latitude are PROJ's."""
    url, _ = served
    page.open_(f"{url}#row=5")
    ((x, y),) = _places(page, (50, 100))
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.wait("document.getElementById('probe').textContent.includes('nir ')")
    told = page.text("probe")

    values = " · ".join(f"{band} {_pixels(valley, band, 5)[100, 50]}" for band in BANDS)
    ((longitude,), (latitude,)) = transform("EPSG:32632", "EPSG:4326", [676_505], [5_152_995])
    assert told.startswith(f"{values} — 2025-03-20 — column 50, line 100 · 676505, 5152995 · ")
    degrees = tuple(float(each) for each in told.rpartition(" · ")[2].split(", "))
    assert degrees == pytest.approx((longitude, latitude), abs=2e-5)


def test_index_is_computed_of_scaled_values(page: Page, served: _Served, valley: str) -> None:
    """NDVI by name, and any formula. The row whose near infrared is missing has no value."""
    url, _ = served
    page.open_(f"{url}#row=5&show=red&map=greens&stretch=fixed&limits=-1,1")
    page.run(
        "(() => { const bands = document.getElementById('band-0');"
        "bands.value = [...bands.options].find(({ text }) => text === 'NDVI').value;"
        "bands.dispatchEvent(new Event('change')); })()"
    )
    page.wait("decodeURIComponent(location.hash).includes('nir')")
    page.wait("document.documentElement.dataset.state === 'drawn'")
    page.open_(
        page.run("location.href").replace("stretch=kept", "stretch=fixed").partition("&limits")[0]
        + "&limits=-1,1&part=50,100,1,1",
        until=CHARTED,
    )

    nir, red = (_pixels(valley, band, 5).astype("float64") for band in ("nir", "red"))
    is_valid = (nir != NODATA) & (red != NODATA)
    ndvi = (nir - red) / (nir + red)
    shown, colours = _canvas(page), mpl.colormaps["Greens"](_levels(ndvi, (-1, 1)), bytes=True)
    assert np.abs(shown[is_valid].astype(int) - colours[is_valid]).max() <= 2
    assert (shown[..., 3] == 255 * is_valid).all()
    dots = page.run("document.querySelector('#chart .dots').getAttribute('d')")
    assert dots.count("M") == _N_ROWS - 1


def test_classes_have_a_legend_and_shares(page: Page, tmp_path: Path) -> None:
    """Colours and names are Sentinel-2's. Other bands of few integers have classes, too: no ramp, no mean."""
    place = gathered_classes(tmp_path).place
    with _serving(place) as (url, _):
        page.open_(f"{url}#row=1&show=SCL&part=20,20,60,60", until=CHARTED)
        shown = _canvas(page)
        key, told = page.text("key"), page.text("readout")
        hidden = page.run("document.getElementById('map').parentElement.hidden")
        page.open_(f"{url}#row=1&show=kind")
        other = page.text("key")

    classes = scene_classes(1)
    for value, colour in ((4, (0, 160, 0)), (5, (255, 230, 90)), (6, (0, 0, 255)), (8, (192, 192, 192))):
        assert (shown[classes == value, :3] == colour).all()
    assert (shown[classes == 0, 3] == 0).all()
    assert key == "vegetationbare soilwatercloud, medium probabilityno data"
    share = (classes[20:80, 20:80] == 8).mean()
    assert f"most: cloud, medium probability {100 * share:.1f} %" in told
    assert "mean" not in told
    assert hidden
    assert other == "class 0class 1class 2"


@pytest.mark.parametrize("name", ["units", "scaled_units"])
def test_a_few_integers_with_a_unit_are_amounts(page: Page, tmp_path: Path, name: str) -> None:
    """They have a ramp, and no classes, also if only the values after each row's scale have the unit."""
    place = gathered_classes(tmp_path).place
    with _metadata(obstore.store.LocalStore(place)) as root:
        root["consolidated_metadata"]["metadata"]["kind"]["attributes"][name] = "K"
    with _serving(place) as (url, _):
        page.open_(f"{url}#row=1&show=kind")
        key = page.text("key")

    assert "class" not in key


def test_classes_of_the_files_have_their_colours_and_names(page: Page, land_cover: str) -> None:
    """A palette's black entries are left out of the cube, so what has no colour there is black."""
    with _serving(land_cover) as (url, _):
        page.open_(f"{url}#row=1&show=band_1")
        shown = _canvas(page)
        key = page.text("key")

    classes = cover(1)
    for value, colour in (COVER | {30: "#000000"}).items():
        assert (shown[classes == value, :3] == tuple(bytes.fromhex(colour[1:]))).all()
    assert key == "forestclass 20class 30open water"


def test_first_look_has_the_colours_that_the_files_say(page: Page, tmp_path: Path) -> None:
    """Three bands without names are blue, green and red. The first look mixes them the other way round."""
    with _serving(gathered_bgr(tmp_path).place) as (url, _):
        page.open_(f"{url}#row=1")

        assert page.run("new URLSearchParams(location.hash.slice(1)).get('rgb')") == "band_3,band_2,band_1"


def test_histograms_of_three_bands_lie_inside_their_panel(page: Page, served: _Served) -> None:
    """With a selection, on the screen of a notebook computer, without scrolling the panel."""
    url, _ = served
    page.look(width=1440, height=900)
    page.open_(f"{url}#row=5&part=50,100,9,9", until=CHARTED)

    panel, *histograms = page.run(
        "[document.querySelector('.panel'), ...document.querySelectorAll('.histogram')]"
        ".map((each) => each.getBoundingClientRect().bottom)"
    )
    assert len(histograms) == 3
    assert max(histograms) < panel - 3  # the handles' knobs


@pytest.mark.long
@pytest.mark.parametrize("show", ["show=red", "rgb=red,green,blue", "show=(nir - red) / (nir %2B red)"])
def test_row_is_kept_as_a_geotiff(
    page: Page, served: _Served, valley: str, show: str, tmp_path: Path
) -> None:
    """GDAL reads the pixels of the cube, their place, nodata, time and source."""
    url, _ = served
    page.open_(f"{url}#row=5&{show}")
    (tmp_path / "row.tif").write_bytes(_saved(page, "tif"))

    with rasterio.open(tmp_path / "row.tif") as file, rasterio.open(f"{valley}/../valley_005_red.tif") as own:
        found, bands = file.read(), file.descriptions
        assert (file.crs, file.transform) == (own.crs, own.transform)
        assert file.tags()["time"].startswith("2025-03-20T00:00:00")
        assert file.tags()["href"].startswith("file:///")
        nodata = file.nodata
    if "nir" in show:
        nir, red = (_pixels(valley, band, 5).astype("float64") for band in ("nir", "red"))
        is_valid = (nir != NODATA) & (red != NODATA)
        assert np.isnan(nodata)
        assert (np.isnan(found[0]) == ~is_valid).all()
        assert found[0][is_valid] == pytest.approx(((nir - red) / (nir + red))[is_valid])
    else:
        assert nodata == NODATA
        assert found.dtype == "uint16"
        assert bands == tuple(show.partition("=")[2].split(","))
        for band, pixels in zip(bands, found, strict=True):
            assert (pixels == _pixels(valley, band, 5)).all()


def test_two_rows_are_compared(page: Page, served: _Served, valley: str) -> None:
    """They lie on each other in one stretch, divided where the slider says."""
    url, _ = served
    page.open_(f"{url}#row=3&show=red&map=grey&stretch=fixed&limits=0,4000&compare=6")

    _check(_canvas(page, "other"), _pixels(valley, "red", 6), (0, 4000))
    assert page.text("divider-left") == "2025-02-18"
    assert page.text("divider-right") == "2025-04-04"
    place = "document.getElementById('divider').getBoundingClientRect().left"
    before = page.run(place)
    page.run("document.getElementById('divide').value = 80")
    page.run("document.getElementById('divide').dispatchEvent(new Event('input'))")
    assert page.run(place) > before + 100


def test_handles_of_the_histogram_set_the_stretch(page: Page, served: _Served) -> None:
    """By keys as by the pointer. The link keeps the values."""
    url, _ = served
    page.open_(f"{url}#row=3&show=red&stretch=kept")
    before = _limits(page)
    page.run("document.querySelectorAll('#limits .handle')[1].focus()")
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight")
    page.wait("location.hash.includes('stretch=fixed')")
    after = _limits(page)

    assert after[0] == before[0]
    assert after[1] > before[1]


@pytest.mark.long
def test_first_picture_needs_nothing_but_the_page(page: Page, tmp_path: Path) -> None:
    """It is there before the cube's metadata, where and as the row is shown then."""
    place = gathered_valley(tmp_path, n_rows=3, draws_report=True).place
    with serving_cube(place) as server, _running(server) as (url, asked):
        with _held(server, "/zarr.json"):
            page.open_(url, until="document.getElementById('first')?.complete")
            first = np.array(page.run(_FIRST), dtype="uint8").reshape(SIDE // 2, SIDE // 2, 4)
            box = page.run(_BOX.replace("ID", "first"))
            before = [key for key, _ in asked]
        page.wait("document.documentElement.dataset.state === 'drawn'")
        after, then = page.run(_BOX.replace("ID", "sheet")), _canvas(page)
        is_left = page.run("Boolean(document.getElementById('first'))")
        page.open_(f"{url}#row=1")
        page.open_(f"{url}#row=2")
        later = [key for key, _ in asked[len(before) :]]

    assert "preview.webp" in before
    assert not is_left
    assert later.count("preview.webp") == 0
    left, top, width, height = box
    assert abs(left + width / 2 - after[0] - after[2] / 2) < 1
    assert abs(top + height / 2 - after[1] - after[3] / 2) < 1
    assert abs(min(width, height) - after[3]) < 1
    blocks = then[::2, ::2].astype(int)
    is_valid = (first[..., 3] == 255) & (blocks[..., 3] == 255)
    assert is_valid.mean() > 0.8
    assert np.abs(first.astype(int) - blocks)[is_valid][:, :3].mean() < 15


def test_quicklook_is_shown_until_the_row_is_read(page: Page, short_valley: str) -> None:
    """Before the pixels, the averaged picture comes. What is not read yet does not look like nodata."""
    hatched = "getComputedStyle(document.getElementById('sheet')).backgroundImage !== 'none'"
    with serving_cube(short_valley) as server, _running(server) as (url, _):
        with _held(server, "/c/"):
            page.open_(f"{url}#row=1&show=red&map=grey", until="document.documentElement?.dataset.preview")
            state, was_hatched = page.run(f"[document.documentElement.dataset.state, {hatched}]")
            shown = _canvas(page, "preview")
        page.wait("document.documentElement.dataset.state === 'drawn'")
        left = page.run(f"[document.getElementById('preview').hidden, {hatched}]")

    pixels = _pixels(short_valley, "red", 1)
    assert (state, was_hatched) == ("reading", False)
    assert shown.shape == (SIDE // 2, SIDE // 2, 4)
    blocks = (pixels != NODATA).reshape(SIDE // 2, 2, SIDE // 2, 2).any(axis=(1, 3))
    assert (shown[..., 3] == 255 * blocks).all()
    assert left == [True, True]


@pytest.mark.parametrize("show", ["show=nir&map=grey", "rgb=red,green,blue"])
def test_link_says_where_its_first_picture_is(page: Page, short_valley: str, show: str) -> None:
    """It is asked for beside the metadata, without the directory of all pictures. It is the row's."""
    with serving_cube(short_valley) as server, _running(server) as (url, asked):
        page.open_(f"{url}#row=1&{show}")
        page.wait("location.hash.includes('quick=')")
        link = page.run("location.hash")
        asked.clear()
        with _held(server, "/c/"):
            bands = show.partition("=")[2].partition("&")[0].split(",")
            with _held(server, "/zarr.json"):
                page.open_(f"{url}{link}", until="window.early?.pictures.length")
                page.run("Promise.all(window.early.pictures)")
                before = [each for each in asked if each[0] == "quicklooks.npz"]
            page.wait("document.documentElement.dataset.preview")
            shown = _canvas(page, "preview")
        page.wait("document.documentElement.dataset.state === 'drawn'")
        page.open_(f"{url}#row=2&{show}&stretch=kept&quick={'0' * 12}:0-18431")  # of another version
        page.wait("location.hash.includes('quick=')")
        told = parse_qs(page.run("location.hash").removeprefix("#"))["quick"][0]

    limits = [tuple(map(float, each.split(","))) for each in parse_qs(link[1:])["limits"][0].split(";")]
    assert len(before) == len(bands)
    assert not any(str(range_).startswith("bytes=-") for _, range_ in before)
    with np.load(Path(short_valley) / "quicklooks.npz") as stored:
        for channel, band in enumerate(bands):
            (index,) = np.flatnonzero(stored[f"rows/{band}"] == 1)
            pixels = stored[f"pixels/{band}"][index]
            is_valid = (pixels != NODATA) & (shown[..., 3] == 255)
            assert is_valid.mean() > 0.9
            assert (shown[is_valid][:, channel] == _levels(pixels, limits[channel])[is_valid]).all()
    assert told.partition(":")[0] == parse_qs(link[1:])["quick"][0].partition(":")[0]
    assert told != parse_qs(link[1:])["quick"][0]


def test_formula_begins_with_that_of_averaged_pixels(page: Page, short_valley: str) -> None:
    """Its link says where the pictures of both bands lie."""
    fixed = "show=nir-red&map=grey&stretch=fixed&limits=-1000,1000"
    with serving_cube(short_valley) as server, _running(server) as (url, asked):
        page.open_(f"{url}#row=1&{fixed}")
        page.wait("location.hash.includes('quick=')")
        link = page.run("location.hash")
        asked.clear()
        with _held(server, "/c/"):
            page.open_(f"{url}{link}", until="document.documentElement?.dataset.preview")
            ranges = [str(range_) for key, range_ in asked if key == "quicklooks.npz"]
            state = page.run("document.documentElement.dataset.state")
            shown = _canvas(page, "preview")
        page.wait("document.documentElement.dataset.state === 'drawn'")

    with np.load(Path(short_valley) / "quicklooks.npz") as stored:
        nir, red = (stored[f"pixels/{band}"][stored[f"rows/{band}"] == 1][0] for band in ("nir", "red"))
    is_valid = (nir != NODATA) & (red != NODATA)
    assert state == "reading"
    assert [each.startswith("bytes=-") for each in ranges[:2]] == [False, False]
    assert is_valid.mean() > 0.8
    assert (shown[..., 3] == 255 * is_valid)[is_valid].all()
    levels = _levels(nir.astype(float) - red, (-1000, 1000))
    assert (shown[is_valid][:, 0] == levels[is_valid]).all()


def test_classes_begin_with_their_colours(page: Page, land_cover: str) -> None:
    """Those of the palette. No grey ramp is shown before."""
    with serving_cube(land_cover) as server, _running(server) as (url, _):
        with _held(server, "/c/"):
            page.open_(f"{url}#row=1", until="document.documentElement?.dataset.preview")
            state = page.run("document.documentElement.dataset.state")
            shown = _canvas(page, "preview")
        page.wait("document.documentElement.dataset.state === 'drawn'")

    pixels = cover(1)[::2, ::2]
    assert state == "reading"
    for value, colour in (COVER | {30: "#000000"}).items():
        assert (shown[pixels == value][:, :3] == tuple(bytes.fromhex(colour[1:]))).all()


@pytest.mark.long
def test_busy_store_is_asked_again_and_a_lost_object_is_told(page: Page, tmp_path: Path) -> None:
    """503 is no answer. An object that is not there is not shown as nodata."""
    place = gathered_valley(tmp_path, n_rows=2).place
    (Path(place) / "blue/c/0/0/0").unlink()
    with serving_cube(place) as server, _running(server) as (url, _):
        handler: Any = server.RequestHandlerClass
        handler.n_busy = 2
        page.open_(f"{url}#row=1&show=red&stretch=row")
        shown = _canvas(page)
        page.open_(f"{url}#row=1&show=blue")
        told = page.text("why")

    assert handler.n_busy == 0
    assert (shown[..., 3] == 255 * (_pixels(place, "red", 1) != NODATA)).all()
    assert "The cube's object with these pixels is not there." in told


def test_page_of_100_000_rows_reads_a_chunk_of_each_coordinate(page: Page) -> None:
    """Opening such a cube reads no more than opening a small one. A far row reads its own chunks."""
    with _serving(plain_cube(100_000, dim="time")) as (url, asked):
        page.open_(f"{url}#row=99999&part=3,2,1,1")
        page.wait("document.getElementById('href').textContent === 's3://b/99999.tif'")
        page.wait(CHARTED)

        told = page.text("readout")
        offered = page.text("all")
    assert "pixelcolumn 3, line 2" in told
    assert f"band_1{plain_pixels(np.array([99_999]))[0, 2, 3]}" in told
    assert offered.startswith("Read all rows (3,126 requests")
    coordinates = {key for key, _ in asked if key.split("/")[0] in ("time", "status", "href")}
    assert coordinates == {"time/c/5", "time/c/6", "status/c/5", "status/c/6", "href/c/6"}
    assert len(asked) < 80


def test_page_shows_stacks_that_lie_on_no_map(page: Page) -> None:
    """Without times and a common grid, rows have numbers, and the page says that they lie apart."""
    with _serving(plain_cube(200, dim="source")) as (url, _):
        page.open_(f"{url}#row=199&stretch=row&part=2,3,1,1", until=CHARTED)
        shown, facts, told = _canvas(page), page.text("facts"), page.text("readout")
        label, count = page.text("label"), page.text("count")
    pixels = plain_pixels(np.array([199]))[0]
    assert (shown[..., 0] == _levels(pixels, np.percentile(pixels, [2, 98]))).all()
    assert facts.endswith("rows lie on grids of their own")
    assert "line 3row199band_1" in told
    assert (label, count) == ("Row 199", "of 0 to 199")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["new", "copy"])
def test_months_that_were_joined_have_no_days(
    page: Page, tmp_path: Path, mode: Literal["new", "copy"]
) -> None:
    """Medians of months are of no day, wherever they lie."""
    join([gathered_months(tmp_path).place], to=tmp_path / "joined", mode=mode)
    with serving_cube(tmp_path / "joined") as server, in_thread(server):
        page.open_(server.url)
        label = page.text("label")

    assert label == "2025-01"


def test_page_of_one_row_says_that_it_is_the_only_one(page: Page) -> None:
    """There is no range of rows to name."""
    with _serving(plain_cube(1, dim="source")) as (url, _):
        page.open_(url)
        count, said = page.text("count"), page.run("document.getElementById('row').ariaValueText")

    assert (count, said) == ("the only row", "Row 0, the only row")


def test_page_names_a_file_as_people_do(page: Page, tmp_path: Path) -> None:
    """Its address is percent-encoded. So is that of a selected pixel's source."""
    file = tmp_path / "100% rain f\u00fcr.tif"
    file.write_bytes(FILES[0].read_bytes())
    gather_undrawn({"sources": [str(file)], "window": {"pixels": [0, 0, 8, 8]}}, to=tmp_path / "one.zarr")
    with _serving(str(tmp_path / "one.zarr")) as (url, _):
        page.open_(f"{url}#part=1,1,1,1", until=CHARTED)
        page.wait("document.getElementById('href').textContent")
        page.wait("document.querySelector('#readout code').textContent.endsWith('.tif')")
        shown = [page.text("href"), *page.texts("#readout code")]

    assert shown == 2 * [f"file://{tmp_path}/100%25 rain f\u00fcr.tif"]


@pytest.mark.parametrize("width", [390, 1200])
def test_page_has_room_for_a_long_name(page: Page, tmp_path: Path, width: int) -> None:
    """In the title, the legends and the table of a pixel."""
    rows = [{"href": str(each), "band": "a_name_" * 10, "scene": str(n)} for n, each in enumerate(FILES[:2])]
    request = {"sources": {"rows": rows}, "window": {"pixels": [0, 0, 16, 16]}}
    gather_undrawn(request, to=tmp_path / "long.zarr")
    with _serving(str(tmp_path / "long.zarr")) as (url, _):
        page.look(width=width, height=844)
        page.open_(f"{url}#part=1,1,1,1", until=CHARTED)

        assert not faults(page)


def test_page_has_no_colour_bar_without_a_valid_pixel(page: Page) -> None:
    """It would have no ends."""
    store = plain_cube(64, dim="source", dtype="float32")
    pixels: Any = zarr.open_group(ObjectStore(store))["band_1"]
    pixels[...] = np.nan
    with _serving(store) as (url, _):
        page.open_(url)

        assert page.text("key") == "band_1no data"
        assert not page.run("document.querySelector('#key .bar')")


def test_page_has_no_colour_bar_of_one_value(page: Page) -> None:
    """The legend is the value."""
    store = plain_cube(64, dim="source", dtype="float32")
    pixels: Any = zarr.open_group(ObjectStore(store))["band_1"]
    pixels[...] = 7.5
    with _serving(store) as (url, _):
        page.open_(url)

        assert page.texts("#key > span") == ["band_1", "7.5"]
        assert not page.run("document.querySelector('#key .bar')")


def test_page_counts_one_row_and_gives_width_before_height(page: Page, tmp_path: Path) -> None:
    """Requests and messages have the same order. Nothing steps through one row."""
    gather_undrawn(
        {"sources": [str(FILES[0])], "window": {"pixels": [0, 0, 40, 30]}}, to=tmp_path / "one.zarr"
    )
    with _serving(str(tmp_path / "one.zarr")) as (url, _):
        page.open_(url)
        facts = page.text("facts")
        are_seen = page.run(
            "['row', 'play', 'skips'].map((each) => document.getElementById(each).checkVisibility())"
        )

    assert are_seen == [False, False, False]
    assert facts.startswith("1 row · 40 \u00d7 30 pixels of ")


def test_page_names_every_type_of_pixels(page: Page, tmp_path: Path) -> None:
    """Colours and classes of one cube differ in it."""
    with _serving(gathered_scenes(tmp_path, n_rows=1).place) as (url, _):
        page.open_(url)

        assert "192 \u00d7 192 pixels of uint16, uint8" in page.text("facts")


def test_page_tells_no_place_by_a_box_around_a_pole(page: Page) -> None:
    """Instead of the edge of such a window, its record has four corners of a box around the Earth."""
    store = plain_cube(64, dim="source")
    with _metadata(store) as root:
        root["attributes"]["spatial:transform"] = [10_000, 0, -80_000, 0, -10_000, 80_000]
        root["attributes"]["pixel_gather_window"] = [[-180, 85.8], [180, 85.8], [180, 90], [-180, 90]]
    with _serving(store) as (url, _):
        page.open_(f"{url}#part=8,8,1,1", until=CHARTED)
        told = page.text("readout")
        on_map = page.run("['north', 'scale'].map((each) => document.getElementById(each).checkVisibility())")

    assert "on the map5000, -5000" in told
    assert "longitude" not in told
    assert on_map == [False, False]


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ([10, 0, 0, 0, -10, 0], "on one grid"),
        ([10, 0, 0, 0, 10, 0], "on one grid · the first line is the south"),
        ([8.66, 5, 0, 5, -8.66, 0], "on one grid · north is 30 degrees to the right"),
        ([8.66, -5, 0, -5, -8.66, 0], "on one grid · north is 30 degrees to the left"),
    ],
)
def test_page_says_where_north_is(page: Page, transform: list[float], said: str) -> None:
    """Rows are shown as stored. The words are those of the report."""
    store = plain_cube(64, dim="source")
    with _metadata(store) as root:
        root["attributes"]["spatial:transform"] = transform
    with _serving(store) as (url, _):
        page.open_(url)
        facts = page.text("facts")

    assert facts.endswith(f" · {said}")
    assert said.removeprefix("on one grid").removeprefix(" · ") == north_in_words(Transform(*transform))


_X_TICKS, _Y_TICKS = "#chart .x.tick", "#chart .y.tick"


def test_dates_of_a_narrow_chart_are_beginnings_of_years(page: Page) -> None:
    """Where there is room for two dates, they are no days in the middle of a month."""
    store = plain_cube(64, dim="time")
    times: Any = zarr.open_group(ObjectStore(store), mode="r+")["time"]
    first = np.datetime64("2018-01-03", "us").astype("int64")
    times[...] = first + np.arange(64) * 28 * 86_400_000_000
    page.look(width=390, height=844)
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=3&part=2,3,1,1", until=CHARTED)
        dates, told = page.texts(_X_TICKS), page.text("extent")
    page.look(width=1200, height=900)

    assert dates == ["2020", "2022"]
    assert told == "All 64 rows are in the chart. Click it to go to a row."


def test_chart_of_one_row_has_its_year(page: Page) -> None:
    """One row is not "all 1 rows", and its date is whole."""
    store = plain_cube(1, dim="time")
    with _serving(store) as (url, _):
        page.open_(f"{url}#part=2,3,1,1", until=CHARTED)
        dates, told = page.texts(_X_TICKS), page.text("extent")

    assert dates == ["2020-01-01"]
    assert told == "The chart holds the only row."


def test_infinite_pixels_have_no_place_on_a_scale(page: Page) -> None:
    """The others keep theirs. Very large numbers have an exponent, so that they are not cut off."""
    store = plain_cube(3, dim="source", dtype="float32")
    pixels: Any = zarr.open_group(ObjectStore(store), mode="r+")["band_1"]
    pixels[...] = np.linspace(1e20, 4e20, 3, dtype="float32")[:, None, None] + np.zeros((16, 16), "float32")
    pixels[:, :2] = np.inf
    pixels[:, 2:4] = -np.inf
    pixels[1] = np.inf
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=0&part=2,9,1,1", until=CHARTED)
        ends = page.texts("#limits .ends span")
        ticks = page.texts(_Y_TICKS)
        paths = page.run("[...document.querySelectorAll('#app path')].map((each) => each.getAttribute('d'))")

    assert ends == ["1e+20", "4e+20"]
    assert ticks == ["1e+20", "2e+20", "3e+20", "4e+20"]
    assert not [each for each in paths if "NaN" in each or "Infinity" in each]


def test_large_whole_numbers_are_told_to_the_last_digit(page: Page) -> None:
    """So are those of 64 bits, as far as a browser has them."""
    store = plain_cube(64, dim="source")
    pixels: Any = zarr.open_group(ObjectStore(store), mode="r+")["band_1"]
    pixels[...] = 1_234_567_890_123_456
    with _serving(store) as (url, _):
        page.open_(f"{url}#part=2,9,1,1", until=CHARTED)

        assert "band_11234567890123456status" in page.text("readout")


def test_handles_of_tiny_values_are_valid_sliders(page: Page) -> None:
    """The numbers of a slider have no exponent. Its text has the value."""
    store = plain_cube(64, dim="source", dtype="float32")
    pixels: Any = zarr.open_group(ObjectStore(store), mode="r+")["band_1"]
    pixels[...] = np.linspace(1e-12, 2e-12, 64 * 256, dtype="float32").reshape(64, 16, 16)
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=0&stretch=row")
        told = page.run(
            "[...document.querySelectorAll('.handle')].map((each) => [each.ariaValueNow, each.ariaValueText])"
        )

        assert violations(page) == []
    assert [each.isdigit() for each, _ in told] == [True, True]
    assert [text[-4:] for _, text in told] == ["e-12", "e-12"]


def test_labels_of_a_narrow_chart_are_whole_and_apart(page: Page) -> None:
    """Long values have room on the left. A date that would lie on another one is left out."""
    store = plain_cube(4, dim="time")
    opened: Any = zarr.open_group(ObjectStore(store), mode="r+")
    opened["time"][...] = 1_577_836_800_000_000 + np.arange(4) * 10 * 86_400_000_000
    opened["band_1"][...] = np.full((4, 16, 16), 1_700_000_000) + np.arange(4)[:, None, None]
    page.look(width=360, height=740)
    with _serving(store) as (url, _):
        page.open_(f"{url}#part=2,3,1,1", until=CHARTED)
        left, *lefts = page.run(
            "[document.getElementById('chart'), ...document.querySelectorAll('#chart .y.tick')]"
            ".map((each) => each.getBoundingClientRect().left)"
        )
        found = faults(page)
        page.look(width=1200, height=900)

    assert len(lefts) > 1
    assert min(lefts) >= left
    assert found == []


def test_numbers_of_an_axis_differ(page: Page) -> None:
    """Large values that hardly differ take more digits, on the chart and at the colour bar."""
    store = plain_cube(64, dim="source", dtype="float64")
    pixels: Any = zarr.open_group(ObjectStore(store), mode="r+")["band_1"]
    pixels[...] = np.linspace(9559, 9560, 64)[:, None, None] + np.zeros((16, 16))
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=3&part=2,3,1,1", until=CHARTED)
        ticks = page.texts(_Y_TICKS)
        ends = page.texts("#limits .ends span")

    assert ticks == ["9,559.0", "9,559.5", "9,560.0"]
    assert ends == ["9,559.0", "9,559.1"]


def test_values_have_their_scale_and_unit_everywhere(page: Page) -> None:
    """Chart, colour bar, readout and table tell what stored values mean. No digit is finer than the scale."""
    store = plain_cube(64, dim="source", dtype="uint16")
    with _metadata(store) as root:
        said = root["consolidated_metadata"]["metadata"]["band_1"]["attributes"]
        said |= {"scale_factor": 0.02, "add_offset": -10.5, "units": "K"}
    with _serving(store) as (url, _):
        page.open_(f"{url}#row=3&part=2,3,1,1&stretch=fixed&limits=3000,3250&map=grey", until=CHARTED)
        ticks = page.texts("#chart .tick")
        ends = page.run("[...document.querySelectorAll('#limits input')].map((each) => each.value)")
        key, told = page.text("key"), page.text("readout")
        shown = _canvas(page)
        table = _saved(page, "csv").decode().splitlines()
        page.run(
            "(() => { const end = document.querySelectorAll('#limits input')[1];"
            "end.value = 55.5; end.dispatchEvent(new Event('change')); })()"
        )
        page.wait("location.hash.includes('3300')")
        page.open_(f"{url}#row=3&part=0,0,16,16", until=CHARTED)
        of_part = page.text("readout")

    pixels = plain_pixels(np.array([3]))[0]
    assert (shown[..., 0] == _levels(pixels, (3000, 3250))).all()
    assert key == "band_1, K49.554.5"
    assert ends == ["49.5", "54.5"]
    assert "K" in ticks
    assert "1,000" in ticks  # of 63,050 as stored
    value = round(0.02 * int(pixels[3, 2]) - 10.5, 2)
    assert f"band_1{value} K (stored {pixels[3, 2]})" in told
    assert float(table[4].split(",")[2]) == pytest.approx(value)
    mean = pixels.mean()
    assert f"mean {0.02 * mean - 10.5:.4g} K (stored {mean:,.0f})" in of_part
    assert (
        f"standard deviation {0.02 * pixels.std():.4g}, {0.02 * 3000 - 10.5:g} to {0.02 * 3255 - 10.5:g}"
        in of_part
    )


@pytest.mark.parametrize(
    ("codec", "dtype"),
    [("blosc-zstd", "uint8"), ("zstd", "int16"), ("none", "float64"), ("blosc-lz4", "float32")],
)
def test_page_reads_every_lossless_codec(page: Page, codec: str, dtype: str) -> None:
    """Of every codec that a request may name, and several dtypes."""
    with _serving(plain_cube(100, dim="source", dtype=dtype, codec=codec)) as (url, _):
        page.open_(f"{url}#row=70&stretch=row")
        shown = _canvas(page)

    pixels = plain_pixels(np.array([70]))[0].astype(dtype)
    assert (shown[..., 0] == _levels(pixels, np.percentile(pixels, [2, 98]))).all()


def test_page_reads_tiles_that_were_passed_on(page: Page, tmp_path: Path) -> None:
    """Chunks may be the sources' own deflated tiles."""
    place = gathered_valley(tmp_path, n_rows=2, output={"codec": "source"}).place
    with _serving(place) as (url, _):
        page.open_(f"{url}#row=1&show=blue&stretch=row")
        shown = _canvas(page)

    pixels = _pixels(place, "blue", 1)
    _check(shown, pixels, _of(pixels))


@pytest.mark.long
def test_joined_cubes_begin_with_the_first_picture_of_the_first(page: Page, joined: Path) -> None:
    """It is there before the metadata, as for a cube of its own. A virtual cube has none."""
    with serving_cube(joined / "both.icechunk") as server, _running(server) as (url, _):
        with _held(server, "/zarr.json"):
            page.open_(url, until="document.getElementById('first')?.complete")
            first = np.array(page.run(_FIRST), dtype="uint8").reshape(SIDE // 2, SIDE // 2, 4)
        page.wait("document.documentElement.dataset.state === 'drawn'")
        then = _canvas(page)[::2, ::2]

    both = (first[..., 3] == 255) & (then[..., 3] == 255)
    assert both.mean() > 0.8
    assert np.abs(first.astype(int) - then)[both][:, :3].mean() < 15


def test_page_shows_joined_cubes(page: Page, joined: Path) -> None:
    """Two cubes become one, and a row of the second is that cube's. Shards are read where they are."""
    with _serving(joined / "both.icechunk") as (url, _):
        page.open_(f"{url}#row=3&show=green&stretch=row&part=20,90,1,1", until=CHARTED)
        page.wait("document.getElementById('href').textContent.endsWith('b/valley_001_green.tif')")
        shown, told = _canvas(page), page.text("readout")
        on_map = page.run("['north', 'scale'].map((each) => document.getElementById(each).checkVisibility())")

    pixels = _pixels(str(joined / "b/valley.zarr"), "green", 1)
    _check(shown, pixels, _of(pixels))
    assert f"green{pixels[90, 20]}status" in told
    assert on_map == [True, True]
    assert "longitude, latitude11.29" in told


@pytest.mark.long
def test_page_shows_a_virtual_cube(page: Page, valley: str, tmp_path: Path) -> None:
    """Its chunks are tiles of the sources. The file that is missing has a row without pixels."""
    request = {"sources": str(Path(valley).parent / "sources.csv"), "window": {"pixels": [0, 0, SIDE, SIDE]}}
    make_virtual(request, to=tmp_path / "virtual.icechunk")
    with _serving(tmp_path / "virtual.icechunk") as (url, _):
        page.open_(f"{url}#row=5&show=blue&stretch=row")
        shown = _canvas(page)
        page.open_(f"{url}#row={MISSING}&show=nir")
        missing = _canvas(page)

    pixels = _pixels(valley, "blue", 5)
    _check(shown, pixels, _of(pixels))
    assert (missing[..., 3] == 0).all()


_PICTURE = base64.b64decode("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA=")


@pytest.mark.parametrize(
    ("codec", "dtype", "said"),
    [("zfp", "float32", "is compressed by imagecodecs_zfp"), ("none", "complex64", "has complex numbers")],
)
def test_page_says_what_it_cannot_show(page: Page, codec: str, dtype: str, said: str) -> None:
    """Nothing is drawn, nor is the first picture left, which would have no legend.

    The reason stands on the page, also below the chart after a selection.
    """
    store = plain_cube(100, dim="source", dtype=dtype, codec=codec)
    obstore.put(store, "preview.webp", _PICTURE)
    with _serving(store) as (url, _):
        page.open_(url)
        assert f"band_1 {said}" in page.text("message")
        assert not page.run("Boolean(document.getElementById('first'))")

        page.open_(f"{url}#row=1&part=2,3,1,1")
        page.wait("document.documentElement.dataset.series === 'failed'")
        told = page.text("extent")
        assert told.startswith(f"No row is read. band_1 {said}")
        assert f"band_1 {said}" in page.text("message")
        assert ("pixel_gather.open_cube" in told) == (codec == "zfp")


def test_page_says_that_a_gather_still_runs(page: Page) -> None:
    """And no longer that it reads the cube."""
    store = plain_cube(64, dim="source")
    with _metadata(store) as root:
        del root["consolidated_metadata"]
    with _serving(store) as (url, _):
        page.open_(url)

        assert page.text("message").startswith("The cube beside this page is not finished.")
        assert not page.run("document.getElementById('facts').checkVisibility()")


def test_page_refuses_chunks_of_gigabytes(page: Page) -> None:
    """Anybody may have written the cube. Nothing is read of such an array."""
    store = plain_cube(100, dim="source")
    with _metadata(store) as root:
        codec = root["consolidated_metadata"]["metadata"]["band_1"]["codecs"][0]
        codec["configuration"]["chunk_shape"] = [64, 4096, 4096]
    with _serving(store) as (url, asked):
        page.open_(url)
        said = page.text("message")

    assert "band_1 has chunks of 8,192 MiB. This page reads chunks of at most 256 MiB." in said
    assert not [key for key, _ in asked if key.startswith("band_1/c")]


@pytest.mark.long
def test_page_from_a_folder_names_the_command(page: Page, valley: str) -> None:
    """Browsers refuse such a page its files. It says what to run instead."""
    copy = Path(valley) / "view.html"
    copy.write_bytes(view_page())
    page.open_(copy.as_uri())

    assert f"pixel-gather view '{valley}'" in page.text("message")


def _places(page: Page, *pixels: tuple[int, int]) -> list[tuple[float, float]]:
    """Return where the centres of pixels are in the tab, in CSS pixels."""
    left, top, width = page.run(
        "(({ left, top, width }) => [left, top, width])"
        "(document.getElementById('sheet').getBoundingClientRect())"
    )
    return [(left + (x + 0.5) * width / SIDE, top + (y + 0.5) * width / SIDE) for x, y in pixels]


def _drag(page: Page, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Click a pixel, or draw a rectangle with Shift, and wait for the series."""
    pressed, released = _places(page, start, end)
    shift = {"modifiers": 0 if start == end else _SHIFT}
    for kind, (x, y) in (("mousePressed", pressed), ("mouseMoved", released), ("mouseReleased", released)):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **_LEFT, **shift)
    page.wait(CHARTED)
