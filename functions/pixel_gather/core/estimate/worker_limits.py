"""How much workers take on: the bytes of a shard, the tasks of a child, the parts of an object. Pure.

Workers import this module. So it imports nothing that only planning needs.

A worker holds one shard decoded. While it stores that shard, it holds at most as much again of one
measurement compressed. If there is room, it reads the next one meanwhile. It also needs room for three other
things. Python with its imports takes some 120 MiB. 64 tiles of 0.4 to 1 MB are under way, compressed and
decoded. One child process per vCPU runs GDAL.
"""

from typing import Final

ONE_VCPU_MIB: Final = 1769
"""Lambda gives one vCPU with this much memory, and more in proportion."""

PYTHON_MIB: Final = 300
"""For everything that is neither a shard nor GDAL's."""

_SHARD_MIB: Final = 512
"""In a worker of one vCPU. Larger workers have the same share of their memory."""

_LARGEST_SHARD_MIB: Final = 1024
"""A worker has a minute to compress this and to put it in one piece."""

_GDAL_MIB: Final = 445
"""For GDAL's child process. The same in all workers, so that all can read the same sources."""

MOST_TASKS_PER_CHILD: Final = 11
"""Most shards of a child. More would save almost no transitions."""

MOST_INLINE: Final = 40
"""An inline Map runs no more iterations at the same time. It has no Map Run and no child executions, so it
begins at once and costs a third of the transitions. But nobody can see or change its workers."""

LONGEST_INLINE_S: Final = 30.0
"""What takes longer has a Map Run, so that its progress is seen and its workers can be changed."""

MOST_PARTS: Final = 8
"""Most parts of one object at one time: as many requests as a window may have in flight."""


def is_inline(*, n_children: int, n_workers: int, seconds: float) -> bool:
    """Return whether a gather runs in an inline Map, if its request asks for no workers and loses no shard.

    Args:
        n_children: Items of the map.
        n_workers: Most workers at one time.
        seconds: From the verdict of the plan until the last shard is committed, by the forecast.
    """
    return 0 < n_children <= min(MOST_INLINE, n_workers) and seconds <= LONGEST_INLINE_S


def max_task_nbytes(memory_mib: int) -> int:
    """Return how large one decoded shard may be in a worker of this memory."""
    by_size = memory_mib * _SHARD_MIB // ONE_VCPU_MIB
    left = room_nbytes(memory_mib) // 2**21  # the shard, and as much again while it is stored
    return max(min(by_size, left, _LARGEST_SHARD_MIB), 1) * 2**20


def room_nbytes(memory_mib: int) -> int:
    """Return how much memory a worker has for shards, decoded and compressed."""
    return (memory_mib - PYTHON_MIB - _GDAL_MIB) * 2**20
