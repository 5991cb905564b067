"""Which settings are measured: the plan's default, and one value changed at a time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pixel_gather.core.plan.layout import Layout
from pixel_gather_bench.blocks.layout import MB, Shape, chunk_nbytes, default_layout, layout_of
from pixel_gather_bench.blocks.setting import BlockSetting

SWEEPS: Final = ("sizes", "in-flight", "workers")

READS_IN_FLIGHT: Final = 10
"""zarr-python's default of ``async.concurrency``."""

WRITES_IN_FLIGHT: Final = 2
"""Shards that a gather in process works on at one time while its cores are busy. A worker on AWS has one."""

N_WORKERS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is asked for."""

    codecs: tuple[str, ...]
    sweeps: tuple[str, ...]
    """Some of `SWEEPS`."""

    sizes_mb: tuple[float, ...]
    in_flight: tuple[int, ...]
    workers: tuple[int, ...]
    zfp_tolerance: float


def settings_of(sweep: Sweep, pixels: Mapping[str, tuple[Shape, str]]) -> list[BlockSetting]:
    """Return every setting once; the default of each codec comes first and lies on all its curves.

    Args:
        sweep: What is asked for.
        pixels: Shape and dtype of what each codec writes; each setting takes as many whole shards of them
            as it can.
    """
    found: dict[BlockSetting, None] = {}
    for codec in sweep.codecs:
        shape, dtype = pixels[codec]
        default = _default(codec, shape, dtype, sweep.zfp_tolerance)
        found |= dict.fromkeys((default, *_away(default, sweep, shape)))
    return list(found)


def left_out(sweep: Sweep, pixels: Mapping[str, tuple[Shape, str]]) -> list[str]:
    """Return a sentence for each thing that was asked for and that the pixels are too few for."""
    sentences: dict[str, None] = {}
    for codec in sweep.codecs:
        shape, dtype = pixels[codec]
        default = _default(codec, shape, dtype, sweep.zfp_tolerance)
        too_large = [size for size in sweep.sizes_mb if not _fills(default, size, shape)]
        too_many = [n for n in sweep.workers if n > default.n_shards]
        if "sizes" in sweep.sweeps and too_large:
            sizes = ", ".join(f"{size:g}" for size in too_large)
            sentences[
                f"blocks of {sizes} MB are left out: the pixels fill none; give a larger --total-mb"
            ] = None
        if "workers" in sweep.sweeps and too_many:
            numbers = ", ".join(map(str, too_many))
            sentences[
                f"worker processes {numbers} are left out: a process needs a shard, and the pixels fill "
                f"{default.n_shards}; give a larger --total-mb"
            ] = None
    return list(sentences)


def curve(settings: Sequence[BlockSetting], sweep: str, codec: str) -> list[BlockSetting]:
    """Return the settings of one codec that differ from its default in nothing but what a sweep varies."""
    return [
        each
        for each in settings
        if each.codec == codec
        and (sweep == "sizes" or each.is_default_block)
        and (sweep == "in-flight" or _is_default_in_flight(each))
        and (sweep == "workers" or each.n_workers == N_WORKERS)
        and (sweep != "in-flight" or each.writes_in_flight == each.reads_in_flight)
    ]


def is_default(setting: BlockSetting) -> bool:
    """Whether this is what a gather in process writes, read by who sets nothing."""
    return setting.is_default_block and _is_default_in_flight(setting) and setting.n_workers == N_WORKERS


def _away(default: BlockSetting, sweep: Sweep, shape: Shape) -> list[BlockSetting]:
    found = []
    if "sizes" in sweep.sweeps:
        for size_mb in sweep.sizes_mb:
            if _fills(default, size_mb, shape):
                layout = layout_of(round(size_mb * MB), shape, itemsize=default.itemsize)
                found.append(_cut(default, layout, shape, is_default_block=False))
    if "in-flight" in sweep.sweeps:
        found += [replace(default, writes_in_flight=n, reads_in_flight=n) for n in sweep.in_flight]
    if "workers" in sweep.sweeps:
        found += [replace(default, n_workers=n) for n in sweep.workers if n <= default.n_shards]
    return found


def _fills(default: BlockSetting, size_mb: float, shape: Shape) -> bool:
    """Whether there are pixels for more than half a block of that size."""
    layout = layout_of(round(size_mb * MB), shape, itemsize=default.itemsize)
    return chunk_nbytes(layout, itemsize=default.itemsize) * 2 > size_mb * MB


def _default(codec: str, shape: Shape, dtype: str, zfp_tolerance: float) -> BlockSetting:
    whole = BlockSetting(
        codec=codec,
        dtype=dtype,
        shape=shape,
        chunk=shape,
        shard=shape,
        zfp_tolerance=zfp_tolerance if codec == "zfp" else None,
        writes_in_flight=WRITES_IN_FLIGHT,
        reads_in_flight=READS_IN_FLIGHT,
        n_workers=N_WORKERS,
        is_default_block=True,
    )
    return _cut(whole, default_layout(shape, itemsize=whole.itemsize), shape, is_default_block=True)


def _cut(setting: BlockSetting, layout: Layout, shape: Shape, *, is_default_block: bool) -> BlockSetting:
    depth = layout.shard[0]
    n_rows = max(shape[0] // depth * depth, min(depth, shape[0]))
    return replace(
        setting,
        shape=(n_rows, *shape[1:]),
        chunk=layout.chunk,
        shard=layout.shard,
        is_default_block=is_default_block,
    )


def _is_default_in_flight(setting: BlockSetting) -> bool:
    return (setting.writes_in_flight, setting.reads_in_flight) == (WRITES_IN_FLIGHT, READS_IN_FLIGHT)
