"""The map of a report: panels that show the window, whatever its size and place."""

import re

import pytest

from build_outlines import outlines
from pixel_gather.core.model.footprints import Footprints, Ring, SourceFootprints
from pixel_gather.features.report.page.place_map import OUTLINES, MapView, map_of, map_of_cubes

_MOST_NBYTES = 40_000
"""The outlines are in every report."""


def box(west: float, south: float, east: float, north: float) -> Ring:
    """Return a ring."""
    return ((west, south), (east, south), (east, north), (west, north))


SCENE = Footprints(window=box(11.2, 46.4, 11.25, 46.45), sources=(box(10.3, 45.9, 11.8, 46.9),))


def drawn(footprints: Footprints) -> str:
    """Return the drawing of a map."""
    return svg_of(map_of(footprints, is_aligned=True, n_sources=5))


def svg_of(made: MapView) -> str:
    """Return all parts of a map's drawing."""
    return made.shared + "".join(panel.svg for panel in made.panels)


def views_of(svg: str) -> list[tuple[float, float, float, float]]:
    """Return west, south, east and north of each panel."""
    found = []
    for view in re.findall(r'<svg width="[1-9][^>]*viewBox="([^"]+)"', svg):
        x, y, width, height = (float(each) / 10 for each in view.split())
        found.append((x, -y - height, x + width, -y))
    return found


def test_outlines_are_small_and_in_every_map() -> None:
    """Land and borders of all of the Earth."""
    assert OUTLINES.stat().st_size < _MOST_NBYTES
    assert OUTLINES.read_text() in drawn(SCENE)


def test_map_shows_the_earth_the_region_and_the_sources() -> None:
    """Each panel lies in the one before, and the last one holds all footprints."""
    svg = drawn(SCENE)

    earth, region, close = views_of(svg)
    assert earth == (-180, -90, 180, 90)
    assert (region[0] < close[0], region[1] < close[1], region[2] > close[2], region[3] > close[3]) == (
        True,
    ) * 4
    assert (close[0] < 10.3, close[1] < 45.9, close[2] > 11.8, close[3] > 46.9) == (True,) * 4
    assert svg.count("<polygon") == 3  # the window
    assert svg.count('<path id="sources"') == 1
    assert svg.count('href="#sources"') == 3 * 3  # in each panel, and once more on each side
    assert svg.count("<circle") == 2  # the window is large enough in the last panel


def test_a_window_around_a_pole_has_no_middle() -> None:
    """Its place is told by latitudes."""
    polar = box(-180, 85.824, 180, 90)
    made = map_of(Footprints(window=polar, sources=(polar,)), is_aligned=True, n_sources=1)

    assert made.caption.startswith("Orange: the window, around the Earth from 85.82° N to 90.00° N. Blue: ")


def test_map_of_cubes_shows_every_window_and_each_footprint_once() -> None:
    """Cubes of the same sources share their footprints. The last panel holds all cubes."""
    other = Footprints(window=box(14.2, 46.4, 14.25, 46.45), sources=(box(13.3, 45.9, 14.8, 46.9),))
    known = SourceFootprints(n_sources=5, n_different=1, rings=other.sources)
    same = map_of_cubes([(SCENE, known), (SCENE, known)])
    plot = map_of_cubes([(SCENE, None), (other, known), (SCENE, None)])

    *_, close = views_of(svg_of(plot))
    assert (close[0] < 10.3, close[2] > 14.8) == (True, True)
    assert svg_of(plot).count("<polygon") == 3 * 2
    assert svg_of(plot).count('<path id="sources"') == 1
    assert re.findall(r'<path id="sources" d="([^"]+)"', svg_of(plot))[0].count("M") == 2
    assert plot.caption.startswith(
        "Orange: 2 different windows of 3 cubes. Blue: 2 footprints of some of their sources."
    )
    assert same.caption.startswith("Orange: the window of 2 cubes. Blue: 1 footprint of their sources.")


def test_map_of_sources_that_are_regions_themselves_has_two_panels() -> None:
    """Their outlines can be recognised without another one."""
    assert len(views_of(drawn(Footprints(window=box(0, 40, 5, 45), sources=(box(-60, 10, 60, 60),))))) == 2


