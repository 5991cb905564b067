"""Which settings are measured: the default, and one value changed at a time; and what came out. Pure."""

import math
from collections.abc import Mapping, Sequence
from copy import replace
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.plan.choose_layout import SHARD_NBYTES, Layout, plan_layout
from pixel_gather.core.request.output import ExplicitLayout, Output

MB: Final = 1_000_000
"""Block sizes and speeds are given in units of so many bytes."""

_MAX_TASK_NBYTES: Final = 2**30
"""So large that it limits nothing."""

type Shape = tuple[int, int, int]


def default_layout(shape: Shape, *, itemsize: int) -> Layout:
    """Return the layout of a gather of (rows, y, x) pixels if the request names none."""
    return plan_layout(
        shape, itemsize=itemsize, n_measurements=1, wanted="balanced", max_task_nbytes=_MAX_TASK_NBYTES
    )


def cut_blocks(block_nbytes: int, shape: Shape, *, itemsize: int) -> Layout:
    """Return the layout whose chunks have about a size.

    The plan's rule makes the shards: whole windows of about 32 MiB, or one chunk where that is larger.

    Args:
        block_nbytes: Decoded, of one chunk; what comes out is within a factor of 2, and smaller only where
            the whole cube is.
        shape: Of the cube: (rows, y, x).
        itemsize: Bytes of a pixel.
    """
    chunk = min(_chunks(block_nbytes, shape, itemsize), key=lambda each: _worst_share(each, shape))
    return plan_layout(
        shape,
        itemsize=itemsize,
        n_measurements=1,
        wanted=ExplicitLayout(chunk=chunk),
        max_task_nbytes=_MAX_TASK_NBYTES,
    )


def chunk_nbytes(layout: Layout, *, itemsize: int) -> int:
    """Return the decoded size of one block."""
    return math.prod(layout.chunk) * itemsize


