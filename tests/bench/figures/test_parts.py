"""The parts of figures: labels, thinned curves, spans, slices, choices."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures.made_runs import run_of
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.findings import plain_number
from pixel_gather.features.report.in_flight import cut_into_slices, in_flight_at_start
from pixel_gather_bench.figures.look import finish_axes, log_ticks, mark_powers, new_figure
from pixel_gather_bench.figures.numbers import (
    LONGEST,
    choose_runs,
    few_and_best,
    fewest_and_best,
    kept_indexes,
    label_with_number,
    short_label,
    span_of,
    tail_of,
    unique_labels,
)
from pixel_gather_bench.figures.throughput import spread_out
from pixel_gather_bench.figures.warm_up import opens_by_order_s

VALUES = st.lists(st.floats(0, 1e6), min_size=1, max_size=300).map(np.array)


def timings_of(start_s: list[float], end_s: list[float]) -> Timings:
    """Return sources of one shard, opened in half of their time."""
    start, end = np.array(start_s), np.array(end_s)
    half = (end - start) / 2
    n = len(start)
    return Timings(
        start_s=start,
        end_s=end,
        open_s=half,
        read_s=half,
        nbytes=np.full(n, 2**20),
        shard=np.zeros(n, dtype="int64"),
    )


@pytest.mark.long
@given(st.text(max_size=200))
def test_short_label_is_short_and_printable(name: str) -> None:
    """Any name fits into a legend on one line, and is not parsed as a formula."""
    label = short_label(name)

    assert len(label.replace(r"\$", "$")) <= LONGEST + 1
    assert label.replace("\u2009", "").isprintable()
    assert label.count("$") == label.count(r"\$")
    assert not label.startswith("_")


def test_unique_labels_number_those_that_many_share() -> None:
    """Runs of one name get different labels, also if names differ only in the middle."""
    assert unique_labels(["a", "b", "a"]) == ("a (1)", "b", "a (2)")
    assert len(set(unique_labels(["x" * 40 + "1" + "x" * 40, "x" * 40 + "2" + "x" * 40]))) == 2


def test_named_tells_the_concurrency_once() -> None:
    """A name that has the concurrency already stays unchanged."""
    assert label_with_number("fast, 12", 12) == "fast, 12"
    assert label_with_number("cube (1)", 1) == "cube (1) · 1 at a time"
    assert label_with_number("cube", 1200) == "cube · 1,200 at a time"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1200, "1,200"), (0.25, "0.25"), (46.04, "46"), (1e6, "1,000,000")]
)
def test_plain_number_is_as_one_reads_it(value: float, text: str) -> None:
    """Numbers have no exponent and no needless digits."""
    assert plain_number(value) == text


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        ([0, 500, 1000], ["0", "500", "1,000"]),
        ([7.87, 7.871, 7.872], ["7.87", "7.871", "7.872"]),
        ([100, 102.5, 105], ["100", "102.5", "105"]),
        ([4096, 4096.5], ["4,096", "4,096.5"]),
        ([1, 10, 1024], ["1", "10", "1,024"]),
        ([0.25], ["0.25"]),
    ],
)
def test_ticks_of_an_axis_have_as_many_digits_as_their_distance_needs(
    ticks: list[float], words: list[str]
) -> None:
    """Sizes that hardly differ have no axis of equal numbers, and no number is rounded to a wrong one."""
    _, axes = new_figure(1, 1, height_in=2)
    ax = axes[0, 0]
    finish_axes(ax, title="", x_label="", y_label="")

    assert ax.xaxis.get_major_formatter().format_ticks(ticks) == words


def test_ticks_of_a_logarithmic_axis_are_short() -> None:
    """Three digits tell sizes apart that differ by a factor."""
    _, axes = new_figure(1, 1, height_in=2)
    ax = axes[0, 0]
    ax.set_xscale("log")
    log_ticks(ax.xaxis, [0.524288, 1.31072, 19.922944])
    finish_axes(ax, title="", x_label="", y_label="")

    assert ax.xaxis.get_major_formatter().format_ticks([1.31072, 19.922944]) == ["1.31", "19.9"]


@given(VALUES, st.integers(4, 60))
def test_kept_indexes_hold_ends_and_extremes(values: np.ndarray, most: int) -> None:
    """A thinned curve keeps both ends, the highest and the lowest point."""
    kept = kept_indexes(values, most=most)

    assert len(kept) <= max(most, 4)
    assert (np.diff(kept) > 0).all()
    assert {0, len(values) - 1} <= set(kept.tolist())
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()


def test_thinned_curve_hides_no_spike() -> None:
    """The maximum of each stretch is kept, and so is where it stands."""
    values = np.zeros(1000)
    values[505] = 9

    assert 505 in kept_indexes(values, most=22)


@given(VALUES)
def test_histogram_counts_each_value_or_tells_of_it(values: np.ndarray) -> None:
    """Values outside of all bins are counted in a text."""
    span = span_of(values)

    n_counted = int(np.histogram(values, span.edges(len(values)))[0].sum())
    n_told = int(tail_of(values, span, unit="ms").partition(" ")[0].strip("\n(").replace(",", "") or 0)
    assert n_counted + n_told == len(values)


@pytest.mark.parametrize("value", [-100.0, 0.0, 5e-324, 3.0])
def test_span_of_equal_values_ascends(value: float) -> None:
    """Equal values have a span with bins, also negative ones."""
    span = span_of(np.full(5, value))

    assert np.histogram(np.full(5, value), span.edges(5))[0].sum() == 5


def test_span_leaves_a_late_answer_out() -> None:
    """One very late value in a thousand does not set the scale."""
    span = span_of(np.array([*np.linspace(10, 12, 999), 1000]))

    assert span.top < 20


def test_slices_weigh_by_time() -> None:
    """Each slice has its average in flight, and the sources and bytes that ended in it."""
    n = 60
    starts = [0.1 * index for index in range(n)] + [3.0 + 0.1 * index for index in range(30)] * 3
    slices = cut_into_slices(timings_of(starts, [start + 0.1 for start in starts]))

    assert slices is not None
    assert slices.in_flight.min() == pytest.approx(1)
    assert slices.in_flight.max() == pytest.approx(4)
    assert slices.ended_per_s[slices.in_flight > 3.9].mean() == pytest.approx(40, rel=0.05)
    assert slices.mib_per_s == pytest.approx(slices.ended_per_s)


def test_slices_of_even_concurrency_are_none() -> None:
    """If the number in flight never varies, there is nothing to compare."""
    starts = [0.1 * (index // 4) for index in range(400)]

    assert cut_into_slices(timings_of(starts, [start + 0.1 for start in starts])) is None


def test_in_flight_at_start_counts_those_not_yet_ended() -> None:
    """A source counts itself, and not a source that ended when it began."""
    timings = timings_of([0, 1, 2, 5], [2, 3, 4, 6])

    assert in_flight_at_start(timings).tolist() == [1, 2, 2, 1]


def test_chosen_runs_are_the_best_the_fewest_and_that_of_twelve() -> None:
    """At most five runs are highlighted, among them those of the report of 2018."""
    runs = [run_of(concurrency=n) for n in range(1, 57, 1)]

    chosen = choose_runs(runs)

    assert len(chosen) == 5
    assert {1, 12} < {run.concurrency for run in chosen}
    assert chosen[0].typical_per_s == max(run.typical_per_s for run in runs)


def test_few_and_best_are_of_the_best_engine() -> None:
    """The highlighted runs differ only in concurrency."""
    runs = [run_of(concurrency=n, engine=engine) for engine in ("slow", "fast") for n in (1, 2, 3, 48)]
    runs = [
        run if run.engine == "fast" else run_of(n=20, concurrency=run.concurrency, engine="slow")
        for run in runs
    ]

    few = few_and_best(runs)
    fewest = fewest_and_best(runs)

    assert [run.concurrency for run in few] == [1, 2, 3, 48]
    assert len({run.engine for run in few}) == 1
    assert [run.concurrency for run in fewest] == [1, 48]


def test_opens_by_order_take_the_ith_of_each_shard() -> None:
    """The first of a shard is the source that began first, and not the first in the list."""
    timings = Timings(
        start_s=np.array([3.0, 1.0, 2.0, 0.0]),
        end_s=np.array([4.0, 4.0, 4.0, 4.0]),
        open_s=np.array([0.3, 0.1, 0.2, 0.9]),
        read_s=np.zeros(4),
        nbytes=np.zeros(4, dtype="int64"),
        shard=np.array([0, 0, 1, 0]),
    )

    assert [sorted(order.tolist()) for order in opens_by_order_s(timings)] == [[0.2, 0.9], [0.1], [0.3]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).map(sorted))
def test_spread_out_labels_keep_apart(heights: list[float]) -> None:
    """Labels of a curve do not overlap at any heights."""
    spread = spread_out(heights, gap=0.06)

    assert all(later - earlier > 0.0599 for earlier, later in pairwise(spread))
    assert spread[0] > -1e-9
    assert spread[-1] < 1 + 1e-9


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([5, 5], [5]),
        ([8], [8]),
        ([5, 6], [5, 6]),
        ([3, 5], [3, 5]),
        ([255, 257], [255]),
        ([4, 8], [4, 8]),
        ([3, 20], [4, 8, 16]),
    ],
)
def test_an_axis_of_few_values_has_ticks_at_them(values: list[float], ticks: list[float]) -> None:
    """With fewer than two powers of two among the values, a tick would stand far from them."""
    _, axes = new_figure(1, 1, height_in=3)
    ax = axes[0, 0]

    mark_powers(ax, values)

    low, high = ax.get_xlim()
    assert [each for each in ax.get_xticks() if low <= each <= high] == ticks
