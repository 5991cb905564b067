"""Bands of different resolution from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from pixel_gather_cli.main import main
from support.images import write_image
from support.resolutions import NORTH, WEST, scenes


def a_list(folder: Path) -> str:
    """Write a list of one scene."""
    file = folder / "list.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in scenes(folder, 1)["rows"]))
    return str(file)


def status_of(arguments: list[str]) -> object:
    """Return the exit status of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


BOX = f"{WEST},{NORTH - 600},{WEST + 600},{NORTH}"


def test_plan_tells_what_becomes_of_each_band(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, and in JSON."""
    asked = ["plan", "--sources", a_list(tmp_path), "--bbox", BOX, "--crs", "source"]

    for more in ([], ["--verbose"]):
        assert status_of([*asked, "--grid", "finest", *more]) == 0
        line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("grid "))
        assert line.split(maxsplit=1)[1] == (
            "pixels of 10 in EPSG:32632: red as it is, scl each pixel 2 x 2 times, aot each pixel 6 x 6 times"
        )
    assert status_of([*asked, "--grid", "60", "--resampling", "red=nearest,scl=mode", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["grid"] == {
        "resolution": 60.0,
        "bands": {
            "red": "nearest of 6 x 6 pixels",
            "scl": "mode of 3 x 3 pixels",
            "aot": "as it is",
        },
    }


def test_plan_tells_the_grid_that_sources_are_warped_onto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its CRS, also where the zone of the window is asked for."""
    asked = ["plan", "--sources", a_list(tmp_path), "--bbox", BOX, "--crs", "EPSG:32632"]

    for crs, named in (("utm", "EPSG:32632"), ("epsg:3035", "EPSG:3035")):
        assert status_of([*asked, "--grid", "20", "--grid-crs", crs]) == 0
        line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("grid "))
        assert line.split(maxsplit=1)[1] == (
            f"pixels of 20 in {named}: red warped by nearest, scl warped by nearest, aot warped by nearest"
        )


def test_plan_tells_how_scenes_become_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, and in JSON."""
    asked = ["plan", "--sources", a_list(tmp_path), "--bbox", BOX, "--crs", "source", "--grid", "finest"]
    asked += ["--mask", "scl:3", "--reduce", "scene:first", "--reduce-order", "-scene"]

    for more in ([], ["--verbose"]):
        assert status_of([*asked, *more]) == 0
        line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("reduce "))
        assert line.split(maxsplit=1)[1] == "first by -scene of each scene: 1 scene to 1 row"
    assert status_of([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["reduce"] == {"by": "scene", "statistic": "first", "order": "-scene"}
    assert [each["name"] for each in told["measurements"]] == ["red", "aot"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--reduce", "median"], "--reduce: 'median' is not BY:STATISTIC, such as month:median"),
        (["--reduce-order", "cloud"], "--reduce-order: use it only with --reduce"),
        (["--reduce", "month:middle"], "it is 'middle'; write median, mean, min, max, count, a percentile"),
        (["--grid", "fine"], "'fine' is not any|same|finest|coarsest|WIDTH"),
        (["--resampling", "mode"], "--resampling: use it only with --grid WIDTH, finest or coarsest"),
        (["--grid", "same", "--resampling", "mode"], "use it only with --grid WIDTH"),
        (["--grid", "60", "--resampling", "mean"], "'mean'"),
        (["--grid-crs", "utm"], "--grid-crs: use it only with --grid WIDTH"),
        (["--grid", "finest", "--grid-crs", "utm"], "with crs, write the width of the pixels in units of it"),
        (["--grid", "10", "--grid-crs", "EPSG:3"], "--grid-crs: 'EPSG:3' is no CRS that PROJ knows"),
    ],
)
def test_wrong_grids_are_refused_in_words(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option."""
    status = status_of(["plan", "--sources", a_list(tmp_path), "--bbox", BOX, "--crs", "source", *options])

    assert status == 2
    assert said in capsys.readouterr().err


def test_a_grid_that_is_far_too_coarse_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Degrees that were meant as pixels: a worker cannot hold what lies below one pixel of the cube."""
    demo = Path(__file__).parents[1] / "data/demo/sources.csv"

    words = ("--point", "-105.27,40.01", "--size", "64,64", "--grid", "10")
    assert status_of(["plan", "--sources", str(demo), *words]) == 2

    said = capsys.readouterr().err
    assert "5 tasks of 0.016 MiB" in said
    assert "a smaller grid.resolution (--grid) takes less" in said
    assert "because its CRS counts in degrees. If metres are meant, name a CRS" in said


def test_a_limit_of_less_than_a_byte_is_not_told_as_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks of 0 MiB would be no help."""
    write_image(tmp_path / "0.tif", np.ones((64, 64), "uint8"), crs="EPSG:32632")
    listed = tmp_path / "list.txt"
    listed.write_text("0.tif\n")
    asked = (str(listed), "--point", "6.4,45.1", "--size", "9,9", "--grid", "10", "--grid-crs", "EPSG:4326")
    assert status_of(["plan", "--sources", *asked]) == 2

    said = capsys.readouterr().err
    assert "tasks of less than a byte" in said
    assert "pixels of the grid are 10 degrees wide" in said


WHOLE = "from whole pixels of the sources"
DEGREES = (
    "pixels of the grid are {} wide, {} times as wide as those of the sources, because its CRS counts in "
    "degrees. If metres are meant, name a CRS that counts in them: grid.crs: utm (--grid-crs utm)"
)


@pytest.mark.parametrize(
    ("asked", "grid", "warning"),
    [
        (
            ["--grid", "10"],
            f"10 degrees (10.0000008, {WHOLE}) in EPSG:4326: every band average of 240 x 240 pixels",
            DEGREES.format("10 degrees", 240),
        ),
        (
            ["--grid", "1", "--grid-crs", "EPSG:4326"],
            "1 degree in EPSG:4326: every band warped by nearest",
            DEGREES.format("1 degree", 24),
        ),
        (
            ["--grid", "0.25"],
            f"0.25 degrees (0.25000002, {WHOLE}) in EPSG:4326: every band average of 6 x 6 pixels",
            None,
        ),
        (["--grid", "finest"], "0.04166667 degrees in EPSG:4326: every band as it is", None),
        (["--grid", "10000", "--grid-crs", "utm"], "10000 in EPSG:32613: every band warped by nearest", None),
    ],
)
def test_a_grid_in_degrees_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], grid: str, warning: str | None
) -> None:
    """Who writes 10 means metres more often than pixels as wide as a country."""
    pixels = np.ones((480, 480), "float32")
    file = write_image(
        tmp_path / "0.tif", pixels, west=-115, north=45, size=0.04166667, crs="EPSG:4326", nodata=None
    )
    listed = tmp_path / "list.txt"
    listed.write_text(f"{file}\n")
    asked = [str(listed), "--bbox=-109.1,36.9,-101.9,41.1", *asked]

    assert status_of(["plan", "--sources", *asked]) == 0
    planned = capsys.readouterr().out.splitlines()
    assert next(each for each in planned if each.startswith("grid ")) == f"{'grid':<14} pixels of {grid}"
    if warning is None:
        assert not any("counts in degrees" in each for each in planned)
        return
    assert f"{'warning':<14} {warning}" in planned
    assert status_of(["run", "--sources", *asked, "--no-report", "--to", str(tmp_path / "cube")]) == 0
    assert warning in capsys.readouterr().out
