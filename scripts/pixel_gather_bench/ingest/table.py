"""The result as text: a table of the ways, those that could not be measured, and the advice. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pixel_gather.core.estimate.explain import size
from pixel_gather_bench.experiment import aligned
from pixel_gather_bench.ingest.advice import Advice
from pixel_gather_bench.ingest.job import IngestObject
from pixel_gather_bench.ingest.summary import Summary
from pixel_gather_bench.ingest.ways import BY_NAME

_SLOW = 10
"""Below so many MB/s, two digits are shown."""


def report_lines(
    summaries: Sequence[Summary],
    *,
    objects: Sequence[IngestObject],
    missing: dict[str, str],
    advice: Sequence[Advice],
    plan: str,
) -> Iterator[str]:
    """Yield the report line by line."""
    yield _title(objects)
    yield ""
    yield from table_lines(summaries, n_objects=len(objects))
    if missing:
        yield ""
        for way, reason in missing.items():
            yield f"not here: {BY_NAME[way].title}: {reason}"
    yield ""
    for each in advice:
        yield f"{each.pattern}: {each.title} [{each.way}]"
        yield f"    {each.why}"
    yield ""
    yield plan


def _title(objects: Sequence[IngestObject]) -> str:
    if len(objects) == 1:
        return f"{_printable(objects[0].href)}, {objects[0].nbytes:,} bytes"
    total = sum(each.nbytes for each in objects)
    return f"{len(objects):,} objects of {size(total)} in all, one window of each"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def table_lines(summaries: Sequence[Summary], *, n_objects: int) -> Iterator[str]:
    """Yield a table with a row per way."""
    columns = _WHOLE if n_objects == 1 else _WINDOWS
    return aligned([tuple(columns), *(tuple(of(each) for of in columns.values()) for each in summaries)])


def _pace(mb_per_s: float) -> str:
    return f"{mb_per_s:,.0f}" if mb_per_s >= _SLOW else f"{mb_per_s:.2g}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f}"


_COST: Final[dict[str, Callable[[Summary], str]]] = {
    "total, s": lambda each: f"{each.total_s:,.3f}",
    "CPU s": lambda each: f"{each.cpu_s:.2f}",
    "MiB": lambda each: f"{each.peak_rss_mib:,.0f}",
}
_WHOLE: Final[dict[str, Callable[[Summary], str]]] = {
    "way": lambda each: each.way.title,
    "first sample, ms": lambda each: _ms(each.first_sample_s),
    "MB/s": lambda each: _pace(each.mb_per_s),
    "a sample, ms": lambda each: _ms(each.sample_s),
    "random read, ms": lambda each: _ms(each.random_s),
    "first random, ms": lambda each: _ms(each.first_random_s),
    **_COST,
}
_WINDOWS: Final[dict[str, Callable[[Summary], str]]] = {
    "way": lambda each: each.way.title,
    "first window, ms": lambda each: _ms(each.first_sample_s),
    "a window, ms": lambda each: _ms(each.sample_s),
    **_COST,
}
