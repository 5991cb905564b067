"""A cube in other formats, read back by the libraries of those formats."""

import csv
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr
from click.testing import CliRunner
from PIL import Image
from rasterio.transform import from_origin

from pixel_gather import PictureStyle, RequestError, StoreError, export, join
from pixel_gather.features.export.draw_pictures import make_sheet
from pixel_gather_cli.main import command
from support.images import write_image
from support.undrawn import gather_undrawn

DAYS = 4
BANDS = ("red", "green", "blue")
NODATA = -9


def _pixels(day: int, band: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    ramp = np.arange(48, dtype="int16").reshape(6, 8)
    pixels = (ramp * (day + 1) + 1000 * band).astype("int16")
    pixels[0, 0] = NODATA
    return pixels


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube of four days and three bands, 6 x 8 pixels. Of the third day, no file is there."""
    folder = tmp_path_factory.mktemp("export")
    lines = ["href,time,band,cloud_cover"]
    for day in range(DAYS):
        for band, name in enumerate(BANDS):
            path = folder / f"{day}-{name}.tif"
            lines.append(f"{path},2024-05-0{day + 1},{name},{10 * day}")
            if day != 2:
                write_image(path, _pixels(day, band), west=600_000, nodata=NODATA)
    (folder / "list.csv").write_text("\n".join(lines))
    gather_undrawn(
        {"sources": str(folder / "list.csv"), "window": {"pixels": [0, 0, 8, 6]}}, to=folder / "cube.zarr"
    )
    return folder / "cube.zarr"


def test_geotiffs_have_the_pixels_place_and_time_of_their_rows(cube: Path, tmp_path: Path) -> None:
    """A row without a source that was read has no file."""
    files = export(cube, to=tmp_path / "x.tif")

    assert [file.name for file in files] == [f"x-0000{d}-2024-05-0{d + 1}.tif" for d in (0, 1, 3)]
    assert sorted(tmp_path.iterdir()) == files
    for day, path in zip((0, 1, 3), files, strict=True):
        with rasterio.open(path) as file:
            expected = np.stack([_pixels(day, band) for band in range(3)])
            np.testing.assert_array_equal(file.read(), expected)
            assert file.descriptions == BANDS
            assert (file.crs.to_epsg(), file.nodata) == (32632, NODATA)
            assert file.transform == from_origin(600_000, 5_000_000, 10, 10)
            assert file.tags()["time"] == f"2024-05-0{day + 1}T00:00:00+00:00"
            assert file.tags()["href"].count(".tif") == 3
            assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.long
def test_geotiffs_are_valid_by_the_rules_of_cogs(tmp_path: Path) -> None:
    """rio-cogeo, which follows GDAL's validate_cloud_optimized_geotiff, finds no fault and no warning."""
    validate = pytest.importorskip("rio_cogeo", reason="needs the group judges").cog_validate
    pixels = np.random.default_rng(0).integers(0, 5000, (2, 1_300, 1_100), dtype="uint16")
    source = write_image(tmp_path / "a.tif", pixels, crs=None, nodata=None, tiled=True)
    place = _gathered(tmp_path, [source], window=(0, 0, 1_100, 1_300))

    (path,) = export(place, to=tmp_path / "x.tif")

    assert validate(path, strict=True, quiet=True) == (True, [], [])
    with rasterio.open(path) as file:
        assert file.overviews(1)
        np.testing.assert_array_equal(file.read(), pixels)


def _tiff(path: Path, *, count: int = 1, x: float = 600_000, dtype: str = "int16", **told: Any) -> str:
    """Write a GeoTIFF of 8 x 6 pixels, each of them 4, and return its path."""
    return write_image(path, np.full((count, 6, 8), 4, dtype), west=x, **{"nodata": NODATA} | told)


def _gathered(
    folder: Path, sources: list[str], *, window: tuple[int, ...] = (0, 0, 8, 6), **said: Any
) -> Path:
    place = folder / "cube.zarr"
    gather_undrawn({"sources": sources, "window": {"pixels": window}, "grid": "any"} | said, to=place)
    return place


def _gathered_bands(folder: Path, *lines: str) -> Path:
    """Gather files by their scene and band: each line is ``file,scene,band``."""
    (folder / "list.csv").write_text("\n".join(["href,scene,band", *lines]))
    place = folder / "cube.zarr"
    gather_undrawn({"sources": str(folder / "list.csv"), "window": {"pixels": [0, 0, 8, 6]}}, to=place)
    return place


@pytest.mark.long
def test_files_of_several_bands_are_exported_if_windows_overhang_and_nodata_differ(tmp_path: Path) -> None:
    """Edges and nodata have one value for each row, as one source holds all of its bands."""
    sources = [_tiff(tmp_path / f"{nodata}.tif", count=2, nodata=nodata) for nodata in (NODATA, 7)]
    place = _gathered(tmp_path, sources, window=(-2, 0, 8, 6))

    files = export(place, to=tmp_path / "x.tif")
    export(place, to=tmp_path / "x.nc")
    export(place, to=tmp_path / "x.png", measurements=["band_2"])

    for path, nodata in zip(files, (NODATA, 7), strict=True):
        with rasterio.open(path) as file:
            assert file.nodata == nodata
            assert file.read_masks(2).any(axis=0).tolist() == [False] * 2 + [True] * 6
    with xr.open_dataset(tmp_path / "x.nc", mask_and_scale=False) as copy:
        assert copy.band_2.values[:, 0, 0].tolist() == [NODATA, 7]


@pytest.mark.long
@pytest.mark.parametrize("other", [(0.5, 2.0), (0.25, 0.0)])
def test_geotiffs_have_scale_and_offset_of_their_rows(tmp_path: Path, other: tuple[float, float]) -> None:
    """They are attributes of the measurement, or coordinates if rows differ. The unit is one for all."""
    scalings = [(0.5, 2.0), other]
    sources = [_tiff(tmp_path / f"{i}.tif", count=2, scaling=each) for i, each in enumerate(scalings)]
    for source in sources:
        with rasterio.open(source, "r+") as file:
            file.units = ("K", "m")

    files = export(_gathered(tmp_path, sources), to=tmp_path / "x.tif", measurements=["band_2"])

    for path, (scale, offset) in zip(files, scalings, strict=True):
        with rasterio.open(path) as file:
            assert (file.scales, file.offsets, file.units) == ((scale,), (offset,), ("m",))


def test_geotiffs_of_long_integers_have_their_nodata(tmp_path: Path) -> None:
    """They are COGs as all others."""
    source = _tiff(tmp_path / "a.tif", dtype="uint64", nodata=4)

    (path,) = export(_gathered(tmp_path, [source]), to=tmp_path / "x.tif")

    with rasterio.open(path) as file:
        assert file.nodata == 4
        assert not file.read_masks(1).any()
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "nodata"), [("int64", -(2**63)), ("uint64", 2**64 - 1), ("int64", 2**62 + 5), ("int64", 10**17)]
)
def test_geotiffs_of_long_integers_have_every_digit_of_their_nodata(
    tmp_path: Path, dtype: str, nodata: int
) -> None:
    """GDAL reads an integer, so the text of a float would be another value: -9 of -9.2e+18."""
    pixels = np.arange(256, dtype=dtype).reshape(16, 16)
    pixels[3, 3] = nodata
    scaled = '<GDALMetadata><Item name="SCALE" sample="0" role="scale">0.5</Item></GDALMetadata>'
    texts = {42112: scaled, 42113: str(nodata)}
    tags = [(tag, 2, len(text) + 1, text, True) for tag, text in texts.items()]
    source = tmp_path / "a.tif"
    tifffile.imwrite(source, pixels, photometric="minisblack", tile=(16, 16), metadata=None, extratags=tags)

    (path,) = export(_gathered(tmp_path, [str(source)]), to=tmp_path / "x.tif")

    with rasterio.open(path) as file, rasterio.open(source) as expected:
        window = ((0, file.height), (0, file.width))
        np.testing.assert_array_equal(file.read_masks(1), expected.read_masks(1, window=window))
        np.testing.assert_array_equal(file.read(1), expected.read(1, window=window))
        assert (file.nodata, file.scales, file.descriptions) == (expected.nodata, (0.5,), ("band_1",))
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.long
@pytest.mark.parametrize(
    ("odd", "what"),
    [({"nodata": 4}, "nodata value, row 0 has red -9, nir 4"), ({"x": 0}, "transform")],
)
def test_bands_of_a_geotiff_share_nodata_and_place(tmp_path: Path, odd: dict[str, Any], what: str) -> None:
    """Otherwise pixels of one would be hidden, or in the wrong place. One measurement can be written."""
    lines = f"{_tiff(tmp_path / 'r.tif')},s,red", f"{_tiff(tmp_path / 'n.tif', **odd)},s,nir"
    place = _gathered_bands(tmp_path, *lines)

    with pytest.raises(RequestError, match=f"the bands of a GeoTIFF have one {what}.*; choose one"):
        export(place, to=tmp_path / "x.tif")

    (path,) = export(place, to=tmp_path / "x.tif", measurements=["nir"])
    with rasterio.open(path) as file:
        assert (file.nodata, file.transform.c) == (odd.get("nodata", NODATA), odd.get("x", 600_000))


