"""Reads features: CSV, GeoJSON, GeoParquet and other Parquet, and what a program gives."""

import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import replace
from datetime import date
from functools import partial
from itertools import batched
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.area import notes_of_wide, shape_error, unwrapped_shape, wrap_longitude
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_rows import is_data_frame
from pixel_gather.io.lists.list_columns import parse_time
from pixel_gather.io.parquet.parquet_batches import checked_batches
from pixel_gather.io.store.open_list_file import PARQUET_MAGIC, no_deadline, parquet_errors
from pixel_gather.tables.features import (
    LONLAT,
    NO_TIME,
    Features,
    Floats,
    Integers,
    checked_ids,
    note_of_empty,
)
from pixel_gather.tables.shapes import TOGETHER, Objects, Shapes

if TYPE_CHECKING:
    from arro3.core import RecordBatch, Table

_XY: Final = (
    ("lon", "lat"),
    ("longitude", "latitude"),
    ("lng", "lat"),
    ("long", "lat"),
    ("x", "y"),
    ("easting", "northing"),
)
"""Names of columns of coordinates."""

_OF_A_MAP: Final = frozenset({"x", "easting"})
"""Coordinates of these names may be in any CRS. Those of other names are degrees if nothing is said."""

_SHAPES: Final = ("geometry", "wkt", "geom", "the_geom", "wkb")
_N_PER_BATCH: Final = 65_536
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_URN: Final = re.compile(r"urn:ogc:def:crs:(\w+):[\w.]*:(\w+)")
_CRS84: Final = frozenset({"OGC:CRS84", "EPSG:4326", "EPSG:4979"})
_N_MAX_COLUMNS: Final = 500
_SLACK: Final = 1e-6
"""Degrees: a rounding, 0.1 m."""

_MOST_LON: Final = 360 + _SLACK
"""Some images count longitudes from 0 to 360, or past 180 degrees."""

_MOST_LAT: Final = 90 + _SLACK


class FeatureColumns(Struct, frozen=True, kw_only=True):
    """Which columns of the features mean what."""

    id: str | None = None
    """None: features are numbered from 1."""

    x: str | None = None
    y: str | None = None
    crs: str | None = None
    """None for what the features say, and longitude and latitude if they say nothing."""

    time: str | None = None


def read_features(file: IO[bytes], *, name: str, columns: FeatureColumns) -> Features:
    """Read a file of features.

    Args:
        file: Is read whole, and closed.
        name: The file's name. Its ending tells the format; else the first bytes do.
        columns: What its columns mean.

    Raises:
        RequestError: It is no such file, or a column is missing.
    """
    with file:
        head = file.read(4) if file.seekable() else b""
        if not file.seekable():
            file = io.BytesIO(file.read())
            head = file.read(4)
        file.seek(0)
        lower = name.lower()
        if head == PARQUET_MAGIC or lower.endswith((".parquet", ".geoparquet", ".pq")):
            return _features_of_table(*_parquet(file, name), columns=columns, name=name)
        is_json = lower.endswith((".geojson", ".json", ".geojsonl", ".ndjson", ".jsonl"))
        if is_json or head.removeprefix(BOM_UTF8)[:1] == b"{":
            content = file.read().removeprefix(BOM_UTF8)
            return _features_of_table(*_geojson(content, name), columns=columns, name=name)
        return _features_of_table(_csv(file, name, columns), None, None, columns=columns, name=name)


