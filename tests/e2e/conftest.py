"""The deployment that all end-to-end tests share: the emulator with the real stack in it."""

from collections.abc import Iterator

import pytest

from pixel_gather_emulator.deploy import DeployedStack, deployed

_WAITS: float = 0.2
"""Of a state machine's waits before it tries again: the tests are about whether it does."""


@pytest.fixture(scope="session")
def deployment() -> Iterator[DeployedStack]:
    """Deploy once for the whole run, with the samples as the only bucket that gathers may read."""
    with deployed(wait_scale=_WAITS, context={"max_failed_shards": "1"}) as there:
        yield there
