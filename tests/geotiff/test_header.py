"""Headers equal those of rasterio."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from geotiff.small_tiffs import (
    LONG,
    SHORT,
    STORED_AT,
    ExtraTag,
    Tags,
    geotiff,
    handwritten,
    opened,
    pixels,
    tiff,
)
from pixel_gather.core.model.window import Transform
from pixel_gather.io.geotiff.unsupported import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

ZERO = np.zeros((16, 16), "u1")


def geo_keys(*keys: tuple[int, int]) -> ExtraTag:
    """Return the tag of GeoKeys with short values."""
    values = [1, 1, 0, len(keys)] + [part for key, value in keys for part in (key, 0, 1, value)]
    return (34735, "H", len(values), values, True)


def doubles(tag: int, *values: float) -> ExtraTag:
    """Return a tag of doubles."""
    return (tag, "d", len(values), values, True)


SCALE, TIEPOINT = doubles(33550, 10.0, 20.0, 0.0), doubles(33922, 3.0, 4.0, 0.0, 1000.0, 2000.0, 0.0)
UTM = geo_keys((1024, 1), (1025, 1), (3072, 32633), (3076, 9001))


@dataclass(frozen=True)
class Placed:
    """Tags that georeference an image, and GDAL's reading of them."""

    id: str
    tags: tuple[ExtraTag, ...]


PLACED = [
    Placed("not on the map", ()),
    Placed("scale and tiepoint", (SCALE, TIEPOINT, UTM)),
    Placed("negative scale", (doubles(33550, 10.0, -20.0, 0.0), TIEPOINT, UTM)),
    Placed("pixel is point", (SCALE, TIEPOINT, geo_keys((1024, 1), (1025, 2), (3072, 32633)))),
    Placed("geographic", (SCALE, TIEPOINT, geo_keys((1024, 2), (1025, 1), (2048, 4326), (2054, 9102)))),
    Placed("matrix", (doubles(34264, 2, 1, 0, 5, 1, -3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1), UTM)),
    Placed("two tiepoints and scale", (SCALE, doubles(33922, *range(12)), UTM)),
    Placed("control points only", (doubles(33922, *range(24)), UTM)),
    Placed("no CRS", (SCALE, TIEPOINT)),
]


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_header_places_the_image_as_rasterio_does(tmp_path: Path, case: Placed) -> None:
    """Transform and CRS are those of rasterio."""
    header = opened(tiff(tmp_path / "a.tif", ZERO, *case.tags)).header

    with rasterio.open(tmp_path / "a.tif") as expected:
        assert header.transform == (None if expected.transform.is_identity else expected.transform[:6])
        assert header.crs == (expected.crs.to_string() if expected.crs else None)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(geo_keys((1024, 1), (3072, 2225), (3076, 9001)), id="metres for a CRS in feet"),
        pytest.param(geo_keys((1024, 1), (2048, 4267), (3072, 32633)), id="another datum"),
        pytest.param(geo_keys((1024, 1), (3072, 26591)), id="a deprecated code"),
        pytest.param(geo_keys((1024, 1), (3072, 32799)), id="no such code"),
        pytest.param(geo_keys((1024, 1), (3072, 32767)), id="a CRS of its own"),
        pytest.param(geo_keys((1024, 1), (3072, 32633), (4096, 5773)), id="heights too"),
        pytest.param(geo_keys((1024, 3), (2048, 4978)), id="geocentric"),
        pytest.param((34735, "H", 3, [1, 1, 0], True), id="half a first line"),
        pytest.param((34735, "H", 6, [1, 1, 0, 9, 1024, 0], True), id="fewer keys than it says"),
    ],
)
def test_header_leaves_any_other_crs_to_gdal(tmp_path: Path, keys: ExtraTag) -> None:
    """Only a plain EPSG code is read here."""
    with pytest.raises(UnsupportedError):
        opened(tiff(tmp_path / "a.tif", ZERO, SCALE, TIEPOINT, keys))


@pytest.mark.parametrize("key", [(4096, 5773), (4099, 9002)])
def test_control_points_with_heights_are_left_to_gdal(tmp_path: Path, key: tuple[int, int]) -> None:
    """They give no CRS, but bands have the unit of the heights."""
    keys = geo_keys((1024, 2), (2048, 4326), key)

    with pytest.raises(UnsupportedError, match="heights"):
        opened(tiff(tmp_path / "a.tif", ZERO, doubles(33922, *range(24)), keys))


