"""Open a few headers spread over the list and settle what every source should be like."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Final

from pixel_gather.errors import RequestError, SourceError
from pixel_gather.model.source import Cost, Header
from pixel_gather.model.window import Window, WindowRule
from pixel_gather.plan.cube_plan import SourceSlot
from pixel_gather.plan.locate_window import Grid, Placement, place_like, place_window
from pixel_gather.ports import Projector, SourceReader, SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.request.request import GatherRequest

SAMPLED_HEADERS: Final = 16
"""Headers opened per band of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One slot as the sample shows it, and what its sources cost to open."""

    slot: SourceSlot
    header: Header
    mean_nbytes: float
    mean_open_nbytes: float
    warnings: tuple[str, ...]


async def draft_slot(
    name: str | None,
    request: "GatherRequest",
    rule: WindowRule,
    *,
    table: SourceTable,
    reader: SourceReader,
    projector: Projector,
) -> Draft:
    """Open a sample of one slot's sources and settle what they should be like."""
    sample = table.spread(SAMPLED_HEADERS, band=name)
    costs = [Cost() for _ in sample]
    opened = await asyncio.gather(
        *(
            _header_or_error(reader, source.href, request.overview, cost)
            for source, cost in zip(sample, costs, strict=True)
        )
    )
    headers = [each for each in opened if isinstance(each, Header)]
    errors = [each for each in opened if isinstance(each, SourceError)]
    if not headers:
        raise RequestError(
            f"none of the {len(sample)} sources that were tried can be opened; the first: {errors[0]}",
            field="sources",
        )
    header, window = _template(headers, rule, request, projector)
    bands = request.bands or (tuple(range(1, header.n_bands + 1)) if name is None else (1,))
    grid = Grid.of(header)
    are_aligned = all(
        _is_aligned(header, window, each, rule, projector) for each in headers if each.dtype == header.dtype
    )
    return Draft(
        slot=SourceSlot(name=name, dtype=header.dtype, bands=bands, grid=grid, window=window),
        header=header,
        mean_nbytes=sum(each.nbytes for each in headers) / len(headers),
        mean_open_nbytes=sum(cost.nbytes for cost in costs) / len(costs),
        warnings=tuple(_warnings(name, header, headers, errors, are_aligned=are_aligned)),
    )


async def _header_or_error(
    reader: SourceReader, href: str, overview: int | None, cost: Cost
) -> Header | SourceError:
    try:
        return (await reader.open_(href, overview=overview, cost=cost)).header
    except SourceError as error:
        return error


def _template(
    headers: Sequence[Header], rule: WindowRule, request: "GatherRequest", projector: Projector
) -> tuple[Header, Window]:
    """Return the first header on which the window and the bands can be had, of the commonest dtype first."""
    counts = Counter(header.dtype for header in headers)
    first_problem: RequestError | None = None
    for header in sorted(headers, key=lambda each: -counts[each.dtype]):
        highest = max(request.bands or (1,))
        if highest > header.n_bands:
            problem = RequestError(
                f"{header.href} has {header.n_bands} band(s), not {highest}", field="bands"
            )
        else:
            try:
                return header, place_window(rule, header, projector=projector)
            except SourceError as error:
                problem = RequestError(str(error), field="window")
            except RequestError as error:  # PROJ finds no way to this source's CRS
                problem = error
        first_problem = first_problem or problem
    assert first_problem is not None  # noqa: S101 # there is a header
    raise first_problem


def _warnings(
    name: str | None,
    template: Header,
    headers: Sequence[Header],
    errors: Sequence[SourceError],
    *,
    are_aligned: bool,
) -> list[str]:
    """Say what the sample shows that the user should know before paying for it."""
    of_band = f" of band {name}" if name else ""
    n = len(headers)
    said = []
    if errors:
        said.append(
            f"{len(errors)} of {n + len(errors)} sources{of_band} that were tried cannot be opened: "
            f"{errors[0]}"
        )
    other_dtypes = [each for each in headers if each.dtype != template.dtype]
    if other_dtypes:
        dtypes = " or ".join(dict.fromkeys(each.dtype for each in other_dtypes))
        said.append(
            f"{len(other_dtypes)} of {n} sampled sources{of_band} are {dtypes}, not "
            f"{template.dtype}, and will be recorded as unlike, such as {other_dtypes[0].href}"
        )
    if not are_aligned:
        said.append(
            f"sampled sources{of_band} do not share one grid: the cube will be an unaligned stack without "
            "x and y, each row with its own transform (grid: same records those as unlike instead)"
        )
    if any(not _same_number(each.nodata, template.nodata) for each in headers):
        said.append(f"sampled sources{of_band} declare different nodata values; each row keeps its own")
    if any((each.scales, each.offsets) != (template.scales, template.offsets) for each in headers):
        said.append(f"sampled sources{of_band} declare different scales or offsets; pixels stay raw")
    striped = [each for each in headers if not each.is_tiled and each.height > each.tile_height]
    if striped:
        said.append(f"{len(striped)} of {n} sampled sources{of_band} are stored in strips, not tiles")
    return said


def _is_aligned(
    template: Header, window: Window, header: Header, rule: WindowRule, projector: Projector
) -> bool:
    grid = Grid.of(template)
    try:
        own = place_like(rule, header, template=grid, window=window, projector=projector)
    except (SourceError, RequestError):
        return True  # it will be a failure of its own, not another grid
    return Placement.on(Grid.of(header), own).covers_same_pixels_as(Placement.on(grid, window))


def _same_number(one: float | None, other: float | None) -> bool:
    both_nan = one is not None and other is not None and isnan(one) and isnan(other)
    return one == other or both_nan
