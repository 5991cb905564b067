"""Failed rows of a cube on disk are read again: by appends, by `retry_failed`, and by the command line."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from pixel_gather import compact, gather, open_cube, retry_failed, verify, versions
from pixel_gather.core.errors import RequestError
from pixel_gather.in_process.settings import Settings
from pixel_gather_cli.main import command

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
QUIET = Settings(draws_report=False)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return files of which the second one is hidden."""
    found = [Path(shutil.copy(each, tmp_path)) for each in sorted(SERIES.glob("*.tif"))[:4]]
    found[1].rename(tmp_path / "hidden")
    return found


@pytest.fixture
def cube(tmp_path: Path, files: list[Path]) -> Path:
    """Return a cube of three rows. The second one has failed."""
    gather(request(*files[:3]), to=tmp_path / "cube.zarr", settings=QUIET)
    (tmp_path / "hidden").rename(files[1])
    return tmp_path / "cube.zarr"


def request(*files: Path, **more: object) -> dict[str, object]:
    """Return a request for small windows."""
    return {"sources": files, "window": {"pixels": [160, 70, 40, 30]}} | more


def test_a_retry_asks_hosts_no_more_often_than_its_request(tmp_path: Path, files: list[Path]) -> None:
    """Its other limits are of a plan that was agreed to."""
    pace = {"requests_per_s": {"https://host.example.org": 5.0}}
    place = tmp_path / "cube.zarr"
    gather(request(*files[:3], limits=pace | {"usd": 1}), to=place, settings=QUIET)
    (tmp_path / "hidden").rename(files[1])

    retry_failed(place, settings=QUIET)

    (append,) = json.loads((place / "receipt.json").read_text())["appends"]
    assert append["request"]["limits"] == pace


@pytest.mark.parametrize("more", [{}, {"values": "raw"}])
def test_an_append_reads_what_has_come_back(cube: Path, files: list[Path], more: dict[str, str]) -> None:
    """It says how many sources it has tried again, and how many it has read."""
    gathered = gather(request(files[3], output={"append_to": cube}, **more), settings=QUIET)

    assert (gathered.n_appended, gathered.n_retried, gathered.n_recovered) == (1, 1, 1)
    assert open_cube(cube)["status"].values.tolist() == [0] * 4
    assert gathered.report.n_failed == 0
    assert verify(cube).is_same


@pytest.mark.long
@pytest.mark.parametrize(
    "first",
    [
        {"nodata": -999},
        {"values": "scaled"},
        {"grid": {"resolution": 2.0, "resampling": "nearest"}},
        {"grid": {"crs": "EPSG:4326", "resolution": 2.0, "resampling": "bilinear"}},
    ],
    ids=str,
)
def test_an_append_that_leaves_out_what_the_cube_keeps_reads_what_has_come_back(
    tmp_path: Path, files: list[Path], first: dict[str, object]
) -> None:
    """Its pixels are those of a cube that was gathered when all was there."""
    box = {"window": {"bbox": [-170, -20, -150, 0]}}
    gather(request(*files[:3], **first | box), to=tmp_path / "cube.zarr", settings=QUIET)
    (tmp_path / "hidden").rename(files[1])

    append = request(files[3], output={"append_to": tmp_path / "cube.zarr"}, **box)
    gathered = gather(append, settings=QUIET)

    assert (gathered.n_appended, gathered.n_retried, gathered.n_recovered) == (1, 1, 1)
    whole = gather(request(*files, **first | box), to=tmp_path / "whole.zarr", settings=QUIET)
    assert whole.report.digest == gathered.report.digest


def test_a_plan_tells_what_is_tried_again(cube: Path, files: list[Path]) -> None:
    """Beside new sources, or alone."""
    listed = cube.with_name("list.txt")

    def plan(*some: Path) -> str:
        listed.write_text("\n".join(map(str, some)))
        asked = ["plan", "--sources", str(listed), "--pixels", "160,70,40,30", "--append-to", str(cube)]
        return CliRunner().invoke(command, asked).output

    one, both = plan(*files[:3]), plan(*files)

    assert "3 x 30 x 40 (source, y, x), 0 new rows, 4.8 kB to decode" in one
    assert "4 x 30 x 40 (source, y, x), 1 new row, 4.8 kB to decode" in both
    assert " of 1 failed source in " in one
    assert "gather by run --append-to PLACE" in one
    assert " of 1 source and 1 failed source in " in both


def test_all_failed_sources_are_read_again_without_a_list(
    cube: Path, tmp_path: Path, files: list[Path]
) -> None:
    """The cube is then as one that was gathered when all was there."""
    gathered = retry_failed(cube, settings=QUIET)

    assert gathered is not None
    assert (gathered.n_appended, gathered.n_retried, gathered.n_recovered) == (0, 1, 1)
    whole = gather(request(*files[:3]), to=tmp_path / "whole.zarr", settings=QUIET)
    assert whole.report.digest == gathered.report.digest
    np.testing.assert_array_equal(open_cube(cube)["band_1"], whole.open()["band_1"])
    assert [each.kind for each in versions(cube)] == ["gather", "retry"]
    assert retry_failed(cube, settings=QUIET) is None


