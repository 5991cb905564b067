"""Coordinates of joined rows: padding, missing values, and texts by number."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import MAX_EXACT, NO_INTEGER
from pixel_gather.core.results.join_member import Member
from pixel_gather.core.results.row_coordinates import NO_BOOLEAN, NO_TIME, NOT_GATHERED
from pixel_gather.features.join.join_rows import joined_rows, numbered_texts, repeats_texts, unite_values
from pixel_gather.features.join.joined_metadata import array_metadata, centre_of, coordinate_attributes

TIMES = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[us]").astype("int64")


def member(arrays: Mapping[str, Any] | None = None, **columns: Any) -> Member:
    """Return a cube of three rows, in shards of four."""
    return Member(
        place="file:///a",
        shown="/a",
        version="1",
        digest="d",
        dims=("time", "y", "x"),
        shape=(3, 8, 8),
        shard_rows=4,
        shards=(),
        measurements=("band_1",),
        arrays=arrays or {},
        attributes={},
        columns=columns,
        table={},
    )


def test_a_column_that_no_cube_has_is_refused() -> None:
    """Cubes that are added may lack one that was kept of the first ones."""
    with pytest.raises(RequestError, match="no member's rows have a column 'cloud'"):
        joined_rows([member(time=TIMES)] * 2, ("time", "cloud"), first_member=0)


def test_each_cubes_rows_are_padded_to_whole_shards() -> None:
    """A row of padding has no time, no status, no pixel and no value."""
    columns: dict[str, Any] = {
        "time": TIMES,
        "status": np.zeros(3, "uint8"),
        "valid_fraction": np.ones(3, "float32"),
        "href": np.array(["a", "b", "c"], object),
        "cloud": np.array([1, 2, 3], "float32"),
    }

    rows = joined_rows([member(**columns)] * 2, tuple(columns), first_member=5)

    shown = {name: values[[2, 3, 6, 7]].tolist() for name, values in rows.items() if name != "cloud"}
    no_time = np.array(NO_TIME).tolist()
    assert shown == {
        "presence": [1, 0, 1, 0],
        "member": [5, 5, 6, 6],
        "time": [TIMES[2], no_time, TIMES[2], no_time],
        "status": [0, NOT_GATHERED, 0, NOT_GATHERED],
        "valid_fraction": [1, 0, 1, 0],
        "href": ["c", "", "c", ""],
    }
    np.testing.assert_array_equal(rows["cloud"], [1, 2, 3, np.nan] * 2)


def united(*parts: Any, name: str = "n") -> list[Any]:
    """Return the values of a coordinate in cubes of one row; None for one that lacks it."""
    found = unite_values(name, [None if each is None else np.array(each) for each in parts], [1] * len(parts))
    assert len({each.dtype for each in found}) == 1
    return [found[0].dtype.name, *(each.tolist() for each in found)]


def test_values_that_a_cube_lacks_are_missing() -> None:
    """Booleans stay booleans if no cube lacks them, or if the program itself tells them of some cubes."""
    assert united([True], [False]) == ["bool", [True], [False]]
    assert united([True], None) == ["uint8", [1], [NO_BOOLEAN]]
    assert united([True], None, name="below_claim") == ["bool", [True], [False]]
    assert united([7], None) == ["int64", [7], [NO_INTEGER]]
    assert united([7], None, name="object_bytes") == ["int64", [7], [0]]
    assert str(united([NO_INTEGER], [0.5])) == "['float64', [nan], [0.5]]"


def test_values_of_unlike_kinds_are_refused() -> None:
    """Texts beside numbers, other shapes, and integers that float64 does not hold."""
    assert united([MAX_EXACT + 1], [7]) == ["int64", [MAX_EXACT + 1], [7]]
    assert united([MAX_EXACT], [0.5]) == ["float64", [MAX_EXACT], [0.5]]
    with pytest.raises(RequestError, match=r"n has integers beyond 2\^53 in one member and fractions"):
        united([MAX_EXACT + 1], [0.5])
    with pytest.raises(RequestError, match="n is text in one member and numbers in another"):
        unite_values("n", [np.array(["a"], object), np.array([1])], [1, 1])
    with pytest.raises(RequestError, match="or has another shape"):
        united([1], [[1, 2]])


def test_texts_are_numbered_where_each_stands_in_four_rows() -> None:
    """Texts that are known keep their numbers."""
    assert repeats_texts(np.array(list("aaaabbbb"), object))
    assert not repeats_texts(np.array(list("aaaabbb"), object))
    assert not repeats_texts(np.array([["a", "b"]] * 8, object))

    texts, numbers = numbered_texts(np.array(["c", "b", "c"], object), ["a", "b"])

    assert (texts.tolist(), numbers.tolist()) == (["a", "b", "c"], [2, 1, 2])


def test_attributes_are_those_of_any_cube_that_has_them() -> None:
    """A note of one cube is one of the array. Where integers are missing follows from all values."""
    attributes = {"grid_mapping": "spatial_ref", "coordinates": "a"}
    told = {"shape": [3, 8, 8], "attributes": attributes}
    noted = told | {"attributes": attributes | {"comment": "note"}}
    both = [member({"band_1": told}), member({"band_1": noted, "n": {"attributes": {"units": "m"}}})]

    on_map = array_metadata(both, "band_1", n_rows=8, beside=["n", "spatial_ref"])
    off_map = array_metadata(both[:1], "band_1", n_rows=4, beside=["n"])

    attributes = {"grid_mapping": "spatial_ref", "coordinates": "n spatial_ref", "comment": "note"}
    assert json.loads(on_map) == {"shape": [8, 8, 8], "attributes": attributes}
    assert json.loads(off_map) == {"shape": [4, 8, 8], "attributes": {"coordinates": "n"}}
    assert coordinate_attributes(both, "n", np.array([1])) == {"units": "m"}
    assert coordinate_attributes(both, "n", np.array([1, NO_INTEGER])) == {
        "units": "m",
        "_FillValue": NO_INTEGER,
    }
    large = coordinate_attributes(both, "n", np.array([MAX_EXACT + 1, NO_INTEGER]))
    assert large == {"units": "m", "comment": f"{NO_INTEGER} is missing"}
    assert coordinate_attributes(both, "presence", np.ones(1, "uint8"))["flag_meanings"] == "padding row"


def test_the_middle_of_a_window_is_that_of_its_box() -> None:
    """Without a box or a CRS, nobody knows it."""
    box = {"spatial:bbox": [10, 40, 14, 50]}

    assert centre_of(box | {"proj:code": "EPSG:1"}) == ("EPSG:1", 12, 45)
    assert centre_of(box | {"proj:wkt2": "wkt"}) == ("wkt", 12, 45)
    assert str(centre_of({"proj:code": "EPSG:1"})) == "('EPSG:1', nan, nan)"
