"""Single ranges against parts side by side, where either is faster; and what the plan's rule chooses.

``PYTHONPATH=tests uv run python -m benchmarks.bench_transfer``; README.md beside this file says what is
measured and what came out.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import tifffile
import xxhash

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.output import parser_of, put
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.geotiff.in_parts import fetch_ranges
from pixel_gather.adapters.geotiff.reader import GeoTiffReader
from pixel_gather.adapters.object_store.object_store import Objects, StoreSettings
from pixel_gather.estimate.assumptions import CPU_PER_GET, NETWORK_HERE
from pixel_gather.estimate.range_parts import Link, choose_parts, cut_range
from pixel_gather.model.source import Cost
from pixel_gather.model.window import Window
from pixel_gather_bench.interleaving import turned

MB: Final = 1_000_000
COUNTS: Final = (1, 2, 4, 8)
STRIP_WIDTH: Final = 4000
_SLACK: Final = 1.01
"""Noise that was compressed is a little longer, and is not to take one part more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is read, and through what link."""

    kind: str
    """``range``: bytes of an object; ``strip``: a TIFF of one compressed strip, wholly decoded."""

    nbytes: int
    n_sources: int
    """All at one time."""

    ttfb_ms: float
    connection_mb_per_s: float
    machine_mb_per_s: float | None = None
    """Of all connections; None for as fast as loopback goes."""

    def chosen(self) -> int:
        """Return how many parts the plan's rule takes, told what the link is."""
        machine = self.machine_mb_per_s
        link = Link(
            first_byte_s=self.ttfb_ms / 1000,
            connection_bytes_per_s=self.connection_mb_per_s * MB,
            machine_bytes_per_s=NETWORK_HERE.value if machine is None else machine * MB,
            more_s=CPU_PER_GET.value,
        )
        return choose_parts(self.nbytes, link=link, n_in_flight=self.n_sources).n


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One reading of one case."""

    case: Case
    round_index: int
    n_parts: int
    seconds: float
    n_gets: int


def cases_of(names: Sequence[str]) -> Iterator[Case]:
    """Yield what to measure."""
    if "large" in names:
        for ttfb_ms, rate in ((15, 25), (15, 80), (30, 80)):
            yield Case(kind="strip", nbytes=64 * MB, n_sources=1, ttfb_ms=ttfb_ms, connection_mb_per_s=rate)
    if "many" in names:
        for ttfb_ms, rate in ((15, 25), (15, 80), (30, 80)):
            yield Case(kind="range", nbytes=400_000, n_sources=64, ttfb_ms=ttfb_ms, connection_mb_per_s=rate)
    if "lambda" in names:
        for nbytes, n_sources in ((16 * MB, 1), (4 * MB, 16)):
            yield Case(
                kind="range",
                nbytes=nbytes,
                n_sources=n_sources,
                ttfb_ms=30,
                connection_mb_per_s=85,
                machine_mb_per_s=78,
            )
    if "crossover" in names:
        for ttfb_ms, rate in ((15, 25), (15, 80), (30, 80)):
            for size in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64):
                yield Case(
                    kind="range",
                    nbytes=round(size * MB),
                    n_sources=1,
                    ttfb_ms=ttfb_ms,
                    connection_mb_per_s=rate,
                )


def counts_of(case: Case) -> list[int]:
    """Return the numbers of parts that are measured: some, and what is chosen."""
    return sorted({*COUNTS, case.chosen()})


def make_files(folder: Path, cases: Sequence[Case]) -> dict[Case, str]:
    """Make each case's file, and return the digest of what is read of it."""
    rng = np.random.default_rng(5)
    digests: dict[Case, str] = {}
    by_name: dict[str, str] = {}
    for case in cases:
        path = folder / _name(case)
        if path.exists():
            digests[case] = by_name[path.name]
            continue
        if case.kind == "strip":
            rows = case.nbytes // 2 // STRIP_WIDTH
            image = rng.integers(0, 1 << 16, (rows, STRIP_WIDTH), np.uint16)
            tifffile.imwrite(path, image, compression="zlib", rowsperstrip=rows, metadata=None)
            content = image.tobytes()
        else:
            content = rng.bytes(case.nbytes)
            path.write_bytes(content)
        digests[case] = by_name[path.name] = xxhash.xxh3_64_hexdigest(content)
    return digests


def _name(case: Case) -> str:
    return f"{case.kind}-{case.nbytes}"


