"""Cubes whose bands are an axis of one array equal rasterio's arrays, and every reader knows them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr

from pixel_gather import Settings, export, join, make_plan, replay, verify, versions
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.status import Status
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.in_process.places import open_existing
from support.images import write_image
from support.resolutions import scenes
from support.undrawn import gather_undrawn, opened

type Pixels = np.ndarray[Any, np.dtype[Any]]

N_BANDS = 5
SIDE = 96
WINDOW = {"pixels": [10, 20, 60, 50]}
AXIS = {"bands": "axis", "layout": {"chunk": [2, 32, 32], "shard_rows": 4}}


def write_year(folder: Path, year: int, *, interleave: str = "pixel", nodata: float | None = -128) -> Path:
    """Write a file of embeddings: several bands of bytes, some of whose pixels are missing."""
    random = np.random.default_rng(year)
    pixels = random.integers(-127, 127, (N_BANDS, SIDE, SIDE)).astype("int8")
    pixels[:, random.random((SIDE, SIDE)) < 0.1] = -128
    file = folder / f"embedding_{year}.tif"
    tiling: dict[str, Any] = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": "deflate"}
    write_image(file, pixels, interleave=interleave, nodata=nodata, **tiling)
    return file


def years(folder: Path, *numbers: int, interleave: str = "pixel") -> dict[str, Any]:
    """Write files of some years, and return the sources of a request for them."""
    files = [(year, write_year(folder, year, interleave=interleave)) for year in numbers]
    return {"rows": [{"href": str(file), "time": f"{year}-01-01"} for year, file in files]}


def window_of(href: str) -> Pixels:
    """Return the window of a file as rasterio reads it: shape (band, y, x)."""
    with rasterio.open(href) as source:
        pixels: Pixels = source.read()
    return pixels[:, 20:70, 10:70]


def objects_of(place: Path) -> list[str]:
    """Return the objects that hold pixels."""
    return sorted(str(each.relative_to(place)) for each in place.glob("bands/c/**/*") if each.is_file())


@pytest.mark.long
@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("codec", ["blosc-lz4", "zstd", "none"])
def test_bands_are_an_axis(tmp_path: Path, interleave: str, codec: str) -> None:
    """Bit for bit, in one object a shard, and no request more than with an array for each band."""
    sources = years(tmp_path, *range(2017, 2023), interleave=interleave)
    request: dict[str, Any] = {"sources": sources, "window": WINDOW}

    arrays = gather_undrawn(request | {"output": {"codec": codec}}, to=tmp_path / "arrays")
    axis = gather_undrawn(request | {"output": AXIS | {"codec": codec}}, to=tmp_path / "axis")

    cube = opened(tmp_path / "axis")
    assert cube["bands"].dims == ("time", "band", "y", "x")
    assert cube["band"].values.tolist() == [f"band_{band}" for band in range(1, N_BANDS + 1)]
    expected = np.stack([window_of(each["href"]) for each in sources["rows"]])
    np.testing.assert_array_equal(cube["bands"], expected)
    np.testing.assert_array_equal(cube.sel(band="band_3")["bands"], opened(tmp_path / "arrays")["band_3"])
    np.testing.assert_array_equal(cube["mean"], opened(tmp_path / "arrays")["mean"])
    assert cube["mean"].dims == ("time", "band")
    assert objects_of(tmp_path / "axis") == ["bands/c/0/0/0/0", "bands/c/1/0/0/0"]
    assert axis.report.requests == arrays.report.requests
    assert axis.report.digest == arrays.report.digest
    assert axis.report.shape_of_arrays == (6, N_BANDS, 50, 60)
    assert verify(tmp_path / "axis").is_same
    assert verify(tmp_path / "axis").n_compared == 2
    assert replay(tmp_path / "axis").counts == {"same": 6}


@pytest.mark.long
def test_an_axis_grows_in_shards_that_are_not_full(tmp_path: Path) -> None:
    """Rows that are added, and a failed row that is tried again, give what one gather gives."""
    sources = years(tmp_path, *range(2017, 2024))
    rows, cube = sources["rows"], tmp_path / "cube"
    lost = Path(rows[1]["href"])
    gather_undrawn({"sources": sources, "window": WINDOW, "output": AXIS}, to=tmp_path / "whole")
    away = lost.rename(lost.with_suffix(".away"))
    gather_undrawn({"sources": {"rows": rows[:3]}, "window": WINDOW, "output": AXIS}, to=cube)
    assert opened(cube)["status"].values.max(axis=-1).tolist() == [0, Status.MISSING, 0]
    away.rename(lost)

    append = {"sources": {"rows": rows[3:]}, "window": WINDOW, "output": {"append_to": str(cube)}}
    assert gather_undrawn(append).n_appended == 4

    np.testing.assert_array_equal(opened(cube)["bands"], opened(tmp_path / "whole")["bands"])
    assert not opened(cube)["status"].values.any()
    assert verify(cube).is_same
    assert [each.n_rows for each in versions(cube)] == [3, 7]
    assert objects_of(cube) == ["bands/c/0/0/0/0", "bands/c/1/0/0/0"]
    more = append | {"sources": years(tmp_path, 2024)}
    with pytest.raises(RequestError, match=r"the cube has one array bands .* would have an array for each"):
        make_plan(more | {"output": {"append_to": str(cube), "bands": "arrays"}})


@pytest.mark.long
def test_bands_of_files_of_their_own_are_an_axis(tmp_path: Path) -> None:
    """A band of a row that had failed is put into the object that has the others."""
    sources = scenes(tmp_path, 3, {"red": 10, "nir": 10})
    request = {"sources": sources, "window": {"pixels": [0, 0, 64, 64]}, "output": {"bands": "axis"}}
    gather_undrawn(request, to=tmp_path / "whole")
    lost = Path(next(each["href"] for each in sources["rows"] if each["band"] == "nir"))
    away = lost.rename(lost.with_suffix(".away"))
    gather_undrawn(request, to=tmp_path / "cube")
    before = opened(tmp_path / "cube")
    assert before["status"].values.tolist() == [[Status.OK, Status.MISSING], [0, 0], [0, 0]]
    assert not before["bands"].sel(band="nir").values[0].any()
    away.rename(lost)

    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    whole, cube = opened(tmp_path / "whole"), opened(tmp_path / "cube")
    np.testing.assert_array_equal(cube["bands"], whole["bands"])
    assert cube["band"].values.tolist() == ["red", "nir"]
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
def test_readers_know_bands_of_an_axis_by_their_names(tmp_path: Path) -> None:
    """Exports, the report's evidence and verification."""
    sources = years(tmp_path, 2017, 2018)
    place = tmp_path / "cube"
    gather_undrawn({"sources": sources, "window": WINDOW, "output": {"bands": "axis"}}, to=place)

    (tmp_path / "tifs").mkdir()
    export(place, to=tmp_path / "tifs" / "year.tif")
    export(place, to=tmp_path / "one.nc", measurements=["band_2"])
    export(place, to=tmp_path / "rows.csv")

    (file, _) = sorted((tmp_path / "tifs").glob("*.tif"))
    with rasterio.open(file) as tif:
        np.testing.assert_array_equal(tif.read(), window_of(sources["rows"][0]["href"]))
    with xr.open_dataset(tmp_path / "one.nc", mask_and_scale=False) as one:
        np.testing.assert_array_equal(one["band_2"][1], window_of(sources["rows"][1]["href"])[1])
    assert "mean_band_5" in (tmp_path / "rows.csv").read_text().splitlines()[0]
    store, name = open_existing(str(place), None)
    facts = dict(read_evidence(store, place=name).facts)
    assert facts["shape"] == f"2 x {N_BANDS} x 50 x 60 (time, band, y, x)"
    with next(iter(place.glob("bands/c/0/0/0/0"))).open("r+b") as damaged:
        damaged.write(b"\0" * 64)
    assert not verify(place).is_same


