"""A worker imports nothing that only the plan or the finish needs."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

_WORKER = (
    "pixel_gather.engine.gather_shard",
    "pixel_gather.core.read.read_shard",
    "pixel_gather.io.cube.shard_codec",
    "pixel_gather.io.cube.zarr_cube",
    "pixel_gather.io.cube.control_files",
    "pixel_gather.io.store.concurrency",
    "pixel_gather.io.store.object_store",
    "pixel_gather.io.crs",
    "pixel_gather.io.geotiff.reader",
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
        ("pixel_gather.features.gather.gather",),
        ("boto3", "botocore", "rasterio", "zarr", "xarray", "regex", "icechunk", *_PICTURES),
    ),
    Case(
        "core",
        ("pixel_gather.engine.gather_shard", "pixel_gather.engine.finish_gather"),
        ("pydantic", "zarr", "rasterio", "boto3", "obstore", "imagecodecs", "arro3", *_PICTURES),
    ),
    Case(
        "what submit checks",  # its package has neither
        ("handlers.deployment.policy", "pixel_gather.core.request.request"),
        ("numpy", "obstore", "urllib3", "zarr"),
    ),
    Case(
        "what only looks",
        ("pixel_gather.io.aws.executions",),
        ("pydantic", "boto3", "obstore", "numpy", "zarr"),
    ),
    Case(
        "worker",
        _WORKER,
        ("pydantic", "zarr", "rasterio", "boto3", "botocore", "arro3", "sqlite3", "xarray", *_PICTURES),
    ),
)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_import_loads_nothing_that_is_not_needed(case: Case) -> None:
    """Importing these modules loads none of the packages."""
    program = f"import sys, {', '.join(case.imported)}; print(*sys.modules)"
    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    loaded = {name.partition(".")[0] for name in answer.stdout.split()}
    assert loaded.isdisjoint(case.spared)


_GATHER = """
import sys
import pixel_gather.features.gather.gather as local
read = local._gather_shards
def noted(*plan, **named):
    print(*sys.modules)
    return read(*plan, **named)
local._gather_shards = noted
request = {"sources": [sys.argv[1]], "window": "centre"}
local.gather(request, to=sys.argv[2], settings=local.Settings(draws_report=False))
"""


@pytest.mark.slow
def test_reading_begins_before_zarr_and_rasterio_are_imported(tmp_path: Path) -> None:
    """They take half a second. The CRS is described beside reading, and coordinates are written after it."""
    file = tmp_path / "a.tif"
    place = from_origin(500_000, 5_000_000, 10, 10)
    with rasterio.open(
        file, "w", width=16, height=16, count=1, dtype="uint8", crs="EPSG:32632", transform=place
    ) as made:
        made.write(np.ones((1, 16, 16), np.uint8))

    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", _GATHER, str(file), str(tmp_path / "cube")],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name.partition(".")[0] for name in answer.stdout.split()}
    assert loaded.isdisjoint({"zarr", "rasterio", "boto3", "xarray", "regex", *_PICTURES})
