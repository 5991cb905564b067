"""Appends to a cube while readers that nobody here wrote read it in a loop. Each read must be a version.

Run it with the readers::

    uv run --with tensorstore --with zarrs python scripts/read_while_growing.py FOLDER

Each append adds one row, of the next of the folder's files. So the last chunks of a shard are written again
and again. The readers are zarr-python and xarray, and tensorstore and zarrs if they are installed. Each has a
process.
"""

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from pixel_gather import Settings, gather, verify

_N_APPENDS = 100
_ARRAY = "band_1"

type Read = Callable[[Path], np.ndarray[Any, Any]]


def by_zarr_python(cube: Path) -> np.ndarray[Any, Any]:
    """Read by zarr-python: through the consolidated metadata."""
    array: Any = zarr.open_group(cube, mode="r")[_ARRAY]
    return np.asarray(array[...])


def by_xarray(cube: Path) -> np.ndarray[Any, Any]:
    """Read by xarray. All coordinates must have the same number of rows."""
    return np.asarray(xr.open_zarr(cube, chunks=None).load()[_ARRAY].values)


def by_tensorstore(cube: Path) -> np.ndarray[Any, Any]:
    """Read by tensorstore: through the array's own metadata."""
    tensorstore: Any = import_module("tensorstore")  # only if it is installed

    place = {"driver": "file", "path": str(cube / _ARRAY)}
    opened = tensorstore.open({"driver": "zarr3", "kvstore": place}, read=True, open=True).result()
    return np.asarray(opened.read().result())


def by_zarrs(cube: Path) -> np.ndarray[Any, Any]:
    """Read by zarrs, a Rust implementation, through the interface of zarr-python."""
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return np.asarray(zarr.open_array(cube / _ARRAY, mode="r")[...])


_READERS: dict[str, Read] = {
    "zarr-python": by_zarr_python,
    "xarray": by_xarray,
    "tensorstore": by_tensorstore,
    "zarrs": by_zarrs,
}


def read_on(name: str, cube: Path) -> None:
    """Read until the cube is grown. Then compare all reads with the rows of the last one, and exit."""
    read, is_over = _READERS[name], cube.with_suffix(".over")
    if name == "zarrs":
        import_module("zarrs")  # registers its pipeline
    found: list[np.ndarray[Any, Any]] = []
    while not is_over.exists():
        found.append(read(cube))
    whole = read(cube)
    n_wrong = sum(not np.array_equal(each, whole[: len(each)], equal_nan=True) for each in found)
    n_sizes = len({len(each) for each in found})
    print(f"{name}: {len(found)} reads, of {n_sizes} versions, {n_wrong} wrong; {len(whole)} rows at the end")  # noqa: T201
    sys.exit(n_wrong > 0 or len(whole) != _N_APPENDS + 1)


def main(sources: Path) -> int:
    """Append, read, compare; return the exit code."""
    folder = Path(tempfile.mkdtemp())
    files = sorted(sources.glob("*.tif"))
    cube = folder / "cube.zarr"
    settings = Settings(draws_report=False)
    window = {"pixels": [0, 0, 40, 30]}
    layout = {"layout": {"chunk": [4, 16, 16], "shard_rows": 16}, "expected_rows": 1000}

    def listed(n: int) -> str:
        path = folder / f"{n}.csv"
        path.write_text(f"href,n\n{files[n % len(files)].resolve()},{n}\n")
        return str(path)

    gather({"sources": listed(0), "window": window, "output": layout}, to=cube, settings=settings)
    there = [name for name in _READERS if name in ("zarr-python", "xarray") or find_spec(name)]
    context = get_context("spawn")
    readers = [context.Process(target=read_on, args=(name, cube)) for name in there]
    for reader in readers:
        reader.start()
    for n in range(1, _N_APPENDS + 1):
        asked = {"sources": listed(n), "window": window, "duplicates": "again"}
        gather(asked | {"output": {"append_to": str(cube)}}, settings=settings)
    cube.with_suffix(".over").touch()
    for reader in readers:
        reader.join()
    differences = verify(cube).differences
    print(f"verify: {differences or 'the same'}")  # noqa: T201
    return 1 if differences or any(reader.exitcode for reader in readers) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
