"""The readers under test, opened once for all files."""

import asyncio
from collections.abc import Iterator

import pytest

from parity.readers import READERS, Readings


@pytest.fixture(scope="session", params=READERS)
def readings(request: pytest.FixtureRequest) -> Iterator[Readings]:
    """Read with the joined reader, then with GDAL alone."""
    with asyncio.Runner() as runner:
        opened = Readings(runner, request.param)
        yield opened
        runner.run(opened.aclose())
