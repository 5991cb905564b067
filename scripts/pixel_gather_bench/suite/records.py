"""The records of a suite: each run's times, written to its folder and read back as runs."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.experiment import machine_in_words, put_text, rounds
from pixel_gather_bench.suite.job import ENGINES, Configuration, EngineName, SuiteJob, TileTarget
from pixel_gather_bench.suite.source_times import Columns, SourceFailure


class Record(Struct, frozen=True, kw_only=True):
    """The record of one run. Times are in seconds."""

    job: SuiteJob
    """The job without its hrefs. They are in the folder's ``list.txt``."""

    machine: dict[str, Any]
    """See `pixel_gather_bench.experiment.about_machine`."""

    gdal: dict[str, str]
    """GDAL's options and version. Empty if the engine is not ``rasterio``."""

    began: str
    """Start of the run: ISO 8601, UTC."""

    n_sources: int
    digest: str
    """Digest of all pixels in the list's order, as in a cube's report. Failed sources count as zeros."""

    wall_s: float
    """Wall time of reading. Imports and warm-up are not included."""

    cpu_s: float
    """User and system time of the process and its children during ``wall_s``."""

    peak_rss_mib: float
    """Peak memory. It includes all pixels, which every engine holds until the end."""

    columns: Columns
    failures: tuple[SourceFailure, ...]
    """In the order of the list."""

    def to_run(self) -> Run:
        """Return the run of the sources that were read, for tables and figures."""
        job, target = self.job, self.job.target
        timings = self._timings()
        return Run(
            name=job.configuration.name,
            engine=job.configuration.engine,
            concurrency=job.configuration.concurrency or timings.most_in_flight,
            is_adaptive=job.configuration.concurrency is None,
            digest=self.digest,
            window="centre tile" if target.tile is None else f"tile {target.tile.column}_{target.tile.row}",
            shape=target.shape,
            dtype=target.dtype,
            bands=(target.band,),
            n_sources=self.n_sources,
            n_failed=len(self.failures),
            timings=timings,
            cpu_s=self.cpu_s,
            peak_rss_mib=self.peak_rss_mib,
            machine=machine_in_words(self.machine),
            conditions=self._conditions(),
        )

    def _conditions(self) -> str:
        warm_up = "after a warm-up" if self.job.warm_up else "without a warm-up"
        gdal = self.gdal.get("GDAL")
        return f"{warm_up}, GDAL {gdal}" if gdal else warm_up

    def _timings(self) -> Timings:
        was_read = np.ones(self.n_sources, dtype=np.bool_)
        was_read[[failure.position for failure in self.failures]] = False
        columns = self.columns

        def of(values: list[float] | list[int], dtype: str) -> np.ndarray[Any, Any]:
            return np.asarray(values, dtype=dtype)[was_read]

        return Timings(
            start_s=of(columns.start_s, "float64"),
            end_s=of(columns.end_s, "float64"),
            open_s=of(columns.open_s, "float64"),
            read_s=of(columns.read_s, "float64"),
            nbytes=of(columns.nbytes, "int64"),
            shard=of(columns.lane, "int64"),
        )


type BestBy = Literal["time", "throughput"]

_SETTINGS: Final = "settings.json"
_LIST: Final = "list.txt"


class SuiteSettings(Struct, frozen=True, kw_only=True):
    """What the runs of one suite have in common, and which runs there are."""

    engines: tuple[EngineName, ...]
    concurrencies: tuple[int | None, ...]
    """None lets the engine find the number while it reads, if it can."""

    times: int
    target: TileTarget
    stores: StoreSettings
    warm_up: bool
    bucket_warm_up: bool
    """Whether all tiles are read once, untimed, before the first run."""

    header_nbytes: int | None
    keep: bool
    best_by: BestBy
    machine: dict[str, Any]
    """The machine on which the suite began. Each record has its own."""

    def configurations(self) -> Iterator[Configuration]:
        """Yield each engine at each concurrency, engines in turn."""
        for concurrency in self.concurrencies:
            for engine in self.engines:
                if concurrency is not None or engine == "fast":
                    yield Configuration(engine=engine, concurrency=concurrency)

    def jobs(self, hrefs: tuple[str, ...], folder: Path) -> Iterator[SuiteJob]:
        """Yield all runs in their order, round after round."""
        for number, configuration in rounds(list(self.configurations()), self.times):
            yield self.job(configuration, number + 1, hrefs, folder)

    def job(
        self, configuration: Configuration, round_: int, hrefs: tuple[str, ...], folder: Path
    ) -> SuiteJob:
        """Return one run."""
        return SuiteJob(
            configuration=configuration,
            round=round_,
            target=self.target,
            stores=self.stores,
            warm_up=self.warm_up,
            header_nbytes=self.header_nbytes,
            keep_in=str(folder.absolute() / "pixels") if self.keep else None,
            hrefs=hrefs,
        )


