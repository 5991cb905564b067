"""Measures tables of points and zones, from list to Parquet, beside other programs on the same files.

``PYTHONPATH=tests uv run --group rank-anchors python -m benchmarks.bench_tables`` makes COGs and serves them
by S3's protocol from another process. Each program runs once a round, in a process of its own. rasterio runs
with few threads and with many, exactextract in two processes. It prints medians of wall and CPU seconds, and
of the ratios to ours within each round.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import click
import numpy as np
import rasterio
import shapely

from benchmarks.loopback_server import Behaviour, run_server
from benchmarks.output import compare, take_turns, timed_in_new_process
from benchmarks.peers.rasterio_threads import MODERN
from benchmarks.peers.scenes import unsigned_s3
from pixel_gather import points, zones
from rank.rasters import landscape, make_cog
from support.cloud_store import variables

_LEFT, _TOP, _SIZE = 500_000.0, 5_000_000.0, 10.0
_CRS: Final = "EPSG:32633"
_PROCESSES: Final = 2
_THREADS: Final = (2, 16)
_BANDS: Final = ("red", "nir")
_N_MADE: Final = 4

type Program = Callable[[], str]
"""Runs, and returns what there is to say."""

type Scene = Sequence[str]
"""The bands of one image, by the names of their files."""


@contextmanager
def serving(n: int, side: int, ttfb_s: float) -> Iterator[tuple[Path, list[Scene]]]:
    """Make images and serve them. Yields a folder to write to, with their list, and the images."""
    with (
        TemporaryDirectory() as made,
        TemporaryDirectory() as written,
        patch.dict(os.environ),
    ):
        lines = ["href,time,scene,band", *make_images(Path(made), n, side)]
        Path(written, "list.csv").write_text("\n".join(lines))
        with run_server(Path(made)) as server:
            server.behave(Behaviour(ttfb_s=ttfb_s))
            os.environ |= variables("s3", server.url) | unsigned_s3([f"{server.url}/archive"]) | MODERN
            yield Path(written), [[f"{number}-{band}.tif" for band in _BANDS] for number in range(n)]


def make_images(folder: Path, n: int, side: int) -> Iterator[str]:
    """Write images of two bands in tiles of 512. Four files are made, others are links. Yield their lines."""
    for number in range(min(_N_MADE, 2 * n)):
        options = {"BLOCKSIZE": "512", "COMPRESS": "DEFLATE", "PREDICTOR": "YES", "OVERVIEWS": "NONE"}
        make_cog(folder / f"made-{number}.tif", landscape(number, side=side), nodata=0, options=options)
    for number in range(n):
        for at, band in enumerate(_BANDS):
            path = folder / f"{number}-{band}.tif"
            path.hardlink_to(folder / f"made-{(2 * number + at) % _N_MADE}.tif")
            day = date(2020, 1, 1) + timedelta(days=number)
            yield f"s3://archive/{path.name},{day},s{number},{band}"


def places(n: int, side: int, *, clustered: bool) -> "np.ndarray[Any, Any]":
    """Return points on the images, in 20 places or everywhere."""
    rng = np.random.default_rng(1)
    at = rng.uniform(0, side, (n, 2))
    if clustered:
        at = rng.uniform(100, side - 100, (20, 2))[rng.integers(0, 20, n)] + rng.normal(0, 10, (n, 2))
    return np.stack([_LEFT + at[:, 0] * _SIZE, _TOP - at[:, 1] * _SIZE], axis=1)


def fields(n: int, side: int) -> list[bytes]:
    """Return polygons of about 500 pixels."""
    rng = np.random.default_rng(2)
    middles = rng.uniform(20, side - 20, (n, 2)) * _SIZE
    circles = shapely.points(_LEFT + middles[:, 0], _TOP - middles[:, 1])
    return list(shapely.to_wkb(shapely.buffer(circles, 126, quad_segs=4)))


def of_points(images: Path, xys: list[tuple[float, float]], to: Path) -> str:
    """Make the table of points."""
    made = points([{"x": x, "y": y} for x, y in xys], str(images), to=to, crs=_CRS, by=",".join(_BANDS))
    return f"{made.n_requests} requests, {made.n_lines} lines"


def of_zones(images: Path, wkbs: list[bytes], to: Path) -> str:
    """Make the table of zones."""
    made = zones([{"wkb": each} for each in wkbs], str(images), to=to, crs=_CRS, by=",".join(_BANDS))
    return f"{made.n_requests} requests, {made.n_lines} lines"


def by_gdal(name: str) -> str:
    """Return the path by which GDAL reads a file."""
    return f"/vsis3/archive/{name}"


def sampled(scene: Scene, xys: list[tuple[float, float]]) -> int:
    """Return how many values rasterio samples of one image."""
    n = 0
    for name in scene:
        with rasterio.open(by_gdal(name)) as dataset:
            n += len(np.array([values[0] for values in dataset.sample(xys)]))
    return n


_prepared: list[Any] = []
"""exactextract's features, once for each process."""


