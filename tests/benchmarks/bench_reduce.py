"""What do twelve monthly medians of many scenes take? Interleaved rounds of whole jobs over made files.

``PYTHONPATH=tests uv run python -m benchmarks.bench_reduce``; README.md beside this file says what came out.
All read from the loopback server. A script of rasterio and numpy does what a careful user writes.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import numpy as np
import rasterio
import zarr
from rasterio.transform import from_origin
from rasterio.windows import Window
from zarr.codecs import BloscCodec

from benchmarks.gathers import memory_folder
from benchmarks.loopback_server import run_server
from benchmarks.output import parser_of, put, spread
from benchmarks.peers.rasterio_threads import MODERN
from pixel_gather import gather, make_plan
from pixel_gather.in_process.settings import Settings
from pixel_gather_bench.experiment import markdown, rounds

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


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What one whole job took, in a process of its own."""

    seconds: float
    cpu_s: float
    peak_rss_mib: float


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
        shape = (_SIDE, _SIDE // 2 + 1)
        steps = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.rfftfreq(_SIDE)[None, :])
        spectra = [np.exp(2j * np.pi * random.random(shape)) / steps.clip(1 / _SIDE) for _ in range(2)]
        relief, clouds = (np.fft.irfft2(each, s=(_SIDE, _SIDE)) for each in spectra)
        pixels = (3000 + 400 * relief / relief.std()).clip(1, 10_000).astype(np.uint16)
        is_cloud = clouds > np.quantile(clouds, 2 / 3)
        with ThreadPoolExecutor(os.process_cpu_count()) as threads:
            list(threads.map(partial(self._write_scene, pixels, is_cloud), range(self.n_scenes)))

    def _write_scene(self, pixels: Values, is_cloud: Values, number: int) -> None:
        place = from_origin(_WEST, _NORTH, _PIXEL, _PIXEL)
        shown = np.where(np.roll(is_cloud, 61 * number, axis=1), 0, np.roll(pixels, 97 * number, axis=0))
        with rasterio.open(
            self.folder / self.names[number], "w", "GTiff", _SIDE, _SIDE, 1, dtype="uint16", nodata=0,
            crs="EPSG:32632", transform=place, compress="deflate", predictor=2, tiled=True, blockxsize=_TILE,
            blockysize=_TILE,
        ) as target:  # fmt: skip
            target.write(shown, 1)


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
    parser.add_argument("--only", help="take one job alone, in this process: used by the others")
    parser.add_argument("--url")
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    if options.only is not None:
        _JOBS[options.only](Job(folder=Path(), n_scenes=options.scenes), options.url, options.to)
        return
    seen: dict[str, list[Taken]] = {name: [] for name in _JOBS}
    with TemporaryDirectory(dir=memory_folder()) as name:
        job = Job(folder=Path(name, "scenes"), n_scenes=options.scenes)
        job.folder.mkdir()
        job.write()
        with run_server(job.folder) as server:
            planned = make_plan(
                job.request(server.url) | {"reduce": {"by": "month", "statistic": "median"}}
            ).estimate
            for _, what in rounds(list(_JOBS), options.rounds):
                seen[what].append(_in_new_process(what, job, server.url, Path(name, "cube")))
    by_model = f"By the model, on AWS: ${planned.usd:.4f} and {planned.seconds:.1f} s."
    put([*table(seen), by_model], [seen], options.json)


def _in_new_process(what: str, job: Job, url: str, to: Path) -> Taken:
    command = [sys.executable, "-m", "benchmarks.bench_reduce", "--only", what, "--url", url, "--to", str(to)]
    started = time.perf_counter()
    with subprocess.Popen([*command, "--scenes", str(job.n_scenes)]) as process:  # noqa: S603 # our own words
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, what
    shutil.rmtree(to)
    return Taken(
        seconds=time.perf_counter() - started,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_rss_mib=used.ru_maxrss / 1024,
    )


def table(seen: Mapping[str, Sequence[Taken]]) -> Iterator[str]:
    """Yield lines of Markdown. Ratios are formed within each round: how many times as long others take."""
    rows = []
    for name, taken in seen.items():
        pairs = list(zip(taken, seen[OURS], strict=True))
        rows.append(
            (
                name,
                spread([each.seconds for each in taken]),
                spread([each.cpu_s for each in taken]),
                f"{max(each.peak_rss_mib for each in taken):,.0f}",
                spread([each.seconds / own.seconds for each, own in pairs]),
            )
        )
    yield from markdown([("twelve medians", "s", "CPU s", "peak MiB", "x time"), *rows])
    yield ""


if __name__ == "__main__":
    main()
