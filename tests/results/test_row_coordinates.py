"""Coordinates along the first axis: which exist, and their values."""

import math
from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.source import NO_INTEGER, Cost, CubeRow, ListColumn, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.row_coordinates import (
    NO_BOOLEAN,
    NO_TIME,
    RESERVED_NAMES,
    Values,
    chunk_rows,
    coordinate_values,
    coordinates_of,
    difference_coordinates,
    difference_values,
    failure_coordinate,
    table_values,
)
from pixel_gather.io.lists.list_columns import RESERVED, check_name
from support.fakes import FakeReader, FakeTable, table_of
from support.plans import planned

A = np.ones((2, 8, 8), "uint8")
OK = Outcome(
    status=Status.OK, transform=Transform(1, 2, 3, 4, 5, 6), cost=Cost(nbytes=7, open_s=0.5), bands=[]
)
ABSENT = Outcome(status=Status.ABSENT)


def scenes(
    *, columns: tuple[ListColumn, ...] = (), has_time: bool = False
) -> tuple[CubePlan, tuple[CubeRow, ...]]:
    """Return a plan of two scenes of two bands. The second scene has no red."""
    red = Source(href="a", band="red", scene="1", time_us=10, columns={"n": 1, "f": 0.5, "s": "x", "b": True})
    nir = Source(
        href="b", band="nir", scene="1", time_us=20, columns={"n": 2, "f": 1.5, "s": "y", "b": False}
    )
    rows = (
        CubeRow(time_us=10, sources=(red, nir)),
        CubeRow(time_us=20, sources=(None, replace(nir, scene="2"))),
    )
    table = FakeTable(rows, bands=("red", "nir"), columns=columns, has_time=has_time)
    return planned(FakeReader({"a": A, "b": A}), table), rows


def values_of(plan: CubePlan, rows: tuple[CubeRow, ...], *outcomes: list[Outcome]) -> dict[str, Values]:
    """Return all values. Checks that they fit their descriptions."""
    values = coordinate_values(plan, rows, outcomes)

    described = {each.name: each for each in coordinates_of(plan)}
    assert values.keys() == described.keys()
    for name, array in values.items():
        assert array.shape == described[name].shape
        assert array.dtype == (object if described[name].dtype == "string" else described[name].dtype)
        assert len(described[name].dims) == array.ndim
    return values


def test_coordinates_of_one_measurement_have_one_dimension() -> None:
    """Only the transform has a second dimension, its six coefficients."""
    plan = planned(FakeReader({"a": A}), table_of("a"), bands=[1])

    dims = {each.name: each.dims for each in coordinates_of(plan)}

    assert dims.pop("transform") == ("source", "affine")
    assert set(dims.values()) == {("source",)}
    assert {
        "href",
        "etag",
        "crs",
        "status",
        "min",
        "max",
        "mean",
        "valid_fraction",
        "bytes",
        "open",
    } <= dims.keys()


def test_coordinates_of_bands_of_one_source_repeat_only_what_differs() -> None:
    """Two bands of one file have one href and one timing, but their own statistics and status."""
    plan = planned(FakeReader({"a": A}), table_of("a"))

    dims = {each.name: each.dims for each in coordinates_of(plan)}

    assert dims["href"] == dims["open"] == ("source",)
    assert dims["mean"] == dims["status"] == ("source", "measurement")
    found = difference_coordinates(plan, nodata=True, scaling=True, overhang=True)
    differing = {each.name: each.dims for each in found}
    assert differing["nodata"] == differing["inside_x_start"] == ("source",)
    assert differing["scale_factor"] == differing["add_offset"] == ("source", "measurement")


def test_coordinates_of_scenes_have_a_place_for_each_measurement() -> None:
    """Sources of one row each keep their own href, timings and transform."""
    plan, _ = scenes(has_time=True)

    dims = {each.name: each.dims for each in coordinates_of(plan)}

    assert dims["time"] == ("time",)
    assert dims["href"] == dims["status"] == dims["mean"] == ("time", "measurement")
    assert dims["transform"] == ("time", "measurement", "affine")
    nodata, *inside = difference_coordinates(plan, nodata=True, scaling=False, overhang=True)
    assert nodata.dims == ("time", "measurement")
    assert {each.dims for each in inside} == {("time", "measurement")}


