"""Cubes of rows that are reduced of many scenes, whose scenes are read again."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from pixel_gather import Drift, Replayed, RequestError, Settings, StoreError, make_plan, replay
from support.images import write_image
from support.undrawn import gather_undrawn

SIDE = 40
N_SCENES = 12
IN_STRIPS = {"layout": {"chunk": [1, 16, 16]}}


def listed(folder: Path) -> dict[str, Any]:
    """Write scenes of three months, with classes. One is no image."""
    random, rows = np.random.default_rng(5), []
    for at in range(N_SCENES):
        red = random.integers(1, 9000, (SIDE, SIDE)).astype("uint16")
        scl = random.integers(1, 6, (SIDE, SIDE)).astype("uint8")
        told = {"scene": f"s{at}", "time": f"2024-0{1 + at % 3}-{1 + at:02}", "cloud": float(at % 4)}
        for band, pixels in (("red", red), ("scl", scl)):
            rows.append({"href": write_image(folder / f"{band}-{at:02}.tif", pixels), "band": band} | told)
    (folder / "red-04.tif").write_bytes(b"no image")
    return {"rows": rows}


def requested(folder: Path, **further: Any) -> dict[str, Any]:
    """Return a request for the medians of the months."""
    return {
        "sources": listed(folder),
        "window": {"pixels": [0, 0, SIDE, SIDE]},
        "mask": {"band": "scl", "drop": [3]},
        "reduce": {"by": "month", "statistic": "median"},
    } | further


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Return a cube of medians."""
    gather_undrawn(requested(tmp_path), to=tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


def replace_pixels(file: Path, value: int) -> None:
    """Write a scene whose pixels all have one value."""
    write_image(file, np.full((SIDE, SIDE), value, "uint16"))


def told(found: Replayed) -> dict[str, Drift]:
    """Return the drift of each file by its name."""
    return {Path(each.href).stem: each.drift for each in found.drifted}


@pytest.mark.long
@pytest.mark.parametrize(
    "further",
    [
        {},
        {"reduce": {"by": "month", "statistic": "first", "order": "cloud"}},
        {"reduce": {"by": "month", "statistic": "p10"}, "values": "scaled"},
        {"mask": None, "reduce": {"by": "month", "statistic": "count"}, "output": IN_STRIPS},
        {"output": {"codec": "blosc-zstd", "sharding": False}},
        {"output": {"bands": "axis"}},
    ],
    ids=["median", "mosaic by a column", "scaled", "strips", "no shards", "an axis of bands"],
)
def test_scenes_that_nobody_changed_are_the_same(further: dict[str, Any], tmp_path: Path) -> None:
    """All scenes of all rows are told, and each row is reduced again to the pixels that it has."""
    request = requested(tmp_path, **further)
    if request["mask"] is None:
        del request["mask"]
        request["sources"] = {"rows": [each for each in request["sources"]["rows"] if each["band"] == "red"]}
    small = Settings(max_task_nbytes=12_000) if request.get("output") == IN_STRIPS else Settings()
    if request.get("output") == IN_STRIPS:
        assert make_plan(request, settings=small).n_strips > 1
    gather_undrawn(request, to=tmp_path / "cube.zarr", settings=small)

    found = replay(tmp_path / "cube.zarr")

    assert found.is_same, found.to_json()
    assert found.counts == {Drift.SAME: len(request["sources"]["rows"])}


def test_each_change_of_a_scene_is_told_by_its_row(cube: Path) -> None:
    """A scene of the same version is not why its row differs. A replaced one is as its row is."""
    folder = cube.parent
    replace_pixels(folder / "red-00.tif", 5000)  # of the first row, with 03, 06 and 09
    (folder / "red-01.tif").unlink()  # of the second one
    replace_pixels(folder / "red-04.tif", 7)
    content = (folder / "red-02.tif").read_bytes()  # of the third
    (folder / "red-02.tif").unlink()
    (folder / "red-02.tif").write_bytes(content)

    found = replay(cube)
    versions = replay(cube, headers_only=True)

    assert told(found) == {
        "red-00": Drift.PIXELS_DIFFER,
        "red-01": Drift.GONE,
        "red-04": Drift.READ_NOW,
        "red-02": Drift.ETAG_CHANGED,
    }
    assert [each.row for each in found.drifted] == [0, 1, 1, 2]
    assert found.counts[Drift.SAME] == 2 * N_SCENES - 4
    assert told(versions) == {
        "red-00": Drift.ETAG_CHANGED,
        "red-01": Drift.GONE,
        "red-04": Drift.UNKNOWN,
        "red-02": Drift.ETAG_CHANGED,
    }


def test_a_row_differs_if_one_of_its_bands_does(tmp_path: Path) -> None:
    """Two scenes of two bands are no scene for each band."""
    scenes = np.random.default_rng(2).integers(1, 9000, (2, 2, SIDE, SIDE)).astype("uint16")
    rows = [
        {"href": write_image(tmp_path / f"{at}.tif", scene), "time": f"2024-01-{at + 1:02}"}
        for at, scene in enumerate(scenes)
    ]
    request = {"sources": {"rows": rows}, "window": "centre", "reduce": {"by": "month", "statistic": "mean"}}
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    scenes[0, 1] += 1
    write_image(tmp_path / "0.tif", scenes[0])

    assert told(replay(tmp_path / "cube.zarr")) == {"0": Drift.PIXELS_DIFFER}


def test_a_row_that_differs_though_no_scene_has_changed_is_told(cube: Path) -> None:
    """Then the cube is damaged, or was made otherwise. Here other pixels were put back with their time."""
    file = cube.parent / "red-00.tif"
    before = file.stat()
    with rasterio.open(file, "r+") as opened:
        opened.write(np.full((1, SIDE, SIDE), 8999, "uint16"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size

    found = replay(cube)

    assert not found.is_same
    assert found.counts == {Drift.SAME: 2 * N_SCENES}
    (remark,) = found.remarks
    assert remark.startswith("row 0 has other pixels than its sources, of which none has changed")


@pytest.mark.long
def test_rows_that_were_added_and_tried_again_are_replayed(tmp_path: Path) -> None:
    """What a try has put into a row counts, and so do months that came later."""
    request = requested(tmp_path)
    rows = request["sources"]["rows"]
    early = {"rows": [each for each in rows if not each["time"].startswith("2024-03")]}
    gather_undrawn(request | {"sources": early}, to=tmp_path / "cube.zarr")
    replace_pixels(tmp_path / "red-04.tif", 7)
    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube.zarr")}})
    receipt = json.loads((tmp_path / "cube.zarr/receipt.json").read_text())
    assert receipt["appends"][0]["n_retried"] == 1

    found = replay(tmp_path / "cube.zarr")

    assert found.is_same, found.to_json()
    assert found.counts == {Drift.SAME: 2 * N_SCENES}


def test_what_cannot_be_replayed_says_why(cube: Path, tmp_path: Path) -> None:
    """A new cube needs columns of the list that the cube does not hold. Scenes are known by their table."""
    with pytest.raises(RequestError, match="reduced of many scenes: gather its request again") as refused:
        replay(cube, tmp_path / "new.zarr")
    assert refused.value.field == "to"

    (cube / "contributors.parquet").write_bytes(b"other")
    with pytest.raises(StoreError, match=r"contributors\.parquet is damaged"):
        replay(cube)
    (cube / "contributors.parquet").unlink()
    with pytest.raises(StoreError, match=r"contributors\.parquet cannot be read"):
        replay(cube)
