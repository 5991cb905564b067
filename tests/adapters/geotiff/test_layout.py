"""Odd tags of tiles and texts, as a hostile file may have them."""

import struct
from pathlib import Path

import pytest

from adapters.geotiff.small_tiffs import geotiff, noise, opened, tiff
from pixel_gather.adapters.geotiff.tags import Tag
from pixel_gather.adapters.geotiff.tile_reads import plan_whole_tiles
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError
from pixel_gather.model.window import Window

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

TILED = {"tiled": True, "blockxsize": 16, "blockysize": 16}
WHOLE = Window(col_off=0, row_off=0, width=20, height=20)


def with_tag(content: bytes, tag: Tag, value: int) -> bytes:
    """Return a little-endian TIFF whose first directory has another value of a tag with one value."""
    (start,) = struct.unpack_from("<I", content, 4)
    (n_entries,) = struct.unpack_from("<H", content, start)
    for at in range(start + 2, start + 2 + 12 * n_entries, 12):
        number, kind, count = struct.unpack_from("<HHI", content, at)
        if number == tag:
            assert (kind, count) in ((3, 1), (4, 1))
            return content[: at + 8] + struct.pack("<I", value) + content[at + 12 :]
    raise LookupError(tag)


@pytest.mark.parametrize("tag", [Tag.TILE_WIDTH, Tag.TILE_LENGTH])
def test_tiles_without_pixels_are_refused(tmp_path: Path, tag: Tag) -> None:
    """Nothing is divided by their size."""
    content = geotiff(tmp_path / "a.tif", noise((1, 20, 20), "int16"), compress="deflate", **TILED)

    with pytest.raises(UnsupportedError, match="tiles without pixels"):
        opened(with_tag(content, tag, 0))


def test_whole_tiles_are_all_tiles_of_the_window(tmp_path: Path) -> None:
    """A tile that is longer than allowed is refused."""
    source = opened(geotiff(tmp_path / "a.tif", noise((1, 20, 20), "int16"), compress="deflate", **TILED))

    reads = plan_whole_tiles(source.ifd, source.layout, WHOLE, [1], max_tile_nbytes=10_000)

    assert len(reads) == 4
    longest = max(each.stop - each.start for each in reads)
    with pytest.raises(UnsupportedError, match="size limit"):
        plan_whole_tiles(source.ifd, source.layout, WHOLE, [1], max_tile_nbytes=longest - 1)


def test_text_of_one_character_is_read(tmp_path: Path) -> None:
    """A nodata of one digit without a closing NUL is one."""
    nodata = (int(Tag.GDAL_NODATA), "s", 1, "7", True)
    source = opened(tiff(tmp_path / "a.tif", noise((20, 20), "int16"), nodata))

    assert source.header.nodata == 7


def test_resampling_of_overviews_is_named(tmp_path: Path) -> None:
    """GDAL writes how it made them."""
    text = '<GDALMetadata><Item name="OVERVIEW_RESAMPLING"> average </Item></GDALMetadata>\0'
    metadata = (int(Tag.GDAL_METADATA), "s", len(text), text, True)
    plain = tiff(tmp_path / "b.tif", noise((20, 20), "int16"))

    assert (
        opened(tiff(tmp_path / "a.tif", noise((20, 20), "int16"), metadata)).overview_resampling()
        == "AVERAGE"
    )
    assert opened(plain).overview_resampling() is None
