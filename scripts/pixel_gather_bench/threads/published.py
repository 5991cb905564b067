"""The published figures that threads are laid beside, of 2016.

Source: an architecture decision of a geospatial framework; some 900 Landsat tiles a read, averages of warm
calls, in milliseconds. Those reads block a thread and decode in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pixel_gather_bench.text_table import aligned
from pixel_gather_bench.threads.numbers import BACK_ENDS, BackEndCurve

_THREADS: Final = (4, 8, 32)
_N_TILES: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBackEnd:
    """What was measured of one back end, or only advised."""

    name: str
    advice: str
    ms: tuple[int, int, int] | None = None
    """With 4, 8 and 32 threads."""


OF_2016: Final = (
    PublishedBackEnd(name="Accumulo, 4 cores", ms=(15_541, 18_541, 20_120), advice="number of cores"),
    PublishedBackEnd(name="Accumulo, 8 cores", ms=(12_532, 9_541, 10_610), advice="number of cores"),
    PublishedBackEnd(name="Cassandra, 4 cores", ms=(7_622, 9_511, 13_261), advice="number of cores"),
    PublishedBackEnd(name="Cassandra, 8 cores", ms=(8_100, 4_541, 7_610), advice="number of cores"),
    PublishedBackEnd(name="file", advice="number of cores"),
    PublishedBackEnd(name="Hadoop", advice="number of cores, up to 16 without more memory"),
    PublishedBackEnd(name="S3", advice="number of cores, at most 8, so that few requests fail"),
)


def lines_beside(curves: Sequence[BackEndCurve]) -> Iterator[str]:
    """Yield a table of milliseconds for 900 tiles: of what was measured here, then what was published."""
    rows = [("ms for 900 tiles", *(f"{n} threads" for n in _THREADS), "best")]
    rows += [_here(curve) for curve in curves]
    rows += [
        (
            f"2016: {each.name}",
            *(("-",) * 3 if each.ms is None else (f"{ms:,}" for ms in each.ms)),
            each.advice,
        )
        for each in OF_2016
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
