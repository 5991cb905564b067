"""A cube of somebody else: one of its files is what the input says."""

import functools
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import obstore
from obstore.store import MemoryStore

from fuzz.mutations import mutated_bytes, mutated_json
from geotiff.small_tiffs import geotiff, noise
from pixel_gather import Settings, gather
from pixel_gather.core.errors import GatherError
from pixel_gather.features.export.cube_rows import CubeRows
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.rows.read_rows import RowColumns
from pixel_gather.features.verify.check_cube import check_cube
from pixel_gather.io.cube.open_group import finished_group
from pixel_gather.io.cube.row_table import read_table
from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.event_loop import run

__all__ = ["fuzz_one", "mutated", "seeds"]

_PLACE: Final = "cube"
_numbers: Final = count()
_CHANGED: Final = (
    "zarr.json",
    "receipt.json",
    "rows.parquet",
    "quicklooks.npz",
    "band_1/zarr.json",
    "band_1/c/0/0/0",
    "href/c/0",
    "status/c/0",
    "report.json",
    "time/c/0",
)
"""The first byte of an input chooses one; the other bytes are its new content."""


@functools.cache
def sound() -> dict[str, bytes]:
    """Return the files of a small cube, by key."""
    with TemporaryDirectory() as folder:
        for number in range(3):
            image = noise((1, 32, 32), "uint16", seed=number)
            geotiff(Path(folder) / f"a_2024010{number + 1}.tif", image, crs="EPSG:32632")
        request = {"sources": {"prefix": folder, "glob": "*.tif", "time": "_%Y%m%d"}, "window": "centre"}
        gather(
            request,
            to=f"{folder}/cube.zarr",
            settings=Settings(draws_report=False),
        )
        root = Path(folder) / "cube.zarr"
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }


def seeds() -> list[bytes]:
    """Return each file as it is in the sound cube."""
    return [bytes([n]) + sound()[key] for n, key in enumerate(_CHANGED) if key in sound()]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return the same file of the cube, changed."""
    is_json = content[:1] and _key(content).endswith(".json")
    return content[:1] + (mutated_json if is_json else mutated_bytes)(content[1:], chance)


def fuzz_one(content: bytes) -> None:
    """Read the cube in every way. What is damaged is an error that names the place."""
    if not content:
        return
    store: Any = MemoryStore()
    for key, each in (sound() | {_key(content): content[1:]}).items():
        obstore.put(store, key, each)
    for read in _READS:
        with suppress(GatherError):
            read(store)


def _key(content: bytes) -> str:
    return _CHANGED[content[0] % len(_CHANGED)]


def _read_table(store: Any) -> None:
    read_table(bytes(obstore.get(store, "rows.parquet").bytes()), None, place=_PLACE)


def _coordinates(store: Any) -> None:
    """Read two of them. They are kept by their place, so each input has another."""
    place = f"cube {next(_numbers)}"
    RowColumns(store, place=place).columns(("href", "status"), field="where")


def _replay(store: Any) -> None:
    cube = StoredCube(store, place=_PLACE)
    n = min(cube.receipt.shape[0], 8)
    list(cube.rows(0, n))
    cube.versions(0, n)
    for name in cube.measurements:
        cube.pixels(name, slice(0, n), slice(0, 8))
        cube.nodata(name)


def _export(store: Any) -> None:
    with finished_group(store, _PLACE) as group:
        rows = CubeRows.of(group, rows=np.arange(2), measurements=())
        rows.names()
        for _ in rows.of_read_sources().read():
            pass


def _versions(store: Any) -> None:
    run(ZarrCube(store, _PLACE).found())


_READS: Final[tuple[Callable[[Any], Any], ...]] = (
    _read_table,
    lambda store: check_cube(store, place=_PLACE),
    _coordinates,
    _replay,
    _export,
    _versions,
    lambda store: read_evidence(store, place=_PLACE),
)
