"""What is measured, block by block, and what came out."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pixel_gather.core.plan.layout import Layout
from pixel_gather.core.request.output import Output
from pixel_gather_bench.blocks.layout import MB, Shape, chunk_nbytes

CODECS: Final = ("none", "zstd", "blosc-lz4", "blosc-zstd", "zfp")
DEFAULT_CODEC: Final[str] = Output.model_fields["codec"].default
"""What a request that names none gets."""

ARRAY: Final = "pixels"
"""Name of the measurement in every cube that is written."""

FILL: Final = 0
"""What pads chunks that overhang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSetting:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockResult:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """One measurement."""

    setting: BlockSetting
    round_index: int
    result: BlockResult