def given_features(given: Any, *, columns: FeatureColumns) -> Features:
    """Return features that a program gives: a GeoDataFrame, a data frame, an Arrow table, GeoJSON or dicts.

    Raises:
        RequestError: They are none of these, or a column is missing.
    """
    name = "features"
    if isinstance(given, Mapping):
        return _features_of_table(*_geojson(json.dumps(given).encode(), name), columns=columns, name=name)
    if hasattr(given, "to_wkb") and hasattr(given, "geometry"):  # geopandas
        shapes = Shapes.of_array(np.asarray(given.geometry.values, dtype=object))
        others = given.drop(columns=given.geometry.name)
        crs = None if given.crs is None else given.crs.to_wkt()
        return _features_of_table(_table_of_frame(others), shapes, crs, columns=columns, name=name)
    if is_data_frame(given):
        return _features_of_table(_table_of_frame(given), None, None, columns=columns, name=name)
    if hasattr(given, "__arrow_c_stream__"):
        from arro3.core import Table  # noqa: PLC0415 # only where it is given

        return _features_of_table(Table.from_arrow(given), None, None, columns=columns, name=name)
    if isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
        names = list(dict.fromkeys(key for row in given for key in row))
        table = _table_of({key: [row.get(key) for row in given] for key in names})
        return _features_of_table(table, None, None, columns=columns, name=name)
    raise RequestError("give a file, a GeoDataFrame, a data frame, GeoJSON or a list of dicts", field=name)


def _table_of_frame(frame: Any) -> "Table":
    return _table_of({str(name): frame[name].tolist() for name in frame.columns})


def _features_of_table(
    table: "Table",
    shapes: Shapes | None,
    crs: str | None,
    *,
    columns: FeatureColumns,
    name: str,
) -> Features:
    """Return the features of a table.

    The columns are all but the shapes that were read already. ``crs`` is what the format says.
    """
    names = list(table.column_names)
    if table.num_rows == 0:
        raise RequestError("there is no feature in it", field=name)
    if len(names) > _N_MAX_COLUMNS:
        raise RequestError(f"there are more than {_N_MAX_COLUMNS} columns; leave some out", field=name)
    for field, wanted in (("id", columns.id), ("x", columns.x), ("y", columns.y), ("time", columns.time)):
        if wanted is not None and wanted not in names:
            raise RequestError(
                f"there is no column {wanted}; there are {', '.join(names)[:500]}", field=field
            )
    if columns.x is not None or columns.y is not None:
        shapes = None
    is_degrees = True
    if shapes is None:
        pair = _xy_names(names, columns)
        if pair is not None:
            xs, ys = (_numbers(table, each, name) for each in pair)
            is_degrees = pair[0].lower() not in _OF_A_MAP
        else:
            shapes, names, of_shapes = _shape_column(table, names, name)
            crs = crs or of_shapes
    found_crs = columns.crs or crs
    if found_crs is None and not is_degrees:
        raise RequestError("say which CRS these coordinates are of, such as EPSG:32632", field="crs")
    found_crs = _normal_crs(found_crs)
    geometries = None
    notes: tuple[str, ...] = ()
    if shapes is not None:
        xs, ys, geometries = _xy_of_shapes(shapes)
        notes = () if found_crs != LONLAT else _place_wide_shapes(shapes, xs)
    features = Features(
        ids=_ids(table, columns.id),
        xs=xs,
        ys=ys,
        crs=found_crs,
        geometries=geometries,
        times_us=None if columns.time is None else _times(table, columns.time, name),
        columns=table.select([each for each in names if each in table.column_names]) if names else None,
    )
    _check_degrees(features, name)
    return replace(features, notes=(*notes, *note_of_empty(features))).in_order()


def _check_degrees(features: Features, name: str) -> None:
    """Refuse longitudes and latitudes that no point on Earth has.

    Raises:
        RequestError: It names the first row that is wrong.
    """
    if features.crs != LONLAT:
        return
    shapes = features.geometries
    corners = [(features.xs, features.ys)] if shapes is None else [shapes.bounds.T[:2], shapes.bounds.T[2:]]
    for lons, lats in corners:
        limits = ((lons, _MOST_LON), (lats, _MOST_LAT))
        if all(np.fmax.reduce(each) <= most and np.fmin.reduce(each) >= -most for each, most in limits):
            continue  # as of most files: it takes no memory
        is_wrong = np.zeros(len(lons), bool)
        for each, most in limits:
            is_wrong |= np.isfinite(each) & (np.abs(each) > most)
        if is_wrong.any():
            row = int(is_wrong.argmax())
            which = f"row {row + 1}" if len(features) > 1 else "it"
            raise RequestError(
                f"{which} has longitude {lons[row]:.10g} and latitude {lats[row]:.10g}: longitudes go "
                "from -360 to 360 and latitudes from -90 to 90. Longitude comes first; of other coordinates, "
                "say the CRS",
                field=name,
            )


