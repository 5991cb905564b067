"""The published figures that ways are laid beside: one object of 2 GB in 2,048 samples, in 2022.

Source: a blog article of 2022 on pulling training data from S3: a local machine, default settings, averages
of ten. A random read was one of 10 offsets, 100 MB apart. CPU and memory were not measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pixel_gather_bench.experiment import aligned
from pixel_gather_bench.ingest.summary import Summary

NBYTES: Final = 2 * 2**30
"""Size of the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWay:
    """What the article says of one way, in seconds; None where it says nothing, or no more than "tiny"."""

    name: str
    """As it calls it."""

    first_sample_s: float
    sample_s: float | None = None
    total_s: float | None = None
    random_s: float | None = None


OF_2022: Final[dict[str, PublishedWay]] = {
    "in-parts": PublishedWay(name="boto3 download_file", first_sample_s=21.3),
    "one-thread": PublishedWay(name="boto3 use_threads=False", first_sample_s=156),
    "s5cmd": PublishedWay(name="s5cmd --concurrency 10", first_sample_s=23.1),
    "aws-cp": PublishedWay(name="aws s3 cp, as boto3", first_sample_s=21.3),
    "pipe": PublishedWay(name="FIFO, download_fileobj", first_sample_s=2.31, sample_s=0.01, total_s=24.7),
    "get-object": PublishedWay(name="get_object", first_sample_s=1.37, total_s=119, random_s=0.191),
    "goofys": PublishedWay(name="goofys mount", first_sample_s=1.36, total_s=27.6, random_s=0.149),
}
"""By our own way that does the same."""

_OTHER_MOUNTS: Final = ("rclone-mount", "s3fs", "mount-s3")
"""Measured beside goofys, which serves a mount as they do."""

_HEADS: Final = ("way, here | in 2022", "first sample, s", "a sample, s", "total, s", "random read, s")


def lines_beside(summaries: Sequence[Summary], *, nbytes: int) -> Iterator[str]:
    """Yield a table: in each cell what was measured here and, behind a bar, what was published."""
    here = {each.way.name: each for each in summaries}
    names = [*(name for name in here if name in OF_2022 or name in _OTHER_MOUNTS)]
    names += [name for name in OF_2022 if name not in here]
    rows = [_HEADS, *(_row(name, here.get(name)) for name in names)]
    yield "beside the figures published in 2022 (2 GB in 2,048 samples, a local machine, averages of 10)"
    yield from aligned(rows)
    if nbytes != NBYTES:
        yield f"the object here has {nbytes:,} bytes, not {NBYTES:,}: totals cannot be compared (see --make)"
    if here:
        soonest = min(here.values(), key=lambda each: each.first_sample_s)
        fastest = min(here.values(), key=lambda each: each.total_s)
        yield (
            f"first sample soonest: here {soonest.way.title}, in 2022 the goofys mount. "
            f"Least time in all: here {fastest.way.title}, in 2022 the download by boto3 in parts"
        )


def _row(name: str, here: Summary | None) -> tuple[str, ...]:
    then = OF_2022.get(name)
    title = "-" if here is None else here.way.name
    return (
        f"{title} | {'-' if then is None else then.name}",
        _both(None if here is None else here.first_sample_s, None if then is None else then.first_sample_s),
        _both(None if here is None else here.sample_s, None if then is None else then.sample_s),
        _both(None if here is None else here.total_s, None if then is None else then.total_s),
        _both(None if here is None else here.random_s, None if then is None else then.random_s),
    )


def _both(here_s: float | None, then_s: float | None) -> str:
    return f"{_seconds(here_s)} | {_seconds(then_s)}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3g}"
