"""A whole gather, from the list to the complete cube, beside the script that a careful user writes.

``PYTHONPATH=tests uv run python -m benchmarks.bench_gather``; README.md beside this file says what came out.
"""

import argparse
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from benchmarks.measure import (
    Measurement,
    Setting,
    Spread,
    by_round,
    by_setting,
    cpu_s_per_1000,
    open_bench,
    ratio,
    tiles_per_s,
)
from benchmarks.output import parser_of, put
from benchmarks.readers import CAREFUL, GATHER, GATHERS, ODC, STAGED, Run
from benchmarks.stages import KERNEL
from pixel_gather_bench.experiment import markdown

_CORES: Final = len(os.sched_getaffinity(0))
_CONCURRENCY: Final = {ODC: (32,), "limit-fetch": (64,)}
_LIMITS: Final = tuple(name for name in GATHERS if name.startswith("limit-"))
_ADAPTS: Final = (0,)

type Groups = Mapping[Setting, Sequence[Measurement]]


def settings_of(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield what is measured. The limits run at as many threads as there are cores."""
    for tls, ttfb_ms, n_tiles, name in product(options.links, options.ttfb, options.files, options.names):
        others = (_CORES,) if name in _LIMITS else _ADAPTS
        for concurrency in options.threads if name == CAREFUL else _CONCURRENCY.get(name, others):
            yield Setting(
                case=f"{n_tiles:,} files",
                reader=name,
                concurrency=concurrency,
                n_tiles=n_tiles,
                ttfb_ms=ttfb_ms,
                tls=tls == "tls",
            )


def tables(measured: Sequence[Measurement], *, cores: int) -> Iterator[str]:
    """Yield lines of Markdown: a table of the gathers, one of the limit's parts, and one of the stages."""
    comparisons: dict[object, dict[Setting, Sequence[Measurement]]] = {}
    for setting, runs in by_setting(measured).items():
        comparisons.setdefault(setting.comparison, {})[setting] = runs
    yield from markdown(
        [_HEAD, *(row for groups in comparisons.values() for row in _rows(groups, cores=cores))]
    )
    compared = list(comparisons.values())
    for rows in (_limit_rows(compared, cores=cores), _stage_rows(compared)):
        if len(rows) > 1:
            yield ""
            yield from markdown(rows)


_HEAD: Final = (
    "case", "gather", "at a time", "tiles/s", "CPU s per 1,000", "cores busy", "requests a tile", "peak MiB",
    "ours: x tiles/s", "x CPU",
)  # fmt: skip


def _rows(groups: Groups, *, cores: int) -> Iterator[tuple[str, ...]]:
    ours = _runs_of(groups, GATHER)
    for setting, runs in groups.items():
        if setting.reader in (*_LIMITS, STAGED):
            continue
        is_compared = bool(ours) and setting.reader != GATHER
        yield (
            _case(setting),
            setting.reader,
            str(setting.concurrency or "found out"),
            Spread.of(map(tiles_per_s, runs)).text(),
            Spread.of(map(cpu_s_per_1000, runs)).text(2),
            Spread.of(_busy(each, cores) for each in runs).text(2),
            f"{statistics.median((each.n_gets + each.n_heads) / each.run.n_tiles for each in runs):.2f}",
            f"{statistics.median(each.run.peak_rss_mib for each in runs):.0f}",
            *(
                ratio(value, ours, runs).text(2) if is_compared else ""
                for value in (tiles_per_s, cpu_s_per_1000)
            ),
        )


def _case(setting: Setting) -> str:
    return f"{setting.case}, {setting.ttfb_ms:g} ms{', TLS' if setting.tls else ''}"


def _runs_of(groups: Groups, name: str) -> Sequence[Measurement]:
    return next((runs for setting, runs in groups.items() if setting.reader == name), ())


def _busy(each: Measurement, cores: int) -> float:
    """Return the share of the cores' time that the gather and the server took."""
    return (each.run.reading_cpu_s + each.server_cpu_s) / (each.run.reading_s * cores)


@dataclass(frozen=True, slots=True)
class Limit:
    """CPU seconds of a tile: in the parts of a gather, and in the server on the same cores."""

    parts_s: float
    server_s: float

    @classmethod
    def of(cls, *parts: Measurement) -> "Limit":
        """Add one round's runs of the parts."""
        return cls(
            parts_s=sum(each.run.reading_cpu_s / each.run.n_tiles for each in parts),
            server_s=sum(each.server_cpu_s / each.run.n_tiles for each in parts),
        )

    def tiles_per_s(self, cores: int) -> float:
        """Return the pace of cores that do nothing else, and also serve, and never wait."""
        return cores / (self.parts_s + self.server_s)


def _limit_rows(comparisons: Sequence[Groups], *, cores: int) -> list[tuple[str, ...]]:
    parts = [name.removeprefix("limit-") for name in _LIMITS]
    rows: list[tuple[str, ...]] = [
        (
            "case",
            *(f"{part}, CPU ms a tile" for part in parts),
            "all",
            "limit, tiles/s",
            "ours: share of it",
            "x CPU",
        )
    ]
    for groups in comparisons:
        alone = [_runs_of(groups, name) for name in _LIMITS]
        if not all(alone):
            continue
        ours = _runs_of(groups, GATHER)

        def share(*runs: Measurement) -> float:
            return runs[0].run.tiles_per_s() / Limit.of(*runs[1:]).tiles_per_s(cores)

        def times_cpu(*runs: Measurement) -> float:
            return _cpu_s_a_tile(runs[0].run) / Limit.of(*runs[1:]).parts_s

        rows.append(
            (
                _case(next(iter(groups))),
                *(Spread.of(1000 * _cpu_s_a_tile(each.run) for each in runs).text(2) for runs in alone),
                by_round(lambda *runs: 1000 * Limit.of(*runs).parts_s, *alone).text(2),
                by_round(lambda *runs: Limit.of(*runs).tiles_per_s(cores), *alone).text(),
                *(by_round(of, ours, *alone).text(2) if ours else "" for of in (share, times_cpu)),
            )
        )
    return rows


def _cpu_s_a_tile(run: Run) -> float:
    return run.reading_cpu_s / run.n_tiles


def _stage_rows(comparisons: Sequence[Groups]) -> list[tuple[str, ...]]:
    """Return the median CPU ms a tile of each stage."""
    staged = [runs for groups in comparisons if (runs := _runs_of(groups, STAGED))]
    names = [name for name in staged[0][0].run.stages if name != KERNEL] + [KERNEL] if staged else []
    rows: list[tuple[str, ...]] = [("CPU ms a tile in", *names, "all")]
    for runs in staged:
        cells = (
            f"{statistics.median(1000 * each.run.stages[name] / each.run.n_tiles for each in runs):.2f}"
            for name in names
        )
        all_ms = statistics.median(map(cpu_s_per_1000, runs))
        rows.append((_case(runs[0].setting), *cells, f"{all_ms:.2f}"))
    return rows


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    parser = parser_of(main)
    add = parser.add_argument
    add("--repeats", type=int, default=5, help="rounds, 5 if not given")
    add("--ttfb", type=float, nargs="+", default=[15, 30], metavar="MS", help="delays to the first byte")
    add("--files", type=int, nargs="+", default=[1278, 102, 64], help="lengths of the list")
    add("--threads", type=int, nargs="+", default=[16, 32], metavar="N", help="threads of the script")
    add("--links", nargs="+", choices=["http", "tls"], default=["http", "tls"])
    add(
        "--names",
        nargs="+",
        choices=list(GATHERS),
        default=[name for name, reader in GATHERS.items() if reader.is_installed],
        metavar="NAME",
        help=", ".join(GATHERS),
    )
    options = parser.parse_args()
    with open_bench(n_files=256, tls="tls" in options.links) as bench:
        measured = bench.measure(list(settings_of(options)), times=options.repeats)
    put(tables(measured, cores=_CORES), measured, options.json)


if __name__ == "__main__":
    main()
