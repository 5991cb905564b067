"""Windows of small files equal NumPy slices and rasterio's pixels."""

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise, opened, pixels, tiff
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import SourceReader
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from support.in_loop import in_loop

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "float32", "float64")
COMPRESSIONS = ("none", "deflate", "lzw", "zstd", "packbits", "lzma")


@dataclass(frozen=True)
class Stored:
    """One way to store an image."""

    dtype: str
    compress: str
    predictor: int
    interleave: str
    endianness: str
    block: tuple[int, int] | None
    """Width and height of tiles, or (0, rows) of strips."""

    n_bands: int

    def options(self) -> dict[str, Any]:
        """Return rasterio's options for it."""
        width, height = self.block or (0, 0)
        shape = {"tiled": True, "blockxsize": width} if width else {}
        compression = {"compress": self.compress} if self.compress != "none" else {}
        predictor = {"predictor": self.predictor} if self.predictor > 1 else {}
        return {
            "blockysize": height,
            "interleave": self.interleave,
            "ENDIANNESS": self.endianness,
            **shape,
            **compression,
            **predictor,
        }


@st.composite
def ways(draw: st.DrawFn) -> Stored:
    """Draw a way to store an image that GDAL can write."""
    dtype = draw(st.sampled_from((*DTYPES, *FLOATS, "complex64", "complex128", "complex_int16")))
    compress = draw(st.sampled_from(COMPRESSIONS))
    predictors = [1]
    if compress in ("deflate", "lzw", "zstd") and not dtype.startswith("complex"):
        predictors += [2, 3] if dtype in ("float32", "float64") else [2]
    return Stored(
        dtype=dtype,
        compress=compress,
        predictor=draw(st.sampled_from(predictors)),
        interleave=draw(st.sampled_from(("pixel", "band"))),
        endianness=draw(st.sampled_from(("LITTLE", "BIG"))),
        block=draw(st.sampled_from(((16, 16), (32, 16), (16, 48), (0, 7), (0, 41), (0, 1)))),
        n_bands=draw(st.integers(1, 4)),
    )


def windows(width: int, height: int) -> st.SearchStrategy[Window]:
    """Draw a window that touches the image and may overhang it."""
    return st.builds(
        lambda left, top, right, bottom: Window(
            col_off=left, row_off=top, width=max(right, 0) - left + 1, height=max(bottom, 0) - top + 1
        ),
        st.integers(-9, width - 1),
        st.integers(-9, height - 1),
        st.integers(width - 1, width + 9),
        st.integers(height - 1, height + 9),
    ) | st.builds(
        lambda col, row, width, height: Window(col_off=col, row_off=row, width=width, height=height),
        st.integers(0, width - 1),
        st.integers(0, height - 1),
        st.integers(1, width),
        st.integers(1, height),
    )


def sliced(image: np.ndarray[Any, Any], window: Window, fill: float) -> np.ndarray[Any, Any]:
    """Return the window of an image by NumPy alone."""
    big = np.full((image.shape[0], image.shape[1] + 200, image.shape[2] + 200), fill, image.dtype)
    big[:, 100 : 100 + image.shape[1], 100 : 100 + image.shape[2]] = image
    row, col = window.row_off + 100, window.col_off + 100
    return big[:, row : row + window.height, col : col + window.width]


@pytest.mark.long
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(way=ways(), window=windows(53, 41), data=st.data())
def test_read_into_equals_slicing_the_same_image(
    tmp_path: Path, way: Stored, window: Window, data: st.DataObject
) -> None:
    """Any window of any bands equals the NumPy slice of the image, however the image is stored."""
    is_complex_int = way.dtype == "complex_int16"
    image = noise((way.n_bands, 41, 53), "int16" if is_complex_int else way.dtype, seed=way.n_bands)
    options = way.options()
    if is_complex_int:
        image = (image + 1j * image[:, ::-1]).astype("complex64")
        options["dtype"] = "complex_int16"
    content = geotiff(tmp_path / "a.tif", image, **options)
    bands = data.draw(st.lists(st.integers(1, way.n_bands), min_size=1, max_size=5))

    source = opened(content, settings=GeoTiffSettings(max_gap_nbytes=data.draw(st.sampled_from((0, 300)))))
    got = pixels(source, window, bands, fill=3)

    assert source.header.dtype == str(image.dtype)
    assert np.array_equal(got, sliced(image[[band - 1 for band in bands]], window, 3))


