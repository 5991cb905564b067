"""A plan whose cube keeps the tiles as they are stored."""

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from support.fakes import FakeReader, table_of
from support.plans import planned


def test_tiles_as_stored_cannot_be_masked() -> None:
    """No pixel is decoded."""
    reader = FakeReader({"a": np.zeros((1, 8, 8), "uint8")})

    with pytest.raises(RequestError, match="cannot be masked"):
        planned(reader, table_of("a"), masked=True, output={"codec": "source"})
