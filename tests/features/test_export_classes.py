"""Classes in other formats: colours and names, a majority and shares, and nothing that is a mean."""

import csv
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest
import rasterio
import zarr
from PIL import Image
from rasterio.enums import ColorInterp

from pixel_gather import PictureStyle, export
from pixel_gather.core.model.status import Status
from support.viewed_cubes import COVER, SIDE, cover, gathered_bgr, gathered_cover


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cube of three rows of land cover with a palette, and names of two classes."""
    return gathered_cover(tmp_path_factory.mktemp("classes")).place


@pytest.mark.long
def test_pictures_have_the_colours_of_classes_and_a_legend(place: str, tmp_path: Path) -> None:
    """What the palette has no colour for is black. Below are the names in as many lines as they need."""
    (file,) = export(place, to=tmp_path / "x.png", where="status == 0")

    shown = np.asarray(Image.open(file).convert("RGB"))
    pixels = cover(0)
    for value, colour in (COVER | {30: "#000000"}).items():
        assert (shown[:SIDE, :SIDE][pixels == value] == tuple(bytes.fromhex(colour[1:]))).all()
    legend = shown[SIDE + 18 : SIDE + 54].reshape(-1, 3).tolist()
    for colour in COVER.values():
        assert list(bytes.fromhex(colour[1:])) in legend


def test_a_stretch_is_obeyed(place: str, tmp_path: Path) -> None:
    """Whoever asks for greys gets them."""
    (file,) = export(place, to=tmp_path / "x.png", style=PictureStyle(stretch=(0, 80)))

    shown = np.asarray(Image.open(file).convert("RGB"))
    assert (shown[:SIDE, :SIDE][cover(0) == 80] == 255).all()


def test_a_geotiff_has_palette_and_names(place: str, tmp_path: Path) -> None:
    """GDAL shows the colours. A gather of the file finds the same names."""
    (file, *_) = export(place, to=tmp_path / "x.tif")

    with rasterio.open(file) as opened:
        assert opened.colorinterp == (ColorInterp.palette,)
        assert opened.colormap(1)[10][:3] == tuple(bytes.fromhex(COVER[10][1:]))
        assert opened.tags(1)["flag_values"] == "10 20 80"
        assert opened.tags(1)["flag_meanings"] == "forest class_20 open_water"
        assert (opened.read(1) == cover(0)).all()


@pytest.mark.long
def test_a_geotiff_says_which_bands_are_red_green_and_blue(tmp_path: Path) -> None:
    """As the files of the cube do."""
    (file, *_) = export(gathered_bgr(tmp_path).place, to=tmp_path / "x.tif")

    with rasterio.open(file) as opened:
        assert [each.name for each in opened.colorinterp] == ["blue", "green", "red"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_has_majority_and_shares_instead_of_means(place: str, suffix: str, tmp_path: Path) -> None:
    """Shares are those of the row's valid pixels."""
    (file,) = export(place, to=tmp_path / f"x{suffix}")

    if suffix == ".csv":
        with file.open(newline="") as opened:
            lines = [dict(each) for each in csv.DictReader(opened)]
    else:
        found = duckdb.read_parquet(str(file))
        lines = [dict(zip(found.columns, map(str, each), strict=True)) for each in found.fetchall()]
    assert not {"mean", "min", "max"} & set(lines[0])
    for row, line in enumerate(lines):
        pixels = cover(row)
        values, counts = np.unique(pixels, return_counts=True)
        assert int(line["majority"]) == values[counts.argmax()]
        for value in (*COVER, 30):
            assert float(line[f"share_{value}"]) == pytest.approx((pixels == value).mean())


def test_a_row_that_was_not_read_has_no_class(place: str, tmp_path: Path) -> None:
    """Its pixels are only filled up."""
    cube = shutil.copytree(place, tmp_path / "cube.zarr")
    zarr.open_array(cube / "status", mode="r+")[1] = int(Status.MISSING)
    (file,) = export(cube, to=tmp_path / "x.csv")

    with file.open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert [bool(line["majority"]) for line in lines] == [True, False, True]
    assert lines[1]["share_10"] == ""
