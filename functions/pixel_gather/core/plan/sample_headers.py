"""Open some headers spread over the list. One of the most frequent kind is a slot's typical header."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pixel_gather.core.errors import NoOverviewError, RequestError, SourceError
from pixel_gather.core.model.band_meaning import NO_MEANING
from pixel_gather.core.model.grid_step import SAME, GridStep
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import NO_SCALING, Scaling
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import Cost, Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window, WindowRule
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.choose_overview import are_classes, open_level
from pixel_gather.core.plan.common_grid import CommonGrid, seen_on_grid, step_to
from pixel_gather.core.plan.cube_plan import SourceSlot
from pixel_gather.core.plan.locate_window import Grid, locate_like, locate_window
from pixel_gather.core.plan.pass_through import check_sample
from pixel_gather.core.plan.plan_workload import reads_of_window
from pixel_gather.core.plan.sample_warnings import (
    units_differ,
    warnings_of_claims,
    warnings_of_places,
    warnings_of_sample,
    warnings_of_silent_sources,
    warnings_of_unfit,
    warnings_of_warps,
)
from pixel_gather.core.plan.slot_draft import Draft
from pixel_gather.core.plan.warped_grid import Warp, lay_warp, seen_on
from pixel_gather.core.ports import OpenedSource, Projector, SourceAccess, SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest

SAMPLED_HEADERS: Final = 16
"""Headers opened per band of the list."""

_NO_EXACT_MEAN: Final = ("int64", "uint64", "complex64", "complex128")
"""Dtypes whose sums overflow, or whose pixels have no order."""


class Sample(Struct, frozen=True, kw_only=True):
    """Some sources of one slot, spread over the list, and what opening them told."""

    name: str | None
    sources: tuple[Source, ...]
    opened: tuple[OpenedSource | SourceError, ...]
    """One for each source: at full resolution, or at the overview that fits the grid."""

    costs: tuple[Cost, ...]
    levels: tuple[int | None, ...] = (None,)
    """Of those that could be opened: the overview that fits the grid, if overviews are chosen."""

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers of those that could be opened."""
        return tuple(each.header for each in self.opened if not isinstance(each, SourceError))


async def open_sample(
    name: str | None, request: "GatherRequest", *, table: SourceTable, access: SourceAccess
) -> Sample:
    """Open a sample of one slot's sources.

    Raises:
        RequestError: None can be opened.
    """
    sources = table.spread(SAMPLED_HEADERS, band=name)
    costs = tuple(Cost() for _ in sources)
    opened = await asyncio.gather(
        *(
            _open_or_error(access, source.href, request.level, cost)
            for source, cost in zip(sources, costs, strict=True)
        )
    )
    sample = Sample(name=name, sources=sources, opened=tuple(opened), costs=costs)
    if not sample.headers:
        raise RequestError(
            f"none of the {len(sources)} sources that were tried can be opened; the first: {opened[0]}"
            if len(sources) > 1
            else f"the one source that was tried cannot be opened: {opened[0]}",
            field="overview" if all(isinstance(each, NoOverviewError) for each in opened) else "sources",
        )
    return sample


async def choose_levels(
    sample: Sample, grid: CommonGrid, *, mask: str | None, projector: Projector
) -> Sample:
    """Return a sample with the headers of the overviews that fit a grid.

    Args:
        sample: Some sources of a slot.
        grid: The grid that all sources get.
        mask: Name of the mask's band, which has classes.
        projector: Between the CRSs.
    """
    fitting: list[OpenedSource | SourceError] = []
    levels: list[int | None] = []
    for opened in sample.opened:
        if isinstance(opened, SourceError):
            fitting.append(opened)
            continue
        try:
            found, level = await open_level(
                opened,
                target=grid.target,
                resolution=grid.resolution,
                keeps_classes=are_classes(
                    opened.header, sample.name, is_mask=mask is not None and sample.name == mask
                ),
                projector=projector,
            )
        except SourceError as error:
            fitting.append(error)
        else:
            fitting.append(found)
            levels.append(level)
    return replace(sample, opened=tuple(fitting), levels=tuple(levels))


