"""STAC items as STAC-GeoParquet 1.0, written and read.

Properties are columns of their own, ``geometry`` is WKB, ``bbox`` a struct with statistics, assets a struct
of structs, as https://github.com/stac-utils/stac-geoparquet/blob/main/spec/stac-geoparquet-spec.md describes.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import format_moment, parse_period
from pixel_gather.io.parquet.parquet_batches import checked_batches
from pixel_gather.io.scenes.item_types import (
    Kind,
    arrow_type,
    conform_value,
    from_json_text,
    has_json,
    hash_structure,
    kind_of,
    merge_kinds,
    settle_kind,
)
from pixel_gather.io.scenes.parse_footprints import parse_shapes
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather.io.store.open_list_file import no_deadline, parquet_errors

if TYPE_CHECKING:
    from arro3.core import RecordBatch, Schema

type _Parts = dict[str, msgspec.Raw]
"""An item: the JSON of each of its members."""

_TIMES: Final = (
    "datetime",
    "start_datetime",
    "end_datetime",
    "created",
    "updated",
    "published",
    "expires",
    "unpublished",
)
_FIXED: Final = ("type", "stac_version", "stac_extensions", "id", "collection")
_NOT_PROPERTIES: Final = frozenset({*_FIXED, "geometry", "bbox", "links", "assets"})
_N_PER_BATCH: Final = 2048
_NULL: Final = msgspec.Raw(b"null")
_MOST_STRUCTURES: Final = 100_000
_N_PER_GROUP: Final = 50_000
_BBOX: Final = ("xmin", "ymin", "xmax", "ymax")


def write_geoparquet(spooled: SpooledItems, which: np.ndarray[Any, Any], file: IO[bytes]) -> list[str]:
    """Write items in an order, holding one group of rows at a time.

    The numbers are those of the items, in the order of the rows.

    Returns:
        The properties that are columns of text, because their values are of several types.
    """
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # only a catalog's writer needs it
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    found = _kinds(spooled, which)
    kinds = {name: "time" if name in _TIMES else settle_kind(kind) for name, kind in found.items()}
    schema = _schema(kinds)
    write_parquet(
        RecordBatchReader.from_batches(schema, _batches(spooled, which, kinds, schema)),
        file,
        compression="zstd(3)",
        max_row_group_size=_N_PER_GROUP,
        key_value_metadata={"geo": json.dumps(_GEO), "stac-geoparquet": '{"version":"1.0.0"}'},
    )
    return [
        name for name, kind in kinds.items() if found[name] == kind == "json" and name not in _NOT_PROPERTIES
    ]


def items_of_geoparquet(file: IO[bytes], *, name: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    """Yield the items of a STAC-GeoParquet file.

    ``skipped`` gets rows that are no items.

    Raises:
        RequestError: It is no such file.
    """
    with parquet_errors("the file is damaged", field=name, check=no_deadline):
        schema, batches = checked_batches(file, field=name, batch_size=_N_PER_BATCH)
        if missing := {"id", "geometry", "assets"} - set(schema.names):
            raise RequestError(
                f"this is no STAC-GeoParquet: it has no column {', '.join(sorted(missing))}", field=name
            )
        if "Binary" not in str(schema.field("geometry").type):
            raise RequestError("its column geometry is no WKB", field=name)
        for batch in batches:
            yield from _items(batch, name, skipped)


_GEO: Final = {
    "version": "1.1.0",
    "primary_column": "geometry",
    "columns": {
        "geometry": {
            "encoding": "WKB",
            "geometry_types": [],
            "covering": {"bbox": {side: ["bbox", side] for side in _BBOX}},
        }
    },
}


def _kinds(spooled: SpooledItems, which: np.ndarray[Any, Any]) -> dict[str, Kind]:
    """Return the kind of each column but geometry, bbox and links, before it is settled.

    Only one item of each structure is decoded. Items are read in the order in which they came, from the
    beginning of the file to its end.
    """
    found: dict[str, Kind] = {}
    seen: set[bytes] = set()
    in_file = np.sort(which)
    for start in range(0, len(in_file), _N_PER_BATCH):
        for content in spooled.read(in_file[start : start + _N_PER_BATCH]):
            columns = _columns(_parts(content))
            structure = hash_structure(msgspec.json.encode(columns))
            if structure in seen:
                continue
            if len(seen) < _MOST_STRUCTURES:
                seen.add(structure)
            for name, value in columns.items():
                found[name] = merge_kinds(found.get(name, "null"), kind_of(msgspec.json.decode(value)))
    return found


def _parts(content: bytes) -> _Parts:
    return msgspec.json.decode(content, type=dict[str, msgspec.Raw])


def _columns(item: _Parts) -> _Parts:
    """Return the JSON of each column but geometry, bbox and links."""
    fixed = {name: item.get(name, _NULL) for name in _FIXED}
    properties = msgspec.json.decode(item["properties"], type=dict[str, msgspec.Raw])
    others = {name: value for name, value in properties.items() if name not in _NOT_PROPERTIES}
    return fixed | {"assets": item["assets"]} | others


def _schema(kinds: Mapping[str, Kind]) -> "Schema":
    from arro3.core import DataType, Field, Schema  # noqa: PLC0415 # as above

    def field(name: str, kind: Kind) -> Field:
        type_ = DataType.timestamp("us", tz="UTC") if kind == "time" else arrow_type(kind)
        return Field(name, type_, nullable=True)

    bbox = DataType.struct([Field(side, DataType.float64(), nullable=True) for side in _BBOX])
    link = DataType.struct(
        [Field(name, DataType.string(), nullable=True) for name in ("href", "rel", "type", "title")]
    )
    return Schema(
        [
            *(field(name, kind) for name, kind in kinds.items()),
            Field("bbox", bbox, nullable=True),
            Field("links", DataType.list(Field("element", link, nullable=True)), nullable=True),
            Field("geometry", DataType.binary(), nullable=True),
        ]
    )


def _batches(
    spooled: SpooledItems, which: np.ndarray[Any, Any], kinds: Mapping[str, Kind], schema: "Schema"
) -> "Iterator[RecordBatch]":
    from arro3.core import Array, DataType, RecordBatch, Schema  # noqa: PLC0415 # as above
    from arro3.io import read_json  # noqa: PLC0415 # as above

    without_geometry = Schema([schema.field(name) for name in schema.names if name != "geometry"])
    changed = {name: kind for name, kind in kinds.items() if kind == "time" or has_json(kind)}
    for start in range(0, len(which), _N_PER_BATCH):
        items = [_parts(content) for content in spooled.read(which[start : start + _N_PER_BATCH])]
        lines = b"\n".join(msgspec.json.encode(_row(item, changed)) for item in items)
        for batch in read_json(io.BytesIO(lines), without_geometry, batch_size=_N_PER_BATCH):
            geometry = Array(_wkb(items), DataType.binary())
            yield RecordBatch.from_arrays([*batch.columns, geometry], schema=schema)


def _row(item: _Parts, changed: Mapping[str, Kind]) -> dict[str, Any]:
    """Return a row to be written as JSON; most of its columns are the item's own JSON.

    ``changed`` are the columns that a Parquet file writes otherwise than the item.
    """
    row: dict[str, Any] = dict(_columns(item))
    for name, kind in changed.items():
        if name in row:
            value = msgspec.json.decode(row[name])
            row[name] = _time(value) if kind == "time" else conform_value(value, kind)
    box = msgspec.json.decode(item["bbox"])
    flat = [*box[:2], *box[3:5]] if len(box) == 6 else box  # noqa: PLR2004 # with heights
    return row | {"bbox": dict(zip(_BBOX, flat, strict=True)), "links": []}


def _time(value: object) -> str | None:
    """Return a time in the one spelling that the writer reads; what is no time is left out."""
    if not isinstance(value, str):
        return None
    try:
        return format_moment(parse_period(value).start_us)
    except RequestError:
        return None


def _wkb(items: Sequence[_Parts]) -> list[bytes | None]:
    from shapely import to_wkb  # noqa: PLC0415 # as above

    geometries = [None if (each := item.get("geometry")) is None else bytes(each) for item in items]
    found: list[bytes | None] = to_wkb(parse_shapes(geometries, name_of=lambda n: f"item {n}")).tolist()
    return found


def _items(batch: "RecordBatch", name: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    columns = {column: batch[column].to_pylist() for column in batch.schema.names}
    for n in range(batch.num_rows):
        row = {column: values[n] for column, values in columns.items()}
        try:
            item = _item(row)
        except Exception as error:  # noqa: BLE001 # whatever a geometry or an odd column leads to
            said = RequestError(f"this row is no item: {str(error)[:200]}", field=f"{name} {row['id']}")
            skipped.add(said, row)
        else:
            yield item


def _item(row: Mapping[str, Any]) -> dict[str, Any]:
    box = row.get("bbox")
    properties = {
        name: _geometry(value) if name == "proj:geometry" and isinstance(value, bytes) else _plain(value)
        for name, value in row.items()
        if name not in _NOT_PROPERTIES and value is not None
    }
    assets = row["assets"]
    assets = json.loads(assets) if isinstance(assets, str) else assets and dict(assets)
    geometry = row["geometry"]
    return {
        "type": "Feature",
        "stac_version": row.get("stac_version") or "1.0.0",
        "stac_extensions": row.get("stac_extensions") or [],
        "id": row["id"],
        "collection": row.get("collection"),
        "geometry": None if geometry is None else _geometry(geometry),
        "bbox": _box(box),
        "properties": properties,
        "assets": assets and {name: _plain(asset) for name, asset in assets.items() if asset},
        "links": _plain(row.get("links") or []),
    }


def _box(box: Any) -> list[float] | None:
    if isinstance(box, Mapping):
        return [box[side] for side in _BBOX]
    return list(box) if isinstance(box, Sequence) else None


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        moment = value.isoformat()
        return moment.replace("+00:00", "Z") if value.tzinfo else f"{moment}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return from_json_text(value) if isinstance(value, str) else value


def _geometry(wkb: bytes) -> dict[str, Any]:
    from shapely import from_wkb  # noqa: PLC0415 # as above
    from shapely.geometry import mapping  # noqa: PLC0415 # as above

    found: dict[str, Any] = json.loads(json.dumps(mapping(from_wkb(bytes(wkb)))))
    return found
