"""Runs a suite, round by round. Every run has a fresh process, and its record is kept at once."""

from collections.abc import Callable
from copy import replace
from pathlib import Path

from msgspec import Struct

from pixel_gather.core.errors import GatherError
from pixel_gather_bench.child import RunCrashedError, run_in_child
from pixel_gather_bench.suite.job import Configuration, SuiteJob
from pixel_gather_bench.suite.records import Record, SuiteSettings, has_record, runs_in, write_record


class Step(Struct, frozen=True, kw_only=True):
    """One run that has ended."""

    name: str
    n_done: int
    n_runs: int
    record: Record | None
    """None if the run crashed."""

    crash: str | None = None


def run_job(job: SuiteJob) -> Record:
    """Do one run in a fresh process.

    Raises:
        RunCrashedError: The process ended without a record.
    """
    return run_in_child("pixel_gather_bench.suite.one_run:do", job, Record, name=job.name)


def run_suite(
    folder: Path,
    settings: SuiteSettings,
    hrefs: tuple[str, ...],
    *,
    on_step: Callable[[Step], None],
    run_one: Callable[[SuiteJob], Record] = run_job,
) -> None:
    """Do all runs that have no record in the folder yet.

    If the process of a run crashes, the crash is reported and the run is left out. When the suite is resumed,
    it tries that run again. The folder holds settings and list, and gets the records.
    """
    jobs = list(settings.jobs(hrefs, folder))
    missing = [job for job in jobs if not has_record(folder, job.name)]
    n_before = len(jobs) - len(missing)
    if missing and settings.bucket_warm_up:
        _warm_bucket(settings, hrefs, run_one)
    for n_done, job in enumerate(missing, n_before + 1):
        record, crash = _run_and_keep(job, folder, run_one)
        on_step(Step(name=job.name, n_done=n_done, n_runs=len(jobs), record=record, crash=crash))


def _run_and_keep(
    job: SuiteJob, folder: Path, run_one: Callable[[SuiteJob], Record]
) -> tuple[Record | None, str | None]:
    try:
        record = run_one(job)
    except RunCrashedError as error:
        return None, f"{error}{_keep_output(error.said, folder / 'crashes' / f'{job.name}.txt')}"
    write_record(folder, record)
    return record, None


def _keep_output(said: str, file: Path) -> str:
    """Keep the output of a process that crashed, and return where."""
    if not said:
        return ""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{said}\n", encoding="utf-8")
    return f" (its whole output: {file})"


def _warm_bucket(
    settings: SuiteSettings, hrefs: tuple[str, ...], run_one: Callable[[SuiteJob], Record]
) -> None:
    """Read every tile once. So the store is as warm for the first run as for the last one.

    Raises:
        GatherError: The process crashed.
    """
    job = settings.job(Configuration(engine="fast", concurrency=None), 0, hrefs, Path())
    try:
        run_one(replace(job, keep_in=None))
    except RunCrashedError as error:
        raise GatherError(f"the bucket could not be warmed up: {error}") from error


def write_suite_report(folder: Path, *, with_published: bool) -> None:
    """Draw the best run of each configuration. An earlier report is overwritten.

    The folder has at least one record.
    """
    from pixel_gather.features.report.report_files import make_comparison_files  # noqa: PLC0415 # it draws: 1 s
    from pixel_gather_bench.figures.draw import put_figures  # noqa: PLC0415 # as above

    runs = runs_in(folder)
    plots = put_figures(runs, folder, with_published=with_published)
    title = folder.absolute().name
    files = make_comparison_files(runs, plots=plots, title=title, with_published=with_published)
    for name, content in files.items():
        (folder / name).write_bytes(content)