def test_classes_are_no_colour(tmp_path: Path) -> None:
    """A picture of red, near infrared and classes means nothing. Each can be drawn."""
    bands = ("red", "nir", "scl")
    place = _gathered_bands(tmp_path, *(f"{_tiff(tmp_path / f'{band}.tif')},s,{band}" for band in bands))

    with pytest.raises(RequestError, match="scl has classes, which are no colour: choose one of"):
        export(place, to=tmp_path / "x.png")

    assert export(place, to=tmp_path / "x.png", measurements=["scl"])


@pytest.mark.long
def test_a_band_that_was_not_read_has_no_say_in_the_place_of_a_geotiff(tmp_path: Path) -> None:
    """The file lies where the band lies that was read. If it is the only one, its name has no row."""
    place = _gathered_bands(
        tmp_path,
        f"{_tiff(tmp_path / 'r.tif')},s,red",
        f"{tmp_path / 'gone.tif'},s,nir",
        f"{tmp_path / 'gone.tif'},t,red",
        f"{_tiff(tmp_path / 'n.tif', x=0)},t,nir",
    )

    lefts = []
    for path in export(place, to=tmp_path / "x.tif"):
        with rasterio.open(path) as file:
            lefts.append(file.transform.c)
    assert sorted(lefts) == [0, 600_000]
    assert export(place, to=tmp_path / "x.tif", measurements=["nir"]) == [tmp_path / "x.tif"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("complex64", "netCDF has no complex numbers, and band_1 is complex64"),
        (
            "float16",
            r"netCDF has no float16, and band_1 is float16; write GeoTIFFs \(.tif\) or Zarr \(.zarr\)",
        ),
    ],
)
def test_netcdf_of_numbers_that_it_lacks_is_refused(tmp_path: Path, dtype: str, said: str) -> None:
    """The message does not say that the cube is damaged, and the formats that it names take it."""
    place = _gathered(tmp_path, [_tiff(tmp_path / "a.tif", dtype=dtype, nodata=None)])

    with pytest.raises(RequestError, match=said):
        export(place, to=tmp_path / "x.nc")
    (path,) = export(place, to=tmp_path / "x.tif")
    export(place, to=tmp_path / "x.zarr")

    with rasterio.open(path) as file:
        assert file.dtypes == (dtype,)
    assert zarr.open_array(tmp_path / "x.zarr" / "band_1").dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "said"), [("int16", {"values": "scaled"}), ("float32", {}), ("complex64", {})]
)
def test_geotiffs_of_floats_have_nan_as_nodata(tmp_path: Path, dtype: str, said: dict[str, Any]) -> None:
    """What is missing in scaled values is NaN. GDAL takes it for data unless the file says so."""
    source = _tiff(tmp_path / "a.tif", dtype=dtype, nodata=4 if said else None)
    place = _gathered(tmp_path, [source], **said)

    (path,) = export(place, to=tmp_path / "x.tif")

    with rasterio.open(path) as file:
        assert np.isnan(file.nodata)
        assert file.read(1, masked=True).mask.all() == bool(said)