def draft_slot(
    sample: Sample,
    request: "GatherRequest",
    rule: WindowRule,
    *,
    table: SourceTable,
    projector: Projector,
    wants_same_grid: bool,
    grid: CommonGrid | None,
    by_reference: bool = False,
) -> Draft:
    """Choose the typical header of one slot's sources.

    Args:
        sample: Some of them.
        request: The checked request.
        rule: The wanted window.
        table: The list.
        projector: For windows on the map.
        wants_same_grid: Whether sources on another grid are refused.
        grid: The grid that all sources get; None if they keep their own.
        by_reference: Whether the cube refers to the sources' tiles, and stores none.
    """
    name, opened = sample.name, sample.opened
    errors = [each for each in opened if isinstance(each, SourceError)]
    headers, steps = list(sample.headers), [SAME] * len(sample.headers)
    unfit: list[SourceError] = []
    warps: list[Warp] = []
    # Where do the headers lie once all sources have one grid, and which of them do not fit it?
    if grid is not None and grid.target is not None:
        headers, warps, unfit = _warp(sample.headers, grid.target, request.rule(), projector)
    elif grid is not None:
        headers, steps, unfit = _put_on_grid(sample.headers, grid)
    # One header stands for all, of the most frequent kind if the window lies on it.
    asked = _asked_bands(name, request, table)
    header, window = _typical(headers, rule, asked, projector)
    if asked is None and name is not None and header.n_bands > 1 and request.sources.are_searched:
        raise RequestError(
            f"the asset of {name} has {counted(header.n_bands, 'band')} in {shown_href(header.href)}; say "
            f"which one is wanted, such as {{{name}: ASSET:1}}",
            field=request.sources.searched_field("assets"),
        )
    check_sample(request, header, window, headers, by_reference=by_reference)
    bands = asked or (tuple(range(1, header.n_bands + 1)) if name is None else (1,))
    most = max(warps, key=lambda warp: warp.share, default=None)
    slot = SourceSlot(
        name=name,
        dtype=header.dtype,
        bands=bands,
        grid=Grid.of(header),
        window=window,
        coding=header.coding if request.passes_through else None,
        step=max(steps, key=lambda step: step.share),
        resampling="average" if grid is None else grid.resampling[name],
        overview=Counter(sample.levels).most_common(1)[0][0],
        own=None if most is None else most.own,
        below=None if most is None else most.below,
    )
    # Can the resampling be exact?
    is_mean = slot.resampling in ("bilinear", "cubic") or (
        slot.resampling == "average" and slot.step.over > 1
    )
    if is_mean and header.dtype in _NO_EXACT_MEAN:
        others = "nearest" if slot.is_warped else "mode or nearest"
        raise RequestError(
            f"{name or 'the sources'}: pixels of {header.dtype} have no exact mean; write {others}",
            field="grid.resampling",
        )
    # What is read of each of them, what is nodata, and which ones lie on another grid?
    windows = [warp.window for warp in warps] or _windows_on(headers, steps, slot, rule, projector)
    mean_gets, mean_nbytes = _mean_reads(
        sample,
        {each.href: window for each, window in zip(headers, windows, strict=True)},
        bands,
        has_chips=isinstance(table, ChipTable),
    )
    nodata = _commonest_nodata([each for each in headers if each.dtype == header.dtype])
    nodata = request.nodata if nodata is None else nodata
    apart = [each for each in unfit if each.status is Status.UNLIKE]
    found = [each if isinstance(each, SourceError) else each.header for each in opened]
    is_mask = request.mask is not None and request.mask.band == name
    reduced_by = None if request.reduce is None or is_mask else request.reduce.statistic
    return Draft(
        slot=slot,
        header=header,
        nodata=nodata,
        claimed=NO_MEANING if name is None or len(bands) > 1 else table.band_meanings.get(name, NO_MEANING),
        has_one_unit=not units_differ(headers, bands),
        grids=tuple(dict.fromkeys([warp.own for warp in warps] or map(Grid.of, headers))),
        largest=max(
            (warp.size_on_target for warp in warps)
            if warps
            else ((each.width, each.height) for each in headers),
            key=lambda size: size[0] * size[1],
        ),
        scalings=tuple(_lowest_scaling(sample, band) for band in bands),
        mean_gets=mean_gets,
        mean_nbytes=mean_nbytes,
        mean_open_nbytes=sum(cost.nbytes for cost in sample.costs) / len(sample.costs),
        warnings=(
            *(_warn_of_first_bands(name, headers) if asked is None and name is not None else ()),
            *warnings_of_sample(
                slot,
                header,
                headers,
                errors,
                nodata=nodata,
                default_nodata=nodata if request.masked or warps else request.nodata,
                values=request.values,
                reduced_by=reduced_by,
            ),
            *warnings_of_unfit(slot, [each for each in unfit if each not in apart], n_tried=len(opened)),
            *warnings_of_warps(
                slot,
                warps,
                projector,
                n_overviews=len(header.overviews),
                fits_overviews=request.overview == "auto",
                has_classes=are_classes(header, name, is_mask=is_mask),
            ),
            *(
                warnings_of_places(
                    slot,
                    rule,
                    headers,
                    projector,
                    nodata=nan if request.values == "scaled" else nodata,
                    wants_same_grid=wants_same_grid,
                    unfit=apart,
                    may_warp=not (by_reference or request.passes_through or request.output.append_to),
                )
                if request.windows is None
                else ()
            ),
            *warnings_of_claims(
                slot,
                sample.sources,
                found,
                heeds_claims=request.values != "raw",
            ),
            *(
                warnings_of_silent_sources(
                    slot, sample.sources, found, scaling=_lowest_scaling(sample, bands[0])
                )
                if request.values == "scaled"
                and request.output.append_to is None  # the cube decides
                and not are_classes(header, name, is_mask=is_mask)
                else ()
            ),
        ),
    )


