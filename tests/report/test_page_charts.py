"""The sentence, the facts and the charts of a report say what is in the cube."""

import re
from copy import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.footprints import Footprints
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.report_content import Coverage, Place
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.report.page.coverage_charts import coverage_chart
from pixel_gather.features.report.page.grid_words import crs_in_words, pixel_in_words
from pixel_gather.features.report.page.sentence import happened_in_words, sentence_of
from pixel_gather.features.report.page.value_charts import note_of, values_of
from pixel_gather.features.report.page.views import view_of
from pixel_gather.io.cube.array_chunks import put_array
from pixel_gather.io.pictures.chart import number_ticks, time_ticks, whole_ticks
from support.report_cubes import REPORT, MadeCube

_DAY_US = 86_400_000_000


def us(text: str) -> int:
    """Return a time in microseconds since 1970."""
    return int(np.datetime64(text, "us").astype("int64"))


def coverage(*statuses: Status, days: int = 30, has_time: bool = True, n_abreast: int = 1) -> Coverage:
    """Return the coverage of sources, some days apart, from August 2017."""
    status = np.array(statuses, dtype="int64").reshape(-1, n_abreast)
    rows = np.arange(len(status))
    share = np.where(status == Status.OK, 0.5, np.nan)
    at = us("2017-08-03") + rows * days * _DAY_US if has_time else rows
    return Coverage(rows=rows, at=at, has_time=has_time, status=status, valid_share=share)


OK, CORRUPT, UNLIKE, MISSING = Status.OK, Status.CORRUPT, Status.UNLIKE, Status.MISSING


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            coverage(*[OK] * 8, *[CORRUPT] * 3, UNLIKE, MISSING),
            "13 dates, Aug 2017 to Jul 2018: 8 read, 5 failed (3 corrupt, 1 missing, 1 unlike).",
        ),
        (coverage(OK, OK, days=1), "2 dates, 3 Aug 2017 to 4 Aug 2017: 2 read, none failed."),
        (coverage(OK, OK, days=0), "2 images, 3 Aug 2017: 2 read, none failed."),
        (coverage(OK, OK, days=9000), "2 dates, 2017 to 2042: 2 read, none failed."),
        (coverage(OK, has_time=False), "1 image: 1 read, none failed."),
        (
            coverage(OK, MISSING, Status.ABSENT, n_abreast=3),
            "1 date, 3 Aug 2017: 1 of 2 images read, 1 failed (1 missing); 1 without a source.",
        ),
        (coverage(Status.TIMED_OUT, has_time=False), "1 image: 0 read, 1 failed (1 timed out)."),
    ],
)
def test_one_sentence_says_what_was_read(found: Coverage, said: str) -> None:
    """Dates, span, and how many failed of what."""
    names, counts = np.unique(found.status, return_counts=True)
    status_counts = {Status(int(name)).name.lower(): int(n) for name, n in zip(names, counts, strict=True)}
    n_listed = int((found.status != Status.ABSENT).sum())
    report = replace(REPORT, shape=(len(found.at), 16, 32), n_sources=n_listed, status_counts=status_counts)

    assert sentence_of(report, found) == said


@pytest.mark.parametrize(
    ("n", "days", "period", "span"),
    [
        (1, 0, "month", "1 month, Aug 2017"),
        (2, 30, "month", "2 months, Aug 2017 to Sep 2017"),
        (1, 0, "year", "1 year, 2017"),
        (3, 365, "year", "3 years, 2017 to 2019"),
        (2, 1, "day", "2 dates, 3 Aug 2017 to 4 Aug 2017"),
    ],
)
def test_span_of_months_and_years_names_no_day(n: int, days: int, period: str, span: str) -> None:
    """The row of a month stands for all of it, not for its first day."""
    report = replace(REPORT, shape=(n, 16, 32), n_sources=n, status_counts={"ok": n})

    said = sentence_of(report, coverage(*[OK] * n, days=days), period=period)

    assert said == f"{span}: {n} read, none failed."


def test_sentence_of_chips_counts_chips_and_images() -> None:
    """A row is one chip of one image."""
    report = replace(REPORT, shape=(6, 16, 32), n_sources=6, status_counts={"ok": 6}, images_per_chip=2)

    said = sentence_of(report, coverage(*[OK] * 6, days=0))

    assert said == "3 chips in 2 images, 3 Aug 2017: 6 read, none failed."


def test_every_failure_is_told_in_the_past() -> None:
    """Of one source, and of several."""
    failures = [each for each in Status if each.is_failure]

    told = [happened_in_words(each.name.lower(), n) for each in failures for n in (1, 2)]

    assert len(set(told)) == 2 * len(failures)
    assert {each.split()[1] for each in told} <= {"was", "were", "did", "gave", "had"}


