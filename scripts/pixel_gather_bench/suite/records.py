"""Writes the records of a suite to its folder, and reads them back as runs."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.run import Run
from pixel_gather_bench.bench_folder import put_text
from pixel_gather_bench.suite.job import ENGINES, Configuration
from pixel_gather_bench.suite.record import Record
from pixel_gather_bench.suite.settings import BestBy, read_settings

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
    """Return a suite's records, sorted by engine, concurrency and round.

    Raises:
        RequestError: A file is not a record.
    """
    records = [_read_record(file) for file in sorted((folder / _FOLDER).glob("*.json"))]
    return sorted(records, key=lambda each: (*_rank(each.job.configuration), each.job.round))


def runs_in(folder: Path, *, best_by: BestBy | None = None) -> list[Run]:
    """Return the best run of a suite for each engine and concurrency.

    Args:
        folder: As `pixel_gather_bench.suite.suite` left it.
        best_by: How the best run is chosen. None for the suite's own setting.

    Raises:
        RequestError: The folder holds no suite, or no run of it has ended.
    """
    rule = best_by or read_settings(folder).best_by
    records = read_records(folder)
    if not records:
        raise RequestError("no run of it has ended; go on with bench --resume", field=str(folder))
    return [best_of(repetitions, rule).to_run() for repetitions in by_configuration(records)]


def by_configuration(records: Iterable[Record]) -> list[list[Record]]:
    """Group sorted records by engine and concurrency."""
    return [list(group) for _, group in groupby(records, key=lambda each: each.job.configuration)]


def best_of(repetitions: Iterable[Record], best_by: BestBy) -> Record:
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
