"""The report of a gather."""

import json
from copy import replace
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from pixel_gather.core.model.outcome import BandStats, Outcome, ShardResult
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report import Report, Tally
from pixel_gather.core.results.timings import Spread
from support.fakes import FakeReader, table_of
from support.plans import planned

PLAN = planned(FakeReader({"a": np.ones((1, 8, 8), "uint8")}), table_of("a"))


def row_of(href: str) -> CubeRow:
    """Return a row of one source."""
    return CubeRow(time_us=None, sources=(Source(href=href),))


def outcome(**changes: Any) -> Outcome:
    """Return the outcome of a source that was read, with changes to it or to its cost."""
    plain = Outcome(
        status=Status.OK,
        is_aligned=True,
        extent=(0, 0, 8, 8),
        start_s=1.0,
        end_s=1.4,
        cost=Cost(open_s=0.1, read_s=0.2, decode_s=0.1, nbytes=100, requests=2),
        bands=[BandStats(n_valid=64, digest="aa")],
    )
    costs = {name: changes.pop(name) for name in [*changes] if name in Cost.__struct_fields__}
    return replace(plain, cost=replace(plain.cost, **costs), **changes)


def reported(*outcomes: Outcome) -> Report:
    """Return the report of one row after another."""
    tally = Tally(plan=replace(PLAN, n_sources=len(outcomes)))
    for number, each in enumerate(outcomes):
        tally.add_row(row_of(f"s3://b/{number}"), [each])
    return tally.report()


@pytest.mark.parametrize(
    ("n_valid", "warnings"),
    [
        ([0, 0], ("band_1 has no valid pixel: all that was read is nodata, NaN or masked",)),
        ([0, 1], ()),
        ([None, 0], ()),
        ([], ()),
    ],
    ids=["none", "one pixel", "not looked at", "nothing was read"],
)
def test_report_warns_if_no_pixel_is_valid(n_valid: list[int | None], warnings: tuple[str, ...]) -> None:
    """A cube of nodata alone is no success that goes without a word."""
    failed = outcome(status=Status.MISSING, reason="no such object")

    report = reported(failed, *(outcome(bands=[BandStats(n_valid=n, digest="aa")]) for n in n_valid))

    assert report.warnings == warnings


def test_report_sums_over_all_sources_and_spreads_over_those_read() -> None:
    """Failures count in requests and bytes, but not in medians."""
    report = reported(
        outcome(),
        outcome(start_s=2.0, end_s=2.6, open_s=0.3, nbytes=300, retries=1),
        outcome(status=Status.MISSING, reason="no such object", nbytes=1, requests=1, open_s=9.0),
    )

    assert (report.requests, report.retries, report.fetched_nbytes) == (5, 1, 401)
    assert report.bytes_per_source == Spread(median=200, min=100, max=300)
    assert report.open_s == Spread(median=0.2, min=0.1, max=0.3)
    assert report.read_s.median == pytest.approx(0.3)
    assert report.wall_s == pytest.approx(1.6)
    assert report.wait_s == pytest.approx(1.0)
    assert report.status_counts == {"ok": 2, "missing": 1}
    assert report.n_failed == 1
    assert report.sources_per_s == pytest.approx(3 / 1.6)


def test_report_tells_data_without_headers_and_the_typical_throughput() -> None:
    """Both are of the sources that were read: two ended after 1 and after 2 seconds."""
    report = reported(
        outcome(start_s=1.0, end_s=2.0, nbytes=100, header_nbytes=40),
        outcome(start_s=1.0, end_s=3.0, nbytes=300, header_nbytes=40),
        outcome(status=Status.CORRUPT, reason="cut short", nbytes=500),
    )

    assert report.data_nbytes == 320
    assert report.bytes_per_source == Spread(median=160, min=60, max=260)
    assert report.typical_per_s == pytest.approx(1.0)
    assert report.fetched_nbytes == 900


def test_report_counts_the_sources_read_at_one_time() -> None:
    """Sources overlap by their starts and ends. One that starts as another ends does not."""
    spells = ((0.0, 1.0), (0.5, 2.0), (0.9, 1.5), (1.0, 1.2), (2.0, 3.0))

    report = reported(*(outcome(start_s=start, end_s=end) for start, end in spells))

    assert report.concurrency == 3


def test_report_adds_up_shards() -> None:
    """Stored bytes and seconds of writing are added. Memory is the maximum."""
    tally = Tally(plan=PLAN)
    for rss in (10.0, 30.0, 20.0):
        tally.add_shard(
            ShardResult(index=0, rows=[], read_s=1, write_s=0.5, stored_nbytes=7, peak_rss_mib=rss)
        )

    report = tally.report()

    assert (report.stored_nbytes, report.write_s, report.peak_rss_mib) == (21, 1.5, 30.0)


