"""A small version of `scripts/load`: submissions and readers at once."""

import pytest

from faults.load import load_stack
from pixel_gather_emulator.deploy import DeployedStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_submissions_and_readers_at_once_lose_nothing(deployment: DeployedStack) -> None:
    """Each submission becomes one gather that succeeds, and each reader gets an answer."""
    done = load_stack(deployment, n_submissions=4, n_readers=20)

    assert len({each["id"] for each in done["ended"]}) == 4
    assert len(done["read_ms"]) == 20
