"""Run engines against each other: every run in a fresh process, interleaved, and its pixels checked."""

import json
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.run_one import Job, Run, digest_of, run_one
from benchmarks.workload import default_folder, make_workload

OURS = "pixel-gather"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of a table."""

    case: str
    """Which comparison it belongs to."""

    engine: str
    concurrency: int
    n_tiles: int
    ttfb_ms: float
    counts_start: bool
    """Whether starting Python and importing belong to what is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run, as seen from both sides."""

    setting: Setting
    round_index: int
    """Runs of one round follow each other closely, so their ratios are less noisy than their values."""

    run: Run
    n_gets: int
    n_heads: int
    n_connections: int
    server_cpu_s: float

    @property
    def tiles_per_s(self) -> float:
        """Tiles per second of what is compared."""
        return self.run.tiles_per_s(with_start=self.setting.counts_start)

    @property
    def cpu_s_per_1000(self) -> float:
        """CPU seconds per 1,000 tiles of what is compared."""
        return self.run.cpu_s_per_1000(with_start=self.setting.counts_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median and range of repeated measurements."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Summarise at least one value."""
        known = list(values)
        return cls(median=statistics.median(known), lowest=min(known), highest=max(known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A warm server and the files that it serves."""

    server: LoopbackServer
    digests: Mapping[str, str]
    """Of each file's centre tile, as it was before it was written."""

    def rounds(
        self, settings: Sequence[Setting], *, repeats: int, on_run: Callable[[Measurement], None]
    ) -> list[Measurement]:
        """Measure every setting once a round.

        What is compared runs in a row; who comes first moves on by one each round. A first run of each
        engine is thrown away: it brings the libraries into the page cache.

        Raises:
            AssertionError: An engine returned other pixels than those of the files.
        """
        for engine in dict.fromkeys(setting.engine for setting in settings):
            self._run(engine, concurrency=4, n_tiles=8, ttfb_ms=0)
        measured: list[Measurement] = []
        for round_index in range(repeats):
            for _, compared in groupby(settings, lambda each: (each.case, each.ttfb_ms)):
                row = deque(compared)
                row.rotate(-round_index)
                for setting in row:
                    measured.append(self._measure(setting, round_index))
                    on_run(measured[-1])
        return measured

    def _measure(self, setting: Setting, round_index: int) -> Measurement:
        run = self._run(
            setting.engine,
            concurrency=setting.concurrency,
            n_tiles=setting.n_tiles,
            ttfb_ms=setting.ttfb_ms,
        )
        log = self.server.log()
        methods = [request.method for request in log.requests]
        return Measurement(
            setting=setting,
            round_index=round_index,
            run=run,
            n_gets=methods.count("GET"),
            n_heads=methods.count("HEAD"),
            n_connections=log.n_connections,
            server_cpu_s=log.cpu_s,
        )

    def _run(self, engine: str, *, concurrency: int, n_tiles: int, ttfb_ms: float) -> Run:
        names = tuple(self.digests)
        files = [(index // len(names), names[index % len(names)]) for index in range(n_tiles)]
        hrefs = tuple(f"{self.server.url}/{lap}/{name}" for lap, name in files)
        self.server.behave(Behaviour(ttfb_s=ttfb_ms / 1000))
        run = run_one(Job(engine=engine, concurrency=concurrency, hrefs=hrefs))
        if run.digest != digest_of([self.digests[name] for _, name in files]):
            raise AssertionError(f"{engine} returned other pixels than those of the files")
        return run


@contextmanager
def open_bench(*, n_files: int) -> Iterator[Bench]:
    """Make the files that are missing and serve them."""
    folder = default_folder()
    digests = make_workload(folder, n_files=n_files)
    with run_server(folder) as server:
        yield Bench(server=server, digests=digests)


def by_setting(measured: Iterable[Measurement]) -> dict[Setting, list[Measurement]]:
    """Group by setting; within each, in the order of rounds."""
    groups: dict[Setting, list[Measurement]] = {}
    for measurement in measured:
        groups.setdefault(measurement.setting, []).append(measurement)
    return groups


def best_of(
    measured: Iterable[Measurement], value: Callable[[Measurement], float], *, ours: bool
) -> list[Measurement]:
    """Return the runs of the setting, ours or a peer's, with the highest median of ``value``."""
    groups = by_setting(each for each in measured if (each.setting.engine == OURS) == ours)
    return max(groups.values(), key=lambda runs: statistics.median(map(value, runs)))


def compare(measured: Sequence[Measurement]) -> tuple[Spread, Spread]:
    """Compare our fastest setting with the peers' best, round by round.

    Returns:
        How many times as fast as the fastest peer, and its CPU time as a share of the thriftiest peer's.
    """
    fastest = best_of(measured, lambda each: each.tiles_per_s, ours=True)
    fastest_peer = best_of(measured, lambda each: each.tiles_per_s, ours=False)
    thriftiest_peer = best_of(measured, lambda each: -each.cpu_s_per_1000, ours=False)
    speed = (a.tiles_per_s / b.tiles_per_s for a, b in zip(fastest, fastest_peer, strict=True))
    cpu = (a.cpu_s_per_1000 / b.cpu_s_per_1000 for a, b in zip(fastest, thriftiest_peer, strict=True))
    return Spread.of(speed), Spread.of(cpu)


def to_json(measured: Iterable[Measurement], about: Mapping[str, Any]) -> str:
    """Write every record, and what is needed to understand it."""
    return json.dumps({"about": about, "measurements": [asdict(each) for each in measured]}, indent=1)
