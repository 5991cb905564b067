"""Recommends a way for each pattern of use, from what was measured. Pure."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.estimate.range_parts import HERE, Parts, choose_parts
from pixel_gather.core.model.plurals import size
from pixel_gather_bench.ingest.summary import Summary

PATTERNS: Final = {
    "sequential": "from the beginning to the end, each sample used as it comes",
    "random": "many ranges all over it",
    "whole": "all of it, before anything is done",
    "one-window": "a single range of each object",
}
_AS_FAST: Final = 1.05
"""Ways that take at most so many times as long as the fastest count as equally fast. Then CPU decides."""

_NEARLY_AS_FAST: Final = 1.10
"""The same if each sample is used as it comes. Then the first sample's time decides."""

_SINGLE: Final = ("one-stream", "pipe")


class Advice(Struct, frozen=True, kw_only=True):
    """The way to use for one pattern."""

    pattern: str
    way: str
    title: str
    why: str


def advise(
    summaries: Sequence[Summary], *, n_random: int, n_objects: int, patterns: Sequence[str] = tuple(PATTERNS)
) -> tuple[Advice, ...]:
    """Return the best way of those measured for each pattern that the measurement answers.

    Of several objects, only ``one-window`` was measured.
    """
    answered = patterns if n_objects == 1 else [each for each in patterns if each == "one-window"]
    return tuple(
        advice
        for pattern in answered
        if (advice := _advice(pattern, summaries, n_random=n_random, n_objects=n_objects)) is not None
    )


def _advice(pattern: str, summaries: Sequence[Summary], *, n_random: int, n_objects: int) -> Advice | None:
    seconds_of: dict[str, Callable[[Summary], float | None]] = {
        "sequential": lambda each: each.took.total_s,
        "whole": lambda each: each.took.total_s,
        "random": lambda each: each.random_total_s(n_random),
        "one-window": (lambda each: each.took.first_random_s)
        if n_objects == 1
        else (lambda each: each.took.total_s),
    }
    seconds = {
        each.way.name: (each, took) for each in summaries if (took := seconds_of[pattern](each)) is not None
    }
    if not seconds:
        return None
    fastest_s = min(took for _, took in seconds.values())
    longest_s = fastest_s * (_NEARLY_AS_FAST if pattern == "sequential" else _AS_FAST)
    as_fast = [each for each, took in seconds.values() if took <= longest_s]
    decides = "first_sample_s" if pattern == "sequential" else "cpu_s"
    best = min(as_fast, key=lambda each: getattr(each.took, decides))
    took_s = seconds[best.way.name][1]
    n_reads = n_random if pattern == "random" else None
    others = {name: took for name, (_, took) in seconds.items() if name != best.way.name}
    return Advice(
        pattern=pattern,
        way=best.way.name,
        title=best.way.title,
        why="; ".join((*_times(took_s, others, n_reads), *_beside(pattern, best, summaries))),
    )


def _times(took_s: float, others: dict[str, float], n_reads: int | None) -> Iterator[str]:
    what = "it takes" if n_reads is None else f"{n_reads} random reads take"
    yield f"{what} {seconds_text(took_s)}"
    if others:
        next_best = min(others, key=lambda name: others[name])
        ratio = others[next_best] / max(took_s, 1e-9)
        rank = "the next best" if ratio >= 1 else "as good as equal"
        yield f"{next_best}, {rank}, {ratio:.2f} times as long"


def _beside(pattern: str, best: Summary, summaries: Sequence[Summary]) -> Iterator[str]:
    if pattern == "sequential":
        yield f"the first sample is there after {seconds_text(best.took.first_sample_s)}"
    if pattern == "random" and (n := reads_until_download_pays(summaries)) is not None:
        yield f"from {n:,} random reads on, a whole download would be faster"


def reads_until_download_pays(summaries: Sequence[Summary]) -> int | None:
    """Return from how many random reads on a whole download is faster; None if never."""
    ranged = [each for each in summaries if each.took.random_s is not None and not each.way.downloads]
    whole = [each for each in summaries if each.took.random_s is not None and each.way.downloads]
    if not ranged or not whole:
        return None
    best = min(ranged, key=lambda each: each.took.random_s or 0.0)
    download = min(whole, key=lambda each: each.took.download_s)
    saved_s = (best.took.random_s or 0.0) - (download.took.random_s or 0.0)
    return max(ceil(download.took.download_s / saved_s), 1) if saved_s > 0 else None


def planned_parts(nbytes: int, *, href: str, n_in_flight: int) -> Parts:
    """Return how the plan of a gather in process would fetch so many bytes of one object."""
    if href.startswith("file://"):
        return Parts()
    return choose_parts(nbytes, link=HERE, n_in_flight=n_in_flight)


def beside_the_plan(
    summaries: Sequence[Summary], parts: Parts, *, nbytes: int, href: str, n_objects: int
) -> str:
    """Say what the plan would do with a whole object, and which was measured to be faster."""
    rule = (
        "in a single range"
        if parts.part_nbytes is None
        else f"in {parts.n} parts of {size(parts.part_nbytes)} side by side"
    )
    said = f"a plan in process would fetch {size(nbytes)} of an object {rule}, {_resting_on(href)}"
    if n_objects > 1:
        return f"{said} with {n_objects:,} objects"
    by_name = {each.way.name: each for each in summaries}
    single = min((by_name[name].took.total_s for name in _SINGLE if name in by_name), default=None)
    if single is None or "ahead" not in by_name:
        return f"{said}; parts or a single range were not both measured"
    ratio = single / max(by_name["ahead"].took.total_s, 1e-9)
    if 1 / _AS_FAST <= ratio <= _AS_FAST:
        return f"{said}; measured: side by side as fast as a single stream"
    faster = "side by side" if ratio > 1 else "a single stream"
    agrees = (ratio > 1) == (parts.part_nbytes is not None)
    verdict = "as the plan has it" if agrees else "NOT as the plan has it"
    return f"{said}; measured: {faster} is {max(ratio, 1 / ratio):.2f} times as fast, {verdict}"


def _resting_on(href: str) -> str:
    if href.startswith("file://"):
        return "as it does all of local files"
    return (
        f"counting on {assumptions.CONNECTION} of a connection and {assumptions.NETWORK_HERE} of the machine"
    )


def seconds_text(seconds: float) -> str:
    """Return a duration in ms or s."""
    return f"{seconds * 1000:,.3g} ms" if seconds < 1 else f"{seconds:,.2f} s"
