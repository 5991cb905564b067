"""Scenes of one row: which may be reduced, and when a row that is reduced anew may replace the former one."""

from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.reduced_table import reduced_table
from pixel_gather.core.read.reduce_row import _valid, may_replace, refuse_other_numbers
from pixel_gather.core.request.request import parse_request
from support.fakes import FakeImage, FakeProjector, FakeReader, FakeTable
from support.plans import planned

_OK, _LATE = Status.OK, Status.TIMED_OUT


@pytest.mark.parametrize(
    ("before", "now", "may"),
    [
        (("a", None), ((_OK, "a"), (_OK, "b")), True),
        (("a", None), ((_OK, "a"), (_LATE, None)), False),  # it gains nothing
        (("a", None), ((_OK, "changed"), (_OK, "b")), False),
        (("a", None), ((_LATE, "a"), (_OK, "b")), False),  # its header was read, its pixels were not
        (("", None), ((_OK, None), (_OK, "b")), True),  # a store without versions
        (("a", "b"), ((_OK, "a"), (_OK, "b")), False),
    ],
)
def test_a_row_that_is_reduced_anew_replaces_one_only_if_it_has_all_of_that_and_more(
    before: tuple[str | None, ...], now: tuple[tuple[Status, str | None], ...], *, may: bool
) -> None:
    """In the same versions. Each source is that of a scene of its own, or all are of one scene."""
    outcomes = [Outcome(status=status, etag=etag) for status, etag in now]
    scenes = tuple(CubeRow(time_us=None, sources=(None,), etags=(etag,)) for etag in before)
    scene = CubeRow(time_us=None, sources=(None,) * len(before), etags=before)

    of_each = may_replace(CubeRow(time_us=None, sources=(), members=scenes), [[each] for each in outcomes])
    of_one = may_replace(CubeRow(time_us=None, sources=(), members=(scene,)), [outcomes])

    assert (of_each, of_one) == (may, may)


def test_a_source_that_failed_keeps_its_status() -> None:
    """It has no nodata, like a source whose numbers mean something else. But another try may read it."""
    reader = FakeReader({"a": FakeImage(pixels=np.ones((1, 16, 16), "uint16"), header={"nodata": 0})})
    given: dict[str, Any] = {"window": "centre", "reduce": {"by": "month", "statistic": "first"}}
    table = FakeTable([CubeRow(time_us=0, sources=(Source(href="a"),))], has_time=True)
    request = parse_request({"sources": "list.csv"} | given)
    plan = planned(reader, reduced_table(request, table, FakeProjector()), **given)
    late, bare = Outcome(status=_LATE, reason="slow"), Outcome(status=_OK)
    alike = Outcome(status=_OK, nodata=0)

    for each in (late, bare, alike):
        refuse_other_numbers(plan, [each])

    assert [each.status for each in (late, bare, alike)] == [_LATE, Status.UNLIKE, _OK]
    assert late.reason == "slow"


def test_only_pixels_that_lie_on_a_scene_count() -> None:
    """Whichever lines of the window are looked at."""
    outcome = Outcome(status=_OK, extent=(1, 2, 4, 5))
    everything = np.zeros((7, 5), bool)
    everything[2:5, 1:4] = True

    for lines in (slice(0, 7), slice(1, 3), slice(3, 6), slice(0, 1), slice(6, 7)):
        valid = _valid(np.ones((lines.stop - lines.start, 5), "uint8"), outcome, lines)
        np.testing.assert_array_equal(valid, everything[lines])