def test_coordinate_values_tell_absent_sources_from_zeros() -> None:
    """A band that a scene lacks has an empty href, NaN statistics and its own status."""
    plan, rows = scenes()

    values = values_of(plan, rows, [OK, OK], [ABSENT, OK])

    assert values["href"].tolist() == [["a", "b"], ["", "b"]]
    assert values["status"].tolist() == [[0, 0], [1, 0]]
    assert values["bytes"].tolist() == [[7, 7], [0, 7]]
    assert np.isnan(values["transform"][1, 0]).all()
    assert values["transform"][0, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert np.isnan(values["mean"]).all()


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("n", "int64", [[1, 2], [NO_INTEGER, 2]]),
        ("f", "float64", [[0.5, 1.5], [math.nan, 1.5]]),
        ("s", "string", [["x", "y"], ["", "y"]]),
        ("b", "bool", [[1, 0], [NO_BOOLEAN, 0]]),
        ("time", "int64", [[10, 20], [NO_TIME, 20]]),
        ("scene", "string", [["1", "1"], ["", "2"]]),
    ],
)
def test_coordinate_values_of_columns_that_vary_in_a_row(name: str, dtype: str, expected: Any) -> None:
    """An absent source's value is missing."""
    plan, rows = scenes(columns=(ListColumn(name=name, dtype=dtype, varies_in_row=True),))

    values = values_of(plan, rows, [OK, OK], [ABSENT, OK])

    np.testing.assert_equal(values[name].tolist(), expected)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("n", "int64", [1, 2]),
        ("s", "string", ["x", "y"]),
        ("time", "int64", [10, 20]),
        ("scene", "string", ["1", "2"]),
    ],
)
def test_coordinate_values_of_columns_that_do_not_vary(name: str, dtype: str, expected: Any) -> None:
    """The row has the value of its first existing source."""
    plan, rows = scenes(columns=(ListColumn(name=name, dtype=dtype, varies_in_row=False),))

    values = values_of(plan, rows, [OK, OK], [ABSENT, OK])

    assert values[name].tolist() == expected


@pytest.mark.parametrize("dtype", ["string", "float64"])
def test_coordinate_values_of_gaps_in_a_column_are_its_fill(dtype: str) -> None:
    """A line that leaves a column empty has empty text, or NaN."""
    column = ListColumn(name="cloud", dtype=dtype, varies_in_row=False)
    row = CubeRow(time_us=None, sources=(Source(href="a", columns={"cloud": None}),))
    plan = planned(FakeReader({"a": A}), FakeTable((row,), columns=(column,)))

    (value,) = values_of(plan, (row,), [OK])["cloud"]

    assert value == "" or math.isnan(value)


def test_coordinate_values_hold_the_outcomes_evidence() -> None:
    """The values are the measured statistics, shares, timings and counts."""
    plan = planned(FakeReader({"a": A}), table_of("a"), bands=[1])
    outcome = Outcome(
        status=Status.OK,
        etag='"7"',
        crs="EPSG:4326",
        start_s=1.5,
        end_s=36_000.001,
        cost=Cost(nbytes=900, header_nbytes=512, retries=2),
        bands=[BandStats(n_valid=16, min=1, max=3, mean=2)],
    )
    values = values_of(plan, (CubeRow(time_us=None, sources=(Source(href="a"),)),), [outcome])

    expected = {
        "etag": '"7"',
        "crs": "EPSG:4326",
        "start": 1.5,
        "end": 36_000.001,
        "bytes": 900,
        "header_bytes": 512,
        "retries": 2,
        "min": 1.0,
    }
    assert {name: values[name][0] for name in expected} == expected
    assert values["valid_fraction"][0] == 0.25


def test_nodata_values_are_nan_where_a_source_declares_none() -> None:
    """Each row has the values of its own source."""
    plan = planned(FakeReader({"a": A}), table_of("a", "a"))

    found = difference_values(plan, [[replace(OK, nodata=9)], [OK]])["nodata"]

    np.testing.assert_equal(found, [9.0, math.nan])


def test_scaling_values_are_the_rows_own_or_the_cubes() -> None:
    """A row without values of its own has those of the cube."""
    plan = planned(FakeReader({"a": A}), table_of("a", "a"))

    found = difference_values(plan, [[replace(OK, scaling=((0.1, -5.0), (2.0, 0.0)))], [OK]])

    assert found["scale_factor"].tolist() == [[0.1, 2.0], [1.0, 1.0]]
    assert found["add_offset"].tolist() == [[-5.0, 0.0], [0.0, 0.0]]


