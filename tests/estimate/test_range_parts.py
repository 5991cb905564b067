"""The number of parts in which a range of one object is fetched."""

from copy import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.estimate.range_parts import HERE, LAMBDA, SMALLEST_PART, Link, Parts, choose_parts
from pixel_gather.core.estimate.worker_limits import MOST_PARTS
from pixel_gather.io.geotiff.fetch_in_parallel import cut_range

MB = 1_000_000
LINKS = st.builds(
    Link,
    first_byte_s=st.floats(0, 0.2),
    connection_bytes_per_s=st.floats(1e6, 2e8),
    machine_bytes_per_s=st.floats(1e7, 1e10),
    more_s=st.floats(0, 0.002),
)
SIZES = st.integers(0, 2 << 30)
IN_FLIGHT = st.integers(1, 128)


@given(
    start=st.integers(0, 10**12),
    nbytes=SIZES,
    part=st.none() | st.integers(1, 1 << 30),
    most=st.integers(1, 64),
)
def test_parts_cover_the_range_once_and_are_never_more_than_allowed(
    start: int, nbytes: int, part: int | None, most: int
) -> None:
    """Parts are in order, without a gap, and differ by one byte at most."""
    parts = cut_range(start, start + nbytes, part_nbytes=part, most=most)

    sizes = [stop - first for first, stop in parts]
    assert 1 <= len(parts) <= most
    assert (parts[0][0], parts[-1][1]) == (start, start + nbytes)
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert max(sizes) - min(sizes) <= 1
    assert part is None or len(parts) == most or max(sizes) <= part


@given(link=LINKS, nbytes=SIZES, n_in_flight=IN_FLIGHT)
def test_what_is_chosen_is_nearly_the_fastest_and_never_too_small(
    link: Link, nbytes: int, n_in_flight: int
) -> None:
    """The choice is at most 5 % slower than any other allowed number."""
    chosen = choose_parts(nbytes, link=link, n_in_flight=n_in_flight)

    allowed = [n for n in range(1, MOST_PARTS + 1) if n == 1 or n * SMALLEST_PART <= nbytes]
    seconds = {n: link.transfer_s(nbytes, n_parts=n, n_in_flight=n_in_flight) for n in allowed}
    assert seconds[chosen.n] <= 1.05 * min(seconds.values())
    assert all(seconds[n] > 1.05 * min(seconds.values()) for n in allowed if n < chosen.n)
    assert (chosen.part_nbytes is None) == (chosen.n == 1)
    assert chosen.part_nbytes is None or chosen.part_nbytes * chosen.n >= nbytes
    assert len(cut_range(0, nbytes, part_nbytes=chosen.part_nbytes, most=MOST_PARTS)) == chosen.n


@given(link=LINKS, sizes=st.tuples(SIZES, SIZES), n_in_flight=IN_FLIGHT)
def test_more_bytes_never_make_fewer_parts(link: Link, sizes: tuple[int, int], n_in_flight: int) -> None:
    """There is one crossover. Above it, parts are always faster."""
    fewer, more = (choose_parts(each, link=link, n_in_flight=n_in_flight).n for each in sorted(sizes))

    assert fewer <= more


@given(link=LINKS, nbytes=SIZES, counts=st.tuples(IN_FLIGHT, IN_FLIGHT))
def test_more_sources_side_by_side_never_make_more_parts(
    link: Link, nbytes: int, counts: tuple[int, int]
) -> None:
    """Concurrent sources share the machine, so each may use less of it."""
    few, many = (
        choose_parts(nbytes, link=replace(link, more_s=0.0), n_in_flight=n).n for n in sorted(counts)
    )

    assert few >= many


@pytest.mark.parametrize("n_in_flight", [1, 2, 64])
def test_a_worker_on_lambda_has_no_use_for_parts(n_in_flight: int) -> None:
    """One connection uses the whole network of a worker."""
    assert choose_parts(256 * MB, link=LAMBDA, n_in_flight=n_in_flight) == Parts()


def test_one_large_source_on_a_big_machine_is_fetched_in_as_many_parts_as_may_be() -> None:
    """One connection would leave most of the network unused."""
    assert choose_parts(256 * MB, link=HERE, n_in_flight=1) == Parts(n=MOST_PARTS, part_nbytes=32 * MB)


@pytest.mark.parametrize("nbytes", [400_000, 256 * MB])
def test_many_sources_side_by_side_stay_with_single_ranges(nbytes: int) -> None:
    """64 connections fill the machine without parts."""
    assert choose_parts(nbytes, link=HERE, n_in_flight=64) == Parts()


def test_a_tile_is_not_worth_a_second_request() -> None:
    """A range below twice the smallest part is not cut, even on an idle machine."""
    assert choose_parts(400_000, link=HERE, n_in_flight=1) == Parts()
