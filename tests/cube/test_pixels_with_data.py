"""Which pixels of a finished cube came from their source."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import zarr

from pixel_gather.io.cube.pixels_with_data import are_inside

EDGES = {
    "x_start": [[0, 1], [2, 0], [4, 4]],
    "x_stop": [[6, 3], [4, 6], [4, 4]],
    "y_start": [[0, 0], [1, 0], [0, 0]],
    "y_stop": [[4, 2], [3, 4], [4, 4]],
}
"""Of three rows and two measurements. In the last row, both sources are beside the window."""


def cube_of(edges: Mapping[str, Sequence[int] | Sequence[Sequence[int]]]) -> zarr.Group:
    """Return a group that has only these coordinates."""
    group = zarr.create_group(store={})
    for name, values in edges.items():
        group.create_array(f"inside_{name}", data=np.array(values, "int64"))
    return group


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("step", [1, 2])
def test_pixels_inside_are_those_between_the_edges(slot: int, step: int) -> None:
    """The stop is not included. A smaller picture has each second pixel."""
    rows = np.array([2, 0, 1])
    whole = np.zeros((3, 4, 6), bool)
    for n, row in enumerate(rows):
        x_start, x_stop, y_start, y_stop = (EDGES[name][row][slot] for name in EDGES)
        whole[n, y_start:y_stop, x_start:x_stop] = True
    picture = np.zeros(whole[:, ::step, ::step].shape)

    found = are_inside(cube_of(EDGES), rows, picture, step, slot=slot)

    np.testing.assert_array_equal(found, whole[:, ::step, ::step])


def test_edges_of_rows_hold_for_each_measurement() -> None:
    """If one source holds all measurements of a row, the coordinates have one value for each row."""
    edges = {name: [each[0] for each in values] for name, values in EDGES.items()}

    found = are_inside(cube_of(edges), np.array([1]), np.zeros((1, 4, 6)), 1, slot=1)

    assert np.argwhere(found[0]).tolist() == [[1, 2], [1, 3], [2, 2], [2, 3]]


def test_all_pixels_are_inside_if_no_window_reaches_beyond_its_source() -> None:
    """Such a cube has no edges."""
    assert are_inside(cube_of({}), np.array([0]), np.zeros((1, 4, 6)), 1, slot=0).all()
