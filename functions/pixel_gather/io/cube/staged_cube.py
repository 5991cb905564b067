"""Writes everything of a cube but its pixels: metadata, coordinates, and the files beside them.

A finish writes them to a temporary folder, and publishes them when they are whole; see
`pixel_gather.engine.publish_version`.
"""

import asyncio
import hashlib
import json
import mmap
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import obstore
from msgspec import Struct
from obstore.store import LocalStore

from pixel_gather.core.model.band_meaning import SCALED_UNITS, UNITS
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.read.quicklook import Quicklooks
from pixel_gather.core.results.receipt import Receipt, WrittenFile
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.row_coordinates import Coordinate, Values, chunk_rows_of
from pixel_gather.core.stores import FOUND_LIST_KEY, RECEIPT_KEY, ROOT_KEY, Content, FoundCube
from pixel_gather.io.cube.array_chunks import put_array, put_rows
from pixel_gather.io.cube.map_coordinates import SPATIAL_REF, write_georeference
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY, quicklook_parts
from pixel_gather.io.cube.row_table import (
    CONTRIBUTORS_KEY,
    ROWS_KEY,
    cube_metadata,
    stored_shards,
    write_row_table,
)
from pixel_gather.io.cube.zarr_metadata import (
    ArrayMetadata,
    coordinate_attributes,
    group_attributes,
    group_content,
    put_metadata,
    put_pixel_array,
    scaling_attributes,
)
from pixel_gather.io.header_index import HEADERS_KEY, store_index
from pixel_gather.io.store.list_objects import list_objects, root_folders
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store
from pixel_gather.io.store.upload import upload

VERSIONS_FOLDER: Final = "versions/"
"""What appends keep: the metadata of former versions, and the list that each search has found."""

_ARRAYS_AT_ONCE: Final = 8
"""Each array waits for one or two requests. A cube has some 20 arrays, written in 62 batches for a million
sources."""


def found_list_key(plan: CubePlan) -> str:
    """Return the key of the list that a search found. Each append has its own."""
    return FOUND_LIST_KEY if plan.append.is_first else f"versions/{plan.append.version:05d}.{FOUND_LIST_KEY}"


