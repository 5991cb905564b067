"""Which runs a suite does, in what order, and which of them after a stop."""

from copy import replace
from pathlib import Path

import pytest

from bench.suites import HREFS, SUITE, record_of
from pixel_gather.core.errors import GatherError
from pixel_gather_bench.child import RunCrashedError
from pixel_gather_bench.suite.job import SuiteJob
from pixel_gather_bench.suite.records import Record, has_record, read_records
from pixel_gather_bench.suite.suite import Step, run_suite

NAMES = [
    *("fast-1-1", "rasterio-1-1", "fast-4-1", "rasterio-4-1", "fast-auto-1"),
    *("fast-auto-2", "rasterio-4-2", "fast-4-2", "rasterio-1-2", "fast-1-2"),
]


class FakeChild:
    """Does jobs at once; crashes at those of some names, is interrupted at those of others."""

    def __init__(self, *, crashes: str = "", is_interrupted_at: str = "") -> None:
        self.crashes = crashes
        self.is_interrupted_at = is_interrupted_at
        self.jobs: list[SuiteJob] = []

    def __call__(self, job: SuiteJob) -> Record:
        """Answer as a process would."""
        self.jobs.append(job)
        if job.name == self.crashes:
            raise RunCrashedError(f"{job.name}: its process ended", said="Traceback\nMemoryError")
        if job.name == self.is_interrupted_at:
            raise KeyboardInterrupt
        return record_of(job)


def test_engines_and_concurrencies_take_turns(tmp_path: Path) -> None:
    """A network that slows down slows all alike: round after round, every other one backwards."""
    child = FakeChild()

    run_suite(tmp_path, SUITE, HREFS, on_step=lambda _: None, run_one=child)

    assert [job.name for job in child.jobs] == NAMES
    assert all(job.hrefs == HREFS for job in child.jobs)


def test_an_interrupted_suite_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    """No finished run is repeated, the one that was under way is."""
    with pytest.raises(KeyboardInterrupt):
        run_suite(
            tmp_path,
            SUITE,
            HREFS,
            on_step=lambda _: None,
            run_one=FakeChild(is_interrupted_at="rasterio-4-1"),
        )
    child, steps = FakeChild(), list[Step]()

    run_suite(tmp_path, SUITE, HREFS, on_step=steps.append, run_one=child)

    assert [job.name for job in child.jobs] == NAMES[3:]
    assert [(step.n_done, step.n_runs) for step in steps] == [(n, 10) for n in range(4, 11)]
    assert len(read_records(tmp_path)) == 10


def test_a_run_that_crashes_costs_no_other(tmp_path: Path) -> None:
    """The suite ends with all other runs, tells of the crash, and tries again when resumed."""
    steps, words = list[Step](), tmp_path / "crashes" / "fast-4-1.txt"

    run_suite(tmp_path, SUITE, HREFS, on_step=steps.append, run_one=FakeChild(crashes="fast-4-1"))

    crashed = [step for step in steps if step.record is None]
    assert [(step.name, step.crash) for step in crashed] == [
        ("fast-4-1", f"fast-4-1: its process ended: MemoryError (its whole output: {words})")
    ]
    assert words.read_text() == "Traceback\nMemoryError\n"
    assert not has_record(tmp_path, "fast-4-1")
    assert len(read_records(tmp_path)) == 9


def test_the_bucket_is_warmed_up_once_and_leaves_no_record(tmp_path: Path) -> None:
    """All tiles are read before the first run, also where pixels are to be kept: not those."""
    settings = replace(SUITE, bucket_warm_up=True, times=1, keep=True)
    child = FakeChild()

    run_suite(tmp_path, settings, HREFS, on_step=lambda _: None, run_one=child)

    assert [job.name for job in child.jobs] == ["fast-auto-0", *NAMES[:5]]
    assert child.jobs[0].keep_in is None
    assert child.jobs[1].keep_in == str(tmp_path / "pixels")
    assert {record.job.round for record in read_records(tmp_path)} == {1}


def test_a_bucket_that_cannot_be_warmed_up_ends_the_suite(tmp_path: Path) -> None:
    """Runs on a store that is cold in part would not be what was asked for."""
    settings = replace(SUITE, bucket_warm_up=True)

    with pytest.raises(GatherError, match="could not be warmed up"):
        run_suite(tmp_path, settings, HREFS, on_step=lambda _: None, run_one=FakeChild(crashes="fast-auto-0"))
