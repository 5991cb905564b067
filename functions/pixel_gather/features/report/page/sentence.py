"""Says in one sentence what a gather read, and of each cause of failure what happened. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.report_content import Coverage

_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MANY_DAYS: Final = 60
_MANY_YEARS: Final = 20
_HAPPENED: Final = {
    Status.MISSING: ("was not there", "were not there"),
    Status.DENIED: ("was refused by its store", "were refused by their stores"),
    Status.CORRUPT: ("was corrupt", "were corrupt"),
    Status.UNLIKE: ("was unlike the others", "were unlike the others"),
    Status.OUTSIDE: ("did not reach the window", "did not reach the window"),
    Status.TIMED_OUT: ("gave no answer in time", "gave no answer in time"),
    Status.CHANGED: ("was replaced while it was read", "were replaced while they were read"),
    Status.UNSUPPORTED: ("had a form that no reader knew", "had a form that no reader knew"),
    Status.LOST: ("was lost with its worker", "were lost with their workers"),
    Status.UNMASKED: ("was read without its mask", "were read without their masks"),
}


def sentence_of(report: Report, coverage: Coverage, *, period: str | None = None) -> str:
    """Return such as ``24 dates, Aug 2017 to Aug 2018: 17 read, 7 failed (4 corrupt, 3 missing).``."""
    n_rows = report.shape[0]
    is_abreast = report.n_sources != n_rows or len(coverage.status.T) > 1
    span = ""
    thing = "image"
    if coverage.has_time and len(coverage.at):
        days = coverage.at // _DAY_US
        dated = period if period in ("month", "year") else "date"
        thing = dated if len(np.unique(days)) == n_rows else "row" if is_abreast else "image"
        span = f", {span_in_words(int(coverage.at.min()), int(coverage.at.max()), period=period)}"
    elif is_abreast:
        thing = "row"
    what = counted(n_rows, thing)
    if report.images_per_chip is not None:
        n_chips, n_images, *_ = report.shape_of_arrays
        what = f"{counted(n_chips, 'chip')} in {counted(n_images, 'image')}"
    return f"{what}{span}: {outcome_in_words(report.status_counts, is_abreast=is_abreast)}."


def outcome_in_words(status_counts: Mapping[str, int], *, is_abreast: bool) -> str:
    """Return how many sources were read and failed, and how; the most frequent failure first."""
    counts = {Status[name.upper()]: n for name, n in status_counts.items() if n}
    n_read, n_absent = counts.pop(Status.OK, 0), counts.pop(Status.ABSENT, 0)
    n_failed = sum(counts.values())
    read = f"{n_read:,} of {counted(n_read + n_failed, 'image')} read" if is_abreast else f"{n_read:,} read"
    if n_failed:
        causes = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        said = ", ".join(f"{n:,} {status.name.lower().replace('_', ' ')}" for status, n in causes)
        read += f", {n_failed:,} failed ({said})"
    else:
        read += ", none failed"
    return read + (f"; {n_absent:,} without a source" if n_absent else "")


def happened_in_words(status: str, n: int) -> str:
    """Return what happened to some sources: ``4 were corrupt``."""
    one, many = _HAPPENED[Status[status.upper()]]
    return f"{n:,} {one if n == 1 else many}"


def span_in_words(first_us: int, last_us: int, *, period: str | None = None) -> str:
    """Return the span of two times, as exact as one wants to know it: ``Aug 2017 to Aug 2018``.

    Rows of a month or a year have no day.
    """
    first, last = (_EPOCH + timedelta(microseconds=each) for each in (first_us, last_us))
    n_days = (last - first).days
    if n_days > _MANY_DAYS or period in ("month", "year"):
        form = "%Y" if n_days > _MANY_YEARS * 365 or period == "year" else "%b %Y"
        begins, ends = first.strftime(form), last.strftime(form)
    else:
        begins, ends = (f"{each.day} {each:%b %Y}" for each in (first, last))
    return begins if begins == ends else f"{begins} to {ends}"
