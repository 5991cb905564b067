"""The number of sources in flight that the reader finds out, against every fixed one, and under throttling.

``PYTHONPATH=tests uv run python -m benchmarks.bench_concurrency``; README.md beside this file says what is
measured and what came out.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting
from benchmarks.output import add_late_answers, add_workload, measure_and_put, parser_of

ADAPTIVE: Final = 0
"""Stands for no fixed number."""

FIXED: Final = (1, 2, 4, 8, 16, 32, 64, 96, 128)
THROTTLED: Final = "throttled"
_SHARD_N_TILES: Final = 64
_FEW_N_TILES: Final = 128
"""Read by fewer than 8 at a time: they have the same pace throughout, and more would take minutes."""

_FEW: Final = 8


def settings_of(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield what to measure in one round."""
    for ttfb_ms in options.ttfb:
        for case in options.cases:
            setting = Setting(
                case=case,
                engine=OURS,
                concurrency=ADAPTIVE,
                n_tiles=_SHARD_N_TILES if case == "shard" else options.files,
                ttfb_ms=ttfb_ms,
                counts_start=False,
                slow_share=options.slow_share,
                slow_s=options.slow_s,
            )
            if case == THROTTLED:
                for rate in options.rates:
                    yield replace(setting, max_rate=rate)
                continue
            yield setting
            for n in options.concurrency:
                n_tiles = min(setting.n_tiles, _FEW_N_TILES) if n < _FEW else setting.n_tiles
                yield replace(setting, concurrency=n, n_tiles=n_tiles)


def against_best(
    measured: Sequence[Measurement], value: Callable[[Measurement], float]
) -> tuple[int, Spread]:
    """Compare the adaptive runs of one case and delay with the fixed number of the highest median.

    Returns:
        That number, and how many times as high the adaptive runs' value is, round by round.
    """
    groups = {setting.concurrency: runs for setting, runs in by_setting(measured).items()}
    adaptive = groups.pop(ADAPTIVE)
    best = max(groups, key=lambda n: statistics.median(map(value, groups[n])))
    return best, Spread.of(value(a) / value(b) for a, b in zip(adaptive, groups[best], strict=True))


def tiles_per_s(each: Measurement) -> float:
    """Return the pace of reading alone."""
    return each.run.tiles_per_s(with_start=False)


def tiles_per_s_with_start(each: Measurement) -> float:
    """Return the pace with the start of the process."""
    return each.run.tiles_per_s(with_start=True)


def wasted_percent(each: Measurement) -> float:
    """Return the share of the requests that the server refused."""
    return 100 * each.n_refused / each.n_gets


def tables(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield lines of Markdown: a table per case and delay."""

    def table_of(each: Measurement) -> tuple[str, float]:
        return each.setting.case, each.setting.ttfb_ms

    for (case, ttfb_ms), group in groupby(sorted(measured, key=table_of), table_of):
        rows = list(group)
        yield f"\n### {case}: {rows[0].setting.n_tiles} files, {ttfb_ms:g} ms to the first byte\n"
        yield from _throttled(rows) if case == THROTTLED else _fixed(rows)


def _fixed(rows: Sequence[Measurement]) -> Iterator[str]:
    yield "| at a time | tiles/s | with start | CPU s per 1,000 | MiB |"
    yield "| --- | --- | --- | --- | --- |"
    for setting, runs in by_setting(rows).items():
        cells = (
            "adaptive" if setting.concurrency == ADAPTIVE else str(setting.concurrency),
            _text(map(tiles_per_s, runs)),
            _text(map(tiles_per_s_with_start, runs)),
            _text((each.run.cpu_s_per_1000(with_start=False) for each in runs), 2),
            _text(each.run.peak_rss_mib for each in runs),
        )
        yield f"| {' | '.join(cells)} |"
    if len(by_setting(rows)) == 1:
        return
    for name, value in (("reading alone", tiles_per_s), ("with start", tiles_per_s_with_start)):
        best, ratio = against_best(rows, value)
        yield f"\n{name}: {ratio.text(2)} times the best fixed number, {best}"


def _throttled(rows: Sequence[Measurement]) -> Iterator[str]:
    yield "| requests/s granted | requests/s answered | tiles/s | refused, % |"
    yield "| --- | --- | --- | --- |"
    for setting, runs in by_setting(rows).items():
        cells = (
            f"{setting.max_rate:g}",
            _text((each.n_gets - each.n_refused) / each.run.reading_s for each in runs),
            _text(map(tiles_per_s, runs)),
            _text(map(wasted_percent, runs), 2),
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    parser = parser_of(main)
    add_workload(parser, ["long", "shard", THROTTLED])
    add_late_answers(parser, slow_s=0.1)
    add = parser.add_argument
    add("--concurrency", type=int, nargs="*", default=FIXED, metavar="N", help="fixed numbers")
    add("--rates", type=float, nargs="+", default=[200, 400, 800], help="requests/s of the throttled case")
    options = parser.parse_args()
    measure_and_put(options, list(settings_of(options)), tables)


def _text(values: Iterator[float], digits: int = 0) -> str:
    return Spread.of(values).text(digits)


if __name__ == "__main__":
    main()
