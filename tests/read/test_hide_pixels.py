"""Pixels that a mask hides: by value, by bit, and where the mask itself has no value."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.hide_pixels import hide_in_row, merge_strips
from support.fakes import FakeImage, FakeReader, FakeTable
from support.plans import planned

SIDE = 8
RED = np.full((1, SIDE, SIDE), 7, "uint16")
LST = np.full((1, SIDE, SIDE), 1.5, "float32")
SCL = np.zeros((1, SIDE, SIDE), "uint8")
NAMES = ("red", "lst", "scl")
ROW = CubeRow(
    time_us=None, sources=tuple(Source(href=f"s3://b/{name}", band=name, scene="1") for name in NAMES)
)
IMAGES = {
    "s3://b/red": FakeImage(pixels=RED, header={"nodata": 9}),
    "s3://b/lst": FakeImage(pixels=LST),
    "s3://b/scl": FakeImage(pixels=SCL),
}
PLAN = planned(
    FakeReader(IMAGES),
    FakeTable((ROW,), bands=NAMES),
    window={"pixels": [0, 0, SIDE, SIDE]},
    mask={"band": "scl", "drop": [3]},
)


def of(status: Status = Status.OK, **more: Any) -> Outcome:
    """Return the outcome of a source that fills the window."""
    return Outcome(status=status, extent=(0, 0, SIDE, SIDE), etag='"1"', **more)


def hide(scl: Any, outcomes: list[Outcome], row: CubeRow = ROW) -> list[Any]:
    """Hide pixels of a row, and return the bands."""
    buffers = [each[:, None].copy() for each in (RED, LST, scl)]
    hide_in_row(PLAN, buffers, 0, outcomes, row, is_reduced=False)
    return [each[0, 0] for each in buffers]


def test_hidden_pixels_hold_the_rows_own_nodata() -> None:
    """Or else the cube's, or NaN. The mask is not touched. Other statuses are not either."""
    scl = SCL.copy()
    scl[0, 2, 3] = 3
    outcomes = [of(nodata=5), of(), of()]

    red, lst, mask = hide(scl, outcomes)

    assert red[2, 3] == 5
    assert (red == 7).sum() == SIDE**2 - 1
    assert np.argwhere(np.isnan(lst)).tolist() == [[2, 3]]
    np.testing.assert_array_equal(mask, scl[0])
    assert [each.n_masked for each in outcomes] == [None, None, 1]

    without = [of(), of(Status.MISSING), of()]
    red, lst, _ = hide(scl, without)
    assert (red[2, 3], without[0].nodata) == (9, 9)
    assert not np.isnan(lst).any()


def test_pixels_without_a_mask_are_hidden() -> None:
    """Beyond the mask's raster, and where it holds its own nodata."""
    scl = SCL.copy()
    scl[0, 0, 0] = 200
    outcomes = [of(), of(), replace(of(nodata=200), extent=(0, 0, SIDE, 5))]

    red, _, _ = hide(scl, outcomes)

    assert (red[5:] == 9).all()
    assert np.argwhere(red[:5] == 9).tolist() == [[0, 0]]
    assert outcomes[2].n_masked == 3 * SIDE + 1


@pytest.mark.parametrize(
    ("of_mask", "row", "said"),
    [
        (of(Status.ABSENT), ROW, "the list names no source of its mask, scl"),
        (of(Status.TIMED_OUT, reason="no answer"), ROW, "its mask, scl, is timed_out: no answer"),
        (
            of(),
            replace(ROW, mask=ROW.sources[2], mask_etag='"0"'),
            "its mask, scl, was replaced since the other bands of the row were read",
        ),
    ],
)
def test_no_pixel_counts_where_the_mask_was_not_read(of_mask: Outcome, row: CubeRow, said: str) -> None:
    """The status says why. A source that failed by itself keeps its own."""
    outcomes = [of(nodata=5), of(Status.CORRUPT, reason="broken"), replace(of_mask)]

    red, _, _ = hide(SCL, outcomes, row)

    assert (red == 9).all()
    assert [each.status for each in outcomes] == [Status.UNMASKED, Status.CORRUPT, of_mask.status]
    assert [each.reason for each in outcomes[:2]] == [said, "broken"]
    assert outcomes[2].n_masked is None


def test_mask_of_the_same_version_hides_as_before() -> None:
    """A second try of other bands reads it beside them."""
    outcomes = [of(), of(), of()]

    hide(SCL, outcomes, replace(ROW, mask=ROW.sources[2], mask_etag='"1"'))

    assert [each.status for each in outcomes] == [Status.OK] * 3


def test_no_pixel_counts_where_the_mask_was_replaced_between_two_strips() -> None:
    """Each strip has a mask, but of two versions. A band that failed keeps its own status."""

    def strip(etag: str, lst: Status) -> list[Outcome]:
        outcomes = [of(), of(lst, reason="broken"), replace(of(), etag=etag)]
        return [replace(each, bands=[BandStats(n_valid=3, digest="0a")]) for each in outcomes]

    strips = [strip('"1"', Status.OK), strip('"2"', Status.CORRUPT)]

    red, lst, scl = merge_strips(PLAN, strips, ROW, y_starts=[0, SIDE])

    assert [each.status for each in (red, lst, scl)] == [Status.UNMASKED, Status.CORRUPT, Status.CHANGED]
    assert red.reason == ("its mask, scl, is changed: replaced after a strip of its window had been read")
    assert [red.bands[0].n_valid, red.bands[0].digest] == [0, "0a 0a"]
    of_one = merge_strips(PLAN, [strip('"1"', Status.OK)] * 2, ROW, y_starts=[0, SIDE])
    assert [(each.status, each.bands[0].n_valid) for each in of_one] == [(Status.OK, 6)] * 3
