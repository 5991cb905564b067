"""Reads and writes the header index: a Parquet file of sources' headers, shared between gathers.

The column ``packed`` holds the header itself. With it, a gather opens the source without reading its header.
The other columns are for people. arro3 is imported where it is used, because no worker needs it.
"""

import io
import math
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from contextlib import closing
from itertools import batched, chain
from typing import IO, TYPE_CHECKING, Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.io.geotiff.packed_header import MAX_PACKED_NBYTES, peek
from pixel_gather.io.parquet.parquet_batches import checked_batches, parquet_batches
from pixel_gather.io.store.object_store import Objects, Store
from pixel_gather.io.store.open_list_file import (
    PARQUET_MAGIC,
    Check,
    no_deadline,
    open_list_file,
    parquet_errors,
)
from pixel_gather.io.store.upload import upload

if TYPE_CHECKING:
    from arro3.core import RecordBatch, Schema

type Entry = tuple[str, bytes]
"""A source's href and its packed header."""

type Grid = tuple[int, int, str, tuple[float, ...]]
"""Width and height of an image, its CRS, and the six coefficients of its transform."""

HEADERS_KEY: Final = "headers.parquet"
"""Key of a cube's index, beside its arrays. Zarr readers ignore such a file."""

FIELD: Final = "index"
"""Field of the request that errors name."""

_N_ROWS_PER_BATCH: Final = 256
"""Small, because a file of some KB may unpack to the same long text in every row."""

_N_ROWS_PER_GROUP: Final = 4096
_COMPRESSION: Final = "zstd(3)"
_ONE: Final = "make one with pixel-gather index, or name a cube's headers.parquet"
_LONGEST_ROW_NBYTES: Final = MAX_PACKED_NBYTES + (1 << 14)
_COLUMNS: Final[dict[str, tuple[str, Any]]] = {
    "etag": ("string", lambda told: told.etag),
    "nbytes": ("int64", lambda told: told.nbytes),
    "overview": ("int64", lambda told: told.overview),
    "width": ("int64", lambda told: told.width),
    "height": ("int64", lambda told: told.height),
    "tile_width": ("int64", lambda told: told.tile_width),
    "tile_height": ("int64", lambda told: told.tile_height),
    "n_bands": ("int64", lambda told: told.n_bands),
    "dtype": ("string", lambda told: told.dtype),
    "nodata": ("float64", lambda told: None if told.nodata is None else float(told.nodata)),
    "crs": ("string", lambda told: told.crs),
    "transform": ("affine", lambda told: told.transform),
    "n_tiles": ("int64", lambda told: told.n_tiles),
    "n_known_tiles": ("int64", lambda told: told.n_known_tiles),
}
_HREF, _OVERVIEW, _PACKED = "href", "overview", "packed"


def write_index(entries: Iterator[Sequence[Entry]], file: IO[bytes]) -> None:
    """Write an index while its entries arrive. Holds one row group in memory.

    Entries whose packed header is damaged are left out.
    """
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # see above
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    schema = _schema()
    batches = (
        _to_batch(batch, schema)
        for batch in batched(chain.from_iterable(entries), _N_ROWS_PER_BATCH, strict=False)
    )
    write_parquet(
        RecordBatchReader.from_batches(schema, batches),
        file,
        compression=_COMPRESSION,
        max_row_group_size=_N_ROWS_PER_GROUP,
        column_dictionary_enabled=dict.fromkeys((_HREF, "etag", _PACKED), False),
    )


async def store_index(
    entries: AsyncIterator[Sequence[Entry]],
    store: Store,
    key: str,
    *,
    on_bytes: Callable[[bytes], None] = lambda _: None,
) -> int:
    """Write an index to a store in parts while its entries arrive. Return the number of entries.

    See `upload` for what is promised and raised. Nothing is written without entries. ``on_bytes`` is called
    with the file's content, part by part, in a thread.
    """
    n_entries = 0

    def write(batches: Iterator[Sequence[Entry]], file: IO[bytes]) -> None:
        def counted() -> Iterator[Sequence[Entry]]:
            nonlocal n_entries
            for batch in batches:
                n_entries += len(batch)
                yield batch

        write_index(counted(), file)

    await upload(entries, write, store, key, on_bytes=on_bytes)
    return n_entries


def read_index(
    href: str, *, objects: Objects, overview: int | None, check: Check = no_deadline
) -> Iterator[Entry]:
    """Yield the entries of an index for one overview, or for full resolution.

    Does I/O and may block, so iterate in a thread without an event loop. ``check`` is called for every batch
    of rows and during requests.

    Raises:
        RequestError: The file cannot be read, or is no header index.
        TimeoutError: Raised by ``check``.
    """
    try:
        _, file = open_list_file(href, objects=objects, check=check, what=FIELD)
    except RequestError as error:
        raise RequestError(error.message, field=FIELD) from error
    with closing(file):
        if not file.seekable():
            raise RequestError(
                "the index is gzipped, or comes through a pipe; Parquet is read from its end", field=FIELD
            )
        with parquet_errors("the index is damaged", field=FIELD, check=check):
            if file.peek(len(PARQUET_MAGIC))[: len(PARQUET_MAGIC)] != PARQUET_MAGIC:
                raise RequestError(f"this is no Parquet, so no header index; {_ONE}", field=FIELD)
            for batch in _checked_batches(file, check):
                check()
                yield from _entries(batch, overview)


