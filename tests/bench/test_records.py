"""What runs leave behind, and what is made of it."""

from copy import replace
from pathlib import Path

import pytest

from bench.suites import HREFS, SUITE, job_of, record_of
from pixel_gather.core.errors import RequestError
from pixel_gather_bench.suite.records import (
    read_list,
    read_records,
    read_settings,
    runs_in,
    write_record,
    write_settings,
)
from pixel_gather_bench.suite.table import group_by_digest, group_causes, suite_rows

STEADY, LATE = (1, 2, 3, 8), (2, 4, 6, 7)
"""The same four sources: the first run has a late answer at its end, the second is slow throughout."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A suite of two repetitions of one configuration and one of another."""
    write_settings(tmp_path, SUITE, HREFS)
    write_record(tmp_path, record_of(job_of("rasterio", 4)))
    write_record(tmp_path, record_of(job_of("fast", None, 1), ends_s=STEADY))
    write_record(tmp_path, record_of(job_of("fast", None, 2), ends_s=LATE))
    return tmp_path


def test_a_folder_gives_back_what_was_put_in_it(folder: Path) -> None:
    """Settings, list and records survive, in the order of the tables."""
    assert read_settings(folder) == SUITE
    assert read_list(folder) == HREFS
    assert [record.job.name for record in read_records(folder)] == [
        "fast-auto-1",
        "fast-auto-2",
        "rasterio-4-1",
    ]
    assert read_records(folder)[0] == record_of(job_of("fast", None, 1), ends_s=STEADY)


def test_runs_in_keeps_the_best_by_throughput_or_by_time(folder: Path) -> None:
    """A late answer near the end makes the wall time long and leaves the typical throughput as it is."""
    by_throughput = runs_in(folder)
    write_settings(folder, replace(SUITE, best_by="time"), HREFS)
    by_time = runs_in(folder)

    assert [run.name for run in by_throughput] == ["fast, auto", "rasterio, 4"]
    assert by_throughput[0].timings.end_s.tolist() == list(STEADY)
    assert by_time[0].timings.end_s.tolist() == list(LATE)


def test_runs_in_prefers_fewer_failures(folder: Path) -> None:
    """Reading less is no merit."""
    write_record(folder, record_of(job_of("rasterio", 4, 2), ends_s=(0.1, 0.2, 0.3, 0.4), failed=2))

    best = runs_in(folder)[1]

    assert best.n_failed == 0
    assert len(best.timings) == 4


def test_a_run_says_which_gdal_has_read() -> None:
    """A figure of rasterio's means little without it."""
    record = replace(record_of(job_of("rasterio", 4)), gdal={"VSI_CACHE": "FALSE", "GDAL": "3.12.1"})

    assert record.to_run().conditions == "without a warm-up, GDAL 3.12.1"


def test_timings_are_of_the_sources_that_were_read() -> None:
    """What failed has no time of opening that means anything."""
    run = record_of(job_of("fast", 4), failed=1).to_run()

    assert (run.n_sources, run.n_failed, len(run.timings)) == (4, 1, 3)
    assert run.timings.end_s.tolist() == [2, 3, 4]
    assert run.timings.nbytes.sum() == 21
    assert (run.name, run.window, run.bands) == ("fast, 4", "centre tile", (1,))


def test_rows_tell_the_best_and_the_median(folder: Path) -> None:
    """One line a configuration, from all its runs."""
    row, other = suite_rows(read_records(folder), "throughput")

    assert (row.engine, row.concurrency, row.n_runs, row.wall_s, row.median_wall_s) == (
        "fast",
        "auto",
        2,
        8,
        7.5,
    )
    assert row.typical_per_s == 1.0
    assert row.sources_per_s == 0.5
    assert (other.engine, other.concurrency, other.n_runs) == ("rasterio", "4", 1)


def test_causes_count_a_source_once(folder: Path) -> None:
    """A file that is missing in all repetitions is one missing file."""
    for round_ in (1, 2):
        write_record(folder, record_of(job_of("fast", 1, round_), failed=2))

    (cause,) = group_causes(read_records(folder))

    assert (cause.engine, cause.status, cause.positions) == ("fast", "missing", (0, 1))


def test_digests_name_the_runs_that_differ(folder: Path) -> None:
    """Times of runs with other pixels must not be compared unseen."""
    write_record(folder, record_of(job_of("rasterio", 1), digest="other"))

    assert group_by_digest(read_records(folder)) == {
        "d": ["fast-auto-1", "fast-auto-2", "rasterio-4-1"],
        "other": ["rasterio-1-1"],
    }


def test_a_folder_that_is_none_is_refused_by_name(tmp_path: Path, folder: Path) -> None:
    """Any folder, a broken record or a suite without runs: a sentence that names the file."""
    with pytest.raises(RequestError, match=r"nowhere: .*bench LIST"):
        runs_in(tmp_path / "nowhere")
    for record in (folder / "records").iterdir():
        record.unlink()
    with pytest.raises(RequestError, match="no run of it has ended"):
        runs_in(folder)
    (folder / "records/fast-1-1.json").write_text('{"job": 3}')
    with pytest.raises(RequestError, match=r"fast-1-1\.json: is no record"):
        runs_in(folder)
    (folder / "settings.json").write_text("[]")
    with pytest.raises(RequestError, match=r"settings\.json: it does not hold"):
        runs_in(folder)
