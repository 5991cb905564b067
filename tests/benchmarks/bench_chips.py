"""What does a cube of chips take to make, and to read for training? Interleaved rounds on made files.

``PYTHONPATH=tests uv run python -m benchmarks.bench_chips``; README.md beside this file says what came out.
Both parts read from the loopback server. A script of rasterio makes the same cube. So does rasteret with
``--rasteret``, in an environment with the group ``peers``. An epoch is read beside obstore, which fetches the
same shards and decodes nothing.
"""

import argparse
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import numpy as np
import obstore
import rasterio
import zarr
from obstore.store import HTTPStore
from rasterio.transform import from_origin
from rasterio.warp import transform_bounds
from rasterio.windows import Window
from zarr.codecs import BloscCodec

from benchmarks.gathers import memory_folder
from benchmarks.loopback_server import Behaviour, run_server
from benchmarks.made_images import write_tiled
from benchmarks.output import Taken, compare, parser_of, put, take_turns, timed
from benchmarks.peers.rasterio_threads import MODERN
from pixel_gather import ChipDataset, Settings, gather
from pixel_gather.features.chips.opened_chips import OpenedChips
from pixel_gather.io.cube.chip_pixels import ChipPixels
from pixel_gather_bench.blocks.pixels import spectral_noise

_WEST: Final = 600_000
_NORTH: Final = 5_100_000
_PIXEL: Final = 10
_EPSG: Final = 32632
_CRS: Final = f"EPSG:{_EPSG}"
_SHARD_CHIPS: Final = 17
_FETCHES: Final = 4
_PART_NBYTES: Final = 8 * 2**20
_N_MADE: Final = 6
"""Images with pixels of their own. All others are links."""

OURS: Final = "pixel-gather run --windows"
SCRIPT: Final = "rasterio in {} threads, zarr-python"
RASTERET: Final = "rasteret, zarr-python"
LOADER: Final = "batches"
UNDECODED: Final = "batches, nothing decoded"
WHOLE: Final = "obstore, whole shards"
PARTS: Final = "obstore, ranges of 8 MiB"

type Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is gathered."""

    folder: Path
    """Of the images and the table."""

    n_images: int
    side: int
    n_chips: int
    size: int

    @property
    def names(self) -> list[str]:
        """File names of the images."""
        return [f"{number}.tif" for number in range(self.n_images)]

    def hrefs(self, url: str) -> list[str]:
        """Return the images' addresses at a server, in a bucket."""
        return [f"{url}/archive/{name}" for name in self.names]

    def corners(self) -> Values:
        """Return column and row of each chip's first pixel, along rows of tiles."""
        found = np.random.default_rng(1).integers(0, self.side - self.size, (self.n_chips, 2))
        return found[np.lexsort((found[:, 0], found[:, 1] // 512))]

    def write(self) -> None:
        """Write images of noise with a 1/f spectrum, in tiles of 512, and the table of chips."""
        relief = spectral_noise(np.random.default_rng(2), self.side, power=1)
        pixels = (3000 + 400 * relief).clip(1, 10_000).astype(np.uint16)
        n_made = min(self.n_images, _N_MADE)
        with ThreadPoolExecutor(os.process_cpu_count()) as threads:
            list(threads.map(partial(self._write_image, pixels), range(n_made)))
        for number in range(n_made, self.n_images):
            (self.folder / self.names[number]).hardlink_to(self.folder / self.names[number % n_made])
        half = self.size // 2
        places = [
            f"{at},{_WEST + (col + half + 0.5) * _PIXEL},{_NORTH - (row + half + 0.5) * _PIXEL}"
            for at, (col, row) in enumerate(self.corners().tolist())
        ]
        (self.folder / "chips.csv").write_text("\n".join(["id,x,y", *places]))

    def _write_image(self, pixels: Values, number: int) -> None:
        place, shown = from_origin(_WEST, _NORTH, _PIXEL, _PIXEL), np.roll(pixels, 97 * number, axis=0)
        write_tiled(self.folder / self.names[number], shown, transform=place, crs=_CRS)


def gathered(job: Job, url: str, to: Path, *, codec: str) -> None:
    """Gather all chips."""
    done = gather(
        {
            "sources": job.hrefs(url),
            "windows": {"table": str(job.folder / "chips.csv"), "size": [job.size, job.size], "crs": _CRS},
            "output": {"codec": codec},
        },
        to=to,
        settings=Settings(draws_report=False),
    )
    assert done.report.n_failed == 0, done.report


def scripted(job: Job, url: str, to: Path, *, n_threads: int) -> None:
    """Write the same array as a careful user does.

    Each image is opened once, by one thread, which reads the chips along rows of tiles. GDAL's cache holds
    them. zarr-python writes as many threads as it likes.
    """
    os.environ.update(MODERN)
    pixels = np.empty((job.n_chips, job.n_images, job.size, job.size), np.uint16)
    corners, hrefs = job.corners().tolist(), job.hrefs(url)

    def read(number: int) -> None:
        path = f"/vsicurl/{hrefs[number]}"
        with rasterio.Env(), rasterio.open(path, driver="GTiff", sharing=False) as source:
            for (col, row), out in zip(corners, pixels[:, number], strict=True):
                source.read(1, window=Window(col, row, job.size, job.size), out=out)

    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(read, range(job.n_images)))
    store(pixels, to)


def collection_of(job: Job, url: str, folder: Path) -> Any:
    """Return a collection of rasteret, which holds all headers."""
    from benchmarks.peers import rasteret_collection  # noqa: PLC0415 # of the group peers

    extent = job.side * _PIXEL
    bounds = transform_bounds(_CRS, "EPSG:4326", _WEST, _NORTH - extent, _WEST + extent, _NORTH)
    hrefs = job.hrefs(url)
    rasteret_collection.build_over(hrefs, folder, bounds=bounds, epsg=_EPSG)
    return rasteret_collection.load_collection(hrefs, folder)


def by_rasteret(job: Job, url: str, to: Path, *, collection: Any) -> None:
    """Write the same array from a collection, which was made before."""
    from benchmarks.peers import rasteret_collection  # noqa: PLC0415 # as above

    size = job.size * _PIXEL
    corners = [(_WEST + col * _PIXEL, _NORTH - row * _PIXEL) for col, row in job.corners().tolist()]
    boxes = [(west, north - size, west + size, north) for west, north in corners]
    pixels = rasteret_collection.read_boxes(collection, boxes, epsg=_EPSG, hrefs=job.hrefs(url))
    store(np.swapaxes(pixels, 0, 1), to)


def store(pixels: Values, to: Path) -> None:
    """Write an array with our chunks, shards and codec."""
    n_chips, *_ = pixels.shape
    array = zarr.create_array(
        to,
        shape=pixels.shape,
        dtype="uint16",
        fill_value=0,
        chunks=(1, *pixels.shape[1:]),
        shards=(min(_SHARD_CHIPS, n_chips), *pixels.shape[1:]),
        compressors=BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    )
    for start in range(0, n_chips, _SHARD_CHIPS):
        array[start : start + _SHARD_CHIPS] = pixels[start : start + _SHARD_CHIPS]


def opened(store: HTTPStore, place: str) -> ChipDataset:
    """Open a cube on the loopback server."""
    cube = OpenedChips.open([(store, place)])
    found = ChipDataset(
        places=(place,),
        measurements=cube.choose_measurements(None),
        numbers=np.arange(cube.n_chips),
        stores=None,
    )
    found.__dict__["_opened"] = cube
    return found


def epoch(chips: ChipDataset) -> None:
    """Loop over shuffled batches."""
    for _ in chips.batches(batch=32, shuffle=True):
        pass


def undecoded_epoch(chips: ChipDataset) -> None:
    """Loop over batches whose pixels are left as they are: what decoding adds."""
    decode = ChipPixels.decode
    ChipPixels.decode = lambda *_: None  # type: ignore[method-assign] # put back below
    try:
        epoch(chips)
    finally:
        ChipPixels.decode = decode  # type: ignore[method-assign] # as it was


def fetched(store: HTTPStore, sizes: Mapping[str, int], *, part_nbytes: int | None) -> None:
    """Fetch all shards and do nothing with them."""

    def fetch(key: str) -> int:
        if part_nbytes is None:
            return len(obstore.get(store, key).bytes())
        starts = range(0, sizes[key], part_nbytes)
        return sum(
            len(obstore.get_range(store, key, start=start, end=min(start + part_nbytes, sizes[key])))
            for start in starts
        )

    with ThreadPoolExecutor(_FETCHES) as threads:
        assert sum(threads.map(fetch, sizes)) == sum(sizes.values())


def _gathers(job: Job, options: argparse.Namespace, to: Path) -> Iterator[tuple[str, dict[str, list[Taken]]]]:
    """Yield measurements of whole gathers, without and with a delay of each answer."""
    with run_server(job.folder) as server, TemporaryDirectory() as folder:
        collection = collection_of(job, server.url, Path(folder)) if options.rasteret else None

        def making(make: Callable[..., None], **named: Any) -> Callable[[], Taken]:
            def case() -> Taken:
                taken = timed(lambda: make(job, server.url, to, **named))
                shutil.rmtree(to)
                return taken

            return case

        for ttfb_ms in options.ttfb_ms:
            server.behave(Behaviour(ttfb_s=ttfb_ms / 1000))
            cases = {OURS: making(gathered, codec="blosc-lz4")}
            cases |= {SCRIPT.format(n): making(scripted, n_threads=n) for n in options.threads}
            cases |= {RASTERET: making(by_rasteret, collection=collection)} if options.rasteret else {}
            yield f"list to cube, {ttfb_ms} ms", take_turns(cases, options.rounds, warm_ups=1)


def _epochs(cube: Path, options: argparse.Namespace) -> Iterator[tuple[str, dict[str, list[Taken]]]]:
    """Yield measurements of epochs at each bandwidth."""
    shards = sorted(path for path in (cube / "band_1/c").rglob("*") if path.is_file())
    sizes = {str(path.relative_to(cube)): path.stat().st_size for path in shards}
    with run_server(cube) as server:
        store = HTTPStore.from_url(server.url, client_options={"allow_http": True})
        chips = opened(store, server.url)
        works: dict[str, Callable[[], object]] = {
            LOADER: partial(epoch, chips),
            UNDECODED: partial(undecoded_epoch, chips),
            WHOLE: partial(fetched, store, sizes, part_nbytes=None),
            PARTS: partial(fetched, store, sizes, part_nbytes=_PART_NBYTES),
        }
        cases = {name: partial(timed, work) for name, work in works.items()}
        for mb_per_s in options.mb_per_s:
            server.behave(Behaviour(bytes_per_s=mb_per_s * 1e6 or None))
            limit = f"{mb_per_s} MB/s" if mb_per_s else "no limit"
            total = f"{sum(sizes.values()) / 1e6:.0f} MB"
            yield f"an epoch, {cube.name}, {total}, {limit}", take_turns(cases, options.rounds, warm_ups=1)


def main() -> None:
    """Measure gathers of chips, then epochs of the cubes, round by round."""
    parser = parser_of(main)
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--chips", type=int, default=1000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[2, 8, 16], help="of rasterio's script")
    parser.add_argument("--rasteret", action="store_true", help="beside it, too")
    parser.add_argument("--ttfb-ms", type=int, nargs="*", default=[0, 30])
    parser.add_argument("--mb-per-s", type=int, nargs="*", default=[0, 600, 300, 150], help="0: no limit")
    parser.add_argument("--codec", nargs="*", default=["blosc-lz4", "blosc-zstd", "none"])
    options = parser.parse_args()
    lines: list[str] = []
    records: list[Any] = []
    with TemporaryDirectory(dir=memory_folder()) as name:
        images, cubes = Path(name, "images"), Path(name, "cubes")
        images.mkdir()
        job = Job(
            folder=images,
            n_images=options.images,
            side=options.side,
            n_chips=options.chips,
            size=options.size,
        )
        job.write()

        def note(what: str, seen: dict[str, list[Taken]], ours: str) -> None:
            lines.extend(compare(seen, what, ours))
            records.append({what: seen})
            click.echo("\n".join(compare(seen, what, ours)), err=True)

        for what, seen in _gathers(job, options, Path(name, "cube")):
            note(what, seen, OURS)
        for codec in options.codec:
            with run_server(images) as server:
                gathered(job, server.url, cubes / codec, codec=codec)
            for what, seen in _epochs(cubes / codec, options):
                note(what, seen, LOADER)
            shutil.rmtree(cubes / codec)
    put(lines, records, options.json)


if __name__ == "__main__":
    main()