def _heights(marks: str, name: str) -> list[float]:
    """Return the heights of the bars of a class, in units of the drawing."""
    (path,) = re.findall(f'class="{name}" d="([^"]*)"', marks)
    return [float(each) for each in re.findall(r"v-([\d.]+)", path)]


def test_coverage_has_a_bar_for_each_time_by_status_and_valid_share() -> None:
    """Half of what was read is valid. Two sources of one month are one bar on another."""
    found = coverage(OK, CORRUPT, OK, OK, Status.DENIED, days=400)

    chart = coverage_chart(found)

    assert chart is not None
    assert _heights(chart.marks, "valid") == [500] * 3
    assert _heights(chart.marks, "invalid") == [500] * 3
    assert _heights(chart.marks, "corrupt") == [1000]
    assert _heights(chart.marks, "otherwise") == [1000]
    assert [said for _, said in chart.legend] == [
        "3 read, 50.0% of the pixels are valid",
        "no data",
        "1 corrupt",
        "1 denied",
    ]
    assert chart.note == "One bar for each month, as high as its number of images."


@pytest.mark.parametrize(
    ("n", "days", "each"),
    [
        (50, 1, "day"),
        (50, 7, "week"),
        (200, 7, "month"),
        (200, 14, "3 months"),
        (30, 4000, "10 years"),
        (60, 0, "hour"),
    ],
)
def test_coverage_has_at_most_sixty_bars(n: int, days: int, each: str) -> None:
    """A bar is an hour, a day, or as many years as it takes. All images are in one."""
    found = coverage(*[OK] * n, days=days)
    if not days:
        found = replace(found, at=found.at + np.arange(n) * 3_600_000_000)

    chart = coverage_chart(found)

    assert chart is not None
    assert chart.note.startswith(f"One bar for each {each},")
    assert len(_heights(chart.marks, "valid")) <= 60


def test_coverage_of_a_cube_without_times_is_along_its_rows() -> None:
    """A cube of one row needs no chart, and one without known shares has one colour of what was read."""
    found = coverage(*[OK] * 1000, has_time=False)

    chart = coverage_chart(found)
    unknown = coverage_chart(replace(found, valid_share=found.valid_share * np.nan))

    assert chart is not None
    assert unknown is not None
    assert (chart.title, chart.note) == (
        "Coverage along the rows",
        "One bar for each 17 rows, as high as its number of images.",
    )
    assert all(label.replace(",", "").isdecimal() for _, label in chart.x_ticks)
    assert [name for name, _ in unknown.legend] == ["valid"]
    assert coverage_chart(coverage(OK)) is None


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 100, ["0", "20", "40", "60", "80", "100"]),
        (0.0012, 0.0031, ["0.0015", "0.0020", "0.0025", "0.0030"]),
        (-30, 30, ["-20", "0", "20"]),
        (1e10, 3e10, ["1e+10", "1.5e+10", "2e+10", "2.5e+10", "3e+10"]),
        (5, 5, []),
        (0, 7e-8, ["0", "2e-08", "4e-08", "6e-08"]),
        (1, 1.0000004, ["1.0000000", "1.0000001", "1.0000002", "1.0000003", "1.0000004"]),
    ],
)
def test_ticks_are_round_numbers_without_false_digits(low: float, high: float, labels: list[str]) -> None:
    """As few digits as tell them apart."""
    ticks = number_ticks(low, high)

    assert [label for _, label in ticks] == labels
    assert all(0 <= place <= 1 for place, _ in ticks)


@pytest.mark.parametrize(("high", "labels"), [(1, ["0", "1"]), (2, ["0", "1", "2"]), (9, ["0", "5"])])
def test_ticks_of_counts_are_whole(high: int, labels: list[str]) -> None:
    """An axis of one or two has numbers, too."""
    assert [label for _, label in whole_ticks(0, high, most=3)] == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(300, 3300, ["1,000", "2,000", "3,000"]), (620, 7900, ["2,000", "4,000", "6,000"])],
)
def test_an_axis_has_two_numbers_at_least(low: float, high: float, labels: list[str]) -> None:
    """Also where few are asked for."""
    assert [label for _, label in number_ticks(low, high, most=3)] == labels


def test_short_spans_of_time_have_two_dates() -> None:
    """One first of a month lies between them. Days that begin at midnight have a year."""
    labels = [label for _, label in time_ticks(us("2025-01-04"), us("2025-02-18"))]
    days = [label for _, label in time_ticks(us("2024-06-01"), us("2024-06-04"))]

    assert labels == ["11 Jan 2025", "21 Jan 2025", "1 Feb 2025", "11 Feb 2025"]
    assert days == ["1 Jun 2024", "2 Jun 2024", "3 Jun 2024", "4 Jun 2024"]


