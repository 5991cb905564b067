"""What do twelve monthly medians of many scenes take? Interleaved rounds of whole jobs over made files.

``PYTHONPATH=tests uv run python -m benchmarks.bench_reduce``; README.md beside this file says what came out.
All read from the loopback server. A script of rasterio and numpy does what a careful user writes.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import rasterio
import zarr
from rasterio.transform import from_origin
from rasterio.windows import Window
from zarr.codecs import BloscCodec

from benchmarks.gathers import memory_folder
from benchmarks.loopback_server import run_server
from benchmarks.made_images import write_tiled
from benchmarks.output import Taken, compare, parser_of, put, take_turns, timed_in_new_process
from benchmarks.peers.rasterio_threads import MODERN
from pixel_gather import gather, make_plan
from pixel_gather.in_process.settings import Settings
from pixel_gather_bench.blocks.pixels import spectral_noise

_WEST: Final = 600_000
_NORTH: Final = 5_100_000
_PIXEL: Final = 10
_SIDE: Final = 1024
_TILE: Final = 512
_MONTHS: Final = 12

OURS: Final = "--reduce month:median"
GATHERED: Final = "a cube of all scenes, xarray's median of it"
SCRIPT: Final = "rasterio in 8 threads, numpy.nanmedian"

type Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Scenes of one year, and the window whose medians are wanted: one whole tile of each."""

    folder: Path
    n_scenes: int

    @property
    def names(self) -> list[str]:
        """File names of the scenes, in order of time."""
        return [f"{number:04}.tif" for number in range(self.n_scenes)]

    def month(self, number: int) -> int:
        """Return the month of a scene, from 0."""
        return number * _MONTHS // self.n_scenes

    def request(self, url: str) -> dict[str, Any]:
        """Return the request of the cube of all scenes."""
        rows = [
            {"href": f"{url}/{name}", "time": f"2024-{self.month(number) + 1:02}-01T00:{number % 60:02}"}
            for number, name in enumerate(self.names)
        ]
        return {"sources": {"rows": rows}, "window": {"tile": [1, 1]}}

    def write(self) -> None:
        """Write scenes of noise with a 1/f spectrum. A third of each is missing, as below clouds."""
        random = np.random.default_rng(2)
        relief, clouds = (spectral_noise(random, _SIDE, power=1) for _ in range(2))
        pixels = (3000 + 400 * relief).clip(1, 10_000).astype(np.uint16)
        is_cloud = clouds > np.quantile(clouds, 2 / 3)
        with ThreadPoolExecutor(os.process_cpu_count()) as threads:
            list(threads.map(partial(self._write_scene, pixels, is_cloud), range(self.n_scenes)))

    def _write_scene(self, pixels: Values, is_cloud: Values, number: int) -> None:
        place = from_origin(_WEST, _NORTH, _PIXEL, _PIXEL)
        shown = np.where(np.roll(is_cloud, 61 * number, axis=1), 0, np.roll(pixels, 97 * number, axis=0))
        write_tiled(self.folder / self.names[number], shown, transform=place)


def reduced(job: Job, url: str, to: Path) -> None:
    """Reduce in the workers."""
    gather(
        job.request(url) | {"reduce": {"by": "month", "statistic": "median"}},
        to=to,
        settings=Settings(draws_report=False),
    )


def gathered(job: Job, url: str, to: Path) -> None:
    """Gather all scenes, then take the medians of the cube, month by month."""
    import xarray as xr  # noqa: PLC0415 # the other jobs do without

    gather(job.request(url), to=to.with_name("all"), settings=Settings(draws_report=False))
    cube = xr.open_zarr(to.with_name("all"))["band_1"]
    months = [
        cube.isel(time=of_month).median("time") for of_month in cube.groupby("time.month").groups.values()
    ]
    xr.concat(months, "month").to_dataset(name="band_1").to_zarr(to)
    shutil.rmtree(to.with_name("all"))


def scripted(job: Job, url: str, to: Path) -> None:
    """Read, reduce and write as a careful user does: month by month, with eight threads that read."""
    os.environ.update(MODERN)
    array = zarr.create_array(
        to,
        shape=(_MONTHS, _TILE, _TILE),
        dtype="float32",
        chunks=(1, _TILE, _TILE),
        compressors=BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    )

    def read(number: int) -> Values:
        with (
            rasterio.Env(),
            rasterio.open(f"/vsicurl/{url}/{job.names[number]}", driver="GTiff", sharing=False) as source,
        ):
            pixels: Values = source.read(1, window=Window(_TILE, _TILE, _TILE, _TILE))
        return pixels

    with ThreadPoolExecutor(8) as threads:
        for month in range(_MONTHS):
            of_month = [number for number in range(job.n_scenes) if job.month(number) == month]
            stack = np.stack(list(threads.map(read, of_month))).astype("float32")
            stack[stack == 0] = np.nan
            array[month] = np.nanmedian(stack, axis=0)


_JOBS: Final[Mapping[str, Callable[[Job, str, Path], None]]] = {
    OURS: reduced,
    GATHERED: gathered,
    SCRIPT: scripted,
}


def main() -> None:
    """Measure every job in turn, round by round, each in a new process."""
    parser = parser_of(main)
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory(dir=memory_folder()) as name:
        job, to = Job(folder=Path(name, "scenes"), n_scenes=options.scenes), Path(name, "cube")
        job.folder.mkdir()
        job.write()
        with run_server(job.folder) as server:
            planned = make_plan(
                job.request(server.url) | {"reduce": {"by": "month", "statistic": "median"}}
            ).estimate

            def measured(do: Callable[[Job, str, Path], None]) -> Taken:
                taken = timed_in_new_process(partial(do, job, server.url, to))
                shutil.rmtree(to)
                return taken

            seen = take_turns({what: partial(measured, do) for what, do in _JOBS.items()}, options.rounds)
    by_model = f"By the model, on AWS: ${planned.usd:.4f} and {planned.seconds:.1f} s."
    put([*compare(seen, "twelve medians", OURS), by_model], [seen], options.json)


if __name__ == "__main__":
    main()
