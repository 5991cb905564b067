"""Read one pixel of each source. Sources may differ in dtype and bands, as no cube is made."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import claimed_nodata
from pixel_gather.core.model.source import Cost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.plan.locate_window import locate_window
from pixel_gather.core.plan.longitudes import turn_point
from pixel_gather.core.ports import SourceAccess

type Value = int | float | complex


class DrilledPixel(Struct, frozen=True, kw_only=True):
    """The requested pixel of one source."""

    source: Source
    status: Status
    reason: str | None = None
    col: int | None = None
    row: int | None = None
    bands: tuple[int, ...] = ()
    values: tuple[Value, ...] = ()
    """Raw values, one per band. Empty if the status is not ok."""

    nodata: float | int | None = None
    """What the source declares, or else what its list claims."""

    def is_nodata(self, value: Value) -> bool:
        """Return whether a value is the source's nodata value or NaN."""
        return value != value or value == self.nodata  # noqa: PLR0124 # true of NaN alone


def drill(
    sources: Iterable[Source],
    rule: WindowRule,
    *,
    bands: Sequence[int] | None,
    band_numbers: Mapping[str, int],
    access: SourceAccess,
    most_ahead: int,
) -> AsyncGenerator[DrilledPixel]:
    """Yield one pixel of every source, in the order of the sources.

    Sources are consumed when needed, so a long list is never in memory. Bands are from 1; None for all. A
    source whose ``band`` has a number has this band alone, as in a gather. A source's time-out includes its
    retries.
    """

    async def read_one(source: Source) -> DrilledPixel:
        cost = Cost()
        async with access.limiter.permit(source.href, weight=1) as permit:
            number = None if source.band is None else band_numbers.get(source.band)
            asked = bands if number is None else (number,)
            try:
                async with asyncio.timeout(access.timeout_s):
                    pixel = await _drill_one(source, rule, asked, access, cost=cost)
            except TimeoutError:
                reason = f"not read within {access.timeout_s:g} s"
                return DrilledPixel(source=source, status=Status.TIMED_OUT, reason=reason)
            if pixel.status is Status.OK:
                permit.record_read(n_requests=cost.needed_requests)
        return pixel

    return in_order(sources, read_one, most_ahead=most_ahead)


async def _drill_one(
    source: Source,
    rule: WindowRule,
    bands: Sequence[int] | None,
    access: SourceAccess,
    *,
    cost: Cost,
) -> DrilledPixel:
    try:
        opened = await access.reader.open_(source.href, overview=None, cost=cost)
        header = opened.header
        wanted = tuple(bands or range(1, header.n_bands + 1))
        if max(wanted) > header.n_bands:
            reason = f"it has {counted(header.n_bands, 'band')}, not {max(wanted)}"
            return DrilledPixel(source=source, status=Status.UNLIKE, reason=reason)
        projector = access.projector
        window = locate_window(turn_point(rule, header, projector), header, projector=projector)
        pixel = np.empty((len(wanted), 1, 1), dtype=header.dtype)
        await opened.read_into([(pixel, window)], wanted, masked=False)
    except SourceError as error:
        return DrilledPixel(source=source, status=error.status, reason=error.reason)
    except RequestError as error:  # PROJ finds no way to this source's CRS
        return DrilledPixel(source=source, status=Status.UNSUPPORTED, reason=str(error))
    return DrilledPixel(
        source=source,
        status=Status.OK,
        col=window.col_off,
        row=window.row_off,
        bands=wanted,
        values=tuple(pixel[:, 0, 0].tolist()),
        nodata=claimed_nodata(source.columns, header.dtype) if header.nodata is None else header.nodata,
    )
