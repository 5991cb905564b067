"""What all benchmarks of this folder share: their options, turns and output."""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pixel_gather.core.process_usage import peak_rss_mib
from pixel_gather_bench.experiment import about_machine, markdown, rounds


class Taken(NamedTuple):
    """What one case took once."""

    seconds: float
    cpu_s: float
    peak_rss_mib: float = 0.0
    """0 where it was not measured."""


def parser_of(main: Callable[[], None]) -> argparse.ArgumentParser:
    """Return a parser with the option of every benchmark."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="keep every record here")
    return parser


def timed(work: Callable[[], object]) -> Taken:
    """Return what a piece of work takes in this process."""
    started, cpu_s = time.perf_counter(), sum(os.times()[:4])
    work()
    return Taken(time.perf_counter() - started, sum(os.times()[:4]) - cpu_s)


def timed_in_new_process(work: Callable[[], object]) -> Taken:
    """Return what a piece of work takes in a fresh process, with the start of Python and all imports."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    child = context.Process(target=_do_and_answer, args=(work, answer))
    started = time.perf_counter()
    child.start()
    cpu_s, peak_rss_mib = answer.get()
    seconds = time.perf_counter() - started
    child.join()
    return Taken(seconds, cpu_s, peak_rss_mib)


def _do_and_answer(work: Callable[[], object], answer: Any) -> None:
    work()
    answer.put((sum(os.times()[:4]), peak_rss_mib()))


def take_turns[R](
    cases: Mapping[str, Callable[[], R]], times: int, *, warm_ups: int = 0
) -> dict[str, list[R]]:
    """Call each case once a round, and return what it returned in the rounds that count."""
    seen: dict[str, list[R]] = {name: [] for name in cases}
    for number, name in rounds(list(cases), times, warm_ups=warm_ups):
        result = cases[name]()
        if number >= 0:
            seen[name].append(result)
    return seen


def compare(seen: Mapping[str, Sequence[Taken]], what: str, ours: str) -> Iterator[str]:
    """Yield a table in Markdown. Ratios are formed within each round: how many times as long others take.

    Args:
        seen: What each case took, by its name.
        what: Heads the names.
        ours: The case that the others stand beside.
    """
    has_memory = any(each.peak_rss_mib for taken in seen.values() for each in taken)
    rows = [(what, "s", "CPU s", *(["peak MiB"] if has_memory else []), f"x time of {ours}", "x CPU")]
    for name, taken in seen.items():
        seconds, cpu_s, peak_rss_mib = zip(*taken, strict=True)
        peak = [f"{max(peak_rss_mib):,.0f}"] if has_memory else []
        rows.append((name, spread(seconds), spread(cpu_s), *peak, *ratios(seen[ours], taken)))
    yield from markdown(rows)
    yield ""


def ratios(one: Sequence[Taken], other: Sequence[Taken]) -> tuple[str, str]:
    """Return how many times the seconds, and the seconds of CPU, of one the other takes, round by round."""
    pairs = list(zip(one, other, strict=True))
    return (
        spread([after.seconds / before.seconds for before, after in pairs]),
        spread([after.cpu_s / before.cpu_s if before.cpu_s else 0.0 for before, after in pairs]),
    )


def spread(values: Sequence[float]) -> str:
    """Return ``median [lowest..highest]``."""
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def put(lines: Iterable[str], records: Sequence[Any], to: Path | None) -> None:
    """Print tables and facts about the machine to standard output, and keep the records in a JSON file."""
    about = about_machine()
    if to is not None:
        to.write_bytes(msgspec.json.encode({"about": about, "measurements": records}))
    facts = (f"- {name}: {value}" for name, value in about.items())
    sys.stdout.write("\n".join((*lines, "", *facts, "")))
