"""What does a grid in another CRS take, beside odc-stac? Interleaved rounds of whole gathers of made files.

``PYTHONPATH=tests uv run --group peers python -m benchmarks.bench_warp``; README.md beside this file says
what came out. Files come by S3's protocol from another process. odc-stac runs with several sizes of its pool.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import odc.stac
import pystac
import rasterio
import xarray as xr
from odc.geo.geobox import GeoBox
from rasterio.warp import transform_bounds

from benchmarks.bench_grid import tables
from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.made_images import write_tiled
from benchmarks.output import Taken, parser_of, put, take_turns, timed
from benchmarks.peers.careful_threads import ENCODING
from benchmarks.peers.scenes import unsigned_s3
from pixel_gather import gather
from pixel_gather.in_process.settings import Settings
from support.cloud_store import variables

_SIDE: Final = 1536
_SHAPE: Final = (512, 512)
_OWN: Final = rasterio.Affine(10, 0, 725_000, 0, -10, 5_163_000)
_GRID: Final = rasterio.Affine(10, 0, 267_000, 0, -10, 5_158_000)
"""Of the files, in UTM zone 32, and of the cube, in zone 33."""

_WAYS: Final = ("nearest", "bilinear")


def write_scenes(folder: Path, n: int) -> tuple[list[dict[str, Any]], list[pystac.Item]]:
    """Write files of smooth noise, in tiles. Return the rows of a list, and the items of a catalog."""
    random, rows, items = np.random.default_rng(7), [], []
    for at in range(n):
        coarse = random.integers(1, 10_000, (_SIDE // 16, _SIDE // 16))
        pixels = coarse.repeat(16, axis=0).repeat(16, axis=1) + random.integers(0, 60, (_SIDE, _SIDE))
        file = folder / f"{at:04}.tif"
        write_tiled(file, pixels.astype("uint16"), transform=_OWN)
        when = f"2024-01-{1 + at // 24:02}T{at % 24:02}:00:00Z"
        rows.append({"href": f"s3://archive/{file.name}", "time": when})
        items.append(_item(file, when))
    return rows, items


@contextmanager
def _serving(folder: str, n: int) -> Iterator[tuple[LoopbackServer, list[dict[str, Any]], list[pystac.Item]]]:
    """Write scenes and serve them. Yields the server, the rows of a list, and the items of a catalog."""
    rows, items = write_scenes(Path(folder), n)
    with run_server(Path(folder)) as server:
        yield server, rows, items


def _item(file: Path, when: str) -> pystac.Item:
    box = (_OWN.c, _OWN.f - 10 * _SIDE, _OWN.c + 10 * _SIDE, _OWN.f)
    west, south, east, north = transform_bounds("EPSG:32632", "EPSG:4326", *box)
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    projection = {"proj:shape": [_SIDE, _SIDE], "proj:transform": [*_OWN[:6]], "proj:epsg": 32632}
    return pystac.Item.from_dict(
        {
            "type": "Feature",
            "stac_version": "1.0.0",
            "stac_extensions": ["https://stac-extensions.github.io/projection/v1.1.0/schema.json"],
            "id": file.stem,
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "bbox": [west, south, east, north],
            "properties": {"datetime": when, **projection},
            "links": [],
            "assets": {"band_1": {"href": f"s3://archive/{file.name}", "roles": ["data"], **projection}},
        }
    )


def _gather(rows: list[dict[str, Any]], way: str | None, to: Path) -> None:
    grid = {"crs": "EPSG:32633", "shape": [*_SHAPE], "transform": [*_GRID[:6]], "resampling": way}
    place = {"grid": grid} if way else {"window": {"pixels": [512, 512, 512, 512]}}
    gather({"sources": {"rows": rows}, **place}, to=to, settings=Settings(draws_report=False))


def _load(items: list[pystac.Item], way: str, pool: int, to: Path) -> None:
    """Load all files into memory, and write them with our chunks and codec."""
    odc.stac.configure_rio(cloud_defaults=True)  # as its notebooks begin
    geobox = GeoBox(_SHAPE, _GRID, "EPSG:32633")
    loaded = odc.stac.load(
        items,
        bands=["band_1"],
        geobox=geobox,
        resampling=way,
        groupby="id",
        nodata=0,
        pool=pool,
    )
    loaded.to_zarr(to, encoding={"band_1": ENCODING})


def main() -> None:
    """Measure every case in turn, round by round, and print medians and ratios."""
    parser = parser_of(main)
    parser.add_argument("--scenes", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ttfb", type=float, default=30.0, help="milliseconds to the first byte")
    parser.add_argument("--pools", type=int, nargs="+", default=[2, 16, 32], help="threads of odc-stac")
    options = parser.parse_args()
    with (
        TemporaryDirectory() as folder,
        TemporaryDirectory() as written,
        patch.dict(os.environ),
        _serving(folder, options.scenes) as (server, rows, items),
    ):
        os.environ |= variables("s3", server.url) | unsigned_s3([f"{server.url}/archive"])
        server.behave(Behaviour(ttfb_s=options.ttfb / 1e3))
        to = Path(written) / "cube"
        ours = {way: f"pixel-gather, {way}" for way in _WAYS}
        theirs = {(way, n): f"odc-stac, {way}, {n} threads" for way in _WAYS for n in options.pools}
        cases = {
            "pixel-gather, no grid": partial(_gather, rows, None, to),
            **{name: partial(_gather, rows, way, to) for way, name in ours.items()},
            **{name: partial(_load, items, way, n, to) for (way, n), name in theirs.items()},
        }
        compared = [
            *((ours[way], name) for (way, _), name in theirs.items()),
            ("pixel-gather, no grid", ours["nearest"]),
        ]
        pixels = {}

        def measured(name: str) -> Taken:
            taken = timed(cases[name])
            if name not in pixels:
                pixels[name] = xr.open_zarr(to, mask_and_scale=False).band_1.values
            shutil.rmtree(to)
            return taken

        seen = take_turns({name: partial(measured, name) for name in cases}, options.rounds, warm_ups=1)
    n = options.pools[0]
    shares = ((pixels[theirs[way, n]] != pixels[ours[way]]).mean() for way in _WAYS)
    differ = (f"{way}: {share:.2%} of the pixels differ" for way, share in zip(_WAYS, shares, strict=True))
    put([*tables(seen, compared), "", *differ], [seen], options.json)


if __name__ == "__main__":
    main()
