"""A cube as a STAC item: what it says, and that pystac finds it valid.

``uv run --group stac-tools pytest tests/features/test_export_stac.py``.
"""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import zarr
from rasterio.warp import transform_bounds
from zarr.storage import MemoryStore

from pixel_gather import RequestError, export
from pixel_gather.features.export.cube_rows import CubeRows
from pixel_gather.features.export.stac_item import _band
from support.dependency_groups import module_of_group
from support.images import write_image
from support.undrawn import gather_undrawn, opened
from support.viewed_cubes import gathered_cover, gathered_valley


@pytest.fixture(scope="module")
def valley(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cube of three rows and four bands."""
    return gathered_valley(tmp_path_factory.mktemp("stac"), n_rows=3).place


def item_of(cube: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Return the item of a cube, written to a folder."""
    (file,) = export(cube, to=folder / "item.json", **options)
    told: dict[str, Any] = json.loads(file.read_text())
    return told


@pytest.mark.long
def test_item_says_where_when_and_what(valley: str) -> None:
    """Its asset is the cube, named from the item's own folder."""
    item = item_of(valley, Path(valley).parent)

    west, south, east, north = item["bbox"]
    assert (11.29 < west < east < 11.33, 46.49 < south < north < 46.52) == (True, True)
    ring = item["geometry"]["coordinates"][0]
    assert ring[0] == ring[-1]
    assert sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)) > 0
    properties = item["properties"]
    assert properties["datetime"] is None
    assert properties["start_datetime"] == "2025-01-04T00:00:00Z"
    assert properties["end_datetime"] == "2025-02-03T00:00:00Z"
    assert properties["proj:code"] == "EPSG:32632"
    assert properties["proj:shape"] == [192, 192]
    assert set(properties["cube:dimensions"]) == {"time", "x", "y"}
    assert properties["cube:dimensions"]["x"] == {
        "type": "spatial",
        "axis": "x",
        "extent": [676005.0, 677915.0],
        "reference_system": 32632,
    }
    assert properties["cube:variables"]["nir"] == {"type": "data", "dimensions": ["time", "y", "x"]}
    asset = item["assets"]["cube"]
    assert (asset["href"], asset["type"]) == ("./valley.zarr", "application/vnd.zarr; version=3")
    assert {"name": "red", "data_type": "uint16", "nodata": 65535} in asset["bands"]


def test_item_names_the_chosen_measurements_and_rows(valley: str, tmp_path: Path) -> None:
    """One row has one time."""
    item = item_of(valley, tmp_path, measurements=["red"], where="time > 2025-01-20")

    assert item["properties"]["datetime"] == "2025-02-03T00:00:00Z"
    assert list(item["properties"]["cube:variables"]) == ["red"]


def test_bands_of_an_axis_are_a_dimension(tmp_path: Path) -> None:
    """The item names the arrays that its asset has."""
    valley = gathered_valley(tmp_path, n_rows=2, output={"bands": "axis"}).place

    item = item_of(valley, tmp_path, measurements=["red"])

    properties, cube = item["properties"], opened(Path(valley))
    told = {name: each["dimensions"] for name, each in properties["cube:variables"].items()}
    assert told == {"bands": list(cube["bands"].dims)}
    assert set(told["bands"]) == properties["cube:dimensions"].keys()
    assert properties["cube:dimensions"]["band"] == {"type": "bands", "values": cube["band"].values.tolist()}
    assert [each["name"] for each in item["assets"]["cube"]["bands"]] == ["red"]


def test_box_across_the_180th_meridian_is_west_of_itself(valley: str, tmp_path: Path) -> None:
    """As GeoJSON wants it. The ring goes on beyond 180 degrees."""
    cube = Path(shutil.copytree(valley, tmp_path / "far.zarr"))
    root = json.loads((cube / "zarr.json").read_text())
    told = json.loads(root["attributes"]["pixel_gather"])
    told["footprints"]["window"] = [[179.5, -17], [180.5, -17], [180.5, -16], [179.5, -16]]
    root["attributes"]["pixel_gather"] = json.dumps(told)
    (cube / "zarr.json").write_text(json.dumps(root))

    assert item_of(str(cube), tmp_path)["bbox"] == [179.5, -17, -179.5, -16]


