"""A deployment for the tests of the handlers: S3 with small real files, and the functions of a gather."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.lambda_functions import ENVIRONMENT, StateMachine, cold_start, emptied, s3_server

SERIES = Path(__file__).parents[1] / "data/series/files"


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Serve S3."""
    with s3_server() as url:
        yield url


@pytest.fixture
def s3(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put eight scenes of one Landsat tile and four grids of ocean heat into the bucket of sources."""
    for variable, value in (dict(ENVIRONMENT) | {"AWS_ENDPOINT_URL": s3_url}).items():
        monkeypatch.setenv(variable, value)
    client = emptied(s3_url)
    for file in sorted(SERIES.glob("gdalcubes/*_B2.TIF")):
        client.put_object(Bucket="sources", Key=f"landsat/{file.name}", Body=file.read_bytes())
    for file in sorted(SERIES.glob("stactools-noaa-cdr/heat_content_anomaly_0-2000*.tif")):
        client.put_object(Bucket="sources", Key=f"heat/{file.name}", Body=file.read_bytes())
    return client


@pytest.fixture
def machine(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateMachine]:
    """Start the three functions of a gather."""
    with ExitStack() as stack:
        plan, shard, finish = (
            stack.enter_context(cold_start(monkeypatch, name))
            for name in ("plan_gather", "gather_shard", "finish_gather")
        )
        yield StateMachine(plan=plan, shard=shard, finish=finish, s3=s3)