@pytest.mark.long
def test_copies_of_joined_cubes_are_exported_without_their_padding(tmp_path: Path) -> None:
    """A row of padding is no row: it has no line, no file and no picture."""
    sources = [_tiff(tmp_path / f"{i}.tif") for i in range(3)]
    for name in ("a", "b"):
        gather_undrawn(
            {
                "sources": sources, "window": {"pixels": [0, 0, 8, 6]},
                "output": {"layout": {"chunk": [2, 6, 8], "shard_rows": 4}},
            },
            to=tmp_path / f"{name}.zarr",
        )  # fmt: skip
    join([tmp_path / "a.zarr", tmp_path / "b.zarr"], to=tmp_path / "both.zarr", mode="copy")

    export(tmp_path / "both.zarr", to=tmp_path / "x.csv")
    export(tmp_path / "both.zarr", to=tmp_path / "x.nc")

    with (tmp_path / "x.csv").open() as file:
        assert [(line["row"], line["status"]) for line in csv.DictReader(file)] == [
            (str(row), "ok") for row in (0, 1, 2, 4, 5, 6)
        ]
    with xr.open_dataset(tmp_path / "x.nc") as copy:
        assert copy.band_1.values.tolist() == np.full((6, 6, 8), 4).tolist()


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".tif", ".nc", ".csv", ".parquet", ".webp", ".gif", ".apng"])
def test_a_full_disk_is_an_error_and_spoils_no_file(cube: Path, tmp_path: Path, suffix: str) -> None:
    """The former file stays. /dev/full is a disk without space."""
    path = tmp_path / f"x{suffix}"
    path.write_text("former")
    path.with_name(f".x.{os.getpid()}.partial{suffix}").symlink_to("/dev/full")

    with pytest.raises(StoreError, match=rf"x{suffix} cannot be written: "):
        export(cube, to=path, where="cloud_cover == 10", measurements=["blue"])

    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "former"


