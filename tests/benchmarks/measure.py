"""Run engines against each other: every run in a fresh process, interleaved, and its pixels checked."""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import groupby
from pathlib import Path

from benchmarks.engines import ENGINES
from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.prepare_one import Preparation, prepare_one
from benchmarks.run_one import Job, Run, digest_of, run_one
from benchmarks.workload import default_folder, make_workload
from pixel_gather_bench.interleaving import turned

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

    tls: bool = False
    bytes_per_s: float | None = None
    """Bandwidth of the server, or None for as fast as it goes."""

    slow_share: float = 0.0
    """Share of the responses that are late by ``slow_s``, other ones in each round."""

    slow_s: float = 0.0
    max_rate: float | None = None
    """Requests per second above which the server answers 503."""


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

    n_connections: int
    server_cpu_s: float
    preparation: Preparation | None = None
    """What was made beforehand, once for all runs that it serves; in no other figure."""

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

    def text(self, digits: int = 0) -> str:
        """Return ``median [lowest..highest]``."""
        return f"{self.median:.{digits}f} [{self.lowest:.{digits}f}..{self.highest:.{digits}f}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A warm server and the files that it serves."""

    server: LoopbackServer
    digests: Mapping[str, str]
    """Of each file's centre tile, as it was before it was written."""

    folder: Path
    """Where engines keep what they prepare."""

    prepared: dict[tuple[str, tuple[str, ...]], tuple[str, Preparation | None]] = field(default_factory=dict)
    """By engine and hrefs, the folder and what it took."""

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
            self._run(_warming(engine, tls=any(each.tls for each in settings)))
        measured: list[Measurement] = []
        for round_index in range(repeats):
            for _, compared in groupby(settings, comparison_of):
                for setting in turned(compared, round_index):
                    measured.append(self._measure(setting, round_index))
                    on_run(measured[-1])
        return measured

    def _measure(self, setting: Setting, round_index: int) -> Measurement:
        run, preparation = self._run(setting, seed=round_index)
        log = self.server.log()
        methods = [request.method for request in log.requests]
        return Measurement(
            setting=setting,
            round_index=round_index,
            run=run,
            n_gets=methods.count("GET"),
            n_heads=methods.count("HEAD"),
            n_refused=sum(request.status == HTTPStatus.SERVICE_UNAVAILABLE for request in log.requests),
            n_connections=log.n_connections,
            server_cpu_s=log.cpu_s,
            preparation=preparation,
        )

    def _run(self, setting: Setting, *, seed: int = 0) -> tuple[Run, Preparation | None]:
        names = tuple(self.digests)
        files = [(index // len(names), names[index % len(names)]) for index in range(setting.n_tiles)]
        url = self.server.tls_url if setting.tls else self.server.url
        hrefs = tuple(f"{url}/{lap}/{name}" for lap, name in files)
        folder, preparation = self._prepare(setting.engine, hrefs)
        behaviour = Behaviour(
            ttfb_s=setting.ttfb_ms / 1000,
            slow_share=setting.slow_share,
            slow_s=setting.slow_s,
            seed=seed,
            bytes_per_s=setting.bytes_per_s,
            max_rate=setting.max_rate,
        )
        self.server.behave(behaviour)
        job = Job(
            engine=setting.engine,
            concurrency=setting.concurrency,
            hrefs=hrefs,
            prepared=None if preparation is None else folder,
        )
        run = run_one(job, self._environment())
        is_checked = ENGINES[setting.engine].makes_pixels
        if is_checked and run.digest != digest_of([self.digests[name] for _, name in files]):
            raise AssertionError(f"{setting.engine} returned other pixels than those of the files")
        return run, preparation

    def _prepare(self, engine: str, hrefs: tuple[str, ...]) -> tuple[str, Preparation | None]:
        if (engine, hrefs) not in self.prepared:
            folder = self.folder / f"{len(self.prepared)}-{engine}"
            self.server.behave(Behaviour())
            made = prepare_one(engine, hrefs, folder, self._environment())
            self.prepared[engine, hrefs] = str(folder), made
        return self.prepared[engine, hrefs]

    def _environment(self) -> Mapping[str, str]:
        """Return what makes clients trust the server's certificate.

        obstore and Python's ssl read the first variable. GDAL in rasterio's wheels reads only the second:
        rasterio sets it to certifi's list if it is missing.
        """
        authority = str(self.server.authority or "")
        return {"SSL_CERT_FILE": authority, "GDAL_CURL_CA_BUNDLE": authority} if authority else {}


@contextmanager
def open_bench(*, n_files: int, tls: bool = False) -> Iterator[Bench]:
    """Make the files that are missing and serve them, with ``tls`` by TLS as well."""
    files = default_folder()
    digests = make_workload(files, n_files=n_files)
    with run_server(files, tls=tls) as server, tempfile.TemporaryDirectory() as folder:
        yield Bench(server=server, digests=digests, folder=Path(folder))


def comparison_of(setting: Setting) -> tuple[str, float, bool, float | None]:
    """Return what settings must have in common to be compared."""
    return setting.case, setting.ttfb_ms, setting.tls, setting.bytes_per_s


def _warming(engine: str, *, tls: bool) -> Setting:
    return Setting(case="", engine=engine, concurrency=4, n_tiles=8, ttfb_ms=0.0, counts_start=False, tls=tls)


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


def from_json(content: bytes) -> list[Measurement]:
    """Restore the records that `benchmarks.output.put` kept."""
    return [
        Measurement(
            **row
            | {
                "setting": Setting(**row["setting"]),
                "run": Run(**row["run"]),
                "preparation": row["preparation"] and Preparation(**row["preparation"]),
            }
        )
        for row in json.loads(content)["measurements"]
    ]