def test_report_groups_failures_by_cause_and_names_the_first() -> None:
    """The most frequent cause comes first. Only some hrefs are listed."""
    missing = outcome(status=Status.MISSING, reason="no such object")
    denied = outcome(status=Status.DENIED, reason="403")

    report = reported(denied, *[missing] * 30)

    assert [(each.status, each.n_sources) for each in report.causes] == [("missing", 30), ("denied", 1)]
    assert report.causes[0].hrefs == tuple(f"s3://b/{n}" for n in range(1, 21))


def test_report_lumps_causes_that_are_too_many() -> None:
    """Reasons that differ in a number do not make a report of a million lines."""
    report = reported(*(outcome(status=Status.CORRUPT, reason=f"tile {n}") for n in range(300)))

    assert len(report.causes) == 101
    assert report.causes[0].reason == "for other reasons"
    assert sum(each.n_sources for each in report.causes) == 300


def test_report_calls_a_cube_aligned_only_if_all_rows_that_were_read_are() -> None:
    """Failed rows have no grid and are ignored."""
    failed = outcome(status=Status.CORRUPT, is_aligned=False)

    assert reported(outcome(), failed).is_aligned
    assert not reported(outcome(), outcome(is_aligned=False)).is_aligned
    assert not reported(failed).is_aligned


@pytest.mark.parametrize(
    ("planned_nodata", "found", "differs"),
    [
        (None, None, False),
        (0, 0.0, False),
        (float("nan"), float("nan"), False),
        (0, None, True),
        (None, 0, True),
    ],
)
def test_tally_notices_nodata_that_differs(
    planned_nodata: float | None, found: float | None, *, differs: bool
) -> None:
    """NaN is NaN, and 0 is 0.0."""
    plan = replace(PLAN, measurements=(replace(PLAN.measurements[0], nodata=planned_nodata),))
    tally = Tally(plan=plan)

    tally.add_row(row_of("a"), [outcome(nodata=found)])

    assert tally.nodata_differs is differs
    assert any("nodata" in each for each in tally.report().warnings) is differs


@dataclass(frozen=True)
class Overhang:
    """A window that extends beyond its source, and the expected warning."""

    id: str
    dtype: str
    cubes_nodata: float | None
    own_nodata: float | None
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Overhang("integers", "uint8", None, None, "holds 0, which looks like a value"),
        Overhang("the source's nodata", "uint8", 7, 7, "holds nodata or NaN"),
        Overhang("the cube's nodata", "uint8", 7, None, "holds nodata or NaN"),
        Overhang("floats", "float32", None, None, "holds nodata or NaN"),
    ],
    ids=lambda case: case.id,
)
def test_report_tells_of_windows_that_overhang(case: Overhang) -> None:
    """The warning says how many windows, what their filled pixels hold, and how to find these pixels."""
    measurement = replace(PLAN.measurements[0], dtype=case.dtype, nodata=case.cubes_nodata)
    tally = Tally(plan=replace(PLAN, measurements=(measurement,)))
    for extent in ((0, 0, 8, 8), (0, 0, 8, 5)):
        tally.add_row(row_of("a"), [outcome(extent=extent, nodata=case.own_nodata)])
    tally.add_row(row_of("b"), [outcome(status=Status.CORRUPT, reason="bad", extent=(0, 0, 1, 1))])

    report = tally.report()

    assert report.n_overhanging == 1
    (said,) = (each for each in report.warnings if each.startswith("the window"))
    assert said.startswith("the window lies partly outside 1 of 2 sources that were read: ")
    assert case.says in said
    assert "inside_x_start to inside_y_stop" in said


def test_report_survives_json() -> None:
    """A report without sources has zeros and no NaN."""
    for report in (reported(), reported(outcome(), outcome(status=Status.DENIED, reason="403"))):
        text = json.dumps(report.to_json(), allow_nan=False)

        assert msgspec.convert(json.loads(text), Report) == report


def test_report_text_has_a_line_for_each_figure() -> None:
    """The text names the first causes and the warnings."""
    report = reported(outcome(), outcome(status=Status.DENIED, reason="the store refused access (403)"))
    lines = replace(report, warnings=("look out",)).to_text().splitlines()

    figures = {line[:22].strip(): line[23:] for line in lines}
    assert figures["window"] == "8 x 8 pixels of 1 row, on one grid"
    assert figures["sources read"] == "1 of 2"
    assert figures["bytes received"] == "200 in 4 requests"
    assert figures["open"].endswith("25.0%")
    assert figures["failed"] == "1"
    assert figures["warning"] == "look out"
    assert "  denied             1  the store refused access (403)" in lines
    assert lines[-2].strip() == "s3://b/1"


def test_report_text_of_an_empty_gather_divides_by_nothing() -> None:
    """The throughput of zero sources in zero seconds is zero."""
    assert "0.0 sources/s" in reported().to_text()
