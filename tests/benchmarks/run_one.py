"""One run of one engine in a process of its own: a `Job` on standard input, a `Run` on standard output."""

import json
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.child import run_module
from benchmarks.engines import ENGINES

TILE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to read, and with what."""

    engine: str
    concurrency: int
    """Threads, or windows in flight."""

    hrefs: tuple[str, ...]
    prepared: str | None = None
    """Folder of what the engine's ``prepare`` wrote for these hrefs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took; ``reading`` is the engine's call alone, the process also starts and imports."""

    n_tiles: int
    reading_s: float
    process_s: float
    """From before the process was started until the last pixel was there."""

    reading_cpu_s: float
    """User and system time of the process and its children while reading."""

    process_cpu_s: float
    peak_rss_mib: float
    """Pixels included."""

    digest: str
    """xxh3-64 over the tiles' xxh3-64 digests, in order."""

    def tiles_per_s(self, *, with_start: bool) -> float:
        """Return the pace of reading, or of the whole process."""
        return self.n_tiles / (self.process_s if with_start else self.reading_s)

    def cpu_s_per_1000(self, *, with_start: bool) -> float:
        """Return the CPU seconds that 1,000 tiles would take at this rate."""
        return 1000 * (self.process_cpu_s if with_start else self.reading_cpu_s) / self.n_tiles


def run_one(job: Job, environment: Mapping[str, str]) -> Run:
    """Do a job in a fresh process, with these variables added to its environment.

    Raises:
        subprocess.CalledProcessError: It failed; what it wrote to standard error went there.
    """
    return Run(
        **run_module("run_one", given=asdict(job) | {"started_at_s": time.monotonic()}, more=environment)
    )


def digest_of(tile_digests: list[str]) -> str:
    """Join the digests of single tiles into a run's."""
    import xxhash  # noqa: PLC0415 # not in the measured part

    return xxhash.xxh3_64_hexdigest("".join(tile_digests).encode())


def _do(job: Job, *, started_at_s: float) -> Run:
    import numpy as np  # noqa: PLC0415 # whatever is imported here is part of the measurement

    engine = ENGINES[job.engine]
    out = np.zeros((len(job.hrefs), TILE, TILE), np.uint16)
    if not engine.makes_array:
        out[:] = (
            0  # a virtual machine's first touch of a page costs as much as decoding a tile, whoever reads
        )
    read_tiles = found(engine.read)
    prepared = _prepared(job)
    cpu_before_s, began_s = cpu_s(), time.monotonic()
    made = read_tiles(job.hrefs, out, concurrency=job.concurrency, **prepared)
    ended_s, cpu_after_s = time.monotonic(), cpu_s()

    import xxhash  # noqa: PLC0415 # as above

    return Run(
        n_tiles=len(job.hrefs),
        reading_s=ended_s - began_s,
        process_s=ended_s - started_at_s,
        reading_cpu_s=cpu_after_s - cpu_before_s,
        process_cpu_s=cpu_after_s,
        peak_rss_mib=_peak_rss_mib(),
        digest=digest_of(
            [
                xxhash.xxh3_64_hexdigest(np.ascontiguousarray(tile))
                for tile in (made if engine.makes_array else out)
            ]
        ),
    )


def _prepared(job: Job) -> dict[str, Any]:
    if job.prepared is None:
        return {}
    folder = Path(job.prepared)
    load = ENGINES[job.engine].load
    return {"prepared": folder if load is None else found(load)(job.hrefs, folder)}


def found(name: str) -> Callable[..., Any]:
    """Import what is named as ``module:function``."""
    module, _, function = name.partition(":")
    imported: Callable[..., Any] = getattr(import_module(module), function)
    return imported


def cpu_s() -> float:
    """Return the user and system time of this process and its children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _peak_rss_mib() -> float:
    """Return Linux's own figure: ``ru_maxrss`` starts from that of the process which started this one."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Do the job that standard input describes."""
    values = json.load(sys.stdin)
    started_at_s = values.pop("started_at_s")
    run = _do(Job(**values | {"hrefs": tuple(values["hrefs"])}), started_at_s=started_at_s)
    sys.stdout.write(f"\n{json.dumps(asdict(run))}")


if __name__ == "__main__":
    main()
