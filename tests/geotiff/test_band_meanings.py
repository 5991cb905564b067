"""What files say of their bands is read as GDAL reads it, and kept in packed headers and indexes."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp
from rasterio.io import MemoryFile

from geotiff.small_tiffs import SHORT, MemoryObject, geotiff, ifd_of, noise, opened, tiff
from geotiff.test_packed_header import opened as opened_again
from geotiff.test_packed_header import packed_header_of
from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.io.geotiff.band_meanings import meanings_of
from pixel_gather.io.geotiff.ifd import Tag
from pixel_gather.io.geotiff.packed_header import PackedHeader

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

FOREST, FIELD = (1, 100, 0, 255), (255, 187, 34, 255)


def colours_by_gdal(content: bytes) -> list[str | None]:
    """Return the colour of each band that GDAL reports, without grey and undefined."""
    with MemoryFile(content) as file, file.open() as dataset:
        names = [each.name for each in dataset.colorinterp]
    return [None if name in ("gray", "undefined") else name for name in names]


@pytest.mark.parametrize(
    ("n_bands", "options", "set_to"),
    [
        (1, {}, None),
        (3, {"photometric": "rgb"}, None),
        (4, {"photometric": "rgb", "alpha": "unspecified"}, None),
        (4, {"photometric": "rgb", "alpha": "yes"}, None),
        (5, {"photometric": "rgb", "alpha": "no"}, None),
        (2, {"alpha": "premultiplied"}, None),
        (1, {"photometric": "miniswhite"}, None),
        (4, {}, ("blue", "green", "red", "undefined")),
        (2, {}, ("nir", "gray")),
    ],
)
def test_colours_are_gdals(
    n_bands: int, options: dict[str, Any], set_to: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """By the photometric interpretation, by extra samples, and by GDAL's metadata, which win."""
    path = tmp_path / "a.tif"
    content = geotiff(path, noise((n_bands, 20, 20), "uint8"), **options)
    if set_to:
        with rasterio.open(path, "r+") as file:
            file.colorinterp = [ColorInterp[each] for each in set_to]
        content = path.read_bytes()

    meanings = opened(content).header.meanings

    by_gdal = colours_by_gdal(content)
    assert [each.colour for each in meanings] == (by_gdal if any(by_gdal) else [])


def test_texts_are_those_before_gdal_escaped_them(tmp_path: Path) -> None:
    """GDAL escapes units and names twice: once itself, and once as XML."""
    path = tmp_path / "a.tif"
    geotiff(path, noise((2, 20, 20), "uint8"))
    with rasterio.open(path, "r+") as file:
        file.units = ('< 5 "mg" & more', "&lt;")
        file.update_tags(1, flag_values="1, 2", flag_meanings="a<b c&d")

    meanings = opened(path.read_bytes()).header.meanings

    assert [each.unit for each in meanings] == ['< 5 "mg" & more', "&lt;"]
    assert [each.name for each in meanings[0].classes] == ["a<b", "c&d"]


@pytest.mark.parametrize("step", [257, 256, 1])
@pytest.mark.parametrize(
    "said", ["", '<Item name="COLORINTERP" sample="0" role="colorinterp">Palette</Item>']
)
def test_a_palette_gives_classes_their_colours(step: int, said: str, tmp_path: Path) -> None:
    """Entries have 16 bits, which writers fill in different ways. Black ones are left out, as unused."""
    table = np.zeros((3, 256), "uint16")
    table[:, 10], table[:, 20] = FOREST[:3], FIELD[:3]
    xml = f"<GDALMetadata>{said}</GDALMetadata>"
    content = tiff(
        tmp_path / "a.tif",
        noise((20, 20), "uint8"),
        (42112, "s", len(xml) + 1, xml, True),
        photometric="palette",
        colormap=table * np.uint16(step),
    )

    (meaning,) = opened(content).header.meanings

    assert meaning.colour == "palette"
    assert meaning.classes == (
        BandClass(value=10, colour="#016400"),
        BandClass(value=20, colour="#ffbb22"),
    )
    with MemoryFile(content) as file, file.open() as dataset:
        assert dataset.colormap(1)[10] == FOREST


