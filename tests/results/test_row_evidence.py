"""Rows that are read back from a cube."""

import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.row_evidence import stored_status


def test_a_status_that_no_one_knows_is_damage() -> None:
    """It may also be of a newer version. The error names the place."""
    assert stored_status(0, place="cube") is Status.OK
    with pytest.raises(StoreError, match="cube: no status has the number 16"):
        stored_status(16, place="cube")
