"""Rows of a real cube found by their coordinates, without a pixel."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pixel_gather import RequestError, StoreError, StoreSettings, presence, rows_where
from pixel_gather.core.kept_values import KeptValues
from pixel_gather.features.rows import read_rows
from pixel_gather_cli.main import command
from support.command_line import run
from support.local_server import Answer, serving
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube whose pixels are gone."""
    folder = tmp_path_factory.mktemp("rows")
    lines = [f"{file},2021-0{n}-01,{10 * n},S2{'AB'[n % 2]}" for n, file in enumerate(FILES, start=1)]
    (folder / "list.csv").write_text("\n".join(["href,time,cloud_cover,platform", *lines]))
    request = {"sources": str(folder / "list.csv"), "window": {"pixels": [0, 0, 16, 16]}}
    gather_undrawn(request, to=folder / "cube.zarr")
    shutil.rmtree(folder / "cube.zarr/band_1/c")
    return folder / "cube.zarr"


def test_rows_are_found_without_pixels(cube: Path) -> None:
    """Their positions are those of the first axis."""
    assert rows_where(cube, "cloud_cover > 10 and platform == 'S2A'").tolist() == [1, 3]
    assert rows_where(str(cube), "time < 2021-02-01 and status == 0").tolist() == [0]
    assert rows_where(cube, "cloud_cover > 1000").tolist() == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "where: write a condition"),
        ("cloud < 2", "no coordinate 'cloud'; they have .*cloud_cover"),
        ("band_1 < 2", "no coordinate 'band_1'"),
        ("__import__('os')", "is no condition"),
        ("transform > 0", "transform is six numbers for each row"),
        (
            "cloud_cover > 1 or cloud_cover < 2",
            r"is no condition; write one such as valid_fraction>0.5, or several joined by and \(there",
        ),
    ],
)
def test_wrong_conditions_are_refused(cube: Path, where: str, said: str) -> None:
    """The message says what the cube has."""
    with pytest.raises(RequestError, match=said):
        rows_where(cube, where)


def test_place_without_a_cube_is_refused(tmp_path: Path) -> None:
    """An empty folder is none."""
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(StoreError, match="no cube is there"):
            rows_where(place, "time > 2020-01-01")
    assert list(tmp_path.iterdir()) == []


def test_columns_are_read_once_and_again_when_the_cube_has_changed(cube: Path, tmp_path: Path) -> None:
    """A version is known by the ETag of the cube's metadata."""
    own = shutil.copytree(cube, tmp_path / "own.zarr")
    assert rows_where(own, "cloud_cover > 10").tolist() == [1, 2, 3]
    shutil.rmtree(own / "cloud_cover/c")  # Zarr reads missing chunks as the fill value
    assert rows_where(own, "cloud_cover > 20").tolist() == [2, 3]

    metadata = json.loads((own / "zarr.json").read_text())
    (own / "zarr.json").write_text(json.dumps(metadata))

    assert rows_where(own, "cloud_cover > 10").tolist() == []


def test_columns_that_were_asked_last_are_kept(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are forgotten when there is no room."""
    monkeypatch.setattr(read_rows, "_kept", KeptValues(2 * 8 * len(FILES)))

    for conditions in ("time > 1970", "cloud_cover > 1", "time > 1970", "mean > 0"):
        rows_where(cube, conditions)

    assert [name for _, _, name in read_rows._kept] == ["time", "mean"]
    rows_where(cube, "href != 'a'")  # texts that do not repeat are not kept
    assert [name for _, _, name in read_rows._kept] == ["time", "mean"]


def test_presence_of_a_cube_is_shown_without_pixels(cube: Path) -> None:
    """Text and JSON have the same 1s and 0s."""
    text = CliRunner().invoke(command, ["presence", str(cube), "--by", "month,platform"])
    told = CliRunner().invoke(command, ["presence", str(cube), "--by", "platform", "--json"])

    assert text.stdout == "platform: S2A, S2B\n2021-01 01\n2021-02 10\n2021-03 01\n2021-04 10\n"
    assert text.stderr == "4 of 8 bins have 4 rows\n"
    assert json.loads(told.stdout) == {
        "names": ["platform"],
        "labels": [["S2A", "S2B"]],
        "grid": [1, 1],
        "rows": [[1, 3], [0, 2]],
        "n_left_out": 0,
    }
    assert presence(cube, "day").shape == (31 + 28 + 31 + 1,)


def test_months_in_sequence_that_are_alike_share_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left out. Values of another coordinate have a line each."""
    listed = [f"{FILES[n]},{year}-01,{name}" for n, (year, name) in enumerate([(1990, "a"), (2020, "b")])]
    (tmp_path / "list.csv").write_text("\n".join(["href,time,kind", *listed]))
    request = {"sources": {"list": str(tmp_path / "list.csv")}, "window": {"pixels": [0, 0, 8, 8]}}
    gather_undrawn(request, to=tmp_path / "c.zarr")

    assert run("presence", tmp_path / "c.zarr", "--by", "month") == 0
    assert capsys.readouterr().out == ("1990-01            1\n1990-02 to 2019-12 0\n2020-01            1\n")
    assert run("presence", tmp_path / "c.zarr", "--by", "month,kind") == 0
    assert "1990-02 to 2019-12 00\n" in capsys.readouterr().out
    assert run("presence", tmp_path / "c.zarr", "--by", "kind") == 0
    assert capsys.readouterr().out == "a 1\nb 1\n"


def test_presence_by_what_a_cube_does_not_have_is_refused(cube: Path) -> None:
    """The message names the option."""
    with pytest.raises(
        RequestError, match=r"by: the cube's rows have no coordinate 'tile'.*; day, solar-day and month"
    ):
        presence(cube, "month,tile")


def test_a_store_that_does_not_answer_is_given_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every try takes a minute, so the second question is not asked."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    with serving(lambda _: Answer(status=503)) as busy:  # it answers HEAD by 501
        stores = StoreSettings(endpoint=busy.root, region="eu-central-1", max_retries=0)
        with pytest.raises(StoreError, match="stayed busy"):
            presence("s3://bucket/cube.zarr", by="month", stores=stores)

    assert busy.asked == []


@pytest.mark.parametrize("by", [["month"], None])
def test_a_grid_by_what_is_no_text_is_refused(cube: Path, by: Any) -> None:
    """The message shows how to name several coordinates."""
    with pytest.raises(RequestError, match=r"by: it is of type \w+; write text such as day,tile"):
        presence(cube, by)


@pytest.mark.parametrize("place", [(0,), (-1, 0), (99, 0), (0.5, 0), ("2021-01", "S2A")])
def test_a_place_outside_the_grid_is_refused(cube: Path, place: tuple[Any, ...]) -> None:
    """The message has the sizes, instead of NumPy's words."""
    found = presence(cube, "month,platform")

    with pytest.raises(RequestError, match=r"is no bin; .*: month \d+, platform 2$"):
        found.rows(*place)