def _windows_on(
    headers: Sequence[Header],
    steps: Sequence[GridStep],
    slot: SourceSlot,
    rule: WindowRule,
    projector: Projector,
) -> list[Window | None]:
    """Return what is read of each source. None of those that fail before a pixel is read."""
    found: list[Window | None] = []
    for seen, step in zip(headers, steps, strict=True):
        window = None
        with suppress(SourceError, RequestError):
            window = locate_like(rule, seen, grid=slot.grid, window=slot.window, projector=projector)
            window = window.clipped(width=seen.width, height=seen.height)
        found.append(None if window is None else step.on_source(window))
    return found


def _mean_reads(
    sample: Sample, windows: Mapping[str, Window | None], bands: Sequence[int], *, has_chips: bool
) -> tuple[float, float]:
    """Return how many requests and bytes the pixels of a source take, on average.

    Args:
        sample: Some sources.
        windows: What is read of those that fit the grid, by their hrefs. None if nothing is.
        bands: Which bands, from 1.
        has_chips: Whether each source has many windows. Then all of its pixels count.
    """
    reads: list[tuple[int, float]] = []
    for each in sample.opened:
        if isinstance(each, SourceError) or each.header.href not in windows:
            continue
        window = windows[each.header.href]
        if has_chips:
            window = Window(col_off=0, row_off=0, width=each.header.width, height=each.header.height)
        reads.append((0, 0.0) if window is None else reads_of_window(each, window, bands))
    gets, nbytes = zip(*reads, strict=True)
    return sum(gets) / len(reads), sum(nbytes) / len(reads)


def _lowest_scaling(sample: Sample, band: int) -> tuple[float, float]:
    """Return the commonest scale that is said of a band, from 1, and the lowest offset beside it.

    So pixels of the others move up, and are not lost below zero.
    """
    said = [
        Scaling.of(opened.header, band, source, raw=False)
        for source, opened in zip(sample.sources, sample.opened, strict=True)
        if not isinstance(opened, SourceError) and band <= opened.header.n_bands
    ]
    usable = [(each.scale, each.offset) for each in said if each.scale]
    if not usable:
        return NO_SCALING
    scale = Counter(scale for scale, _ in usable).most_common(1)[0][0]
    return scale, min(offset for each, offset in usable if each == scale)


def _put_on_grid(
    headers: Sequence[Header], grid: CommonGrid
) -> tuple[list[Header], list[GridStep], list[SourceError]]:
    """Return headers as they are seen on a grid, how each gets there, and why others do not.

    Raises:
        RequestError: None gets there.
    """
    there: list[Header] = []
    steps: list[GridStep] = []
    unfit: list[SourceError] = []
    for header in headers:
        try:
            step = step_to(header, grid.resolution)
        except SourceError as error:
            unfit.append(error)
        else:
            there.append(seen_on_grid(header, step))
            steps.append(step)
    if not there:
        raise RequestError(f"{unfit[0]}", field="grid")
    return there, steps, unfit


def _warp(
    headers: Sequence[Header], target: Grid, rule: WindowRule, projector: Projector
) -> tuple[list[Header], list[Warp], list[SourceError]]:
    """Return headers as they are seen on a grid, what it takes from each, and why others are not there.

    Raises:
        RequestError: None is there.
    """
    there: list[Header] = []
    warps: list[Warp] = []
    unfit: list[SourceError] = []
    for header in headers:
        try:
            warps.append(lay_warp(header, target, projector))
        except SourceError as error:
            unfit.append(error)
        except RequestError as error:  # PROJ does not know its CRS
            unfit.append(SourceError(str(error), href=header.href, status=Status.UNSUPPORTED))
        else:
            there.append(seen_on(header, target))
    if not there:
        is_outside = unfit[0].status is Status.OUTSIDE
        hint = _where_it_lies(headers[0], rule, projector, on=target.crs) if is_outside else ""
        raise RequestError(f"{unfit[0]}{hint}", field="window" if is_outside else "grid")
    return there, warps, unfit


