"""Files of several bands: told apart by their names, in ``ls``, ``run``, ``plan`` and ``catalog``."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import xarray as xr

from support.command_line import run, succeed

SERIES = Path(__file__).parents[1] / "data/series/files"
LANDSAT = SERIES / "gdalcubes"
"""Bands 2, 4 and 5 of eight scenes."""

PIXELS = ("--pixels", "0,0,4,4")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two bands at three times, with names that no product has."""
    folder = tmp_path_factory.mktemp("named")
    images = sorted(LANDSAT.glob("*.TIF"))
    for n, image in enumerate(images[:6]):
        shutil.copy(image, folder / f"2024-01-0{n // 2 + 1}_{('nir', 'red')[n % 2]}.tif")
    return folder


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the warnings of the plan that was printed."""
    return list(json.loads(capsys.readouterr().out)["warnings"])


def test_bands_in_names_become_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of a scene share a row, whose time is in their names, too."""
    code = run(
        "run", "--prefix", LANDSAT, "--band", "auto", *PIXELS, "--to", tmp_path / "cube", "--no-report"
    )

    cube = xr.open_zarr(tmp_path / "cube")
    assert code == 0
    assert "another" not in capsys.readouterr().err
    assert {"B2", "B4"} <= set(cube.data_vars)
    assert cube.B4.dims == ("time", "y", "x")
    assert cube.sizes["time"] == len(set(cube.scene.values)) == 8
    assert str(cube.time.values[0])[:10] == "2018-01-31"
    assert cube.scene.values[0] == "LC08_L1TP_013032_20180131"


def test_mixed_bands_are_told_before_a_pixel_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says what would put them together."""
    assert run("plan", "--prefix", LANDSAT, *PIXELS, "--json") == 0
    told = [each for each in warnings(capsys) if "several bands (B2, B4, B5)" in each]

    assert len(told) == 1
    assert "run) auto" in told[0]


def test_equal_times_are_told_with_the_pattern_for_bands(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pattern is right: with it, nothing is told, and the cube has two arrays."""
    request = ("plan", "--prefix", named, "--time", "/%Y-%m-%d", *PIXELS, "--json")
    succeed(*request)
    told = [each for each in warnings(capsys) if "have the time of another" in each]
    pattern = r"_(nir|red)\."
    succeed(*request, "--band", pattern)
    plan = json.loads(capsys.readouterr().out)

    assert len(told) == 1
    assert told[0].startswith("6 of 6 files")
    assert f"run) '{pattern}'" in told[0]
    assert not any("time of another" in each for each in plan["warnings"])
    assert plan["shape"][0] == 3
    assert [each["name"] for each in plan["measurements"]] == ["nir", "red"]


def test_tables_warn_of_equal_times_as_other_commands_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, without the second file's folders, and without arrays, which a table has not."""
    demo = SERIES.parents[1] / "demo"
    code = run(
        *("points", demo / "plots.csv", "--sources", demo / "sources.csv", "--id", "plot_id"),
        *("--to", tmp_path / "plots.parquet", "--quiet"),
    )

    (said,) = capsys.readouterr().err.splitlines()
    assert code == 0
    assert said.startswith("warning: 2 of 5 files have the time of another: file:///")
    assert "-grd-prelim-01.tif and prcp-202201-grd-scaled-01.tif. " in said
    assert "array" not in said


def test_bands_without_a_time_are_told(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red and nir are rows of one array, unless somebody says so."""
    for n, image in enumerate(sorted(named.iterdir())[:4]):
        (tmp_path / f"{'ab'[n // 2]}_{('nir', 'red')[n % 2]}.tif").symlink_to(image)
    succeed("ls", tmp_path)
    listed = capsys.readouterr().err
    request = ("plan", "--prefix", tmp_path, *PIXELS, "--json")
    succeed(*request)
    told = [each for each in warnings(capsys) if "several bands (nir, red)" in each]
    pattern = r"_(nir|red)\."
    succeed(*request, "--band", pattern)
    plan = json.loads(capsys.readouterr().out)

    assert f"run) '{pattern}'" in listed
    assert len(told) == 1
    assert f"run) '{pattern}'" in told[0]
    assert not any("several bands" in each for each in plan["warnings"])
    assert plan["shape"][0] == 2
    assert [each["name"] for each in plan["measurements"]] == ["nir", "red"]


def test_ls_gives_bands_to_a_list(named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its list makes a cube of two arrays. Without the option, it says what is repeated."""
    assert run("ls", named, "--time", "/%Y-%m-%d") == 0
    without = capsys.readouterr()
    assert run("ls", named, "--time", "/%Y-%m-%d", "--band", r"_(\w+)\.tif") == 0
    told = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(told.out)))
    (tmp_path / "list.csv").write_text(told.out)
    succeed("plan", "--sources", tmp_path / "list.csv", *PIXELS, "--json")
    plan = json.loads(capsys.readouterr().out)

    assert without.out.startswith("href,time\n")
    assert "6 of 6 files have the time of another" in without.err
    assert r"'_(nir|red)\.'" in without.err
    assert list(rows[0]) == ["href", "time", "band", "scene"]
    assert [row["band"] for row in rows] == ["nir", "red"] * 3
    assert len({row["scene"] for row in rows}) == 3
    assert told.err == ""
    assert plan["shape"][0] == 3


def test_ls_tells_of_products_and_of_files_without_a_band(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times come by themselves."""
    for name in ("LC08_L1TP_013032_20181201_B2.TIF", "LC08_L1TP_013032_20181201_B4.TIF"):
        (tmp_path / name).touch()
    succeed("ls", tmp_path)
    without = capsys.readouterr()
    (tmp_path / "LC08_L1TP_013032_20181201_MTL.txt").touch()
    succeed("ls", tmp_path, "--band", "auto", "--json")
    told = capsys.readouterr()

    assert "2018-12-01T00:00:00Z" in without.out
    assert "several bands (B2, B4)" in without.err
    assert [json.loads(line)["band"] for line in told.out.splitlines()] == ["B2", "B4", None]
    assert "1 of 3 hrefs contain no band" in told.err


def test_files_of_one_scene_become_one_scene_of_a_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search returns its bands as assets. Without the option, bands are scenes by themselves, and told."""
    place = tmp_path / "c.parquet"
    assert run("catalog", "--prefix", LANDSAT, "--to", place, "--json") == 0
    told = capsys.readouterr()
    assert run("catalog", "--prefix", LANDSAT, "--band", "auto", "--to", place, "--json") == 0
    made = capsys.readouterr()
    assert run("search", "--catalog", place, "--assets", "B2,B4") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    assert json.loads(told.out)["n_scenes"] == 24
    assert "several bands (B2, B4, B5)" in told.err
    assert json.loads(made.out)["n_scenes"] == 8
    assert "several bands" not in made.err
    assert [row["band"] for row in rows].count("B4") == 8
    assert len(rows) == 16


def test_a_file_without_a_band_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is guessed: a cube has a band for every file or for none."""
    (tmp_path / "LC08_L1TP_013032_20181201_B2.TIF").symlink_to(next(LANDSAT.glob("*B2.TIF")))
    (tmp_path / "other.tif").symlink_to(next(LANDSAT.glob("*B2.TIF")))

    assert run("plan", "--prefix", tmp_path, "--band", "auto", *PIXELS) == 2
    said = capsys.readouterr().err
    assert "--band: 'auto' finds no band in" in said
    assert "other.tif" in said
