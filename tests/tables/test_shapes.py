"""Shapes in a file are those that were given, in any order and block."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import rasterio.features
import shapely

from pixel_gather.core.model.window import Transform
from pixel_gather.tables.shapes import TOGETHER, Shapes, rasterise


def given(n: int) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Return boxes; each seventh shape is missing."""
    found = np.array([shapely.box(at, 0, at + 1, 2) for at in range(n)], object)
    found[::7] = None
    return found


@pytest.mark.long
def test_shapes_are_those_that_were_given() -> None:
    """By slices, by indexes in any order, and after they were put in another order."""
    shapes = given(TOGETHER + 10)
    stored = Shapes.of_array(shapes)
    order = np.random.default_rng(1).permutation(len(shapes))

    assert len(stored) == len(shapes)
    for part in (slice(None), slice(3, 9), order, np.array([5, 6, 7, 5]), np.zeros(0, np.int64)):
        assert stored[part].tolist() == shapes[part].tolist()
    assert stored.taken(order)[:50].tolist() == shapes[order[:50]].tolist()
    assert np.array_equal(stored.bounds, shapely.bounds(shapes), equal_nan=True)
    assert stored.kinds == {3}


def test_shapes_change_block_by_block() -> None:
    """Each block comes with its place; others stay as they were."""
    stored = Shapes.of_array(given(TOGETHER + 10))
    parts: list[slice] = []

    def move(some: np.ndarray[tuple[int], np.dtype[np.object_]], part: slice) -> object:
        parts.append(part)
        return shapely.transform(some, lambda at: at + 1)

    moved = stored.map_blocks(move)  # type: ignore[arg-type] # shapely has no types

    assert parts == [slice(0, TOGETHER), slice(TOGETHER, TOGETHER + 10)]
    assert np.array_equal(moved.bounds, stored.bounds + 1, equal_nan=True)
    assert stored[1:2][0].bounds == (1, 0, 2, 2)


def test_shapes_in_memory_are_those_in_a_file() -> None:
    """As workers get them."""
    stored = Shapes.of_array(given(20))
    content = memoryview(b"".join(each or b"" for each in stored.wkb(slice(None))))

    found = Shapes.of_wkb(content, stored.sizes)

    assert found[:].tolist() == stored[:].tolist()
    assert np.array_equal(found.bounds, stored.bounds, equal_nan=True)


def test_shapes_are_rasterised_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile rasterio hides a warning for all threads."""
    at_work, most = 0, 0

    def slow(*_: Any, **_more: Any) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        time.sleep(0.01)
        at_work -= 1

    monkeypatch.setattr(rasterio.features, "_rasterize", slow)
    with ThreadPoolExecutor(4) as threads:
        work = partial(rasterise, shapely.box(1, 1, 3, 3), (4, 4), Transform(1, 0, 0, 0, 1, 0))
        found = [each.result() for each in [threads.submit(work) for _ in range(8)]]

    assert [each.shape for each in found] == [(4, 4)] * 8
    assert most == 1
