"""The sentences that state what runs show."""

import numpy as np

from bench.figures.made_runs import run_with
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.findings import state_findings


def run_of(
    concurrency: int, per_s: float, *, n: int = 100, open_s: float = 0.03, read_s: float = 0.02
) -> Run:
    """Return a run that finishes this many sources per second."""
    end_s = np.arange(1, n + 1) / per_s
    start_s = np.concatenate(([0.0], end_s))[:n]
    timings = Timings(
        start_s=start_s,
        end_s=end_s,
        open_s=np.full(n, open_s),
        read_s=np.full(n, read_s),
        nbytes=np.full(n, 400_000),
        shard=np.zeros(n, dtype="int64"),
    )
    return run_with(timings, concurrency)


def test_findings_tell_the_share_of_opening() -> None:
    """The share is that of the medians, as in the table."""
    (said,) = state_findings([run_of(1, 20)])

    assert said == "Opening took more time than reading: 60.0% of both, 30.0 ms against 20.0 ms a source."


def test_findings_tell_where_throughput_flattens_and_what_is_most_efficient() -> None:
    """Throughput is flat from nine tenths of the maximum on."""
    pace = {1: 10.0, 8: 96.0, 16: 150.0, 32: 280.0, 49: 300.0}

    said = state_findings([run_of(n, per_s) for n, per_s in pace.items()])

    assert "fast: throughput flattens from 32 at a time, with 280 sources/s; the most is 300 sources/s" in (
        " ".join(said)
    )
    assert any(each.startswith("fast: best efficiency at 8 at a time, 12 sources/s") for each in said)


def test_findings_say_that_more_was_not_tried() -> None:
    """The sentence is there if the highest concurrency is clearly the best."""
    said = state_findings([run_of(n, 10.0 * n) for n in (1, 2, 4)])

    assert any("rises up to the highest number that was tried" in each for each in said)


def test_findings_of_two_runs_say_nothing_of_a_curve() -> None:
    """Two points are not a curve. Published figures are stated if they are wanted."""
    said = state_findings([run_of(1, 10), run_of(2, 20)], with_published=True)

    assert not any("flattens" in each or "efficiency at" in each for each in said[:-1])
    assert said[-1].startswith("In 2018, opening took 59.8% with 1 thread and 52.8% with 49")


def test_findings_of_two_runs_name_the_best_one() -> None:
    """What is said of one run is said of the one with the highest throughput."""
    said = state_findings([run_of(2, 20), run_of(1, 10)], with_published=True)

    assert said[0].startswith("Opening took more time than reading (fast, 2): ")


def test_findings_of_nothing_are_none() -> None:
    """A gather that read nothing has no findings."""
    empty = run_of(1, 10, n=0)

    assert state_findings([empty]) == ()


def test_findings_of_sources_that_took_no_time_name_no_late_one() -> None:
    """No source is any number of times as late as nothing."""
    run = run_of(1, 10, open_s=0.0, read_s=0.0)
    run.timings.read_s[50] = 3.0

    assert not any("slowest source" in each for each in state_findings([run]))


def test_findings_tell_of_one_late_source() -> None:
    """One late source determines the wall time of a short run."""
    late = run_of(1, 10)
    late.timings.read_s[50] = 3.0

    assert any("slowest source took 61 times the median" in each for each in state_findings([late]))
