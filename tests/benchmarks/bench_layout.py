"""What the cube's layout and codec cost: the figures behind the plan's defaults.

Encodes shards of real-looking tiles (see `workload`) and reads them back with zarr-python from a local
folder: one whole slice, and one pixel's series through all rows. Run from the project's root::

    PYTHONPATH=tests uv run python -m benchmarks.bench_layout
"""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from benchmarks.our_reader import read_tiles
from benchmarks.output import parser_of, put
from benchmarks.workload import default_folder, make_workload
from pixel_gather.adapters.cube.shard_codec import chunk_encoder, encode_shard

SIDE: Final = 512
SHARD_ROWS: Final = 64
CHUNKS: Final = ((1, 512, 512), (8, 128, 128), (16, 128, 128), (32, 128, 128), (64, 128, 128), (64, 64, 64))
CODECS: Final = ("none", "zstd", "blosc-lz4", "blosc-zstd")


@dataclass(slots=True)
class Figures:
    """All rounds of one layout and codec."""

    encode_cpu_s: list[float] = field(default_factory=list)
    slice_ms: list[float] = field(default_factory=list)
    series_ms: list[float] = field(default_factory=list)
    stored_nbytes: int = 0


def main() -> None:
    """Measure, interleaved, and print a table of medians."""
    parser = parser_of(main)
    parser.add_argument("--rows", type=int, default=256)
    options = parser.parse_args()
    names = make_workload(default_folder(), n_files=options.rows)
    tiles = np.empty((len(names), SIDE, SIDE), dtype="uint16")
    read_tiles([(default_folder() / name).as_uri() for name in names], tiles, concurrency=4)
    figures = {each: Figures() for each in product(CHUNKS, CODECS)}
    for _ in range(options.repeats):
        for (chunk, codec), found in figures.items():
            with tempfile.TemporaryDirectory() as folder:
                _measure(tiles, chunk, codec, Path(folder), found)
    records = ({"chunk": chunk, "codec": codec} | asdict(found) for (chunk, codec), found in figures.items())
    put(_table(figures, tiles, options.repeats), records, options.json)


def _measure(
    tiles: np.ndarray[Any, Any], chunk: tuple[int, int, int], codec: str, folder: Path, found: Figures
) -> None:
    shard = (SHARD_ROWS, SIDE, SIDE)
    array = _described(folder, tiles.shape, chunk, shard, codec)
    encode = chunk_encoder(codec, itemsize=2, fill_value=0)
    found.stored_nbytes = 0
    before = _cpu_s()
    for index in range(len(tiles) // SHARD_ROWS):
        rows = tiles[index * SHARD_ROWS : (index + 1) * SHARD_ROWS]
        parts = asyncio.run(encode_shard(rows, shard=shard, chunk=chunk, fill_value=0, encode=encode))
        path = folder / "c" / str(index) / "0" / "0"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.writelines(parts)
        found.stored_nbytes += path.stat().st_size
    found.encode_cpu_s.append((_cpu_s() - before) / len(tiles) * 1000)
    middle = len(tiles) // 2
    found.slice_ms.append(_ms(lambda: np.testing.assert_array_equal(array[middle], tiles[middle])))
    found.series_ms.append(_ms(lambda: np.testing.assert_array_equal(array[:, 200, 300], tiles[:, 200, 300])))


def _described(
    folder: Path, shape: tuple[int, ...], chunk: tuple[int, int, int], shard: tuple[int, int, int], codec: str
) -> Any:
    name: Any = codec.removeprefix("blosc-")
    compressors: Any = None
    if codec == "zstd":
        compressors = ZstdCodec(level=1)
    elif codec != "none":
        compressors = BloscCodec(cname=name, shuffle="bitshuffle", typesize=2)
    return zarr.create_array(
        folder,
        shape=shape,
        chunks=chunk,
        shards=shard,
        dtype="uint16",
        fill_value=0,
        compressors=compressors,
    )


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _table(
    figures: dict[tuple[tuple[int, int, int], str], Figures], tiles: np.ndarray[Any, Any], repeats: int
) -> Iterator[str]:
    yield f"{len(tiles)} tiles of {SIDE} x {SIDE} uint16, {SHARD_ROWS} in a shard, medians of {repeats}"
    yield ""
    yield "| chunk | codec | CPU s per 1,000 tiles | ratio | slice ms | series ms | slice kB | series kB |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (chunk, codec), found in figures.items():
        ratio = tiles.nbytes / found.stored_nbytes
        per_pixel = 2 / ratio / 1000
        slice_kb = chunk[0] * SIDE * SIDE * per_pixel
        series_kb = len(tiles) * chunk[1] * chunk[2] * per_pixel
        middle = [statistics.median(each) for each in (found.encode_cpu_s, found.slice_ms, found.series_ms)]
        yield (
            f"| {' x '.join(map(str, chunk))} | {codec} | {middle[0]:.2f} | {ratio:.2f} | {middle[1]:.0f} | "
            f"{middle[2]:.0f} | {slice_kb:,.0f} | {series_kb:,.0f} |"
        )


if __name__ == "__main__":
    main()