@pytest.mark.parametrize("suffix", [".nc", ".png", ".json", ".csv", ".parquet"])
def test_a_folder_is_no_file_to_write(cube: Path, tmp_path: Path, suffix: str) -> None:
    """The error says so, and the folder stays."""
    folder = tmp_path / f"x{suffix}"
    folder.mkdir()

    with pytest.raises(StoreError, match=rf"x\{suffix} is a folder: choose the name of a file$"):
        export(cube, to=folder, where="cloud_cover == 10", measurements=["blue"])

    assert [each.name for each in tmp_path.iterdir()] == [folder.name]
    assert not list(folder.iterdir())


def test_a_file_that_can_be_neither_written_nor_removed_is_named(cube: Path, tmp_path: Path) -> None:
    """A read-only folder is such a case. The error does not say that the cube is unreadable."""
    tmp_path.joinpath(f".x.{os.getpid()}.partial.csv").mkdir()

    with pytest.raises(StoreError, match=r"x\.csv cannot be written: Is a directory"):
        export(cube, to=tmp_path / "x.csv")


@pytest.mark.parametrize("name", ["rows.parquet", "receipt.json", "x.zarr", "red/x.tif"])
def test_no_file_of_a_cube_is_replaced(cube: Path, name: str) -> None:
    """The cube would be damaged, and verify would say so only later."""
    before = sorted(cube.rglob("*"))

    with pytest.raises(
        RequestError, match=rf"^to: .*{name} lies in the cube .*: choose a place outside of it"
    ):
        export(cube, to=cube / name)

    assert sorted(cube.rglob("*")) == before


def test_what_another_process_writes_meanwhile_is_not_touched(cube: Path, tmp_path: Path) -> None:
    """Each process has an unfinished file of its own. The last one that is finished stays."""
    other = tmp_path / f".x.{os.getppid()}.partial.csv"
    other.write_text("half of another export")

    export(cube, to=tmp_path / "x.csv")

    assert sorted(each.name for each in tmp_path.iterdir()) == [other.name, "x.csv"]
    assert other.read_text() == "half of another export"


def test_one_row_is_one_geotiff_of_the_name_that_was_given(cube: Path, tmp_path: Path) -> None:
    """``where`` and the measurements choose what is written."""
    files = export(cube, to=tmp_path / "x.tif", where="cloud_cover == 10", measurements=["blue"])

    assert files == [tmp_path / "x.tif"]
    with rasterio.open(files[0]) as file:
        np.testing.assert_array_equal(file.read(), _pixels(1, 2)[None])
        assert file.tags()["href"].count(".tif") == 1


