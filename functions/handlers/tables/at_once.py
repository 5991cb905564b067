"""Small tables that are answered at once: a series at one place, and one pixel of every file."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, closing
from typing import Any, Final

from handlers.api.answer_size import MOST_ANSWER_NBYTES, answer_nbytes
from handlers.deployment.admit_request import admit, open_table
from handlers.deployment.stores import Deployment
from handlers.tables.feature_table import list_sources, open_feature_table, open_reader
from handlers.tables.table_body import admit_table
from pixel_gather.core.errors import RequestError
from pixel_gather.core.estimate.pricing import USD_PER_GB_S, USD_PER_GET
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.time_range import format_moment
from pixel_gather.features.drill.read_pixels import DrilledPixel, Value, drill
from pixel_gather.features.series.series_rows import NOWHERE, PlaceSeries, json_time, naming_place
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.image_work import measure_each
from pixel_gather.tables.read_forecast import GB_OF_ONE_VCPU

MOST_AT_ONCE: Final = 2_000
"""Images or files of one answer."""

LONGEST_S: Final = 20.0
"""What takes longer becomes a table job."""


class LargerError(Exception):
    """There are too many images to be read at once, or too many values for one answer."""


async def series_at_once(given: Any, deployment: Deployment) -> dict[str, Any]:
    """Return the answer of a series.

    The body is one of ``POST /tables`` with a single feature.

    Raises:
        RequestError: The request is wrong.
        BudgetError: The month's budget is spent.
        LargerError: It takes too long, or there are too many images or values.
    """
    began = time.monotonic()
    asked = admit_table(given, deployment.settings)
    await deployment.check_not_halted()
    with naming_place(is_point=asked.kind.about["kind"] == "points"):
        try:
            async with (
                asyncio.timeout(LONGEST_S),
                open_feature_table(asked, deployment, left_s=LONGEST_S) as opened,
            ):
                _check_number(opened.table.n_rows)
                read = measure_each(opened.work, opened.wanted(), most_ahead=2 * opened.in_flight)
                async with aclosing(read):
                    images = [(record, lines) async for record, lines, _ in read]
                columns, notes = opened.work.columns, [*opened.table.notes, *opened.features.notes]
        except TimeoutError as error:
            raise LargerError from error
    found = PlaceSeries.of(images, columns)
    for row in found.rows:
        row["time"] = None if row["time"] is None else json_time(row["time"])
    _check_size(found.rows)
    requests = sum(record.n_requests for record, _ in images)
    seconds = time.monotonic() - began
    return {
        "columns": list(columns),
        "units": dict(found.units),
        "rows": found.rows,
        "totals": {
            "images": len(images),
            "failed": sum(record.status != "ok" for record, _ in images),
            "requests": requests,
            "bytes": sum(record.nbytes for record, _ in images),
            "seconds": seconds,
            "usd": requests * USD_PER_GET + seconds * GB_OF_ONE_VCPU * USD_PER_GB_S,
        },
        "notes": notes if found.rows else [*notes, NOWHERE],
    }


async def drill_at_once(
    sources: Any, rule: WindowRule, bands: Sequence[int] | None, deployment: Deployment
) -> dict[str, Any]:
    """Return one pixel of every file.

    The rule is a window of one pixel. Bands are from 1; None for all.

    Raises:
        RequestError: The request is wrong.
        BudgetError: The month's budget is spent.
        LargerError: It takes too long, or there are too many files or values. A table can be made of them.
    """
    may_have_names = True  # until the list is read
    request = admit(parse_request({"sources": sources, "window": "centre"}), deployment.settings)
    await deployment.check_not_halted()
    try:
        async with (
            asyncio.timeout(LONGEST_S),
            open_table(request, deployment, left_s=LONGEST_S) as table,
            open_reader(deployment, request.sources.sign) as reader,
        ):
            may_have_names = bool(table.bands)
            _check_number(table.n_sources)
            with closing(list_sources(table)) as files:
                pixels = drill(
                    files,
                    rule,
                    bands=bands,
                    band_numbers=table.band_numbers,
                    access=SourceAccess(
                        reader=reader,
                        projector=RasterioProjector(),
                        limiter=deployment.limiter,
                        timeout_s=LONGEST_S,
                    ),
                    most_ahead=2 * deployment.settings.concurrency,
                )
                async with aclosing(pixels):
                    found = [each async for each in pixels]
            notes = list(table.notes)
        rows = [_describe_pixel(each) for each in found]
        _check_size(rows)
    except (TimeoutError, LargerError) as error:
        if bands is not None and may_have_names:  # b2 of a table would be the file of B02
            raise RequestError(
                "there are too many files or values for one answer, and a table takes bands by the names in "
                "the list: leave bands out, or ask GET /series for values by these names",
                field="bands",
            ) from error
        raise LargerError from error
    return {"rows": rows, "notes": notes}


def _check_number(n_images: int) -> None:
    if n_images > MOST_AT_ONCE:
        raise LargerError


def _check_size(rows: Sequence[Mapping[str, Any]]) -> None:
    if answer_nbytes(rows) > MOST_ANSWER_NBYTES:
        raise LargerError


def _describe_pixel(pixel: DrilledPixel) -> dict[str, Any]:
    source = pixel.source
    return {
        "href": source.href,
        "time": None if source.time_us is None else format_moment(source.time_us),
        "scene": source.scene,
        "band": source.band,
        "col": pixel.col,
        "row": pixel.row,
        "values": [None if pixel.is_nodata(each) else _number(each) for each in pixel.values],
        "status": pixel.status.name.lower(),
        "reason": pixel.reason,
    }


def _number(value: Value) -> float | int | str | None:
    if isinstance(value, complex):
        return str(value)
    return value if math.isfinite(value) else None
