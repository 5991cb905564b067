"""This project's reader against rasterio in threads, on the published report's workload.

``PYTHONPATH=tests uv run python -m benchmarks.bench_reader``; README.md beside this file says what is
measured and what came out.
"""

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting, compare, open_bench, to_json
from benchmarks.run_one import ENGINES

_REPORT_N_FILES: Final = 1278
_SHARD_N_FILES: Final = 64
_SINGLE_THREAD_N_FILES: Final = 128
"""One request at a time has the same pace from the first file to the last: more would take minutes."""

_ABOUT: Final = ("pixel-gather", "obstore", "imagecodecs", "numpy", "rasterio", "uvloop")


def settings_of(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield what to measure in one round."""
    peers = [engine for engine in ENGINES if engine != OURS]
    contenders = [(OURS, n) for n in options.in_flight] + [
        (engine, n) for engine in peers for n in options.threads
    ]
    for ttfb_ms in options.ttfb:
        for case in options.cases:
            for engine, concurrency in contenders:
                n_tiles = options.files if case == "long" else _SHARD_N_FILES
                yield Setting(
                    case=case,
                    engine=engine,
                    concurrency=concurrency,
                    n_tiles=min(n_tiles, _SINGLE_THREAD_N_FILES) if concurrency == 1 else n_tiles,
                    ttfb_ms=ttfb_ms,
                    counts_start=case == "shard",
                )


def tables(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield lines of Markdown: a table per case and delay, and the ratios below it."""

    def table_of(each: Measurement) -> tuple[str, float]:
        return each.setting.case, each.setting.ttfb_ms

    for (case, ttfb_ms), group in groupby(sorted(measured, key=table_of), table_of):
        rows = list(group)
        scope = "start of the process included" if rows[0].setting.counts_start else "reading only"
        yield f"\n### {case}: {rows[0].setting.n_tiles} files, {ttfb_ms:g} ms to the first byte\n"
        yield "| engine | at a time | tiles/s | with start | CPU s | with start | requests | MiB |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for setting, runs in sorted(by_setting(rows).items(), key=lambda item: _place(item[0])):
            yield _row(setting, runs)
        if {each.setting.engine for each in rows} > {OURS}:
            speed, cpu = compare(rows)
            yield f"\nCompared ({scope}): fastest against fastest {_text(speed, 2)} x the tiles/s;"
            yield f"our fastest against the peers' lowest CPU {_text(cpu, 2)} x."


def about() -> dict[str, Any]:
    """Return the machine and the versions that figures depend on."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    facts: dict[str, Any] = {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for name in _ABOUT:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = None
    return facts


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add = parser.add_argument
    add("--ttfb", type=float, nargs="+", default=[0, 15, 30], metavar="MS", help="delays to the first byte")
    add("--repeats", type=int, default=5)
    add("--files", type=int, default=_REPORT_N_FILES, help="reads in the long case")
    add("--distinct-files", type=int, default=256, help="files made; they repeat under other paths")
    add("--threads", type=int, nargs="+", default=[1, 8, 16, 32, 49], help="for rasterio")
    add("--in-flight", type=int, nargs="+", default=[32, 64], help="for this project")
    add("--cases", nargs="+", choices=["long", "shard"], default=["long", "shard"])
    add("--json", type=Path, help="keep every record here")
    options = parser.parse_args()
    with open_bench(n_files=options.distinct_files) as bench:
        measured = bench.rounds(list(settings_of(options)), repeats=options.repeats, on_run=_tell)
    facts = about()
    if options.json:
        options.json.write_text(to_json(measured, facts))
    sys.stdout.write("\n".join((*tables(measured), "", *(f"- {k}: {v}" for k, v in facts.items()), "")))


def _row(setting: Setting, runs: Sequence[Measurement]) -> str:
    cells = (
        setting.engine,
        str(setting.concurrency),
        _text(Spread.of(each.run.tiles_per_s(with_start=False) for each in runs), 0),
        _text(Spread.of(each.run.tiles_per_s(with_start=True) for each in runs), 0),
        _text(Spread.of(each.run.cpu_s_per_1000(with_start=False) for each in runs), 2),
        _text(Spread.of(each.run.cpu_s_per_1000(with_start=True) for each in runs), 2),
        _requests(runs),
        f"{Spread.of(each.run.peak_rss_mib for each in runs).median:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _requests(runs: Sequence[Measurement]) -> str:
    """Return requests per tile, as the server counted them."""
    gets = Spread.of(each.n_gets / each.run.n_tiles for each in runs)
    heads = Spread.of(each.n_heads / each.run.n_tiles for each in runs)
    return f"{gets.median:.2f} GET" + (f" + {heads.median:.2f} HEAD" if heads.highest else "")


def _place(setting: Setting) -> tuple[int, int]:
    return list(ENGINES).index(setting.engine), setting.concurrency


def _text(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} [{spread.lowest:.{digits}f}..{spread.highest:.{digits}f}]"


def _tell(each: Measurement) -> None:
    setting = each.setting
    sys.stderr.write(
        f"{each.round_index}  {setting.case:6}{setting.ttfb_ms:4g} ms  "
        f"{setting.engine:20}{setting.concurrency:3}"
        f"{each.tiles_per_s:7.0f} tiles/s{each.cpu_s_per_1000:7.2f} CPU s per 1,000\n"
    )


if __name__ == "__main__":
    main()
