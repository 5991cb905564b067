"""This project's reader beside its peers and beside fetching and decoding alone; by TLS, on a narrow link.

``PYTHONPATH=tests uv run --group peers python -m benchmarks.bench_peers``; README.md beside this file says
what is measured and what came out. Each engine first runs once at a few concurrencies; its best one counts.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, Final

from benchmarks.engines import ENGINES
from benchmarks.measure import Bench, Setting, from_json, open_bench
from benchmarks.output import add_workload, parser_of, put, tell
from benchmarks.peer_tables import tables

_LONG, _SHARD = "long", "shard"
_SHARD_N_TILES: Final = 64
_CORES: Final = len(os.sched_getaffinity(0))
_IN_FLIGHT: Final = (16, 32, 64)
_THREADS: Final = (8, 16, 32, 49)
_CONCURRENCY: Final = {
    "pixel-gather": (0,),
    "pixel-gather-indexed": (0,),
    "pixel-gather-unhedged": (0,),
    "rasterio-published": _THREADS,
    "rasterio-modern": _THREADS,
    "rio-tiler": _THREADS,
    "odc-stac": _THREADS,
    "stackstac": _THREADS,
    "limit-fetch": (64,),
    "limit-fetch-indexed": (64,),
    "limit-decode": (_CORES,),
}
_SLOW: Final = ("rasteret", "lazycogs", "odc-stac", "stackstac", "rio-tiler")
_PACKAGES: Final = (
    "async-geotiff", "async-tiff", "rasteret", "lazycogs", "odc-stac", "stackstac", "rio-tiler",
)  # fmt: skip


def settings_of(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield all that is tried: each engine at each of its concurrencies."""
    given = dict(options.at)
    for ttfb_ms, case, engine in product(options.ttfb, options.cases, options.engines):
        if not ENGINES[engine].is_installed:
            continue
        n_tiles = min(options.files, options.slow_files if engine in _SLOW else options.files)
        for concurrency in given.get(engine) or _CONCURRENCY.get(engine, _IN_FLIGHT):
            yield Setting(
                case=case,
                engine=engine,
                concurrency=concurrency,
                n_tiles=_SHARD_N_TILES if case == _SHARD else n_tiles,
                ttfb_ms=ttfb_ms,
                counts_start=case == _SHARD,
                tls=options.tls,
                bytes_per_s=options.bytes_per_s,
            )


def best_settings(bench: Bench, tried: Sequence[Setting]) -> list[Setting]:
    """Run all once and return, of the settings that differ in concurrency alone, the fastest."""
    rivals: dict[Setting, list[Setting]] = {}
    for setting in dict.fromkeys(tried):
        rivals.setdefault(replace(setting, concurrency=0), []).append(setting)
    search = [each for group in rivals.values() if len(group) > 1 for each in group]
    found = bench.rounds(search, repeats=1, on_run=tell)
    pace = {each.setting: each.tiles_per_s for each in found}
    return [max(group, key=lambda each: pace.get(each, 0.0)) for group in rivals.values()]


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    options = _parser().parse_args()
    if options.from_:
        pieces = [from_json(path.read_bytes()) for path in options.from_]
        sys.stdout.write("\n".join((*tables(pieces, cores=_CORES), "")))
        return
    for name in options.engines:
        if not ENGINES[name].is_installed:
            sys.stderr.write(f"{name} is left out: the dependency group peers is not installed\n")
    with open_bench(n_files=256, tls=options.tls) as bench:
        best = best_settings(bench, list(settings_of(options)))
        measured = bench.rounds(best, repeats=options.repeats, on_run=tell)
    versions = {name: _version(name) for name in _PACKAGES}
    put(tables([measured], cores=_CORES), measured, options.json, more=versions)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(main)
    add_workload(parser, [_LONG, _SHARD])
    add = parser.add_argument
    engines = [name for name in ENGINES if name != "pixel-gather-unhedged"]
    add(
        "--engines",
        nargs="+",
        choices=engines,
        default=engines,
        metavar="ENGINE",
        help=f"of {', '.join(engines)}",
    )
    add("--slow-files", type=int, default=320, help=f"in the long case, of {', '.join(_SLOW)}")
    add("--at", type=_at, nargs="+", default=[], metavar="ENGINE=N,N", help="instead of its own few")
    add("--tls", action="store_true", help="fetch by TLS")
    add("--bytes-per-s", type=float, help="bandwidth of the server, 78e6 as a Lambda worker has it")
    add("--from", dest="from_", type=Path, nargs="+", help="only print what earlier calls kept")
    return parser


def _at(given: str) -> tuple[str, tuple[int, ...]]:
    engine, _, numbers = given.partition("=")
    return engine, tuple(int(number) for number in numbers.split(","))


def _version(package: str) -> Any:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
