"""Where the CPU time of a gather goes: single functions by clocks of threads, and whole threads."""

import functools
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Final
from unittest.mock import patch

_GEOTIFF: Final = "pixel_gather.io.geotiff"
STAGES: Final = {
    "parsing": (f"{_GEOTIFF}.reader._parse", f"{_GEOTIFF}.opened_geotiff.plan_tile_reads"),
    "decoding": (f"{_GEOTIFF}.tiles_into_array.decode_block",),
    "statistics": ("pixel_gather.core.read.measure_rows._stats_of",),
    "digest": ("pixel_gather.core.read.measure_rows.digest_of",),
    "compressing": ("pixel_gather.io.cube.shard_codec.ShardEncoder._encode_one",),
}
"""By stage, the functions that do it. No function of one stage calls one of another."""

TRANSPORT: Final = "fetching and storing"
"""The threads of the object store's client."""

REST: Final = "Python"
"""Everything else: the event loop, hand-overs between threads, planning and finish."""

KERNEL: Final = "of it in the kernel"


class Stages:
    """CPU seconds of each stage."""

    def __init__(self) -> None:
        """Start from zero."""
        self.cpu_s: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._transport_before_s = _transport_cpu_s()

    def timed[**P, T](self, stage: str, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function with its thread's CPU time counted."""

        @functools.wraps(function)
        def counted(*arguments: P.args, **named: P.kwargs) -> T:
            began_s = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                took_s = time.thread_time() - began_s
                with self._lock:
                    self.cpu_s[stage] += took_s

        return counted

    def note_threads(self) -> None:
        """Note what the client's threads have taken so far. They may end with the gather."""
        self.cpu_s[TRANSPORT] = _transport_cpu_s() - self._transport_before_s


@contextmanager
def recorded_stages() -> Iterator[Stages]:
    """Record the stages of the gathers within. It costs some 0.02 ms of CPU a tile."""
    stages, before = Stages(), os.times()
    with ExitStack() as stack:
        for stage, names in STAGES.items():
            for name in names:
                stack.enter_context(patch(name, stages.timed(stage, resolve_name(name))))
        yield stages
    after = os.times()
    in_all_s = after.user + after.system - before.user - before.system
    stages.cpu_s[REST] = in_all_s - sum(stages.cpu_s.values())
    stages.cpu_s[KERNEL] = after.system - before.system


def _transport_cpu_s() -> float:
    """Return the CPU seconds of the threads of obstore's runtime, which Linux calls tokio…; 0 elsewhere."""
    if sys.platform != "linux":
        return 0.0
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("tokio"):
            ticks += sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
