"""The table of each back end, and on what the defaults rest. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pixel_gather_bench.text_table import aligned
from pixel_gather_bench.threads.numbers import BACK_ENDS, BackEnd, BackEndCurve, Point

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
