"""A small version of the part of `scripts/load` that loads the emulated stack."""

import pytest

from faults.load import load_stack
from pixel_gather_emulator.deploy import DeployedStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.long
def test_submissions_and_readers_at_once_all_end_well(deployment: DeployedStack) -> None:
    """More than there are workers of each function: calls wait for one, and none is lost or doubled."""
    done = load_stack(deployment, n_submissions=12, n_readers=24, draws_reports=False)

    assert len(done["ended"]) == 12
