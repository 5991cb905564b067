"""``pixel-gather bench LIST`` as its users meet it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixel_gather_bench.figures.draw import draw_figures
from support.command_line import run as run_command

OHC = sorted(
    (Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr").glob(
        "heat_content_anomaly_0-2000*.tif"
    )
)

run = partial(run_command, "bench")


@pytest.fixture
def list_file(tmp_path: Path) -> Path:
    """A list of four real COGs."""
    file = tmp_path / "list.txt"
    file.write_text("".join(f"{path}\n" for path in OHC))
    return file


def suite_in(folder: Path) -> Path:
    """Return the only suite's folder."""
    (found,) = folder.glob("suite-*")
    return found


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have one figure instead of all, which take half a minute to write."""

    def draw(*runs: Any, **options: Any) -> dict[str, Any]:
        return {"workers": draw_figures(*runs, **options)["workers"]}

    monkeypatch.setattr("pixel_gather_bench.figures.draw.draw_figures", draw)


@pytest.mark.long
@pytest.mark.usefixtures("one_figure")
def test_bench_of_a_list_measures_both_engines_and_reports(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command, with real processes: all runs, equal pixels, the table, the report and its figures."""
    code = run(
        list_file, "--concurrency", "1,2", "--times", 1, "--keep", "--to", tmp_path / "out", "--reference"
    )

    said = capsys.readouterr()
    folder = suite_in(tmp_path / "out")
    assert code == 0
    assert len(list((folder / "records").glob("*.json"))) == 4
    assert "rasterio" in said.out
    assert "in all runs" in said.out
    assert "fast-1-1:" in said.err
    for name in ("report.html", "report.txt", "report.json", "workers.png", "workers.svg"):
        assert (folder / name).stat().st_size > 0
    assert "fast, 2" in (folder / "report.txt").read_text()
    assert "2018" in (folder / "report.txt").read_text()
    (kept,) = (folder / "pixels").glob("*.npy")
    assert np.load(kept).shape == (4, 180, 360)


@pytest.mark.usefixtures("without_processes")
def test_bench_takes_its_list_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe from ls is a list too; --first shortens it, --json is for programs."""
    stdin = io.TextIOWrapper(io.BytesIO("".join(f"{path}\n" for path in OHC).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    options = (
        "--engine",
        "fast",
        "--concurrency",
        "auto",
        "--times",
        1,
        "--first",
        2,
        "--json",
        "--quiet",
        "--no-report",
    )

    code = run("-", *options, "--to", tmp_path)

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [(row["engine"], row["concurrency"], row["n_failed"]) for row in found["runs"]] == [
        ("fast", "auto", 0)
    ]
    assert len((suite_in(tmp_path) / "list.txt").read_text().splitlines()) == 2


@pytest.mark.usefixtures("without_processes")
def test_bench_resumes_what_is_missing(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records that are there stay as they are; only what is missing runs."""
    run(list_file, "--engine", "fast", "--concurrency", "1,2", "--times", 1, "--to", tmp_path, "--no-report")
    folder = suite_in(tmp_path)
    kept, lost = folder / "records/fast-1-1.json", folder / "records/fast-2-1.json"
    before = kept.read_bytes()
    lost.unlink()
    capsys.readouterr()

    code = run("--resume", folder, "--no-report")

    said = capsys.readouterr().err
    assert code == 0
    assert kept.read_bytes() == before
    assert lost.exists()
    assert not (folder / "report.html").exists()
    assert "fast-2-1" in said
    assert "fast-1-1" not in said


