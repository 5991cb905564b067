"""What all benchmarks of this folder share: their options, their progress lines and their output."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement, Setting, open_bench
from pixel_gather_bench.machine import about_machine


def parser_of(main: Callable[[], None], *, repeats: int | None = 5) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark; None for one that measures once."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats, help=f"rounds, {repeats} if not given")
    parser.add_argument("--json", type=Path, help="keep every record here")
    return parser


def add_workload(parser: argparse.ArgumentParser, cases: Sequence[str]) -> None:
    """Add the options of a benchmark that reads the workload's files."""
    add = parser.add_argument
    add("--ttfb", type=float, nargs="+", default=[0, 15, 30], metavar="MS", help="delays to the first byte")
    add("--cases", nargs="+", choices=cases, default=cases)
    add("--files", type=int, default=1278, help="reads in all but the shard case")


def add_late_answers(parser: argparse.ArgumentParser, *, slow_s: float) -> None:
    """Add the options of late answers."""
    parser.add_argument("--slow-share", type=float, default=0.01, help="share of the answers that are late")
    parser.add_argument("--slow-s", type=float, default=slow_s, help="by so many seconds")


def measure_and_put(
    options: argparse.Namespace,
    settings: Sequence[Setting],
    tables: Callable[[Sequence[Measurement]], Iterable[str]],
) -> None:
    """Measure all settings in rounds and print the tables."""
    with open_bench(n_files=256) as bench:
        measured = bench.rounds(settings, repeats=options.repeats, on_run=tell)
    put(tables(measured), measured, options.json)


def put(
    lines: Iterable[str], records: Iterable[Any], to: Path | None, *, more: Mapping[str, Any] | None = None
) -> None:
    """Print tables and facts about the machine to standard output, and keep the records in a JSON file."""
    facts = about_machine() | dict(more or {})
    if to is not None:
        kept = [each if isinstance(each, dict) else asdict(each) for each in records]
        to.write_text(json.dumps({"about": facts, "measurements": kept}, indent=1))
    told = (f"- {name}: {value}" for name, value in facts.items())
    sys.stdout.write("\n".join((*lines, "", *told, "")))


def tell(each: Measurement) -> None:
    """Write a line about a run to standard error."""
    setting = each.setting
    sys.stderr.write(
        f"{each.round_index}  {setting.case:10}{setting.ttfb_ms:4g} ms  {setting.engine:22}"
        f"{setting.concurrency:4}{' late' if setting.slow_share else '':5}{each.tiles_per_s:7.0f} tiles/s"
        f"{each.cpu_s_per_1000:7.2f} CPU s per 1,000{each.n_gets:6} GETs{each.n_refused:5} refused\n"
    )