class StagedZarrCube(Struct, frozen=True):
    """Implements `pixel_gather.core.stores.StagedCube` at the root of a store that nobody else writes to."""

    store: Store
    place: str
    """The location of the cube as the user wrote it, for messages."""

    shards_in: Store | None = None
    """Where the shards are that the table of rows names. None for a cube that refers to tiles."""

    is_sharded: bool = True
    """False if each chunk is an object of its own, as the tiles are that a cube refers to."""

    async def create(self, plan: CubePlan) -> CubePlan:
        """Write the measurements' metadata."""

        def put_all() -> None:
            for array in plan.arrays:
                put_pixel_array(self.store, plan, array, is_sharded=self.is_sharded)

        await self._write_in_thread(put_all)
        return plan

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence[Coordinate]) -> None:
        """Write the metadata of the coordinates along the first axis."""
        rows = chunk_rows_of(plan)

        def create(each: Coordinate) -> None:
            array = ArrayMetadata(
                shape=_in_arrays(plan, each, each.shape),
                chunks=_in_arrays(plan, each, (rows, *each.shape[1:])),
                dtype=each.dtype,
                fill_value=each.fill,
                dims=(*_leading_dims(plan, each), *each.dims[1:]),
                attributes=coordinate_attributes(each),
            )
            put_metadata(self.store, each.name, array)

        await self._write_in_thread(lambda: _each_in_threads(create, coordinates))

    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence[Coordinate], start: int, values: Mapping[str, Values]
    ) -> None:
        """Write consecutive rows of several coordinates, in whole chunks."""
        chunk_rows = chunk_rows_of(plan)

        def write(each: Coordinate) -> None:
            rows = np.asarray(values[each.name], dtype=object if each.dtype == "string" else each.dtype)
            if plan.chips is None:
                put_rows(self.store, each.name, start, rows, chunk_rows=chunk_rows, fill_value=each.fill)
                return
            folded = rows.reshape(plan.folded(rows.shape))
            n_images = plan.chips.n_images
            if each.of_chip:
                whole = folded if each.of_image else folded[:, 0]
                first, n_chips = start // n_images, chunk_rows // n_images
                put_rows(self.store, each.name, first, whole, chunk_rows=n_chips, fill_value=each.fill)
            elif not start:  # every chip says the same
                put_rows(self.store, each.name, 0, folded[0], chunk_rows=n_images, fill_value=each.fill)

        await self._write_in_thread(lambda: _each_in_threads(write, coordinates))

    async def write_row_table(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, Values]]
    ) -> WrittenFile | None:
        """Write ``rows.parquet`` in parts while its batches arrive."""
        assert self.shards_in is not None  # noqa: S101 # a cube that refers to tiles has no such table
        listing = asyncio.ensure_future(asyncio.to_thread(stored_shards, self.shards_in, plan))

        async def when_listed() -> AsyncGenerator[Mapping[str, Values]]:
            async for batch in batches:  # shards are listed while the first one is read
                await listing
                yield batch

        try:
            return await self._write_table(
                ROWS_KEY, when_listed(), lambda: cube_metadata(plan, listing.result())
            )
        finally:
            await asyncio.gather(listing, return_exceptions=True)

    async def write_contributors(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, Values]]
    ) -> WrittenFile | None:
        """Write ``contributors.parquet`` in parts while its batches arrive."""
        assert plan.reduction is not None  # noqa: S101 # other cubes have none
        told = {"digest": plan.digest, "reduce": plan.reduction.to_json()}
        return await self._write_table(CONTRIBUTORS_KEY, batches, lambda: told)

    async def _write_table(
        self,
        key: str,
        batches: AsyncIterator[Mapping[str, Values]],
        metadata: Callable[[], Mapping[str, Any]],
    ) -> WrittenFile | None:
        def write(values: Iterator[Mapping[str, Values]], file: IO[bytes]) -> None:
            write_row_table(values, file, metadata=metadata())

        content = _Content()
        with self._writing():
            await upload(batches, write, self.store, key, on_bytes=content.add)
        return content.file(key)

    async def write_headers(self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]) -> WrittenFile | None:
        """Write the cube's header index beside its arrays, in parts while its entries arrive."""
        content = _Content()
        with self._writing():
            await store_index(entries, self.store, HEADERS_KEY, on_bytes=content.add)
        return content.file(HEADERS_KEY)

    async def write_found_list(self, plan: CubePlan, content: bytes) -> WrittenFile:
        """Write ``sources.parquet``: what a search found, and what of it was not read."""
        return await self._put_file(found_list_key(plan), content)

    async def write_quicklooks(self, quicklooks: Sequence[Quicklooks]) -> WrittenFile:
        """Write ``quicklooks.npz``; see `quicklook_parts`."""
        return await self._put_file(QUICKLOOKS_KEY, *quicklook_parts(quicklooks))

    async def write_receipt(self, receipt: Receipt) -> None:
        """Write ``receipt.json``."""
        await self._put_file(RECEIPT_KEY, receipt.to_bytes())

    async def _put_file(self, key: str, *parts: bytes) -> WrittenFile:
        with self._writing():
            await obstore.put_async(self.store, key, parts, use_multipart=False)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return WrittenFile(key=key, nbytes=sum(map(len, parts)), sha256=digest.hexdigest())

    async def complete(self, plan: CubePlan, report: Report) -> None:
        """Write the map coordinates, consolidate the metadata and mark the cube as complete."""
        content = await self._write_in_thread(lambda: self._complete_metadata(plan, report))
        await self._put_file(ROOT_KEY, content)

    def phases(self, plan: CubePlan, found: FoundCube) -> Sequence[Sequence[str]]:
        """Return all of a new cube, else chunks, arrays' metadata, files and receipt; see `StagedCube`."""
        root: Any = json.loads(bytes(obstore.get(self.store, ROOT_KEY).bytes()))
        arrays = root["consolidated_metadata"]["metadata"]
        keys = sorted(item["path"] for item in list_objects(self.store, "") if item["path"] != ROOT_KEY)
        changed = [key for key in keys if _is_changed(key, plan, found, arrays)]
        if plan.append.is_first:
            return [changed]  # nobody reads them before the group's metadata say that the cube is complete
        phases = [[key for key in changed if belongs(key)] for belongs in _PHASES]
        if not plan.append.again:
            return phases
        # a row that was tried again is read when its status says so
        last = [key for key in phases[0] if key.startswith(_STATUS)]
        return [[key for key in phases[0] if key not in last], last, *phases[1:]]

    def chunk_keys(self, name: str) -> Mapping[int, str]:
        """Return the keys of a coordinate's chunks."""
        folder = f"{name}/c/"
        keys = [item["path"] for item in list_objects(self.store, folder)]
        return {int(key.removeprefix(folder).split("/")[0]): key for key in keys}

    def content(self, key: str) -> Content:
        """Return a file of the folder. It is not read into memory: the table of rows may be large."""
        assert isinstance(self.store, LocalStore)  # noqa: S101 # a finish stages in a folder
        with Path(str(self.store.prefix), key).open("rb") as file:
            return [memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))]

    async def _write_in_thread[T](self, write: Callable[[], T]) -> T:
        """Write in a thread, and turn errors of the store into a StoreError."""
        with self._writing():
            return await asyncio.to_thread(write)

    def _complete_metadata(self, plan: CubePlan, report: Report) -> bytes:
        """Write the arrays' last attributes. Return the group's metadata of the complete cube."""
        on_map = write_georeference(self.store, plan, report)
        if len(plan.measurements) > 1 or plan.bands_are_axis:
            names = np.array([each.name for each in plan.measurements], dtype=object)
            put_array(self.store, plan.band_dim, names, dims=(plan.band_dim,))
        of_pixels = [each.name for each in plan.arrays]
        others = self._array_names() - set(of_pixels)
        arrays = [*of_pixels, *sorted(others)]  # readers show the arrays in this order
        beside = sorted(others - {"x", "y", *plan.leading_dims, "measurement"})
        attributes: dict[str, Any] = {"coordinates": " ".join(beside)}
        if SPATIAL_REF in beside:
            attributes["grid_mapping"] = SPATIAL_REF
        for each in plan.arrays:
            first = each.measurements[0]
            scaling = {} if report.scaling_differs else scaling_attributes(first)
            overhang = {"comment": first.overhang} if report.n_overhanging else {}
            self._add_attributes(
                each.name, attributes | scaling | overhang, scaling_differs=report.scaling_differs
            )
        content = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": group_attributes(plan, report) | on_map,
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": dict(zip(arrays, _each_in_threads(self._metadata_of, arrays), strict=True)),
            },
        }
        return group_content(content)

    def _array_names(self) -> set[str]:
        """Return the names of all arrays. zarr-python's own listing would warn of the other folders."""
        return {folder for folder in root_folders(self.store) if f"{folder}/" != VERSIONS_FOLDER}

    def _add_attributes(self, name: str, attributes: Mapping[str, Any], *, scaling_differs: bool) -> None:
        """Add attributes to an array. zarr-python would have to know all of its codecs."""
        metadata = self._metadata_of(name)
        own = metadata["attributes"]
        if scaling_differs and UNITS in own:
            own[SCALED_UNITS] = own.pop(UNITS)
        own |= attributes
        content = json.dumps(metadata, indent=2, allow_nan=False).encode()
        obstore.put(self.store, f"{name}/{ROOT_KEY}", content, use_multipart=False)

    def _metadata_of(self, name: str) -> Any:
        return json.loads(bytes(obstore.get(self.store, f"{name}/{ROOT_KEY}").bytes()))

    def _writing(self) -> AbstractContextManager[None]:
        return errors_of_store(f"the files of {self.place} could not be written in a temporary folder")


