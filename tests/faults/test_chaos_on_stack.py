"""A small version of `scripts/chaos --stack`: the cube is right though requests fail and processes die."""

from typing import Final

import numpy as np
import pytest

from faults.chaos import SAME, difference, made_sources
from faults.chaos_on_stack import stack_under_faults

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1200)]

_N: Final = 130
_LONGEST_S: Final = 500.0


@pytest.mark.long
def test_cube_of_the_stack_is_that_of_a_calm_run() -> None:
    """Every tenth request of the functions fails, and two processes are killed while they work."""
    with stack_under_faults(made_sources(_N)) as stack:
        calm = stack.run(seed=0, failing=0.0, n_kills=0, longest_s=_LONGEST_S)
        stormy = stack.run(seed=1, failing=0.1, n_kills=2, longest_s=_LONGEST_S)

    assert stormy.requests.total() > stormy.requests["well"] + 10
    assert difference(stormy.cube, calm.cube) == SAME
    assert np.array_equal(stormy.cube["status"].values, np.zeros(_N))
