"""This project's reader with a header index and without, on the published report's workload.

``PYTHONPATH=tests uv run python -m benchmarks.bench_index``; README.md beside this file says what is measured
and what came out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting
from benchmarks.output import add_workload, measure_and_put, parser_of

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
            speed.text(2),
            *(f"{Spread.of(e.cpu_s_per_1000 for e in runs[each]).median:.2f}" for each in (cold, warm)),
            cpu.text(2),
        )
        yield f"| {' | '.join(cells)} |"
    for engine in (OURS, INDEXED):
        gets = Spread.of(each.n_gets / each.run.n_tiles for each in measured if each.setting.engine == engine)
        yield f"\n{engine}: {gets.median:.2f} GETs a tile [{gets.lowest:.2f}..{gets.highest:.2f}]"


def _place(setting: Setting) -> tuple[str, float]:
    return setting.case, setting.ttfb_ms


def main() -> None:
    """Measure, and print a table as Markdown to standard output."""
    parser = parser_of(main)
    add_workload(parser, ["long", "shard"])
    options = parser.parse_args()
    settings = list(settings_of(ttfb_ms=options.ttfb, cases=options.cases, n_files=options.files))
    measure_and_put(options, settings, table)


if __name__ == "__main__":
    main()