def _chunks(block_nbytes: int, shape: Shape, itemsize: int) -> list[Shape]:
    """Return the chunks of a size that cut the window evenly and need no shard beyond the plan's."""
    n_rows, height, width = shape
    window_nbytes = height * width * itemsize
    most_rows = max(math.ceil(max(SHARD_NBYTES, block_nbytes) / window_nbytes), 1)
    found: list[Shape] = []
    n_cuts = 1
    while True:
        y, x = -(-height // n_cuts), -(-width // n_cuts)
        rows = round(block_nbytes / (y * x * itemsize))
        if rows and (rows <= most_rows or not found):
            found.append((min(rows, n_rows), y, x))
        if rows > most_rows or y * x == 1:
            return found or [(1, y, x)]
        n_cuts *= 2


def _worst_share(chunk: Shape, shape: Shape) -> float:
    """Return the share of the cube that the worse of the two ways of reading decodes."""
    series = math.prod(chunk[1:]) / math.prod(shape[1:])
    return max(chunk[0] / shape[0], series)


CODECS: Final = ("none", "zstd", "blosc-lz4", "blosc-zstd", "zfp")
DEFAULT_CODEC: Final[str] = Output.model_fields["codec"].default
"""What a request that names none gets."""

ARRAY: Final = "pixels"
"""Name of the measurement in every cube that is written."""

FILL: Final = 0
"""What pads chunks that overhang."""


class BlockSetting(Struct, frozen=True, kw_only=True):
    """One point of the curves."""

    codec: str
    dtype: str
    shape: Shape
    """Shape of the cube that is written: (rows, y, x), a whole number of shards."""

    chunk: Shape
    shard: Shape
    zfp_tolerance: float | None
    """Largest error asked for; None for every other codec."""

    writes_in_flight: int
    """Shards that one process compresses and stores at one time."""

    reads_in_flight: int
    """zarr-python's ``async.concurrency`` in each process that reads."""

    n_workers: int
    """Processes that write, and then read, disjoint shards at the same time."""

    is_default_block: bool
    """Whether the plan itself would cut the cube so."""

    @property
    def layout(self) -> Layout:
        """Return chunk and shard as the writer takes them."""
        return Layout(chunk=self.chunk, shard=self.shard)

    @property
    def itemsize(self) -> int:
        """Bytes of a pixel."""
        return np.dtype(self.dtype).itemsize

    @property
    def block_mb(self) -> float:
        """Decoded size of a block in MB."""
        return chunk_nbytes(self.layout, itemsize=self.itemsize) / MB

    @property
    def n_shards(self) -> int:
        """Objects of the cube."""
        return -(-self.shape[0] // self.shard[0])


class BlockResult(Struct, frozen=True, kw_only=True):
    """What one measurement came to; MB are 1,000,000 bytes of decoded pixels, times are by the wall clock."""

    write_mb_per_s: float
    """From pixels in memory to stored objects."""

    whole_mb_per_s: float
    """All pixels by zarr-python, into memory that was touched before."""

    slices_per_s: float
    """``cube[row]``, one after the other in each process."""

    series_per_s: float
    """``cube[:, y, x]``, one after the other in each process."""

    write_cpu_s_per_gb: float
    whole_cpu_s_per_gb: float
    ratio: float
    """Decoded bytes by stored bytes."""

    largest_error: float
    """Largest error of a pixel that was read back; 0 if the codec is lossless."""

    peak_rss_mib: float
    """Peak of the largest process."""


class BlockRecord(Struct, frozen=True, kw_only=True):
    """One measurement."""

    setting: BlockSetting
    round_index: int
    result: BlockResult


SWEEPS: Final = ("sizes", "in-flight", "workers")

READS_IN_FLIGHT: Final = 10
"""zarr-python's default of ``async.concurrency``."""

WRITES_IN_FLIGHT: Final = 2
"""Shards that a gather in process works on at one time while its cores are busy. A worker on AWS has one."""

N_WORKERS: Final = 1


class Sweep(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    codecs: tuple[str, ...]
    sweeps: tuple[str, ...]
    """Some of `SWEEPS`."""

    sizes_mb: tuple[float, ...]
    in_flight: tuple[int, ...]
    workers: tuple[int, ...]
    zfp_tolerance: float


def list_settings(sweep: Sweep, pixels: Mapping[str, tuple[Shape, str]]) -> list[BlockSetting]:
    """Return every setting once; the default of each codec comes first and lies on all its curves.

    Each takes as many whole shards as it can of the pixels, whose shape and dtype are given by codec.
    """
    found: dict[BlockSetting, None] = {}
    for codec in sweep.codecs:
        shape, dtype = pixels[codec]
        default = _default_setting(codec, shape, dtype, sweep.zfp_tolerance)
        found |= dict.fromkeys((default, *_settings_away_from(default, sweep, shape)))
    return list(found)


def left_out(sweep: Sweep, pixels: Mapping[str, tuple[Shape, str]]) -> list[str]:
    """Return a sentence for each thing that was asked for and that the pixels are too few for."""
    sentences = []
    for codec in sweep.codecs:
        shape, dtype = pixels[codec]
        default = _default_setting(codec, shape, dtype, sweep.zfp_tolerance)
        too_large = [size for size in sweep.sizes_mb if not _fills(default, size, shape)]
        too_many = [n for n in sweep.workers if n > default.n_shards]
        if "sizes" in sweep.sweeps and too_large:
            sizes = ", ".join(f"{size:g}" for size in too_large)
            sentences.append(
                f"blocks of {sizes} MB are left out: the pixels fill none; give a larger --total-mb"
            )
        if "workers" in sweep.sweeps and too_many:
            numbers = ", ".join(map(str, too_many))
            sentences.append(
                f"worker processes {numbers} are left out: a process needs a shard, and the pixels fill "
                f"{default.n_shards}; give a larger --total-mb"
            )
    return list(dict.fromkeys(sentences))


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


def _settings_away_from(default: BlockSetting, sweep: Sweep, shape: Shape) -> list[BlockSetting]:
    found = []
    if "sizes" in sweep.sweeps:
        for size_mb in sweep.sizes_mb:
            if _fills(default, size_mb, shape):
                layout = cut_blocks(round(size_mb * MB), shape, itemsize=default.itemsize)
                found.append(_cut_into_shards(replace(default, is_default_block=False), layout, shape))
    if "in-flight" in sweep.sweeps:
        found += [replace(default, writes_in_flight=n, reads_in_flight=n) for n in sweep.in_flight]
    if "workers" in sweep.sweeps:
        found += [replace(default, n_workers=n) for n in sweep.workers if n <= default.n_shards]
    return found


def _fills(default: BlockSetting, size_mb: float, shape: Shape) -> bool:
    """Whether there are pixels for more than half a block of that size."""
    layout = cut_blocks(round(size_mb * MB), shape, itemsize=default.itemsize)
    return chunk_nbytes(layout, itemsize=default.itemsize) * 2 > size_mb * MB


def _default_setting(codec: str, shape: Shape, dtype: str, zfp_tolerance: float) -> BlockSetting:
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
    return _cut_into_shards(whole, default_layout(shape, itemsize=whole.itemsize), shape)


def _cut_into_shards(setting: BlockSetting, layout: Layout, shape: Shape) -> BlockSetting:
    depth = layout.shard[0]
    n_rows = max(shape[0] // depth * depth, min(depth, shape[0]))
    return replace(setting, shape=(n_rows, *shape[1:]), chunk=layout.chunk, shard=layout.shard)


def _is_default_in_flight(setting: BlockSetting) -> bool:
    return (setting.writes_in_flight, setting.reads_in_flight) == (WRITES_IN_FLIGHT, READS_IN_FLIGHT)
