"""One grid for all sources of a cube: how wide its pixels are, and how others become them. Pure.

Every source has one whole number n. Either each of its pixels is repeated n times along both axes, or each
block of n by n of its pixels becomes one pixel of the grid. No pixel is ever shifted: a source whose pixels
do not end where those of the grid do is refused.
"""

from collections.abc import Mapping, Sequence
from copy import replace
from math import hypot, isclose
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.grid_step import MOST_TIMES, GridStep, Resampling
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import DescribedCrs, Window, WindowRule
from pixel_gather.core.plan.locate_window import Grid, Placement
from pixel_gather.core.plan.longitudes import MOST_DEGREES
from pixel_gather.core.plan.warped_grid import lay_asked_grid, lay_grid
from pixel_gather.core.ports import Projector

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.plan.cube_template import CubeTemplate
    from pixel_gather.core.request.grid_request import GridRequest
    from pixel_gather.core.request.request import GatherRequest

_SLACK: Final = 1e-3
"""Share of a pixel by which grids may differ, as in `Transform.aligns_with`."""


class CommonGrid(Struct, frozen=True, kw_only=True):
    """The grid that all sources of a cube get."""

    resolution: float
    """Width of its pixels in units of its CRS."""

    resampling: Mapping[str | None, Resampling]
    """How several pixels of a source become one, by the name of a slot."""

    target: Grid | None = None
    """The window as a grid, where sources are warped onto it."""


def choose_grid(
    request: "GatherRequest",
    template: "CubeTemplate | None",
    headers: Mapping[str | None, Sequence[Header]],
    projector: Projector,
) -> CommonGrid | None:
    """Return the grid that a request wants, or that a cube has. None if sources keep their own.

    Args:
        request: The checked request.
        template: The cube's; None for a new one.
        headers: Of some sources, by the name of their slot.
        projector: For the window, where sources are warped.

    Raises:
        RequestError: The cube has another grid, or no source has a georeference.
    """
    asked = request.common_grid
    if (asked is not None and asked.warps) or (template is not None and template.slots[0].is_warped):
        return _choose_warped(request, template, headers, projector)
    if asked is None:
        if template is None or template.resolution is None:
            return None
        there = {each.name: each.resampling for each in template.slots}
        return CommonGrid(resolution=template.resolution, resampling=there)
    assert asked.resolution is not None  # noqa: S101 # or it would warp
    resolution = _resolution_of(asked.resolution, [each for some in headers.values() for each in some])
    if template is not None:
        if template.resolution is None or not isclose(template.resolution, resolution, rel_tol=1e-6):
            its = "no common grid" if template.resolution is None else f"pixels of {template.resolution:.8g}"
            raise RequestError(
                f"the cube has {its}; the new rows would have pixels of {resolution:.8g}", field="grid"
            )
        resolution = template.resolution
    return CommonGrid(resolution=resolution, resampling=_resampling(asked, template, headers))


def _choose_warped(
    request: "GatherRequest",
    template: "CubeTemplate | None",
    headers: Mapping[str | None, Sequence[Header]],
    projector: Projector,
) -> CommonGrid:
    """Return the grid that sources are warped onto. A cube's is kept, if the request wants the same."""
    asked = request.common_grid
    its = None if template is None or not template.slots[0].is_warped else template.slots[0].grid
    target = its
    if asked is not None:
        target = lay_asked_grid(asked, request.rule(), projector) if asked.warps else None
    elif its is not None and its.transform is not None and its.crs is not None:
        target = lay_grid(its.transform, its.crs, request.rule(), projector)
    if template is not None and not (target and its and target.is_same_grid_as(its)):
        raise RequestError(
            f"the cube has {_in_words(its)}; the new rows would have {_in_words(target)}",
            field="window" if asked is None else "grid",
        )
    target = its or target
    assert target is not None and target.transform is not None  # noqa: PT018, S101 # one of both warps
    resampling = {each.name: each.resampling for each in template.slots} if template is not None else {}
    if asked is not None:
        resampling = _resampling(asked, template, headers)
    return CommonGrid(resolution=abs(target.transform.a), resampling=resampling, target=target)


def _resampling(
    asked: "GridRequest", template: "CubeTemplate | None", headers: Mapping[str | None, Sequence[Header]]
) -> dict[str | None, Resampling]:
    """Return how pixels of each slot become one.

    Raises:
        RequestError: It is said of a band that is not there.
    """
    slots = () if template is None else template.slots
    there = list(dict.fromkeys(name for name in (*headers, *(each.name for each in slots)) if name))
    named = asked.resampling if isinstance(asked.resampling, dict) else {}
    if unknown := next((name for name in named if name not in there), None):
        has = (
            f"there are {', '.join(there)}"
            if there
            else "the list has no column band, so write one word for all, such as nearest"
        )
        raise RequestError(f"there is no band {unknown}; {has}", field="grid.resampling")
    return {name: asked.resampling_of(name) for name in headers}


def _in_words(target: Grid | None) -> str:
    if target is None or target.transform is None:
        return "pixels that are not warped"
    x, y = target.transform.xy(0, 0)
    return (
        f"{target.width} x {target.height} pixels of {abs(target.transform.a):.8g} in {_label(target.crs)} "
        f"from x {x:.10g}, y {y:.10g}"
    )


