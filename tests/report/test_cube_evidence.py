"""Evidence for a report is read from a finished cube."""

import json
from copy import replace
from io import BytesIO
from typing import Any

import numpy as np
import obstore
import pytest
import zarr
from obstore.store import MemoryStore
from zarr.storage import ObjectStore

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.report_content import ArrayScaling
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.features.report.cube_evidence import _seconds_waited, read_evidence
from pixel_gather.io.cube.array_chunks import put_array
from support.report_cubes import REPORT, MadeCube, put_root


def test_evidence_has_the_timings_of_the_sources_that_were_read() -> None:
    """Timings are in the list's order, without failed sources.

    Sizes are without headers, and decoding counts as reading.
    """
    evidence = read_evidence(MadeCube(failed=frozenset({2})).stored(), place="/out/cube.zarr")

    timings = evidence.run.timings
    assert len(timings) == 9
    assert timings.nbytes[:3].tolist() == [300, 301, 303]
    assert timings.read_s[:2] == pytest.approx([0.015, 0.016])
    assert timings.end_s[0] == pytest.approx(0.1)
    assert timings.shard.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert (evidence.name, evidence.run.n_failed, evidence.run.window) == ("cube", 1, "centre tile")


def test_evidence_of_a_cube_without_pictures_has_its_statistics() -> None:
    """A gather of very small windows writes no quicklooks."""
    evidence = read_evidence(MadeCube(has_quicklooks=False).stored(), place="cube")

    assert evidence.looks == ()
    assert [each.measurement for each in evidence.series] == ["band_1"]


@pytest.mark.parametrize("window", [[[11, 46]], [[11, 46], [12, 46], [12, 99]], "Bolzano"])
def test_evidence_of_a_cube_that_lies_nowhere_is_refused(window: object) -> None:
    """No gather writes such a footprint."""
    store = MadeCube(footprints={"window": window, "sources": []}).stored()

    with pytest.raises(StoreError, match="not as a gather leaves it"):
        read_evidence(store, place="cube")


@pytest.mark.parametrize("name", ["end", "header_bytes", "mean"])
def test_evidence_of_a_cube_that_lacks_a_coordinate_is_refused(name: str) -> None:
    """Every gather writes these arrays, and nothing replaces them."""
    store = MadeCube().stored()
    obstore.delete(store, [item["path"] for page in obstore.list(store, f"{name}/") for item in page])

    with pytest.raises(StoreError, match=f"not as a gather leaves it.*{name}"):
        read_evidence(store, place="cube")


def test_evidence_names_the_slowest_sources_by_href_and_time() -> None:
    """There are at most ten, the slowest first."""
    evidence = read_evidence(MadeCube(n_rows=50, hrefs={49: "s3://b/slow"}).stored(), place="cube")

    assert [each.row for each in evidence.slowest] == list(range(49, 39, -1))
    assert evidence.slowest[0].href == "s3://b/slow"
    assert evidence.slowest[0].label == "2020-02-19"
    assert evidence.slowest[0].total_s == pytest.approx(0.074)


def test_evidence_calls_rows_without_time_by_their_number() -> None:
    """A label is never empty."""
    evidence = read_evidence(MadeCube(has_times=False).stored(), place="cube")

    assert evidence.looks[0].frames[3].label == "row 3"


def test_evidence_labels_times_of_any_year_alike() -> None:
    """Years have four digits. A row without a valid time has its number as label."""
    store = MadeCube(n_rows=4).stored()
    times = np.array([-36_918_374_399_000_000, -3_786_825_600_000_000, NO_TIME, 2**62])
    put_array(store, "time", times, dims=("time",))

    labels = [each.label for each in read_evidence(store, place="cube").looks[0].frames]

    assert labels == ["0800-02-08 00:00:01", "1850-01-01", "row 2", "row 3"]


def test_contact_sheet_shows_all_rows_of_a_small_cube() -> None:
    """Rows that were not read have their status instead of pixels."""
    cube = MadeCube(failed=frozenset({0, 3}))

    sheet = read_evidence(cube.stored(), place="cube").looks[0].contact_sheet

    assert [each.status for each in sheet] == ["missing", "ok", "ok", "missing", *["ok"] * 6]
    assert [each.pixels is None for each in sheet] == [each.status != "ok" for each in sheet]
    assert (sheet[3].label, sheet[3].href) == ("2020-01-04", "s3://b/3")
    assert sheet[1].pixels is not None
    np.testing.assert_array_equal(sheet[1].pixels, cube.pixels(1)[0, ::2, ::2])


