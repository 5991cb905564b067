"""Compares what gives pixels their meaning: the metadata of all arrays, and the values of coordinates."""

import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.model.status import Status
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table
from pixel_gather.io.cube.row_view import RowArray, stored_array
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:  # takes 0.3 s
    import zarr

_ARRAYS_AT_ONCE: Final = 8


def array_metadata_that_differ(
    store: Store, arrays: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Compare the metadata of each array with those in the group's. Blocks.

    Returns:
        One sentence for each array whose metadata differ. Then the arrays that differ in nothing but that
        they have more rows, as an append leaves them before its commit.
    """

    def compare(name: str) -> str | None:
        key = f"{name}/{ROOT_KEY}"
        try:
            found = json.loads(bytes(obstore.get(store, key).bytes()))
        except FileNotFoundError:
            return f"{key} is missing"
        except (ValueError, RecursionError):
            return f"{key} is damaged: it is not JSON"
        if found == arrays[name]:
            return None
        return "" if _has_more_rows(found, arrays[name]) else f"{key} differs from the metadata in {ROOT_KEY}"

    with ThreadPoolExecutor(_ARRAYS_AT_ONCE) as threads:
        said = dict(zip(arrays, threads.map(compare, arrays), strict=True))
    return [each for each in said.values() if each], [name for name, each in said.items() if each == ""]


def _has_more_rows(found: Any, told: Mapping[str, Any]) -> bool:
    try:
        rows, *rest = found["shape"]
        return bool(rows > told["shape"][0]) and found == dict(told) | {"shape": [rows, *rest]}
    except (KeyError, TypeError, ValueError, IndexError):
        return False


def coordinates_that_differ(
    store: Store,
    group: "zarr.Group",
    names: Collection[str],
    table: bytes | None,
    *,
    begun: str | None = None,
) -> Iterator[str]:
    """Yield what differs in arrays without pixels: chunks, and values that ``rows.parquet`` has, too. Blocks.

    Args:
        store: At the cube's root.
        group: The cube.
        names: Names of the arrays.
        table: Content of ``rows.parquet``. None if it cannot be trusted; then values are only decoded.
        begun: What to say instead if only rows differ that have failed, because the next version tries them
            again. None if nobody has begun it.
    """
    import zarr  # noqa: PLC0415 # takes 0.3 s

    whole: dict[str, Any] = {}
    for name in names:
        array = group.get(name)
        if not isinstance(array, zarr.Array | RowArray):
            yield f"{name} is missing, or its metadata are damaged"
        elif (missing := _missing_chunk(store, name, stored_array(array))) is not None:
            yield f"{missing} is missing"
        else:
            whole[name] = array
    in_table: set[str] = set()
    differing: set[str] = set()
    for start, values in _batches(table):
        in_table |= whole.keys() & values.keys()
        said = _compare_arrays(
            store, {name: whole[name] for name in sorted(in_table - differing)}, start, values, begun
        )
        for name, sentence in said.items():
            differing.add(name)
            yield sentence
    others = sorted(whole.keys() - in_table)
    yield from _compare_arrays(store, {name: whole[name] for name in others}, 0, {}).values()


def _missing_chunk(store: Store, name: str, array: Any) -> str | None:
    """Return the key of the first chunk that is not there. A gather writes every one, also without values."""
    there = {item["path"] for item in list_objects(store, f"{name}/")}
    if not array.shape:
        return None if f"{name}/c" in there else f"{name}/c"
    others = "/0" * (array.ndim - 1)  # only rows are cut into chunks
    keys = (f"{name}/c/{number}{others}" for number in range(-(-array.shape[0] // array.chunks[0])))
    return next((key for key in keys if key not in there), None)  # damaged metadata may tell of billions


def _batches(table: bytes | None) -> Iterator[tuple[int, Mapping[str, Values]]]:
    """Yield the first row and the values of each batch of the table."""
    start = 0
    for values in () if table is None else read_row_table(table)[1]:
        yield start, values
        start += len(values["href"])


def _compare_arrays(
    store: Store,
    arrays: Mapping[str, Any],
    start: int,
    expected: Mapping[str, Values],
    begun: str | None = None,
) -> dict[str, str]:
    """Return what differs in each array, by its name. An array without expected values is decoded."""
    statuses = expected.get("status", np.zeros(0))
    is_read = np.isin(statuses, (Status.OK, Status.ABSENT))
    was_read = is_read.all(axis=tuple(range(1, is_read.ndim)))

    def compare(name: str) -> str | None:
        array, told = arrays[name], expected.get(name)
        try:
            values = np.asarray(array[...] if told is None else array[start : start + len(told)])
        except Exception as error:  # noqa: BLE001 # zarr-python and codecs raise many types
            if isinstance(error, BaseError | OSError):
                list_objects(store, f"{name}/")  # if this fails too, the store is at fault
            return f"{name} is damaged: it cannot be decoded"
        if told is None or _are_same(values, told[: len(values)]):
            return None
        there = was_read[: len(values)]
        if begun is not None and _are_same(values[there], told[: len(values)][there]):
            return begun
        return f"{name} has other values than {ROWS_KEY}"

    with ThreadPoolExecutor(_ARRAYS_AT_ONCE) as threads:
        said = dict(zip(arrays, threads.map(compare, arrays), strict=True))
    return {name: sentence for name, sentence in said.items() if sentence is not None}


def _are_same(values: Values, told: Values) -> bool:
    if values.dtype.kind in "fc":
        return np.array_equal(values, told, equal_nan=True)
    return np.array_equal(values.astype(told.dtype), told)