def test_netcdf_is_the_cube(cube: Path, tmp_path: Path) -> None:
    """Xarray finds the same values, times and attributes in both."""
    export(cube, to=tmp_path / "x.nc")

    with xr.open_dataset(tmp_path / "x.nc") as copy, xr.open_zarr(cube) as original:
        assert set(copy.variables) == set(original.variables)
        for name in original.variables:
            np.testing.assert_array_equal(
                copy[name].values.astype(original[name].dtype), original[name].values, err_msg=str(name)
            )
        assert copy.red.attrs["long_name"] == original.red.attrs["long_name"]
        assert copy.red.encoding["_FillValue"] == NODATA
        assert set(original.attrs) - set(copy.attrs) == {"pixel_gather", "spatial:dimensions"}


def test_netcdf_of_some_rows_and_measurements(cube: Path, tmp_path: Path) -> None:
    """Coordinates are cut as the pixels are."""
    export(cube, to=tmp_path / "x.nc", where="cloud_cover >= 10", measurements=["green"])

    with xr.open_dataset(tmp_path / "x.nc") as copy:
        assert list(copy.data_vars) == ["green"]
        assert copy.cloud_cover.values.ravel().tolist() == [10, 20, 30]
        assert copy.green.isel(time=0, y=5, x=7).item() == _pixels(1, 1)[5, 7]


