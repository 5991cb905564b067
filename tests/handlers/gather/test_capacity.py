"""What an estimate on AWS takes of the deployment's settings."""

import json

import pytest

from handlers.deployment.settings import Settings
from handlers.gather.capacity import deployed_workers, worker_size_index
from pixel_gather.core.estimate.workload import FarBucket
from support.lambda_functions import ENVIRONMENT, REGION

BUCKETS = [
    {"name": "here"},
    {"name": "far", "region": "us-west-2"},
    {"name": "open", "region": "us-east-1", "unsigned": True},
]
SETTINGS = Settings.from_environment(
    {
        **ENVIRONMENT,
        "PIXEL_GATHER_SOURCE_BUCKETS": json.dumps(BUCKETS),
        "PIXEL_GATHER_LIMITS": json.dumps({"workers": 200}),
    }
)


def test_buckets_of_other_regions_are_charged_unless_they_are_open() -> None:
    """Who reads an open bucket without credentials is not billed for the transfer."""
    workers = deployed_workers(SETTINGS)

    assert (workers.region, workers.max_workers, workers.in_flight) == (REGION, 200, 16)
    assert workers.far_buckets == {
        "far": FarBucket(region="us-west-2", is_charged=True),
        "open": FarBucket(region="us-east-1", is_charged=False),
    }


@pytest.mark.parametrize(("memory_mib", "index"), [(1024, 0), (1769, 1), (3008, 1)])
def test_worker_is_the_function_with_the_planned_memory(memory_mib: int, index: int) -> None:
    """The largest one, if the deployment has no such function any more."""
    assert worker_size_index(memory_mib, SETTINGS) == index
