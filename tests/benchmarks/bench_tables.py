"""Measures tables of points and zones, from list to Parquet, beside other programs on the same files.

``PYTHONPATH=tests uv run --group rank-anchors python -m benchmarks.bench_tables`` makes COGs on disk. It
prints wall and CPU seconds of each program. Two threads or two processes read for each of the others.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final

import click
import numpy as np
import rasterio
import shapely

from pixel_gather import points, zones
from pixel_gather_bench.experiment import markdown
from rank.rasters import landscape, make_cog

_SIDE: Final = 2048
_LEFT, _TOP, _SIZE = 500_000.0, 5_000_000.0, 10.0
_CRS: Final = "EPSG:32633"
_WORKERS: Final = 2


def make_images(folder: Path, n: int) -> list[Path]:
    """Write images of 2,048 x 2,048 pixels in tiles of 512."""
    found = []
    for number in range(n):
        pixels = landscape(number, side=_SIDE)
        found.append(make_cog(folder / f"{number}.tif", pixels, nodata=0, options={"BLOCKSIZE": "512"}))
    return found


def places(n: int, *, clustered: bool) -> "np.ndarray[Any, Any]":
    """Return points on the images, in 20 places or everywhere."""
    rng = np.random.default_rng(1)
    at = rng.uniform(0, _SIDE, (n, 2))
    if clustered:
        at = rng.uniform(100, _SIDE - 100, (20, 2))[rng.integers(0, 20, n)] + rng.normal(0, 10, (n, 2))
    return np.stack([_LEFT + at[:, 0] * _SIZE, _TOP - at[:, 1] * _SIZE], axis=1)


def fields(n: int) -> list[shapely.Geometry]:
    """Return polygons of about 500 pixels."""
    rng = np.random.default_rng(2)
    middles = rng.uniform(20, _SIDE - 20, (n, 2)) * _SIZE
    return [shapely.Point(_LEFT + x, _TOP - y).buffer(126, quad_segs=4) for x, y in middles]


def sampled(path: Path, xys: list[tuple[float, float]]) -> "np.ndarray[Any, Any]":
    """Return the values of one image by rasterio."""
    with rasterio.open(path) as dataset:
        return np.array([values[0] for values in dataset.sample(xys)])


def extracted(path: Path, wkbs: list[bytes]) -> int:
    """Return how many statistics exactextract computes of one image."""
    import exactextract  # noqa: PLC0415 # of the group rank-anchors

    features = [
        {"type": "Feature", "properties": {}, "geometry": shapely.geometry.mapping(shapely.from_wkb(each))}
        for each in wkbs
    ]
    return len(exactextract.exact_extract(str(path), features, ["mean", "stdev", "count"]))


def decoded(path: Path) -> int:
    """Read a whole image by rasterio: what fetching and decoding alone takes."""
    with rasterio.open(path) as dataset:
        return int(dataset.read(1).size)


@contextmanager
def timed(name: str, rows: list[tuple[str, ...]]) -> Iterator[None]:
    """Add a row with wall and CPU seconds."""
    started, cpu = time.perf_counter(), _cpu_s()
    yield
    rows.append((name, f"{time.perf_counter() - started:.2f}", f"{_cpu_s() - cpu:.2f}"))
    click.echo(" ".join(rows[-1]), err=True)


def _cpu_s() -> float:
    used = [getrusage(each) for each in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _in_threads(work: Callable[[Path], Any], images: list[Path]) -> None:
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(work, images))


def _in_processes(work: Callable[[Path], Any], images: list[Path]) -> None:
    with ProcessPoolExecutor(_WORKERS) as pool:
        list(pool.map(work, images))


@click.command()
@click.option("--images", "n_images", default=40, show_default=True)
@click.option("--points", "n_points", default=10_000, show_default=True)
@click.option("--fields", "n_fields", default=2_000, show_default=True)
def main(*, n_images: int, n_points: int, n_fields: int) -> None:
    """Make the images, run each program on them, and print a table."""
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = make_images(folder, n_images)
        hrefs = [str(each) for each in images]
        for clustered in (True, False):
            xys = [(float(x), float(y)) for x, y in places(n_points, clustered=clustered)]
            given = [{"x": x, "y": y} for x, y in xys]
            what = f"{n_points:,} points, {'clustered' if clustered else 'scattered'}"
            with timed(f"{what}: pixel-gather points", rows):
                made = points(given, hrefs, to=folder / "points.parquet", crs=_CRS)
            click.echo(f"{made.n_requests} requests, {made.n_lines} lines", err=True)
            with timed(f"{what}: rasterio.sample, two threads", rows):
                _in_threads(partial(sampled, xys=xys), images)
        shapes = fields(n_fields)
        features = [{"wkb": each.wkb} for each in shapes]
        with timed(f"{n_fields:,} fields: pixel-gather zones", rows):
            made = zones(features, hrefs, to=folder / "zones.parquet", crs=_CRS)
        click.echo(f"{made.n_requests} requests, {made.n_lines} lines", err=True)
        with timed(f"{n_fields:,} fields: exactextract, two processes", rows):
            _in_processes(partial(extracted, wkbs=[each.wkb for each in shapes]), images)
        with timed("all pixels: rasterio.read, two threads", rows):
            _in_threads(decoded, images)
    click.echo("\n".join(markdown([("job", "seconds", "CPU seconds"), *rows])))


if __name__ == "__main__":
    main()