def _asked_bands(name: str | None, request: "GatherRequest", table: SourceTable) -> tuple[int, ...] | None:
    """Return the bands of each source that the request names, from 1; None where it names none."""
    number = table.band_numbers.get(name) if name is not None else None
    return request.bands if number is None else (number,)


def _warn_of_first_bands(name: str, headers: Sequence[Header]) -> Iterator[str]:
    """Warn if the list names what a source shows, and a source has further bands that nobody asked for."""
    more = [each for each in headers if each.n_bands > 1]
    if more:
        yield (
            f"only the first band is read of the sources of {name}: {len(more)} of {len(headers)} sampled "
            f"ones have more, such as {shown_href(more[0].href)}; say which one by bands"
        )


async def _open_or_error(
    access: SourceAccess, href: str, overview: int | None, cost: Cost
) -> OpenedSource | SourceError:
    try:
        return await access.open_(href, overview=overview, cost=cost)
    except SourceError as error:
        return error


def _typical(
    headers: Sequence[Header], rule: WindowRule, bands: tuple[int, ...] | None, projector: Projector
) -> tuple[Header, Window]:
    """Return the first header that contains the window and the bands. The most frequent kind comes first."""
    dtypes = Counter(header.dtype for header in headers)
    kinds = Counter((header.dtype, header.n_bands) for header in headers)
    first_problem: RequestError | None = None
    for header in sorted(headers, key=lambda each: (-dtypes[each.dtype], -kinds[each.dtype, each.n_bands])):
        highest = max(bands or (1,))
        if highest > header.n_bands:
            problem = RequestError(
                f"{shown_href(header.href)} has {counted(header.n_bands, 'band')}, not {highest}",
                field="bands",
            )
        else:
            try:
                return header, locate_window(rule, header, projector=projector)
            except SourceError as error:
                hint = _where_it_lies(header, rule, projector) if error.status is Status.OUTSIDE else ""
                problem = RequestError(f"{error}{hint}", field="window")
            except RequestError as error:  # PROJ cannot transform to this source's CRS
                problem = error
        first_problem = first_problem or problem
    assert first_problem is not None  # noqa: S101 # there is a header
    raise first_problem


def _where_it_lies(header: Header, rule: WindowRule, projector: Projector, *, on: str | None = None) -> str:
    """Return a text with the source's bounds in the CRS of the window.

    ``on`` is the CRS of the grid that sources are warped onto. Only one in degrees has other turns.
    """
    transform, crs = header.transform, rule.crs or header.crs
    if transform is None or rule.middle is None:
        return ""
    bounds = transform.bounds(header.width, header.height)
    described = None
    try:
        if crs is not None:
            described = projector.describe(crs)
            if header.crs is not None and header.crs != crs:
                bounds = projector.bounds(bounds, source_crs=header.crs, target_crs=crs)
    except RequestError:  # PROJ cannot transform back
        return ""
    if not all(map(isfinite, bounds)):
        return ""
    west, south, east, north = (f"{each:.8g}" for each in bounds)
    if described is not None and described.is_geographic:
        of_grid = described if on is None else projector.describe(on)
        has_turns = of_grid is not None and of_grid.is_geographic
        return (
            f"; longitude comes first, and the image lies between longitudes {west} and {east} and between "
            f"latitudes {south} and {north}{_other_turn(rule, bounds) if has_turns else ''}"
        )
    return (
        f"; x comes first, and the image lies between x {west} and {east} and between y {south} and {north}"
    )


def _other_turn(rule: WindowRule, image: tuple[float, float, float, float]) -> str:
    """Return which longitude to write where an image counts them from 0 to 360, or past 180 degrees."""
    longitude = (
        rule.point[0] if rule.point is not None else rule.bounds[0] if rule.bounds is not None else 0.0
    )
    for turned in (longitude + 360, longitude - 360):
        if image[0] <= turned <= image[2]:
            return f"; longitude {longitude:.8g} is {turned:.8g} there: write that"
    return ""


def _commonest_nodata(headers: Sequence[Header]) -> float | int | None:
    """Return the most frequent nodata value; None counts as a value. NaN equals NaN here."""
    ((said, _),) = Counter(str(each.nodata) for each in headers).most_common(1)
    return next(each.nodata for each in headers if str(each.nodata) == said)