def prepare(wkbs: list[bytes]) -> None:
    """Make the features that exactextract takes."""
    shapes = map(shapely.geometry.mapping, shapely.from_wkb(wkbs))
    _prepared.extend({"type": "Feature", "properties": {}, "geometry": shape} for shape in shapes)


def extracted(scene: Scene) -> int:
    """Return of how many fields exactextract computes statistics of one image, both bands in one call."""
    import exactextract  # noqa: PLC0415 # of the group rank-anchors

    return len(exactextract.exact_extract(list(map(by_gdal, scene)), _prepared, ["mean", "stdev", "count"]))


def decoded(name: str) -> int:
    """Read a whole band by rasterio: what fetching and decoding alone takes."""
    with rasterio.open(by_gdal(name)) as dataset:
        return int(dataset.read(1).size)


def in_threads[T](work: Callable[[T], int], items: Sequence[T], n: int) -> str:
    """Do the work of all items."""
    with ThreadPoolExecutor(n) as pool:
        return f"{sum(pool.map(work, items)):,} values"


def in_processes(scenes: Sequence[Scene], wkbs: list[bytes]) -> str:
    """Let exactextract compute all images."""
    with ProcessPoolExecutor(_PROCESSES, initializer=prepare, initargs=(wkbs,)) as pool:
        return f"{sum(pool.map(extracted, scenes)):,} features"


def measure(title: str, programs: dict[str, Program], times: int) -> Iterator[str]:
    """Yield a table of the programs, each in a process of its own; the first is ours."""
    cases = {name: partial(timed_in_new_process, program) for name, program in programs.items()}
    return compare(take_turns(cases, times), title, next(iter(programs)))


def compare_points(folder: Path, scenes: list[Scene], side: int, n: int, times: int) -> Iterator[str]:
    """Compare tables of points in few places and everywhere."""
    for clustered in (True, False):
        xys = [(float(x), float(y)) for x, y in places(n, side, clustered=clustered)]
        programs: dict[str, Program] = {
            "pixel-gather points": partial(of_points, folder / "list.csv", xys, folder / "points.parquet"),
        }
        for threads in _THREADS:
            work = partial(in_threads, partial(sampled, xys=xys), scenes, threads)
            programs[f"rasterio.sample in {threads} threads"] = work
        yield from measure(f"{n:,} points {'in 20 clusters' if clustered else 'everywhere'}", programs, times)


def compare_zones(folder: Path, scenes: list[Scene], side: int, n: int, times: int) -> Iterator[str]:
    """Compare tables of fields."""
    wkbs = fields(n, side)
    programs: dict[str, Program] = {
        "pixel-gather zones": partial(of_zones, folder / "list.csv", wkbs, folder / "zones.parquet"),
        "exactextract in two processes": partial(in_processes, scenes, wkbs),
    }
    for threads in _THREADS:
        work = partial(in_threads, decoded, list(chain(*scenes)), threads)
        programs[f"reading all pixels by rasterio in {threads} threads"] = work
    yield from measure(f"{n:,} fields", programs, times)


@click.command()
@click.option("--images", "n_images", default=10, show_default=True, help="Of two bands each.")
@click.option("--side", default=8192, show_default=True, help="Pixels of each image of fields.")
@click.option("--points-side", default=2048, show_default=True, help="And of points.")
@click.option("--points", "n_points", default=10_000, show_default=True)
@click.option("--fields", "n_fields", default=20_000, show_default=True)
@click.option("--rounds", "times", default=5, show_default=True)
@click.option("--ttfb-ms", default=30.0, show_default=True, help="To the first byte.")
@click.option("--only", type=click.Choice(["points", "zones"]))
def main(  # each option has a name
    *,
    n_images: int,
    side: int,
    points_side: int,
    n_points: int,
    n_fields: int,
    times: int,
    ttfb_ms: float,
    only: str | None,
) -> None:
    """Make the images, run each program on them, and print a table."""
    if only != "zones":
        with serving(n_images, points_side, ttfb_ms / 1e3) as (folder, scenes):
            for line in compare_points(folder, scenes, points_side, n_points, times):
                click.echo(line)
    if only != "points":
        with serving(n_images, side, ttfb_ms / 1e3) as (folder, scenes):
            for line in compare_zones(folder, scenes, side, n_fields, times):
                click.echo(line)


if __name__ == "__main__":
    main()
