"""Which runs tell how many sources are best read at one time, and what they told. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.limiter.find_limit import Bounds
from pixel_gather.io.store.object_store import split_href
from pixel_gather_bench.suite.job import Job
from pixel_gather_bench.suite.record import Record
from pixel_gather_bench.suite.records import by_configuration

type BackEnd = Literal["file", "s3", "http"]

BACK_ENDS: Final[dict[BackEnd, str]] = {"file": "Local files", "s3": "S3", "http": "HTTP"}
"""Each with its name in tables and figures."""

_FEW: Final = 8
_FEW_SOURCES: Final = 128
"""Read by fewer than 8 at a time: they have the same pace throughout, and more would take minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The runs of one number of sources at one time."""

    at_a_time: int
    """As fixed; of what was found out, the most that were in flight."""

    per_s: tuple[float, ...]
    """Sources a second by wall time, a run each."""

    cpu_s_per_1000: float
    """Median; of reading 1,000 sources."""

    n_sources: int
    n_failed: int

    @property
    def median_per_s(self) -> float:
        """The figure to quote."""
        return statistics.median(self.per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEndCurve:
    """One back end: every fixed number, and what the limiter found out by itself."""

    back_end: BackEnd
    fixed: tuple[Point, ...]
    """By number."""

    found: Point | None
    """None where ``auto`` was not asked for, or every such run crashed."""

    bounds: Bounds
    """Where the limiter begins, and how low and high it goes."""

    @property
    def best(self) -> Point:
        """The fixed number of the highest median."""
        return max(self.fixed, key=lambda point: point.median_per_s)

    @property
    def share_of_best(self) -> float | None:
        """What was found out, as a part of the best fixed number's pace."""
        return None if self.found is None else self.found.median_per_s / self.best.median_per_s


def by_back_end(hrefs: Sequence[str]) -> dict[BackEnd, tuple[str, ...]]:
    """Return the hrefs of each kind of back end, in their order."""
    kinds = [_back_end_of(href) for href in hrefs]
    return {
        kind: tuple(href for href, its in zip(hrefs, kinds, strict=True) if its == kind)
        for kind in BACK_ENDS
        if kind in kinds
    }


def shortened(job: Job) -> Job:
    """Return a run with fewer sources where it reads few at a time."""
    at_a_time = job.configuration.concurrency
    if at_a_time is None or at_a_time >= _FEW:
        return job
    return replace(job, hrefs=job.hrefs[:_FEW_SOURCES])


def curve_of(back_end: BackEnd, root: str, records: Sequence[Record]) -> BackEndCurve:
    """Return what the records of one back end tell.

    Args:
        back_end: Which.
        root: One of its roots, such as ``s3://bucket``.
        records: In the order of `pixel_gather_bench.suite.records.read_records`.
    """
    groups = [(group[0].job.configuration.concurrency, group) for group in by_configuration(records)]
    return BackEndCurve(
        back_end=back_end,
        fixed=tuple(_point(group, number) for number, group in groups if number is not None),
        found=next((_point(group, None) for number, group in groups if number is None), None),
        bounds=AdaptiveLimiter().bounds(root),
    )


def _back_end_of(href: str) -> BackEnd:
    scheme = split_href(href)[0].partition(":")[0]
    return "s3" if scheme == "s3" else "file" if scheme == "file" else "http"


def _point(group: Sequence[Record], fixed: int | None) -> Point:
    runs = [record.to_run() for record in group]
    n_read = [max(len(run.timings), 1) for run in runs]
    return Point(
        at_a_time=fixed or max(run.timings.most_in_flight for run in runs),
        per_s=tuple(len(run.timings) / record.wall_s for run, record in zip(runs, group, strict=True)),
        cpu_s_per_1000=statistics.median(
            1000 * record.cpu_s / n for record, n in zip(group, n_read, strict=True)
        ),
        n_sources=group[0].n_sources,
        n_failed=max(len(record.failures) for record in group),
    )