def test_contact_sheet_of_a_large_cube_is_spread_over_its_rows() -> None:
    """It has 24 rows. Rows that were read have a quicklook."""
    cube = MadeCube(n_rows=1000, failed=frozenset(range(500)), shard=(1000, 16, 32))

    sheet = read_evidence(cube.stored(), place="cube").looks[0].contact_sheet

    assert len(sheet) == 24
    assert [each.status for each in sheet] == ["missing"] * 12 + ["ok"] * 12
    assert all((each.pixels is None) == (each.status == "missing") for each in sheet)
    assert (sheet[0].href, sheet[-1].href) == ("s3://b/0", "s3://b/999")


def test_evidence_tells_what_became_of_each_source_in_order_of_time() -> None:
    """A source that was not read has no valid share."""
    store = MadeCube(n_rows=3, failed=frozenset({0}), valid={1: 0.25}).stored()
    put_array(store, "time", np.array([0, 172_800_000_000, 86_400_000_000]), dims=("time",))

    coverage = read_evidence(store, place="cube").coverage

    assert coverage.rows.tolist() == [0, 2, 1]
    assert coverage.at.tolist() == [0, 86_400_000_000, 172_800_000_000]
    assert coverage.status.tolist() == [[2], [0], [0]]
    np.testing.assert_array_equal(coverage.valid_share, [[np.nan], [1], [0.25]])


def test_evidence_has_the_grid_of_the_first_row_that_was_read_if_rows_share_none() -> None:
    """It says so. A cube whose sources have no place has neither."""
    store = MadeCube(n_rows=2, failed=frozenset({0})).stored()
    put_array(store, "crs", np.array(["", "EPSG:32632"], dtype=object), dims=("time",))
    transform = np.array([[np.nan] * 6, [10, 0, 5, 0, -10, 7]])
    put_array(store, "transform", transform, dims=("time", "affine"))

    where = read_evidence(store, place="cube").where

    assert (where.crs, where.transform, where.is_shared) == ("EPSG:32632", (10, 0, 5, 0, -10, 7), False)
    assert not where.is_crs_shared


_FIRST = {"number": 1, "committed_at": "2026-11-21T12:00:02.500000+00:00"}
_SECOND = {"number": 2, "committed_at": "2026-11-22T12:00:01+00:00"}


@pytest.mark.parametrize(
    ("versions", "appends", "waited"),
    [
        ([], {}, ()),
        ([_FIRST], {}, (2.5,)),
        ([_FIRST, _SECOND], {}, (2.5,)),
        ([_FIRST, _SECOND], {2: "2026-11-22T12:00:00+00:00"}, (2.5, 1.0)),
        ([_FIRST], {2: "2026-11-22T12:00:00+00:00"}, (2.5,)),
        ([_SECOND], {2: "2026-11-22T12:00:00+00:00"}, ()),
        ([{"number": 1, "committed_at": "soon"}], {}, ()),
        ([{"committed_at": "2026-11-21T12:00:02+00:00"}], {}, ()),
    ],
)
def test_evidence_knows_how_long_the_user_waited(
    versions: list[Any], appends: dict[int, str], waited: tuple[float, ...]
) -> None:
    """From the plan to the complete cube, of the first gather and of the appends whose plan is known."""
    gather = {"planned_at": "2026-11-21T12:00:00.000000+00:00", "versions": versions}

    assert _seconds_waited(gather, appends) == waited


def test_pictures_know_scale_and_unit_of_their_values() -> None:
    """As the attributes of the array say."""
    store = MadeCube().stored()
    zarr.open_group(ObjectStore(store))["band_1"].attrs.update({"scale_factor": 0.1, "units": "K"})

    (look,) = read_evidence(store, place="cube").looks

    assert look.scaling == ArrayScaling(scale=0.1, offset=0.0, unit="K")


