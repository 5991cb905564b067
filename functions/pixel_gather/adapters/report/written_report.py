"""The report files beside a cube's arrays: whether they are there, and having them written.

What draws them takes half a second to import and lies in few packages: it is asked for where it is needed.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

import obstore
from obstore.exceptions import BaseError

from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.errors import GatherError
from pixel_gather.extras import check_extra

REPORT_KEY: Final = "report.json"
PAGE_KEY: Final = "report.html"


class Log(Protocol):
    """Where it is told that a report could not be drawn."""

    def warning(self, msg: str, *args: object) -> None:
        """Log a sentence."""

    def exception(self, msg: str, *args: object) -> None:
        """Log a sentence and the exception in hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """Which of a cube's report files are there."""

    has_figures: bool
    """``report.json``, for programs."""

    has_page: bool
    """``report.html``, for people."""


async def look_for_report(store: Store) -> WrittenReport:
    """Look which report files are there; what the store does not tell of is not.

    Args:
        store: At the cube's root.
    """
    has_figures, has_page = await asyncio.gather(_is_there(store, REPORT_KEY), _is_there(store, PAGE_KEY))
    return WrittenReport(has_figures=has_figures, has_page=has_page)


async def write_report(
    store: Store, *, place: str, usd_by_service: dict[str, float] | None, log: Log
) -> WrittenReport:
    """Write the report files of a cube that is complete, and look which of them are there.

    The cube is complete whatever becomes of them: no failure leaves this, and the next who asks for the same
    gather has another try.

    Args:
        store: At the cube's root.
        place: Where that is, as people are told.
        usd_by_service: What the gather cost, where it ran on AWS.
        log: Told of a failure.
    """
    try:
        check_extra("report", "report pages")
        from pixel_gather.adapters.report.report_files import write_report_files  # noqa: PLC0415 # see above

        await write_report_files(store, place=place, usd_by_service=usd_by_service)
    except (GatherError, BaseError, OSError) as error:  # as of a place that cannot be written to
        said = str(error).partition("\n")[0]
        log.warning("the report of %s could not be written: %s; the cube is complete", place, said)
    except Exception:  # whatever it is, the pixels are safe
        log.exception("the report of %s could not be drawn; the cube is complete", place)
    return await look_for_report(store)


async def _is_there(store: Store, key: str) -> bool:
    try:
        await obstore.head_async(store, key)
    except (BaseError, OSError):
        return False
    return True
