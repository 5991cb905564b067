"""Draws where a cube lies: on the Earth, in its region, and its window among the footprints of its sources.

The outlines of coasts and borders are Natural Earth's, which are in the public domain.
``scripts/build_outlines.py`` makes them.
"""

import math
from collections.abc import Iterator, Sequence
from copy import replace
from pathlib import Path
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.footprints import Footprints, Ring, SourceFootprints
from pixel_gather.core.model.plurals import counted
from pixel_gather.features.report.page.grid_words import KM_PER_DEGREE

OUTLINES: Final = Path(__file__).parent / "outlines.svg"
UNITS_PER_DEGREE: Final = 10
"""Scale of the outlines. Their y points south."""

_SIDE: Final = 240
"""Height of a panel, in units of its drawing. The Earth is twice as wide, the others are square."""

_REGION_DEGREES: Final = 14.0
"""Least height of the region: with less, its coasts and borders cannot be recognised."""

_MOST_REGION_DEGREES: Final = 60.0
_FEW_RINGS: Final = 50
"""The outlines of more footprints are drawn faintly, so that what lies below can be seen."""

_SMALL_SHARE: Final = 0.03
"""A window that takes less of a panel gets a circle around it."""


_FINEST_OUTLINES_KM: Final = 100
"""The outlines are simplified, so that they fit no smaller panel. It has none."""


class PanelView(Struct, frozen=True, kw_only=True):
    """One panel of a map for the template."""

    title: str
    width: int
    height: int
    svg: str
    """Content of the ``<svg>``, in the page's colours."""


class MapView(Struct, frozen=True, kw_only=True):
    """A map for the template."""

    title: str
    caption: str
    shared: str
    """An ``<svg>`` without a size. It holds the shapes that all panels use."""

    panels: tuple[PanelView, ...]


class _Panel(Struct, frozen=True, kw_only=True):
    """A part of the Earth, in degrees, and the width of its drawing."""

    title: str
    west: float
    north: float
    degrees_x: float
    degrees_y: float
    width: float = _SIDE

    def at(self, longitude: float, latitude: float) -> tuple[float, float]:
        """Return where a point lies in the drawing."""
        x = (longitude - self.west) / self.degrees_x * self.width
        return x, (self.north - latitude) / self.degrees_y * _SIDE

    @property
    def km(self) -> float:
        """Width on the ground, along the middle."""
        middle = math.radians(self.north - self.degrees_y / 2)
        return self.degrees_x * KM_PER_DEGREE * math.cos(middle)


def map_of(
    footprints: Footprints, known: SourceFootprints | None = None, *, is_aligned: bool, n_sources: int
) -> MapView:
    """Return the figure.

    The sampled sources are drawn only if the headers of all are not known.
    """
    return _map(
        "Where it lies",
        _caption(footprints, known, is_aligned=is_aligned, n_sources=n_sources),
        (footprints.window,),
        _rings_of(footprints, known),
    )


def map_of_cubes(cubes: Sequence[tuple[Footprints, SourceFootprints | None]]) -> MapView:
    """Return one figure of several cubes: each window, and the footprints of all sources.

    There is at least one. Each has its window with sampled sources, and all sources whose header is known.
    """
    windows = tuple(dict.fromkeys(each.window for each, _ in cubes))
    rings = tuple(dict.fromkeys(ring for each, known in cubes for ring in _rings_of(each, known)))
    whole = all(known is not None and known.cell_degrees is None for _, known in cubes)
    one_or_more = "the window" if len(windows) == 1 else f"{len(windows):,} different windows"
    some_of = "" if whole else "some of "
    caption = (
        f"Orange: {one_or_more} of {counted(len(cubes), 'cube')}. "
        f"Blue: {counted(len(rings), 'footprint')} of {some_of}their sources. "
        "Outlines of countries: Natural Earth."
    )
    return _map("Where the cubes lie", caption, windows, rings)


def _rings_of(footprints: Footprints, known: SourceFootprints | None) -> tuple[Ring, ...]:
    return footprints.sources if known is None else known.rings