def test_pictures_show_no_pixel_that_was_filled() -> None:
    """Pixels outside a source are hatched, even without nodata."""
    store = MadeCube(n_rows=3).stored()
    for name, edges in {
        "inside_x_start": [0, 5, 0],
        "inside_x_stop": [32, 32, 32],
        "inside_y_start": [0, 0, 0],
        "inside_y_stop": [16, 11, 16],
    }.items():
        values = np.array(edges, dtype="int32")
        put_array(store, name, values, dims=("time",))

    evidence = read_evidence(store, place="cube")

    expected = np.ones((8, 16), dtype=bool)
    expected[:2, :2] = False  # the cube's nodata
    (look,) = evidence.looks
    np.testing.assert_array_equal(look.quicklooks.is_valid[0], expected)
    expected[:, :3] = expected[6:] = False
    np.testing.assert_array_equal(look.quicklooks.is_valid[1], expected)
    np.testing.assert_array_equal(look.contact_sheet[1].is_valid, expected)


def test_pictures_of_every_measurement_show_no_pixel_that_was_filled() -> None:
    """Each picture is hatched by its own source, because sources of one row may differ."""
    bands = {"red": frozenset[int](), "nir": frozenset[int]()}
    store = MadeCube(n_rows=2, bands=bands).stored()
    for name, edges in {
        "inside_x_start": [[0, 0], [8, 0]],
        "inside_x_stop": [[32, 32], [32, 32]],
        "inside_y_start": [[0, 0], [0, 0]],
        "inside_y_stop": [[16, 16], [16, 10]],
    }.items():
        values = np.array(edges, dtype="int32")
        put_array(store, name, values, dims=("time", "measurement"))

    red, nir = (look.quicklooks.is_valid for look in read_evidence(store, place="cube").looks)

    inside = np.ones((8, 16), dtype=bool)
    inside[:2, :2] = False  # the cube's nodata
    left, below = inside.copy(), inside.copy()
    left[:, :4] = False
    below[5:] = False
    np.testing.assert_array_equal(red, [inside, left])
    np.testing.assert_array_equal(nir, [inside, below])


def test_evidence_prices_a_gather_in_process_as_if_it_ran_on_aws() -> None:
    """The caller or the cube's report gives the real cost on AWS."""
    store = MadeCube().stored()

    here = read_evidence(store, place="cube").cost
    told = read_evidence(store, place="cube", usd_by_service={"s3": 2.0}).cost
    obstore.put(store, "report.json", b'{"usd_by_service": {"lambda": 3.0}}')
    kept = read_evidence(store, place="cube").cost

    assert not here.was_on_aws
    assert here.usd > 0
    assert (told.was_on_aws, told.usd) == (True, 2.0)
    assert (kept.was_on_aws, kept.usd) == (True, 3.0)


def test_evidence_of_a_gather_that_read_nothing_is_empty() -> None:
    """A cube without sources has empty evidence and no error."""
    evidence = read_evidence(MadeCube(n_rows=3, failed=frozenset({0, 1, 2})).stored(), place="cube")

    assert evidence.slowest == ()
    assert evidence.looks == ()
    assert len(evidence.run.timings) == 0


def test_evidence_of_several_measurements_has_pictures_and_statistics_of_each() -> None:
    """Sources of one row are listed in sequence, each with its href. All sheets show the same rows."""
    cube = MadeCube(n_rows=4, bands={"red": frozenset({2}), "nir": frozenset({1})})

    evidence = read_evidence(cube.stored(), place="cube")

    red, nir = evidence.looks
    assert len(evidence.run.timings) == 6
    assert (red.measurement, [each.href for each in red.frames]) == (
        "red",
        ["s3://b/0-red", "s3://b/1-red", "s3://b/3-red"],
    )
    assert (nir.measurement, [each.row for each in nir.frames]) == ("nir", [0, 2, 3])
    assert [each.label for each in nir.contact_sheet] == [each.label for each in red.contact_sheet]
    assert (nir.contact_sheet[1].pixels, nir.contact_sheet[1].status) == (None, "missing")
    assert (nir.contact_sheet[2].status, red.contact_sheet[2].status) == ("ok", "missing")
    means = {each.measurement: each.mean.tolist() for each in evidence.series}
    np.testing.assert_equal(means, {"red": [100, 101, np.nan, 103], "nir": [1100, np.nan, 1102, 1103]})