async def _read(case: Case, url: str, *, n_parts: int, objects: Objects) -> tuple[float, int, set[str]]:
    """Return the seconds that all sources took, their requests, and their digests."""
    hrefs = [f"{url}/{index}/{_name(case)}" for index in range(case.n_sources)]
    part_nbytes = None if n_parts == 1 else round(_SLACK * case.nbytes / n_parts)
    costs = [Cost() for _ in hrefs]
    reader = GeoTiffReader(objects)
    kept: list[memoryview | np.ndarray] = []

    async def read_range(href: str, cost: Cost) -> None:
        async def fetch(start: int, stop: int) -> memoryview:
            return (await objects.get_range(href, start, stop, etag=None, cost=cost)).content

        kept.append(await fetch_ranges(fetch, cut_range(0, case.nbytes, part_nbytes=part_nbytes, most=8)))

    async def read_strip(href: str, cost: Cost) -> None:
        source = await reader.open_(href, overview=None, cost=cost)
        header = source.header
        out = np.empty((1, header.height, header.width), np.uint16)
        window = Window(col_off=0, row_off=0, width=header.width, height=header.height)
        await source.read_into(out, window, (1,), masked=False, part_nbytes=part_nbytes)
        kept.append(out)

    read = read_strip if case.kind == "strip" else read_range
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for href, cost in zip(hrefs, costs, strict=True):
            group.create_task(read(href, cost))
    seconds = time.perf_counter() - began
    digests = {xxhash.xxh3_64_hexdigest(memoryview(each).cast("B")) for each in kept}
    return seconds, sum(cost.requests for cost in costs), digests


async def measure(
    server: LoopbackServer, digests: dict[Case, str], *, repeats: int, objects: Objects
) -> list[Measured]:
    """Read every case in every number of parts, once a round; who comes first moves on by one each round."""
    measured = []
    for case, digest in digests.items():
        counts = counts_of(case)
        server.behave(
            Behaviour(
                ttfb_s=case.ttfb_ms / 1000,
                connection_bytes_per_s=case.connection_mb_per_s * MB,
                bytes_per_s=None if case.machine_mb_per_s is None else case.machine_mb_per_s * MB,
            )
        )
        for round_index in range(-1, repeats):  # the first opens connections and touches memory
            for n_parts in turned(counts, round_index):
                seconds, n_gets, found = await _read(case, server.url, n_parts=n_parts, objects=objects)
                if found != {digest}:
                    raise AssertionError(f"{n_parts} parts of {case} gave other bytes")
                if round_index >= 0:
                    measured.append(
                        Measured(
                            case=case,
                            round_index=round_index,
                            n_parts=n_parts,
                            seconds=seconds,
                            n_gets=n_gets,
                        )
                    )
        sys.stderr.write(f"{case}\n")
    return measured


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield lines of Markdown: median seconds by number of parts, what is chosen, how near to the best."""
    yield (
        "| read | ms | MB/s a connection | in all | 1 part, s | 2 | 4 | 8 | chosen "
        "| single/chosen | best/chosen |"
    )
    yield f"|{' --- |' * 11}"
    for case in dict.fromkeys(each.case for each in measured):
        runs: dict[int, list[float]] = {}
        for each in sorted((each for each in measured if each.case == case), key=lambda one: one.round_index):
            runs.setdefault(each.n_parts, []).append(each.seconds)
        chosen = case.chosen()
        best = min(runs, key=lambda n: statistics.median(runs[n]))
        ratios = [
            statistics.median(a / b for a, b in zip(runs[n], runs[chosen], strict=True)) for n in (1, best)
        ]
        cells = (
            f"{case.n_sources} x {case.nbytes / MB:g} MB, {case.kind}",
            f"{case.ttfb_ms:g}",
            f"{case.connection_mb_per_s:g}",
            "-" if case.machine_mb_per_s is None else f"{case.machine_mb_per_s:g}",
            *(f"{statistics.median(runs[n]):.3f}" for n in COUNTS),
            f"{chosen}",
            *(f"{ratio:.2f}" for ratio in ratios),
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a table as Markdown to standard output."""
    names = ["large", "many", "lambda", "crossover"]
    parser = parser_of(main)
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        digests = make_files(Path(folder), list(cases_of(options.cases)))
        with run_server(Path(folder)) as server:
            measured = run(
                measure(
                    server, digests, repeats=options.repeats, objects=Objects(StoreSettings(hedging=None))
                )
            )
    put(table(measured), measured, options.json)


if __name__ == "__main__":
    main()
