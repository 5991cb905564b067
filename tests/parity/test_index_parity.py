"""Every real file gives the same header and pixels from its packed header."""

import asyncio
from collections.abc import Iterator
from typing import Any

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


@pytest.mark.long
@pytest.mark.parametrize("truth", CASES)
def test_a_file_that_is_known_reads_as_one_that_is_not(joined: Readings, truth: Truth) -> None:
    """This holds for each overview, too. With a packed header no header is read.

    The pixels of a file that is not known are rasterio's, as the other tests show.
    """
    for overview in (None, *range(truth.n_overviews)[:1]):
        cold = joined.open_(truth.href, overview=overview)
        packed_header, cost = _known_of(joined, truth, overview), Cost()
        warm = _open(joined, truth, overview, packed_header, cost)

        assert warm.from_packed_header is (packed_header is not None)
        assert repr(warm.header) == repr(cold.header)
        if packed_header is None:
            continue  # it was opened as before
        assert warm.packed_header == packed_header
        assert cost.requests == 0
        header = cold.header
        whole = Window(col_off=0, row_off=0, width=header.width, height=header.height)
        if overview is None:
            for name, (window, digest) in truth.windows.items():
                assert _digest(joined, warm, truth.filled(window), window) == digest, name
        if header.width * header.height * truth.shape[0] * truth.dtype.itemsize <= _LARGEST_NBYTES:
            digest = (
                truth.answers["array_sha256"]
                if overview is None
                else _digest(joined, cold, _zeros(truth, whole), whole)
            )
            assert _digest(joined, warm, _zeros(truth, whole), whole) == digest


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


def _digest(joined: Readings, source: OpenedSource, out: np.ndarray[Any, Any], window: Window) -> str:
    return sha256(joined.read_into(source, out, window, range(1, len(out) + 1)))


def _zeros(truth: Truth, window: Window) -> np.ndarray[Any, Any]:
    return np.zeros((truth.shape[0], window.height, window.width), truth.dtype)