def write_settings(folder: Path, settings: SuiteSettings, hrefs: tuple[str, ...]) -> None:
    """Write the list and the settings of a suite."""
    (folder / _LIST).write_text("".join(f"{href}\n" for href in hrefs))
    content = msgspec.json.format(msgspec.json.encode(settings), indent=2)
    (folder / _SETTINGS).write_bytes(content + b"\n")


def read_settings(folder: Path) -> SuiteSettings:
    """Return the settings of a suite."""
    file = folder / _SETTINGS
    try:
        return msgspec.json.decode(file.read_bytes(), type=SuiteSettings)
    except FileNotFoundError as error:
        raise RequestError(
            f"it is no folder that bench LIST has made: there is no {_SETTINGS} in it", field=str(folder)
        ) from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"it does not hold a suite's settings: {error}", field=str(file)) from error


def read_list(folder: Path) -> tuple[str, ...]:
    """Return the hrefs of a suite's list."""
    file = folder / _LIST
    try:
        hrefs = tuple(file.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"the suite's list cannot be read: {error}", field=str(file)) from error
    if not hrefs:
        raise RequestError("the suite's list is empty", field=str(file))
    return hrefs


_FOLDER: Final = "records"


def write_record(folder: Path, record: Record) -> None:
    """Write a record to a suite's folder."""
    records = folder / _FOLDER
    records.mkdir(exist_ok=True)
    put_text(records / f"{record.job.name}.json", msgspec.json.encode(record).decode())


def has_record(folder: Path, name: str) -> bool:
    """Return whether the run of this name has a record."""
    return (folder / _FOLDER / f"{name}.json").exists()


def read_records(folder: Path) -> list[Record]:
    """Return a suite's records, sorted by engine, concurrency and round."""
    records = [_read_record(file) for file in sorted((folder / _FOLDER).glob("*.json"))]
    return sorted(records, key=lambda each: (*_rank(each.job.configuration), each.job.round))


def runs_in(folder: Path) -> list[Run]:
    """Return the best run of a suite for each engine and concurrency, by the suite's own rule.

    Raises:
        RequestError: The folder holds no suite, or no run of it has ended.
    """
    rule = read_settings(folder).best_by
    records = read_records(folder)
    if not records:
        raise RequestError("no run of it has ended; go on with bench --resume", field=str(folder))
    return [best_record(repetitions, rule).to_run() for repetitions in by_configuration(records)]


def by_configuration(records: Iterable[Record]) -> list[list[Record]]:
    """Group sorted records by engine and concurrency."""
    return [list(group) for _, group in groupby(records, key=lambda each: each.job.configuration)]


def best_record(repetitions: Iterable[Record], best_by: BestBy) -> Record:
    """Return the best: first by fewest failures, then by typical throughput or wall time."""

    def rank(record: Record) -> tuple[int, float]:
        goodness = -record.wall_s if best_by == "time" else record.to_run().typical_per_s
        return -len(record.failures), goodness

    return max(repetitions, key=rank)


def _rank(configuration: Configuration) -> tuple[int, float]:
    concurrency = configuration.concurrency
    return ENGINES.index(configuration.engine), float("inf") if concurrency is None else concurrency


def _read_record(file: Path) -> Record:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"is no record of a run: {error}; remove it", field=str(file)) from error