def _map(title: str, caption: str, windows: tuple[Ring, ...], rings: tuple[Ring, ...]) -> MapView:
    """Return the map of windows among footprints."""
    outlines = OUTLINES.read_text(encoding="utf-8")
    return MapView(
        title=title,
        caption=caption,
        shared=f'<svg width="0" height="0" style="position: absolute" aria-hidden="true"><defs>{outlines}'
        f"{_merge_footprints(rings)}</defs></svg>",
        panels=tuple(
            PanelView(title=panel.title, width=round(panel.width), height=_SIDE, svg=_drawn(panel, windows))
            for panel in _panels(_box_of(windows), _box_of((*windows, *rings)))
        ),
    )


type _Box = tuple[float, float, float, float]
"""West, south, east, north."""


def _box_of(rings: tuple[Ring, ...]) -> _Box:
    """Return the box around rings that lie within half a turn of the first, as far as they can."""
    first = _middle(rings[0])
    shifted = [_near(ring, first) for ring in rings]
    xs, ys = [x for ring in shifted for x, _ in ring], [y for ring in shifted for _, y in ring]
    return min(xs), min(ys), max(xs), max(ys)


def _middle(ring: Ring) -> float:
    longitudes = [x for x, _ in ring]
    return (min(longitudes) + max(longitudes)) / 2


def _near(ring: Ring, longitude: float) -> Ring:
    """Return a ring, moved by whole turns to where it is closest to a longitude."""
    turns = round((longitude - _middle(ring)) / 360) * 360
    return tuple((x + turns, y) for x, y in ring)


def _panels(window: _Box, box: _Box) -> Iterator[_Panel]:
    """Yield the whole Earth, the region if there is one, and the box of all footprints."""
    yield _Panel(title="Earth", west=-180, north=90, degrees_x=360, degrees_y=180, width=2 * _SIDE)
    close = _around(box, margin=1.15)
    degrees = max(4 * close.degrees_y, _REGION_DEGREES)
    if degrees <= _MOST_REGION_DEGREES:
        x, y = (window[0] + window[2]) / 2, (window[1] + window[3]) / 2
        region = _around((x, y - degrees / 2, x, y + degrees / 2), margin=1)
        yield replace(region, title=f"region, {_km(region)}")
    yield replace(close, title=f"images, {_km(close)}")


def _around(box: _Box, *, margin: float) -> _Panel:
    """Return a panel that shows a box in the middle, as wide on the ground as it is high."""
    west, south, east, north = box
    x, y = (west + east) / 2, (south + north) / 2
    shape = 1 / max(math.cos(math.radians(y)), 0.1)
    degrees_y = max(margin * max(north - south, (east - west) / shape), 1e-3)
    degrees_x = shape * degrees_y
    if degrees_x > 360:  # noqa: PLR2004 # a whole turn
        degrees_x, degrees_y = 360.0, min(360.0 / shape, 180.0)
    north = min(max(y + degrees_y / 2, degrees_y - 90), 90)
    return _Panel(title="", west=x - degrees_x / 2, north=north, degrees_x=degrees_x, degrees_y=degrees_y)


def _km(panel: _Panel) -> str:
    return f"{panel.km:,.0f} km" if panel.km >= 10 else f"{panel.km:.2g} km"  # noqa: PLR2004 # two digits


def _drawn(panel: _Panel, windows: tuple[Ring, ...]) -> str:
    """Return one panel: land and borders, footprints, and the windows above all."""
    middle = panel.west + panel.degrees_x / 2
    view = " ".join(
        f"{each * UNITS_PER_DEGREE:.4f}"
        for each in (panel.west, -panel.north, panel.degrees_x, panel.degrees_y)
    )
    shapes = (("land", _LAND), ("borders", _BORDERS)) if panel.km >= _FINEST_OUTLINES_KM else ()
    outlines = "".join(  # once more on each side: lines go on beyond the antimeridian
        f'<use href="#{name}" x="{turn * 360 * UNITS_PER_DEGREE}" {look}/>'
        for turn in (-1, 0, 1)
        for name, look in (*shapes, ("sources", ""))
    )
    near = [_near(window, middle) for window in windows]
    circles = "".join(_circle(panel, window) for window in near)
    look = _look("vermilion", opacity=0.4, line_opacity=1)
    areas = "".join(f'<polygon points="{_points(window)}" {look}/>' for window in near)
    frame = f'width="{panel.width:.1f}" height="{_SIDE}"'
    return f'<svg {frame} viewBox="{view}" preserveAspectRatio="none">{outlines}{areas}</svg>{circles}'