def test_numbers_of_rows_are_below_the_middle_of_their_bars() -> None:
    """And end with the last row."""
    chart = coverage_chart(coverage(OK, OK, MISSING, has_time=False))

    assert chart is not None
    assert [label for _, label in chart.x_ticks] == ["0", "1", "2"]
    assert [place for place, _ in chart.x_ticks] == pytest.approx([1 / 6, 3 / 6, 5 / 6])
    assert [label for _, label in chart.y_ticks] == ["0", "1"]


@pytest.mark.parametrize(
    ("start", "stop", "first", "last"),
    [
        ("2020-01-01T00", "2020-01-01T09", "1 Jan 00:00", "1 Jan 09:00"),
        ("2023-08-10", "2023-08-21", "11 Aug 2023", "21 Aug 2023"),
        ("2018-01-31", "2018-12-17", "Mar 2018", "Nov 2018"),
        ("1895-01-01", "2022-01-02", "1900", "2000"),
        ("2020-01-01", "2020-01-01", "1 Jan 00:00", "1 Jan 00:00"),
    ],
)
def test_ticks_of_time_are_beginnings_that_do_not_touch(start: str, stop: str, first: str, last: str) -> None:
    """At most seven, a label's width apart."""
    ticks = time_ticks(us(start), us(stop))

    assert (ticks[0][1], ticks[-1][1]) == (first, last)
    assert len(ticks) <= 7
    assert all(later[0] - earlier[0] > 0.1 for earlier, later in pairwise(ticks))


def test_ticks_of_time_lie_where_their_time_is() -> None:
    """In the middle of a year is July."""
    ((place, label),) = time_ticks(us("2019-06-20"), us("2019-07-12"))[1:2]

    assert datetime.strptime(label, "%d %b %Y").isoformat() == "2019-07-01T00:00:00"  # noqa: DTZ007 # a date
    assert place == pytest.approx(11 / 22)


_UNKNOWN = "the files have map coordinates, but do not say of which system"


@pytest.mark.parametrize(
    ("crs", "said", "pixel"),
    [
        ("EPSG:32632", ("EPSG:32632", "UTM zone 32 N"), ("10 m", "")),
        ("EPSG:3857", ("EPSG:3857", "Web Mercator"), ("10 m", "")),
        ("EPSG:31370", ("EPSG:31370", ""), ("10 map units", "")),
        ('PROJCRS["Lambert of ours",LENGTHUNIT["metre",1]]', ("Lambert of ours", ""), ("10 m", "")),
        ('PROJCRS["Old",LENGTHUNIT["US survey foot",0.3]]', ("Old", ""), ("10 US survey foot", "")),
        (
            "",
            ("unknown", "the files have map coordinates, but do not say of which system"),
            ("10 map units", ""),
        ),
    ],
)
def test_grid_is_told_in_words(crs: str, said: tuple[str, str], pixel: tuple[str, str]) -> None:
    """Its system, and the size of a pixel with its unit."""
    transform = Transform(10, 0, 5, 0, -10, 7)
    where = Place(crs=crs, transform=transform, is_shared=True)

    assert crs_in_words(where) == said
    assert pixel_in_words(where, transform, None) == pixel


def test_crs_of_rows_that_share_none_is_said_to_be_of_the_first_image() -> None:
    """The other rows may have others."""
    where = Place(crs="EPSG:32632", transform=None, is_shared=False, is_crs_shared=False)

    assert crs_in_words(where) == ("EPSG:32632", "UTM zone 32 N, of the first image")


def test_pixels_of_degrees_are_told_in_metres_too() -> None:
    """At the latitude of the window. Pixels of a cube without one grid are those of its first image."""
    ring = ((10.0, 59.9), (11.0, 59.9), (11.0, 60.1), (10.0, 60.1))
    transform = Transform(0.001, 0, 10, 0, -0.002, 60)
    where = Place(crs="EPSG:4326", transform=transform, is_shared=False)

    assert pixel_in_words(where, transform, Footprints(window=ring, sources=())) == (
        "0.001 x 0.002°",
        "55.7 m x 223 m, of the first image",
    )
    assert crs_in_words(Place(crs="", transform=None, is_shared=True))[0] == "no georeference"


def _values(cube: MadeCube) -> Any:
    return values_of(read_evidence(cube.stored(), place="cube"))


def test_values_have_a_histogram_and_a_mean_with_spread() -> None:
    """Nodata are not in the histogram. A row that was not read is a gap."""
    (view,) = _values(MadeCube(n_rows=5, failed=frozenset({2})))

    assert view.histogram.note == "Median 116, half of them from 108 to 124."
    assert view.through.title == "Mean through time"
    lines = re.findall('class="line" d="([^"]+)"', view.through.marks)[0]
    spread = re.findall('class="spread" d="([^"]+)"', view.through.marks)[0]
    assert (lines.count("M"), spread.count("M")) == (2, 2)


