"""This project's reader beside its peers, and beside fetching and decoding alone.

``PYTHONPATH=tests uv run --group peers python -m benchmarks.bench_peers``; README.md beside this file says
what is measured and what came out. Each reader first runs once at a few concurrencies. Its best one counts.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from copy import replace
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.measure import Bench, Measurement, Setting, best_of, by_setting, open_bench, tiles_per_s
from benchmarks.output import parser_of, put
from benchmarks.readers import READERS, UNHEDGED
from benchmarks.tables import tables

_CORES: Final = len(os.sched_getaffinity(0))
_SHARD_N_TILES: Final = 64
_IN_FLIGHT: Final = (16, 32, 64)
_THREADS: Final = (8, 16, 32, 49)
_CONCURRENCY: Final = {
    **dict.fromkeys((name for name in READERS if name.startswith("pixel-gather")), (0,)),
    **dict.fromkeys(
        ("rasterio-published", "rasterio-modern", "rio-tiler", "odc-stac", "stackstac"), _THREADS
    ),
    "limit-fetch": (64,),
    "limit-fetch-indexed": (64,),
    "limit-decode": (_CORES,),
}
_SLOW: Final = ("rasteret", "lazycogs", "odc-stac", "stackstac", "rio-tiler")


@dataclass(frozen=True, slots=True)
class Kept:
    """What ``--json`` keeps of one call, as far as tables need it."""

    measurements: list[Measurement]


def settings_of(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield all that is tried: each reader at each of its concurrencies."""
    given = dict(options.at)
    for ttfb_ms, case, reader in product(options.ttfb, options.cases, options.readers):
        if not READERS[reader].is_installed:
            continue
        n_tiles = min(options.files, options.slow_files) if reader in _SLOW else options.files
        for concurrency in given.get(reader) or _CONCURRENCY.get(reader, _IN_FLIGHT):
            yield Setting(
                case=case,
                reader=reader,
                concurrency=concurrency,
                n_tiles=_SHARD_N_TILES if case == "shard" else n_tiles,
                ttfb_ms=ttfb_ms,
                tls=options.tls,
                bytes_per_s=options.bytes_per_s,
                max_rate=options.max_rate,
            )


def best_settings(bench: Bench, tried: Sequence[Setting]) -> list[Setting]:
    """Run all once and return, of the settings that differ in concurrency alone, the fastest."""
    rivals: dict[Setting, list[Setting]] = {}
    for setting in dict.fromkeys(tried):
        rivals.setdefault(replace(setting, concurrency=0), []).append(setting)
    groups = by_setting(
        bench.measure([each for group in rivals.values() if len(group) > 1 for each in group])
    )
    return [
        group[0] if len(group) == 1 else best_of([groups[each] for each in group], tiles_per_s)[0].setting
        for group in rivals.values()
    ]


def with_late(settings: Sequence[Setting], late: tuple[float, float] | None) -> list[Setting]:
    """Return each setting and, if that is asked for, the same with late answers after it."""
    if late is None:
        return list(settings)
    share, seconds = late
    pairs = ((each, replace(each, slow_share=share, slow_s=seconds)) for each in settings)
    return [each for pair in pairs for each in pair]


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    options = _parser().parse_args()
    if options.from_:
        pieces = [msgspec.json.decode(path.read_bytes(), type=Kept).measurements for path in options.from_]
        sys.stdout.write("\n".join((*tables(pieces, cores=_CORES), "")))
        return
    for name in options.readers:
        if not READERS[name].is_installed:
            sys.stderr.write(f"{name} is left out: the dependency group peers is not installed\n")
    with open_bench(n_files=256, tls=options.tls) as bench:
        best = best_settings(bench, list(settings_of(options)))
        measured = bench.measure(with_late(best, options.late), times=options.repeats)
    put(tables([measured], cores=_CORES), measured, options.json)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(main)
    add = parser.add_argument
    most = [name for name in READERS if name != UNHEDGED]
    add("--repeats", type=int, default=5, help="rounds, 5 if not given")
    add("--ttfb", type=float, nargs="+", default=[0, 15, 30], metavar="MS", help="delays to the first byte")
    add("--cases", nargs="+", choices=["long", "shard"], default=["long", "shard"])
    add("--files", type=int, default=1278, help="reads in the long case")
    add("--slow-files", type=int, default=320, help=f"reads in the long case of {', '.join(_SLOW)}")
    add(
        "--readers", nargs="+", choices=list(READERS), default=most, metavar="READER", help=", ".join(READERS)
    )
    add("--at", type=_at, nargs="+", default=[], metavar="READER=N,N", help="concurrencies to try")
    add("--tls", action="store_true", help="fetch by TLS")
    add("--bytes-per-s", type=float, help="bandwidth of the server, 78e6 as a Lambda worker has it")
    add("--max-rate", type=float, help="requests/s above which the server answers 503")
    add("--late", type=float, nargs=2, metavar=("SHARE", "S"), help="also with this share of answers late")
    add("--from", dest="from_", type=Path, nargs="+", help="only print what earlier calls kept")
    return parser


def _at(given: str) -> tuple[str, tuple[int, ...]]:
    reader, _, numbers = given.partition("=")
    return reader, tuple(int(number) for number in numbers.split(","))


if __name__ == "__main__":
    main()
