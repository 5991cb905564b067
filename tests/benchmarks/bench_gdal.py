"""What do JPEG 2000, which only GDAL reads, and JPEG in TIFF take? Interleaved rounds of gathers.

``PYTHONPATH=tests uv run python -m benchmarks.bench_gdal``; README.md beside this file says what came out.
Files come by S3's protocol from another process. A careful user's script stands beside: rasterio in threads.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import rasterio
import zarr
from rasterio.windows import Window

from benchmarks.loopback_server import Behaviour, run_server
from benchmarks.output import Taken, compare, parser_of, put, take_turns, timed
from benchmarks.peers.careful_threads import ENCODING
from benchmarks.peers.rasterio_threads import MODERN
from benchmarks.peers.scenes import unsigned_s3
from pixel_gather import gather
from pixel_gather.in_process.settings import Settings
from support.cloud_store import variables

_WINDOW: Final = (2000, 2000, 512, 512)
_OURS: Final = "pixel-gather"
_NAMES: Final = {"CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".jp2,.tif"}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "jp2": {
        "driver": "JP2OpenJPEG", "count": 1, "dtype": "uint16", "width": 5490, "height": 5490,
        "blockxsize": 640, "blockysize": 640, "QUALITY": "100", "REVERSIBLE": "YES",
    },
    "tif": {
        "driver": "COG", "count": 3, "dtype": "uint8", "width": 8192, "height": 8192,
        "compress": "JPEG", "blocksize": 512, "overviews": "NONE",
    },
}  # fmt: skip
"""A band of Sentinel-2 of 20 m, with its sides and tiles; and an aerial image."""


def write_image(folder: Path, kind: str) -> Path:
    """Write an image of waves and noise."""
    profile = _KINDS[kind]
    n, most = profile["width"], np.iinfo(profile["dtype"]).max // 2
    along = np.arange(n)
    waves = np.add.outer(np.sin(along / 90), np.cos(along / 70)) / 4 + 0.5
    noise = np.random.default_rng(1).normal(0, 0.01, (n, n))
    pixels = ((waves + noise).clip(0, 1) * most).astype(profile["dtype"])
    place = rasterio.Affine(20, 0, 399_960, 0, -20, 5_900_040)
    path = folder / f"image.{kind}"
    with rasterio.open(path, "w", crs="EPSG:32633", transform=place, **profile) as target:
        target.write(np.stack([pixels] * profile["count"]))
    return path


def _gather(hrefs: Sequence[str], *, to: Path) -> None:
    rows = [{"href": href} for href in hrefs]
    request = {"sources": {"rows": rows}, "window": {"pixels": _WINDOW}, "bands": [1]}
    gather(request, to=to, settings=Settings(draws_report=False))


def _read_in_threads(hrefs: Sequence[str], *, n_threads: int, driver: str, dtype: str, to: Path) -> None:
    _, _, width, height = _WINDOW
    pixels = np.empty((len(hrefs), height, width), dtype)

    def read(href: str, out: np.ndarray[Any, Any]) -> None:
        with rasterio.open(href, driver=driver, sharing=False) as source:
            source.read(1, window=Window(*_WINDOW), out=out)

    paths = [f"/vsis3/{href.removeprefix('s3://')}" for href in hrefs]
    with ThreadPoolExecutor(n_threads, initializer=lambda: rasterio.Env().__enter__()) as threads:
        list(threads.map(read, paths, pixels))
    array = zarr.create_array(to, name="band_1", shape=pixels.shape, dtype=dtype, **ENCODING)
    array[:] = pixels


def main() -> None:
    """Measure every case in turn, round by round, and print medians and ratios."""
    parser = parser_of(main)
    parser.add_argument("--kind", choices=list(_KINDS), default="jp2")
    parser.add_argument("--files", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ttfb", type=float, default=30.0, help="milliseconds to the first byte")
    parser.add_argument("--threads", type=int, nargs="+", default=[8, 32], help="of rasterio")
    options = parser.parse_args()
    profile = _KINDS[options.kind]
    driver = "GTiff" if profile["driver"] == "COG" else profile["driver"]
    with TemporaryDirectory() as folder, TemporaryDirectory() as written, patch.dict(os.environ):
        path = write_image(Path(folder), options.kind)
        with run_server(Path(folder)) as server:
            os.environ |= (
                variables("s3", server.url) | MODERN | _NAMES | unsigned_s3([f"{server.url}/archive"])
            )
            server.behave(Behaviour(ttfb_s=options.ttfb / 1e3))
            to = Path(written) / "cube"
            works: dict[str, Callable[[Sequence[str]], None]] = {_OURS: partial(_gather, to=to)}
            for n in options.threads:
                works[f"rasterio in {n} threads"] = partial(
                    _read_in_threads, n_threads=n, driver=driver, dtype=profile["dtype"], to=to
                )
            pixels: dict[str, Any] = {}
            turns = itertools.count()

            def measured(name: str) -> Taken:
                turn = next(turns)  # GDAL keeps what it has read of an address
                hrefs = [f"s3://archive/{turn}/{n}/{path.name}" for n in range(options.files)]
                taken = timed(partial(works[name], hrefs))
                pixels[name] = zarr.open_array(to, path="band_1", mode="r")[:]
                shutil.rmtree(to)
                return taken

            seen = take_turns({name: partial(measured, name) for name in works}, options.rounds, warm_ups=1)
    assert all(np.array_equal(each, pixels[_OURS]) for each in pixels.values())
    put(compare(seen, f"{options.files} files, {options.kind}", _OURS), [seen], options.json)


if __name__ == "__main__":
    main()