def test_item_of_rows_at_several_places_has_all_of_them(tmp_path: Path) -> None:
    """Windows in pixels lie elsewhere in every source. Rows that an append has added are among them."""
    place, files = tmp_path / "cube.zarr", []
    for n, west in enumerate((500_000, 500_000, 600_000, 700_000)):
        pixels = np.ones((16, 16), dtype="uint16")
        files.append(write_image(tmp_path / f"_2024010{n + 1}.tif", pixels, west=west))

    request: dict[str, Any] = {"window": {"pixels": [0, 0, 16, 16]}}
    first, later = ({"hrefs": some, "time": "_%Y%m%d"} for some in (files[:3], files[3:]))
    gather_undrawn(request | {"sources": first}, to=place)
    gather_undrawn(request | {"sources": later, "output": {"append_to": place}})
    boxes = []
    for file in files:
        with rasterio.open(file) as opened:
            boxes.append(transform_bounds(opened.crs, "EPSG:4326", *opened.bounds))

    item = item_of(str(place), tmp_path)

    wests, souths, easts, norths = zip(*boxes, strict=True)
    around = [min(wests), min(souths), max(easts), max(norths)]
    np.testing.assert_allclose(item["bbox"], around, atol=1e-4)
    assert (item["geometry"]["type"], len(item["geometry"]["coordinates"])) == ("MultiPolygon", 3)
    some = item_of(str(place), tmp_path, where="time >= 2024-01-04")
    np.testing.assert_allclose(some["bbox"], boxes[3], atol=1e-4)


def test_a_cube_without_times_is_refused(tmp_path: Path) -> None:
    """An item without a time is none."""
    with pytest.raises(RequestError, match="a STAC item needs a time"):
        export(gathered_cover(tmp_path).place, to=tmp_path / "item.json")


def test_item_is_valid_by_pystac(valley: str, tmp_path: Path) -> None:
    """By the schema of items, which pystac has with it. It reads the extensions."""
    pystac = module_of_group("pystac", "stac-tools")
    from pystac.extensions.datacube import DatacubeExtension  # noqa: PLC0415 # of the group
    from pystac.extensions.projection import ProjectionExtension  # noqa: PLC0415 # of the group
    from pystac.validation.local_validator import LocalValidator  # noqa: PLC0415 # of the group

    told = item_of(valley, tmp_path)

    assert list(LocalValidator().item_validator(told["stac_version"]).iter_errors(told)) == []
    item = pystac.Item.from_dict(told)
    assert list(DatacubeExtension.ext(item).variables) == ["red", "green", "blue", "nir"]
    assert ProjectionExtension.ext(item).epsg == 32632


def test_band_says_nodata_unit_scale_and_classes() -> None:
    """As the attributes of the array do, or its fill value alone, if it is NaN: a text, as JSON has none."""
    group = zarr.create_group(MemoryStore())
    said: dict[str, Any] = {
        "flag_values": [1, 2],
        "flag_meanings": "wet_snow class_2",
        "flag_colors": "#0000ff -",
    }
    scaled: dict[str, Any] = {"scale_factor": 0.5, "add_offset": 1.0, "units": "m", "_FillValue": -1}
    kind: dict[str, Any] = {**said, **scaled}
    group.create_array("kind", shape=(1, 2, 2), dtype="int16", fill_value=-1, attributes=kind)
    group.create_array("depth", shape=(1, 2, 2), dtype="float32", fill_value=np.nan)
    group.create_array("wave", shape=(1, 2, 2), dtype="complex64", fill_value=np.nan)
    rows = CubeRows(group=group, rows=np.array([0]), measurements=("kind", "depth", "wave"))

    assert _band(rows, "wave") == {"name": "wave", "data_type": "complex64", "nodata": "nan"}
    assert _band(rows, "depth") == {"name": "depth", "data_type": "float32", "nodata": "nan"}
    assert _band(rows, "kind") == {
        "name": "kind",
        "data_type": "int16",
        "nodata": -1,
        "unit": "m",
        "raster:scale": 0.5,
        "raster:offset": 1.0,
        "classification:classes": [
            {"value": 1, "name": "class_1", "title": "wet snow", "color_hint": "0000FF"},
            {"value": 2, "name": "class_2"},
        ],
    }
