"""Measures tables of points and zones, from list to Parquet, beside other programs on the same files.

``PYTHONPATH=tests uv run --group rank-anchors python -m benchmarks.bench_tables`` makes COGs on disk. Each
program runs once a round, in a process of its own. Two threads or two processes read for each of the others.
It prints medians of wall and CPU seconds, and of the ratios to ours within each round.
"""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import rasterio
import shapely

from benchmarks.output import compare, take_turns, timed_in_new_process
from pixel_gather import points, zones
from rank.rasters import landscape, make_cog

_LEFT, _TOP, _SIZE = 500_000.0, 5_000_000.0, 10.0
_CRS: Final = "EPSG:32633"
_WORKERS: Final = 2
_BANDS: Final = ("red", "nir")
_N_MADE: Final = 4

type Program = Callable[[], str]
"""Runs, and returns what there is to say."""


def make_images(folder: Path, n: int, side: int) -> Path:
    """Write images of two bands in tiles of 512, and their list. Four files are made, others are links."""
    lines = ["href,time,scene,band"]
    for number in range(min(_N_MADE, 2 * n)):
        options = {"BLOCKSIZE": "512", "COMPRESS": "DEFLATE", "PREDICTOR": "YES", "OVERVIEWS": "NONE"}
        make_cog(folder / f"made-{number}.tif", landscape(number, side=side), nodata=0, options=options)
    for number in range(n):
        for at, band in enumerate(_BANDS):
            path = folder / f"{number}-{band}.tif"
            path.hardlink_to(folder / f"made-{(2 * number + at) % _N_MADE}.tif")
            day = date(2020, 1, 1) + timedelta(days=number)
            lines.append(f"{path},{day},s{number},{band}")
    found = folder / "list.csv"
    found.write_text("\n".join(lines))
    return found


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


def sampled(scene: Sequence[Path], xys: list[tuple[float, float]]) -> int:
    """Return how many values rasterio samples of one image."""
    n = 0
    for path in scene:
        with rasterio.open(path) as dataset:
            n += len(np.array([values[0] for values in dataset.sample(xys)]))
    return n


_prepared: list[Any] = []
"""exactextract's features, once for each process."""


def prepare(wkbs: list[bytes]) -> None:
    """Make the features that exactextract takes."""
    shapes = map(shapely.geometry.mapping, shapely.from_wkb(wkbs))
    _prepared.extend({"type": "Feature", "properties": {}, "geometry": shape} for shape in shapes)


def extracted(scene: Sequence[Path]) -> int:
    """Return of how many fields exactextract computes statistics of one image, both bands in one call."""
    import exactextract  # noqa: PLC0415 # of the group rank-anchors

    return len(exactextract.exact_extract(list(map(str, scene)), _prepared, ["mean", "stdev", "count"]))


def decoded(path: Path) -> int:
    """Read a whole band by rasterio: what fetching and decoding alone takes."""
    with rasterio.open(path) as dataset:
        return int(dataset.read(1).size)


def in_threads[T](work: Callable[[T], int], items: Sequence[T]) -> str:
    """Do the work of all items."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        return f"{sum(pool.map(work, items)):,} values"


def in_processes(scenes: Sequence[Sequence[Path]], wkbs: list[bytes]) -> str:
    """Let exactextract compute all images."""
    with ProcessPoolExecutor(_WORKERS, initializer=prepare, initargs=(wkbs,)) as pool:
        return f"{sum(pool.map(extracted, scenes)):,} features"


def measure(title: str, programs: dict[str, Program], times: int) -> list[str]:
    """Return a table of the programs, each in a process of its own; the first is ours."""
    cases = {name: partial(timed_in_new_process, program) for name, program in programs.items()}
    return [*compare(take_turns(cases, times), title, next(iter(programs)))]


def scenes_of(folder: Path, n: int) -> list[list[Path]]:
    """Return the files of each image."""
    return [[folder / f"{number}-{band}.tif" for band in _BANDS] for number in range(n)]


def compare_points(folder: Path, n_images: int, side: int, n: int, times: int) -> list[str]:
    """Compare tables of points in few places and everywhere."""
    images, lines = make_images(folder, n_images, side), []
    for clustered in (True, False):
        xys = [(float(x), float(y)) for x, y in places(n, side, clustered=clustered)]
        programs: dict[str, Program] = {
            "pixel-gather points": partial(of_points, images, xys, folder / "points.parquet"),
            "rasterio.sample in two threads": partial(
                in_threads, partial(sampled, xys=xys), scenes_of(folder, n_images)
            ),
        }
        lines += measure(f"{n:,} points {'in 20 clusters' if clustered else 'everywhere'}", programs, times)
    return lines


def compare_zones(folder: Path, n_images: int, side: int, n: int, times: int) -> list[str]:
    """Compare tables of fields."""
    images, wkbs, scenes = make_images(folder, n_images, side), fields(n, side), scenes_of(folder, n_images)
    programs: dict[str, Program] = {
        "pixel-gather zones": partial(of_zones, images, wkbs, folder / "zones.parquet"),
        "exactextract in two processes": partial(in_processes, scenes, wkbs),
        "reading all pixels by rasterio": partial(in_threads, decoded, list(chain(*scenes))),
    }
    return measure(f"{n:,} fields", programs, times)


@click.command()
@click.option("--images", "n_images", default=10, show_default=True, help="Of two bands each.")
@click.option("--side", default=8192, show_default=True, help="Pixels of each image of fields.")
@click.option("--points-side", default=2048, show_default=True, help="And of points.")
@click.option("--points", "n_points", default=10_000, show_default=True)
@click.option("--fields", "n_fields", default=20_000, show_default=True)
@click.option("--rounds", "times", default=5, show_default=True)
@click.option("--only", type=click.Choice(["points", "zones"]))
def main(  # each option has a name
    *,
    n_images: int,
    side: int,
    points_side: int,
    n_points: int,
    n_fields: int,
    times: int,
    only: str | None,
) -> None:
    """Make the images, run each program on them, and print a table."""
    lines: list[str] = []
    if only != "zones":
        with tempfile.TemporaryDirectory() as name:
            lines += compare_points(Path(name), n_images, points_side, n_points, times)
    if only != "points":
        with tempfile.TemporaryDirectory() as name:
            lines += compare_zones(Path(name), n_images, side, n_fields, times)
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