def _xy_names(names: Sequence[str], columns: FeatureColumns) -> tuple[str, str] | None:
    if columns.x is not None and columns.y is not None:
        return columns.x, columns.y
    if columns.x is not None or columns.y is not None:
        raise RequestError("give both x and y", field="x" if columns.x is None else "y")
    lower = {each.lower(): each for each in names}
    return next(((lower[x], lower[y]) for x, y in _XY if x in lower and y in lower), None)


def _shape_column(table: "Table", names: list[str], name: str) -> tuple[Shapes, list[str], str | None]:
    """Return the shapes of a column of WKT or WKB, the names of the others, and the CRS that EWKB tells.

    PostGIS writes EWKB: its SRID is the code of a CRS. 0 stands for none.
    """
    import shapely  # noqa: PLC0415 # points with coordinates need none of it

    lower = {each.lower(): each for each in names}
    found = next((lower[each] for each in _SHAPES if each in lower), None)
    if found is None:
        of_images = ". A list of images belongs in sources (--sources)" if "href" in lower else ""
        raise RequestError(
            f"there are no coordinates: no columns lon and lat, x and y, or wkt; there are "
            f"{', '.join(names)[:500]}{of_images}",
            field=name,
        )
    first = next((value for value in _values(table, found) if isinstance(value, str) and value), None)
    with _refusing(name, f"column {found} holds no WKT or WKB"):
        read = shapely.from_wkb if first is None or _HEX.fullmatch(first) else shapely.from_wkt
        values = batched((value or None for value in _values(table, found)), TOGETHER, strict=False)
        srids: set[int] = set()
        shapes = Shapes.of(_noting_srids(_parsed(read, values, name=name), srids))
    codes = sorted(srid for srid in srids if srid > 0)
    if len(codes) > 1:
        raise RequestError(
            f"the shapes of column {found} have several SRIDs, such as {codes[0]} and {codes[1]}: write all "
            "in one CRS, such as by ST_Transform",
            field=name,
        )
    return shapes, [each for each in names if each != found], f"EPSG:{codes[0]}" if codes else None


def _noting_srids(blocks: Iterable[Objects], srids: set[int]) -> Iterator[Objects]:
    """Yield blocks of shapes, and add their SRIDs to a set."""
    import shapely  # noqa: PLC0415 # as above

    for block in blocks:
        srids.update(np.unique(shapely.get_srid(block)).tolist())
        yield block


def _parsed(read: Callable[..., Any], blocks: Iterable[Sequence[Any]], *, name: str) -> Iterator[Objects]:
    """Yield the shapes of blocks of texts or bytes, one array for each block. None stays None.

    Raises:
        RequestError: It names the first row whose shape ``read`` refuses.
    """
    import shapely  # noqa: PLC0415 # as above

    n = 0
    for block in blocks:
        values = np.array(block, object)
        shapes = read(values, on_invalid="ignore")
        refused = shapely.is_missing(shapes) & np.array([value is not None for value in block], bool)
        for at in np.flatnonzero(refused)[:1]:
            with _refusing(name, f"row {n + at + 1}: its geometry cannot be used"):
                read(values[at])
        yield shapes
        n += len(values)


def _xy_of_shapes(shapes: Shapes) -> tuple[Floats, Floats, Shapes | None]:
    """Return points as coordinates; of other shapes the middles of their boxes, and the shapes."""
    west, south, east, north = shapes.bounds.T
    if shapes.kinds <= {0}:
        return west.copy(), south.copy(), None
    return (west + east) / 2, (south + north) / 2, shapes


