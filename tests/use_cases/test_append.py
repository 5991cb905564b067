"""Appends over fakes: their result, how they go on after a crash, and what two of them do at once."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pixel_gather.adapters.cube.check_cube import check_cube
from pixel_gather.model.source import CubeRow, Source
from support.appends import GrownPlace, equal_but_for_clocks
from support.fakes import FakeTable

N = 14
RNG = np.random.default_rng(14)
IMAGES = {f"s3://b/{n}": RNG.integers(0, 999, (1, 20, 20), "uint16") for n in range(N)}


def rows(*numbers: int, digest: str = "") -> FakeTable:
    """Return a list of images by their number, with times."""
    made = tuple(
        CubeRow(time_us=n * 1_000_000, sources=(Source(href=f"s3://b/{n}", time_us=n * 1_000_000),))
        for n in numbers
    )
    return FakeTable(made, has_time=True, digest=(digest or "-".join(map(str, numbers))).ljust(64, "0"))


def place(chunk_rows: int = 2, shard_rows: int = 4, **request: Any) -> GrownPlace:
    """Return an empty place for a cube with small chunks."""
    layout = {"chunk": [chunk_rows, 4, 4], "shard_rows": shard_rows}
    return GrownPlace(
        images=IMAGES, request={"output": {"layout": layout} | request.pop("output", {})} | request
    )


@settings(max_examples=12, deadline=None)
@given(
    cuts=st.sets(st.integers(1, N - 1), min_size=1, max_size=4),
    chunk_rows=st.sampled_from([1, 2, 3]),
    n_chunks=st.integers(1, 3),
    codec=st.sampled_from(["blosc-lz4", "blosc-zstd", "zstd", "none"]),
)
def test_appends_equal_one_gather(cuts: set[int], chunk_rows: int, n_chunks: int, codec: str) -> None:
    """Pixels, coordinates and digests are those of one gather of all sources."""
    ends = [*sorted(cuts), N]
    shard_rows = chunk_rows * n_chunks
    grown = place(min(chunk_rows, ends[0]), shard_rows, output={"codec": codec})
    whole = place(min(chunk_rows, ends[0]), shard_rows, output={"codec": codec})

    report = grown.gather(rows(*range(ends[0])))
    for start, stop in itertools.pairwise(ends):
        appended = grown.append(rows(*range(start, stop)))
        assert appended is not None
        report = appended
    expected = whole.gather(rows(*range(N)))

    assert equal_but_for_clocks(grown.open(), whole.open())
    assert (report.digest, report.shape) == (expected.digest, expected.shape)
    assert (report.requests, report.status_counts) == (expected.requests, expected.status_counts)
    assert check_cube(grown.store, place="grown").differences == ()