def test_the_price_counts_one_object_a_shard(tmp_path: Path) -> None:
    """An embedding of 64 bands would take 64."""
    request: dict[str, Any] = {"sources": years(tmp_path, 2017, 2018), "window": WINDOW}

    plans = [make_plan(request | {"output": {"bands": bands}}) for bands in ("arrays", "axis")]

    assert [len(each.arrays) for each in plans] == [N_BANDS, 1]
    fewer = plans[0].estimate.usd_by_service["s3"] - plans[1].estimate.usd_by_service["s3"]
    assert fewer == pytest.approx((N_BANDS - 1) * 0.005 / 1000)
    assert plans[1].to_json()["dims"] == ["time", "band", "y", "x"]
    assert plans[1].to_json()["shape"] == [2, N_BANDS, 50, 60]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"sources": "classes", "grid": {"resolution": "finest"}},
            "output.bands: bands along one axis have one dtype, but red has uint16 and scl uint8",
        ),
        ({"output": {"bands": "axis", "codec": "source"}}, r"leave bands \(--band-axis\) out"),
        ({"output": {"bands": "axis", "archive": "one"}}, "cannot be joined yet"),
        (
            {"window": None, "windows": {"table": "a.csv", "size": [9, 9]}},
            "windows does not go with output.bands",
        ),
    ],
)
def test_what_one_array_cannot_hold_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """In words, before a pixel is read."""
    request = {"sources": years(tmp_path, 2017), "window": WINDOW, "output": {"bands": "axis"}} | change
    if request["sources"] == "classes":
        request["sources"] = scenes(tmp_path, 1, {"red": 10, "scl": 20})

    with pytest.raises(RequestError, match=said):
        make_plan(request)


def test_cubes_with_an_axis_are_not_joined(tmp_path: Path) -> None:
    """They say why."""
    for year in (2017, 2018):
        request = {"sources": years(tmp_path, year), "window": WINDOW, "output": {"bands": "axis"}}
        gather_undrawn(request, to=tmp_path / f"cube_{year}")

    with pytest.raises(RequestError, match="has an axis of bands; only cubes with arrays"):
        join([tmp_path / "cube_2017", tmp_path / "cube_2018"], to=tmp_path / "joined")


def test_windows_in_strips_have_an_axis_too(tmp_path: Path) -> None:
    """Each strip is one object."""
    request = {"sources": years(tmp_path, 2017), "window": WINDOW, "output": AXIS}

    gather_undrawn(request, to=tmp_path / "cube", settings=Settings(max_task_nbytes=20_000))

    assert len(objects_of(tmp_path / "cube")) == 2
    cube = opened(tmp_path / "cube")
    np.testing.assert_array_equal(cube["bands"][0], window_of(request["sources"]["rows"][0]["href"]))
    assert verify(tmp_path / "cube").is_same