def _place_wide_shapes(shapes: Shapes, xs: Floats) -> tuple[str, ...]:
    """Correct the middles of shapes that cross 180 degrees, in place. Return remarks about wide polygons.

    Args:
        shapes: In longitude and latitude.
        xs: Longitudes of the middles of their boxes, shape (n,).
    """
    west, _, east, _ = shapes.bounds.T
    unwrapped = []
    for at in np.flatnonzero(east - west > 180).tolist():  # noqa: PLR2004 # half a turn
        shape = unwrapped_shape(shapes[at : at + 1][0])
        from_, _, to, _ = shape.bounds
        xs[at] = wrap_longitude((from_ + to) / 2)
        unwrapped.append(shape)
    return notes_of_wide(unwrapped)


def _ids(table: "Table", name: str | None) -> np.ndarray[Any, Any]:
    if name is None:
        return np.arange(1, table.num_rows + 1)
    numbers = _plain_numbers(table, name)
    if numbers is not None and numbers.dtype.kind == "i":
        return numbers.astype(np.int64, copy=False)
    return checked_ids(partial(_values, table, name), table.num_rows)


def _plain_numbers(table: "Table", name: str) -> np.ndarray[Any, Any] | None:
    """Return a column of numbers without nulls. None of any other column, whose values are Python objects."""
    from arro3.core import DataType  # noqa: PLC0415 # 0.1 s, for features alone

    column = table.column(name)
    is_plain = DataType.is_integer(column.type) or DataType.is_floating(column.type)
    if column.null_count or not is_plain:
        return None
    return np.concatenate([np.asarray(chunk.to_numpy()) for chunk in column.chunks])


def _numbers(table: "Table", column: str, name: str) -> Floats:
    if (plain := _plain_numbers(table, column)) is not None:
        return plain.astype(np.float64, copy=False)
    numbers = (_number(value, column, name) for value in _values(table, column))
    return np.fromiter(numbers, np.float64, table.num_rows)


def _number(value: Any, column: str, name: str) -> float:
    try:
        return np.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError) as error:
        write = "; write a point and no comma in it" if "," in str(value) else ""
        raise RequestError(
            f"{str(value)[:60]!r} in column {column} is no number{write}", field=name
        ) from error


def _times(table: "Table", column: str, name: str) -> Integers:
    times = (_time(value, column, name) for value in _values(table, column))
    return np.fromiter(times, np.int64, table.num_rows)


def _time(value: object, column: str, name: str) -> int:
    if value is None or value == "":
        return int(NO_TIME)
    try:
        return parse_time(value.isoformat() if isinstance(value, date) else str(value).strip())
    except ValueError as error:
        says = f"{str(value)[:60]!r} in column {column} is no time; write 2024-06-01"
        raise RequestError(says, field=name) from error


def _values(table: "Table", name: str) -> Iterator[Any]:
    """Yield the values of a column. Only those of one batch are Python's objects at a time."""
    for chunk in table.column(name).chunks:
        yield from chunk.to_pylist()


def _normal_crs(crs: str | None) -> str:
    """Return a CRS as rasterio takes it. Coordinates are always x, y."""
    if crs is None:
        return LONLAT
    found = _URN.fullmatch(crs.strip())
    crs = f"{found[1]}:{found[2]}" if found else crs.strip()
    return LONLAT if crs.upper() in _CRS84 else crs.upper() if crs.upper().startswith("EPSG:") else crs


