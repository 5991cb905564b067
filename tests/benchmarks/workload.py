"""Make the files that the benchmarks read: single-band COGs as the Landsat 8 scenes of the published report.

Each is a 7,591 x 7,671 ``uint16`` image in 512x512 tiles, DEFLATE with predictor 2, without overviews, its
header in the first 3 KB. Only the centre tile, the one that is read, holds a picture: noise with a 1/f
spectrum, as natural scenes have, whose strength differs from file to file so that compressed sizes spread
like the report's (median 403,570 bytes [241,315..467,655]). All others are constant, a few hundred bytes
each, so a file takes half a megabyte on disk and the centre tile still lies well behind the header.

Pixels depend on nothing but the file's number and ``SEED``.
"""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final

import imagecodecs
import numpy as np
import tifffile
import xxhash

SEED: Final = 20180729
RECIPE: Final = 1
"""Raise it when anything below changes what is written: the folder's name carries it."""

TILE: Final = 512
N_ACROSS: Final = 15
WIDTH, HEIGHT = 7591, 7671
_DIGESTS: Final = "digests.json"

_GEO_KEYS: Final = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32655)
EXTRA_TAGS: Final = (
    (33550, "d", 3, (30.0, 30.0, 0.0), True),  # ModelPixelScale
    (33922, "d", 6, (0.0, 0.0, 0.0, 571785.0, -3713385.0, 0.0), True),  # ModelTiepoint
    (34735, "H", len(_GEO_KEYS), _GEO_KEYS, True),  # GeoKeyDirectory: UTM zone 55N
)
"""Place every file on the map."""


def default_folder() -> Path:
    """Return where the files of this recipe are kept between runs."""
    return Path(__file__).parents[2] / "build" / f"benchmark-{RECIPE}-{SEED}"


def make_workload(folder: Path, *, n_files: int) -> dict[str, str]:
    """Write those of the first ``n_files`` that are not there yet.

    Args:
        folder: Made if need be; its ``digests.json`` names the files that are complete.
        n_files: How many are wanted; there may be more.

    Returns:
        For each wanted file's name, in order, the xxh3-64 digest of its centre tile's pixels.
    """
    listing = folder / _DIGESTS
    known: dict[str, str] = json.loads(listing.read_bytes()) if listing.exists() else {}
    if len(known) < n_files:
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            known |= threads.map(lambda index: _write_file(folder, index), range(len(known), n_files))
        unfinished = _unfinished(listing)
        unfinished.write_text(json.dumps(known))
        unfinished.replace(listing)
    return dict(islice(known.items(), n_files))


def centre_tile(index: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Return the pixels of one file's centre tile, shape (512, 512)."""
    rng = np.random.default_rng((SEED, index))
    amplitude = 1 / np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.rfftfreq(TILE)[None, :]).clip(1 / TILE)
    spectrum = amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape))
    relief = np.fft.irfft2(spectrum, s=(TILE, TILE))
    strength = 2.0 ** (3.5 + 7.8 * rng.beta(2.2, 1.35))
    pixels: np.ndarray[Any, np.dtype[np.uint16]] = (
        (11_000 + strength * relief / relief.std()).clip(1, 65_535).astype(np.uint16)
    )
    return pixels


def _write_file(folder: Path, index: int) -> tuple[str, str]:
    pixels = centre_tile(index)
    path = folder / f"scene_{index:04d}.tif"
    unfinished = _unfinished(path)
    tifffile.imwrite(
        unfinished,
        data=_encoded_tiles(pixels),
        shape=(HEIGHT, WIDTH),
        dtype=np.uint16,
        tile=(TILE, TILE),
        compression="zlib",
        predictor=2,
        photometric="minisblack",
        metadata=None,
        software=False,
        extratags=EXTRA_TAGS,
    )
    unfinished.replace(path)
    return path.name, xxhash.xxh3_64_hexdigest(pixels)


def _unfinished(path: Path) -> Path:
    """Return the name of a file until it is complete. Two processes may make the same files at one time."""
    return path.with_suffix(f".{os.getpid()}.unfinished")


def _encoded_tiles(centre: np.ndarray[Any, np.dtype[np.uint16]]) -> Iterator[bytes]:
    empty = _encode(np.zeros((TILE, TILE), np.uint16))
    for row in range(N_ACROSS):
        for column in range(N_ACROSS):
            yield _encode(centre) if row == column == N_ACROSS // 2 else empty


def _encode(pixels: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    return bytes(imagecodecs.zlib_encode(imagecodecs.delta_encode(pixels, axis=1), level=6))
