"""What each function loads at its cold start: nothing that its package does not hold or its work not need."""

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from lambda_functions import ENVIRONMENT

_ARRAYS = (
    "numpy",
    "obstore",
    "imagecodecs",
    "zarr",
    "rasterio",
    "xxhash",
    "msgspec",
    "uvloop",
    "google_crc32c",
)
_LISTS = ("arro3", "regex", "sqlite3")


@dataclass(frozen=True)
class Case:
    """A function, and packages that must not be loaded with it."""

    id: str
    spared: tuple[str, ...]


CASES = (
    Case("gather_shard", ("pydantic", "zarr", "rasterio", "boto3", *_LISTS)),
    Case("finish_gather", ("pydantic", "rasterio", "boto3", *_LISTS)),
    Case("plan_gather", ("boto3", "rasterio", "zarr")),
    Case("dry_run", ("boto3", "rasterio", "zarr")),
    Case("submit", (*_ARRAYS, *_LISTS)),
    Case("status", ("pydantic", *_ARRAYS, *_LISTS)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_cold_start_loads_nothing_that_is_not_needed(case: Case) -> None:
    """A cold start pays for what its work uses, and for no more."""
    program = f"import sys, handlers.{case.id}; print(*sys.modules)"
    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ) | dict(ENVIRONMENT),
    )

    loaded = {name.partition(".")[0] for name in answer.stdout.split()}
    assert "handlers" in loaded
    assert loaded.isdisjoint(case.spared)