def test_each_of_many_measurements_has_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve bands of a scene have twelve charts. A cube of very many rows has fewer, for memory."""
    store = MadeCube(n_rows=4, bands={f"B{n:02}": frozenset[int]() for n in range(12)}).stored()
    evidence = read_evidence(store, place="cube")
    monkeypatch.setattr("pixel_gather.features.report.cube_sources._MOST_MEANS", 11)
    fewer = read_evidence(store, place="cube")

    assert [each.measurement for each in evidence.series] == [f"B{n:02}" for n in range(12)]
    assert [each.mean[0] for each in evidence.series] == [1000 * n + 100 for n in range(12)]
    assert [each.measurement for each in fewer.series] == ["B00", "B01"]


def test_series_leave_out_times_of_no_calendar() -> None:
    """The axis of a figure has years of four digits."""
    store = MadeCube(n_rows=4).stored()
    times = np.array([2**62, 86_400_000_000, NO_TIME, 0])
    put_array(store, "time", times, dims=("time",))

    evidence = read_evidence(store, place="cube")

    assert evidence.coverage.at.tolist() == [0, 86_400_000_000]
    assert evidence.series[0].mean.tolist() == [103, 101]


def test_evidence_takes_nodata_of_each_row_where_rows_have_their_own() -> None:
    """Each picture is hatched by its own row's nodata."""
    store = MadeCube(n_rows=3).stored()
    nodata = np.array([7.0, 131.0, np.nan])
    put_array(store, "nodata", nodata, dims=("time",))

    (look,) = read_evidence(store, place="cube").looks

    assert [int((~each).sum()) for each in look.quicklooks.is_valid] == [4, 0, 0]
    sheet = look.contact_sheet
    assert sheet[0].is_valid is not None
    assert (~sheet[0].is_valid).sum() == 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ((10, 0, 5, 0, -10, 7), ""),
        ((10, 0.01, 5, 0.01, -10, 7), ""),
        ((10, 0, 5, 0, 10, 7), "the first line is the south"),
        ((-10, 0, 5, 0, 10, 7), "the first line is the south, and the first column the east"),
        ((-10, 0, 5, 0, -10, 7), "the first column is the east"),
        ((8.66, 5, 0, 5, -8.66, 0), "north is 30 degrees to the right"),
        ((8.66, -5, 0, -5, -8.66, 0), "north is 30 degrees to the left"),
        ((0, -10, 0, -10, 0, 0), "north is 90 degrees to the left"),
        ((0, -10, 0, 10, 0, 0), "north is 90 degrees to the right, and the pixels are mirrored"),
        ((0, 0, 0, 0, 0, 0), ""),
    ],
)
def test_evidence_says_where_north_is(transform: tuple[float, ...], said: str) -> None:
    """A pixel that lies further north is on that side."""
    store = MadeCube().stored()
    _changed(store, ("spatial:transform",), transform)

    assert read_evidence(store, place="cube").north == said
    if "degrees" in said:
        grid = Transform(*transform)
        x, y = grid.xy(3, 3)
        column, _ = grid.colrow(x, y + 1)
        assert (column > 3) == ("right" in said)


def _changed(store: Any, path: tuple[str, ...], value: Any) -> None:
    content = json.loads(bytes(obstore.get(store, "zarr.json").bytes()))
    attributes = content["attributes"]
    attributes["pixel_gather"] = json.loads(attributes["pixel_gather"])
    inner = attributes
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    put_root(store, attributes | {"pixel_gather": json.dumps(attributes["pixel_gather"])})


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("pixel_gather", "request"), [1]),
        (("pixel_gather", "request"), {"window": {"bbox": [float("nan"), 1, 2, 3]}}),
        (("pixel_gather", "report"), "none"),
        (("pixel_gather", "report", "wall_s"), float("inf")),
        (("pixel_gather", "report", "measurements"), []),
        (("pixel_gather", "report", "measurements"), ["../elsewhere"]),
        (("pixel_gather", "report", "status_counts"), {"unheard_of": 1}),
        (("spatial:bbox",), 5),
        (("spatial:transform",), 5),
        (("spatial:transform",), [10, 0, 0]),
    ],
)
def test_evidence_of_attributes_that_no_gather_wrote_is_refused(path: tuple[str, ...], value: Any) -> None:
    """A cube may come from anybody. The error is one sentence and no traceback."""
    store = MadeCube().stored()
    _changed(store, path, value)

    with pytest.raises(StoreError, match=r"^/x/cube: the cube is not as a gather leaves it \("):
        read_evidence(store, place="/x/cube")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("start", np.zeros(3)),
        ("end", np.full(10, np.nan)),
        ("bytes", np.zeros(10, "int64")),
        ("status", np.zeros((2, 10), "uint8")),
    ],
)
def test_evidence_of_coordinates_that_do_not_fit_is_refused(name: str, values: Any) -> None:
    """Wrong lengths, wrong types and fewer bytes than the header's are refused."""
    store = MadeCube().stored()
    put_array(store, name, values, dims=("time", "measurement")[: values.ndim])

    with pytest.raises(StoreError, match="not as a gather leaves it"):
        read_evidence(store, place="cube")


