"""What all benchmarks of this folder share: their options and their output."""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pixel_gather_bench.machine import about_machine


def parser_of(main: Callable[[], None]) -> argparse.ArgumentParser:
    """Return a parser with the option of every benchmark."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="keep every record here")
    return parser


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