@contextmanager
def _refusing(name: str, says: str) -> Iterator[None]:
    """Turn an error of a library that reads formats or shapes into an error of the request."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"{says}: {shape_error(error)}", field=name) from error


def _csv(file: IO[bytes], name: str, columns: FeatureColumns) -> "Table":
    from arro3.core import DataType, Field, Schema, Table  # noqa: PLC0415 # 0.1 s, for features alone
    from arro3.io import infer_csv_schema, read_csv  # noqa: PLC0415 # as above

    head = file.read(1 << 20)
    if b"\0" in head or head.lstrip().startswith(b"<"):  # a shapefile makes the library panic
        raise RequestError(
            "this is neither Parquet, GeoJSON nor CSV: write the features as one of them, such as by ogr2ogr",
            field=name,
        )
    first, *_ = head.decode(errors="replace").split("\n", 1)
    delimiter = max(",;\t", key=first.count)
    file.seek(0)
    with _refusing(name, "this is no CSV file"):
        schema = infer_csv_schema(file, has_header=True, delimiter=delimiter)
        kept = {columns.id, columns.time}  # as they are written: 007 is not 7
        fields = [
            Field(each.name.strip(), DataType.utf8())
            if each.name.strip() in kept
            or each.name.strip().lower() in _SHAPES  # hexadecimal digits may look like a number: 01E5
            or DataType.is_null(each.type)
            else each.with_name(each.name.strip())
            for each in map(schema.field, schema.names)
        ]
        if len({each.name for each in fields}) < len(fields):
            raise RequestError("two columns have the same name; rename one", field=name)
        file.seek(0)
        batches = read_csv(
            file, Schema(fields), has_header=True, delimiter=delimiter, batch_size=_N_PER_BATCH
        )
        return Table.from_arrow(batches)


def _parquet(file: IO[bytes], name: str) -> tuple["Table", Shapes | None, str | None]:
    import shapely  # noqa: PLC0415 # points in CSV need none of it
    from arro3.core import Table  # noqa: PLC0415 # 0.1 s, for features alone

    with parquet_errors("this is not Parquet, or is damaged", field=name, check=no_deadline):
        schema, batches = checked_batches(file, field=name, batch_size=_N_PER_BATCH)
        geo = {key.decode(): value for key, value in schema.metadata.items()}.get("geo")
        if geo is None:
            return Table.from_batches(list(batches), schema=schema), None, None
        with _refusing(name, "its GeoParquet metadata cannot be understood"):
            about = json.loads(geo)
            primary = about["primary_column"]
            column = about["columns"][primary]
            crs = LONLAT if "crs" not in column else _crs_of_projjson(column["crs"])
            if column.get("encoding", "WKB") != "WKB":
                raise RequestError(f"its geometry is {column['encoding']}; write it as WKB", field=name)
            others = [each for each in schema.names if each not in (primary, "bbox")]
            kept: list[RecordBatch] = []
            wkbs = _wkbs_of(batches, primary, others, kept)
            shapes = Shapes.of(_parsed(shapely.from_wkb, wkbs, name=name))
    return Table.from_batches(kept) if others else _number_rows(len(shapes)), shapes, crs


def _wkbs_of(
    batches: "Iterator[RecordBatch]", primary: str, others: Sequence[str], kept: "list[RecordBatch]"
) -> Iterator[Any]:
    """Yield the WKB of a file's shapes, some at a time. Its other columns are kept meanwhile."""
    from arro3.core import Array  # noqa: PLC0415 # 0.1 s, for features alone

    for batch in batches:
        column = batch.column(primary)
        for at in range(0, batch.num_rows, TOGETHER):
            yield column.slice(at, min(TOGETHER, batch.num_rows - at)).to_pylist()
        if others:  # taken, so that they do not hold the memory of the shapes
            kept.append(batch.select(list(others)).take(Array.from_numpy(np.arange(batch.num_rows))))


def _crs_of_projjson(given: Any) -> str | None:
    """Return the code of a CRS in PROJJSON, or the whole of it."""
    if given is None:
        return None
    code = given.get("id") if isinstance(given, Mapping) else None
    return f"{code['authority']}:{code['code']}" if code else json.dumps(given)


