"""Reads a finished cube again: the sources of its rows, how each was read, and its pixels."""

from collections.abc import Generator
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Final

import numpy as np
from obstore.exceptions import BaseError

from pixel_gather.core.errors import NOT_OF_A_CUBE, StoreError, why_no_cube
from pixel_gather.core.model.source import MAX_EXACT, NO_INTEGER, CubeRow, ListColumn, Source
from pixel_gather.core.plan.cube_plan import BAND
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.results.contributors import Scenes, scenes_from_lines
from pixel_gather.core.results.find_drift import Version
from pixel_gather.core.results.row_coordinates import CHUNK_ROWS, RESERVED_NAMES, Values
from pixel_gather.core.results.row_evidence import column_value, stored_status
from pixel_gather.io.cube.open_group import finished_group
from pixel_gather.io.cube.row_table import CONTRIBUTORS_KEY, read_contributors
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.parquet.parquet_batches import blame_file
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store, said_of_place

_ALL_BANDS: Final = "band_"
"""Names of measurements of a list without bands: ``band_1``, ``band_2`` ..."""


class StoredCube:
    """A finished cube. Its methods block. Memory holds one chunk of some coordinates: 16,384 rows."""

    def __init__(self, store: Store, *, place: str) -> None:
        """Open a cube.

        Raises:
            StoreError: No finished cube with a receipt is there, or it cannot be read.
        """
        self.store, self.place = store, place
        self.receipt = read_receipt(store, place)
        with finished_group(store, place) as group:
            self._arrays: dict[str, Any] = dict(group.arrays())
            try:
                self._gather: Any = gather_of(group.attrs)
            except NOT_OF_A_CUBE as error:
                raise StoreError(f"{place}: {why_no_cube(error)}") from error
        needed = {"href", "etag", "status", *self.receipt.dtypes}
        if not needed <= self._arrays.keys():
            raise StoreError(f"{place}: the cube is damaged; pixel-gather verify says where")
        self._chunk = lru_cache(maxsize=64)(self._read_chunk)

    @property
    def measurements(self) -> tuple[str, ...]:
        """Names of the measurements, in the plan's order."""
        return tuple(self.receipt.dtypes)

    @cached_property
    def template(self) -> CubeTemplate:
        """What the cube prescribes to its sources."""
        return CubeTemplate.from_json(self._gather["template"])

    @property
    def is_reduced(self) -> bool:
        """Whether several scenes became each row."""
        return "reduce" in self.receipt.request

    @property
    def has_time(self) -> bool:
        """Whether the first axis is ``time``."""
        return self.receipt.dims[0] == "time"

    @cached_property
    def bands(self) -> tuple[str, ...]:
        """The list's bands, one for each source of a row; empty if a row has one source without a band."""
        names = self.measurements
        if self._arrays["href"].ndim > 1:
            return names
        return names if self.template.slots[0].name is not None else ()

    @cached_property
    def source_bands(self) -> tuple[int, ...] | None:
        """Which bands of its sources a cube without `bands` holds, from 1."""
        if self.bands:
            return None
        return tuple(int(name.removeprefix(_ALL_BANDS)) for name in self.measurements)

    @cached_property
    def columns(self) -> tuple[ListColumn, ...]:
        """The list's further columns, as in `pixel_gather.core.ports.SourceTable`."""
        found = []
        for name, array in self._arrays.items():
            dims = array.metadata.dimension_names or ()
            is_own = name in RESERVED_NAMES or name in self.measurements or (name == "time" and self.has_time)
            if (
                dims[:1] == self.receipt.dims[:1]
                and dims[1:] in ((), ("measurement",), (BAND,))
                and not is_own
            ):
                found.append(self._list_column(name))
        return tuple(found)

    def _list_column(self, name: str) -> ListColumn:
        array = self._arrays[name]
        kind = np.dtype(array.dtype)
        dtype = {"u": "bool", "i": kind.name, "f": kind.name, "b": "bool"}.get(kind.kind, "string")
        is_large = False
        if dtype == "int64":
            values = self._values(name, 0, array.shape[0])
            is_large = bool((np.abs(values[values != NO_INTEGER]) > MAX_EXACT).any())
        return ListColumn(
            name=name,
            dtype=dtype,
            varies_in_row=array.ndim > 1,
            has_gaps=kind.kind == "u" or (dtype == "int64" and array.fill_value.item() == NO_INTEGER),
            is_large=is_large,
        )

    def rows(self, start: int, stop: int) -> Generator[CubeRow]:
        """Yield the sources of rows [start, stop). A row's missing sources are None.

        Where rows are reduced, the sources are those of all scenes of a row, in order.
        """
        if self.is_reduced:
            for members, _ in self._scenes[start:stop]:
                sources = tuple(source for scene in members for source in scene.sources)
                yield CubeRow(time_us=None, sources=sources, members=members)
            return
        hrefs = self._per_source("href", start, stop)
        times = self._values("time", start, stop) if self.has_time else None
        columns = {each.name: self._per_source(each.name, start, stop) for each in self.columns}
        for at, of_row in enumerate(hrefs):
            time_us = None if times is None else int(times[at])
            sources = tuple(
                self._source(href, slot, time_us, {name: all_[at, slot] for name, all_ in columns.items()})
                for slot, href in enumerate(of_row)
            )
            yield CubeRow(time_us=time_us, sources=sources)

    def versions(self, start: int, stop: int) -> list[list[Version]]:
        """Return how each source of rows [start, stop) was read, in the order of `rows`.

        Raises:
            StoreError: A status is none that this version knows.
        """
        if self.is_reduced:
            return [
                [Version(status=each.status, etag=each.etag) for of_scene in outcomes for each in of_scene]
                for _, outcomes in self._scenes[start:stop]
            ]
        etags = self._per_source("etag", start, stop)
        statuses = self._per_source("status", start, stop)
        return [
            [
                Version(status=stored_status(int(status), place=self.place), etag=etag or None)
                for etag, status in zip(of_row, of_status, strict=True)
            ]
            for of_row, of_status in zip(etags, statuses, strict=True)
        ]

    def pixels(self, name: str, rows: slice, lines: slice) -> Pixels:
        """Return pixels of a measurement: shape (row, y, x).

        Raises:
            StoreError: They cannot be read.
        """
        return self._read(name, rows, lines)

    def nodata(self, name: str) -> tuple[float | int, bool]:
        """Return a measurement's fill value, and whether it is the nodata of its sources."""
        array = self._arrays[name]
        return array.fill_value.item(), "_FillValue" in array.attrs

    @cached_property
    def _scenes(self) -> list[Scenes]:
        """The scenes of each row, where several are reduced to one."""
        names = [each.name for each in self.template.of_scenes.slots]
        place = f"{self.place}: {CONTRIBUTORS_KEY}"
        with errors_of_store(f"{place} cannot be read"), blame_file(place):
            told = read_contributors(self.store)
            in_rows = zip(*(values.tolist() for values in told.values()), strict=True)
            lines = [dict(zip(told, line, strict=True)) for line in in_rows]
            of_row = {
                row: scenes_from_lines([*of_row], names)
                for row, of_row in groupby(lines, key=lambda line: line["row"])
            }
        return [of_row.get(row, ((), [])) for row in range(self.receipt.shape[0])]

    def _source(self, href: str, slot: int, time_us: int | None, values: dict[str, Any]) -> Source | None:
        if not href:
            return None
        dtypes = {each.name: each.dtype for each in self.columns}
        columns = {
            name: column_value(value.item() if isinstance(value, np.generic) else value, dtypes[name])
            for name, value in values.items()
        }
        scene, own_time_us = columns.pop("scene", None), columns.pop("time", None)
        return Source(
            href=href,
            band=self.bands[slot] if self.bands else None,
            scene=scene or None,
            time_us=time_us if own_time_us is None else own_time_us,
            columns=columns,
        )

    def _per_source(self, name: str, start: int, stop: int) -> Values:
        """Return values with the shape (row, slot). A value of a whole row is repeated."""
        values, n = self._values(name, start, stop), max(len(self.bands), 1)
        if values.ndim == 1:
            return np.broadcast_to(values[:, None], (len(values), n))
        return values[:, :n]

    def _values(self, name: str, start: int, stop: int) -> Values:
        chunks = range(start // CHUNK_ROWS, -(-stop // CHUNK_ROWS))
        first = start // CHUNK_ROWS * CHUNK_ROWS
        found = [self._chunk(name, chunk) for chunk in chunks]
        whole = found[0] if len(found) == 1 else np.concatenate(found)
        return whole[start - first : stop - first]

    def _read_chunk(self, name: str, chunk: int) -> Values:
        return self._read(name, slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS))

    def _read(self, name: str, *at: slice) -> Values:
        try:
            return np.asarray(self._arrays[name][at])
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.place}: the cube cannot be read: {said_of_place(error)}") from error
        except Exception as error:  # zarr-python raises many types for damaged shards
            raise StoreError(f"{self.place}: {name} is damaged; pixel-gather verify says where") from error
