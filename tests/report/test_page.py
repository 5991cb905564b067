"""The page is complete, loads nothing and escapes all text."""

import base64
import io
import json
import re
from collections.abc import Sequence
from copy import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obstore.store import LocalStore
from PIL import Image as Pillow

from pixel_gather.core.results.report_content import Evidence, MaskedQuicklooks, names_apart
from pixel_gather.core.results.run_table import run_columns
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.report.page import comparison_of, page_of
from pixel_gather.features.report.page.window_views import views_of
from pixel_gather.io.pictures.pictures import make_film
from pixel_gather.io.pictures.stretch import Stretch, common_stretches, number_in_words
from pixel_gather.io.pictures.theme import LIGHT
from pixel_gather_bench.figures.draw import draw_figures
from pixel_gather_bench.figures.look import make_plots
from support.images import TILES_OF_64, write_image
from support.report_cubes import REPORT, MadeCube
from support.undrawn import gather_undrawn

HOSTILE = "s3://b/\"><script>alert(1)</script>'<img src=x onerror=alert(2)>{{ 7 * 7 }}.tif"
LOADING = ("src", "href", "xlink:href", "srcset", "action", "data", "poster", "formaction")


class Reader(HTMLParser):
    """Records every element with its attributes, and the text of headings."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.headings: list[str] = []
        self._in_heading = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._in_heading = tag in ("h1", "h2")

    def handle_data(self, data: str) -> None:
        """Record the text of a heading."""
        if self._in_heading and data.strip():
            self.headings.append(data.strip())
            self._in_heading = False

    def of(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def evidence_of(cube: MadeCube, place: str = "/out/cube.zarr") -> Evidence:
    """Return the evidence of a made cube."""
    return read_evidence(cube.stored(), place=place)


def page_with(evidence: Evidence, *, draws: bool = False) -> str:
    """Return the page of a gather. Drawing takes a second."""
    plots = make_plots(draw_figures([evidence.run], with_published=False, theme=LIGHT)) if draws else ()
    columns = run_columns([evidence.run], with_published=False)
    return page_of(evidence, columns=columns, plots=plots, findings=("Opening took <b>time</b>.",))


def looks(pixels: Any, nodata: Sequence[float] = ()) -> MaskedQuicklooks:
    """Return pixels as quicklooks."""
    array = np.asarray(pixels)
    is_valid = ~np.isin(array, nodata) & np.isfinite(array)
    return MaskedQuicklooks(
        measurement="a", rows=np.arange(len(array)), pixels=array, is_valid=is_valid, step=1
    )


@pytest.mark.long
def test_page_has_every_section_in_its_order() -> None:
    """Sections without content are there, too."""
    page = Reader(page_with(evidence_of(MadeCube()), draws=True))

    assert page.headings == [
        "cube",
        "Windows",
        "Coverage through time",
        "Values",
        "The request, to repeat it",
    ]
    assert len(page.of("svg")) >= 4
    assert len(page.of("img")) == 10
    assert all(image["alt"] for image in page.of("img"))


def test_page_links_to_the_page_of_all_pixels() -> None:
    """Only if that lies beside it."""
    evidence = evidence_of(MadeCube(has_quicklooks=False))
    columns = run_columns([evidence.run], with_published=False)

    page = page_of(evidence, columns=columns, findings=(), viewer="view.html")

    assert {"href": "view.html"} in Reader(page).of("a")
    assert {"href": "view.html"} not in Reader(page_with(evidence)).of("a")


def test_page_has_a_map_if_the_cube_has_a_place_on_the_earth() -> None:
    """The page of a cube without a place has no map."""
    ring = [[11, 46], [12, 46], [12, 47], [11, 47]]
    placed = page_with(evidence_of(MadeCube(footprints={"window": ring, "sources": [ring]})))

    assert {"class": "map"} in Reader(placed).of("figure")
    assert 'class="map"' not in page_with(evidence_of(MadeCube()))


def test_comparison_has_one_map_of_all_cubes_that_have_a_place() -> None:
    """A cube without one, and runs of benchmarks, are not on it."""
    rings = [[[west, 46], [west + 1, 46], [west + 1, 47], [west, 47]] for west in (11, 14)]
    cubes = [MadeCube(footprints={"window": ring, "sources": [ring]}) for ring in rings]
    evidences = [evidence_of(each) for each in (*cubes, MadeCube())]

    html = comparison_of(evidences, title="three", columns=(), findings=())

    page = Reader(html)
    assert page.of("figure").count({"class": "map"}) == 1
    assert "Orange: 2 different windows of 2 cubes. Blue: 2 footprints of some of their sources." in html
    assert 'class="map"' not in comparison_of(evidences[2:], title="one", columns=(), findings=())


@pytest.mark.long
def test_page_loads_nothing_from_outside() -> None:
    """Images are embedded, links are internal, and the content policy forbids everything else."""
    page = Reader(page_with(evidence_of(MadeCube()), draws=True))

    loaded = [
        value for _, attributes in page.elements for name, value in attributes.items() if name in LOADING
    ]
    assert loaded
    assert all(value.startswith(("data:image/", "#")) for value in loaded)
    assert not page.of("link")
    (policy,) = (each["content"] for each in page.of("meta") if "http-equiv" in each)
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", policy)
    assert "url(http" not in page_with(evidence_of(MadeCube()))


@pytest.mark.long
def test_page_escapes_what_comes_from_lists_and_requests() -> None:
    """Hrefs, reasons and warnings can be any text, and are escaped everywhere."""
    cube = MadeCube(
        hrefs=dict.fromkeys(range(10), HOSTILE),
        failed=frozenset({4}),
        report=replace(REPORT, warnings=(HOSTILE,)),
        request={"sources": {"hrefs": [HOSTILE]}, "window": {"tile": HOSTILE}},
    )

    html = page_with(evidence_of(cube, place=f"/out/{HOSTILE}"), draws=True)

    page = Reader(html)
    assert len(page.of("script")) == 2
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert not any(image["src"] == "x" for image in page.of("img"))
    assert "{{ 7 * 7 }}" in html
    assert html.count("<script>") == 1
    saves = [each for each in page.of("button") if "save-" in each.get("class", "")]
    figures = [each for each in page.of("figure") if each.get("id", "").startswith("figure-")]
    assert [each["class"] for each in saves].count("save-figure") == len(figures)
    assert all(
        "hidden" in each for each in saves
    )  # a page without JavaScript has no button that does nothing


def test_page_says_where_north_is_if_it_is_not_above() -> None:
    """Windows are shown as stored. Of most sources nothing is said."""
    evidence = evidence_of(MadeCube())

    assert "shown as stored" not in page_with(evidence)
    turned = page_with(replace(evidence, north="the first line is the south"))
    assert "Windows are shown as stored: the first line is the south." in turned


def test_page_without_pictures_says_so_in_one_sentence() -> None:
    """There is neither an empty sheet nor a slider without frames."""
    html = page_with(evidence_of(MadeCube(has_quicklooks=False)))

    page = Reader(html)
    assert "The windows are not shown: the cube has no quicklooks." in html
    assert not page.of("img")
    assert not page.of("input")


@pytest.mark.parametrize(
    ("n_read", "shape", "why"),
    [(0, (10, 1, 1), "none was read"), (10, (10, 9, 7), "a side has fewer than 8 pixels")],
)
def test_page_says_why_it_has_no_pictures(n_read: int, shape: tuple[int, int, int], why: str) -> None:
    """One reason, not two that may hold."""
    evidence = evidence_of(MadeCube(has_quicklooks=False))
    report = replace(evidence.report, status_counts={"ok": n_read}, shape=shape)

    html = page_with(replace(evidence, report=report))

    assert f"The windows are not shown: {why}." in html


def test_page_of_a_gather_that_read_nothing_says_nothing_of_its_grid() -> None:
    """The files may say where they lie. Nobody could read it."""
    evidence = evidence_of(MadeCube(failed=frozenset(range(10))))
    html = page_with(replace(evidence, report=replace(evidence.report, is_aligned=False)))

    assert "no georeference" not in html
    assert "its own grid" not in html


@pytest.mark.parametrize(
    ("n_rows", "few", "film"), [(300, "24 of 300 rows, spread evenly; ", "239 of 300"), (24, "", "24 of 24")]
)
def test_page_says_how_many_rows_it_shows(n_rows: int, few: str, film: str) -> None:
    """A reader of 24 pictures may think that the cube has no more."""
    html = page_with(evidence_of(MadeCube(n_rows=n_rows)))

    assert ("spread evenly" in html) == bool(few)
    assert f'<span class="note">{few}percentiles' in html
    assert f"One by one, {film} rows" in html


def test_page_of_a_cube_that_has_grown_says_whose_pictures_it_shows(tmp_path: Path) -> None:
    """They are of the first gather, and so are the histograms. No row of a later one stands among them."""
    rows = []
    for day in range(1, 7):
        pixels = np.add.outer(np.arange(64), np.arange(64)).astype("uint16") + day
        file = tmp_path / f"{day}.tif"
        rows.append({"href": str(file), "time": f"2024-01-0{day}"})
        if day != 6:  # it is missing
            write_image(file, pixels, nodata=None, **TILES_OF_64)
    request: dict[str, Any] = {"sources": {"rows": rows[:3]}, "window": {"pixels": [0, 0, 64, 64]}}
    place = gather_undrawn(request, to=tmp_path / "x.zarr").place
    gather_undrawn(request | {"sources": {"rows": rows[3:]}, "output": {"append_to": place}})
    evidence = read_evidence(LocalStore(place), place=place)
    html = page_with(evidence)

    assert [each.label for each in evidence.looks[0].contact_sheet] == [f"2024-01-0{n}" for n in (1, 2, 3)]
    assert '<span class="note">3 of 6 rows, of the first gather; percentiles' in html
    assert "One by one, 3 of 6 rows, of the first gather<" in html
    assert "Histograms are of the quicklooks&#39; pixels, which are of the first gather." in html


@pytest.mark.parametrize(("reduce", "kind"), [(None, "source"), ({"by": "month"}, "row")])
def test_page_says_what_the_slowest_are(reduce: Any, kind: str) -> None:
    """The times and bytes of a row that is reduced are those of several sources."""
    evidence = evidence_of(MadeCube())
    html = page_with(replace(evidence, request={**evidence.request, "reduce": reduce}))

    assert f"<h3>Slowest {kind}s</h3>" in html
    assert f'<th scope="col">{kind}</th><th scope="col">total, ms' in html


def test_page_groups_failures_and_counts_the_hrefs_that_it_leaves_out() -> None:
    """The first twenty hrefs of a cause are named."""
    html = page_with(evidence_of(MadeCube(n_rows=100, failed=frozenset(range(30)))))

    assert "70 read, 30 failed (30 missing)" in html
    assert "<strong>30 were not there</strong>: no such object" in html
    assert html.count("<li><code>s3://b/") == 20
    assert "and 10 more" in html


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["/a/one.zarr", "s3://b/two/"], ["one", "two"]),
        (["/a/cold/cube.zarr", "/a/warm/cube.zarr", "/a/x.zarr"], ["cold/cube", "warm/cube", "x"]),
        (["/a/b/cube", "/c/b/cube"], ["a/b/cube", "c/b/cube"]),
        (["/a/cube", "/a/cube"], ["cube", "cube"]),
        (["cube", "/a/cube"], ["cube", "a/cube"]),
    ],
)
def test_cubes_side_by_side_have_names_of_their_own(places: list[str], names: list[str]) -> None:
    """As short as may be. A cube that is given twice has its name."""
    assert names_apart(places) == names


def test_page_names_files_as_people_do() -> None:
    """In failures, in the film and among the slowest. The request keeps what was written."""
    hrefs = dict.fromkeys(range(4), "file:///a/rain%20f%C3%BCr.tif")
    html = page_with(evidence_of(MadeCube(n_rows=4, failed=frozenset({1}), hrefs=hrefs)))

    assert html.count("file:///a/rain f\u00fcr.tif") > 8
    assert "rain%20" not in html


def test_page_names_few_of_very_many_hrefs_of_a_request() -> None:
    """The page stays small. report.json has all hrefs."""
    request = {"sources": [f"s3://bucket/folder/{n:06}.tif" for n in range(50_000)], "window": "centre"}

    html = page_with(evidence_of(MadeCube(request=request)))

    assert len(html) < 200_000
    assert "and 49,980 more" in html
    assert "report.json" in html


@pytest.mark.long
def test_page_of_a_hundred_thousand_sources_stays_small() -> None:
    """This holds with all figures and the largest number of quicklooks."""
    html = page_with(evidence_of(MadeCube(n_rows=100_000, shard=(1000, 16, 32))), draws=True)

    captions = re.search(r'class="captions">(.*?)</script>', html, re.DOTALL)
    assert len(html) < 4_000_000
    assert captions is not None
    assert len(json.loads(captions[1])) == 239


def test_page_of_a_gather_that_read_nothing_is_whole() -> None:
    """The page has the failures and no empty figure."""
    html = page_with(evidence_of(MadeCube(n_rows=3, failed=frozenset(range(3)))), draws=True)

    assert "0 read, 3 failed (3 missing)" in html
    assert "No source was read" in html


def test_comparison_has_a_column_for_each_run_and_the_sheets_of_cubes() -> None:
    """Published columns come last. There is no slider."""
    two = [evidence_of(MadeCube(), f"/out/{name}.zarr") for name in ("cold", "warm")]
    runs = [each.run for each in two]

    columns = run_columns(runs, with_published=True)
    html = comparison_of(two, title="two", columns=columns, findings=("one",))

    page = Reader(html)
    heads = [each["title"] for each in page.of("th") if each.get("scope") == "col"]
    assert heads == ["cold", "warm", "2018, 1 thread", "2018, 49 threads"]
    assert len(page.of("img")) == 2 * 10
    assert not page.of("input")
    assert "<li>one</li>" in html


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "left"), [(2, None), (13, "1 more cube is left out here."), (14, "2 more cubes")]
)
def test_comparison_tells_of_cubes_without_pictures(n: int, left: str | None) -> None:
    """They are not left out without a word."""
    made = [evidence_of(MadeCube(has_quicklooks=False), f"/out/small {number}.zarr") for number in range(n)]
    columns = run_columns([each.run for each in made], with_published=False)

    html = comparison_of(made, title="small", columns=columns, findings=())

    assert html.count("The windows are not shown: the cube has no quicklooks.") == min(n, 12)
    assert "10 dates, " in html
    assert ("left out here" in html) == (left is not None)
    assert left is None or left in html


@pytest.mark.parametrize(
    ("pixels", "nodata", "limits"),
    [
        (np.arange(1000, dtype="uint16").reshape(1, 25, 40), (), (19.98, 979.02)),
        (np.full((1, 8, 8), 7, "int8"), (), (7, 7)),
        (np.array([[[0.0, np.nan], [1.0, np.inf]]], "float32"), (), (0.02, 0.98)),
        (np.array([[[3 + 4j, 0], [0, 0]]], "complex64"), (), (0, 4.7)),
        (np.array([[[True, False], [False, False]]]), (), (0, 0.94)),
        (np.array([[[5, 5], [5, 9]]]), (5, 9), (0, 0)),
        (np.repeat(np.array([0, 9]), [999, 1]).reshape(1, 25, 40), (), (0, 9)),
    ],
    ids=["ramp", "constant", "not finite", "complex", "bool", "nothing valid", "nearly constant"],
)
def test_stretch_takes_any_pixels(pixels: Any, nodata: Sequence[float], limits: tuple[float, float]) -> None:
    """The stretch is by percentiles of the valid pixels, wider if they are equal.

    All stretches have grey values.
    """
    given = looks(pixels, nodata)

    stretch = Stretch.of(given.pixels, given.is_valid)

    assert (stretch.low, stretch.high) == pytest.approx(limits, abs=0.01)
    assert stretch.to_greys(given.pixels).dtype == np.uint8
    assert stretch.words


def _days(n_cloudy: int) -> tuple[Any, Any]:
    """Return eight days of land from 200 to 900. Clouds of 5,000 to 9,000 take an eighth of some of them."""
    random = np.random.default_rng(5)
    pixels = random.integers(200, 900, (8, 32, 32)).astype("uint16")
    pixels[:n_cloudy, :4] = random.integers(5000, 9000, (n_cloudy, 4, 32))
    return pixels, np.ones(pixels.shape, dtype=bool)


@pytest.mark.parametrize("n_measurements", [1, 3])
@pytest.mark.parametrize("n_cloudy", [0, 2, 6, 8])
def test_clouds_do_not_make_the_land_dark(n_cloudy: int, n_measurements: int) -> None:
    """The land takes the whole range, in greys and in colour, also if all windows have clouds."""
    pixels, is_valid = _days(n_cloudy)

    found = common_stretches([pixels] * n_measurements, [is_valid] * n_measurements)

    assert {(each.low, each.high) for each in found} == {(found[0].low, found[0].high)}
    assert found[0].low == pytest.approx(214, abs=5)
    assert found[0].high == pytest.approx(886, abs=5)
    assert ("clear part" in found[0].words) == (n_cloudy > 0)


def test_a_single_picture_under_clouds_is_not_black() -> None:
    """Clouds may cover half of it."""
    pixels, is_valid = _days(0)
    pixels[0, :16] = 7000

    found = Stretch.of(pixels[:1], is_valid[:1])

    assert found.high == pytest.approx(886, abs=5)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_a_single_measurement_keeps_the_range_of_all_its_windows(dtype: str) -> None:
    """A warm summer is no cloud: what one measurement has is not cut off."""
    pixels = np.linspace(-20, 30, 12)[:, None, None] + np.random.default_rng(1).normal(0, 1, (12, 16, 16))
    pixels = (100 * pixels).astype(dtype)

    (found,) = common_stretches([pixels], [np.ones(pixels.shape, dtype=bool)])

    assert (found.low, found.high) == pytest.approx(np.percentile(pixels, [2, 98]))


def test_a_stretch_of_nothing_is_no_value() -> None:
    """A picture without a valid pixel is not one of zeros."""
    nothing = Stretch.of(np.zeros((4, 4), "uint8"), np.zeros((4, 4), dtype=bool))
    zeros = Stretch.of(np.zeros((4, 4), "uint8"), np.ones((4, 4), dtype=bool))

    assert (nothing.in_words(), zeros.in_words()) == ("no pixel is valid", "0")


def test_rain_keeps_its_wettest_days() -> None:
    """Most pixels of rain are nearly dry. Fractions have no clouds."""
    pixels = np.random.default_rng(1).exponential(1, (4, 32, 32)).astype("float32") ** 2

    (found,) = common_stretches([pixels], [np.ones(pixels.shape, dtype=bool)])

    assert found.high == pytest.approx(np.percentile(pixels, 98), rel=1e-5)


def test_windows_of_few_valid_pixels_hardly_count() -> None:
    """A sliver at the edge of an orbit says little about the range. An empty window says nothing."""
    pixels, is_valid = _days(0)
    pixels[:4] = 1
    is_valid[:4] = False
    is_valid[1:4, 0, :3] = True

    (found, *_) = common_stretches([pixels] * 3, [is_valid] * 3)
    (empty, *_) = common_stretches([pixels] * 3, [np.zeros_like(is_valid)] * 3)

    assert found.low == pytest.approx(214, abs=5)
    assert empty.words == "no pixel is valid"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.12345, "0.1235"),
        (9852.0, "9,852"),
        (12180.5, "12,180"),
        (-32768, "-32,768"),
        (3e12, "3e+12"),
    ],
)
def test_a_pixels_value_is_written_as_one_reads_it(value: float, words: str) -> None:
    """A percentile between two whole numbers has no exponent."""
    assert number_in_words(value) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (77.0, 3919.0, ("77", "3,919")),
        (273.151, 273.152, ("273.151", "273.152")),
        (101_325.2, 101_325.4, ("101,325.2", "101,325.4")),
        (1e9, 1e9 + 2, ("1,000,000,000", "1,000,000,002")),
        (273.152, 273.151, ("273.152", "273.151")),  # a negative scale
        (7.0, 7.0, ("7", "7")),
    ],
)
def test_ends_of_a_colour_bar_differ(low: float, high: float, words: tuple[str, str]) -> None:
    """They have as many digits as tell them apart."""
    assert Stretch(low=low, high=high, words="").limits_in_words() == words


def test_film_leaves_frames_out_rather_than_growing() -> None:
    """If there are too many quicklooks, every n-th one is a frame."""
    noise = np.random.default_rng(0).integers(0, 255, (400, 64, 64, 4), dtype="uint8")

    film = make_film(noise, most_nbytes=400_000)

    assert film.every > 1
    assert film.n_frames == -(-400 // film.every)
    assert len(film.uri) < 400_000 * 4 / 3 + 100


def test_film_of_few_frames_has_all_of_them_to_the_bit() -> None:
    """Every pixel of every frame is at its position."""
    noise = np.random.default_rng(0).integers(0, 255, (5, 16, 20, 4), dtype="uint8")
    noise[..., 3] = 255

    film = make_film(noise, most_nbytes=400_000)

    image = Pillow.open(io.BytesIO(base64.b64decode(film.uri.partition(",")[2])))
    canvas = np.asarray(image.convert("RGBA"))
    for number, frame in enumerate(noise):
        top, left = number // film.n_columns * 16, number % film.n_columns * 20
        np.testing.assert_array_equal(canvas[top : top + 16, left : left + 20], frame)


@pytest.mark.long
def test_page_lets_its_reader_choose_every_measurement_and_sees_colours_first() -> None:
    """Colours of red, green and blue are the first choice, and each measurement is another."""
    bands = dict.fromkeys(("Blue", "green", "red", "nir"), frozenset[int]())

    page = Reader(page_with(evidence_of(MadeCube(bands=bands))))

    choices = [each for each in page.of("input") if each["type"] == "radio"]
    assert [each["value"] for each in choices] == ["0", "1", "2", "3", "4"]
    looks = views_of(evidence_of(MadeCube(bands=bands)).looks, n_rows=10, n_pictured=10, with_film=True)
    assert [each.name for each in looks] == ["RGB: red, green, Blue", "Blue", "green", "red", "nir"]
    assert [len(each.pictures) for each in looks] == [10] * 5
    assert [name for name, _, _ in looks[0].scale.values] == ["red", "green", "Blue"]


def test_colours_are_shown_of_rows_that_have_all_three() -> None:
    """A row without blue has no colours, but its other measurements are shown."""
    missing = {"red": frozenset[int](), "green": frozenset[int](), "blue": frozenset({3})}

    rgb, red, *_ = views_of(
        evidence_of(MadeCube(bands=missing)).looks, n_rows=10, n_pictured=10, with_film=True
    )

    assert rgb.film is not None
    assert red.film is not None
    assert (len(rgb.film.captions), len(red.film.captions), red.film.of_rows) == (9, 10, "10 rows")


@pytest.mark.long
def test_page_of_many_runs_has_a_narrow_row_for_each_and_tables_of_four() -> None:
    """A table of figures has at most four columns."""
    runs = [replace(evidence_of(MadeCube()).run, name=f"run {n}") for n in range(9)]

    html = comparison_of([], title="nine", columns=run_columns(runs, with_published=False), findings=())

    tables = re.findall(r'<table class="runs">.*?</table>', html, re.DOTALL)
    assert [each.count('scope="col"') for each in tables] == [4, 4, 1]
    (summary,) = re.findall(r'<table class="summary">.*?</table>', html, re.DOTALL)
    assert re.findall(r'scope="row">(run \d)<', summary) == [f"run {n}" for n in range(9)]