@pytest.mark.parametrize(("km", "n_panels"), [(60, 2), (400, 3)])
def test_panels_below_100_km_have_no_outlines(km: float, n_panels: int) -> None:
    """Outlines are simplified, so that a coast would lie kilometres beside the true one."""
    degrees = km / 111.32 / 1.15
    scene = Footprints(
        window=box(11.2, 46.4, 11.25, 46.45), sources=(box(11, 46, 11 + degrees, 46 + degrees),)
    )

    panels = map_of(scene, is_aligned=True, n_sources=5).panels

    assert sum('href="#land"' in panel.svg for panel in panels) == n_panels
    assert all('href="#sources"' in panel.svg for panel in panels)


@pytest.mark.parametrize("shift", [0, -360])
def test_map_across_the_antimeridian_shows_the_window_among_its_sources(shift: int) -> None:
    """A source may be written by longitudes of the other side."""
    source = box(179 + shift, -18, 181 + shift, -16) if not shift else box(-180, -18, -179, -16)
    *_, close = views_of(drawn(Footprints(window=box(179.9, -17.2, 180.2, -17), sources=(source,))))

    assert close[0] < 179.9
    assert 181 < close[2] < 190


def test_map_of_the_whole_earth_is_not_larger_than_it() -> None:
    """A source may cover all of it."""
    *_, close = views_of(drawn(Footprints(window=box(10, 40, 12, 42), sources=(box(-180, -90, 180, 90),))))

    assert close[2] - close[0] == pytest.approx(360)
    assert close[3] <= 90


def test_caption_says_where_the_window_lies_and_what_is_shown() -> None:
    """It says so in words, for readers who cannot see the map."""
    west = Footprints(window=box(190, -10, 191, -9), sources=SCENE.sources * 2)

    assert "around 46.42° N, 11.22° E. Blue" in map_of(SCENE, is_aligned=True, n_sources=1).caption
    said = map_of(west, is_aligned=False, n_sources=1278).caption
    assert "around 9.50° S, 169.50° W on one of the sources; the others have grids of their own" in said
    assert "2 different footprints; the cube has 1,278 sources" in said


@pytest.mark.parametrize(
    "ring", [((0, 0), (1, 1)), ((0, 0), (1, 1), (2, 91)), ((0, 0), (1, 1), (float("nan"), 0))]
)
def test_footprints_are_rings_on_the_earth(ring: Ring) -> None:
    """A cube may be anybody's."""
    with pytest.raises(ValueError, match="no ring of longitudes and latitudes"):
        Footprints(window=ring, sources=())


@pytest.mark.long
def test_outlines_are_made_from_natural_earth() -> None:
    """After a change, run ``python -m scripts.build_outlines``."""
    assert outlines() == OUTLINES.read_text()


def _known(n: int, *, n_sources: int, n_different: int | None = None) -> SourceFootprints:
    rings = tuple(box(10 + n / 1000, 46, 11.5 + n / 1000, 47) for n in range(n))
    return SourceFootprints(
        rings=rings,
        n_sources=n_sources,
        n_different=n_different or n,
        cell_degrees=0.032 if n_different else None,
    )


def test_map_shows_all_sources_whose_header_is_known() -> None:
    """In one path, so that a thousand footprints take less than 100 KB, and its panel holds all of them."""
    made = map_of(SCENE, _known(1000, n_sources=1278), is_aligned=True, n_sources=1278)

    *_, close = views_of(svg_of(made))
    assert (close[0] < 10, close[2] > 12.5) == (True, True)
    assert svg_of(made).count("M100.0000,-460.0000") == 1
    assert len(svg_of(made)) < OUTLINES.stat().st_size + 100_000


@pytest.mark.parametrize(
    ("known", "n_sources", "said"),
    [
        (_known(1, n_sources=9), 9, "Blue: the footprint that all 9 sources have."),
        (_known(1, n_sources=1), 1, "Blue: the footprint of the source."),
        (_known(2, n_sources=8), 9, "Blue: the footprints of 8 of the 9 sources, 2 different ones."),
        (
            _known(9, n_sources=90_000, n_different=5_000),
            90_000,
            "all 90,000 sources, 5,000 different ones; 9 of them are drawn, one in each cell of 0.03°.",
        ),
    ],
    ids=["one for all", "one source", "some", "thinned"],
)
def test_caption_says_how_many_sources_are_shown(known: SourceFootprints, n_sources: int, said: str) -> None:
    """And how many of them are drawn, where that is not all."""
    assert said in map_of(SCENE, known, is_aligned=True, n_sources=n_sources).caption