def test_tables_have_a_line_for_each_row(cube: Path, tmp_path: Path) -> None:
    """CSV and Parquet have the same columns. A status is a word, a missing value is empty."""
    export(cube, to=tmp_path / "x.csv")
    export(cube, to=tmp_path / "x.parquet")

    with (tmp_path / "x.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["time"][:10] for line in lines] == [f"2024-05-0{day + 1}" for day in range(DAYS)]
    assert [line["status_red"] for line in lines] == ["ok", "ok", "missing", "ok"]
    assert float(lines[1]["mean_green"]) == pytest.approx(_pixels(1, 1).ravel()[1:].mean())
    assert lines[2]["mean_green"] == ""
    columns = "row, mean_green, epoch_us(time)"
    table = duckdb.read_parquet(str(tmp_path / "x.parquet"))
    assert table.columns == list(lines[0])
    first, _, third, _ = table.select(columns).fetchall()
    assert first == (0, pytest.approx(_pixels(0, 1).ravel()[1:].mean()), 1_714_521_600_000_000)
    assert third[1] is None


def test_tables_keep_the_values_of_the_lists_columns(tmp_path: Path) -> None:
    """Those of later rows are missing. Numbers stood for them, and a name with ``status`` was refused."""
    image = write_image(tmp_path / "a.tif", _pixels(0, 0))
    (tmp_path / "list.csv").write_text(f"href,n,day,status_of_sun\n{image},{2**60},true,up\n")
    (tmp_path / "later.csv").write_text(f"href\n{write_image(tmp_path / 'b.tif', _pixels(1, 0))}\n")
    request, place = {"window": {"pixels": [0, 0, 8, 6]}}, tmp_path / "x.zarr"
    gather_undrawn(request | {"sources": str(tmp_path / "list.csv")}, to=place)
    columns = "n, day, status_of_sun"

    export(place, to=tmp_path / "x.parquet")

    table = duckdb.read_parquet(str(tmp_path / "x.parquet")).select(columns)
    assert table.types == ["BIGINT", "BOOLEAN", "VARCHAR"]

    later = {"sources": str(tmp_path / "later.csv"), "output": {"append_to": str(place)}}
    gather_undrawn(request | later, to=None)
    for suffix in ("csv", "parquet"):
        export(place, to=tmp_path / f"x.{suffix}")

    table = duckdb.read_parquet(str(tmp_path / "x.parquet")).select(columns)
    assert table.types == ["BIGINT", "BOOLEAN", "VARCHAR"]
    assert table.fetchall() == [(2**60, True, "up"), (None, None, None)]
    with (tmp_path / "x.csv").open() as file:
        told = [[line[name] for name in columns.split(", ")] for line in csv.DictReader(file)]
    assert told == [[str(2**60), "True", "up"], ["", "", ""]]


def test_columns_of_the_list_replace_no_column_of_the_table(tmp_path: Path) -> None:
    """Landsat has paths and rows. The list's row was told instead of the cube's, its mean instead of ours."""
    files = [write_image(tmp_path / f"{day}.tif", _pixels(day, 0)) for day in (0, 1)]
    lines = [f"{file},{band},{day},27,9,8\n" for day, file in enumerate(files) for band in ("red", "nir")]
    (tmp_path / "list.csv").write_text("".join(["href,band,scene,row,mean_red,list_row\n", *lines]))
    request = {"sources": str(tmp_path / "list.csv"), "window": {"pixels": [0, 0, 8, 6]}}
    gather_undrawn(request, to=tmp_path / "x.zarr")

    export(tmp_path / "x.zarr", to=tmp_path / "x.csv")

    with (tmp_path / "x.csv").open() as file:
        first, second = csv.DictReader(file)
    assert [first["row"], second["row"]] == ["0", "1"]
    assert float(second["mean_red"]) == pytest.approx(_pixels(1, 0).mean())
    names = ("list_row", "list_list_row", "list_mean_red")
    assert [second[name] for name in names] == ["8", "27", "9"]


def test_animation_shows_each_row_with_one_stretch(cube: Path, tmp_path: Path) -> None:
    """White is the given value in every picture, pixels without data are light grey."""
    style = PictureStyle(stretch=(0, 47), frames_per_second=10)
    export(cube, to=tmp_path / "x.gif", measurements=["red"], style=style)

    with Image.open(tmp_path / "x.gif") as film:
        assert getattr(film, "n_frames") == DAYS  # noqa: B009 # not in the types
        assert film.info["duration"] == 100
        width = film.width
        for day in range(DAYS):
            film.seek(day)
            picture = np.asarray(film.convert("RGB")).astype(int)
            zoom = width // 8
            shown = picture[zoom // 2 : 6 * zoom : zoom, zoom // 2 : width : zoom]
            valid = _pixels(day, 0) != NODATA if day != 2 else np.zeros((6, 8), dtype=bool)
            greys = np.clip(_pixels(day, 0).astype(int), 0, 47) / 47 * 255
            expected = np.where(valid[..., None], greys[..., None].repeat(3, axis=-1), 214)
            has_text = np.zeros((6, 8), dtype=bool)
            has_text[2:4] = day == 2  # "not read: missing" stands in the middle
            assert np.abs(shown - expected)[~has_text].max() <= 2
        film.seek(2)
        middle = np.asarray(film.convert("RGB"))[2 * zoom : 4 * zoom]
        assert (middle < 60).all(axis=-1).sum() > 50


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".webp", ".apng"])
def test_film_has_a_frame_for_each_row(cube: Path, tmp_path: Path, suffix: str) -> None:
    """Three measurements are red, green and blue. APNG has the same pixels as the sheet."""
    film_path, sheet_path = tmp_path / f"x{suffix}", tmp_path / "x.png"
    export(cube, to=film_path, measurements=BANDS, style=PictureStyle(stretch=(0, 2047), frames_per_second=2))
    style = PictureStyle(stretch=(0, 2047))
    export(cube, to=sheet_path, measurements=BANDS, style=style, where="cloud_cover == 10")

    with Image.open(film_path) as film, Image.open(sheet_path) as sheet:
        assert getattr(film, "n_frames") == DAYS  # noqa: B009 # not in the types
        film.seek(1)
        second = np.asarray(film.convert("RGB")).astype(int)
        assert film.info["duration"] == 500
        if suffix == ".apng":
            assert second.tolist() == np.asarray(sheet.convert("RGB")).tolist()
    red, green, blue = second[60, 160]
    assert red < green < blue


@pytest.mark.long
def test_pictures_are_in_true_colour_without_a_choice(cube: Path, tmp_path: Path) -> None:
    """The names of the measurements say which are red, green and blue."""
    for name, chosen in (("chosen.png", ["red", "green", "blue"]), ("unchosen.png", [])):
        export(cube, to=tmp_path / name, measurements=chosen)

    assert (tmp_path / "chosen.png").read_bytes() == (tmp_path / "unchosen.png").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".gif", ".apng"])
