"""Readers against each other: every run in a fresh process, interleaved, and its pixels checked."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import replace
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import Final

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.readers import ALL, OURS, Preparation, ReadJob, Run, digest_of
from benchmarks.workload import default_folder, make_workload
from pixel_gather_bench.child import run_in_child
from pixel_gather_bench.experiment import rounds

ENVIRONMENT: Final = {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.getenv("PYTHONPATH")])])
}
"""With it a process finds this folder's modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of a table."""

    case: str = "long"
    """Which comparison it belongs to."""

    reader: str = OURS
    concurrency: int = 0
    """0 for the reader to find the number out."""

    n_tiles: int
    ttfb_ms: float = 0.0
    tls: bool = False
    bytes_per_s: float | None = None
    """Bandwidth of the server, or None for as fast as it goes."""

    slow_share: float = 0.0
    """Share of the answers that are late by ``slow_s``, other ones in each round."""

    slow_s: float = 0.0
    max_rate: float | None = None
    """Requests per second above which the server answers 503."""

    @property
    def comparison(self) -> tuple[str, float, bool, float | None]:
        """What settings must have in common to be compared."""
        return self.case, self.ttfb_ms, self.tls, self.bytes_per_s

    @property
    def on_time(self) -> "Setting":
        """The same without late answers."""
        return replace(self, slow_share=0.0, slow_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run, as seen from both sides."""

    setting: Setting
    round_index: int
    """Runs of one round follow each other closely, so their ratios are less noisy than their values."""

    run: Run
    n_gets: int
    n_heads: int
    n_refused: int
    """Answers of 503."""

    server_cpu_s: float
    preparation: Preparation | None = None
    """What was made once for all runs that it serves. It is in no other figure."""


type Value = Callable[[Measurement], float]


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

    def text(self, digits: int = 0) -> str:
        """Return ``median [lowest..highest]``, or one number where all are the same."""
        if self.lowest == self.highest:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} [{self.lowest:.{digits}f}..{self.highest:.{digits}f}]"


def tiles_per_s(each: Measurement) -> float:
    """Return the pace of reading alone."""
    return each.run.tiles_per_s()


def cpu_s_per_1000(each: Measurement) -> float:
    """Return the CPU seconds of reading 1,000 tiles."""
    return each.run.cpu_s_per_1000()


def n_requests(each: Measurement) -> float:
    """Return how many requests the server got."""
    return each.n_gets + each.n_heads


def by_round(of: Callable[..., float], *groups: Sequence[Measurement]) -> Spread:
    """Form one figure from the runs of each round, and summarise those."""
    return Spread.of(of(*runs) for runs in zip(*groups, strict=True))


def ratio(value: Value, ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> Spread:
    """Return how many times as large a value of ours is, round by round."""
    return by_round(lambda a, b: value(a) / value(b), ours, theirs)


def by_setting(measured: Iterable[Measurement]) -> dict[Setting, list[Measurement]]:
    """Group by setting; within each, in the order of rounds."""
    groups: dict[Setting, list[Measurement]] = {}
    for each in sorted(measured, key=lambda each: each.round_index):
        groups.setdefault(each.setting, []).append(each)
    return groups


def best_of(groups: Iterable[Sequence[Measurement]], value: Value) -> Sequence[Measurement]:
    """Return the runs with the highest median of a value."""
    return max(groups, key=lambda runs: statistics.median(map(value, runs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A warm server and the files that it serves."""

    server: LoopbackServer
    digests: Mapping[str, str]
    """Of each file's centre tile, as it was before it was written."""

    folder: Path
    """Where readers keep what they prepare."""

    prepared: dict[tuple[str, tuple[str, ...]], tuple[str, Preparation | None]] = field(default_factory=dict)
    """By reader and hrefs, the folder and what it took."""

    def measure(self, settings: Sequence[Setting], *, times: int = 1) -> list[Measurement]:
        """Measure every setting once a round, those that are compared in a row.

        A first run of each reader is thrown away: it brings the libraries into the page cache.

        Raises:
            AssertionError: A reader returned other pixels than those of the files.
        """
        if times > 1:
            for reader in dict.fromkeys(setting.reader for setting in settings):
                self._measure(Setting(reader=reader, concurrency=4, n_tiles=8), 0)
        measured: list[Measurement] = []
        for _, compared in groupby(settings, lambda each: each.comparison):
            for round_index, setting in rounds(list(compared), times):
                measured.append(self._measure(setting, round_index))
                sys.stderr.write(line_of(measured[-1]))
        return measured

    def hrefs(self, n_tiles: int, *, tls: bool = False) -> tuple[str, ...]:
        """Return so many addresses; if there are fewer files, they repeat under other paths."""
        names, url = list(self.digests), self.server.tls_url if tls else self.server.url
        return tuple(f"{url}/{n // len(names)}/{names[n % len(names)]}" for n in range(n_tiles))

    def _measure(self, setting: Setting, round_index: int) -> Measurement:
        hrefs = self.hrefs(setting.n_tiles, tls=setting.tls)
        folder, preparation = self._prepare(setting, hrefs)
        self.server.behave(
            Behaviour(
                ttfb_s=setting.ttfb_ms / 1000,
                slow_share=setting.slow_share,
                slow_s=setting.slow_s,
                seed=round_index,
                bytes_per_s=setting.bytes_per_s,
                max_rate=setting.max_rate,
            )
        )
        run = self._in_child("read", setting, hrefs, folder, Run)
        log = self.server.log()
        if ALL[setting.reader].makes_pixels:
            expected = digest_of([self.digests[href.rpartition("/")[2]] for href in hrefs])
            assert run.digest == expected, f"{setting.reader} returned other pixels than those of the files"
        methods = [request.method for request in log.requests]
        return Measurement(
            setting=setting,
            round_index=round_index,
            run=run,
            n_gets=methods.count("GET"),
            n_heads=methods.count("HEAD"),
            n_refused=sum(request.status == HTTPStatus.SERVICE_UNAVAILABLE for request in log.requests),
            server_cpu_s=log.cpu_s,
            preparation=preparation,
        )

    def _prepare(self, setting: Setting, hrefs: tuple[str, ...]) -> tuple[str, Preparation | None]:
        """Return the folder that the reader finds prepared, in a process that warms no run."""
        key = setting.reader, hrefs
        if key not in self.prepared:
            folder = self.folder / f"{len(self.prepared)}-{setting.reader}"
            folder.mkdir()
            self.server.behave(Behaviour())
            needs = ALL[setting.reader].prepare is not None
            made = self._in_child("prepare", setting, hrefs, str(folder), Preparation) if needs else None
            self.prepared[key] = str(folder), made
        return self.prepared[key]

    def _in_child[A](
        self, function: str, setting: Setting, hrefs: tuple[str, ...], folder: str, answer: type[A]
    ) -> A:
        job = ReadJob(
            reader=setting.reader,
            concurrency=setting.concurrency,
            hrefs=hrefs,
            folder=folder,
            started_s=time.monotonic(),
        )
        # obstore and Python's ssl read the first variable, GDAL in rasterio's wheels only the second
        authority = str(self.server.authority or "")
        trust = {"SSL_CERT_FILE": authority, "GDAL_CURL_CA_BUNDLE": authority} if authority else {}
        return run_in_child(
            f"benchmarks.readers:{function}",
            job,
            answer,
            name=setting.reader,
            environment=ENVIRONMENT | trust,
        )


@contextmanager
def open_bench(*, n_files: int, tls: bool = False) -> Iterator[Bench]:
    """Make the files that are missing and serve them, with ``tls`` by TLS as well."""
    files = default_folder()
    digests = make_workload(files, n_files=n_files)
    with run_server(files, tls=tls) as server, tempfile.TemporaryDirectory() as folder:
        yield Bench(server=server, digests=digests, folder=Path(folder))


def line_of(each: Measurement) -> str:
    """Return a line about a run."""
    setting = each.setting
    return (
        f"{each.round_index}  {setting.case:10}{setting.ttfb_ms:4g} ms  {setting.reader:22}"
        f"{setting.concurrency:4}{' late' if setting.slow_share else '':5}{tiles_per_s(each):7.0f} tiles/s"
        f"{cpu_s_per_1000(each):7.2f} CPU s per 1,000{each.n_gets:6} GETs{each.n_refused:5} refused\n"
    )
