"""A worker imports nothing that only the plan or the finish needs."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

_WORKER = (
    "pixel_gather.use_cases.gather_shard",
    "pixel_gather.read.read_shard",
    "pixel_gather.adapters.cube.shard_codec",
    "pixel_gather.adapters.cube.zarr_cube",
    "pixel_gather.adapters.cube.control_files",
    "pixel_gather.adapters.object_store.concurrency",
    "pixel_gather.adapters.object_store.object_store",
    "pixel_gather.adapters.crs",
    "pixel_gather.adapters.geotiff.reader",
)

_PICTURES = ("matplotlib", "jinja2", "PIL")


@dataclass(frozen=True)
class Case:
    """Modules that are imported, and packages that they must not load."""

    id: str
    imported: tuple[str, ...]
    spared: tuple[str, ...]


CASES = (
    Case(
        "package",
        ("pixel_gather",),
        ("boto3", "botocore", "rasterio", "zarr", "pydantic", "arro3", "numpy", "obstore"),
    ),
    Case(
        "in process",
        ("pixel_gather.local.gather",),
        ("boto3", "botocore", "rasterio", "zarr", "xarray", *_PICTURES),
    ),
    Case(
        "core",
        ("pixel_gather.use_cases.gather_shard", "pixel_gather.use_cases.finish_gather"),
        ("pydantic", "zarr", "rasterio", "boto3", "obstore", "imagecodecs", "arro3", *_PICTURES),
    ),
    Case(
        "what submit checks",  # its package has neither
        ("handlers.api.policy", "pixel_gather.request.request"),
        ("msgspec", "numpy", "obstore", "urllib3", "zarr"),
    ),
    Case(
        "worker",
        _WORKER,
        ("pydantic", "zarr", "rasterio", "boto3", "botocore", "arro3", "sqlite3", "xarray", *_PICTURES),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_import_loads_nothing_that_is_not_needed(case: Case) -> None:
    """Importing these modules loads none of the packages."""
    program = f"import sys, {', '.join(case.imported)}; print(*sys.modules)"
    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    loaded = {name.partition(".")[0] for name in answer.stdout.split()}
    assert loaded.isdisjoint(case.spared)
