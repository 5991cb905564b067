"""Reads some coordinates of a finished cube's rows, and no pixel. Keeps those that were read last."""

import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import NOT_OF_A_CUBE, RequestError, StoreError, why_no_cube
from pixel_gather.core.kept_values import KeptValues
from pixel_gather.core.results.copied_receipt import JOINED
from pixel_gather.core.results.join_member import PRESENCE
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.results.rows_where import Mask, NumberedTexts, number_texts
from pixel_gather.io.cube.open_group import finished_group, read_root, why_not_finished
from pixel_gather.io.store.object_store import Store

type Column = Values | NumberedTexts

_MOST_KEPT_NBYTES: Final = 128 << 20
"""Largest size of all kept columns. A million rows of numbers take 8 MB, of texts that repeat 4 MB."""

_kept: Final[KeptValues[tuple[str, str, str], Column]] = KeptValues(_MOST_KEPT_NBYTES)
"""By place, ETag of the cube's ``zarr.json``, and name."""


class RowColumns:
    """Coordinates of one version of a finished cube. Its methods block.

    Texts that repeat are numbered. Columns are kept in memory as long as the cube does not change, so asking
    again costs one request, for its ``zarr.json``.
    """

    def __init__(self, store: Store, *, place: str) -> None:
        """Look which version of the cube is there.

        Raises:
            StoreError: No finished cube is there, or it cannot be read.
        """
        self._store, self._place = store, place
        root, self._etag = read_root(store, place)
        try:
            self.attributes: dict[str, Any] = root["attributes"]
            is_copy = JOINED in json.loads(self.attributes.get("pixel_gather", "{}"))
            self._has_padding = is_copy and PRESENCE in root["consolidated_metadata"]["metadata"]
        except NOT_OF_A_CUBE as error:
            raise StoreError(f"{place}: {why_no_cube(error)}") from error
        if not self.attributes.get("complete"):
            raise StoreError(f"{place}: {why_not_finished(self.attributes)}")

    def columns(self, names: Iterable[str], *, field: str) -> dict[str, Column]:
        """Return the values of some coordinates, by name. The first axis of each is that of the rows.

        Raises:
            RequestError: The cube has no such coordinate.
            StoreError: It cannot be read.
        """
        keys = {name: (self._place, self._etag, name) for name in names}
        found = {name: column for name, key in keys.items() if (column := _kept.get(key)) is not None}
        if len(found) == len(keys):
            return found
        with finished_group(self._store, self._place) as group:
            arrays: dict[str, Any] = dict(group.arrays())
            dims = {name: array.metadata.dimension_names or () for name, array in arrays.items()}
            known = [name for name, own in dims.items() if own[:1] == dims["status"][:1] and "y" not in own]
            for name in keys:
                if name not in known:
                    also = "; day, solar-day and month are made of the time" if field == "by" else ""
                    raise RequestError(
                        f"the cube's rows have no coordinate {name!r}; they have {', '.join(sorted(known))}"
                        f"{also}",
                        field=field,
                    )
            for name in keys.keys() - found.keys():
                found[name] = number_texts(np.asarray(arrays[name][...]))
                _keep(keys[name], found[name])
        return found

    def exist(self) -> Mask | None:
        """Return which rows exist; None if all do. Copies of joined cubes may have padding between rows."""
        if not self._has_padding:
            return None
        return np.asarray(self.columns([PRESENCE], field=PRESENCE)[PRESENCE] == 1)


def _keep(key: tuple[str, str, str], column: Column) -> None:
    """Keep a column, unless its version is not known, its texts do not repeat, or it would fill all alone."""
    nbytes = _nbytes(column)
    if key[1] and nbytes is not None and nbytes <= _kept.most_nbytes:
        _kept.put(key, column, nbytes)


def _nbytes(column: Column) -> int | None:
    if isinstance(column, NumberedTexts):
        return column.numbers.nbytes
    return column.nbytes if column.dtype.kind in "biuf" else None
