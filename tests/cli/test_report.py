"""The command ``pixel-gather report``."""

import json
from functools import partial
from pathlib import Path

import pytest

from bench.suites import HREFS, SUITE
from pixel_gather import gather
from pixel_gather.in_process.settings import Settings
from pixel_gather_bench.suite.records import write_settings
from support.command_line import run as run_command

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(map(str, SERIES.glob("heat_content_anomaly_0-2000*.tif")))
NO_REPORT = Settings(draws_report=False)

run = partial(run_command, "report")


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gather of four real files and a missing one."""
    folder = tmp_path_factory.mktemp("cubes") / "ocean.zarr"
    gather({"sources": [*FILES, "/missing.tif"], "window": "centre"}, to=folder, settings=NO_REPORT)
    return folder


@pytest.mark.long
def test_report_of_one_cube_is_its_whole_page(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder gets the page and the texts. With the figures of 2018, it gets those of this gather, too."""
    assert run(cube, "--to", tmp_path / "plain") == 0
    assert sorted(file.name for file in (tmp_path / "plain").iterdir()) == [
        "report.html",
        "report.json",
        "report.txt",
    ]
    assert "figures" not in capsys.readouterr().err

    code = run(cube, "--reference", "--to", tmp_path / "new/report")

    said = capsys.readouterr()
    folder = tmp_path / "new/report"
    assert code == 0
    assert said.out == (folder / "report.txt").read_text()
    assert "4 of 5" in said.out
    assert str(folder / "report.html") in said.err
    assert "The request, to repeat it" in (folder / "report.html").read_text()
    for suffix in ("png", "svg"):
        light = {file.stem for file in folder.glob(f"*.{suffix}") if not file.stem.endswith("-dark")}
        dark = {file.stem.removesuffix("-dark") for file in folder.glob(f"*-dark.{suffix}")}
        assert {"in_depth", "throughput", "latency_hiding"} <= light
        assert light == dark


@pytest.mark.long
def test_report_of_two_cubes_with_the_published_figures_is_a_table(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each cube is a column, by a name that no other has. An earlier report is replaced. JSON is possible."""
    other = tmp_path / "again/ocean.zarr"
    names = [f"{cube.parent.name}/ocean", "again/ocean"]
    gather({"sources": FILES, "window": "centre"}, to=other, settings=NO_REPORT)
    (tmp_path / "report.txt").write_text("of an earlier report")

    code = run(cube, other, "--reference", "--to", tmp_path, "--json")

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    text = (tmp_path / "report.txt").read_text()
    assert text.splitlines()[0].split()[:2] == names
    assert [each["name"] for each in told["table"]] == [
        *names,
        "2018, 1 thread",
        "2018, 49 threads",
    ]
    assert told["table"][0].keys() == told["table"][2].keys()
    assert told["table"][2]["digest"] is told["table"][2]["bands"] is None  # was not published
    assert [each["gather"] for each in told["gathers"]] == names


def made(folder: Path) -> Path:
    """Return a new folder."""
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere.zarr", "there is no such folder"),
        (".", "neither a cube nor a benchmark"),
        ("https://example.com/cube.zarr", "https"),
        ("other.zarr", "a Zarr that no gather made is there"),
        ("suite", "go on with bench --resume"),
        ("ingest", "it has a report already: ingest.txt"),
    ],
)
def test_report_says_what_is_wrong_with_a_place(
    place: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error is one line that names the place. Nothing is written."""
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "other.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    write_settings(made(tmp_path / "suite"), SUITE, HREFS)
    (made(tmp_path / "ingest") / "ingest.txt").write_text("all of it")
    monkeypatch.chdir(tmp_path)

    code = run(place, "--to", tmp_path / "report")

    error = capsys.readouterr().err
    assert code == 2
    assert said in error
    assert place.removesuffix(".") in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_report_of_an_unfinished_cube_is_refused(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says how to finish the cube."""
    root = json.loads((cube / "zarr.json").read_text())
    root["attributes"]["complete"] = False
    (tmp_path / "half.zarr").mkdir()
    (tmp_path / "half.zarr/zarr.json").write_text(json.dumps(root))

    code = run(tmp_path / "half.zarr", "--to", tmp_path / "report")

    assert code == 2
    assert "not complete. If its gather is still at work, wait" in capsys.readouterr().err


def test_report_folder_that_is_a_file_is_refused(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is a sentence that names the file."""
    (tmp_path / "taken").write_text("")

    code = run(cube, "--to", tmp_path / "taken")

    assert code == 2
    assert "taken cannot be created" in capsys.readouterr().err