def test_no_column_of_a_list_can_collide_with_a_coordinate() -> None:
    """A column with the name of one of the cube's coordinates is refused when the list is read."""
    plan, _ = scenes(has_time=True)
    ours = {each.name for each in coordinates_of(plan)} | {
        "nodata",
        "scale_factor",
        "add_offset",
        "x",
        "y",
        "spatial_ref",
        "affine",
    }

    assert ours - {"time"} <= RESERVED_NAMES
    assert ours - {"time", "href"} <= RESERVED


def test_no_column_of_a_list_can_collide_with_a_measurement() -> None:
    """A column called band_1 would overwrite the pixels."""
    with pytest.raises(ValueError, match="rename"):
        check_name("band_1", what="column")

    check_name("band_1", what="band")
    check_name("band_name", what="column")


def test_difference_values_of_a_source_that_was_not_read_have_no_part_of_the_window() -> None:
    """Whatever extent its outcome has."""
    plan = planned(FakeReader({"a": A}), table_of("a", "b"))
    failed = replace(OK, status=Status.CORRUPT, extent=(1, 2, 7, 8))

    values = difference_values(plan, [[replace(OK, extent=(1, 2, 7, 8))], [failed]])

    inside = ("inside_x_start", "inside_y_start", "inside_x_stop", "inside_y_stop")
    assert [values[name].tolist() for name in inside] == [[1, 0], [2, 0], [7, 0], [8, 0]]


def test_table_values_of_one_measurement_have_one_dimension() -> None:
    """The table also has the size of each source, why it failed, and the digest of its pixels."""
    one = np.ones((1, 8, 8), "uint8")
    plan, rows = planned(FakeReader({"a": one}), table_of("a", "b")), table_of("a", "b").rows(0, 2)
    read = replace(OK, object_nbytes=5, bands=[BandStats(n_valid=1, digest="d")])
    failed = Outcome(status=Status.CORRUPT, reason="broken", bands=[BandStats()])

    values = table_values(plan, list(rows), [[read], [failed]])

    assert values["object_bytes"].tolist() == [5, 0]
    assert values["failure"].tolist() == ["", "broken"]
    assert values["pixel_digest"].tolist() == ["d", ""]


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(0, 1024), (1, 1024), (1024, 1024), (1025, 2048), (5000, 8192), (16_384, 16_384), (10**6, 16_384)],
)
def test_chunks_of_coordinates_are_powers_of_two_within_limits(n_rows: int, expected: int) -> None:
    """A small cube may grow. A large one is written in parts."""
    assert chunk_rows(n_rows) == expected


SCHEMA = (
    ("time", "int64", NO_TIME, "microseconds since 1970-01-01"),
    ("href", "string", "", None),
    ("etag", "string", "", None),
    ("crs", "string", "", None),
    ("start", "float64", math.nan, "s"),
    ("end", "float64", math.nan, "s"),
    ("open", "float32", math.nan, "s"),
    ("read", "float32", math.nan, "s"),
    ("decode", "float32", math.nan, "s"),
    ("bytes", "int64", 0, "1"),
    ("header_bytes", "int64", 0, "1"),
    ("requests", "int64", 0, "1"),
    ("retries", "int64", 0, "1"),
    ("min", "float64", math.nan, None),
    ("max", "float64", math.nan, None),
    ("mean", "float64", math.nan, None),
    ("valid_fraction", "float32", 0.0, "1"),
    ("status", "uint8", 255, None),
    ("below_claim", "bool", False, None),
    ("transform", "float64", math.nan, None),
    ("offset_claimed", "float64", math.nan, None),
    ("nodata", "float64", math.nan, None),
    ("scale_factor", "float64", math.nan, None),
    ("add_offset", "float64", math.nan, None),
    ("inside_x_start", "int32", 0, None),
    ("inside_y_start", "int32", 0, None),
    ("inside_x_stop", "int32", 0, None),
    ("inside_y_stop", "int32", 0, None),
    ("failure", "string", "", None),
)


def test_coordinates_have_the_dtypes_fills_and_units_of_earlier_cubes() -> None:
    """An append writes into arrays that are there. Rows that nothing was written to hold the fill."""
    column = ListColumn(name="offset_claimed", dtype="float64", varies_in_row=False)
    table = FakeTable(table_of("a").all_rows, has_time=True, columns=(column,))
    plan = planned(FakeReader({"a": A[:1]}), table)

    found = (
        *coordinates_of(plan),
        *difference_coordinates(plan, nodata=True, scaling=True, overhang=True),
        failure_coordinate(plan),
    )

    told = [(each.name, each.dtype, each.fill, each.attributes.get("units")) for each in found]
    np.testing.assert_equal(told, list(SCHEMA))
    assert {each.dims[0] for each in found} == {"time"}
    assert {each.shape for each in found} == {(1,), (1, 6)}


