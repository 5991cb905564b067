"""What a few late answers cost: 1 % of them by a second, with hedges and without, beside rasterio.

``PYTHONPATH=tests uv run python -m benchmarks.bench_tail``; README.md beside this file says what is measured
and what came out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting
from benchmarks.output import add_late_answers, add_workload, measure_and_put, parser_of

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
    parser = parser_of(main)
    add_workload(parser, ["long", "shard"])
    add_late_answers(parser, slow_s=1.0)
    names = [name for name, _ in CONTENDERS]
    parser.add_argument("--engines", nargs="+", choices=names, default=names)
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
        if engine in options.engines
    ]
    settings = tail_settings(settings, slow_share=options.slow_share, slow_s=options.slow_s)
    measure_and_put(options, settings, tables)


def _row(without: Sequence[Measurement], late: Sequence[Measurement]) -> str:
    extra = Spread.of(100 * (n_requests(b) / n_requests(a) - 1) for a, b in zip(without, late, strict=True))
    cells = (
        late[0].setting.engine,
        str(late[0].setting.concurrency),
        Spread.of(map(reading_s, without)).text(2),
        Spread.of(map(reading_s, late)).text(2),
        ratio(without, late, reading_s).text(2),
        ratio(without, late, process_s).text(2),
        f"{extra.text(1)} %",
        Spread.of(each.run.cpu_s_per_1000(with_start=False) for each in late).text(2),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
