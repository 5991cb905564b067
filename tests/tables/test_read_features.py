"""Features of every format that is read, and what is refused."""

import io
import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import BinaryIO
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import shapely
from arro3.core import Array, DataType, RecordBatch, Table
from arro3.io import write_parquet

from pixel_gather.core.errors import RequestError
from pixel_gather.tables.features import NO_TIME, Features
from pixel_gather.tables.read_features import FeatureColumns, given_features, read_features

_POINT = {"type": "Point", "coordinates": [11.5, 46.25]}
_BOX = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 4], [0, 0]]]}


def _geojson(*geometries: object, **more: object) -> bytes:
    features = [
        {"type": "Feature", "geometry": each, "properties": {"plot": f"p{n}", "n": n}}
        for n, each in enumerate(geometries)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features, **more}).encode()


def _read(content: bytes, name: str = "a.csv", **columns: str) -> Features:
    return read_features(io.BytesIO(content), name=name, columns=FeatureColumns(**columns))


def open_pipe(content: bytes) -> BinaryIO:
    """Return the end of a pipe that holds this."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return open(reading, "rb")  # noqa: PTH123 # of the caller


_PLOT = FeatureColumns(id="plot")


@dataclass(frozen=True)
class Case:
    """One file that holds the point 11.5, 46.25."""

    id: str
    name: str
    content: bytes
    columns: FeatureColumns = _PLOT
    crs: str = "EPSG:4326"


def _ewkb(srid: int) -> str:
    """Return the point as PostGIS writes it."""
    point = shapely.set_srid(shapely.Point(11.5, 46.25), srid)
    return str(shapely.to_wkb(point, hex=True, include_srid=True))


_WKB = shapely.to_wkb(shapely.Point(11.5, 46.25))
_OPEN_RING = struct.pack("<BIII8d", 1, 3, 1, 4, 0, 0, 1, 0, 1, 1, 0, 1)
"""WKB of a polygon whose ring is not closed."""

_RING = (
    "its geometry cannot be used: a ring of a polygon is not closed, or has fewer than three corners: write"
)


def _geojson_ring(ring: list[list[int]]) -> bytes:
    """Return a file of one polygon of this ring."""
    return json.dumps({"type": "Polygon", "coordinates": [ring]}).encode()


def _geoparquet(wkb: bytes = _WKB, **column: object) -> bytes:
    """Return a file of one shape with a box of it, as many programs write them."""
    about: dict[str, object] = {"version": "1.1.0", "primary_column": "place"}
    about |= {"columns": {"place": {"encoding": "WKB", "geometry_types": ["Point"]} | column}}
    table = Table.from_pydict(
        {
            "plot": Array(["p0"], DataType.utf8()),
            "place": Array([wkb], DataType.binary()),
            "bbox": Array(["a box"], DataType.utf8()),
        }
    )
    to = io.BytesIO()
    write_parquet(table.with_schema(table.schema.with_metadata({"geo": json.dumps(about)})), to)
    return to.getvalue()


def _feature(**more: object) -> dict[str, object]:
    return {"type": "Feature", "geometry": _POINT, "properties": {"plot": "p0"}} | more


CASES = (
    Case("csv", "a.csv", b"plot,lon,lat\np0,11.5,46.25\n"),
    Case("byte order mark", "a.csv", b"\xef\xbb\xbfplot,lon,lat\np0,11.5,46.25\n"),
    Case("spaces", "a.csv", b"plot, lon, lat\np0, 11.5, 46.25\n"),
    Case("semicolons", "a.csv", b"plot;Longitude;Latitude\np0;11.5;46.25\n"),
    Case("tabs", "a.tsv", b"plot\tlng\tlat\np0\t11.5\t46.25\n"),
    Case("wkt", "a.csv", b"plot,wkt\np0,POINT (11.5 46.25)\n"),
    Case("named", "a.csv", b"plot,a,b,lon,lat\np0,11.5,46.25,1,2\n", FeatureColumns(id="plot", x="a", y="b")),
    Case(
        "x, y", "a.csv", b"plot,x,y\np0,11.5,46.25\n", FeatureColumns(id="plot", crs="epsg:3857"), "EPSG:3857"
    ),
    Case("geojson", "a.geojson", _geojson(_POINT)),
    Case(
        "old crs",
        "a.json",
        _geojson(_POINT, crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}),
        crs="EPSG:25832",
    ),
    Case(
        "lines",
        "a.geojsonl",
        json.dumps(_feature()).encode() + b"\n",
    ),
    Case("sequence", "a.geojsonl", b"\x1e" + json.dumps(_feature()).encode() + b"\r\n"),
    Case("first letter", "a", _geojson(_POINT)),
    Case("geojson with a byte order mark", "a.geojson", b"\xef\xbb\xbf" + _geojson(_POINT)),
    Case("byte order mark and first letter", "a", b"\xef\xbb\xbf" + _geojson(_POINT)),
    Case("one feature", "a.json", json.dumps(_feature()).encode()),
    Case("one feature on many lines", "a.json", json.dumps(_feature(), indent=2).encode()),
    Case(
        "id of a feature",
        "a.json",
        json.dumps(_feature(id="p0", properties={})).encode(),
        FeatureColumns(id="id"),
    ),
    Case(
        "a property before the id of a feature",
        "a.json",
        json.dumps(_feature(id="p9", properties={"id": "p0"})).encode(),
        FeatureColumns(id="id"),
    ),
    Case(
        "columns before the geometry",
        "a.json",
        json.dumps(_feature(geometry=_BOX, properties={"plot": "p0", "a": 11.5, "b": 46.25})).encode(),
        FeatureColumns(id="plot", x="a", y="b"),
    ),
    Case(
        "crs before that of the file",
        "a.json",
        _geojson(_POINT, crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}),
        FeatureColumns(id="plot", crs="EPSG:3857"),
        "EPSG:3857",
    ),
    Case("small letters", "a.csv", b"plot,X,y\np0,11.5,46.25\n", FeatureColumns(id="plot", crs="ogc:crs84")),
    Case("heights", "a.csv", b"plot,x,y\np0,11.5,46.25\n", FeatureColumns(id="plot", crs="EPSG:4979")),
    Case(
        "hexadecimal",
        "a.csv",
        f"plot,wkb\np0,{shapely.to_wkb(shapely.Point(11.5, 46.25), hex=True)}\n".encode(),
    ),
    Case("ewkb", "a.csv", f"plot,geom\np0,{_ewkb(25832)}\n".encode(), crs="EPSG:25832"),
    Case(
        "ewkb with --crs",
        "a.csv",
        f"plot,geom\np0,{_ewkb(25832)}\n".encode(),
        FeatureColumns(id="plot", crs="EPSG:3857"),
        "EPSG:3857",
    ),
    Case("empty column", "a.csv", b"plot,note,lon,lat\np0,,11.5,46.25\n"),
    Case("geoparquet", "a", _geoparquet()),
    Case("geoparquet of no crs", "a.pq", _geoparquet(crs=None)),
    Case(
        "geoparquet of a code",
        "a",
        _geoparquet(crs={"id": {"authority": "EPSG", "code": 3857}}),
        crs="EPSG:3857",
    ),
    Case("geoparquet of a whole crs", "a", _geoparquet(crs={"name": "own"}), crs='{"name": "own"}'),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_format_gives_the_same_point(case: Case) -> None:
    """With its id and CRS."""
    features = read_features(io.BytesIO(case.content), name=case.name, columns=case.columns)

    assert (features.ids.tolist(), features.xs.tolist(), features.ys.tolist()) == (["p0"], [11.5], [46.25])
    assert features.crs == case.crs
    assert features.geometries is None


def test_other_columns_are_kept_without_the_shapes() -> None:
    """And without what GeoParquet writes to find them."""
    of_csv = _read(b"wkt,n\nPOINT (1 2),7\n,8\n", "a.csv")
    of_parquet = _read(_geoparquet(), "a")

    assert of_csv.columns is not None
    assert of_parquet.columns is not None
    assert (of_csv.columns.column_names, of_parquet.columns.column_names) == (["n"], ["plot"])
    assert (of_csv.ids.tolist(), of_csv.is_empty.tolist()) == ([1, 2], [False, True])


def test_points_among_polygons_are_shapes_as_well() -> None:
    """They are told to have no area. So are points among several that are one feature."""
    many = {"type": "MultiPoint", "coordinates": [[11, 46], [12, 46]]}
    for given, kinds in (((_BOX, _POINT), ["Polygon", "Point"]), ((_POINT, many), ["Point", "MultiPoint"])):
        features = _read(_geojson(*given), "a.json")

        assert features.geometries is not None
        assert [each.geom_type for each in features.geometries[:2]] == kinds


@pytest.mark.parametrize("given", [_POINT, {"type": "GeometryCollection", "geometries": [_POINT]}])
def test_a_geometry_alone_is_a_feature(given: dict[str, object]) -> None:
    """It has the number 1."""
    features = given_features(given, columns=FeatureColumns())

    assert (features.ids.tolist(), features.xs.tolist()) == ([1], [11.5])


def test_features_may_have_500_columns() -> None:
    """One more is too many."""
    row = {"lon": 0.0, "lat": 0.0} | dict.fromkeys(map(str, range(498)), 1)

    assert len(given_features([row], columns=FeatureColumns())) == 1
    with pytest.raises(RequestError, match="there are more than 500 columns; leave some out"):
        given_features([row | {"more": 1}], columns=FeatureColumns())


def test_features_come_from_a_pipe() -> None:
    """It cannot be read again from its beginning."""
    with open_pipe(json.dumps(_POINT).encode()) as pipe:
        features = read_features(pipe, name="63", columns=FeatureColumns())

    assert features.xs.tolist() == [11.5]


@pytest.mark.parametrize("given", [[], [{"lon": 1.0, "lat": 2.0}, 5], "a.csv", 7])
def test_what_holds_no_features_is_refused(given: object) -> None:
    """A list holds a dict for each feature."""
    with pytest.raises(RequestError, match="GeoJSON or a list of dicts"):
        given_features(given, columns=FeatureColumns())


@pytest.mark.parametrize("given", ["x", "y"])
def test_the_coordinate_that_is_not_named_is_told(given: str) -> None:
    """Both are needed."""
    with pytest.raises(RequestError, match="give both x and y") as raised:
        given_features([{"x": 1.0, "y": 2.0}], columns=FeatureColumns(**{given: given}))

    assert raised.value.field == {"x": "y", "y": "x"}[given]


def test_ids_of_a_file_are_as_they_are_written() -> None:
    """007 is not 7. Features of which some have no id of their own have no column of ids."""
    found = _read(b'\xef\xbb\xbf"k",lon,lat\n007,1,2\n8,3,4\n', "a.csv", id="k")
    some = json.dumps({"features": [_feature(id=3), _feature()]}).encode()

    assert found.ids.tolist() == ["007", "8"]
    with pytest.raises(RequestError, match="there is no column id; there are plot"):
        _read(some, "a.json", id="id")


def test_values_of_every_type_are_kept() -> None:
    """Numbers that are too large for a column, and what has no type of its own, become text."""
    values = {
        "flag": (True, None),
        "bytes": (b"ab", None),
        "large": (2**70, 1),
        "mixed": (1, 0.5),
        "nan": (math.nan, 2.0),
        "day": (date(2024, 6, 1), None),
        "moment": (datetime(2024, 6, 1, 10, tzinfo=UTC), "noon"),
        "list": ([1, 2], None),
    }
    rows = [{"lon": 0.0, "lat": 0.0} | {name: pair[at] for name, pair in values.items()} for at in (0, 1)]

    columns = given_features(rows, columns=FeatureColumns()).columns

    assert columns is not None
    assert {name: columns[name].to_pylist() for name in values} == {
        "flag": [True, None],
        "bytes": [b"ab", None],
        "large": [str(2**70), "1"],
        "mixed": [1.0, 0.5],
        "nan": [None, 2.0],
        "day": ["2024-06-01", None],
        "moment": ["2024-06-01T10:00:00+00:00", "noon"],
        "list": ["[1, 2]", None],
    }


def _square(west: float, south: float) -> dict[str, object]:
    ring = [[west, south], [west + 2, south], [west + 2, south + 2], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.csv",
            b"lon,lat\n11,46\n,\n500,46\n",
            "a.csv: row 3 has longitude 500 and latitude 46: longitudes",
        ),
        ("a.csv", b"lon,lat\n46,11\n11,-90.5\n", "a.csv: row 2 has longitude 11 and latitude -90.5"),
        ("a.csv", b"lon,lat\n-360.5,11\n", "a.csv: it has longitude -360.5 and"),
        ("a.geojson", _geojson(_BOX, None, _square(359, 46)), "a.geojson: row 3 has longitude 361 and"),
        ("a.geojson", _geojson(_square(0, -91)), "a.geojson: it has longitude 0 and latitude -91"),
    ],
)
def test_degrees_that_no_point_on_earth_has_are_refused(name: str, content: bytes, said: str) -> None:
    """The error names the row, counted from 1 in the order of the file."""
    with pytest.raises(RequestError, match=said):
        _read(content, name)


def test_degrees_beyond_half_a_turn_are_read() -> None:
    """Some images count longitudes from 0 to 360, and polygons may go on past 180. An empty row has none."""
    points = _read(b"lon,lat\n360,90\n-360,-90\n,\ninf,46\n", "a.csv")
    areas = _read(_geojson(_square(179, 0), None), "a.geojson")
    metres = _read(b"lon,lat\n676000,5150000\n", "a.csv", crs="EPSG:32632")

    assert points.is_empty.tolist() == [False, False, True, True]
    assert areas.xs.tolist()[:1] == [180]
    assert metres.xs.tolist() == [676000]


def test_polygons_keep_their_shape() -> None:
    """Their place is the middle of their box; an empty one has none, and is told."""
    features = _read(_geojson(_BOX, None), "a.geojson", id="plot")

    assert features.geometries is not None
    assert features.geometries[:1][0].area == 4
    assert (features.xs[0], features.ys[0]) == (1, 2)
    assert features.is_empty.tolist() == [False, True]
    assert features.notes == ("1 feature without coordinates: the table says empty",)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [(["2", "10"], [2, 10]), (["007", "8"], ["007", "8"]), (["b", "a"], ["a", "b"]), ([3, 1], [1, 3])],
)
def test_ids_are_numbers_only_if_all_are(texts: list[object], expected: list[object]) -> None:
    """They are put in order, with everything else that a feature has."""
    rows = [{"k": text, "lon": float(n), "lat": 0.0} for n, text in enumerate(texts)]

    features = given_features(rows, columns=FeatureColumns(id="k"))

    assert features.ids.tolist() == expected
    assert features.columns is not None
    assert features.columns["lon"].to_pylist() == features.xs.tolist()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Array([3, 7], DataType.int32()), [3, 7]),
        (Array([3, 7], DataType.uint64()), [3, 7]),
        (Array([0.5, 7.25], DataType.float32()), [0.5, 7.25]),
        (Array([0.5, None], DataType.float64()), [0.5, np.nan]),
        (Array(["0.5", ""], DataType.utf8()), [0.5, np.nan]),
    ],
)
def test_coordinates_of_every_type_are_numbers(column: Array, expected: list[float]) -> None:
    """Also where a table is in several pieces."""
    piece = RecordBatch.from_arrays([column, column, Array([1, 2], DataType.int16())], names=["x", "y", "n"])
    found = given_features(
        Table.from_batches([piece, piece]), columns=FeatureColumns(id="n", crs="EPSG:32633")
    )

    assert found.xs.dtype == found.ys.dtype == np.float64
    np.testing.assert_array_equal(found.xs, np.repeat(expected, 2))
    assert (found.ids.dtype, found.ids.tolist()) == (np.int64, [1, 1, 2, 2])


def test_times_are_read() -> None:
    """As dates or moments; one may be missing."""
    rows = [
        {"lon": 0.0, "lat": 0.0, "t": text}
        for text in (
            "1970-01-02",
            " 1970-01-01T00:00:01Z",
            "",
            None,
            date(1970, 1, 2),
            datetime(1970, 1, 2, 1, tzinfo=UTC),
        )
    ]

    features = given_features(rows, columns=FeatureColumns(time="t"))

    assert features.times_us is not None
    day = 86_400_000_000
    expected = [day, 1_000_000, NO_TIME, NO_TIME, day, day + 3_600_000_000]
    assert features.times_us.tolist() == expected


def _moved(features: Features) -> Features:
    return Features(ids=features.ids, xs=features.xs + 1, ys=features.ys, crs=features.crs)


@pytest.mark.parametrize(
    "change",
    [
        _moved,
        lambda it: Features(ids=it.ids + 1, xs=it.xs, ys=it.ys, crs=it.crs),
        lambda it: Features(ids=it.ids, xs=it.xs, ys=it.ys, crs="EPSG:3857"),
        lambda it: Features(ids=it.ids, xs=it.xs, ys=it.ys, crs=it.crs, times_us=np.zeros(1, np.int64)),
    ],
)
def test_the_digest_tells_features_apart(change: Callable[[Features], Features]) -> None:
    """By ids, places, CRS and times."""
    features = given_features([{"lon": 1.0, "lat": 2.0}], columns=FeatureColumns())

    assert change(features).digest != features.digest
    assert given_features([{"lon": 1.0, "lat": 2.0}], columns=FeatureColumns()).digest == features.digest


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"plot,a\n1,2\n", "there are plot, a$"),
        ("a.csv", b"plot,href\n1,2\n", "there are no coordinates.* A list of images belongs in sources"),
        ("a.csv", b"plot,lon,lat\n", "there is no feature"),
        ("a.csv", b"plot,lon,lat\n1,east,2\n", "a.csv: 'east' in column lon is no number$"),
        (
            "a.csv",
            b"plot;lon;lat\n1;10,5;2\n",
            "'10,5' in column lon is no number; write a point and no comma",
        ),
        ("a.csv", b"plot,lon,lat\n,1,2\n", "feature 1 has no id"),
        ("a.csv", b"plot,wkt\n1,POINT (1\n", "^a.csv: row 1: its geometry cannot be used: ParseException"),
        ("a.csv", b'plot,wkt\n1,POINT (1 2)\n2,\n3,"POLYGON((0 0,1 0,1 1,0 1))"\n', f"row 3: {_RING}"),
        ("a.geojson", _geojson_ring([[0, 0], [1, 0], [1, 1], [0, 1]]), f"row 1: {_RING}"),
        ("a.geojson", _geojson_ring([[0, 0], [1, 1]]), f"row 1: {_RING}"),
        ("a.parquet", _geoparquet(_OPEN_RING), f"row 1: {_RING}"),
        (
            "a.csv",
            f"plot,geom\n1,{_ewkb(25832)}\n2,{_ewkb(4326)}\n".encode(),
            "column geom have several SRIDs, such as 4326 and 25832: write all in one CRS",
        ),
        ("a.csv", b"plot,wkt\n1,2\n", "row 1: its geometry cannot be used: ParseException"),
        ("a.csv", b"plot,lon,lat,lat\n1,2,3,4\n", "two columns have the same name"),
        ("a.geojson", _geojson(_POINT, crs={"type": "link"}), "a.geojson: its crs has no properties.name"),
        ("a.geojson", b"{]", "this is no GeoJSON"),
        ("a.geojson", b'{"type": "Topology"}', "write a FeatureCollection"),
        ("a.geojson", b'{"type": "FeatureCollection", "features": []}', "there is no feature"),
        ("a.parquet", b"PAR1PAR1", "not Parquet"),
        ("a.parquet", _geoparquet(encoding="point"), "its geometry is point; write it as WKB"),
        ("a.shp", bytes.fromhex("0000270a") + bytes(96), "a.shp: this is neither Parquet, GeoJSON nor CSV"),
        ("a.kml", b'<?xml version="1.0"?>\n<kml/>', "a.kml: this is neither Parquet, GeoJSON nor CSV"),
        ("a.csv", b"plot,X,Y\n1,2,3\n", "crs: say which CRS these coordinates are of"),
    ],
)
def test_what_is_no_feature_is_refused(name: str, content: bytes, says: str) -> None:
    """With a sentence."""
    with pytest.raises(RequestError, match=says):
        _read(content, name, id="plot")


def test_missing_values_of_a_data_frame_are_null() -> None:
    """A data frame has a value of its own for them in columns of whole numbers, texts and truth values."""
    frame = pd.DataFrame(
        {
            "lon": [1.0, 2.0],
            "lat": [3.0, 4.0],
            "n": pd.array([7, None], dtype="Int64"),
            "text": pd.array(["a", None], dtype="string"),
            "is_wet": pd.array([True, None], dtype="boolean"),
        }
    )
    columns = given_features(frame, columns=FeatureColumns()).columns

    assert columns is not None
    found = {name: columns.column(name).to_pylist() for name in ("n", "text", "is_wet")}
    assert found == {"n": [7, None], "text": ["a", None], "is_wet": [True, None]}


def test_nan_among_texts_is_null() -> None:
    """So pandas writes a text that is missing."""
    rows = [{"lon": 1.0, "lat": 2.0, "name": name} for name in ("a", float("nan"), None)]
    columns = given_features(rows, columns=FeatureColumns()).columns

    assert columns is not None
    assert columns.column("name").to_pylist() == ["a", None, None]


def test_values_of_numpy_and_databases_are_plain() -> None:
    """Rows may hold scalars of numpy, and what databases return. None of them becomes text in quotes."""
    key = UUID(int=7)
    values = {
        "number": (np.int64(3), np.int32(4)),
        "share": (np.float64(0.5), np.float32(0.25)),
        "is_wet": (np.bool_(1), np.bool_(0)),
        "price": (Decimal("1.50"), None),
        "key": (key, None),
        "day": (np.datetime64("2024-06-01"), np.datetime64("NaT", "D")),
    }
    rows = [
        {"lon": Decimal("11.5"), "lat": np.float32(46.5)} | {name: pair[at] for name, pair in values.items()}
        for at in (0, 1)
    ]
    features = given_features(rows, columns=FeatureColumns(id="number", time="day"))

    assert features.columns is not None
    assert {name: features.columns.column(name).to_pylist() for name in values} == {
        "number": [3, 4],
        "share": [0.5, 0.25],
        "is_wet": [True, False],
        "price": ["1.50", None],
        "key": [str(key), None],
        "day": ["2024-06-01", None],
    }
    assert (features.ids.tolist(), features.xs.tolist()) == ([3, 4], [11.5, 11.5])
    assert features.times_us is not None
    assert features.times_us.tolist() == [1_717_200_000_000_000, NO_TIME]
