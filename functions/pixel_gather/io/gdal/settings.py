"""Settings of the fall-back reader."""

import os
from typing import Self

from msgspec import Struct

from pixel_gather.core.estimate.worker_limits import ONE_VCPU_MIB, PYTHON_MIB, max_task_nbytes


class GdalSettings(Struct, frozen=True, kw_only=True):
    """Limits of the child processes, and how they fetch."""

    max_children: int = os.process_cpu_count() or 1
    """Most processes at one time. Each works on one file."""

    child_memory_mib: int = 1024
    """Memory that one child may map after its start (at which 190 MiB are mapped, 75 MiB resident)."""

    timeout_s: float = 60.0
    """Longest time that a child may work on one open or one window. Waiting for bytes does not count."""

    start_timeout_s: float = 60.0
    chunk_nbytes: int = 8 * 2**20
    """A larger window is sent in several runs of rows."""

    first_read_nbytes: int = 32 * 1024
    block_nbytes: int = 16 * 1024
    """Unit of the cache. GDAL's reads are widened to whole blocks."""

    max_gap_nbytes: int = 64 * 1024
    """Ranges with at most this many bytes between them are fetched in one request."""

    max_request_nbytes: int = 8 * 2**20
    """Longer ranges are fetched in parts of this size."""

    max_requests_in_flight: int = 4
    """Most concurrent requests for one source."""

    max_read_ahead_nbytes: int = 512 * 1024
    """Sequential reads fetch ahead, twice as much each time, up to this size."""

    max_cached_nbytes: int = 64 * 2**20
    """Size of the cache of one source while it is read. Between reads only the header is kept."""

    @classmethod
    def within_memory(cls, memory_mib: int, *, holds_a_shard: bool) -> Self:
        """Return the settings for a worker of this memory: one child process per vCPU, and each one's share.

        Less is left if a shard's pixels need most of it.
        """
        default = cls()
        shards_mib = 2 * max_task_nbytes(memory_mib) // 2**20 if holds_a_shard else 0
        n_children = max(memory_mib // ONE_VCPU_MIB, 1)
        left_mib = max(memory_mib - shards_mib - PYTHON_MIB, 256)
        child_memory_mib = min(left_mib // n_children, default.child_memory_mib)
        return cls(max_children=n_children, child_memory_mib=child_memory_mib)
