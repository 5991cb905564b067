"""The benchmark of cold starts runs what it measures."""

import pytest

from benchmarks.bench_startup import CASES, measure


@pytest.mark.long
@pytest.mark.bundle
@pytest.mark.timeout(900)  # it builds the package, where no other test has
def test_cases_end_with_all_their_moments() -> None:
    """The worker runs from its package. Its moments follow each other."""
    worker, gather = CASES[:2]

    answers = measure(ttfb_ms=0, times=1, cases=(worker, gather))

    for case in (worker, gather):
        (told,) = answers[case]
        moments = [told[name] for name in ("imported_s", "asked_s", "first_tile_s", "last_tile_s")]
        assert moments == sorted(moments), case
        assert min(told["cpu_s"], *moments) > 0, case
