"""The benchmark of parts reads what it says, in as many requests as it says."""

from pathlib import Path

import pytest

from benchmarks.bench_transfer import Case, Measured, cases_of, make_files, measure, table
from benchmarks.loopback_server import run_server
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import Objects, StoreSettings

NAMES = ("large", "many", "lambda", "crossover")


def case_of(kind: str) -> Case:
    """Return a small case of one source."""
    return Case(kind=kind, nbytes=800_000, n_sources=1, ttfb_ms=0, connection_mb_per_s=100)


@pytest.mark.parametrize(("kind", "n_more"), [("range", 0), ("strip", 1)])
def test_measure_reads_every_case_in_every_number_of_parts(tmp_path: Path, kind: str, n_more: int) -> None:
    """Each is checked against the file; a strip's header is one request more."""
    digests = make_files(tmp_path, [case_of(kind)])
    with run_server(tmp_path) as server:
        measured = run(measure(server, digests, repeats=1, objects=Objects(StoreSettings(hedging=None))))

    assert {each.n_parts: each.n_gets - n_more for each in measured} == {1: 1, 2: 2, 4: 4, 8: 8} | {
        case_of(kind).chosen(): case_of(kind).chosen()
    }
    assert len(list(table(measured))) == 3


def test_measure_refuses_other_bytes(tmp_path: Path) -> None:
    """What is compared has read the same."""
    digests = make_files(tmp_path, [case_of("range")])
    with run_server(tmp_path) as server, pytest.raises(AssertionError, match="other bytes"):
        run(
            measure(
                server, dict.fromkeys(digests, "0"), repeats=1, objects=Objects(StoreSettings(hedging=None))
            )
        )


def test_table_compares_within_each_round() -> None:
    """The chosen number of parts against a single range, and against the best."""
    case = case_of("range")
    seconds = {1: 1.0, 2: 0.5, 4: 0.25, 8: 0.25, case.chosen(): 0.5}
    measured = [
        Measured(case=case, round_index=index, n_parts=n, seconds=took, n_gets=n)
        for index in range(3)
        for n, took in seconds.items()
    ]

    *_, row = table(measured)

    assert row.endswith("| 2.00 | 0.50 |")


def test_cases_lie_on_both_sides_of_the_crossover() -> None:
    """Some for which the rule takes a single range, some for which it takes as many parts as it may."""
    chosen = {name: {case.chosen() for case in cases_of([name])} for name in NAMES}

    assert chosen["large"] == {8}
    assert chosen["many"] == chosen["lambda"] == {1}
    assert {1, 8} < chosen["crossover"]