@pytest.mark.parametrize(
    ("byteorder", "predictor", "planar", "dtype"),
    [
        *itertools.product("<>", (False, True), ("contig", "separate"), ("u2", "i4", "f4")),
    ],
)
def test_read_into_equals_what_tifffile_wrote(
    tmp_path: Path, byteorder: str, planar: str, dtype: str, *, predictor: bool
) -> None:
    """A file by another writer than GDAL, with tiles that overhang the image, is read correctly."""
    image = noise((3, 45, 70), dtype)
    stored = image if planar == "separate" else np.moveaxis(image, 0, -1)
    content = tiff(
        tmp_path / "a.tif", stored, byteorder=byteorder, predictor=predictor, compression="zlib",
        tile=(16, 32), planarconfig=planar, photometric="rgb",
    )  # fmt: skip

    assert np.array_equal(pixels(opened(content)), image)


def tiled(path: Path, **options: Any) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Write a tiled image of 96 x 64 pixels by GDAL."""
    image = noise((1, 64, 96), "uint16")
    content = geotiff(path, image, tiled=True, blockxsize=16, blockysize=16, compress="deflate", **options)
    return content, image


ONE_TILE = Window(col_off=16, row_off=32, width=16, height=16)


def test_one_tile_costs_two_requests_pinned_to_one_version(tmp_path: Path) -> None:
    """One GET reads the header and one reads the tile, pinned to the same version."""
    content, image = tiled(tmp_path / "a.tif")
    source = MemoryObject(content)
    settings_ = GeoTiffSettings(head_nbytes=2048)

    got = pixels(opened(source, settings=settings_), ONE_TILE)

    assert np.array_equal(got[0], image[0, 32:48, 16:32])
    assert source.etags == [None, "v1"]
    assert source.ranges[0] == (0, 2048)


@in_loop
async def test_the_reader_is_a_source_reader(tmp_path: Path) -> None:
    """It implements the port and counts the cost of the source."""
    content, _ = tiled(tmp_path / "a.tif")
    reader: SourceReader = GeoTiffReader(MemoryObject(content))
    cost, out = Cost(), np.zeros((1, 16, 16), "u2")

    source = await reader.open_(HREF, overview=None, cost=cost)
    await source.read_into([(out, ONE_TILE)], (1,), masked=False)

    assert (cost.requests, cost.retries) == (2, 0)
    assert 0 < cost.header_nbytes < cost.nbytes
    assert min(cost.open_s, cost.read_s, cost.decode_s) > 0


def test_opening_adds_to_what_the_source_has_cost(tmp_path: Path) -> None:
    """Its bytes are those of the header alone, also where something was read before."""
    content, _ = tiled(tmp_path / "a.tif")
    cost = Cost(nbytes=1000, header_nbytes=5, open_s=1.0)
    reader = GeoTiffReader(MemoryObject(content), settings=GeoTiffSettings(head_nbytes=2048))

    asyncio.run(reader.open_(HREF, overview=None, cost=cost))

    assert (cost.nbytes, cost.header_nbytes) == (1000 + 2048, 5 + 2048)
    assert 1.0 < cost.open_s < 60


@pytest.mark.parametrize(
    ("overviews", "overview", "width"),
    [([2, 4], 0, 48), ([2, 4], 1, 24), ([2, 4], 2, None), ([2, 4], -1, None), ([], 0, None)],
)
def test_overviews_are_counted_from_zero(
    tmp_path: Path, overviews: list[int], overview: int, width: int | None
) -> None:
    """One that the file does not have may be in a file beside it, which only GDAL finds."""
    content, _ = tiled(tmp_path / "a.tif", overviews=overviews)

    if width:
        assert opened(content, overview=overview).header.width == width
    else:
        with pytest.raises(UnsupportedError, match="no such overview"):
            opened(content, overview=overview)


@pytest.mark.long
def test_decoding_is_added_up_over_all_ranges(tmp_path: Path) -> None:
    """The decoding times of 64 concurrent tiles are added up."""
    image = noise((1, 2048, 2048), "uint16")
    content = geotiff(
        tmp_path / "a.tif", image, tiled=True, blockxsize=256, blockysize=256, compress="deflate"
    )
    whole = Window(col_off=0, row_off=0, width=2048, height=2048)

    async def decode_s(in_flight: int) -> float:
        settings_ = GeoTiffSettings(max_get_nbytes=1 << 16, max_gets_in_flight=in_flight)
        cost, out = Cost(), np.zeros((1, 2048, 2048), "u2")
        reader = GeoTiffReader(MemoryObject(content), settings=settings_)
        source = await reader.open_(HREF, overview=None, cost=cost)
        await source.read_into([(out, whole)], (1,), masked=False)
        assert cost.requests > 64
        return cost.decode_s

    assert asyncio.run(decode_s(8)) > asyncio.run(decode_s(1)) / 4


def test_a_replaced_object_is_an_error_of_the_store(tmp_path: Path) -> None:
    """Bytes of two versions never mix."""
    content, _ = tiled(tmp_path / "a.tif")
    source = MemoryObject(content)
    file = opened(source)
    source.etag = "v2"

    with pytest.raises(SourceError) as error:
        pixels(file, ONE_TILE)

    assert error.value.status is Status.CHANGED
    assert error.value.href == HREF


def test_only_the_wanted_tile_offsets_are_fetched(tmp_path: Path) -> None:
    """A file of 20,000 strips is not read for the offsets of one."""
    image = (np.arange(20_000 * 8) % 251).astype("u1").reshape(20_000, 8)
    content = tiff(tmp_path / "a.tif", image, rowsperstrip=1)
    source = MemoryObject(content)
    window = Window(col_off=0, row_off=15_000, width=8, height=1)

    got = pixels(opened(source, settings=GeoTiffSettings(head_nbytes=512)), window)

    assert np.array_equal(got[0], image[15_000:15_001])
    assert sum(stop - start for start, stop in source.ranges) < 10_000


def test_an_uncompressed_strip_is_fetched_by_rows(tmp_path: Path) -> None:
    """Only the rows of the window are fetched of a huge strip."""
    image = noise((1000, 500), "uint8")
    source = MemoryObject(tiff(tmp_path / "a.tif", image, rowsperstrip=1000))
    window = Window(col_off=100, row_off=700, width=50, height=3)

    got = pixels(opened(source), window)

    assert np.array_equal(got[0], image[700:703, 100:150])
    assert source.ranges[-1][1] - source.ranges[-1][0] == 3 * 500


def test_large_windows_are_read_in_bounded_requests(tmp_path: Path) -> None:
    """No request is over the limit, whatever the window."""
    image = noise((300, 100), "uint16")
    source = MemoryObject(tiff(tmp_path / "a.tif", image, rowsperstrip=300))

    got = pixels(opened(source, settings=GeoTiffSettings(max_get_nbytes=1000)))

    assert np.array_equal(got[0], image)
    assert max(stop - start for start, stop in source.ranges[1:]) <= 1000


def test_neighbouring_tiles_are_one_request(tmp_path: Path) -> None:
    """Tiles side by side in the file are fetched together."""
    content, image = tiled(tmp_path / "a.tif")
    source = MemoryObject(content)

    got = pixels(opened(source, settings=GeoTiffSettings(head_nbytes=1024)))

    assert np.array_equal(got, image)
    assert len(source.ranges) == 2


@pytest.mark.parametrize(("nodata", "expected"), [(None, 0), (9.0, 9)])
def test_absent_tiles_are_nodata_or_zero(tmp_path: Path, nodata: float | None, expected: int) -> None:
    """Tiles that are not stored have GDAL's value."""
    path = tmp_path / "a.tif"
    options: dict[str, Any] = {"tiled": True, "blockxsize": 16, "blockysize": 16, "SPARSE_OK": True}
    with rasterio.open(
        path, "w", driver="GTiff", width=32, height=16, count=1, dtype="uint8", nodata=nodata, **options
    ) as target:
        target.write(np.full((1, 16, 16), 5, "u1"), window=((0, 16), (0, 16)))

    got = pixels(opened(path.read_bytes()), fill=77)

    assert (got[0, :, :16] == 5).all()
    assert (got[0, :, 16:] == expected).all()


