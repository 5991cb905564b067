"""What a plan says of itself."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.plan.cube_plan import (
    OVERHANG_IS_NODATA,
    OVERHANG_IS_ZERO,
    Append,
    CubePlan,
    Measurement,
    claim_of,
)
from support.fakes import UTM, FakeImage, FakeReader, FakeTable, header_of, table_of
from support.plans import planned, red_and_nir

A = np.zeros((3, 50, 40), "uint16")
PLAN = planned(FakeReader({"a": A}), table_of("a"), bands=[3, 1])


@pytest.mark.parametrize(
    ("dtype", "nodata", "fill", "overhang"),
    [
        ("uint16", None, 0, OVERHANG_IS_ZERO),
        ("uint16", 7, 7, OVERHANG_IS_NODATA),
        ("uint16", 0, 0, OVERHANG_IS_NODATA),
        ("float32", None, "nan", OVERHANG_IS_NODATA),
        ("complex64", None, "nan", OVERHANG_IS_NODATA),
        ("float32", -9999.0, -9999.0, OVERHANG_IS_NODATA),
    ],
)
def test_what_is_no_pixel_is_nodata_or_nan_or_else_0(
    dtype: str, nodata: float | None, fill: float | str, overhang: str
) -> None:
    """Zero looks like a value. The words say so."""
    found = Measurement(name="a", slot=0, dtype=dtype, nodata=nodata, scale=1.0, offset=0.0)

    assert str(found.fill_value) == str(fill)
    assert found.overhang == overhang


def test_fill_value_and_nodata_of_a_slot_are_those_of_its_measurements() -> None:
    """A row whose source failed in one slot holds them in all bands of it."""
    first, second = PLAN.measurements
    plan = replace(PLAN, measurements=(replace(first, nodata=5), replace(second, slot=1, nodata=6)))

    assert [plan.fill_value(slot) for slot in (0, 1)] == [5, 6]
    assert [plan.nodata(slot) for slot in (0, 1)] == [5, 6]
    assert plan.of_slot(1) == plan.measurements[1:]


def test_scaling_of_a_source_is_told_by_the_bands_that_are_read() -> None:
    """None if it is that of the cube. Bands that are not read do not count."""
    header = header_of(A, "a", scales=(1.0, 9.0, 1.0), offsets=(0.0, 9.0, 0.0))

    assert PLAN.other_scaling(0, header) is None
    assert PLAN.other_scaling(0, replace(header, scales=(2.0, 1.0, 4.0))) == ((4.0, 0.0), (2.0, 0.0))
    assert PLAN.other_scaling(0, replace(header, offsets=(0.0, 0.0, 5.0))) == ((1.0, 5.0), (1.0, 0.0))


def test_claim_is_the_time_of_the_plan_and_the_version_of_an_append() -> None:
    """So each attempt has its own."""
    append = Append(version=3, first_row=4, chunk_rows=1, versions=())

    assert claim_of(1_700_000_000.25) == "20231114T221320.250000Z"
    assert PLAN.claim == "20231114T221320.000000Z"
    assert replace(PLAN, append=append).claim == "00003-20231114T221320.000000Z"
    assert (PLAN.first_row, replace(PLAN, append=append).first_row) == (0, 4)


@pytest.mark.parametrize(
    ("sources", "was_searched", "sign"),
    [
        ({"list": "a.csv"}, False, "none"),
        ({"stac": "https://h"}, True, "none"),
        ({"catalog": "s3://b/c.json", "sign": "earthdata"}, True, "earthdata"),
    ],
)
def test_plan_knows_how_its_sources_were_found(
    sources: dict[str, Any], sign: str, *, was_searched: bool
) -> None:
    """And who signs for them."""
    plan = replace(PLAN, request={"sources": sources})

    assert (plan.was_searched, plan.sign) == (was_searched, sign)


def test_first_axis_is_time_where_each_row_has_one() -> None:
    """Else it is the source."""
    assert PLAN.dim == "source"
    assert replace(PLAN, has_time=True).dim == "time"


def test_strips_are_counted_along_y() -> None:
    """The last one may be lower."""
    plan = replace(PLAN, n_rows=9, layout=replace(PLAN.layout, shard=(2, 7, 16)))

    assert plan.shape == (9, 16, 16)
    assert plan.n_strips == 3
    assert plan.to_json()["shards"] == 5 * 3


def test_a_dry_run_shows_the_plan() -> None:
    """Nodata is a text, as JSON has no NaN."""
    image = FakeImage(pixels=A / 2, header={"nodata": float("nan"), "scales": (2.0, 1.0, 1.0)})
    row = red_and_nir("a", "b", time_us=5)
    reader = FakeReader({"a": image, "b": A})
    plan: CubePlan = planned(reader, FakeTable((row,), bands=("red", "nir"), has_time=True))

    told = plan.to_json()

    assert (told["sources"], told["dims"], told["shape"]) == (2, ["time", "y", "x"], [1, 16, 16])
    assert told["measurements"] == [
        {"name": "red", "dtype": "float64", "nodata": "nan", "scale": 2.0, "offset": 0.0},
        {"name": "nir", "dtype": "uint16", "nodata": None, "scale": 1.0, "offset": 0.0},
    ]
    assert (told["crs"], told["transform"]) == ("EPSG:32631", UTM.shifted(16, 16))
    assert told["layout"] == {
        "chunk": (1, 16, 16),
        "shard": (1, 16, 16),
        "is_sharded": True,
        "codec": "blosc-lz4",
    }
    assert (told["shards"], told["part_bytes"]) == (1, None)
    assert told["estimate"]["n_gets"] == 4
    assert told["warnings"] == list(plan.warnings)
    assert told["digest"] == plan.digest
