"""When features count as the same: their digest, and that of their own columns."""

from collections.abc import Callable
from copy import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from arro3.core import Table
from hypothesis import example, given
from hypothesis import strategies as st

from pixel_gather.tables.features import Features
from pixel_gather.tables.shapes import Shapes
from support.identities import alike, another, check_identity


def _crops(*names: str) -> Table:
    return Table.from_arrow(pa.table({"crop": names}))


_POINTS = Features(
    ids=np.array([1, 2]),
    xs=np.array([0.0, 1.0]),
    ys=np.array([0.0, 1.0]),
    crs="EPSG:4326",
    geometries=Shapes.of_array(np.array([shapely.box(0, 0, 1, 1), None])),
    times_us=np.array([5, 6]),
    columns=_crops("rye", "oats"),
)


_OTHERS: dict[str, Any] = {
    "ids": np.array([1, 3]),
    "xs": np.array([0.0, 1.5]),
    "ys": np.array([0.0, 1.5]),
    "crs": "EPSG:3035",
    "geometries": Shapes.of_array(np.array([shapely.box(0, 0, 1, 2), None])),
    "times_us": np.array([5, 7]),
    "columns": _crops("rye", "peas"),
    # What is wrong with a feature follows from its shape, and what is said of it changes no value.
    "problems": np.array([0, 1], np.uint8),
    "notes": ("another",),
}


@pytest.mark.parametrize(
    ("identity", "decide"),
    [
        (attrgetter("digest"), ("ids", "xs", "ys", "crs", "geometries", "times_us")),
        (attrgetter("columns_digest"), ("columns",)),
    ],
)
def test_features_are_the_same_by_all_that_decides_a_value(
    identity: Callable[[Features], str], decide: tuple[str, ...]
) -> None:
    """Their own columns are beside the values. They have a digest of their own."""
    changes = {
        name: (another if name in decide else alike)(_POINTS, **{name: other})
        for name, other in _OTHERS.items()
    }

    check_identity(identity, changes, fields=Features.__struct_fields__)


_TWO_IDS = st.lists(st.text('a\n",[]', max_size=4), min_size=2, max_size=2)


@given(_TWO_IDS, _TWO_IDS)
@example(["a\nb", "c"], ["a", "b\nc"])
def test_ids_with_line_breaks_are_told_apart(one: list[str], other: list[str]) -> None:
    """An id of a CSV may be quoted over two lines."""
    digests = [replace(_POINTS, ids=np.array(ids, object)).digest for ids in (one, other)]

    assert (digests[0] == digests[1]) == (one == other)


def test_shapes_are_not_cut_elsewhere() -> None:
    """An empty shape is not the end of another one."""
    box = shapely.box(0, 0, 1, 1)
    shapes = [Shapes.of_array(np.array(each, object)) for each in ([box, None], [None, box])]

    assert len({replace(_POINTS, geometries=each).digest for each in shapes}) == 2


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, None]),
        pa.array([1, 2, 3]),
        pa.array([0.5, float("nan"), None]),
        pa.array([0.5, 1.5, float("nan")]),
        pa.array(["a\n", None, "c"]),
        pa.array([True, None, False]),
        pa.array([b"a", None, b"c"]),
        pa.array([1, None, 2**62], pa.timestamp("us")),  # beyond the years of Python
        pa.array([1, 2, 1001], pa.timestamp("ns")),
        pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
        pa.array([[1], None, []]),
        pa.array([{"a": 1}, None, {"a": 2}]),
    ],
    ids=lambda values: str(values.type),
)
def test_columns_are_the_same_by_their_values(values: pa.Array) -> None:
    """In one batch or several, whether a value is read or taken from another array, and in any width.

    Otherwise a deployment would make the same table again. Other values, or others missing, are told.
    """

    def digest(*chunks: pa.Array) -> str:
        table = Table.from_arrow(pa.table({"crop": pa.chunked_array(chunks)}))
        return replace(_POINTS, ids=np.arange(3), columns=table).columns_digest

    same = [
        digest(values),
        digest(values[:1], values[1:]),
        digest(pa.concat_arrays([values[:2], values[2:]])),
        digest(values.take(pa.array([2, 1, 0])).take(pa.array([2, 1, 0]))),
    ]
    others = [digest(values.take(pa.array(order))) for order in ([1, 0, 2], [0, 2, 1], [0, None, 2])]

    assert len(set(same)) == 1
    assert len({same[0], *others}) == 3 + values[1].is_valid


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int64())),
        (pa.array(["a", "b"]), pa.array(["a", "b"], pa.large_string())),
        (pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()),
    ],
)
def test_columns_of_equal_values_are_the_same_in_any_type(one: pa.Array, other: pa.Array) -> None:
    """Whoever writes a file again with another program has the same features."""
    tables = [Table.from_arrow(pa.table({"crop": each})) for each in (one, other)]

    assert len({replace(_POINTS, columns=each).columns_digest for each in tables}) == 1