def is_index(href: str, *, objects: Objects) -> bool:
    """Return whether a file is a header index, by its columns. Blocks, as `read_index`."""
    try:
        _, file = open_list_file(href, objects=objects, what=FIELD)
        with closing(file), parquet_errors("the index is damaged", field=FIELD, check=no_deadline):
            _check_columns(parquet_batches(file, batch_size=_N_ROWS_PER_BATCH)[0])
    except RequestError:
        return False
    return True


def stored_entries(content: bytes) -> Iterator[Sequence[Entry]]:
    """Yield all entries of an index of `store_index`, in batches. Packed headers stay packed."""
    for batch in parquet_batches(io.BytesIO(content), batch_size=_N_ROWS_PER_BATCH)[1]:
        yield list(zip(batch.column(_HREF).to_pylist(), batch.column(_PACKED).to_pylist(), strict=True))


def stored_grids(content: bytes, *, without: Container[str] = ()) -> Iterator[Grid]:
    """Yield the grid of each entry that has one. No packed header is opened.

    The file may be anybody's.

    Raises:
        RequestError: It is no header index.
        BusyError: The process that reads Parquet does not start.
    """
    with parquet_errors("the index is damaged", field=FIELD, check=no_deadline):
        for batch in _checked_batches(io.BytesIO(content), no_deadline):
            columns = (batch[name].to_pylist() for name in (_HREF, "width", "height", "crs", "transform"))
            for href, width, height, crs, transform in zip(*columns, strict=True):
                if href in without:
                    continue
                if crs is not None and transform is not None and None not in (width, height, *transform):
                    yield int(width), int(height), str(crs), tuple(map(float, transform))


def _schema() -> "Schema":
    from arro3.core import DataType, Field, Schema  # noqa: PLC0415 # see above

    kinds = {
        "string": DataType.string(),
        "int64": DataType.int64(),
        "float64": DataType.float64(),
        "binary": DataType.binary(),
        "affine": DataType.list(DataType.float64(), 6),
    }
    names = {_HREF: "string"} | {name: kind for name, (kind, _) in _COLUMNS.items()} | {_PACKED: "binary"}
    return Schema([Field(name, kinds[kind], nullable=True) for name, kind in names.items()])


def _to_batch(batch: Sequence[Entry], schema: "Schema") -> "RecordBatch":
    from arro3.core import Array, DataType, RecordBatch, fixed_size_list_array  # noqa: PLC0415 # see above

    told = [(href, packed, header) for href, packed in batch if (header := peek(packed)) is not None]
    arrays: list[Any] = [Array([href for href, _, _ in told], DataType.string())]
    for name, (kind, value) in _COLUMNS.items():
        values = [value(header) for _, _, header in told]
        if kind == "affine":
            flat = [each for transform in values for each in transform or (math.nan,) * 6]
            arrays.append(
                fixed_size_list_array(Array(flat, DataType.float64()), 6, type=schema.field(name).type)
            )
        else:
            arrays.append(Array(values, schema.field(name).type))
    arrays.append(Array([packed for _, packed, _ in told], DataType.binary()))
    return RecordBatch.from_arrays(arrays, schema=schema)


def _checked_batches(file: IO[bytes], check: Check) -> "Iterator[RecordBatch]":
    schema, batches = checked_batches(file, field=FIELD, batch_size=_N_ROWS_PER_BATCH, check=check)
    _check_columns(schema)
    return batches


def _check_columns(schema: "Schema") -> None:
    from arro3.core import DataType  # noqa: PLC0415 # see above

    wanted = {
        _HREF: (DataType.is_string, DataType.is_large_string, DataType.is_string_view),
        _OVERVIEW: (DataType.is_integer,),
        _PACKED: (DataType.is_binary, DataType.is_large_binary, DataType.is_binary_view),
    }
    for name, kinds in wanted.items():
        if name not in schema.names or not any(is_kind(schema.field(name).type) for is_kind in kinds):
            raise RequestError(
                f"this is no header index: it has no column {name!r} of the right type; {_ONE}",
                field=FIELD,
            )


def _entries(batch: "RecordBatch", overview: int | None) -> Iterator[Entry]:
    if batch.nbytes > _N_ROWS_PER_BATCH * _LONGEST_ROW_NBYTES:
        raise RequestError("this is no header index: its rows are too long", field=FIELD)
    columns = (batch[name].to_pylist() for name in (_HREF, _OVERVIEW, _PACKED))
    for href, of_overview, packed in zip(*columns, strict=True):
        if href is not None and packed is not None and of_overview == overview:
            yield href, packed
