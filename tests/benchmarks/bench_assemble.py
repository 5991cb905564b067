"""What storing a cube costs beside decoding it: CPU per 1,000 tiles, each codec at the default layout.

Run as ``PYTHONPATH=tests uv run python -m benchmarks.bench_assemble``; README.md has what came out.
"""

import asyncio
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import imagecodecs
import numpy as np
import obstore
import tifffile
from obstore.store import S3Store

from benchmarks.output import parser_of, put
from benchmarks.put_sink import run_sink
from benchmarks.workload import N_ACROSS, TILE, default_folder, make_workload
from pixel_gather.adapters.cube.shard_codec import chunk_encoder, encode_shard
from pixel_gather.plan.layout import Layout, plan_layout
from pixel_gather_bench.interleaving import turned

CODECS: Final = ("blosc-lz4", "blosc-zstd", "zstd", "none")
_SHARD_ROWS: Final = 64

type Tiles = np.ndarray[Any, np.dtype[np.uint16]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One round of one codec; CPU of this process, all of its threads, in seconds per 1,000 tiles."""

    codec: str
    decode_cpu_s: float
    """DEFLATE and predictor alone, straight into memory that is in use: the least that decoding can cost."""

    encode_cpu_s: float
    put_cpu_s: float
    shard_ms: float
    """Wall time of compressing and putting one shard."""

    ratio: float
    """Decoded bytes to stored ones."""

    @property
    def share(self) -> float:
        """CPU of storing as a share of decoding's, moments apart."""
        return (self.encode_cpu_s + self.put_cpu_s) / self.decode_cpu_s


def measure(*, n_tiles: int, repeats: int, codecs: Sequence[str] = CODECS) -> list[Measured]:
    """Decode, then encode and store in each codec, round after round.

    Args:
        n_tiles: A multiple of 64: whole shards.
        repeats: Rounds.
        codecs: Of the request.
    """
    contents = list(_contents(n_tiles))
    tiles = np.zeros((n_tiles, TILE, TILE), np.uint16)
    tiles[:] = 1  # a first touch of memory would count as decoding
    layout = plan_layout(
        tiles.shape, itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=512 * 2**20
    )
    measured: list[Measured] = []
    with run_sink() as url:
        store = S3Store(
            "cubes",
            endpoint=url,
            region="here",
            access_key_id="a",
            secret_access_key="b",  # noqa: S106 # the sink asks for none
            client_options={"allow_http": True, "timeout": "60s"},
        )
        for round_index in range(-1, repeats):
            for codec in turned(codecs, round_index):
                each = _measure(codec, contents, tiles, layout, store)
                if round_index >= 0:
                    measured.append(each)
    return measured


def _measure(codec: str, contents: Sequence[bytes], tiles: Tiles, layout: Layout, store: S3Store) -> Measured:
    per_1000 = 1000 / len(tiles)
    _, decode_cpu_s = _timed(lambda: _decode_all(contents, tiles))
    encode = chunk_encoder(codec, itemsize=2, fill_value=0)
    encode_cpu_s = put_cpu_s = 0.0
    walls: list[float] = []
    stored_nbytes = 0
    with asyncio.Runner() as runner:
        for first in range(0, len(tiles), _SHARD_ROWS):
            rows = tiles[first : first + _SHARD_ROWS]
            started = time.perf_counter()
            parts, cpu_s = _timed(
                lambda rows=rows: runner.run(  # type: ignore[misc] # mypy infers no lambda's default
                    encode_shard(rows, shard=layout.shard, chunk=layout.chunk, fill_value=0, encode=encode)
                )
            )
            encode_cpu_s += cpu_s
            _, cpu_s = _timed(
                lambda first=first, parts=parts: runner.run(  # type: ignore[misc] # as above
                    _put(store, f"band_1/c/{first}", parts)
                )
            )
            put_cpu_s += cpu_s
            walls.append((time.perf_counter() - started) * 1000)
            stored_nbytes += sum(map(len, parts))
    return Measured(
        codec=codec,
        decode_cpu_s=decode_cpu_s * per_1000,
        encode_cpu_s=encode_cpu_s * per_1000,
        put_cpu_s=put_cpu_s * per_1000,
        shard_ms=statistics.median(walls),
        ratio=tiles.nbytes / stored_nbytes,
    )


async def _put(store: S3Store, path: str, parts: Any) -> None:
    await obstore.put_async(store, path, parts, use_multipart=False)


def _contents(n_tiles: int) -> Iterator[bytes]:
    """Yield the compressed centre tiles of the benchmark's files."""
    names = list(make_workload(default_folder(), n_files=min(n_tiles, 256)))
    centre = (N_ACROSS // 2) * N_ACROSS + N_ACROSS // 2
    for index in range(n_tiles):
        path = default_folder() / names[index % len(names)]
        with tifffile.TiffFile(path) as file, path.open("rb") as raw:
            page: Any = file.pages[0]
            raw.seek(page.dataoffsets[centre])
            yield raw.read(page.databytecounts[centre])


def _decode_all(contents: Sequence[bytes], tiles: Tiles) -> None:
    for content, tile in zip(contents, tiles, strict=True):
        imagecodecs.deflate_decode(content, out=tile.reshape(-1).view(np.uint8).data)
        imagecodecs.delta_decode(tile, axis=1, out=tile)


def _timed[T](work: Callable[[], T]) -> tuple[T, float]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    made = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return made, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield lines of Markdown: medians, and the range of the share."""
    yield "| codec | encode, CPU s | PUT, CPU s | decode, CPU s | share of decoding | ms a shard | ratio |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for codec in dict.fromkeys(each.codec for each in measured):
        rows = [each for each in measured if each.codec == codec]
        encode, put, decode, shard_ms, share = (
            statistics.median(getattr(row, name) for row in rows)
            for name in ("encode_cpu_s", "put_cpu_s", "decode_cpu_s", "shard_ms", "share")
        )
        low, high = min(row.share for row in rows), max(row.share for row in rows)
        yield (
            f"| {codec} | {encode:.2f} | {put:.2f} | {decode:.2f} | {share:.2f} [{low:.2f}..{high:.2f}] | "
            f"{shard_ms:.0f} | {rows[0].ratio:.2f} |"
        )


def main() -> None:
    """Measure and print a table."""
    parser = parser_of(main, repeats=7)
    parser.add_argument("--tiles", type=int, default=256, help="a multiple of 64")
    options = parser.parse_args()
    measured = measure(n_tiles=options.tiles, repeats=options.repeats)
    put(table(measured), measured, options.json)


if __name__ == "__main__":
    main()
