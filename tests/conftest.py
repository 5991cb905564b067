"""Rules for all tests: marks by folder, which tests share a worker, and a sound start of processes."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from pixel_gather.io.store import ranged_gets
from pixel_gather.io.store.hedge_policy import BackEnd

_TESTS: Final = Path(__file__).parent
_MARKS: Final = {"e2e/": "e2e", "infra/bundle/": "bundle"}
"""Prefixes of test paths, and the mark of these tests."""

_SLOW: Final = (
    "e2e/",
    "infra/",
    "emulator/",
    "parity/",
    "hostile/",
    "bench/",
    "benchmarks/",
    "features/",
    "store/test_concurrency.py",
    "handlers/gather/test_gather_functions.py",
    "cli/test_cli.py::test_docs_are",
    "test_docs_commands.py::test_commands_of_a_page",
)
"""Prefixes of the paths of slow tests. Most of them take a second of CPU or more."""

_WHOLLY_SLOW: Final = frozenset(_TESTS / prefix for prefix in _SLOW)
"""Folders and modules that have no other tests."""

_SHARED: Final = ("e2e", "infra/bundle", "infra", "emulator")
"""Prefixes of test paths with shared expensive fixtures.

One worker runs all tests of a prefix. They take longest, so they come first. All tests of any other module
share a worker.
"""

_LONG_MODULES: Final = (
    "bench/figures/test_draw.py",
    "faults/test_stopped.py",
    "faults/test_chaos_on_stack.py",
    "faults/",
    "handlers/gather/test_gather_functions.py",
    "features/test_series.py",
    "test_docs_commands.py",
    "benchmarks/test_memory.py",
    "test_wheel.py",
    "parity/",
    "report/",
    "benchmarks/",
    "bench/",
    "store/test_concurrency.py",
    "features/",
    "lists/",
    "handlers/",
)
"""Prefixes of the paths of long modules, the longest first.

They come next. A long module that is begun last leaves the other workers idle.
"""

# No test depends on the speed of the machine, whatever else runs on it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests start hundreds of processes. Each would compile all its libraries anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A worker of the suite is given a terminal's width, by which tables would be wrapped.
os.environ.pop("COLUMNS", None)

# A shell that starts a command in the background has it ignore interrupts, and so would all its children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def without_hedges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no late request a second time, so that a test can count requests on a busy machine."""
    monkeypatch.setattr(ranged_gets, "BackEnd", lambda _settings: BackEnd(None))


def pytest_configure(config: pytest.Config) -> None:
    """Give all tests, and the processes that they start, an empty home.

    Only uv keeps its cache, and CDK its unpacked library in ``build``: 7,000 files, 5 s of CPU.
    """
    if hasattr(config, "workerinput"):
        return  # a worker of the suite has its parent's environment
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("UV_CACHE_DIR", str(cache / "uv"))
    os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(_TESTS.parent / "build" / "jsii"))
    home = Path(tempfile.mkdtemp(prefix="pixel-gather-home-"))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ.pop(name, None)  # by default they are below the home
    os.environ.update(HOME=str(home), XDG_CACHE_HOME=str(home / ".cache"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one worker per core and one more, and none for tests named on the command line.

    A core would be idle while a test waits for a state machine, a server or a process that is to end. Fast
    tests do not wait, and every worker collects all tests: those have one worker per core.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return 0
    return (os.process_cpu_count() or 1) + (0 if "slow" in config.option.markexpr else 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no modules whose tests are all slow where slow tests are left out. Importing takes longest."""
    is_left_out = config.option.markexpr == "not slow" and collection_path in _WHOLLY_SLOW
    return True if is_left_out else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the modules that collecting imports, now and during the tests.

    Raises:
        UsageError: Collecting has imported CDK, which starts Node in every worker.
    """
    gc.disable()
    try:
        result = yield
        if "aws_cdk" in sys.modules:
            raise pytest.UsageError("a module of tests imports aws_cdk: import it inside of a test")
        return result
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests were skipped, and why."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    if reasons:
        in_order = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
        told = "; ".join(f"{reason.removeprefix('Skipped: ')} ({n})" for reason, n in in_order)
        noun = "test was" if reasons.total() == 1 else "tests were"
        terminalreporter.write_line(f"{reasons.total()} {noun} skipped: {told}")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give the workers one group of tests after another."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _group_of
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and put the slowest first.

    Schemathesis gives the tests of all routes one id. Workers run one test of an id.
    """
    for item in items:
        if not item.nodeid.endswith(item.name) and item.parent is not None:
            item._id = item.parent._id.child(item.name)
        name = _name_of(item.nodeid)
        for prefix, mark in _MARKS.items():
            if name.startswith(prefix):
                item.add_marker(mark)
        if name.startswith(_SLOW) or item.get_closest_marker("long"):
            item.add_marker("slow")
    items.sort(key=lambda item: _rank_of(_name_of(item.nodeid)))


def _group_of(nodeid: str) -> str:
    """Return the group of a test: one worker runs all of it, in order."""
    name = _name_of(nodeid)
    shared = next((beginning for beginning in _SHARED if name.startswith(f"{beginning}/")), None)
    reader = re.match(r"parity/test_parity.*\[(joined|gdal)-", name)  # one fixture for all tests of each
    return shared or (reader[1] if reader else name.partition("::")[0])


def _name_of(nodeid: str) -> str:
    return nodeid.removeprefix(f"{_TESTS.name}/")


def _rank_of(name: str) -> int:
    first = (*(f"{beginning}/" for beginning in _SHARED), *_LONG_MODULES)
    return next((i for i, beginning in enumerate(first) if name.startswith(beginning)), len(first))