def _resolution_of(asked: float | str, headers: Sequence[Header]) -> float:
    if not isinstance(asked, str):
        return asked
    widths, error = [], None
    for header in headers:
        try:
            widths.append(width_of(header))
        except SourceError as unplaced:
            error = error or unplaced
    if not widths:
        raise RequestError(f"{error}", field="grid")
    return min(widths) if asked == "finest" else max(widths)


def width_of(header: Header) -> float:
    """Return the width of a source's pixels, in units of its CRS.

    Raises:
        SourceError: It has no georeference.
    """
    if header.transform is None or not header.transform.is_usable:
        raise SourceError(
            "has no geotransform, which a common grid needs", href=header.href, status=Status.UNSUPPORTED
        )
    return hypot(header.transform.a, header.transform.d)


def crs_in_degrees(grid: Grid, projector: Projector) -> DescribedCrs | None:
    """Return a grid's CRS if its unit is the degree. PROJ is asked only if it may be."""
    if grid.transform is None or grid.crs is None or max(map(abs, grid.transform.xy(0, 0))) > MOST_DEGREES:
        return None
    described = projector.describe(grid.crs)
    return described if described is not None and described.is_geographic else None


def is_as_wide(header: Header, resolution: float) -> bool:
    """Return whether a source has pixels of this width."""
    try:
        return step_to(header, resolution).is_same
    except SourceError:
        return False


def step_to(header: Header, resolution: float) -> GridStep:
    """Return how a source's pixels become pixels of this width.

    Whether they do so over the whole window is found when its place is compared with the grid's.

    Raises:
        SourceError: Neither width is a whole multiple of the other, or the multiple is too large.
    """
    width = width_of(header)
    times, over = round(width / resolution), round(resolution / width)
    if 1 <= times <= MOST_TIMES and abs(width / times - resolution) <= _SLACK * resolution:
        return GridStep(times=times)
    if 1 <= over <= MOST_TIMES and abs(resolution / over - width) <= _SLACK * width:
        return GridStep(over=over)
    raise SourceError(
        f"its pixels are {width:.8g} wide: no whole number of them, up to {MOST_TIMES}, makes a pixel of "
        f"{resolution:.8g}, nor the other way round",
        href=header.href,
        status=Status.UNLIKE,
    )


def seen_on_grid(header: Header, step: GridStep) -> Header:
    """Return the header of a source as if its pixels were those of the grid.

    Pixels at the right and lower edge that make no whole pixel of the grid are not on it.
    """
    if step.is_same or header.transform is None:
        return header
    times, over = step.times, step.over
    return replace(
        header,
        width=header.width * times // over,
        height=header.height * times // over,
        transform=header.transform.scaled(over / times, over / times),
        tile_width=max(header.tile_width * times // over, 1),
        tile_height=max(header.tile_height * times // over, 1),
    )


def rule_on_grid(rule: WindowRule, window: Window, *, is_warped: bool) -> WindowRule:
    """Return a rule for sources on a grid: for a tile, the pixels that it covers, and for a warp all."""
    if rule.tile is None and not rule.is_centre and not is_warped:
        return rule
    return WindowRule(pixels=(window.col_off, window.row_off, window.width, window.height))


def find_shift(one: Placement, other: Placement) -> tuple[float, float] | None:
    """Return the part of a pixel by which one grid is off the other, along x and along y.

    Returns:
        None if the pixels line up, if the CRSs differ, or if a grid has no transform.
    """
    if one.transform is None or other.transform is None or one.crs != other.crs:
        return None
    col, row = other.transform.colrow(one.transform.c, one.transform.f)
    shift = (col - round(col), row - round(row))
    return shift if max(map(abs, shift)) > _SLACK else None


def why_apart(one: Placement, other: Placement) -> str:
    """Return why two windows of one grid do not cover the same pixels of the map."""
    if one.crs != other.crs:
        return f"it lies in {_label(one.crs)}, the grid in {_label(other.crs)}, and pixels are not warped"
    if (shift := find_shift(one, other)) is not None:
        return (
            f"its pixels lie {abs(shift[0]):.3g} of a pixel along x and {abs(shift[1]):.3g} along y beside "
            "those of the grid, and a gather shifts no pixel"
        )
    return "its window covers other pixels of the map than the cube's"


def check_one_grid(named: Sequence[tuple[str | None, Placement]]) -> None:
    """Refuse bands that do not lie on the grid of the first one.

    Args:
        named: Each band's name, and where its window lies.

    Raises:
        RequestError: The message names the first one that does not.
    """
    first_name, first = named[0]
    for name, place in named[1:]:
        if (place.width, place.height) == (first.width, first.height) and place.covers_same_pixels_as(first):
            continue
        raise RequestError(
            f"the band {name} does not lie on the grid of {first_name}: {why_apart(place, first)}. "
            "Gather it alone",
            field="grid",
        )


def _label(crs: str | None) -> str:
    return (crs or "no CRS").partition("\n")[0][:60]