def test_masked_reads_plain_files_and_leaves_masks_to_gdal(tmp_path: Path) -> None:
    """GDAL applies internal masks and alpha bands."""
    plain, image = tiled(tmp_path / "plain.tif")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        geotiff(tmp_path / "masked.tif", image)
        with rasterio.open(tmp_path / "masked.tif", "r+") as target:
            target.write_mask(image[0] > 0)
    alpha = tiff(tmp_path / "alpha.tif", noise((16, 16, 4), "uint8"), photometric="rgb", extrasamples=[2])

    assert np.array_equal(pixels(opened(plain), masked=True), image)
    for content in ((tmp_path / "masked.tif").read_bytes(), alpha):
        source = opened(content)
        assert np.array_equal(pixels(source)[0], image[0]) or content is alpha
        with pytest.raises(UnsupportedError):
            pixels(source, masked=True)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"compress": "webp", "WEBP_LOSSLESS": True}, id="WebP"),
        pytest.param({"compress": "lerc"}, id="LERC"),
        pytest.param({"nbits": 4}, id="4 bits"),
        pytest.param({"nbits": 1}, id="1 bit"),
        pytest.param({"photometric": "cmyk"}, id="CMYK"),
        pytest.param({"photometric": "cielab"}, id="CIELab"),
    ],
)
def test_what_is_not_exact_is_left_to_gdal(tmp_path: Path, options: dict[str, Any]) -> None:
    """GDAL reads other compressions, odd bit depths and colours that need a conversion."""
    bands = 4 if options.get("photometric") == "cmyk" else 3
    blocks = {"tiled": True, "blockxsize": 16, "blockysize": 16}
    content = geotiff(tmp_path / "a.tif", np.zeros((bands, 32, 32), "u1"), **blocks, **options)

    with pytest.raises(UnsupportedError):
        opened(content)


