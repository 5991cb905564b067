"""Every real file gives the same header and pixels from its packed header."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from parity.readers import Readings
from parity.test_parity import CASES
from parity.truth import Truth, sha256
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource
from pixel_gather.io.reader import CogReader

_LARGEST_NBYTES = 64 * 2**20


@pytest.fixture(scope="module")
def joined() -> Iterator[Readings]:
    """The reader of production."""
    with asyncio.Runner() as runner:
        opened = Readings(runner, "joined")
        yield opened
        runner.run(opened.aclose())


@pytest.mark.parametrize("truth", CASES)
def test_a_file_that_is_known_reads_as_one_that_is_not(joined: Readings, truth: Truth) -> None:
    """This holds for each overview, too. With a packed header no header is read."""
    for overview in (None, *range(truth.n_overviews)[:1]):
        cold = joined.open_(truth.href, overview=overview)
        packed_header, cost = _known_of(joined, truth, overview), Cost()
        warm = _open(joined, truth, overview, packed_header, cost)

        assert warm.from_packed_header is (packed_header is not None)
        assert not warm.from_packed_header or cost.requests == 0
        assert repr(warm.header) == repr(cold.header)
        for name, (window, _) in truth.windows.items() if overview is None else ():
            assert _digest(joined, warm, truth, window) == _digest(joined, cold, truth, window), name
        header = cold.header
        if header.width * header.height * truth.shape[0] * truth.dtype.itemsize <= _LARGEST_NBYTES:
            whole = Window(col_off=0, row_off=0, width=header.width, height=header.height)
            assert _digest(joined, warm, truth, whole) == _digest(joined, cold, truth, whole)
        assert packed_header is None or warm.packed_header == packed_header


def _known_of(joined: Readings, truth: Truth, overview: int | None) -> bytes | None:
    assert isinstance(joined.reader, CogReader)
    return joined.runner.run(joined.reader.packed_header_of(truth.href, overview=overview, cost=Cost()))


def _open(
    joined: Readings, truth: Truth, overview: int | None, packed_header: bytes | None, cost: Cost
) -> OpenedSource:
    assert isinstance(joined.reader, CogReader)
    return joined.runner.run(
        joined.reader.open_(truth.href, overview=overview, cost=cost, packed_header=packed_header)
    )


def _digest(joined: Readings, source: OpenedSource, truth: Truth, window: Window) -> str:
    bands = range(1, truth.shape[0] + 1)
    out = np.zeros((len(bands), window.height, window.width), truth.dtype)
    return sha256(joined.read_into(source, out, window, bands))
