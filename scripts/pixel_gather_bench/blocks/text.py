"""The table and the sentences below it. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from pixel_gather.core.plan.layout import CHUNK_NBYTES, CHUNK_SIDE, SHARD_NBYTES
from pixel_gather.in_process.places import shown
from pixel_gather_bench.blocks.setting import DEFAULT_CODEC, BlockRecord, BlockResult, BlockSetting
from pixel_gather_bench.blocks.summary import Verdict, medians_of, verdicts
from pixel_gather_bench.blocks.sweep import READS_IN_FLIGHT, WRITES_IN_FLIGHT, is_default
from pixel_gather_bench.text_table import aligned

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
_WAYS: Final = {
    "write_mb_per_s": "writing",
    "whole_mb_per_s": "reading all",
    "slices_per_s": "slices",
    "series_per_s": "series",
}


def as_text(
    records: Sequence[BlockRecord],
    *,
    pixels: Sequence[str],
    places: Sequence[str],
    machine: dict[str, Any],
) -> str:
    """Return everything that standard output and ``blocks.txt`` say.

    Args:
        records: All measurements.
        pixels: What was written: one sentence for each kind of pixels.
        places: Checked hrefs of where it was written to.
        machine: From `about_machine`.
    """
    medians = medians_of(records)
    n_rounds = 1 + max(each.round_index for each in records)
    lines = [
        *aligned([_COLUMNS, *(_row(setting, result) for setting, result in medians.items())]),
        "",
        *([_ONE_ROUND] if n_rounds == 1 else []),
        f"medians of {n_rounds}; every process is fresh; * the plan's default",
        "MB are 1,000,000 bytes of decoded pixels; in flight: shards when writing, chunks when reading",
        *(f"pixels: {about}" for about in pixels),
        f"written to {', '.join(map(shown, places))}, with {machine['cores']} cores: {machine['cpu']}",
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
        f"{result.write_mb_per_s:,.0f}",
        f"{result.whole_mb_per_s:,.0f}",
        _rate(result.slices_per_s),
        _rate(result.series_per_s),
        f"{result.write_cpu_s_per_gb:.2f}",
        f"{result.whole_cpu_s_per_gb:.2f}",
        f"{result.ratio:.2f}",
        f"{result.largest_error:.3g}{tolerance}",
    )


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"  # noqa: PLR2004 # two digits tell enough


def _sentence(verdict: Verdict) -> str:
    parts = ", ".join(f"{_WAYS[way]} {share:.0%}" for way, share in verdict.shares.items())
    worst = ", ".join(
        f"{_WAYS[way]} {share:.0%} at {block_mb:.2g} MB"
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
