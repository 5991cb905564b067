"""What holds for every test: marks by folder, which tests share a worker, and a sound start for processes."""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_TESTS: Final = Path(__file__).parent
_MARKS: Final = {
    "e2e/": "e2e",
    "infra/bundle/": "bundle",
    "infra/": "slow",
    "emulator/": "slow",
    "parity/": "slow",
    "hostile/": "slow",
    "bench/": "slow",
    "benchmarks/": "slow",
    "local/": "slow",
    "cli/test_cli.py::test_docs_are": "slow",
    "cli/test_report.py::test_report_of": "slow",
    "test_docs_commands.py::test_commands_of_a_page": "slow",
}
"""Beginnings of tests' names below this folder, and the mark of them all; slow takes 3 s of CPU, or more."""

_SHARED: Final = ("e2e", "emulator", "infra/bundle")
"""Beginnings of paths whose tests share what takes long to make: one worker runs them all.

They take longest, too, so they come first. Tests of any other module share a worker with each other.
"""

# Tests start hundreds of processes. Each would compile all its libraries anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A worker of the suite is given a terminal's width, by which tables would be wrapped.
os.environ.pop("COLUMNS", None)

# A shell that starts a command in the background has it ignore interrupts, and so would all its children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in a worker for each core, and what is named on the command line in none."""
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return (os.process_cpu_count() or 1) if is_whole else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand the workers one group of tests after the other."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _group_of
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and put those that take longest first."""
    for item in items:
        for beginning, mark in _MARKS.items():
            if _name_of(item.nodeid).startswith(beginning):
                item.add_marker(mark)
    items.sort(key=lambda item: _rank_of(_name_of(item.nodeid)))


def _group_of(nodeid: str) -> str:
    """Return the group of a test: one worker runs all of it, in order."""
    name = _name_of(nodeid)
    shared = next((beginning for beginning in _SHARED if name.startswith(beginning)), None)
    reader = re.match(r"parity/test_parity.*\[(joined|gdal)-", name)  # one fixture for all tests of each
    return shared or (reader[1] if reader else name.partition("::")[0])


def _name_of(nodeid: str) -> str:
    return nodeid.removeprefix(f"{_TESTS.name}/")


def _rank_of(name: str) -> int:
    return next((i for i, beginning in enumerate(_SHARED) if name.startswith(beginning)), len(_SHARED))
