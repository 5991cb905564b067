"""A tiny version of `scripts/chaos`, in one process: every tenth request fails, and the cube is right."""

import random
from contextlib import suppress
from typing import Final

import numpy as np
import pytest

from faults.chaos import SAME, difference, made_sources, opened, passing_on, work
from pixel_gather.core.errors import GatherError
from support.cloud_store import Cloud, CloudStore, serving

_N: Final = 130
_MOST_RUNS: Final = 20
_PATIENCE: Final = 0.4
"""A request that hangs is given up after less than a second. A busy machine sees more of them."""

_HANGS_S: Final = 3 * _PATIENCE


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["s3", "gs", "az"])
def test_cube_is_that_of_a_calm_run(cloud: Cloud) -> None:
    """The gather is started again until it ends well, as the one on AWS is."""
    sources = made_sources(_N)
    calm = CloudStore(dict(sources))
    stormy = CloudStore(dict(sources), 0.1, random.Random(7), hangs_s=_HANGS_S)  # noqa: S311 # no secret
    with serving(calm, cloud) as endpoint:
        work(endpoint, _N, _PATIENCE, cloud)
    with serving(stormy, cloud) as endpoint:
        for _ in range(_MOST_RUNS):
            with suppress(GatherError):
                work(endpoint, _N, _PATIENCE, cloud)
                break
        stormy.failing = 0.0

    with serving(calm) as endpoint:
        expected = opened(endpoint)
    with serving(stormy) as endpoint:
        cube = opened(endpoint)

    assert stormy.counts.total() > stormy.counts["well"] + 20
    assert bool(cube.attrs["complete"])
    assert difference(cube, expected) == SAME
    assert np.array_equal(cube["status"].values, np.zeros(_N))


@pytest.mark.long
def test_requests_that_are_passed_on_fail_just_as_well() -> None:
    """On the emulated stack the objects are the emulator's, and a proxy before it lets requests fail."""
    there = CloudStore(made_sources(8))
    with serving(there) as endpoint:
        proxy = CloudStore({}, 0.2, random.Random(1), hangs_s=_HANGS_S, pass_on=passing_on(endpoint))  # noqa: S311 # as above
        with serving(proxy) as before:
            for _ in range(_MOST_RUNS):
                with suppress(GatherError):
                    work(before, 8, _PATIENCE)
                    break
        cube = opened(endpoint)

    assert proxy.counts.total() > proxy.counts["well"] > 20
    assert not proxy.objects
    assert cube["status"].values.tolist() == [0] * 8