_LAND: Final = 'fill="var(--figure-quiet)" fill-opacity="0.22" stroke="var(--figure-axis)" stroke-width="0.8"'
_BORDERS: Final = 'fill="none" stroke="var(--figure-axis)" stroke-width="0.6" stroke-dasharray="3 2"'


def _merge_footprints(rings: Sequence[Ring]) -> str:
    """Return all footprints as one path. Where they overlap, the fill is as light as elsewhere."""
    path = "".join(f"M{_points(ring)}Z" for ring in rings)
    line_opacity = 1 if len(rings) <= _FEW_RINGS else 0.4
    return f'<path id="sources" d="{path}" {_look("blue", opacity=0.15, line_opacity=line_opacity)}/>'


def _points(ring: Ring) -> str:
    return " ".join(f"{x * UNITS_PER_DEGREE:.4f},{-y * UNITS_PER_DEGREE:.4f}" for x, y in ring)


def _look(colour: str, *, opacity: float, line_opacity: float) -> str:
    return (
        f'fill="var(--figure-{colour})" fill-opacity="{opacity}" stroke="var(--figure-{colour})" '
        f'stroke-opacity="{line_opacity}" stroke-width="1.2" vector-effect="non-scaling-stroke"'
    )


def _circle(panel: _Panel, window: Ring) -> str:
    """Return a circle around a window that one would overlook."""
    west, south, east, north = _box_of((window,))
    share = max((east - west) / panel.degrees_x, (north - south) / panel.degrees_y)
    if share >= _SMALL_SHARE:
        return ""
    x, y = panel.at((west + east) / 2, (south + north) / 2)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="var(--figure-vermilion)" '
        'stroke-width="2"/>'
    )


def _caption(
    footprints: Footprints, known: SourceFootprints | None, *, is_aligned: bool, n_sources: int
) -> str:
    west, south, east, north = _box_of((footprints.window,))
    x = ((west + east) / 2 + 180) % 360 - 180
    place = f"{_latitude((south + north) / 2)}, {abs(x):.2f}° {'E' if x >= 0 else 'W'}"
    if east - west >= 360:  # noqa: PLR2004 # a whole turn, such as around a pole
        place = f"the Earth from {_latitude(south)} to {_latitude(north)}"
    only_one = "" if is_aligned else " on one of the sources; the others have grids of their own"
    return (
        f"Orange: the window, around {place}{only_one}. Blue: {_shown(footprints, known, n_sources)}. "
        "Outlines of countries: Natural Earth."
    )


def _latitude(degrees: float) -> str:
    return f"{abs(degrees):.2f}° {'N' if degrees >= 0 else 'S'}"


def _shown(footprints: Footprints, known: SourceFootprints | None, n_sources: int) -> str:
    """Return in words which sources are drawn."""
    if known is None:
        n = len(footprints.sources)
        extents = "the footprint that all of them have" if n == 1 else f"{n} different footprints"
        cube = f"the cube has {counted(n_sources, 'source')}"
        return f"of up to 16 sampled sources of each measurement, {extents}; {cube}"
    n_shown = min(known.n_sources, n_sources)
    whose = "all" if n_shown == n_sources else f"{n_shown:,} of the"
    whole = f"{whose} {counted(n_sources, 'source')}"
    if known.n_different == 1:
        return f"the footprint that {whole} have" if n_sources > 1 else "the footprint of the source"
    said = f"the footprints of {whole}, {known.n_different:,} different ones"
    if known.cell_degrees is None:
        return said
    return f"{said}; {len(known.rings):,} of them are drawn, one in each cell of {known.cell_degrees:.1g}°"
