"""Warnings from a sample of the sources, given before the gather costs anything.

Pure except for the projector.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.plurals import in_degrees
from pixel_gather.core.model.scaling import NO_SCALING, SCALING_COLUMNS, Scaling
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window, WindowRule
from pixel_gather.core.plan.choose_overview import times_finer
from pixel_gather.core.plan.cube_plan import (
    CANNOT_BE_OPENED,
    CHOSEN,
    ON_ANOTHER_GRID,
    OVERHANG_IS_NODATA,
    OVERHANG_IS_ZERO,
    PARTLY_OUTSIDE,
    WARP_THEM,
    SourceSlot,
)
from pixel_gather.core.plan.locate_window import Grid, Placement, locate_like
from pixel_gather.core.plan.warning_kinds import LossWarning, PixelWarning
from pixel_gather.core.plan.warped_grid import Warp
from pixel_gather.core.ports import Projector

_MANY_DEGREES: Final = 10
"""Pixels of whole degrees that are so many times as wide as those of the sources may be meant in metres."""

_MANY: Final = 2.02
"""The plan warns that a source's pixels are passed over if they are more times as fine as the grid's.

Twice as fine, and a little more by rounding, is no reason to warn.
"""


def warnings_of_sample(
    slot: SourceSlot,
    typical: Header,
    headers: Sequence[Header],
    errors: Sequence[SourceError],
    *,
    nodata: float | None,
    default_nodata: float | None = None,
    values: str,
    reduced_by: str | None,
) -> Iterator[str]:
    """Yield warnings about dtypes, bands, nodata, scales and strips of the sample.

    Args:
        slot: The measurement of the sources.
        typical: The header that the others are compared with.
        headers: Those of the sample.
        errors: Why others of the sample cannot be opened.
        nodata: That of the cube's sources.
        default_nodata: The request's, for sources that declare none.
        values: As the request's field.
        reduced_by: The statistic by which scenes become rows; None if each is one, or is the rows' mask.
    """
    # Which sources cannot be read as the others: not at all, with another dtype, or without a band?
    n, of_band = len(headers), slot.of_band
    if errors:
        yield (f"{len(errors)} of {n + len(errors)} sources{of_band} {CANNOT_BE_OPENED}: {errors[0]}")
    if other_dtypes := [each for each in headers if each.dtype != typical.dtype]:
        dtypes = " or ".join(dict.fromkeys(each.dtype for each in other_dtypes))
        yield LossWarning(
            f"{len(other_dtypes)} of {n} sampled sources{of_band} are {dtypes}, not {typical.dtype}, such as "
            f"{shown_href(other_dtypes[0].href)}: their status will be unlike"
        )
    others = [each.n_bands for each in headers if each.n_bands != typical.n_bands]
    if others and slot.name is None and len(slot.bands) == typical.n_bands:
        numbers = " or ".join(map(str, sorted(set(others))))
        yield LossWarning(
            f"{len(others)} of {n} sampled sources have {numbers} band(s), not {typical.n_bands}. Those with "
            "fewer will have the status unlike. Of those with more, only the first bands are read"
        )
    elif lacking := [each for each in headers if each.n_bands < max(slot.bands)]:
        yield LossWarning(
            f"{len(lacking)} of {n} sampled sources{of_band} have no band {max(slot.bands)}, such as "
            f"{shown_href(lacking[0].href)}: their status will be unlike"
        )
    # What do their metadata say differently, or in vain: nodata, scales, units?
    declared = Counter("none" if each.nodata is None else str(each.nodata) for each in headers)
    if len(declared) > 1:
        becomes = _what_becomes_of_nodata(
            headers, nodata, default=default_nodata, values=values, reduced_by=reduced_by
        )
        which = f"sampled sources{of_band} declare different nodata values ({_list_counts(declared)})"
        yield type(becomes)(f"{which}: {becomes}")
    if values == "raw":
        yield from _warnings_of_scaling(slot, typical, headers, is_reduced=reduced_by is not None)
    if units_differ(headers, slot.bands):
        yield f"sampled sources{of_band} declare different units: the cube says none"
    if odd := [each for each in headers if each.ignores_scaling]:
        yield PixelWarning(
            f"{len(odd)} of {n} sampled sources{of_band} declare a scale or offset that is NaN or infinite, "
            f"such as {shown_href(odd[0].href)}: it is ignored"
        )
    # Which ones take more bytes than their pixels need?
    if striped := [each for each in headers if not each.is_tiled and each.height > each.tile_height]:
        yield f"{len(striped)} of {n} sampled sources{of_band} are stored in strips, not tiles"


def _warnings_of_scaling(
    slot: SourceSlot, typical: Header, headers: Sequence[Header], *, is_reduced: bool
) -> Iterator[str]:
    """Warn about raw pixels of different scales or offsets."""
    others = []
    for each in headers:
        bands = [band for band in slot.bands if band <= each.n_bands]
        if _scaling(each, bands) != _scaling(typical, bands):
            others.append(each)
    if others and is_reduced:
        yield LossWarning(
            f"{len(others)} of {len(headers)} sampled sources{slot.of_band} declare another scale or offset, "
            f"such as {shown_href(others[0].href)}, and raw pixels are not mixed: their status will be "
            "unlike. Write values: scaled (--values scaled)"
        )
    elif others:
        yield PixelWarning(
            f"sampled sources{slot.of_band} declare different scales or offsets: pixels stay raw"
        )


def _what_becomes_of_nodata(
    headers: Sequence[Header],
    nodata: float | None,
    *,
    default: float | None,
    values: str,
    reduced_by: str | None,
) -> str:
    """Return what a cube does with sources of different nodata values. Arguments: `warnings_of_sample`.

    It is a `LossWarning` if some of them are left out.
    """
    others = [each for each in headers if (default if each.nodata is None else each.nodata) != nodata]
    if values == "scaled" or (reduced_by is not None and reduced_by not in CHOSEN):
        return "each marks what is missing in its own source"
    cubes = "the cube has none" if nodata is None else f"the cube has {nodata}"
    if reduced_by is None:
        return f"{cubes}. Each row keeps its own, which the coordinate nodata holds"
    if nodata is None or nodata != nodata or not others:  # noqa: PLR0124 # NaN
        return f"{cubes}. Each marks what is missing in its own source"
    return LossWarning(
        f"{cubes}. The statistic {reduced_by} mixes no nodata values. Sources that declare another one or "
        f"none, such as {shown_href(others[0].href)}, are left out: their status will be unlike. "
        "Write values: scaled (--values scaled)"
    )


def units_differ(headers: Sequence[Header], bands: Sequence[int]) -> bool:
    """Return whether sources declare different units of a band. No unit is another one."""
    return any(
        len({each.meaning(band).unit for each in headers if band <= each.n_bands}) > 1 for band in bands
    )


def warnings_of_degrees(
    slots: Sequence[SourceSlot], resolution: float, projector: Projector
) -> Iterator[str]:
    """Warn about a grid in degrees that may have been meant in metres.

    Args:
        slots: The measurements of the sources.
        resolution: Width of the grid's pixels in degrees.
        projector: Between the CRSs of sources and grid.
    """
    times = max(
        each.step.over if each.own is None else times_finer(each.own, each.grid, projector) for each in slots
    )
    if resolution >= 1 and times >= _MANY_DEGREES:
        yield (
            f"pixels of the grid are {in_degrees(resolution)} wide, {times:,.0f} times as wide as those of "
            "the sources, because its CRS counts in degrees. If metres are meant, name a CRS that counts in "
            "them: grid.crs: utm (--grid-crs utm)"
        )


def warnings_of_unfit(slot: SourceSlot, unfit: Sequence[SourceError], *, n_tried: int) -> Iterator[str]:
    """Warn about sources whose pixels cannot become pixels of the common grid."""
    if unfit:
        statuses = dict.fromkeys(each.status.name.lower() for each in unfit)
        yield LossWarning(
            f"{len(unfit)} of {n_tried} sampled sources{slot.of_band} do not fit the grid: {unfit[0]}. Their "
            f"status will be {' or '.join(statuses)}"
        )


def warnings_of_warps(
    slot: SourceSlot,
    warps: Sequence[Warp],
    projector: Projector,
    *,
    n_overviews: int,
    fits_overviews: bool,
    has_classes: bool = False,
) -> Iterator[str]:
    """Warn about sources that end in the window, and about pixels of which most are passed over.

    Args:
        slot: The measurement of the sources.
        warps: Of the sample.
        projector: Between the CRSs.
        n_overviews: How many one of its files has. 0 if they were not looked for.
        fits_overviews: Whether each file is read from the overview that fits the grid: `overview: auto`.
        has_classes: Whether its values are classes, which only some overviews keep.
    """
    if n_ending := sum(not each.covers for each in warps):
        which = f"{n_ending} of {len(warps)} sampled sources{slot.of_band}"
        yield f"{PARTLY_OUTSIDE} {which}: {OVERHANG_IS_NODATA}"
    side = max((times_finer(each.own, each.target, projector) for each in warps), default=0)
    if side <= _MANY:
        return
    if not fits_overviews:
        has = f"it has {n_overviews}" if n_overviews else "its files may have some"
        better = (
            "An overview would have fewer to read: write overview: auto (--overview auto), or a number from "
            f"0, the largest; {has}"
        )
    elif slot.overview is not None:
        is_last = slot.overview + 1 == n_overviews
        but = ", the coarsest that its files have" if is_last else ": the next is coarser than the grid"
        better = f"They are those of overview {slot.overview}{but}"
    elif has_classes:
        better = "No overview fits that keeps its values, which are classes"
    else:
        better = "No overview fits: its files have none, or all are coarser than the grid"
    yield (
        f"{slot.resampling} takes few of the pixels{slot.of_band}: they are {side:.1f} times as fine as "
        f"those of the grid. {better}"
    )


def warnings_of_claims(
    slot: SourceSlot,
    sources: Sequence[Source],
    opened: Sequence[Header | SourceError],
    *,
    heeds_claims: bool,
) -> Iterator[str]:
    """Say where a catalog claims another scale, offset or nodata of a source than its file declares.

    Args:
        slot: The measurement of the sources.
        sources: The sample.
        opened: The header of each, or why there is none.
        heeds_claims: Whether scale and offset are heeded, and the nodata of a file that declares none.
    """
    for name in ("nodata",) if heeds_claims else ("scale", "offset", "nodata"):
        differ: list[tuple[Header, float, float | None]] = []
        n_claims = 0
        for source, header in zip(sources, opened, strict=True):
            claimed = source.columns.get(f"{name}_claimed")
            if not isinstance(header, Header) or not isinstance(claimed, int | float):
                continue
            n_claims += 1
            declared = _declared_value(header, slot.bands[0], name)
            if declared is None and heeds_claims:
                continue
            if declared is None or not math.isclose(claimed, declared, rel_tol=1e-9):
                differ.append((header, claimed, declared))
        if differ:
            header, claimed, declared = differ[0]
            says = "none" if declared is None else f"{declared:g}"
            yield PixelWarning(
                f"the catalog claims another {name} than the file's for {len(differ)} of {n_claims} sampled "
                f"sources{slot.of_band}, such as {claimed:g} and not {says} for {shown_href(header.href)}. "
                f"The cube keeps the file's values and applies neither {name}. The claim is in the "
                f"coordinate {name}_claimed"
            )


def warnings_of_silent_sources(
    slot: SourceSlot,
    sources: Sequence[Source],
    opened: Sequence[Header | SourceError],
    *,
    scaling: tuple[float, float],
) -> Iterator[str]:
    """Warn about sources of scaled values that say neither scale nor offset, where others do.

    Args:
        slot: The measurement of the sources.
        sources: The sample.
        opened: The header of each, or why there is none.
        scaling: The commonest scale and the lowest offset beside it.
    """
    there = [
        (source, header, Scaling.of(header, slot.bands[0], source, raw=False))
        for source, header in zip(sources, opened, strict=True)
        if isinstance(header, Header) and slot.bands[0] <= header.n_bands
    ]
    unscaled = [(source, header) for source, header, said in there if (said.scale, said.offset) == NO_SCALING]
    silent = [
        header
        for source, header in unscaled
        if all(source.columns.get(name) is None for name in SCALING_COLUMNS[:-1])
    ]
    if not silent or len(unscaled) == len(there):
        return
    which = (
        f"{len(silent)} of {len(there)} sampled sources{slot.of_band}, such as "
        f"{shown_href(silent[0].href)}, say neither scale nor offset"
    )
    remedy = "The list can say both, in columns scale and offset"
    if scaling == NO_SCALING:
        yield PixelWarning(f"{which}: their numbers stay as they are, beside scaled ones. {remedy}")
    else:
        yield LossWarning(f"{which}: their status will be unlike. {remedy}")


def _declared_value(header: Header, band: int, name: str) -> float | None:
    if name == "nodata":
        return header.nodata
    values = header.scales if name == "scale" else header.offsets
    return values[band - 1] if band <= header.n_bands else None


def warnings_of_places(
    slot: SourceSlot,
    rule: WindowRule,
    headers: Sequence[Header],
    projector: Projector,
    *,
    nodata: float | None,
    wants_same_grid: bool = False,
    unfit: Sequence[SourceError] = (),
    may_warp: bool = False,
) -> Iterator[str]:
    """Yield warnings about the window's position: outside or partly outside sources, or on other grids.

    Args:
        slot: The measurement of the sources.
        rule: The wanted window.
        headers: Those of the sample that fit the grid by the width of their pixels.
        projector: For windows on the map.
        nodata: That of the sources.
        wants_same_grid: Whether sources on another grid are refused.
        unfit: Why others do not fit it. They are told together with those on another grid.
        may_warp: Whether the request could have a grid that all are warped onto.
    """
    # Where does the window lie on each of them?
    of_band = slot.of_band
    alike = [each for each in headers if each.dtype == slot.dtype]
    placed: list[tuple[Header, Window]] = []
    off: list[Header] = []
    for each in alike:
        try:
            window = locate_like(rule, each, grid=slot.grid, window=slot.window, projector=projector)
            placed.append((each, window))
        except SourceError as error:
            off += [each] if error.status is Status.OUTSIDE else []
        except RequestError:
            pass  # the gather will record it as a failure
    # Which of them are on another grid than the cube?
    ours = Placement.on(slot.grid, slot.window)
    others = [
        (each, own)
        for each, own in placed
        if not Placement.on(Grid.of(each), own).covers_same_pixels_as(ours)
    ]
    if wants_same_grid and (others or unfit):
        such = f"{unfit[0]}. Their" if unfit else f"{shown_href(others[0][0].href)}: their"
        yield LossWarning(
            f"{len(unfit) + len(others)} of {len(unfit) + len(alike)} sampled sources{of_band} "
            f"{ON_ANOTHER_GRID}, such as {such} status will be unlike{WARP_THEM if may_warp else ''}"
        )
        placed = [each for each in placed if each not in others]
    elif others:
        yield (
            f"sampled sources{of_band} do not share one grid: the cube will be an unaligned stack without "
            "x and y, and each row has its own transform. With grid: same (--grid same), those on other "
            "grids get the status unlike instead"
        )
    # Which ones does the window miss, and which ones does it leave partly?
    if off:
        yield LossWarning(
            f"the window lies wholly outside {len(off)} of {len(alike)} sampled sources{of_band}, such as "
            f"{shown_href(off[0].href)}: their status will be outside"
        )
    outside = [(1 - own.share_on(width=each.width, height=each.height), each) for each, own in placed]
    if over := [each for share, each in outside if share > 0]:
        share, most = max(outside, key=lambda pair: pair[0])
        has_nan = np.dtype(slot.dtype).kind in "fc"
        is_marked = has_nan or nodata is not None or all(each.nodata is not None for each in over)
        which = (
            f"{PARTLY_OUTSIDE} {len(over)} of {len(alike)} sampled sources{of_band}, with "
            f"{in_percent(share)} of its pixels outside {shown_href(most.href)}"
        )
        yield f"{which}: {OVERHANG_IS_NODATA}" if is_marked else PixelWarning(f"{which}: {OVERHANG_IS_ZERO}")


def _scaling(header: Header, bands: Sequence[int]) -> list[tuple[float, float]]:
    """Return (scale, offset) of some bands."""
    return [(header.scales[band - 1], header.offsets[band - 1]) for band in bands]


def _list_counts(counts: Mapping[str, int]) -> str:
    """Return values with their counts, the most frequent first: ``0: 12, none: 4``."""
    return ", ".join(f"{what}: {n}" for what, n in sorted(counts.items(), key=lambda item: -item[1]))


def in_percent(share: float) -> str:
    """Return a share in percent. Only exactly 0 and 1 become 0 % and 100 %."""
    return f"{min(max(share, 0.0001), 0.9999):.2%}" if 0 < share < 1 else f"{share:.0%}"