def test_a_damaged_tile_is_left_to_gdal_and_the_others_are_read(tmp_path: Path) -> None:
    """A damaged tile is left to GDAL. Other tiles are read here."""
    content, image = tiled(tmp_path / "a.tif")
    source = opened(content[:-10])

    assert np.array_equal(pixels(source, ONE_TILE)[0], image[0, 32:48, 16:32])
    with pytest.raises(UnsupportedError):
        pixels(source)


def test_a_masked_read_that_fails_leaves_the_array_as_it_was(tmp_path: Path) -> None:
    """GDAL does not write masked pixels later, so the failed read must not have written any."""
    content, _ = tiled(tmp_path / "a.tif")
    out = np.full((1, 64, 96), 5, "u2")
    window = Window(col_off=0, row_off=0, width=96, height=64)

    with pytest.raises(UnsupportedError):
        asyncio.run(opened(content[:-10]).read_into([(out, window)], (1,), masked=True))

    assert (out == 5).all()


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_changed_file_gives_gdals_pixels_or_none(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    """A file with a changed byte gives GDAL's pixels or an error."""
    path = tmp_path / "a.tif"
    if not path.exists():
        tiled(
            path, predictor=2, nodata=7, crs="EPSG:32633", transform=rasterio.Affine(10, 0, 5e5, 0, -10, 6e6)
        )
    content = bytearray(path.read_bytes())
    for at, value in changes:
        content[at] = value

    try:
        source = opened(bytes(content))
        if source.header.width * source.header.height > 1_000_000:
            return
        got = pixels(source)
    except UnsupportedError:
        return

    with rasterio.MemoryFile(bytes(content)) as file, file.open() as expected:
        assert np.array_equal(got, expected.read())


def test_offsets_of_many_planes_are_fetched_together(tmp_path: Path) -> None:
    """A window of 60 separate bands needs a few requests for its offsets, not two for each band."""
    image = noise((60, 400, 8), "uint8")
    content = tiff(
        tmp_path / "a.tif", image, rowsperstrip=1, planarconfig="separate", photometric="minisblack"
    )
    source = MemoryObject(content)
    window = Window(col_off=0, row_off=200, width=8, height=2)

    got = pixels(opened(source, settings=GeoTiffSettings(head_nbytes=1024)), window)

    assert np.array_equal(got, image[:, 200:202])
    assert sum(start < len(content) - image.nbytes for start, _ in source.ranges) <= 4
