"""Outcomes are encoded and decoded, and outcomes of strips are merged."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pixel_gather.core.model.outcome import BandStats, Outcome, ShardResult, merge_outcomes
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.measure_rows import measure_rows
from pixel_gather.core.read.shard_buffers import Pixels
from support.strategies import transforms

numbers = st.floats(allow_nan=True)
stats = st.builds(
    BandStats, n_valid=st.integers(0, 9), min=numbers, max=numbers, mean=numbers, digest=st.text("0f")
)
outcomes = st.builds(
    Outcome,
    status=st.sampled_from(Status),
    reason=st.none() | st.text(),
    etag=st.none() | st.text(),
    transform=st.none() | transforms(),
    crs=st.none() | st.just("EPSG:4326"),
    nodata=st.none() | numbers | st.integers(-(2**63), 2**64 - 1),
    is_aligned=st.booleans(),
    cost=st.builds(Cost, nbytes=st.integers(0, 2**40)),
    bands=st.lists(stats, max_size=2),
)


@pytest.mark.long
@given(rows=st.lists(st.lists(outcomes, min_size=1, max_size=2), max_size=3))
def test_shard_result_survives_msgpack(rows: list[list[Outcome]]) -> None:
    """A decoded sidecar equals the worker's result, also with NaN values and NaN as nodata."""
    result = ShardResult(
        index=3,
        rows=rows,
        read_s=0.5,
        write_s=0.25,
        stored_nbytes=9,
        peak_rss_mib=1.5,
        pictures=[{7: b"\0\1"}, {}],
    )

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=ShardResult)

    assert repr(again) == repr(result)  # NaN differs from itself, but is written the same


@given(
    pixels=npst.arrays("int16", (1, 6, 4), elements=st.integers(-3, 3)),
    cut=st.integers(1, 5),
    nodata=st.none() | st.integers(-3, 3),
)
def test_merged_statistics_are_those_of_the_whole(pixels: Pixels, cut: int, nodata: int | None) -> None:
    """The statistics are those of the window read in one piece."""

    def measured(part: Pixels) -> Outcome:
        outcome = Outcome(status=Status.OK, nodata=nodata, extent=(0, 0, 4, part.shape[1]))
        (outcome.bands,) = measure_rows(part[:, None], [outcome])
        return outcome

    (whole,) = measured(pixels).bands
    (found,) = merge_outcomes([measured(pixels[:, :cut]), measured(pixels[:, cut:])], y_starts=[0, cut]).bands

    assert found.n_valid == whole.n_valid
    assert (found.min, found.max) == pytest.approx((whole.min, whole.max), nan_ok=True)
    assert found.mean == pytest.approx(whole.mean, nan_ok=True)


def strip(**changes: Any) -> Outcome:
    """Return the outcome of one strip."""
    plain: dict[str, Any] = {
        "status": Status.OK,
        "etag": '"1"',
        "cost": Cost(requests=2, nbytes=10, header_nbytes=4, read_s=0.5),
        "bands": [BandStats(n_valid=1, min=1, max=1, mean=1, digest="aa")],
    }
    return Outcome(**plain | changes)


def test_merged_adds_up_the_cost() -> None:
    """Each strip opens its source, so the costs add up."""
    parts = [strip(start_s=3.0), strip(start_s=2.0)]
    parts[0].cost.hedges = 1
    parts[1].cost.retries = parts[1].cost.hedges = 1

    found = merge_outcomes(parts, y_starts=[0, 8])

    assert found.cost == Cost(requests=4, nbytes=20, header_nbytes=8, read_s=1.0, retries=1, hedges=2)
    assert found.start_s == 2.0
    assert found.status is Status.OK


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ([(0, 0, 9, 8), (0, 0, 9, 8), (0, 0, 9, 3)], (0, 0, 9, 19)),
        ([(0, 0, 0, 0), (2, 5, 7, 8), (2, 0, 7, 2)], (2, 13, 7, 18)),
        ([(2, 1, 7, 8), (0, 0, 0, 0), (0, 0, 0, 0)], (2, 1, 7, 8)),
        ([(0, 0, 0, 0)] * 3, (0, 0, 0, 0)),
    ],
)
def test_merged_extent_is_of_the_whole_window(
    extents: list[tuple[int, int, int, int]], expected: tuple[int, int, int, int]
) -> None:
    """A strip outside the raster adds nothing to the extent."""
    found = merge_outcomes([strip(extent=each) for each in extents], y_starts=[0, 8, 16])

    assert found.extent == expected


def test_merged_fails_where_one_strip_failed() -> None:
    """A window is not valid if one of its strips failed."""
    strips = [strip(), strip(status=Status.CORRUPT, reason="bad"), strip(status=Status.DENIED)]

    found = merge_outcomes(strips, y_starts=[0, 8, 16])

    assert (found.status, found.reason) == (Status.CORRUPT, "bad")
    assert (found.bands[0].n_valid, math.isnan(found.bands[0].mean)) == (0, True)


def test_merged_strips_of_two_versions_are_changed() -> None:
    """Strips of two versions of an object are not one window."""
    found = merge_outcomes([strip(), strip(etag='"2"')], y_starts=[0, 8])

    assert found.status is Status.CHANGED
    assert found.reason == "replaced after a strip of its window had been read"
    assert found.bands[0].n_valid == 0


def test_merged_takes_a_single_part_as_it_is() -> None:
    """A window that was read in one piece is not copied."""
    only = strip()

    assert merge_outcomes([only], y_starts=[8]) is only


def test_merged_digest_depends_on_every_strip() -> None:
    """It also depends on their order."""
    one, two = strip(), strip(bands=[BandStats(digest="bb")])
    orders = ([one, two], [two, one], [one, one])

    digests = {merge_outcomes(parts, y_starts=[0, 8]).bands[0].digest for parts in orders}

    assert len(digests) == 3
