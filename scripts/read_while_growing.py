"""Appends to a cube while readers that nobody here wrote read it in a loop. Each read must be a version.

Run it with the readers::

    npm ci --prefix scripts/viewer
    uv run --with tensorstore --with zarrs python scripts/read_while_growing.py FOLDER

Each append adds one row, of the next of the folder's files. So the last chunks of a shard are written again
and again. The readers are zarr-python, xarray and GDAL, and tensorstore, zarrs and zarrita if they are
installed. Each has a process. GDAL before 3.13 cannot open sharded arrays, so such a one reads the coordinate
``mean`` instead of pixels.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.errors
import xarray as xr
import zarr

from pixel_gather import Settings, gather, verify
from pixel_gather.core.read.measure_rows import digest_of

_N_APPENDS = 100
_ARRAY = "band_1"
_COORDINATE = "mean"
_GDAL_READS_SHARDS = tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) >= (3, 13)
_ZARRITA = Path(__file__).parent / "viewer"

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


def by_gdal(cube: Path) -> np.ndarray[Any, Any]:
    """Read by GDAL's Zarr driver. It has the rows of a coordinate as columns, and of an array as bands."""
    name = _ARRAY if _GDAL_READS_SHARDS else _COORDINATE
    warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
    with rasterio.open(f'ZARR:"{cube}":/{name}') as opened:
        found = opened.read()
    return np.asarray(found if _GDAL_READS_SHARDS else found[0, 0])


@cache
def _zarrita(cube: Path) -> "subprocess.Popen[bytes]":
    command = ["node", "read_array.mjs", str(cube), _ARRAY]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=_ZARRITA, **pipes)  # type: ignore[call-overload,no-any-return] # noqa: S603


def by_zarrita(cube: Path) -> np.ndarray[Any, Any]:
    """Read by zarrita, which web pages use: through the consolidated metadata. It runs in Node."""
    process = _zarrita(cube)
    assert process.stdin is not None  # noqa: S101 # they are pipes
    assert process.stdout is not None  # noqa: S101 # as above
    process.stdin.write(b"read\n")
    process.stdin.flush()
    nbytes, _, shape = process.stdout.readline().decode().partition(" ")
    content = process.stdout.read(int(nbytes))
    return np.frombuffer(content, dtype=zarr.open_array(cube / _ARRAY, mode="r").dtype).reshape(
        json.loads(shape)
    )


_READERS: dict[str, Read] = {
    "zarr-python": by_zarr_python,
    "xarray": by_xarray,
    "tensorstore": by_tensorstore,
    "zarrs": by_zarrs,
    "zarrita": by_zarrita,
    "gdal": by_gdal,
}


def read_on(name: str, cube: Path) -> None:
    """Read until the cube is grown. Then compare all reads with the rows of the last one, and exit."""
    read, is_over = _READERS[name], cube.with_suffix(".over")
    if name == "zarrs":
        import_module("zarrs")  # registers its pipeline
    os.nice(10)  # the appends go first
    found: Counter[tuple[int, str]] = Counter()  # number of rows, and a digest of them
    while not is_over.exists():
        pixels = read(cube)
        found[len(pixels), digest_of(pixels)] += 1
    whole = read(cube)
    n_wrong = sum(n for (n_rows, told), n in found.items() if told != digest_of(whole[:n_rows]))
    n_sizes = len({n_rows for n_rows, _ in found})
    if name == "gdal":
        name = f"GDAL {rasterio.__gdal_version__}, {_ARRAY if _GDAL_READS_SHARDS else _COORDINATE}"
    told = f"{found.total()} reads, of {n_sizes} versions, {n_wrong} wrong; {len(whole)} rows at the end"
    print(f"{name}: {told}")  # noqa: T201
    sys.exit(n_wrong > 0 or len(whole) != _N_APPENDS + 1)


def _is_installed(name: str) -> bool:
    if name == "zarrita":
        return (_ZARRITA / "node_modules/zarrita").is_dir()
    return name in ("zarr-python", "xarray", "gdal") or find_spec(name) is not None


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
    there = [name for name in _READERS if _is_installed(name)]
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