def _leading_dims(plan: CubePlan, coordinate: Coordinate) -> tuple[str, ...]:
    """Return the axes that stand for rows in an array."""
    if plan.chips is None:
        return (plan.dim,)
    has = (coordinate.of_chip, coordinate.of_image)
    return tuple(dim for dim, there in zip(plan.leading_dims, has, strict=True) if there)


def _in_arrays(plan: CubePlan, coordinate: Coordinate, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return lengths that begin with a number of rows, as an array has them."""
    if plan.chips is None:
        return tuple(lengths)
    n_chips, n_images, *others = plan.folded(lengths)
    has = ((n_chips, coordinate.of_chip), (n_images, coordinate.of_image))
    return (*(length for length, there in has if there), *others)


_STATUS: Final = "status/c/"
_PHASES: Final[tuple[Callable[[str], bool], ...]] = (
    lambda key: "/c/" in key or key.endswith("/c"),
    lambda key: key.endswith(f"/{ROOT_KEY}"),
    lambda key: "/" not in key and key != RECEIPT_KEY,
    lambda key: key == RECEIPT_KEY or key.startswith(VERSIONS_FOLDER),
)
"""Which keys are put together. The receipt names the files, so it follows them."""


def _is_changed(key: str, plan: CubePlan, found: FoundCube, arrays: Mapping[str, Any]) -> bool:
    """Return whether a cube lacks an object that was staged, or has another one."""
    name, slash, rest = key.partition("/")
    if not slash or name not in found.arrays:
        return True
    if (arrays[name].get("dimension_names") or [None])[0] != plan.dim:
        return False  # the axes y and x, and the like
    _, _, place = rest.partition("c/")
    if not place:
        return True
    number, chunk_rows = int(place.split("/")[0]), plan.append.chunk_rows
    return number >= plan.first_row // chunk_rows or number in {
        row // chunk_rows for row in plan.append.again
    }


class _Content:
    """Size and digest of a file that is written in parts."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.digest = hashlib.sha256()

    def add(self, part: bytes) -> None:
        """Add the next part."""
        self.nbytes += len(part)
        self.digest.update(part)

    def file(self, key: str) -> WrittenFile | None:
        """Return the file, or None if nothing was written."""
        return (
            WrittenFile(key=key, nbytes=self.nbytes, sha256=self.digest.hexdigest()) if self.nbytes else None
        )


def _each_in_threads[Item, Found](work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """Process several arrays at a time. An error is raised after all have ended."""
    with ThreadPoolExecutor(_ARRAYS_AT_ONCE) as threads:
        return list(threads.map(work, items))