def test_names_of_classes_are_those_of_cfs_attributes(tmp_path: Path) -> None:
    """Writers such as rioxarray put them into GDAL's metadata, of the file or of a band."""
    path = tmp_path / "a.tif"
    geotiff(path, noise((2, 20, 20), "uint8"))
    with rasterio.open(path, "r+") as file:
        file.update_tags(flag_values="[1 2]", flag_meanings="bare_soil open_water")
        file.update_tags(2, flag_values="0, 7", flag_meanings="clear cloud")

    one, other = opened(path.read_bytes()).header.meanings

    assert one.classes == (BandClass(value=1, name="bare soil"), BandClass(value=2, name="open water"))
    assert other.classes == (BandClass(value=0, name="clear"), BandClass(value=7, name="cloud"))


def test_names_that_do_not_fit_their_values_are_left_out(tmp_path: Path) -> None:
    """Two values and one name say nothing for certain."""
    path = tmp_path / "a.tif"
    geotiff(path, noise((1, 20, 20), "uint8"))
    with rasterio.open(path, "r+") as file:
        file.update_tags(flag_values="1, 2", flag_meanings="soil")

    assert opened(path.read_bytes()).header.meanings == ()


@pytest.mark.parametrize("units", [("mm", ""), ("", ""), ("mm", "\u00b0C")])
def test_units_are_gdals(units: tuple[str, ...], tmp_path: Path) -> None:
    """Those of GDAL's metadata. A packed header keeps them."""
    path = tmp_path / "a.tif"
    geotiff(path, noise((2, 20, 20), "uint8"))
    with rasterio.open(path, "r+") as file:
        file.units = units
    with rasterio.open(path) as file:
        by_gdal = [each or "" for each in file.units]
    source = MemoryObject(path.read_bytes())

    header = opened(source).header

    assert [header.meaning(band).unit for band in (1, 2)] == by_gdal
    again = opened_again(source, packed_header=packed_header_of(source))
    assert again.from_packed_header
    assert again.header.meanings == header.meanings


@pytest.mark.parametrize("n_values", [4, 3 * 65_536])
def test_an_odd_or_long_palette_is_no_palette(n_values: int) -> None:
    """The file is read all the same, and no long palette is fetched."""
    tags = {256: (SHORT, (1,)), Tag.PHOTOMETRIC: (SHORT, (3,)), Tag.COLOR_MAP: (SHORT, (9,) * n_values)}

    assert meanings_of(ifd_of(tags), 1) == ()


def test_a_packed_header_keeps_what_is_said(tmp_path: Path) -> None:
    """So a gather with an index makes the same cube."""
    path = tmp_path / "a.tif"
    geotiff(path, noise((1, 20, 20), "uint8"), photometric="palette")
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, {10: FOREST, 20: FIELD})
        file.update_tags(flag_values="10", flag_meanings="forest")
    source = MemoryObject(path.read_bytes())

    again = opened_again(source, packed_header=packed_header_of(source))

    assert again.from_packed_header
    assert again.header.meanings == opened(source).header.meanings
    assert again.header.meanings[0].classes[0] == BandClass(value=10, name="forest", colour="#016400")


@pytest.mark.parametrize(
    "meanings", [[["red", []]], [["red", [[1, "x", None]] * 300]] * 3, [["r" * 300, []]] * 3]
)
def test_a_packed_header_that_says_too_much_is_refused(meanings: Any, tmp_path: Path) -> None:
    """Of another number of bands, of too many classes, or in too long words."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", noise((3, 20, 20), "uint8"), photometric="rgb"))
    fields = msgspec.msgpack.decode(packed_header_of(source))
    fields[PackedHeader.__struct_fields__.index("meanings")] = meanings

    again = opened_again(source, packed_header=msgspec.msgpack.encode(fields))

    assert not again.from_packed_header
    assert again.header.meanings[0] == BandMeaning(colour="red")
