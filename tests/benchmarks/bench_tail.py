"""What a few late answers cost: 1 % of them by a second, with hedges and without, beside rasterio.

``PYTHONPATH=tests uv run python -m benchmarks.bench_tail``; README.md beside this file says what is measured
and what came out.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting, open_bench, to_json
from pixel_gather_bench.machine import about_machine

UNHEDGED: Final = "pixel-gather-unhedged"
CONTENDERS: Final = ((OURS, 64), (UNHEDGED, 64), ("rasterio-published", 32), ("rasterio-modern", 32))
_SHARD_N_TILES: Final = 64


def tail_settings(settings: Sequence[Setting], *, slow_share: float, slow_s: float) -> list[Setting]:
    """Return each setting without late answers and with them, one after the other."""
    late = [replace(setting, slow_share=slow_share, slow_s=slow_s) for setting in settings]
    return [each for pair in zip(settings, late, strict=True) for each in pair]


def with_tail(measured: Sequence[Measurement]) -> Iterator[tuple[list[Measurement], list[Measurement]]]:
    """Yield the runs of a setting without late answers and those with them, in the order of rounds."""
    groups = by_setting(measured)
    for setting, runs in groups.items():
        if setting.slow_share:
            yield groups[replace(setting, slow_share=0.0, slow_s=0.0)], runs


def ratio(
    without: Sequence[Measurement], late: Sequence[Measurement], value: Callable[[Measurement], float]
) -> Spread:
    """Return how many times as large a value is with late answers, round by round."""
    return Spread.of(value(b) / value(a) for a, b in zip(without, late, strict=True))


def reading_s(each: Measurement) -> float:
    """Return the wall time of reading."""
    return each.run.reading_s


def process_s(each: Measurement) -> float:
    """Return the wall time of reading and of the process's start."""
    return each.run.process_s


def n_requests(each: Measurement) -> float:
    """Return how many requests the server got."""
    return each.n_gets + each.n_heads


def tables(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield lines of Markdown, a table per case and delay."""

    def table_of(each: Measurement) -> tuple[str, float]:
        return each.setting.case, each.setting.ttfb_ms

    for (case, ttfb_ms), group in groupby(sorted(measured, key=table_of), table_of):
        rows = list(group)
        yield f"\n### {case}: {rows[0].setting.n_tiles} files, {ttfb_ms:g} ms to the first byte\n"
        yield "| engine | at a time | s | s, late | ratio | ratio with start | more requests | CPU s |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for without, late in with_tail(rows):
            yield _row(without, late)


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add = parser.add_argument
    add("--ttfb", type=float, nargs="+", default=[0, 15, 30], metavar="MS", help="delays to the first byte")
    add("--cases", nargs="+", choices=["long", "shard"], default=["long", "shard"])
    add("--engines", nargs="+", choices=[name for name, _ in CONTENDERS], help="all if not given")
    add("--files", type=int, default=1278, help="reads in the long case")
    add("--repeats", type=int, default=5)
    add("--slow-share", type=float, default=0.01, help="share of the answers that are late")
    add("--slow-s", type=float, default=1.0, help="by so many seconds")
    add("--json", type=Path, help="keep every record here")
    options = parser.parse_args()
    settings = [
        Setting(
            case=case,
            engine=engine,
            concurrency=concurrency,
            n_tiles=options.files if case == "long" else _SHARD_N_TILES,
            ttfb_ms=ttfb_ms,
            counts_start=case == "shard",
        )
        for ttfb_ms, case, (engine, concurrency) in product(options.ttfb, options.cases, CONTENDERS)
        if options.engines is None or engine in options.engines
    ]
    settings = tail_settings(settings, slow_share=options.slow_share, slow_s=options.slow_s)
    with open_bench(n_files=256) as bench:
        measured = bench.rounds(settings, repeats=options.repeats, on_run=_tell)
    facts = about_machine()
    if options.json:
        options.json.write_text(to_json(measured, facts))
    sys.stdout.write("\n".join((*tables(measured), "", *(f"- {k}: {v}" for k, v in facts.items()), "")))


def _row(without: Sequence[Measurement], late: Sequence[Measurement]) -> str:
    extra = Spread.of(100 * (n_requests(b) / n_requests(a) - 1) for a, b in zip(without, late, strict=True))
    cells = (
        late[0].setting.engine,
        str(late[0].setting.concurrency),
        _text(Spread.of(map(reading_s, without))),
        _text(Spread.of(map(reading_s, late))),
        _text(ratio(without, late, reading_s)),
        _text(ratio(without, late, process_s)),
        f"{extra.median:.1f} % [{extra.lowest:.1f}..{extra.highest:.1f}]",
        _text(Spread.of(each.run.cpu_s_per_1000(with_start=False) for each in late)),
    )
    return f"| {' | '.join(cells)} |"


def _text(spread: Spread) -> str:
    return f"{spread.median:.2f} [{spread.lowest:.2f}..{spread.highest:.2f}]"


def _tell(each: Measurement) -> None:
    setting = each.setting
    sys.stderr.write(
        f"{each.round_index}  {setting.case:6}{setting.ttfb_ms:4g} ms  {setting.engine:22}"
        f"{'late' if setting.slow_share else '':5}{each.run.reading_s:7.3f} s{each.n_gets:6} GETs\n"
    )


if __name__ == "__main__":
    main()