def test_long_films_are_webp(
    cube: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Pillow holds all pictures of the other formats at one time."""
    monkeypatch.setattr("pixel_gather.features.export.write_animation._MOST_NBYTES", 1000)
    export(cube, to=tmp_path / "x.webp", measurements=["red"])

    with pytest.raises(RequestError, match=r"choose rows by where, or write \.webp"):
        export(cube, to=tmp_path / f"x{suffix}", measurements=["red"])


def test_sheet_has_a_picture_of_each_row(cube: Path, tmp_path: Path) -> None:
    """Colours are those of matplotlib's colour map."""
    style = PictureStyle(colormap="viridis", stretch=(1, 2))
    export(cube, to=tmp_path / "x.png", measurements=["red"], style=style)

    with Image.open(tmp_path / "x.png") as sheet:
        width, height = sheet.size
        assert width > height / 2
        assert sheet.convert("RGB").getpixel((300, 200)) == (253, 231, 36)  # the last colour of viridis


def test_a_sheet_of_one_picture_is_as_wide_as_the_picture() -> None:
    """Also if the picture is higher than wide, as with captions below."""
    picture = Image.new("RGB", (400, 436))

    assert make_sheet([picture], background="white").size == picture.size
    assert make_sheet([picture] * 3, background="white").size == (2 * 404 - 4, 2 * 440 - 4)


@pytest.mark.long
@pytest.mark.parametrize("name", ["x.png", "x.apng"])
def test_dark_pictures_have_the_same_pixels_and_light_letters(cube: Path, tmp_path: Path, name: str) -> None:
    """Ground, letters and what has no data are those of the dark pages."""
    shown = {}
    for is_dark in (False, True):
        style = PictureStyle(stretch=(0, 2047), is_dark=is_dark)
        export(cube, to=tmp_path / name, measurements=["red"], where="cloud_cover == 10", style=style)
        with Image.open(tmp_path / name) as picture:
            shown[is_dark] = np.asarray(picture.convert("RGB")).astype(int)

    pixels = _pixels(1, 0)
    zoom = shown[True].shape[1] // 8
    inside = (slice(zoom // 2, 6 * zoom, zoom), slice(zoom // 2, 8 * zoom, zoom))
    is_valid = pixels != NODATA
    light, dark = shown[False], shown[True]
    assert (light[inside][is_valid] == dark[inside][is_valid]).all()
    assert {tuple(each) for each in dark[inside][~is_valid].tolist()} <= {(59, 67, 77)}
    captions = [each[6 * zoom :].reshape(-1, 3) for each in (light, dark)]
    assert [tuple(np.median(each, axis=0)) for each in captions] == [(255, 255, 255), (21, 25, 30)]
    assert captions[1].max() >= 230


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "x.jpg"}, "to: x.jpg: end the name with .webp, .gif"),
        ({"to": "x.gif"}, "measurement: the cube has 3 measurements|red, green and blue"),
        ({"to": "x.gif", "measurements": ["nir"]}, "no measurement 'nir'; it has red, green, blue"),
        (
            {"to": "x.gif", "measurements": ["red", "blue"]},
            "the cube has 2 measurements, red, blue; choose one, or three",
        ),
        (
            {"to": "x.png", "measurements": ["red"], "style": {"colormap": "rainbows"}},
            "no colour map 'rainbows'",
        ),
        (
            {"to": "x.png", "measurements": ["red"], "style": {"stretch": (3, 3)}},
            "black .3. must be less than white",
        ),
        (
            {"to": "x.webp", "measurements": ["red"], "style": {"frames_per_second": 0}},
            "frames_per_second: it is 0; write a number above 0, up to 60",
        ),
        ({"to": "x.csv", "where": "clouds < 1"}, "no coordinate 'clouds'"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_does_not_fit_is_refused(cube: Path, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    """The message names the field. No file is written or replaced."""
    to = tmp_path / options.pop("to")
    to.write_text("earlier")
    style = options.pop("style", {})
    if said.startswith("measurement"):
        options["measurements"] = ["red", "green"]

    with pytest.raises(RequestError, match=said.rpartition("|")[2]):
        export(cube, to=to, **options, style=PictureStyle(**style))

    assert [each.name for each in tmp_path.iterdir()] == [to.name]
    assert to.read_text() == "earlier"


@pytest.mark.parametrize("where", ["", "time >= 2024-05-02"], ids=["all rows", "some rows"])
def test_a_cube_that_lost_its_status_is_called_damaged(cube: Path, tmp_path: Path, where: str) -> None:
    """Its rows are there, so the error is no lack of rows."""
    damaged = tmp_path / "cube.zarr"
    shutil.copytree(cube, damaged)
    shutil.rmtree(damaged / "status" / "c")
    said = r"the cube is damaged: it has no status of \d rows, the first is row \d; pixel-gather verify names"

    with pytest.raises(StoreError, match=said):
        export(damaged, to=tmp_path / "x.csv", where=where)


def test_rows_that_nobody_read_are_no_geotiffs(cube: Path, tmp_path: Path) -> None:
    """A message says so; the table still has them."""
    with pytest.raises(StoreError, match="no source of these rows was read"):
        export(cube, to=tmp_path / "x.tif", where="cloud_cover == 20")
    with pytest.raises(StoreError, match="no row of the cube is left"):
        export(cube, to=tmp_path / "x.csv", where="cloud_cover == 11")
    with pytest.raises(StoreError, match="there is no folder"):
        export(cube, to=tmp_path / "none" / "x.csv")


def test_a_full_disk_leaves_the_earlier_file(
    cube: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file replaces the earlier one only when it is complete."""
    (tmp_path / "x.csv").write_text("earlier")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pixel_gather.features.export.row_statistics.write_csv", fail)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        export(cube, to=tmp_path / "x.csv")

    assert [each.name for each in tmp_path.iterdir()] == ["x.csv"]
    assert (tmp_path / "x.csv").read_text() == "earlier"


def test_large_windows_are_thinned_and_read_in_blocks(tmp_path: Path) -> None:
    """A picture has at most 1,024 pixels along a side, whatever the window has."""
    group = zarr.create_group(tmp_path / "cube.zarr", attributes={"complete": True})
    dims = ("source", "y", "x")
    pixels = group.create_array(
        "band_1", shape=(2, 2100, 30), chunks=(2, 700, 30), dtype="uint8", dimension_names=dims
    )
    pixels[:] = np.broadcast_to(np.arange(30, dtype="uint8"), pixels.shape)
    status = group.create_array("status", shape=(2,), dtype="uint8", dimension_names=("source",))
    status[:] = 0

    export(tmp_path / "cube.zarr", to=tmp_path / "x.gif", style=PictureStyle(stretch=(0, 29)))

    with Image.open(tmp_path / "x.gif") as film:
        assert film.size == (240, 700 + 2 * 18)  # the caption needs room


@pytest.mark.long
def test_command_prints_the_files(cube: Path, tmp_path: Path) -> None:
    """``--rgb`` chooses three measurements; a half one is refused."""
    to = str(tmp_path / "x.png")
    ended = CliRunner().invoke(
        command, ["export", str(cube), "--to", to, "--rgb", "red,green,blue", "--json"]
    )
    assert ended.exit_code == 0
    assert to in ended.stdout
    for wrong in (
        ["--rgb", "red,green"],
        ["--stretch", "1"],
        ["--rgb", "red,green,blue", "--measurement", "red"],
    ):
        assert CliRunner().invoke(command, ["export", str(cube), "--to", to, *wrong]).exit_code == 2


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("x.tif", ["--colormap", "viridis"], "--colormap: it is for pictures, not for .tif"),
        ("x.csv", ["--stretch", "0,1"], "--stretch: it is for pictures, not for .csv"),
        ("x.nc", ["--dark"], "--dark: it is for pictures, not for .nc"),
        ("x.png", ["--fps", "2"], "--fps: it is for animations, not for .png"),
        ("x.gif", ["--fps", "61"], "--fps: it is 61; write a number above 0, up to 60"),
        (
            "x.png",
            ["--rgb", "a,b,c", "--colormap", "viridis"],
            "--colormap: pictures of --rgb have their own",
        ),
    ],
)
def test_command_refuses_options_without_effect(name: str, options: list[str], said: str) -> None:
    """Nobody has to find out from the file that an option did nothing."""
    ended = CliRunner().invoke(command, ["export", "cube", "--to", name, *options])
    assert isinstance(ended.exception, RequestError)
    assert str(ended.exception).startswith(said)
