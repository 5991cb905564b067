"""How a function's memory is shared out. Pure.

A worker holds one shard decoded and, while that is put, at most as much again of one measurement
compressed. Beside them it needs room for Python with what it imports (some 120 MiB), tiles under way (64
of 0.4 to 1 MB, compressed and decoded), and a child for each vCPU that runs GDAL.
"""

from typing import Final

from pixel_gather.adapters.gdal.settings import GdalSettings

_ONE_VCPU_MIB: Final = 1769
_SHARD_MIB: Final = 512
"""Of a worker of one vCPU, as much as in process; a larger worker's share is the same."""

_LARGEST_SHARD_MIB: Final = 1024
"""Compressed and put in one piece within the minute that `deadline` leaves for it."""

_PYTHON_MIB: Final = 300
"""For all that is neither a shard nor GDAL's."""

_CHILD_MIB: Final = 445
"""For GDAL's child, in the smallest worker as in one of one vCPU: what the one reads, the other does."""


def max_task_nbytes(memory_mib: int) -> int:
    """Return what one shard may hold decoded in a worker of so much memory."""
    by_size = memory_mib * _SHARD_MIB // _ONE_VCPU_MIB
    left = (memory_mib - _PYTHON_MIB - _CHILD_MIB) // 2  # a shard, and as much again while it is put
    return max(min(by_size, left, _LARGEST_SHARD_MIB), 1) * 2**20


def gdal_settings(memory_mib: int, *, holds_a_shard: bool) -> GdalSettings:
    """Return how many children may run GDAL, one for each vCPU, and what each of them may allocate."""
    shards_mib = 2 * max_task_nbytes(memory_mib) // 2**20 if holds_a_shard else 0
    n_children = max(memory_mib // _ONE_VCPU_MIB, 1)
    left_mib = max(memory_mib - shards_mib - _PYTHON_MIB, 256)
    most = GdalSettings()
    return GdalSettings(
        max_children=n_children, child_memory_mib=min(left_mib // n_children, most.child_memory_mib)
    )
