"""Benchmarks of searches, with few scenes: large ones take few requests, and no link is lost."""

from pathlib import Path

import pytest

from benchmarks.bench_find import area_target, measure_ranges, measure_small_boxes, search_function
from benchmarks.made_catalog import write_made_up
from pixel_gather_bench.area import PUBLISHED_BOX, measure_load
from support.api_bridge import serving_api

N_SCENES = 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up catalog of five blocks."""
    found = tmp_path_factory.mktemp("made")
    write_made_up(found, N_SCENES)
    return found


@pytest.mark.long
def test_a_catalog_read_by_ranges_takes_few_requests(folder: Path) -> None:
    """A box costs the blocks that it meets and the groups of what is found, and each block is read once."""
    found, opening = measure_ranges(folder, 40)

    assert opening["open_requests"] == 3
    assert opening["open_nbytes"] < 10_000
    assert sum(each.n_found for each in found) > 0
    assert all(each.n_requests <= 5 + each.n_found for each in found)
    assert found[-1].n_requests <= found[-1].n_found


@pytest.mark.long
def test_every_client_has_every_link_of_the_published_box(folder: Path) -> None:
    """120 scenes of 13 images, through the function's handler."""
    with search_function(folder) as module, serving_api(module.handler) as root:
        found = measure_load(root + area_target(PUBLISHED_BOX), 32)

    assert (found.n_errors, found.n_links) == (0, 32 * 1560)


@pytest.mark.long
def test_a_function_by_itself_is_measured(folder: Path) -> None:
    """It searches small boxes, and its memory is that of a process of its own."""
    found = measure_small_boxes(folder)

    assert found["n_found"] > 0
    assert found["matched_ms"] > 0
    assert found["peak_mib"] > 20
