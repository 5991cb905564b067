"""Medians of the measurements, and how far the plan's default is from the best compromise. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from pixel_gather_bench.blocks.setting import BlockRecord, BlockResult, BlockSetting
from pixel_gather_bench.blocks.sweep import curve, is_default

WAYS: Final = ("write_mb_per_s", "whole_mb_per_s", "slices_per_s", "series_per_s")
"""The speeds that a compromise is made of. They have equal weight."""

type Medians = dict[BlockSetting, BlockResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The default's block compared with the best compromise of the same codec."""

    codec: str
    best: BlockSetting
    share: float
    """Compromise of the default divided by the best. It is the geometric mean of the four speeds."""

    shares: dict[str, float]
    """For each way, the default's speed divided by that of the fastest block."""

    worst_elsewhere: dict[str, tuple[float, float]]
    """For each way, the slowest block in MB, and its speed divided by that of the fastest."""


def medians_of(records: Sequence[BlockRecord]) -> Medians:
    """Return the median of every figure over the rounds of each setting, in the order of measuring."""
    groups: dict[BlockSetting, list[BlockResult]] = {}
    for record in records:
        groups.setdefault(record.setting, []).append(record.result)
    return {setting: _median(results) for setting, results in groups.items()}


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


def _median(results: Sequence[BlockResult]) -> BlockResult:
    return BlockResult(
        **{
            field.name: statistics.median(getattr(each, field.name) for each in results)
            for field in fields(BlockResult)
        }
    )
