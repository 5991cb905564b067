"""Reads a table of chips."""

import io
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import IO, Any, Final, cast

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import MAX_EXACT, ListColumn
from pixel_gather.core.plan.chip_table import TABLE_FIELD, Chips, order_of_places
from pixel_gather.core.request.windows_request import WindowsRequest
from pixel_gather.core.results.row_coordinates import RESERVED_NAMES
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.read_features import FeatureColumns, read_features
from pixel_gather.tables.spread_chips import drawn_points, lattice_points
from pixel_gather.tables.zone_cells import check_zones

_ID: Final = "id"
_AREA: Final = "area"
"""The coordinate of the id of the polygon that a chip was spread over."""

_OWN_NAMES: Final = frozenset({"chip", "time", "lon", "lat", "band", "image"})
"""Names of coordinates of a cube of chips."""

_COORDINATES: Final = frozenset({"lon", "lat", "longitude", "latitude", "lng", "long"})
"""Columns that the coordinates lon and lat stand for."""

_FIELDS: Final = frozenset({"id", "x", "y", "crs"})
_MOST_INTEGER: Final = 2**63


def read_chip_table(file: IO[bytes], *, name: str, windows: WindowsRequest) -> Chips:
    """Read the table of a request's chips.

    The file is read whole, and closed.

    Raises:
        RequestError: It is no such file, or a chip has no place, or no id of its own.
    """
    content = file.read()
    try:
        features = _features(content, name, windows)
    except RequestError as error:
        field = f"windows.{error.field}" if error.field in _FIELDS else error.field
        raise RequestError(error.message, field=field) from error
    if windows.sample is None and windows.spacing is None:
        return _chips(features, windows)
    return _chips(_spread(features, windows), windows.model_copy(update={"id": None}))


def _spread(areas: Features, windows: WindowsRequest) -> Features:
    """Return points in polygons. Each has a number of its own, and its polygon's id and columns."""
    from arro3.core import Array, DataType, Table  # noqa: PLC0415 # where there is something to repeat

    areas = check_zones(areas)
    if areas.problems is None or areas.problems.any():
        raise RequestError("sample and spacing need a polygon in each line", field=TABLE_FIELD)
    crs = areas.crs
    if windows.spacing is not None:
        crs = windows.crs or areas.crs
        xs, ys, of_area = lattice_points(areas, spacing=windows.spacing, crs=crs)
    else:
        xs, ys, of_area = drawn_points(areas, windows)
    ids = areas.ids[of_area].tolist()
    columns: dict[str, Any] = {
        _AREA: Array(ids, DataType.string() if isinstance(ids[0], str) else DataType.int64())
    }
    own, at = areas.columns, Array.from_numpy(of_area)
    for name in () if own is None else own.column_names:
        if name == _AREA != windows.id:
            raise RequestError(
                f"the cube has a coordinate {_AREA} of its own; rename the column, or name it by windows.id "
                "of a request as the one with the polygons' ids",
                field=TABLE_FIELD,
            )
        if own is not None and name != (windows.id or _ID):
            columns[name] = own.column(name).combine_chunks().take(at)
    return Features(
        ids=np.arange(1, len(xs) + 1),
        xs=xs,
        ys=ys,
        crs=crs,
        columns=Table.from_pydict(columns),
        notes=areas.notes,
    )


def _features(content: bytes, name: str, windows: WindowsRequest) -> Features:
    crs = windows.crs
    if crs is not None:
        RasterioProjector().check(crs, field="crs")

    def read(column: str | None) -> Features:
        says_own = windows.spacing is not None and not name.lower().endswith(".csv")
        of_table = None if says_own else crs  # which is that of the lattice
        columns = FeatureColumns(id=column, x=windows.x, y=windows.y, crs=of_table)
        return read_features(io.BytesIO(content), name=name, columns=columns)

    if windows.id is not None:
        return read(windows.id)
    try:
        return read(_ID)
    except RequestError as error:
        if error.field != _ID:
            raise
        found = read(None)
        if found.columns is not None and _ID in found.columns.column_names:
            raise  # it is there, and wrong
        return found


def _chips(features: Features, windows: WindowsRequest) -> Chips:
    ids = features.ids.tolist()
    if features.is_empty.any():
        raise RequestError(f"chip {ids[int(features.is_empty.argmax())]} has no place", field=TABLE_FIELD)
    if len(set(ids)) < len(ids):
        twice = next(each for each, n in Counter(ids).items() if n > 1)
        raise RequestError(f"two chips have the id {twice}; give each its own", field=TABLE_FIELD)
    lons, lats = RasterioProjector().point_arrays(
        features.xs, features.ys, source_crs=features.crs, target_crs=LONLAT
    )
    is_nowhere = ~(np.isfinite(lons) & np.isfinite(lats) & (np.abs(lats) <= 90))  # noqa: PLR2004 # the poles
    if is_nowhere.any():
        at = int(is_nowhere.argmax())
        raise RequestError(
            f"chip {ids[at]} lies nowhere: x {features.xs[at]:.10g}, y {features.ys[at]:.10g} in "
            f"{features.crs[:60]}; longitude comes first",
            field=TABLE_FIELD,
        )
    order = order_of_places(lons, lats)
    columns, kinds = _columns(features, windows)
    return Chips(
        ids=[ids[at] for at in order],
        xs=features.xs[order],
        ys=features.ys[order],
        crs=features.crs,
        lons=lons[order],
        lats=lats[order],
        size=windows.size,
        kinds=kinds,
        notes=features.notes,
        columns={name: [values[at] for at in order] for name, values in columns.items()},
        is_numbered=windows.id is None
        and (features.columns is None or _ID not in features.columns.column_names),
    )


def _columns(
    features: Features, windows: WindowsRequest
) -> tuple[dict[str, Sequence[Any]], tuple[ListColumn, ...]]:
    """Return the columns that become coordinates, and their types."""
    table = features.columns
    columns: dict[str, Sequence[Any]] = {}
    kinds: list[ListColumn] = []
    if table is None:
        return {}, ()
    for name in table.column_names:
        if name == (windows.id or _ID) or name.lower() in _COORDINATES:
            continue
        if name in RESERVED_NAMES | _OWN_NAMES and name not in ("x", "y"):
            raise RequestError(
                f"the cube has a coordinate {name} of its own; rename the column", field=TABLE_FIELD
            )
        if name in ("x", "y"):  # of the chips' own CRS; the cube's x and y are pixels
            continue
        columns[name], kind = _type_column(name, cast("list[Any]", table.column(name).to_pylist()))
        kinds.append(kind)
    return columns, tuple(kinds)


def _type_column(name: str, values: Sequence[Any]) -> tuple[Sequence[Any], ListColumn]:
    """Return the values of a column, and the narrowest type that holds all of them."""
    there = [each for each in values if each is not None]
    kinds = {type(each) for each in there}
    has_gaps, is_large = len(there) < len(values), False
    if kinds == {bool}:
        dtype = "bool"
    elif kinds == {int} and max(map(abs, there)) < _MOST_INTEGER:
        dtype, is_large = "int64", max(map(abs, there)) > MAX_EXACT
    elif kinds and kinds <= {int, float}:
        dtype = "float64"
    else:
        dtype = "string"
        texts = (each.isoformat() if isinstance(each, date) else each for each in values)
        values = [None if each is None else str(each) for each in texts]
    column = ListColumn(name=name, dtype=dtype, varies_in_row=False, has_gaps=has_gaps, is_large=is_large)
    return values, column
