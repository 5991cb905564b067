"""The deployment that all end-to-end tests share: the emulator with the real stack in it."""

from collections.abc import Iterator

import pytest

from pixel_gather_emulator.deploy import DeployedStack, deployed

_WAITS: float = 0.2
"""Factor of a state machine's waits between tries. The tests are about the tries and not about the waits."""


@pytest.fixture(scope="session")
def deployment() -> Iterator[DeployedStack]:
    """Deploy once for all tests. Gathers may read only the bucket of samples."""
    context = {"max_failed_shards": "1", "canary_hours": "6", "max_usd_per_month": "50"}
    with deployed(wait_scale=_WAITS, context=context) as there:
        yield there
