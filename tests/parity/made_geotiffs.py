"""Makes GeoTIFFs of random kinds by GDAL. Each seed stands for one file.

GDAL refuses many combinations of options. A few crash it, or never end. So it writes in another process. A
seed has no file if its combination is refused, crashes GDAL or does not end.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import rasterio
from rasterio.errors import RasterioError
from rasterio.transform import Affine
from rasterio.windows import Window

type Array = np.ndarray[Any, Any]

_LONGEST_S: Final = 15
_MADE: Final = "made"

_DTYPES: Final = (
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128", "complex_int16"),
)
_COMPRESSIONS: Final = (
    *("none", "deflate", "deflate", "lzw", "zstd", "packbits", "lzma", "jpeg", "webp", "jxl"),
    *("lerc", "lerc_deflate", "lerc_zstd", "ccittrle", "ccittfax3", "ccittfax4"),
)
_OF_PICTURES: Final = ("jpeg", "webp", "ccittrle", "ccittfax3", "ccittfax4")
_WIDTHS: Final = (1, 3, 16, 17, 64, 100, 129, 300, 515)
_HEIGHTS: Final = (1, 2, 16, 33, 64, 97, 128, 260, 511)
_BANDS: Final = (1, 1, 1, 2, 3, 4, 5, 9)
_PHOTOMETRICS: Final = ("rgb", "minisblack", "miniswhite", "cielab", "cmyk")
_SIDES: Final = (16, 32, 48, 64, 128, 256)
_NODATA: Final = (0, 255, 0.5, -9999, 1e20, float("nan"), 127, -1, 3.4028234663852886e38)
_TRANSFORMS: Final = (
    *(Affine(10, 0, 500_000, 0, -10, 4_600_000), Affine(0.01, 0, 179.9, 0, -0.01, 60)),
    *(Affine(10, 0, 500_000, 0, 10, 4_600_000), Affine(9, 2, 500_000, 1, -9, 4_600_000), None),
)
"""North up, across the antimeridian, south up, rotated, and none."""

_CRSS: Final = (
    *(
        "EPSG:4326",
        "EPSG:32633",
        "EPSG:3857",
        "EPSG:3035",
        "EPSG:2154",
        "EPSG:4979",
        "EPSG:5070",
        "EPSG:3031",
    ),
    *("EPSG:27700", "EPSG:2193", "EPSG:4326+5773", "ESRI:54009", "+proj=sinu +R=6371007.181 +units=m", None),
)
_CONTENTS: Final = ("noise", "slope", "one value", "half nodata", "not finite")


class Maker:
    """A process that writes the files. It is started again after a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def make(self, seed: int, path: Path) -> bool:
        """Write the file of a seed. Return whether GDAL could."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 # our own words
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seed} {path}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._process = None
        return answer == f"{_MADE}\n"


def write(path: Path, seed: int) -> None:
    """Write the file of a seed.

    Raises:
        RasterioError, ValueError, OverflowError: GDAL or rasterio refuse what was drawn.
    """
    rng = np.random.default_rng(seed)
    options = _options(rng)
    pixels = _pixels(rng, options)
    is_internal = bool(rng.random() < 0.8)
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=is_internal),
        rasterio.open(path, "w", driver="GTiff", **options) as file,
    ):
        if rng.random() < 0.7:
            file.write(pixels)
        else:  # the tiles of the rest are absent or empty
            rows, cols = max(file.height // 2, 1), max(file.width // 2, 1)
            file.write(pixels[:, :rows, :cols], window=Window(0, 0, cols, rows))
        if rng.random() < 0.15:
            file.scales, file.offsets = [0.1] * file.count, [5.0] * file.count
        if rng.random() < 0.3:
            file.write_mask((rng.random((file.height, file.width)) > 0.3).astype("uint8") * 255)
        if rng.random() < 0.1:
            file.update_tags(note="n" * int(rng.choice([10, 5_000, 70_000])))
    if rng.random() < 0.25:
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2, 4])


def _options(rng: np.random.Generator) -> dict[str, Any]:
    dtype, compression, n_bands = _draw(rng, _DTYPES), _draw(rng, _COMPRESSIONS), _draw(rng, _BANDS)
    if compression in _OF_PICTURES and rng.random() < 0.8:
        dtype = "uint8"  # others take little else
    options: dict[str, Any] = {
        "dtype": dtype,
        "count": n_bands,
        "width": _draw(rng, _WIDTHS),
        "height": _draw(rng, _HEIGHTS),
        "compress": compression,
        "interleave": _draw(rng, ("pixel", "band")),
        "crs": _draw(rng, _CRSS),
        "transform": _draw(rng, _TRANSFORMS),
    }
    if rng.random() < 0.7:
        options |= {"tiled": True, "blockxsize": _draw(rng, _SIDES), "blockysize": _draw(rng, _SIDES)}
    else:
        options |= {"blockysize": _draw(rng, (1, 2, 7, 16, 64))}
    if compression in ("deflate", "lzw", "zstd"):
        options |= {"predictor": _draw(rng, (1, 2, 3))}
    is_ycbcr = compression == "jpeg" and n_bands == 3
    is_of_integers = dtype in ("uint8", "uint16", "uint32")
    most_bits = 8 * np.dtype(dtype).itemsize if is_of_integers else 16
    sometimes: tuple[tuple[bool, dict[str, Any]], ...] = (
        (n_bands > 2, {"photometric": _draw(rng, _PHOTOMETRICS)}),
        (is_ycbcr, {"photometric": "ycbcr"}),
        (compression.startswith("ccitt"), {"nbits": 1}),
        (is_of_integers or dtype == "float32", {"nbits": int(rng.integers(1, most_bits + 1))}),
        (n_bands in (2, 4), {"alpha": "yes"}),
        (True, {"nodata": _draw(rng, _NODATA)}),
        (True, {"nodata": _draw(rng, _NODATA)}),
        (True, {"bigtiff": True}),
        (True, {"endianness": "big"}),
        (True, {"sparse_ok": True}),
        (True, {"sparse_ok": True}),
        (True, {"webp_lossless": True, "jxl_lossless": True}),
        (True, {"max_z_error": 0.01}),
    )
    for fits, more in sometimes:
        if rng.random() < 0.25 and fits:
            options |= more
    return options


def _draw[T](rng: np.random.Generator, of: tuple[T, ...]) -> T:
    return of[int(rng.integers(len(of)))]


def _pixels(rng: np.random.Generator, options: dict[str, Any]) -> Array:
    dtype = np.dtype("complex64" if options["dtype"] == "complex_int16" else options["dtype"])
    shape = options["count"], options["height"], options["width"]
    content = _draw(rng, _CONTENTS)
    pixels: Array
    if dtype.kind == "c":
        pixels = (rng.integers(-100, 100, shape) + 1j * rng.integers(-100, 100, shape)).astype(dtype)
    elif dtype.kind == "f":
        pixels = rng.normal(0, 100, shape).astype(dtype)
    else:
        bits = 1 if options["compress"].startswith("ccitt") else options.get("nbits")
        limits = np.iinfo(dtype)
        low, high = (0, 2**bits - 1) if bits else (limits.min, limits.max)
        pixels = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    if content == "slope" and dtype.kind != "c":
        rows, cols = np.indices(shape[1:])
        pixels[:] = (rows + cols) % 100
    if content == "one value":
        pixels[:] = pixels.flat[0]
    if content == "half nodata" and "nodata" in options:
        pixels[:, : shape[1] // 2] = options["nodata"]
    if content == "not finite" and dtype.kind == "f":
        pixels.flat[::7], pixels.flat[1::11] = np.nan, np.inf
    return pixels


def _answer() -> None:
    """Write a file for each line of standard input, which has its seed and its path."""
    for line in sys.stdin:
        seed, path = line.rstrip("\n").split(" ", 1)
        signal.alarm(_LONGEST_S)
        try:
            write(Path(path), int(seed))
            answer = _MADE
        except (RasterioError, ValueError, OverflowError):
            answer = "refused"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _answer()
