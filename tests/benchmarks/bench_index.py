"""This project's reader with a header index and without, on the published report's workload.

``PYTHONPATH=tests uv run python -m benchmarks.bench_index``; README.md beside this file says what is measured
and what came out.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting, open_bench, to_json
from pixel_gather_bench.machine import about_machine

INDEXED: Final = "pixel-gather-indexed"
_SHARD_N_FILES: Final = 64


def settings_of(*, ttfb_ms: Sequence[float], cases: Sequence[str], n_files: int) -> Iterator[Setting]:
    """Yield what to measure in one round; how many sources at a time is found out, as in production."""
    for delay in ttfb_ms:
        for case in cases:
            for engine in (OURS, INDEXED):
                yield Setting(
                    case=case,
                    engine=engine,
                    concurrency=0,
                    n_tiles=n_files if case == "long" else min(_SHARD_N_FILES, n_files),
                    ttfb_ms=delay,
                    counts_start=False,
                )


def table(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield lines of Markdown: a row per case and delay, with medians, and ratios formed in each round."""
    yield "| case, ms to the first byte | tiles/s | indexed | ratio | CPU s per 1,000 | indexed | ratio |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    runs = by_setting(measured)
    for cold in (setting for setting in runs if setting.engine == OURS):
        [warm] = [each for each in runs if each.engine == INDEXED and _place(each) == _place(cold)]
        pairs = list(zip(runs[cold], runs[warm], strict=True))
        speed = Spread.of(two.tiles_per_s / one.tiles_per_s for one, two in pairs)
        cpu = Spread.of(two.cpu_s_per_1000 / one.cpu_s_per_1000 for one, two in pairs)
        cells = (
            f"{cold.case}, {cold.ttfb_ms:g}",
            *(f"{Spread.of(e.tiles_per_s for e in runs[each]).median:.0f}" for each in (cold, warm)),
            f"{speed.median:.2f} [{speed.lowest:.2f}..{speed.highest:.2f}]",
            *(f"{Spread.of(e.cpu_s_per_1000 for e in runs[each]).median:.2f}" for each in (cold, warm)),
            f"{cpu.median:.2f} [{cpu.lowest:.2f}..{cpu.highest:.2f}]",
        )
        yield f"| {' | '.join(cells)} |"
    for engine in (OURS, INDEXED):
        gets = Spread.of(each.n_gets / each.run.n_tiles for each in measured if each.setting.engine == engine)
        yield f"\n{engine}: {gets.median:.2f} GETs a tile [{gets.lowest:.2f}..{gets.highest:.2f}]"


def _place(setting: Setting) -> tuple[str, float]:
    return setting.case, setting.ttfb_ms


def main() -> None:
    """Measure, and print a table as Markdown to standard output."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add = parser.add_argument
    add("--ttfb", type=float, nargs="+", default=[0, 15, 30], metavar="MS", help="delays to the first byte")
    add("--repeats", type=int, default=5)
    add("--files", type=int, default=1278, help="reads in the long case")
    add("--distinct-files", type=int, default=256, help="files made; they repeat under other paths")
    add("--cases", nargs="+", choices=["long", "shard"], default=["long", "shard"])
    add("--json", type=Path, help="keep every record here")
    options = parser.parse_args()
    settings = list(settings_of(ttfb_ms=options.ttfb, cases=options.cases, n_files=options.files))
    with open_bench(n_files=options.distinct_files) as bench:
        measured = bench.rounds(settings, repeats=options.repeats, on_run=_tell)
    facts = about_machine()
    if options.json:
        options.json.write_text(to_json(measured, facts))
    sys.stdout.write("\n".join((*table(measured), "", *(f"- {k}: {v}" for k, v in facts.items()), "")))


def _tell(each: Measurement) -> None:
    setting = each.setting
    sys.stderr.write(
        f"{each.round_index}  {setting.case:6}{setting.ttfb_ms:4g} ms  {setting.engine:22}"
        f"{each.tiles_per_s:7.0f} tiles/s{each.cpu_s_per_1000:7.2f} CPU s"
        f"{each.n_gets / setting.n_tiles:6.2f} GETs\n"
    )


if __name__ == "__main__":
    main()
