"""Medians of the measurements, the verdict on the plan's default, and the table with its sentences. Pure."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.plan.choose_layout import CHUNK_NBYTES, CHUNK_SIDE, SHARD_NBYTES
from pixel_gather.in_process.places import show_place
from pixel_gather_bench.blocks.sweep import (
    DEFAULT_CODEC,
    READS_IN_FLIGHT,
    WRITES_IN_FLIGHT,
    BlockRecord,
    BlockResult,
    BlockSetting,
    curve,
    is_default,
)
from pixel_gather_bench.experiment import aligned, digits, take_median

WAYS: Final = {
    "write_mb_per_s": "writing",
    "whole_mb_per_s": "reading all",
    "slices_per_s": "slices",
    "series_per_s": "series",
}
"""The speeds that a compromise is made of, with their names in sentences. They have equal weight."""

type Medians = dict[BlockSetting, BlockResult]


class Verdict(Struct, frozen=True, kw_only=True):
    """The default's block compared with the best compromise of the same codec."""

    codec: str
    best: BlockSetting
    share: float
    """Compromise of the default divided by the best. It is the geometric mean of the four speeds."""

    shares: dict[str, float]
    """For each way, the default's speed divided by that of the fastest block."""

    worst_elsewhere: dict[str, tuple[float, float]]
    """For each way, the slowest block in MB, and its speed divided by that of the fastest."""


def take_medians(records: Sequence[BlockRecord]) -> Medians:
    """Return the median of every figure over the rounds of each setting, in the order of measuring."""
    groups: dict[BlockSetting, list[BlockResult]] = {}
    for record in records:
        groups.setdefault(record.setting, []).append(record.result)
    return {setting: take_median(results) for setting, results in groups.items()}


def verdicts(medians: Medians) -> list[Verdict]:
    """Return a verdict for each codec whose block sizes were varied."""
    found = []
    for codec in dict.fromkeys(each.codec for each in medians):
        points = curve(list(medians), "sizes", codec)
        default = next((each for each in points if is_default(each)), None)
        if default is not None and len(points) > 1:
            found.append(_verdict(codec, default, {each: medians[each] for each in points}))
    return found


def _verdict(codec: str, default: BlockSetting, points: Medians) -> Verdict:
    best = max(points, key=lambda each: _compromise(points[each]))
    fastest = {way: max(getattr(each, way) for each in points.values()) for way in WAYS}
    slowest = {way: min(points, key=lambda each: getattr(points[each], way)) for way in WAYS}
    return Verdict(
        codec=codec,
        best=best,
        share=_compromise(points[default]) / _compromise(points[best]),
        shares={way: getattr(points[default], way) / fastest[way] for way in WAYS},
        worst_elsewhere={
            way: (each.block_mb, getattr(points[each], way) / fastest[way]) for way, each in slowest.items()
        },
    )


def _compromise(result: BlockResult) -> float:
    speeds: list[float] = [getattr(result, way) for way in WAYS]
    return math.exp(statistics.fmean(map(math.log, speeds)))


_COLUMNS: Final = (
    "codec",
    "block, MB",
    "chunk",
    "in flight",
    "processes",
    "write, MB/s",
    "read, MB/s",
    "slices/s",
    "series/s",
    "CPU s/GB write",
    "read",
    "ratio",
    "largest error",
)
_NUMBERS: Final = (*WAYS, "write_cpu_s_per_gb", "whole_cpu_s_per_gb", "ratio")


def as_text(
    records: Sequence[BlockRecord],
    *,
    pixels: Sequence[str],
    places: Sequence[str],
    machine: dict[str, Any],
) -> str:
    """Return everything that standard output and ``blocks.txt`` say.

    For each kind of pixels there is one sentence. The places are checked hrefs.
    """
    medians = take_medians(records)
    n_rounds = 1 + max(each.round_index for each in records)
    lines = [
        *aligned([_COLUMNS, *(_row(setting, result) for setting, result in medians.items())]),
        "",
        *([_ONE_ROUND] if n_rounds == 1 else []),
        f"medians of {n_rounds}; every process is fresh; * the plan's default",
        "MB are 1,000,000 bytes of decoded pixels; in flight: shards when writing, chunks when reading",
        *(f"pixels: {about}" for about in pixels),
        f"written to {', '.join(map(show_place, places))}, with {machine['cores']} cores: {machine['cpu']}",
        *([_PAGE_CACHE] if any(place.startswith("file:") for place in places) else []),
        *(f"\n{_sentence(each)}" for each in verdicts(medians)),
        f"\n{basis()}",
    ]
    return "\n".join(lines)


_ONE_ROUND: Final = (
    "ONE ROUND IS NOISE: between rounds, speeds of one and the same block differ by up to a factor of 2. "
    "Give --times 3 or more before you conclude anything."
)
_PAGE_CACHE: Final = (
    "A folder of this machine: what was written is still in memory (the page cache) when it is read, and is "
    "written to the disk later. So this is the speed of codecs and memory; a disk or a network comes on top."
)


def basis() -> str:
    """Return why the defaults are what they are."""
    return (
        f"The plan's default ({CHUNK_NBYTES // 1024} KiB blocks of about {CHUNK_SIDE} pixels a side, objects "
        f"of {SHARD_NBYTES // 2**20} MiB, {DEFAULT_CODEC}) rests on "
        "docs/decisions/0003-plan-chunks-for-both-ways-of-reading.md. Of the reference cube's 256 rows, a "
        "slice and a series decode equally many bytes. A gather in process works on "
        f"{WRITES_IN_FLIGHT} shards at one time while its cores are busy, a worker on AWS on one. "
        f"zarr-python reads {READS_IN_FLIGHT} chunks at one time."
    )


def _row(setting: BlockSetting, result: BlockResult) -> tuple[str, ...]:
    in_flight = {setting.writes_in_flight, setting.reads_in_flight}
    star = "*" if is_default(setting) and setting.codec == DEFAULT_CODEC else ""
    tolerance = "" if setting.zfp_tolerance is None else f" of {setting.zfp_tolerance:g}"
    return (
        f"{setting.codec}, {setting.dtype}{star}",
        f"{setting.block_mb:.2f}",
        " x ".join(map(str, setting.chunk)),
        str(setting.reads_in_flight)
        if len(in_flight) == 1
        else f"{setting.writes_in_flight}, {setting.reads_in_flight}",
        str(setting.n_workers),
        *(digits(getattr(result, name)) for name in _NUMBERS),
        f"{result.largest_error:.3g}{tolerance}",
    )


def _sentence(verdict: Verdict) -> str:
    parts = ", ".join(f"{WAYS[way]} {share:.0%}" for way, share in verdict.shares.items())
    worst = ", ".join(
        f"{WAYS[way]} {share:.0%} at {block_mb:.2g} MB"
        for way, (block_mb, share) in verdict.worst_elsewhere.items()
    )
    best = (
        "is the best compromise of those measured"
        if verdict.share == 1
        else f"reaches {verdict.share:.0%} of the best compromise, {verdict.best.block_mb:.2f} MB"
    )
    return (
        f"{verdict.codec}: the default's block {best} (geometric mean of the four speeds). Of the fastest "
        f"block in each way alone it has {parts}. The slowest block has {worst}."
    )