def test_evidence_reads_no_array_because_of_what_it_claims_to_be() -> None:
    """A small file that claims a huge array does not use gigabytes of memory."""
    store = MadeCube().stored()
    for name in ("start", "band_1"):
        content = json.loads(bytes(obstore.get(store, f"{name}/zarr.json").bytes()))
        content["shape"][0] = 10**11
        obstore.put(store, f"{name}/zarr.json", json.dumps(content).encode())

    with pytest.raises(StoreError, match="start has shape"):
        read_evidence(store, place="cube")


def test_evidence_of_more_sources_than_memory_holds_is_refused() -> None:
    """The error says how many are allowed."""
    store = MadeCube().stored()
    _changed(store, ("pixel_gather", "report", "n_sources"), 5_000_000)

    with pytest.raises(StoreError, match="5,000,000 sources are more than the 4,000,000"):
        read_evidence(store, place="cube")


@pytest.mark.parametrize("told", [b'{"usd_by_service": {"s3": NaN}}', b"[1]", b"[" * 100_000, b"\xff"])
def test_evidence_believes_no_price_that_is_none(told: bytes) -> None:
    """With an invalid price, the gather is priced like any other."""
    store = MadeCube().stored()
    obstore.put(store, "report.json", told)

    assert not read_evidence(store, place="cube").cost.was_on_aws


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "shape", "dtype", "step"),
    [
        ([99], (1, 8, 16), "uint16", 2),
        ([-1], (1, 8, 16), "uint16", 2),
        ([3, 3], (2, 8, 16), "uint16", 2),
        ([1], (1, 8, 16), "uint16", 0),
        ([1], (1, 8, 20_000), "uint16", 2),
        ([1], (1, 0, 0), "uint16", 2),
        ([1], (1, 8, 16), "uint16,uint16", 2),
        ([1], (1, 8, 16), "U1", 2),
        ([1], (1, 8, 16), "uint16", [1, 2]),
        ([0], (1, 12_000, 12_000), "uint8", 2),
    ],
)
def test_evidence_says_of_quicklooks_of_another_cube_that_they_are_broken(
    rows: list[int], shape: tuple[int, ...], dtype: str, step: Any
) -> None:
    """Rows, shapes and dtypes must fit the measurements. Huge content is not unpacked."""
    store = MadeCube().stored()
    content = BytesIO()
    arrays: dict[str, Any] = {
        "rows/band_1": np.array(rows),
        "pixels/band_1": np.zeros(shape, dtype),
        "step": np.array(step),
    }
    np.savez_compressed(content, **arrays)
    obstore.put(store, "quicklooks.npz", content.getvalue())

    with pytest.raises(StoreError, match=r"quicklooks\.npz is broken"):
        read_evidence(store, place="cube")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        (None, "no cube is there"),
        ({}, "a Zarr that no gather made is there"),
        ({"complete": 1, "pixel_gather": {"digest": "d"}}, "a Zarr that no gather made is there"),
        ({"complete": 0, "pixel_gather": '{"digest": "d"}'}, "not complete"),
    ],
)
def test_evidence_is_of_finished_cubes_alone(attributes: dict[str, object] | None, said: str) -> None:
    """The error says what is there instead."""
    store: Any = MemoryStore()
    if attributes is not None:
        put_root(store, attributes)

    with pytest.raises(StoreError, match=said):
        read_evidence(store, place="s3://b/cube")


def test_evidence_says_that_quicklooks_are_broken() -> None:
    """A truncated file is an error, not a cube without pictures."""
    store = MadeCube(report=replace(REPORT, n_shards=1)).stored()
    obstore.put(store, "quicklooks.npz", b"PK\x03\x04 and no more")

    with pytest.raises(StoreError, match=r"quicklooks\.npz is broken"):
        read_evidence(store, place="cube")
