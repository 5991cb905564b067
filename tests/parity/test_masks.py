"""Every kind of mask hides the same pixels as in GDAL, on both paths, bit by bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr

from parity.readers import Readings
from parity.truth import AS_FOR_THE_TRUTH
from pixel_gather.core.model.window import Window
from support.undrawn import gather_undrawn

type Array = np.ndarray[Any, Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NodataShadowWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
]

_NODATA: Final = 42113
_METADATA: Final = 42112
_SUBFILE_TYPE: Final = 254
_PHOTOMETRIC: Final = 262
_MASK: Final = 4
SIDE: Final = 40

RNG: Final = np.random.default_rng(11)
RGB: Final = RNG.integers(0, 4, (3, SIDE, SIDE)).astype("uint8") * 50
RGBA: Final = RNG.integers(0, 3, (4, SIDE, SIDE)).astype("uint8") * 100
FAR: Final = np.resize(np.array([-3.2e38, -1e38, -1e30, 0, 5, 3.2e38], "float32"), (1, SIDE, SIDE))
SHOWN: Final = (RNG.random((3, SIDE, SIDE)) > 0.5).astype("uint8") * 255
OPAQUE: Final[dict[str, Any]] = {
    "photometric": "rgb",
    "extrasamples": ["unassalpha"],
    "planarconfig": "separate",
}


def text_tag(tag: int, text: str) -> tuple[Any, ...]:
    """Return a text tag for tifffile."""
    return (tag, 2, len(text) + 1, text, True)


def plain(
    image: Array, *, nodata: str | None = None, metadata: str = "", **options: Any
) -> Callable[..., None]:
    """Return a function that writes an image with nodata and GDAL's metadata as text."""
    tags = [text_tag(_METADATA, f"<GDALMetadata>{metadata}</GDALMetadata>")] if metadata else []
    tags += [text_tag(_NODATA, nodata)] if nodata is not None else []

    def write(path: Path) -> None:
        options.setdefault("photometric", "minisblack")
        tifffile.imwrite(path, image, extratags=tags, metadata=None, tile=(16, 16), **options)

    return write


def with_mask(image: Array, shown: Array, *, nodata: str | None = None) -> Callable[..., None]:
    """Return a function that writes an image with an internal mask, of one band or of all."""
    tags = [text_tag(_NODATA, nodata)] if nodata is not None else []

    def write(path: Path) -> None:
        with tifffile.TiffWriter(path) as target:
            target.write(image, photometric="rgb", planarconfig="separate", metadata=None, extratags=tags)
            planes = "separate" if shown.ndim > 2 else None
            target.write(shown, photometric="minisblack", planarconfig=planes, subfiletype=1, metadata=None)
        with tifffile.TiffFile(path, mode="r+") as target:
            mask = target.pages[1].aspage()
            mask.tags[_SUBFILE_TYPE].overwrite(_MASK)
            mask.tags[_PHOTOMETRIC].overwrite(_MASK)

    return write


def around(nodata: float, dtype: str) -> Array:
    """Return nodata and its nearest neighbours in a dtype."""
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore"):
        values = [kind(nodata), np.nan, np.inf, -np.inf, kind(0), kind(-nodata)]
        for towards in (kind(np.inf), kind(-np.inf)):
            near = kind(nodata)
            for _ in range(12):
                near = np.nextafter(near, towards)
                values.append(near)
        values += [kind(nodata * (1 + 10.0**-n)) for n in range(2, 16)]
    numbers: Array = np.resize(np.array(values, dtype), (1, SIDE, SIDE))
    return numbers


def half_imaginary(image: Array) -> Array:
    """Return complex numbers, every second one with an imaginary part."""
    complexes: Array = (image + 1j * (np.arange(image.size).reshape(image.shape) % 2)).astype("complex64")
    return complexes