def test_coordinates_of_differences_are_there_if_they_are_asked_for() -> None:
    """Each kind is asked for by itself."""
    plan = planned(FakeReader({"a": A[:1]}), table_of("a"))

    def names(**wanted: bool) -> list[str]:
        none = {"nodata": False, "scaling": False, "overhang": False}
        return [each.name for each in difference_coordinates(plan, **none | wanted)]

    assert names() == []
    assert names(nodata=True) == ["nodata"]
    assert names(scaling=True) == ["scale_factor", "add_offset"]
    assert [each[:6] for each in names(overhang=True)] == ["inside"] * 4


def test_values_tell_which_pixels_may_have_the_claimed_offset_already() -> None:
    """The darkest pixel of each band decides. An absent source claims nothing."""
    column = ListColumn(name="offset_claimed", dtype="float64", varies_in_row=True)
    plan, (first, second) = scenes(columns=(column,))
    red, nir = first.sources
    assert red is not None
    assert nir is not None
    dark = replace(OK, bands=[BandStats(n_valid=4, min=100.0)])
    bright = replace(OK, bands=[BandStats(n_valid=4, min=900.0)])
    claiming = CubeRow(
        time_us=10, sources=(replace(red, columns={"offset_claimed": -1000.0}), replace(nir, columns={}))
    )

    values = values_of(plan, (claiming, second), [dark, dark], [ABSENT, dark])
    of_bright = values_of(plan, (claiming, second), [bright, bright], [ABSENT, dark])

    assert values["below_claim"].tolist() == [[True, False], [False, False]]
    assert of_bright["below_claim"].tolist() == [[False, False], [False, False]]
    np.testing.assert_equal(values["offset_claimed"][0].tolist(), [-1000.0, math.nan])


def test_status_of_a_source_is_that_of_each_of_its_bands() -> None:
    """A failed source has no statistics: NaN, nothing valid and no digest."""
    plan, rows = planned(FakeReader({"a": A}), table_of("a", "b")), table_of("a", "b").all_rows
    read = replace(
        OK, bands=[BandStats(n_valid=64, mean=1.0, digest="x"), BandStats(n_valid=None, digest="y")]
    )

    values = table_values(plan, rows, [[read], [Outcome(status=Status.CORRUPT, reason="broken")]])

    assert values["status"].tolist() == [[0, 0], [Status.CORRUPT, Status.CORRUPT]]
    np.testing.assert_equal(values["valid_fraction"].tolist(), [[1.0, math.nan], [0.0, 0.0]])
    np.testing.assert_equal(values["mean"].tolist(), [[1.0, math.nan], [math.nan, math.nan]])
    assert values["pixel_digest"].tolist() == [["x", "y"], ["", ""]]
    assert values["failure"].tolist() == ["", "broken"]


def test_table_values_of_scenes_have_a_place_for_each_source() -> None:
    """Sizes, reasons and digests, as all else."""
    plan, rows = scenes()
    read = replace(OK, object_nbytes=9, bands=[BandStats(digest="x")])

    values = table_values(plan, rows, [[read, read], [replace(ABSENT, reason="none"), read]])

    assert values["object_bytes"].tolist() == [[9, 9], [0, 9]]
    assert values["failure"].tolist() == [["", ""], ["none", ""]]
    assert values["pixel_digest"].tolist() == [["x", "x"], ["", "x"]]


def test_time_of_a_row_is_that_of_the_list() -> None:
    """Rows of a cube with times all have one."""
    plan, rows = scenes(has_time=True)

    assert values_of(plan, rows, [OK, OK], [ABSENT, OK])["time"].tolist() == [10, 20]


def test_times_that_some_rows_lack_are_a_coordinate_all_the_same() -> None:
    """With the marks of a time: units, and a fill that is no time."""
    plan, _ = scenes(columns=(ListColumn(name="time", dtype="int64", varies_in_row=True),))

    [time] = [each for each in coordinates_of(plan) if each.name == "time"]

    assert (time.fill, time.attributes["units"]) == (NO_TIME, "microseconds since 1970-01-01")
    assert time.dims == ("source", "measurement")