@pytest.mark.usefixtures("without_processes")
def test_bench_refuses_a_record_that_is_none_before_it_runs_anything(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be read would otherwise be found at the end of hours; the sentence says what to do."""
    run(list_file, "--engine", "fast", "--concurrency", "1,2", "--times", 1, "--to", tmp_path, "--no-report")
    folder = suite_in(tmp_path)
    corrupt, lost = folder / "records/fast-1-1.json", folder / "records/fast-2-1.json"
    corrupt.write_text("{")
    lost.unlink()
    capsys.readouterr()

    code = run("--resume", folder, "--no-report")

    assert code == 2
    assert "fast-1-1.json: is no record of a run" in capsys.readouterr().err
    assert not lost.exists()


@pytest.mark.usefixtures("without_processes")
def test_bench_tells_of_sources_that_failed(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are counted and named with their cause, in both engines, and the exit code says so."""
    with list_file.open("a") as lines:
        lines.write(f"{tmp_path}/missing.tif\n")

    code = run(list_file, "--concurrency", "2", "--times", 1, "--to", tmp_path / "out", "--no-report")

    said = capsys.readouterr().err
    assert code == 1
    assert "fast: 1 missing" in said
    assert "rasterio: 1 failed: GDAL says" in said
    assert "missing.tif" in said
    assert "DIFFER" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Usage"),
        (("--times", "2"), "give a LIST"),
        (("LIST", "--prefix", "folder"), "give a LIST, or --prefix"),
        (("LIST", "--glob", "*"), "only with --prefix"),
        (("LIST", "--engine", "fast,slow"), "'slow' is none of fast, rasterio"),
        (("LIST", "--concurrency", "0"), "'0' does not go upwards"),
        (("LIST", "--engine", "rasterio", "--concurrency", "auto"), "rasterio needs numbers"),
        (("LIST", "--block", "7,7"), "no source among the first 4 has such a tile"),
        (("LIST", "--band", "9"), "it has 1 band(s), not 9"),
        (("nowhere.txt",), "nowhere.txt"),
        (("--resume", "nowhere"), "no folder that bench LIST has made"),
        (("LIST", "--resume", "nowhere"), "no LIST and no such options"),
    ],
)
def test_bench_refuses_with_a_sentence(
    arguments: tuple[str, ...],
    sentence: str,
    list_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bad usage is one line that says what to do, and leaves no folder."""
    to = () if "--resume" in arguments or not arguments else ("--to", tmp_path / "out")
    given = (str(list_file) if each == "LIST" else each for each in arguments)

    code = run(*given, *to)

    said = capsys.readouterr()
    assert code == 2
    assert sentence in said.err + said.out
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()


def test_bench_refuses_what_memory_does_not_hold(
    list_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All windows of a run are held, and a machine that swaps measures nothing."""
    monkeypatch.setattr("pixel_gather_bench.suite.sources.free_memory_mib", lambda: 1.0)

    code = run(list_file, "--to", tmp_path / "out")

    assert code == 2
    assert "give --first 2 or less" in capsys.readouterr().err


@pytest.mark.long
def test_bench_that_is_interrupted_says_how_to_go_on(list_file: Path, tmp_path: Path) -> None:
    """Ctrl-C keeps what is finished, and the last line is the command that does the rest."""
    command = [sys.executable, "-m", "pixel_gather_cli", "bench", str(list_file), "--to", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(  # noqa: S603 # our own command
        [*command, "--times", "100"], stderr=subprocess.PIPE, env=environment
    ) as process:
        while not list(tmp_path.glob("suite-*/records/*.json")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode() if process.stderr else ""

    assert process.returncode == 130
    assert said.rstrip().endswith(f"bench --resume {suite_in(tmp_path)}")
    assert "Traceback" not in said


@pytest.mark.usefixtures("without_processes")
def test_bench_that_is_interrupted_while_it_draws_says_so_too(
    list_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All runs are there by then: a new suite is not what does the rest."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pixel_gather_cli.commands.bench_suite.write_suite_report", interrupted)

    code = run(list_file, "--engine", "fast", "--concurrency", "1", "--times", 1, "--to", tmp_path)

    assert code == 130
    assert capsys.readouterr().err.rstrip().endswith(f"bench --resume {suite_in(tmp_path)}")


def test_bench_help_explains_the_suite_and_the_other_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    """One page: the options of bench LIST, and the commands beside it."""
    code = run("--help")

    said = capsys.readouterr().out
    assert code == 0
    for text in ("--concurrency", "--resume", "blocks", "ingest", "threads", "LIST"):
        assert text in said