def test_each_row_is_read_as_its_own_request_says(cube: Path, files: list[Path]) -> None:
    """Rows of another request than the first are tried in a version of their own."""
    files[3].rename(files[3].with_name("hidden"))
    more = {"output": {"append_to": cube}, "failed_rows": "keep", "masked": True}
    with pytest.raises(RequestError):
        gather(request(files[3], **more), settings=QUIET)
    gather(request(files[0], files[3], duplicates="again", output={"append_to": cube}), settings=QUIET)
    assert open_cube(cube)["status"].values.tolist() == [0, 0, 0, 0, 2]
    files[3].with_name("hidden").rename(files[3])

    assert retry_failed(cube, settings=QUIET) is not None

    assert open_cube(cube)["status"].values.tolist() == [0] * 5


@pytest.mark.long
def test_the_command_line_reads_failed_sources_again(cube: Path, files: list[Path]) -> None:
    """It says how many were read, and how many are left."""
    away = files[1].rename(cube.with_name("hidden"))
    ended = CliRunner().invoke(command, ["retry", str(cube), "--quiet"], standalone_mode=False)
    away.rename(files[1])
    assert ended.output == "0 of 1 failed source could be read now; 1 is left\n"
    ended = CliRunner().invoke(command, ["retry", str(cube), "--quiet"], standalone_mode=False)

    assert ended.output == "1 of 1 failed source could be read now; 0 are left\n"
    assert ended.return_value == 0
    ended = CliRunner().invoke(command, ["retry", str(cube), "--quiet", "--json"], standalone_mode=False)
    assert json.loads(ended.output) == {"cube": str(cube), "retried": 0, "recovered": 0}
    ended = CliRunner().invoke(command, ["versions", str(cube)], standalone_mode=False)
    assert "retry, 1 of 1 failed sources read," in ended.output


@pytest.mark.long
def test_windows_in_strips_grow_and_are_tried_again(tmp_path: Path, files: list[Path]) -> None:
    """The last shards of each strip are continued. The cube is then as one that was gathered at once."""
    settings = Settings(draws_report=False, max_task_nbytes=2 * 10 * 40 * 4)  # two rows of ten lines
    layout = {"layout": {"chunk": [1, 10, 40], "shard_rows": 2}, "expected_rows": 4}
    cube = tmp_path / "cube.zarr"
    first = gather(request(*files[:3], output=layout), to=cube, settings=settings)
    (tmp_path / "hidden").rename(files[1])

    gathered = gather(request(files[3], output={"append_to": cube}), settings=settings)

    assert (first.report.n_shards, gathered.report.n_shards) == (6, 6)
    assert (gathered.n_appended, gathered.n_recovered, gathered.report.n_failed) == (1, 1, 0)
    whole = gather(request(*files, output=layout), to=tmp_path / "whole.zarr", settings=settings)
    np.testing.assert_array_equal(open_cube(cube)["band_1"], whole.open()["band_1"])
    assert gathered.report.digest == whole.report.digest
    receipts = [json.loads((each / "receipt.json").read_text()) for each in (cube, tmp_path / "whole.zarr")]
    assert receipts[0]["shards"] == receipts[1]["shards"]
    assert verify(cube).is_same
    assert compact(cube).n_shards == 6
    np.testing.assert_array_equal(open_cube(cube)["band_1"], whole.open()["band_1"])
    assert verify(cube).is_same


def test_pixels_of_an_unfinished_try_in_a_strip_are_no_damage(tmp_path: Path, files: list[Path]) -> None:
    """But those of a row that was read are."""
    settings = Settings(draws_report=False, max_task_nbytes=10 * 40 * 4)
    cube = tmp_path / "cube.zarr"
    gather(request(*files[:3], output={"layout": {"chunk": [1, 10, 40]}}), to=cube, settings=settings)
    for row, is_same in ((1, True), (0, False)):
        shutil.copy(cube / "band_1/c/2/1/0", cube / f"band_1/c/{row}/1/0")

        assert verify(cube).is_same is is_same


@pytest.mark.long
def test_pixels_of_an_unfinished_try_are_no_damage_beside_rows_that_were_read(
    tmp_path: Path, files: list[Path]
) -> None:
    """Their shard is another one in each strip. Pixels of the other row of it are damage."""
    settings = Settings(draws_report=False, max_task_nbytes=2 * 10 * 40 * 4)  # two rows of ten lines
    output = {"layout": {"chunk": [1, 10, 40], "shard_rows": 2}, "expected_rows": 4}
    gather(request(*files[1:3], output=output), to=tmp_path / "two.zarr", settings=settings)
    array: Any = zarr.open_array(tmp_path / "two.zarr/band_1", mode="r+")
    array[0, 10:20] = 5
    assert verify(tmp_path / "two.zarr").is_same
    array[1, 10:20] = 5
    assert [each.split(" ")[0] for each in verify(tmp_path / "two.zarr").differences] == ["band_1/c/0/1/0"]
