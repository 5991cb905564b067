"""The size of the first read is learned from earlier files."""

import pytest

from pixel_gather.io.geotiff.header_read_size import FirstRead

KIB = 1 << 10


def learned(*stops: int, start: int = 16 * KIB, is_fixed: bool = False) -> int:
    """Return the size of the first read after these headers."""
    first = FirstRead(start, is_fixed=is_fixed)
    for stop in stops:
        first.learn(stop)
    return first.nbytes


def test_one_odd_file_changes_nothing() -> None:
    """One unusual file does not change the size."""
    assert learned(100 * KIB) == 16 * KIB


def test_a_second_long_header_makes_it_grow_at_once() -> None:
    """The new size fits the headers so far, rounded up to a power of two."""
    assert learned(100 * KIB, 90 * KIB) == 128 * KIB


def test_few_long_headers_among_many_change_nothing() -> None:
    """A second request for one file in fifty is cheaper than a longer first read of all."""
    assert learned(*([3 * KIB] * 60), 100 * KIB, 100 * KIB) == 16 * KIB


def test_it_shrinks_by_half_after_every_64_files() -> None:
    """It shrinks slowly, because that only saves bytes. It never falls below 4 KiB."""
    assert learned(*([3 * KIB] * 63)) == 16 * KIB
    assert learned(*([3 * KIB] * 64)) == 8 * KIB
    assert learned(*([3 * KIB] * 127)) == 8 * KIB
    assert learned(*([3 * KIB] * 128)) == 4 * KIB
    assert learned(*([KIB] * 640)) == 4 * KIB


def test_it_stays_where_it_fits() -> None:
    """Headers that fill more than half of it leave the size unchanged."""
    assert learned(*([9 * KIB] * 640)) == 16 * KIB


def test_headers_deeper_than_any_first_read_teach_nothing() -> None:
    """A directory at the end of a large file takes its own request anyway."""
    assert learned(*([5 << 20] * 100)) == 16 * KIB


def test_it_never_exceeds_256_kib() -> None:
    """A second request takes less time than a first read of more than 256 KiB."""
    assert learned(*([256 * KIB] * 10)) == 256 * KIB
    assert learned(*([300 * KIB] * 10)) == 16 * KIB
    assert learned(*([1 << 20] * 10)) == 16 * KIB


@pytest.mark.parametrize("stop", [100 * KIB, 200 * KIB, 900 * KIB])
@pytest.mark.parametrize("every", [10, 20, 50])
def test_some_long_headers_cost_their_own_requests_only(stop: int, every: int) -> None:
    """A few long headers, even the first ones, do not enlarge the first reads of the other files."""
    first = FirstRead(16 * KIB)
    most = 0
    for n in range(1000):
        first.learn(stop if n % every in (0, every // 2) and n < 900 else 3 * KIB)
        most = max(most, first.nbytes)

    assert most == 16 * KIB
    assert first.nbytes == 4 * KIB


@pytest.mark.parametrize("stop", [3 * KIB, 100 * KIB])
def test_a_fixed_one_stays(stop: int) -> None:
    """A size that the user set does not change."""
    assert learned(*([stop] * 100), is_fixed=True) == 16 * KIB