class _Feature(msgspec.Struct):
    geometry: msgspec.Raw = msgspec.Raw(b"null")
    properties: dict[str, Any] | None = None
    id: Any = None


class _Collection(msgspec.Struct):
    features: list[_Feature] | None = None
    crs: Any = None
    type: str = ""


def _geojson(content: bytes, name: str) -> tuple["Table", Shapes | None, str | None]:
    import shapely  # noqa: PLC0415 # points in CSV need none of it

    crs = None
    with _refusing(name, "this is no GeoJSON"):
        try:
            whole = msgspec.json.decode(content, type=_Collection)
        except msgspec.DecodeError:  # one feature a line
            whole = _Collection(features=[])
            lines = [line.strip(b"\x1e \r") for line in content.splitlines()]
            whole.features = [msgspec.json.decode(line, type=_Feature) for line in lines if line]
        features = whole.features
        if features is None and whole.type == "Feature":
            features = [msgspec.json.decode(content, type=_Feature)]
        if features is None and not {"coordinates", "geometries"}.isdisjoint(json.loads(content)):
            features = [_Feature(geometry=msgspec.Raw(content))]
        if features is None:
            raise RequestError("write a FeatureCollection", field=name)
        if isinstance(whole.crs, Mapping) and (crs := _crs_name(whole.crs)) is None:
            raise RequestError("its crs has no properties.name, such as EPSG:32632", field=name)
        texts = (None if bytes(each.geometry) == b"null" else bytes(each.geometry) for each in features)
        parts = batched(texts, TOGETHER, strict=False)
        shapes = Shapes.of(_parsed(shapely.from_geojson, parts, name=name))
    if not features:
        raise RequestError("there is no feature in it", field=name)
    rows = [each.properties or {} for each in features]
    names = list(dict.fromkeys(key for row in rows for key in row))
    columns = {key: [row.get(key) for row in rows] for key in names}
    if "id" not in columns and all(each.id is not None for each in features):
        columns["id"] = [each.id for each in features]
    return _table_of(columns) if columns else _number_rows(len(features)), shapes, crs


def _crs_name(crs: Mapping[str, Any]) -> str | None:
    properties = crs.get("properties")
    name = properties.get("name") if isinstance(properties, Mapping) else None
    return name if isinstance(name, str) else None


def _number_rows(n: int) -> "Table":
    return _table_of({"number": list(range(1, n + 1))})


def _table_of(columns: Mapping[str, Sequence[Any]]) -> "Table":
    """Return columns of Python values as a table. A column of several types becomes text."""
    from arro3.core import Table  # noqa: PLC0415 # 0.1 s, for features alone

    return Table.from_pydict({name: _array_of(values) for name, values in columns.items()})


def _array_of(values: Sequence[Any]) -> Any:
    from arro3.core import Array, DataType  # noqa: PLC0415 # as above

    plain = [None if _is_missing(value) else _plain_value(value) for value in values]
    kinds = {type(value) for value in plain if value is not None}
    if kinds == {bool}:
        return Array(plain, DataType.bool())
    if kinds == {int}:
        try:
            return Array(plain, DataType.int64())
        except (OverflowError, ValueError):
            kinds = {object}
    if kinds and kinds <= {int, float}:
        return Array([None if value is None else float(value) for value in plain], DataType.float64())
    if kinds == {bytes}:
        return Array(plain, DataType.binary())
    texts = [value if value is None or isinstance(value, str) else _text(value) for value in plain]
    return Array(texts, DataType.utf8())


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or what a program writes for a missing one, such as pandas.NA."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 # NaN
    except TypeError:  # pandas.NA cannot be compared
        return True


def _plain_value(value: Any) -> Any:
    """Return a scalar of numpy as Python's. A time of numpy becomes text, which has its unit."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    is_json = isinstance(value, bool | int | float | list | tuple | dict)
    return json.dumps(value, default=str) if is_json else str(value)
