"""What tests of the benchmarks share: runs in this process, and an environment that ends with the test."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from pixel_gather_bench.suite.job import SuiteJob
from pixel_gather_bench.suite.one_run import do


@pytest.fixture
def own_environment() -> Iterator[None]:
    """What GDAL is told by the environment ends with the test, whose process it is not made for."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def without_processes(own_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite's runs are done in this process, by the same function."""
    del own_environment

    def run(_: str, job: SuiteJob, *__: Any, **___: Any) -> Any:
        return do(job)

    monkeypatch.setattr("pixel_gather_bench.suite.suite.run_in_child", run)
