"""Each function imports at its cold start only what its package holds and its work needs."""

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from support.lambda_functions import ENVIRONMENT, handler_module

_ARRAYS = (
    "numpy",
    "obstore",
    "imagecodecs",
    "zarr",
    "rasterio",
    "xxhash",
    "uvloop",
    "google_crc32c",
)
_LISTS = ("arro3", "regex", "sqlite3")
_AWS = ("boto3", "botocore.session", "s3transfer", "urllib3")
"""Powertools imports the top of botocore to see whether it is installed."""

_OTHER_STEPS = (
    "pixel_gather.core.results.row_coordinates",
    "pixel_gather.features.gather.gather",
    "pixel_gather.core.plan.plan",
    "pixel_gather.core.results.report",
    "pixel_gather.core.request.request",
    "pixel_gather.core.plan.sample_headers",
)
_RARE = ("pixel_gather.io.gdal.reader", "xml.etree.ElementTree")
"""Needed only for sources that GDAL reads, and for sources that declare a scale."""


_OTHER_GATHERS = (
    "pixel_gather.core.plan.chip_table",
    "pixel_gather.core.plan.plan_reduction",
    "pixel_gather.io.aws.gather_document",
    "pixel_gather.io.store.json_http",
    "pixel_gather.tables",
    *("email", "html", "secrets", "shutil", "tempfile"),
)
"""What a worker needs for no gather, or only for sources that are signed for."""

_PICTURES = ("matplotlib", "jinja2", "PIL")
"""Needed only when the finish draws. No other package has them."""


@dataclass(frozen=True)
class Case:
    """Functions, and packages and modules that must not be loaded with any of them."""

    functions: tuple[str, ...]
    spared: tuple[str, ...]

    @property
    def id(self) -> str:
        """Return the name of the case."""
        return " ".join(self.functions)


CASES = (
    Case(
        ("gather_shard",),
        ("pydantic", "zarr", "rasterio", *_AWS, *_LISTS, *_OTHER_STEPS, *_OTHER_GATHERS, *_RARE, *_PICTURES),
    ),
    Case(("finish_gather",), ("pydantic", "rasterio", *_AWS, *_LISTS, *_PICTURES)),
    Case(("plan_gather", "dry_run"), ("rasterio", "zarr", *_AWS, *_PICTURES)),
    Case(
        ("rank", "answer_tables", "plan_table", "read_images"),
        ("rasterio", "shapely", "zarr", *_AWS, *_PICTURES),
    ),
    Case(("submit",), (*_ARRAYS, *_LISTS)),
    Case(("tick",), ("rasterio", "shapely", "zarr", *_LISTS, *_PICTURES)),
    Case(
        ("answer_searches",),
        ("pydantic", "rasterio", "zarr", "imagecodecs", "shapely", *_AWS, *_LISTS, *_OTHER_STEPS, *_PICTURES),
    ),
    Case(("halt", "watch", "status"), ("pydantic", *_ARRAYS, *_LISTS)),
)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_cold_start_loads_nothing_that_is_not_needed(case: Case) -> None:
    """Importing the functions loads none of these packages. Functions that spare the same share a process."""
    modules = [handler_module(name) for name in case.functions]
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ) | dict(ENVIRONMENT),
    )

    loaded = set(answer.stdout.split())
    assert loaded.issuperset(modules)
    assert loaded.intersection(case.spared) == set()
