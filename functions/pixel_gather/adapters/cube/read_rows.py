"""Reads some coordinates of a finished cube's rows, and no pixel."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.adapters.cube.open_group import finished_group
from pixel_gather.adapters.cube.zarr_cube import ROOT_KEY
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import said_of_place
from pixel_gather.errors import RequestError, StoreError
from pixel_gather.report.row_coordinates import Values


def read_attributes(store: Store, *, place: str) -> dict[str, Any]:
    """Return the attributes of a cube's group. Blocks.

    Raises:
        StoreError: No cube is there, or it cannot be read.
    """
    try:
        return dict(json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))["attributes"])
    except FileNotFoundError as error:
        raise StoreError(f"{place}: no cube is there; name the folder that a gather has written") from error
    except (BaseError, OSError, ValueError, KeyError) as error:
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error


def read_rows(store: Store, names: Iterable[str], *, place: str, field: str) -> dict[str, Values]:
    """Return the values of some coordinates, by name. The first axis of each is that of the rows. Blocks.

    Args:
        store: At the cube's root.
        names: The coordinates.
        place: The location as users write it, for messages.
        field: What names the coordinates, for messages.

    Raises:
        RequestError: The cube has no such coordinate.
        StoreError: No finished cube is there, or it cannot be read.
    """
    with finished_group(store, place) as group:
        arrays: dict[str, Any] = dict(group.arrays())
        dims = {name: array.metadata.dimension_names or () for name, array in arrays.items()}
        known = sorted(name for name, own in dims.items() if own[:1] == dims["status"][:1] and "y" not in own)
        for name in names:
            if name not in known:
                raise RequestError(
                    f"the cube's rows have no coordinate {name!r}; they have {', '.join(known)}", field=field
                )
        return {name: np.asarray(arrays[name][...]) for name in names}
