"""What holds for every test: marks by folder, which tests share a worker, and a sound start for processes."""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Final, override

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_TESTS: Final = Path(__file__).parent
_MARKS: Final = {"e2e/": "e2e", "infra/test_bundle": "bundle"}
"""Beginnings of paths below this folder, and the mark of all tests there."""

_SHARED: Final = ("e2e", "emulator", "infra/test_bundle")
"""Beginnings of paths whose tests share what takes long to make: one worker runs them all.

They take longest, too, so they come first. Tests of any other module share a worker with each other.
"""

# Tests start hundreds of processes. Each would compile all its libraries anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts a command in the background has it ignore interrupts, and so would all its children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in a worker for each core, and what is named on the command line in none."""
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return (os.process_cpu_count() or 1) if is_whole else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand the workers one group of tests after the other."""
    return _ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and put those that take longest first."""
    for item in items:
        path = item.path.relative_to(_TESTS).as_posix()
        for beginning, mark in _MARKS.items():
            if path.startswith(beginning):
                item.add_marker(mark)
    ranks = {item: _rank_of(item.path.relative_to(_TESTS).as_posix()) for item in items}
    items.sort(key=ranks.__getitem__)


class _ByGroup(LoadScopeScheduling):
    """One worker runs the tests of a module, or of modules that share something, in order."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        path = module.removeprefix(f"{_TESTS.name}/")
        reader = re.search(r"\[(joined|gdal)-", test) if path == "parity/test_parity.py" else None
        group = next((beginning for beginning in _SHARED if path.startswith(beginning)), path)
        return f"{group} {reader[1]}" if reader else group


def _rank_of(path: str) -> int:
    return next((i for i, beginning in enumerate(_SHARED) if path.startswith(beginning)), len(_SHARED))