@pytest.mark.parametrize("value", [2**64 - 1, -3.4028234663852886e38])
def test_pixels_of_one_large_number_have_charts(value: float) -> None:
    """A half more or less is the same number of float64. Before, the page could not be drawn, or had NaN."""
    (view,) = values_of(_with_pixels(np.full(5, value, dtype="uint64" if value > 0 else "float32")))

    assert view.histogram is not None
    assert view.through is not None
    assert len(re.findall(r"M[\d.]+ 1000v-1000", view.histogram.marks)) == 1
    assert "nan" not in view.histogram.marks + view.through.marks
    assert view.through.x_ticks


def test_numbers_that_are_too_far_apart_have_no_charts() -> None:
    """Their difference is no number of float64."""
    (view,) = values_of(_with_pixels(np.array([-1e308, 1e308] * 4)))

    assert (view.histogram, view.through) == (None, None)
    assert view.said == "Means from -1e+308 to -1e+308."


def _with_pixels(first: np.ndarray[Any, Any]) -> Any:
    """Return what is known of a cube whose quicklooks hold these pixels again and again."""
    evidence = read_evidence(MadeCube(n_rows=5).stored(), place="cube")
    look, series = evidence.looks[0], evidence.series[0]
    quicklooks = look.quicklooks
    pixels = np.resize(first, quicklooks.pixels.shape)
    looks = (replace(look, quicklooks=replace(quicklooks, pixels=pixels)),)
    means = np.full(series.mean.shape, float(first[0]))
    return replace(evidence, looks=looks, series=(replace(series, mean=means),))


def test_infinite_means_are_told() -> None:
    """One infinite pixel makes a row's mean infinite. A reader would miss the row without a word."""
    store = MadeCube(n_rows=5).stored()
    put_array(store, "mean", np.array([1.0, np.inf, 2.0, -np.inf, np.nan]), dims=("time",))
    (view,) = values_of(read_evidence(store, place="cube"))

    assert view.through is not None
    assert view.said == "The mean of 2 rows is infinite, and is not drawn: a pixel is infinite."


def test_mean_of_several_rows_at_one_time_is_no_line() -> None:
    """A line would lead from one place to the next, as if it were one."""
    evidence = read_evidence(MadeCube(n_rows=6).stored(), place="cube")
    at = evidence.coverage.at.copy()
    at[1::2] = at[::2]

    (view,) = values_of(replace(evidence, coverage=replace(evidence.coverage, at=at)))

    assert view.through is not None
    (dots,) = re.findall('class="dots" d="([^"]+)"', view.through.marks)
    assert dots.count("M") == 6
    assert 'class="line"' not in view.through.marks
    assert view.through.note == "Rows of one time are dots above each other."
    assert note_of((view,), n_measurements=1, of_first=False) == "Histograms are of the quicklooks' pixels."


def test_mean_through_rows_has_whole_numbers_of_rows() -> None:
    """There is no row 0.5."""
    (view,) = _values(MadeCube(n_rows=3, has_times=False))

    assert [label for _, label in view.through.x_ticks] == ["0", "1", "2"]


@pytest.mark.parametrize(("n_rows", "said"), [(1, "Mean 100."), (2, "")])
def test_value_of_one_small_window_is_said(n_rows: int, said: str) -> None:
    """It has neither a histogram nor a line. The page has no note on either."""
    (view,) = _values(MadeCube(n_rows=n_rows, has_quicklooks=False))

    assert view.said == said
    assert note_of((view,), n_measurements=1, of_first=False) == (
        "" if said else "Rows that were not read are gaps."
    )


def test_a_page_has_values_of_a_bounded_number_of_measurements_and_says_so() -> None:
    """A page of 64 bands was 19,700 pixels tall."""
    evidence = read_evidence(
        MadeCube(n_rows=3, bands={f"A{n:02}": frozenset[int]() for n in range(26)}).stored(), place="cube"
    )

    view = view_of(evidence, with_film=True)

    assert [each.name for each in view.values] == [f"A{n:02}" for n in range(24)]
    assert view.values_note.startswith(
        "Charts are of the first 24 of 26 measurements, because one page cannot hold so many. Histograms "
    )
    assert view.looks_left_out == ("A24", "A25")


def test_values_of_a_long_cube_have_no_gap_where_a_row_has_no_quicklook() -> None:
    """Of 600 rows 239 have one."""
    (view,) = _values(MadeCube(n_rows=600, shard=(600, 16, 32)))

    spread = re.findall('class="spread" d="([^"]+)"', view.through.marks)[0]
    assert spread.count("M") == 1
    assert view.through.note == "One mean in 2 is drawn."
