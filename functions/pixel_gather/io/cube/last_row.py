"""Reads of a cube what a schedule needs: whether it is complete, and the time of its last row."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import obstore
from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.core.errors import NOT_OF_A_CUBE, StoreError, why_no_cube
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store, said_of_place, says_missing


class CubeState(Struct, frozen=True, kw_only=True):
    """A cube that is there."""

    request: Mapping[str, Any]
    """The request that it is made by."""

    last_us: int | None
    """Time of its last row, in microseconds since 1970-01-01 UTC. None if the cube is not complete."""


def cube_state(store: Store, *, place: str) -> CubeState | None:
    """Return the state of the cube, or None if none is there. Blocks.

    Raises:
        StoreError: It is no cube of a gather, its rows have no times, or it cannot be read.
    """
    try:
        root = json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))
        attributes = root["attributes"]
        request, is_complete = gather_of(attributes)["request"], bool(attributes["complete"])
        arrays = root["consolidated_metadata"]["metadata"] if is_complete else {}
        n_rows = arrays["time"]["shape"][0] if "time" in arrays else 0
    except (BaseError, OSError) as error:
        if says_missing(error, may_list=True):
            return None
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
    except NOT_OF_A_CUBE as error:
        raise StoreError(f"{place}: {why_no_cube(error)}") from error
    if not is_complete:
        return CubeState(request=request, last_us=None)
    times = _times(store, place, n_rows)
    known = times[times != NO_TIME]
    if not known.size:
        raise StoreError(f"{place}: its rows have no times, so what is new cannot be known")
    return CubeState(request=request, last_us=int(known.max()))


def _times(store: Store, place: str, n_rows: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the times of the rows that the cube has. An append that was not ended may have written more.

    Opens this array alone: a schedule may read no other object.
    """
    if not n_rows:
        return np.empty(0, dtype=np.int64)
    import zarr  # noqa: PLC0415 # takes 0.3 s
    from zarr.storage import ObjectStore  # noqa: PLC0415 # as above

    with errors_of_store(f"{place}: the cube cannot be read"):
        found = zarr.open_array(ObjectStore(store, read_only=True), path="time", mode="r", zarr_format=3)
        return np.asarray(found[:n_rows])
