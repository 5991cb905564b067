"""``pixel-gather bench threads``: back ends apart, the default against the best fixed number."""

import json
import os
from collections.abc import Sequence
from copy import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.suites import HREFS, job_of, record_of
from pixel_gather.core.errors import GatherError
from pixel_gather.io.pictures.theme import LIGHT
from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.limiter.adapt_concurrency import MOST_NEAR
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.child import RunCrashedError
from pixel_gather_bench.suite.job import SuiteJob, TileTarget
from pixel_gather_bench.suite.records import Record
from pixel_gather_bench.threads.figure import draw
from pixel_gather_bench.threads.numbers import (
    BackEndCurve,
    basis,
    by_back_end,
    make_curve,
    shorten_job,
    verdict,
)
from pixel_gather_bench.threads.threads import ThreadsReport, ThreadsRequest, bench_threads
from pixel_gather_cli.commands.bench_threads import bench_threads_command

DATA = Path(__file__).parents[1] / "data"


def records(*, ends_s: Sequence[tuple[int | None, float]]) -> list[Record]:
    """Return a record for each number and the time that four sources took with it."""
    return [record_of(job_of("fast", number), ends_s=(1, 1, 1, wall_s)) for number, wall_s in ends_s]


def curve(root: str = "s3://bucket") -> BackEndCurve:
    """Return a curve whose best number is 8, and whose default has four fifths of its pace."""
    return make_curve("s3", root, records(ends_s=[(1, 16), (8, 2), (32, 4), (None, 2.5)]))


def test_by_back_end_keeps_order_and_leaves_nothing_out() -> None:
    """Every href is measured at exactly one back end; http and https are one."""
    hrefs = ("s3://b/1", "file:///a", "https://h/2", "s3://c/3", "http://h/4")

    assert by_back_end(hrefs) == {
        "file": ("file:///a",),
        "s3": ("s3://b/1", "s3://c/3"),
        "http": ("https://h/2", "http://h/4"),
    }


def test_shortened_reads_fewer_files_where_few_are_read_at_a_time() -> None:
    """One at a time has the same pace with 128 files as with thousands, and takes minutes less."""
    many = tuple(f"file:///{number}.tif" for number in range(1000))

    n_read = {
        number: len(shorten_job(replace(job_of("fast", number), hrefs=many)).hrefs)
        for number in (1, 7, 8, None)
    }

    assert n_read == {1: 128, 7: 128, 8: 1000, None: 1000}


def test_curve_finds_the_best_and_the_defaults_share() -> None:
    """The share is of medians: 4 sources in 2.5 s against 4 in 2 s."""
    found = curve()

    assert found.best.at_a_time == 8
    assert found.share_of_best == pytest.approx(0.8)
    assert "8, read 2 sources/s; by itself the reader reached 2, 80% of that" in verdict(found)


def test_curve_takes_medians_over_runs() -> None:
    """One bad run does not make a number bad."""
    found = make_curve("s3", "s3://b", records(ends_s=[(8, 2), (8, 40), (8, 2)]))

    assert found.best.median_per_s == 2
    assert found.best.per_s == (2, 0.1, 2)
    assert found.share_of_best is None


@pytest.mark.parametrize(
    ("root", "by_cores"), [("file://", True), ("s3://bucket", False), ("http://host", False)]
)
def test_bounds_are_the_limiters_own(root: str, *, by_cores: bool) -> None:
    """What the figure marks is what a gather begins with, not a copy of it."""
    bounds = curve(root).bounds

    assert bounds.climbs_at_once is not by_cores
    assert (bounds.lowest == os.process_cpu_count()) is by_cores
    assert bounds.highest == (MOST_NEAR if by_cores else AdaptiveLimiter().most)
    assert f"begins with {bounds.start}, never below {bounds.lowest} or above {bounds.highest}" in basis(
        curve(root)
    )


def test_draw_marks_what_was_found_out() -> None:
    """A panel for each back end, with the fixed numbers, the default, and where the limiter searches."""
    figure = draw([curve(), replace(curve(), back_end="http")], LIGHT)

    assert len(figure.axes) == 2
    for ax in figure.axes:
        assert ax.get_title(loc="left").endswith(": default at 80% of best")
        assert ax.get_xlabel() == "sources at one time"
        assert ax.get_ylabel() == "sources/s"
        assert "found out while reading: the default" in ax.get_legend_handles_labels()[1]


@pytest.mark.usefixtures("without_figure")
def test_bench_threads_keeps_each_back_ends_runs_apart(tmp_path: Path) -> None:
    """Each back end gets a suite's folder of its own, and every run its own list."""
    ran: list[SuiteJob] = []

    def run_one(job: SuiteJob) -> Record:
        ran.append(job)
        return record_of(job)

    found = bench_threads(
        REQUEST, tmp_path, on_step=lambda *_: None, run_one=run_one, find=lambda *_, **__: TARGET
    )

    assert [each.back_end for each in found.curves] == ["file", "s3"]
    assert {job.hrefs for job in ran} == {HREFS, ("s3://bucket/a.tif",)}
    assert len(list((tmp_path / "s3" / "records").iterdir())) == 2
    assert {"threads.json", "threads.txt"} <= {each.name for each in tmp_path.iterdir()}


