"""The list that a search found, frozen as ``sources.parquet`` under a claim, and later beside the cube.

It holds every source that was found, with its status. A ``kept`` source is read. Instead of a ``duplicate``,
a later processing of the scene is read. ``absent`` means that the scene has no such asset. ``reason`` says
why a source is not read. A gather that is continued reads this file and does not search again.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import batched, chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.core.model.source import LeftOut, Source
from pixel_gather.core.request.sources import Sources
from pixel_gather.core.scenes.scene_sources import asset_choices, band_numbers
from pixel_gather.core.stores import FOUND_LIST_KEY
from pixel_gather.io.lists.list_columns import Scalar
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.parquet.parquet_batches import blame_file, parquet_batches

if TYPE_CHECKING:
    from arro3.core import RecordBatch, Schema

type _Record = tuple[Source | LeftOut, str, str | None]
"""A source, its status, and why it is not read."""

_CLASSES: Final = "pixel_gather_classes"
_MEANINGS: Final = "pixel_gather_meanings"
_KEPT: Final = "kept"
_NAMES: Final = ("href", "band", "scene")
_FIXED: Final = (*_NAMES, "time", "status", "reason")
_N_PER_BATCH: Final = 8192
_N_PER_GROUP: Final = 65_536
_TYPES: Final = {"string": str, "int64": int, "float64": float, "bool": bool}


def found_parquet(
    kept: Iterable[Source],
    left_out: Sequence[LeftOut],
    *,
    dtypes: Mapping[str, str],
    meanings: Mapping[str, BandMeaning],
) -> bytes:
    """Return the file."""
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # only plans of searches need it
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    schema = _schema(dtypes).with_metadata({_MEANINGS: msgspec.json.encode(meanings).decode()})
    records: Iterator[_Record] = chain(
        ((each, _KEPT, None) for each in kept), ((each, each.status, each.reason) for each in left_out)
    )
    batches = (_to_batch(some, schema, dtypes) for some in batched(records, _N_PER_BATCH, strict=False))
    file = io.BytesIO()
    write_parquet(
        RecordBatchReader.from_batches(schema, batches),
        file,
        compression="zstd(3)",
        max_row_group_size=_N_PER_GROUP,
    )
    return file.getvalue()


def found_sources(content: bytes, sources: Sources) -> SourceList:
    """Return the list of `found_parquet` again: the same sources in the same order."""
    asked = sources.searched
    left_out: list[LeftOut] = []
    meanings: dict[str, BandMeaning] = {}
    return SourceList(
        name=FOUND_LIST_KEY,
        is_typed=True,
        sources=_sources(content, left_out, meanings),
        left_out=left_out,
        band_meanings=meanings,
        band_numbers={} if asked is None else band_numbers(asset_choices(asked.assets)),
    )


def _sources(content: bytes, left_out: list[LeftOut], meanings: dict[str, BandMeaning]) -> Iterator[Source]:
    for record in _records(content, meanings):
        status, reason = record.pop("status"), record.pop("reason")
        told = {name: record.pop(name) for name in _NAMES} | {"time_us": record.pop("time")}
        if status == _KEPT:
            yield Source(**told, columns=record)
        else:
            left_out.append(LeftOut(**told, columns=record, status=status, reason=reason))


def _records(content: bytes, meanings: dict[str, BandMeaning]) -> Iterator[dict[str, Any]]:
    with blame_file("the list that was found (sources.parquet)"):
        schema, batches = parquet_batches(io.BytesIO(content), batch_size=_N_PER_BATCH)
        told = schema.metadata.get(_MEANINGS.encode(), b"{}")  # of no file of an earlier version
        meanings |= msgspec.json.decode(told, type=dict[str, BandMeaning])
        classes = schema.metadata.get(_CLASSES.encode(), b"{}")  # of files that were found before units
        for name, known in msgspec.json.decode(classes, type=dict[str, tuple[BandClass, ...]]).items():
            meanings[name] = BandMeaning(classes=known)
        for batch in batches:
            yield from _records_of(batch)


def _records_of(batch: "RecordBatch") -> Iterator[dict[str, Any]]:
    from arro3.core import DataType  # noqa: PLC0415 # as above

    names = batch.schema.names
    columns = [
        (batch[name].cast(DataType.int64()) if name == "time" else batch[name]).to_pylist() for name in names
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _schema(dtypes: Mapping[str, str]) -> "Schema":
    from arro3.core import DataType, Field, Schema  # noqa: PLC0415 # as above

    kinds: dict[str, DataType] = dict.fromkeys(_FIXED, DataType.string())
    kinds["time"] = DataType.timestamp("us", tz="UTC")
    arrow = {
        "string": DataType.string(),
        "int64": DataType.int64(),
        "float64": DataType.float64(),
        "bool": DataType.bool(),
    }
    kinds |= {name: arrow[dtype] for name, dtype in dtypes.items()}
    return Schema([Field(name, kind, nullable=True) for name, kind in kinds.items()])


def _to_batch(
    records: Sequence[_Record],
    schema: "Schema",
    dtypes: Mapping[str, str],
) -> "RecordBatch":
    from arro3.core import Array, DataType, RecordBatch  # noqa: PLC0415 # as above

    text = DataType.string()
    sources, statuses, reasons = zip(*records, strict=True)
    times = Array([each.time_us for each in sources], DataType.int64())
    arrays: list[Any] = [
        *(Array([getattr(each, name) for each in sources], text) for name in _NAMES),
        times.cast(schema.field("time").type),
        Array(statuses, text),
        Array(reasons, text),
    ]
    arrays += [
        Array([_fitting(each.columns.get(name), dtype) for each in sources], schema.field(name).type)
        for name, dtype in dtypes.items()
    ]
    return RecordBatch.from_arrays(arrays, schema=schema)


def _fitting(value: Scalar, dtype: str) -> Scalar:
    """Return a value in its column's type; None where the column of what is read cannot hold it."""
    if value is None or dtype == "string":
        return None if value is None else str(value)
    kinds = (int, float) if dtype == "float64" else _TYPES[dtype]
    is_bool = isinstance(value, bool)
    return _TYPES[dtype](value) if isinstance(value, kinds) and is_bool == (dtype == "bool") else None
