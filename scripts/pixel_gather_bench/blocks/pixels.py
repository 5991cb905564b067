"""The pixels that are written: a generated field, or those of an existing cube.

They are kept as one ``.npy`` file, so that every process begins with the same pixels.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import zarr
from msgspec import Struct
from zarr.abc.store import Store as ZarrStore
from zarr.storage import LocalStore, ObjectStore

from pixel_gather.core.errors import RequestError
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.io.cube.tile_codecs import register_codecs
from pixel_gather.io.store.object_store import open_to_read, split_href
from pixel_gather.io.store.store_error_status import said_of_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.sweep import MB, Shape

SIDE: Final = 512
"""Pixels along a side of the field: one tile of the report of 2018 in each row."""

_SEED: Final = 20180729
_N_TEXTURES: Final = 8
_SCALE, _OFFSET = 2.75e-5, -0.2
"""From numbers to reflectances, as Landsat's."""


class BlockPixels(Struct, frozen=True, kw_only=True):
    """Where the pixels are and what they are."""

    file: Path
    shape: Shape
    dtype: str
    about: str
    """One sentence for readers of the figures."""


def make_field(file: Path, *, dtype: str, total_mb: float) -> BlockPixels:
    """Write a field of relief and noise, the same at every call: uint16 numbers or float32 reflectances."""
    n_rows = max(round(total_mb * MB / (SIDE * SIDE * np.dtype(dtype).itemsize)), 1)
    shape = (n_rows, SIDE, SIDE)
    into = np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
    for row, numbers in enumerate(_field(n_rows)):
        into[row] = numbers.round() if dtype == "uint16" else numbers * _SCALE + _OFFSET
    into.flush()
    about = (
        "made for this benchmark. Each row has 512 x 512 pixels of a smooth relief that changes with "
        "the season. A texture with a 1/f spectrum is added, as natural scenes have it. The values are "
        + ("16-bit numbers as Landsat's" if dtype == "uint16" else "reflectances of the same")
    )
    return BlockPixels(file=file, shape=shape, dtype=dtype, about=about)


def spectral_noise(rng: np.random.Generator, side: int, *, power: float) -> Pixels:
    """Return noise with a 1/f spectrum, shape (side, side), in standard deviations. Powers smooth it."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :]).clip(1 / side)
    amplitude = frequency**-power
    relief = np.fft.irfft2(amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape)), s=(side, side))
    scaled: Pixels = relief / relief.std()
    return scaled


def copy_cube(
    file: Path, cube: str, *, name: str | None, settings: StoreSettings, total_mb: float
) -> BlockPixels:
    """Copy the first rows of a cube's measurement.

    Without a name, it is the first with rows of images.

    Raises:
        RequestError: There is no such cube or measurement, or one row of it is larger than that.
    """
    array = _open_measurement(cube, name, settings)
    n_rows = min(int(total_mb * MB) // (array.nbytes // array.shape[0]), array.shape[0])
    if n_rows == 0:
        raise RequestError(
            f"one row of {cube} has {array.nbytes / array.shape[0] / MB:,.1f} MB: ask for more",
            field="total-mb",
        )
    pixels = np.asarray(array[:n_rows])
    np.save(file, pixels)
    about = f"the first {n_rows:,} rows of {array.path.strip('/') or 'the array'} of {cube}"
    return BlockPixels(file=file, shape=pixels.shape, dtype=pixels.dtype.name, about=about)


def as_floats(pixels: BlockPixels, file: Path) -> BlockPixels:
    """Return the same pixels as float32, which zfp needs: so many rows as are no more bytes."""
    n_rows = max(pixels.shape[0] * np.dtype(pixels.dtype).itemsize // 4, 1)
    floats = np.load(pixels.file, mmap_mode="r")[:n_rows].astype("float32")
    np.save(file, floats)
    about = f"for zfp, {n_rows:,} of them as float32"
    return BlockPixels(file=file, shape=floats.shape, dtype="float32", about=about)


def zarr_store(place: str, settings: StoreSettings) -> ZarrStore:
    """Open a checked place as those do who read cubes: a folder by zarr-python itself, S3 by obstore."""
    root, path = split_href(place)
    if root == "file://":
        return LocalStore(f"/{path}", read_only=True)
    return ObjectStore(open_to_read(place, settings), read_only=True)


def _open_measurement(cube: str, name: str | None, settings: StoreSettings) -> zarr.Array[Any]:
    register_codecs()
    try:
        group = zarr.open_group(zarr_store(cube, settings), mode="r")
        arrays = [array for key, array in group.arrays() if array.ndim == 3 and name in (None, key)]  # noqa: PLR2004 # (row, y, x)
    except Exception as error:  # a store's errors, and whatever zarr-python makes of what is there
        raise RequestError(f"no cube can be read at {cube}: {said_of_place(error)}", field="cube") from error
    if not arrays or not all(arrays[0].shape):
        raise RequestError(
            f"{cube} has no measurement {f'{name} ' if name else ''}of (row, y, x)", field="cube"
        )
    if arrays[0].dtype.kind not in "uif":
        raise RequestError(f"the pixels of {cube} are {arrays[0].dtype}, not real numbers", field="cube")
    return arrays[0]


def _field(n_rows: int) -> Iterator[Pixels]:
    rng = np.random.default_rng(_SEED)
    relief = spectral_noise(rng, SIDE, power=2)
    textures = [spectral_noise(rng, SIDE, power=1) for _ in range(_N_TEXTURES)]
    for row in range(n_rows):
        texture = np.roll(textures[row % _N_TEXTURES], rng.integers(0, SIDE, 2), axis=(0, 1))
        season = 1 + 0.2 * np.sin(2 * np.pi * row / 23)
        strength = 2.0 ** (3.5 + 7.8 * rng.beta(2.2, 1.35))  # so that ratios spread as those of the report
        yield (11_000 * season + 800 * relief + strength * texture).clip(1, 65_535)
