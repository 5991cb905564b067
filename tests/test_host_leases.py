"""How workers share what a host allows: the rules."""

import json
from copy import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from pixel_gather.core.host_leases import (
    LEAST_LEASE_S,
    LONGEST_LEASE_S,
    Lease,
    StoreClock,
    fair_share,
    lease_s,
    ledger_content,
    parse_ledger,
    take_lease,
)

NOW_S = 1_790_000_000.0
LEASE = Lease(until_s=NOW_S + 5, per_s=10.0, wants_per_s=20.0, budget_per_s=100.0)


def taken(
    others: dict[str, Lease], *, wants: float = 100.0, budget: float = 100.0, expected: int = 1
) -> Lease:
    """Return the lease of one more worker."""
    return take_lease(
        others, now_s=NOW_S, wants_per_s=wants, budget_per_s=budget, n_expected=expected, lasts=1.0
    )


def test_ledger_is_what_was_written() -> None:
    """Leases that have ended are left out."""
    leases = {"a": LEASE, "b": replace(LEASE, until_s=NOW_S)}

    assert parse_ledger(ledger_content(leases), now_s=NOW_S) == {"a": LEASE}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"a": 1}', b'{"a": {"until_s": 1}}', json.dumps({"a": "x" * 100}).encode()],
)
def test_content_that_is_no_ledger_has_no_leases(content: bytes) -> None:
    """Whoever reads it next replaces it."""
    assert parse_ledger(content, now_s=NOW_S) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"until_s": NOW_S + 1e6},
        {"until_s": 1e308},
        {"per_s": -5.0},
        {"per_s": 101.0},
        {"wants_per_s": -1.0},
        {"budget_per_s": 0.0},
        {"budget_per_s": -1.0},
    ],
)
def test_lease_that_no_worker_could_have_written_is_left_out(change: dict[str, Any]) -> None:
    """Nobody can keep the others out for longer than a lease lasts."""
    content = json.dumps(
        {
            "bad": to_builtins(LEASE) | change,
            "good": to_builtins(LEASE),
            "n" * 65: to_builtins(LEASE),
        }
    )

    assert parse_ledger(content.encode(), now_s=NOW_S) == {"good": LEASE}


def test_too_many_leases_are_none() -> None:
    """No worker has written them."""
    many = {f"{n}": LEASE for n in range(10_001)}

    assert parse_ledger(ledger_content(many), now_s=NOW_S) == {}


def test_first_worker_gets_all_but_what_others_are_about_to_ask_for() -> None:
    """A little of the budget is never given away."""
    assert taken({}).per_s == pytest.approx(98.0)
    assert taken({}, expected=50).per_s == pytest.approx(98.0 / 50)


def test_worker_gets_its_share_once_the_others_have_given_it_back() -> None:
    """Until then it has less, or waits. They see what it wants when they renew their leases."""
    alone = replace(LEASE, per_s=98.0, wants_per_s=98.0)
    waiting = taken({"a": alone})

    assert waiting.per_s == 0.0
    assert taken({"b": waiting}).per_s == pytest.approx(49.0)
    assert taken({"a": replace(alone, per_s=49.0)}).per_s == pytest.approx(49.0)


def test_worker_gets_more_than_its_share_where_others_want_less() -> None:
    """What one does not want is divided among all others."""
    modest = replace(LEASE, per_s=3.0, wants_per_s=3.0)

    assert taken({"a": modest}).per_s == pytest.approx(95.0)
    assert taken({"a": modest}, wants=7.0).per_s == 7.0


def test_lowest_budget_counts() -> None:
    """Two gathers may allow one host different rates."""
    strict = replace(LEASE, per_s=0.0, wants_per_s=1.0, budget_per_s=10.0)

    assert taken({"a": strict}).per_s == pytest.approx(8.8)


@pytest.mark.long
@given(
    budget=st.floats(0.1, 10_000),
    wants=st.lists(st.floats(0, 20_000), min_size=1, max_size=40),
    order=st.randoms(use_true_random=False),
    expected=st.integers(1, 60),
)
def test_leases_never_exceed_the_budget_and_end_fair(
    budget: float, wants: list[float], order: Any, expected: int
) -> None:
    """Whoever renews in whatever order."""
    leases: dict[str, Lease] = {}
    names = [f"{n}" for n in range(len(wants))]
    for n_round in range(4):
        for name in order.sample(names, len(names)):
            others = {each: lease for each, lease in leases.items() if each != name}
            hint = expected if not n_round else 1
            leases[name] = taken(others, wants=wants[int(name)], budget=budget, expected=hint)
            assert sum(each.per_s for each in leases.values()) <= budget * 0.98 * (1 + 1e-9)

    share = fair_share(budget * 0.98, [min(each, budget * 0.98) for each in wants])
    for name, lease in leases.items():
        assert lease.per_s == pytest.approx(min(wants[int(name)], share), rel=1e-6, abs=1e-6)


def test_leases_are_longer_the_more_workers_there_are() -> None:
    """So the ledger is not replaced more often. Those of slow hosts are long, too."""
    assert lease_s(1, 200) == LEAST_LEASE_S
    assert lease_s(50, 200) == 25.0
    assert lease_s(10, 5) == 8.0
    assert lease_s(10_000, 200) == LONGEST_LEASE_S


def test_store_clock_tells_the_stores_time_whatever_the_workers_clock_says() -> None:
    """A store tells whole seconds. Each look narrows what the difference may be."""
    clock = StoreClock()
    true_offset_s = NOW_S + 0.3
    for own_s in (100.0, 100.45, 101.9, 103.21):
        clock.saw(written_s=float(int(true_offset_s + own_s + 0.02)), sent_s=own_s, answered_s=own_s + 0.05)

    assert clock.at(200.0) == pytest.approx(true_offset_s + 200.0, abs=0.3)


def test_store_clock_follows_a_clock_that_was_set() -> None:
    """What was known before is no longer true."""
    clock = StoreClock()
    clock.saw(written_s=NOW_S, sent_s=100.0, answered_s=100.1)
    clock.saw(written_s=NOW_S + 10, sent_s=5000.0, answered_s=5000.1)

    assert clock.at(5000.0) == pytest.approx(NOW_S + 10.5, abs=0.6)
