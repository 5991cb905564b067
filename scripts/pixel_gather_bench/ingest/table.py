"""What was measured as text: a table of the ways, those that could not be measured, and the advice. Pure."""

from collections.abc import Iterator, Sequence

from pixel_gather.estimate.explain import size
from pixel_gather_bench.ingest.advice import Advice
from pixel_gather_bench.ingest.job import StoredObject
from pixel_gather_bench.ingest.summary import Summary
from pixel_gather_bench.ingest.ways import BY_NAME
from pixel_gather_bench.text_table import aligned

_WHOLE = (
    "way", "first sample, ms", "MB/s", "a sample, ms", "total, s", "random read, ms",
    "first random, ms", "CPU s", "MiB",
)  # fmt: skip
_WINDOWS = ("way", "first window, ms", "a window, ms", "total, s", "CPU s", "MiB")
_SLOW = 10
"""MB/s below which two digits are shown."""


def lines_of(
    summaries: Sequence[Summary],
    *,
    objects: Sequence[StoredObject],
    missing: dict[str, str],
    advice: Sequence[Advice],
    plan: str,
) -> Iterator[str]:
    """Yield the report line by line."""
    yield _title(objects)
    yield ""
    yield from table_of(summaries, n_objects=len(objects))
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


def _title(objects: Sequence[StoredObject]) -> str:
    if len(objects) == 1:
        return f"{_printable(objects[0].href)}, {objects[0].nbytes:,} bytes"
    total = sum(each.nbytes for each in objects)
    return f"{len(objects):,} objects of {size(total)} in all, one window of each"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def table_of(summaries: Sequence[Summary], *, n_objects: int) -> Iterator[str]:
    """Yield a table with a row per way."""
    heads, rows = _rows(summaries, n_objects=n_objects)
    yield from aligned([heads, *rows])


def _rows(summaries: Sequence[Summary], *, n_objects: int) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    if n_objects == 1:
        return _WHOLE, [
            (
                each.way.title,
                _ms(each.first_sample_s),
                _pace(each.mb_per_s),
                _ms(each.sample_s),
                f"{each.total_s:,.3f}",
                _ms(each.random_s),
                _ms(each.first_random_s),
                f"{each.cpu_s:.2f}",
                f"{each.peak_rss_mib:,.0f}",
            )
            for each in summaries
        ]
    return _WINDOWS, [
        (
            each.way.title,
            _ms(each.first_sample_s),
            _ms(each.sample_s),
            f"{each.total_s:,.3f}",
            f"{each.cpu_s:.2f}",
            f"{each.peak_rss_mib:,.0f}",
        )
        for each in summaries
    ]


def _pace(mb_per_s: float) -> str:
    return f"{mb_per_s:,.0f}" if mb_per_s >= _SLOW else f"{mb_per_s:.2g}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f}"