@pytest.fixture
def without_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure, which takes seconds to write, is left out."""
    monkeypatch.setattr("pixel_gather_bench.threads.threads.write_figure", lambda *_: None)


def test_bench_threads_says_when_every_run_crashed(tmp_path: Path) -> None:
    """Without a single fixed number there is nothing to compare, and the error names the back end."""

    def run_one(job: SuiteJob) -> Record:
        if job.configuration.concurrency is None:
            return record_of(job)
        raise RunCrashedError("no memory")

    with pytest.raises(GatherError, match="no run on file came to its end"):
        bench_threads(
            REQUEST, tmp_path, on_step=lambda *_: None, run_one=run_one, find=lambda *_, **__: TARGET
        )


@pytest.mark.long
def test_command_reads_local_files(tmp_path: Path) -> None:
    """From a list to numbers, by real processes; the folder is a suite's for each back end."""
    source = DATA / "files" / "odc-geo" / "au-3577.tif"
    listing = tmp_path / "list.txt"
    listing.write_text(f"{source}\n" * 3)

    ran = CliRunner().invoke(
        bench_threads_command,
        [str(listing), "--concurrency", "2,auto", "--times", "1", "--to", str(tmp_path / "out"), "--json"],
        standalone_mode=False,
    )

    assert ran.exception is None
    (back_end,) = json.loads(ran.stdout)["back_ends"]
    assert back_end["back_end"] == "file"
    assert back_end["fixed"][0]["at_a_time"] == 2
    assert back_end["fixed"][0]["n_failed"] == 0
    assert back_end["share_of_best"] > 0
    [folder] = (tmp_path / "out").iterdir()
    assert {"threads.png", "threads-dark.svg"} <= {each.name for each in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list.txt", "--concurrency", "auto"), "--concurrency: give numbers too"),
        (("list.txt", "--concurrency", "0"), "does not go upwards from 1 or more"),
        (("nowhere.txt",), "nowhere.txt"),
        ((), "Missing argument"),
    ],
)
def test_command_refuses_with_a_sentence(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad options name themselves; no folder is made."""
    monkeypatch.chdir(tmp_path)

    ran = CliRunner().invoke(bench_threads_command, [*arguments])

    assert said in (ran.output if isinstance(ran.exception, SystemExit) else str(ran.exception))
    assert isinstance(ran.exception, (SystemExit, GatherError))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("without_processes", "without_figure")
def test_command_tells_of_sources_that_failed(tmp_path: Path) -> None:
    """With their cause, and by its exit code, as the suite does."""
    listing = tmp_path / "list.txt"
    listing.write_text(f"{DATA}/files/odc-geo/au-3577.tif\n{tmp_path}/missing.tif\n")
    arguments = [
        str(listing),
        "--concurrency",
        "2",
        "--times",
        "1",
        "--to",
        str(tmp_path),
        "--json",
        "--quiet",
    ]

    ran = CliRunner().invoke(bench_threads_command, arguments, standalone_mode=False)

    assert ran.return_value == 1
    assert "fast: 1 missing: no such object, first of file://" in ran.stderr


def test_command_that_finds_nothing_to_read_leaves_no_folder(tmp_path: Path) -> None:
    """Bad usage that shows late cleans up as well."""
    listing = tmp_path / "list.txt"
    listing.write_text(f"{DATA}/files/odc-geo/au-3577.tif\n")

    ran = CliRunner().invoke(
        bench_threads_command, [str(listing), "--band", "99", "--to", str(tmp_path / "out")]
    )

    assert isinstance(ran.exception, GatherError)
    assert not list((tmp_path / "out").iterdir())


def test_report_is_json_for_machines() -> None:
    """Verdict and basis are in it, so that a page can show them."""
    values = ThreadsReport(curves=(curve(),), machine={"cpu": "x", "cores": 2}).to_json()

    assert json.loads(json.dumps(values))["back_ends"][0]["best"] == 8
    assert values["back_ends"][0]["basis"].startswith("default: begins with")


TARGET = TileTarget(tile=None, band=1, shape=(2, 2), dtype="uint16")
REQUEST = ThreadsRequest(
    hrefs=(*HREFS, "s3://bucket/a.tif"),
    concurrencies=(8, None),
    times=1,
    tile=None,
    band=1,
    stores=StoreSettings(),
)


def test_published_figures_stand_beside_those_of_each_back_end() -> None:
    """In milliseconds for 900 tiles, as they were published; what was not measured is a dash."""
    report = ThreadsReport(curves=(curve(),), machine={"cores": 2, "cpu": "x"}, with_published=True)

    rows = {line.split("  ")[0]: line.split() for line in report.to_text().splitlines()}

    assert rows["here: S3"][2:] == ["-", "450,000", "900,000", "8", "in", "flight:", "450,000", "ms"]
    assert rows["2016: Cassandra, 8 cores"][4:7] == ["8,100", "4,541", "7,610"]
    assert len(report.to_json()["published"]) == 7
    assert "2016" not in replace(report, with_published=False).to_text()
