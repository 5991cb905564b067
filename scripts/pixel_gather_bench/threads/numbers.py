"""Sources read at one time against what the reader finds out: numbers, sentences, tables. Pure."""

import statistics
from collections.abc import Iterator, Sequence
from copy import replace
from typing import Any, Final, Literal

from msgspec import Struct

from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.limiter.adapt_concurrency import Bounds
from pixel_gather.io.store.object_store import split_href
from pixel_gather_bench.experiment import aligned
from pixel_gather_bench.suite.job import SuiteJob
from pixel_gather_bench.suite.records import Record, by_configuration

type BackEnd = Literal["file", "s3", "http"]

BACK_ENDS: Final[dict[BackEnd, str]] = {"file": "Local files", "s3": "S3", "http": "HTTP"}
"""Each with its name in tables and figures."""

_FEW: Final = 8
_FEW_SOURCES: Final = 128
"""Read by fewer than 8 at a time: they have the same pace throughout, and more would take minutes."""


class Point(Struct, frozen=True, kw_only=True):
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


class BackEndCurve(Struct, frozen=True, kw_only=True):
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
    found = {kind: tuple(href for href in hrefs if _back_end_of(href) == kind) for kind in BACK_ENDS}
    return {kind: its for kind, its in found.items() if its}


def shorten_job(job: SuiteJob) -> SuiteJob:
    """Return a run with fewer sources where it reads few at a time."""
    at_a_time = job.configuration.concurrency
    if at_a_time is None or at_a_time >= _FEW:
        return job
    return replace(job, hrefs=job.hrefs[:_FEW_SOURCES])


def make_curve(back_end: BackEnd, root: str, records: Sequence[Record]) -> BackEndCurve:
    """Return what the records of one back end tell.

    The root is one of the back end's. The records are in the order of `read_records`.
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


_COLUMNS: Final = ("at a time", "sources", "sources/s", "lowest", "highest", "CPU s per 1,000", "failed")
_REMOTE: Final = (
    "the time to the first byte decides how many requests have to be in flight. So the limiter begins with "
    "a number that is fast at 0 ms, and not too many for a store that throttles. It climbs for as long as "
    "more gains. It exceeds 128 only if the first byte takes 50 ms or longer. Each request holds a connection"
)
_BASIS: Final[dict[BackEnd, str]] = {
    "file": (
        "reads answer at once, but pass from thread to thread. So the limiter begins with 16 sources a core, "
        "so that every core has something to decode. It changes the number only where that pays"
    ),
    "s3": _REMOTE,
    "http": _REMOTE,
}


def as_text(curves: Sequence[BackEndCurve], machine: dict[str, Any]) -> str:
    """Return everything that standard output and ``threads.txt`` say."""
    parts = ["\n".join(_lines(curve)) for curve in curves]
    return "\n\n".join((*parts, f"with {machine['cores']} cores: {machine['cpu']}"))


def verdict(curve: BackEndCurve) -> str:
    """Return one sentence: what the limiter reached, and of what."""
    best = f"the best fixed number, {curve.best.at_a_time}, read {curve.best.median_per_s:,.0f} sources/s"
    if curve.found is None or curve.share_of_best is None:
        return best
    return (
        f"{best}; by itself the reader reached {curve.found.median_per_s:,.0f}, {curve.share_of_best:.0%} of "
        f"that, with up to {curve.found.at_a_time} at a time"
    )


def basis(curve: BackEndCurve) -> str:
    """Return the defaults and on what they rest."""
    bounds = curve.bounds
    return (
        f"default: begins with {bounds.start}, "
        f"never below {bounds.lowest} or above {bounds.highest}; {_BASIS[curve.back_end]}"
    )


def _lines(curve: BackEndCurve) -> Iterator[str]:
    rows = [_COLUMNS, *(_row(str(point.at_a_time), point) for point in curve.fixed)]
    if curve.found is not None:
        rows.append(_row(f"auto, {curve.found.at_a_time}", curve.found))
    yield f"{BACK_ENDS[curve.back_end]}, runs of each: {len(curve.fixed[0].per_s)}; the median is quoted"
    yield from aligned(rows)
    yield verdict(curve)
    yield basis(curve)


def _row(name: str, point: Point) -> tuple[str, ...]:
    return (
        name,
        f"{point.n_sources:,}",
        f"{point.median_per_s:,.1f}",
        f"{min(point.per_s):,.1f}",
        f"{max(point.per_s):,.1f}",
        f"{point.cpu_s_per_1000:.2f}",
        f"{point.n_failed:,}",
    )


_THREADS: Final = (4, 8, 32)
_N_TILES: Final = 900


OF_2016: Final[tuple[tuple[str, tuple[int, ...], str], ...]] = (
    ("Accumulo, 4 cores", (15_541, 18_541, 20_120), "number of cores"),
    ("Accumulo, 8 cores", (12_532, 9_541, 10_610), "number of cores"),
    ("Cassandra, 4 cores", (7_622, 9_511, 13_261), "number of cores"),
    ("Cassandra, 8 cores", (8_100, 4_541, 7_610), "number of cores"),
    ("file", (), "number of cores"),
    ("Hadoop", (), "number of cores, up to 16 without more memory"),
    ("S3", (), "number of cores, at most 8, so that few requests fail"),
)
"""Of each back end: ms with 4, 8 and 32 threads where it was measured, and the advice."""


def lines_beside(curves: Sequence[BackEndCurve]) -> Iterator[str]:
    """Yield a table of milliseconds for 900 tiles: of what was measured here, then what was published."""
    rows = [("ms for 900 tiles", *(f"{n} threads" for n in _THREADS), "best")]
    rows += [_here(curve) for curve in curves]
    rows += [
        (f"2016: {name}", *(f"{each:,}" for each in ms), *["-"] * (len(_THREADS) - len(ms)), advice)
        for name, ms, advice in OF_2016
    ]
    yield "beside the figures published in 2016 (some 900 Landsat tiles, averages of warm calls)"
    yield from aligned(rows)
    yield (
        "there each thread waits and decodes, so more threads than cores are slower. "
        "Here one decoder runs on each core, however many sources are in flight. "
        "Machines, tiles and stores differ."
    )


def _here(curve: BackEndCurve) -> tuple[str, ...]:
    pace = {point.at_a_time: point.median_per_s for point in curve.fixed}
    cells = (f"{1000 * _N_TILES / pace[n]:,.0f}" if pace.get(n) else "-" for n in _THREADS)
    best = f"{curve.best.at_a_time} in flight: {1000 * _N_TILES / max(curve.best.median_per_s, 1e-9):,.0f} ms"
    return (f"here: {BACK_ENDS[curve.back_end]}", *cells, best)