KINDS: Final = {
    "no mask": plain(RGB, photometric="rgb", planarconfig="separate"),
    "mask of the dataset": with_mask(RGB, SHOWN[0]),
    "mask of each band": with_mask(RGB, SHOWN),
    "mask of each band, 0 and 1": with_mask(RGB, SHOWN // 255),
    "mask of each band and nodata": with_mask(RGB, SHOWN, nodata="50"),
    "mask of the dataset and nodata": with_mask(RGB, SHOWN[0], nodata="50"),
    "alpha": plain(RGBA, **OPAQUE),
    "associated alpha": plain(RGBA, **(OPAQUE | {"extrasamples": ["assocalpha"]})),
    "alpha of 16 bits": plain(RGBA.astype("uint16") * 300, **OPAQUE),
    "alpha and nodata": plain(RGBA, nodata="100", **OPAQUE),
    "alpha beside grey": plain(RGBA[:2], extrasamples=["unassalpha"], planarconfig="separate"),
    "alpha by its colour": plain(
        RGBA[:2],
        planarconfig="separate",
        metadata='<Item name="COLORINTERP" sample="1" role="colorinterp">Alpha</Item>',
    ),
    "nodata of all bands together": plain(
        RGB,
        photometric="rgb",
        planarconfig="separate",
        metadata='<Item name="NODATA_VALUES">50 100 150</Item>',
    ),
    "nodata": plain(RGB, photometric="rgb", planarconfig="separate", nodata="100"),
    "nodata out of range": plain(RGB[:1], nodata="-9999"),
    "nodata between integers": plain(RGB[:1], nodata="50.5"),
    "nodata between 16-bit integers": plain(RGB[:1].astype("int16"), nodata="-0.5"),
    "nodata that is no number": plain(RGB[:1], nodata="x"),
    "nodata of 64 bits": plain(RGB[:1].astype("int64") + 2**60 - 50, nodata=str(2**60)),
    "nodata of 64 bits below zero": plain((RGB[:1].astype("int64") - 50).astype("uint64"), nodata="-50"),
    "nodata of all 64 bits": plain((RGB[:1].astype("int64") - 1).astype("uint64"), nodata=str(2**64 - 1)),
    "nodata of more than 64 bits": plain(RGB[:1].astype("int64") + (2**63 - 151), nodata=str(2**70)),
    "nodata of 64 bits with a fraction": plain(RGB[:1].astype("int64"), nodata="50.5"),
    "NaN": plain(around(-9999, "float32"), nodata="nan"),
    "infinity": plain(around(-9999, "float32"), nodata="inf"),
    **{
        f"{dtype} around {nodata}": plain(around(nodata, dtype), nodata=repr(nodata))
        for dtype in ("float16", "float32", "float64")
        for nodata in (-9999.0, 0.1, 0.0, 3.4028234663852886e38)
    },
    "float32 far from a huge nodata": plain(FAR, nodata="-3.4028234663852886e+38"),
    "float32 whose sum with nodata overflows": plain(FAR, nodata="-5e37"),
    "float64 far from a huge nodata": plain(FAR.astype("float64") * 1e269, nodata="-1.7e308"),
    "complex": plain(half_imaginary(around(-9999, "float32"))[:, :, :], nodata="-9999"),
}
"""Functions that write a file of each kind."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("masks")
    paths = {kind: folder / f"{index}.tif" for index, kind in enumerate(KINDS)}
    for kind, path in paths.items():
        KINDS[kind](path)
    return paths


def filled(dataset: Any, bands: list[int], nodata: float | None) -> Array:
    """Return GDAL's pixels, with nodata where they are hidden, or 0 without a nodata value."""
    pixels: Array = dataset.read(bands)
    with np.errstate(over="ignore"):
        fill = np.array(0 if nodata is None else nodata).astype(pixels.dtype)
    return np.where(dataset.read_masks(bands) == 0, fill, pixels)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_reader_hides_what_gdal_hides(readings: Readings, made: dict[str, Path], kind: str) -> None:
    """This holds for all bands and for some in another order. Hidden pixels keep the value of the buffer."""
    source = readings.open_(f"file://{made[kind]}")
    header = source.header
    whole = Window(col_off=0, row_off=0, width=SIDE, height=SIDE)
    with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(made[kind]) as dataset:
        for bands in (list(dataset.indexes), [dataset.count, 1]):
            expected = filled(dataset, bands, header.nodata)
            out = np.zeros_like(expected)
            if header.nodata is not None:
                with np.errstate(over="ignore"):
                    out[...] = header.nodata

            readings.read_into(source, out, whole, bands, masked=True)

            assert out.tobytes() == expected.tobytes()


def test_directories_below_the_first_one_are_gdals(readings: Readings, tmp_path: Path) -> None:
    """They are overviews and masks before those that follow the first one."""
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as target:
        target.write(RGB[0], photometric="minisblack", subifds=2, metadata=None)
        target.write(RGB[0, ::2, ::2], photometric="minisblack", subfiletype=1, metadata=None)
        target.write(SHOWN[0], photometric="minisblack", subfiletype=1, metadata=None)
        target.write(RGB[0, ::4, ::4], photometric="minisblack", subfiletype=1, metadata=None)
    with tifffile.TiffFile(path, mode="r+") as target:
        below = target.pages[0].aspage().pages
        assert below is not None
        mask = below[1].aspage()
        mask.tags[_SUBFILE_TYPE].overwrite(_MASK)
        mask.tags[_PHOTOMETRIC].overwrite(_MASK)
    whole = Window(col_off=0, row_off=0, width=SIDE, height=SIDE)
    with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(path) as dataset:
        expected, levels = filled(dataset, [1], None), dataset.overviews(1)

    source = readings.open_(path.as_uri())
    out = readings.read_into(source, np.zeros_like(expected), whole, [1], masked=True)
    overviews = readings.runner.run(source.overviews())
    first = readings.open_(path.as_uri(), overview=0)

    assert out.tobytes() == expected.tobytes()
    assert levels == [2, 4]
    assert [SIDE // each.header.width for each in overviews] == levels
    assert first.header.width == SIDE // 2
    assert source.packed_header is None


def test_kinds_are_all_that_gdal_has(made: dict[str, Path]) -> None:
    """The kinds cover each of GDAL's mask flags and their usual combinations."""
    seen = set()
    for path in made.values():
        with rasterio.Env(**AS_FOR_THE_TRUTH), rasterio.open(path) as dataset:
            seen |= {frozenset(flag.name for flag in flags) for flags in dataset.mask_flag_enums}

    assert seen == {
        frozenset(),
        frozenset({"all_valid"}),
        frozenset({"per_dataset"}),
        frozenset({"nodata"}),
        frozenset({"per_dataset", "alpha"}),
        frozenset({"per_dataset", "nodata"}),
    }


@pytest.mark.long
def test_gather_hides_what_each_bands_own_mask_hides(made: dict[str, Path], tmp_path: Path) -> None:
    """Hidden pixels hold nodata in the cube and do not count as valid."""
    path = made["mask of each band"]
    request = {
        "sources": [path.as_uri()],
        "window": {"pixels": [0, 0, SIDE, SIDE]},
        "masked": True,
        "nodata": 7,
        "bands": [1, 2, 3],
    }

    gather_undrawn(request, to=tmp_path / "cube")

    with rasterio.open(path) as dataset:
        expected = filled(dataset, [1, 2, 3], 7)
    with xr.open_zarr(tmp_path / "cube", mask_and_scale=False) as cube:
        stored = [cube[f"band_{band}"].values for band in (1, 2, 3)]
        n_valid = cube["valid_fraction"].values.ravel() * SIDE**2
    np.testing.assert_array_equal(np.concatenate(stored), expected)
    np.testing.assert_allclose(n_valid, (expected != 7).sum(axis=(1, 2)))