def test_header_has_the_nodata_of_its_tag(tmp_path: Path) -> None:
    """As a number of the image's dtype. An odd text is left to GDAL."""
    large = tiff(tmp_path / "a.tif", np.zeros((9, 9), "u8"), (42113, "s", 0, "18446744073709551615", True))

    assert opened(large).header.nodata == 2**64 - 1
    with pytest.raises(UnsupportedError):
        opened(tiff(tmp_path / "b.tif", ZERO, (42113, "s", 0, "7abc", True)))


def test_header_reads_scales_and_offsets(tmp_path: Path) -> None:
    """Each band has its own. Pixels are not scaled."""
    path = tmp_path / "a.tif"
    geotiff(path, np.zeros((3, 16, 16), "u2"), crs="EPSG:3035", transform=from_origin(4e6, 3e6, 10, 10))
    with rasterio.open(path, "r+") as target:
        target.scales, target.offsets = (0.1, 1.0, 2.5), (0.0, -3.0, 1e-7)

    header = opened(path.read_bytes()).header

    assert header.scales == (0.1, 1.0, 2.5)
    assert header.offsets == (0.0, -3.0, 1e-7)
    assert (header.crs, header.transform) == ("EPSG:3035", Transform(10, 0, 4e6, 0, -10, 3e6))


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaa">]><GDALMetadata><Item name="SCALE" sample="0" role="scale">&a;</Item>'
    "</GDALMetadata>"
)


def test_header_expands_no_entities(tmp_path: Path) -> None:
    """XML that defines entities is not parsed here."""
    with pytest.raises(UnsupportedError):
        opened(tiff(tmp_path / "a.tif", ZERO, (42112, "s", 0, BOMB, True)))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"tiled": True, "blockxsize": 32, "blockysize": 16}, id="tiles"),
        pytest.param({"blockysize": 5, "compress": "deflate"}, id="strips"),
        pytest.param({"blockysize": 200}, id="one strip, which GDAL cuts"),
        pytest.param({"blockysize": 200, "compress": "lzw"}, id="one compressed strip"),
    ],
)
def test_header_has_the_block_shape_of_rasterio(tmp_path: Path, options: dict[str, Any]) -> None:
    """Tiles have the shape of rasterio's blocks."""
    header = opened(geotiff(tmp_path / "a.tif", np.zeros((1, 200, 100), "u2"), **options)).header

    with rasterio.open(tmp_path / "a.tif") as expected:
        assert (header.tile_height, header.tile_width) == expected.block_shapes[0]


ONE: Tags = {
    256: (SHORT, (8,)), 257: (SHORT, (8,)), 258: (SHORT, (8,)), 273: (LONG, (STORED_AT,)), 278: (SHORT, (8,)),
    279: (LONG, (64,)),
}  # fmt: skip


def kind(number: int, **changes: Any) -> Tags:
    """Return the tags of a directory of this kind: 1 for an overview, 2 for a page, 4 for a mask."""
    return {254: (LONG, (number,)), **ONE, **{int(tag[1:]): value for tag, value in changes.items()}}


@pytest.mark.parametrize(
    ("others", "n_overviews", "has_mask"),
    [
        ([ONE], 0, False),
        ([kind(0)], 0, False),
        ([kind(2)], 0, False),
        ([kind(1)], 1, False),
        ([kind(3), ONE, kind(1)], 2, False),
        ([kind(4)], 0, True),
        ([kind(5), kind(1)], 1, True),
        ([kind(1), kind(6)], 1, True),
    ],
)
def test_directories_are_overviews_masks_or_others(
    others: list[Tags], n_overviews: int, *, has_mask: bool
) -> None:
    """Overviews may be as large as the image. Masks of overviews are masks. Pages are neither."""
    source = opened(handwritten(ONE, *others, stored=bytes(64)))

    assert len(asyncio.run(source.overviews())) == n_overviews
    if has_mask:
        with pytest.raises(UnsupportedError, match="a mask"):
            pixels(source, masked=True)
    else:
        assert not pixels(source, masked=True).any()


@pytest.mark.parametrize(
    "overviews",
    [
        [kind(1, t256=(SHORT, (9,)))],
        [kind(1, t257=(SHORT, (9,)), t278=(SHORT, (9,)))],
        [kind(1, t256=(SHORT, (4,))), kind(1, t256=(SHORT, (5,)))],
        [kind(1, t258=(SHORT, (16,)))],
        [kind(1, t277=(SHORT, (2,)))],
    ],
)
def test_overviews_of_other_kinds_or_sizes_are_left_to_gdal(overviews: list[Tags]) -> None:
    """Each is as large as the one before or smaller, with the same bands and dtype."""
    first = opened(handwritten(ONE, *(dict(sorted(each.items())) for each in overviews), stored=bytes(64)))

    with pytest.raises(UnsupportedError, match="other kinds or sizes"):
        asyncio.run(first.overviews())
