"""What the fall-back may use."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GdalSettings:
    """Limits of the child processes, and how they fetch."""

    max_children: int = os.process_cpu_count() or 1
    """Most processes at one time; each has one file in hand."""

    child_memory_mib: int = 1024
    """What one child may map beyond its own start (about 190 MiB mapped, 75 MiB resident)."""

    timeout_s: float = 60.0
    """Longest that a child may work on one open or one window; waiting for bytes not counted."""

    start_timeout_s: float = 60.0
    chunk_nbytes: int = 8 * 2**20
    """A window of more pixels than this comes in several runs of rows."""

    first_read_nbytes: int = 32 * 1024
    block_nbytes: int = 16 * 1024
    """Unit of caching: what GDAL asks for is widened to whole blocks."""

    max_gap_nbytes: int = 64 * 1024
    """Ranges nearer than this become one request."""

    max_request_nbytes: int = 8 * 2**20
    """Longer ranges are fetched in parts of this length."""

    max_requests_in_flight: int = 4
    """Per source."""

    max_read_ahead_nbytes: int = 512 * 1024
    """Sequential reads fetch ahead, twice as much each time, up to this."""

    max_cached_nbytes: int = 64 * 2**20
    """Per source being read; between reads only what its header needed is kept."""
