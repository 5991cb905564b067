"""Writes the cube as a Zarr v3 group. Each shard is one PUT.

Order of writing: the group's ``zarr.json`` claims the location and says ``complete: 0``. Then follow the
arrays' metadata, the shards and the coordinates. The group's consolidated metadata comes last.
"""

import asyncio
import hashlib
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError
from obstore.store import LocalStore

from pixel_gather.adapters.cube.array_chunks import put_rows, write_small_array
from pixel_gather.adapters.cube.chunk_memory import ChunkMemory, LentMemory
from pixel_gather.adapters.cube.map_coordinates import SPATIAL_REF, write_georeference
from pixel_gather.adapters.cube.quicklook_file import QUICKLOOKS_KEY, quicklook_parts
from pixel_gather.adapters.cube.shard_codec import ShardEncoder, TileShard, chunk_encoder
from pixel_gather.adapters.cube.tile_codecs import Codecs, tile_codecs
from pixel_gather.adapters.cube.zarr_metadata import (
    coordinate_attributes,
    gather_of,
    group_attributes,
    measurement_attributes,
    put_metadata,
    put_pixel_array,
    scaling_attributes,
    zarr_codecs,
)
from pixel_gather.adapters.object_store.conditional_put import NO_ETAG, etag_of, put_if
from pixel_gather.adapters.object_store.listed import root_folders
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import said_of_place
from pixel_gather.claim import check_can_continue, check_found_claim
from pixel_gather.errors import ArrayExistsError, BusyError, StoreError
from pixel_gather.plan.cube_plan import CubePlan, Measurement
from pixel_gather.plan.cube_version import CubeVersion
from pixel_gather.plan.inherit import CubeTemplate
from pixel_gather.read.read_shard import Pixels
from pixel_gather.read.stored_tiles import BandTiles
from pixel_gather.stores import FoundCube, RowEncoder, StoredShard

if TYPE_CHECKING:  # not in a worker's start
    from obstore import PutMode

    from pixel_gather.read.quicklook import Quicklooks
    from pixel_gather.report.receipt import Receipt, WrittenFile
    from pixel_gather.report.report import Report
    from pixel_gather.report.row_coordinates import Coordinate, Values

_ARRAYS_AT_ONCE: Final = 8
"""Each array waits for one or two requests. A cube has some 20 arrays, written in 62 batches for a million
sources."""

_CLAIM_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Longest pause after each try to claim a location while another PUT to it is running."""

ROOT_KEY: Final = "zarr.json"
FOUND_LIST_KEY: Final = "sources.parquet"
RECEIPT_KEY: Final = "receipt.json"
CONTROL_FOLDER: Final = ".gather/"
UNIQUE_NBYTES: Final = 16
"""Random bytes that tell an object from every other. No index names them."""

VERSIONS_FOLDER: Final = "versions/"
"""What appends keep: the metadata of former versions, and the list that each search has found."""


def found_list_key(plan: CubePlan) -> str:
    """Return the key of the list that a search found. Each append has its own."""
    return FOUND_LIST_KEY if plan.append is None else f"versions/{plan.append.version:05d}.{FOUND_LIST_KEY}"


@dataclass(frozen=True, slots=True)
class ZarrCube:
    """Implements `pixel_gather.stores.CubeStore` at the root of a store."""

    store: Store
    place: str
    """The location as the user wrote it, for messages."""

    shards_in: Store | None = None
    """Where the shards are. None if they are at the root of ``store``, as in every cube but a staged one."""

    is_sharded: bool = True
    """False if each chunk is an object of its own, as the tiles are that a cube refers to."""

    _memory: ChunkMemory = field(default_factory=ChunkMemory, repr=False, compare=False)

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if the location is empty."""
        found, _ = await self._found_version()
        return found if found is not None else await self._found_in_empty_place()

    async def found_among_files(self) -> FoundCube | None:
        """Return the cube at the location, or None. Other files may be there, as nothing is to be created."""
        found, _ = await self._found_version()
        return found

    async def _found_version(self) -> tuple[FoundCube | None, str | None]:
        """Return the cube that the group's metadata describe, and their ETag; twice None without metadata."""
        try:
            answer = await obstore.get_async(self.store, ROOT_KEY)
            found = found_cube(json.loads(bytes(await answer.bytes_async())), place=self.place)
        except FileNotFoundError:
            return None, None
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of any other shape
            raise ArrayExistsError(
                f"{self.place}: a Zarr that no gather made is there: choose another place"
            ) from error
        return found, answer.meta["e_tag"]

    async def _found_in_empty_place(self) -> FoundCube | None:
        """Return None, or the cube that another gather has created there meanwhile."""
        try:
            async for page in obstore.list(self.store, chunk_size=2):
                others = [item["path"] for item in page if not item["path"].startswith(CONTROL_FOLDER)]
                if ROOT_KEY in others:
                    return await self.found()
                if others:
                    raise ArrayExistsError(
                        f"{self.place}: it is not empty ({others[0]} is there) and holds no cube: "
                        "choose another place"
                    )
        except (BaseError, OSError) as error:
            raise self._failed("listed", error) from error
        return None

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the location, or resume a claim of the same digest. Write the measurements' metadata."""
        content = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": group_attributes(plan)})
        plan = await self._claimed(plan, content.encode())
        await self._write_in_thread(self._create_measurements, plan)
        return plan

    async def _claimed(self, plan: CubePlan, content: bytes) -> CubePlan:
        """Put the group's metadata if there are none. Return the plan of the gather that was first.

        S3 refuses a conditional PUT if the object exists. It also refuses it (409) while another such PUT is
        running, and that one may still fail. For both, obstore raises the same error. So this looks what is
        there.
        """
        for longest_s in _CLAIM_PAUSES_S:
            try:
                await obstore.put_async(self.store, ROOT_KEY, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                found = await self.found()
                if found is None:
                    await asyncio.sleep(random.uniform(longest_s / 2, longest_s))  # noqa: S311 # no secret
                    continue
                check_can_continue(found, plan.digest)
                return replace(plan, planned_at=found.planned_at)
            except (BaseError, OSError) as error:
                raise self._failed("written", error) from error
            return plan
        raise BusyError(f"{self.place}: others are writing there at the same time: run again")

    def encoder(
        self, plan: CubePlan, measurement: Measurement, pixels: Pixels | BandTiles
    ) -> ShardEncoder | TileShard:
        """Return what compresses a shard's pixels, or keeps its tiles as they are."""
        if isinstance(pixels, BandTiles):
            return TileShard(pixels, shard=plan.layout.shard, chunk=plan.layout.chunk)
        memory = LentMemory(self._memory)
        encode = chunk_encoder(
            plan.codec,
            itemsize=pixels.itemsize,
            fill_value=measurement.fill_value,
            zfp_tolerance=plan.zfp_tolerance,
            take=memory.take,
        )
        return ShardEncoder(
            pixels,
            shard=plan.layout.shard,
            chunk=plan.layout.chunk,
            fill_value=measurement.fill_value,
            encode=encode,
            memory=memory,
        )

    async def write_shard(
        self,
        measurement: Measurement,
        key: tuple[int, int, int],
        encoder: RowEncoder,
        *,
        replaces: str | None,
    ) -> StoredShard | None:
        """Store a compressed shard in one PUT. One that replaces another has random bytes in it."""
        parts = list(encoder.parts())
        if replaces is not None:
            parts.insert(len(parts) - 1, os.urandom(UNIQUE_NBYTES))
        path = f"{measurement.name}/c/{'/'.join(map(str, key))}"
        etag = await put_if(self.store, path, parts, etag=replaces, failed=partial(self._failed, "written"))
        return None if etag is None else StoredShard(nbytes=sum(map(len, parts)), etag=etag)

    async def shard_etag(self, key: str) -> str | None:
        """Return the ETag of a shard's object. A worker may not list, so S3 answers 403 if there is none."""
        try:
            return await etag_of(self.store, key)
        except PermissionDeniedError:
            return None
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Return the ETags of all shards' objects. S3 needs one request for 1,000 of them."""
        from pixel_gather.adapters.cube.row_table import stored_shards  # noqa: PLC0415 # not in a worker's start

        try:
            there = await asyncio.to_thread(stored_shards, self.store, plan)
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error
        return {key: etag or NO_ETAG for key, _, etag in there}

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        """Write the metadata of the coordinates along the first axis."""
        await self._write_in_thread(self._create_coordinates, plan, coordinates)

    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence["Coordinate"], start: int, values: Mapping[str, "Values"]
    ) -> None:
        """Write consecutive rows of several coordinates, in whole chunks."""
        await self._write_in_thread(self._write_rows, plan, coordinates, start, values)

    async def write_row_table(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, "Values"]]
    ) -> "WrittenFile | None":
        """Write ``rows.parquet`` in parts while its batches arrive."""
        from pixel_gather.adapters.cube.row_table import (  # noqa: PLC0415 # see above
            ROWS_KEY,
            cube_metadata,
            stored_shards,
            write_row_table,
        )
        from pixel_gather.adapters.cube.upload import upload  # noqa: PLC0415 # as above

        def write(values: Iterator[Mapping[str, "Values"]], file: IO[bytes]) -> None:
            write_row_table(values, file, metadata=cube_metadata(plan, stored_shards(shards_in, plan)))

        content, shards_in = _Content(), self.shards_in or self.store
        try:
            await upload(batches, write, self.store, ROWS_KEY, on_bytes=content.add)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error
        return content.file(ROWS_KEY)

    async def write_headers(
        self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]
    ) -> "WrittenFile | None":
        """Write the cube's header index beside its arrays, in parts while its entries arrive."""
        from pixel_gather.adapters.cube.header_index import HEADERS_KEY, store_index  # noqa: PLC0415 # see above

        content = _Content()
        try:
            await store_index(entries, self.store, HEADERS_KEY, on_bytes=content.add)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error
        return content.file(HEADERS_KEY)

    async def write_found_list(self, plan: CubePlan, content: bytes) -> "WrittenFile":
        """Write ``sources.parquet``: what a search found, and what of it was not read."""
        return await self._put_file(found_list_key(plan), content)

    async def write_quicklooks(self, quicklooks: Sequence["Quicklooks"]) -> "WrittenFile":
        """Write ``quicklooks.npz``; see `quicklook_parts`."""
        return await self._put_file(QUICKLOOKS_KEY, *quicklook_parts(quicklooks))

    async def write_receipt(self, receipt: "Receipt") -> None:
        """Write ``receipt.json``."""
        await self._put_file(RECEIPT_KEY, receipt.to_bytes())

    async def _put_file(self, key: str, *parts: bytes) -> "WrittenFile":
        from pixel_gather.report.receipt import WrittenFile  # noqa: PLC0415 # see above

        try:
            await obstore.put_async(self.store, key, parts, use_multipart=False)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return WrittenFile(key=key, nbytes=sum(map(len, parts)), sha256=digest.hexdigest())

    async def complete(self, plan: CubePlan, report: "Report") -> None:
        """Write the map coordinates, consolidate the metadata and mark the cube as complete.

        The last PUT replaces the metadata only if they are still those of this plan. S3 checks that by ETag.
        """
        found, etag = await self._found_version()
        check_found_claim(found, plan)
        content = await self._write_in_thread(self._completed, plan, report)
        mode: PutMode = "overwrite" if etag is None else {"e_tag": etag}
        if isinstance(self.store, LocalStore):  # it has no conditional PUT, so look again right before
            check_found_claim((await self._found_version())[0], plan)
            mode = "overwrite"
        try:
            await obstore.put_async(self.store, ROOT_KEY, content, mode=mode, use_multipart=False)
        except PreconditionError as error:
            if check_found_claim((await self._found_version())[0], plan).report is None:
                raise self._failed("written", error) from error
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    async def _write_in_thread[*Ts, T](self, write: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Write in a thread, and turn errors of the store into a StoreError."""
        try:
            return await asyncio.to_thread(write, *arguments)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    def _create_measurements(self, plan: CubePlan) -> None:
        for measurement in plan.measurements:
            put_pixel_array(
                self.store,
                measurement.name,
                shape=plan.shape,
                layout=plan.layout,
                is_sharded=self.is_sharded,
                dtype=measurement.dtype,
                fill_value=measurement.fill_value,
                dims=(plan.dim, "y", "x"),
                attributes=measurement_attributes(measurement),
                codecs=_codecs_of(plan, measurement),
            )

    def _create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        rows = _chunk_rows(plan)

        def create(each: "Coordinate") -> None:
            put_metadata(
                self.store,
                each.name,
                shape=each.shape,
                chunks=(rows, *each.shape[1:]),
                dtype=each.dtype,
                fill_value=each.fill,
                dims=each.dims,
                attributes=coordinate_attributes(each),
            )

        _each_in_threads(create, coordinates)

    def _write_rows(
        self, plan: CubePlan, coordinates: Sequence["Coordinate"], start: int, values: Mapping[str, "Values"]
    ) -> None:
        chunk_rows = _chunk_rows(plan)

        def write(each: "Coordinate") -> None:
            rows = np.asarray(values[each.name], dtype=object if each.dtype == "string" else each.dtype)
            put_rows(self.store, each.name, start, rows, chunk_rows=chunk_rows, fill_value=each.fill)

        _each_in_threads(write, coordinates)

    def _completed(self, plan: CubePlan, report: "Report") -> bytes:
        """Write the arrays' last attributes. Return the group's metadata of the complete cube."""
        on_map = write_georeference(self.store, plan, report)
        if len(plan.measurements) > 1:
            names = np.array([each.name for each in plan.measurements], dtype=object)
            write_small_array(self.store, "measurement", names, dims=("measurement",))
        measurements = [each.name for each in plan.measurements]
        others = self._array_names() - set(measurements)
        arrays = [*measurements, *sorted(others)]  # readers show the arrays in this order
        beside = sorted(others - {"x", "y", plan.dim, "measurement"})
        attributes: dict[str, Any] = {"coordinates": " ".join(beside)}
        if SPATIAL_REF in beside:
            attributes["grid_mapping"] = SPATIAL_REF
        for each in plan.measurements:
            scaling = {} if report.scaling_differs else scaling_attributes(each)
            overhang = {"comment": each.overhang} if report.n_overhanging else {}
            self._add_attributes(each.name, attributes | scaling | overhang)
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
        return json.dumps(content).encode()

    def _array_names(self) -> set[str]:
        """Return the names of all arrays. zarr-python's own listing would warn of the other folders."""
        return {
            folder
            for folder in root_folders(self.store)
            if f"{folder}/" not in (CONTROL_FOLDER, VERSIONS_FOLDER)
        }

    def _add_attributes(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add attributes to an array. zarr-python would have to know all of its codecs."""
        metadata = self._metadata_of(name)
        metadata["attributes"] |= attributes
        content = json.dumps(metadata, indent=2, allow_nan=False).encode()
        obstore.put(self.store, f"{name}/{ROOT_KEY}", content, use_multipart=False)

    def _metadata_of(self, name: str) -> Any:
        return json.loads(bytes(obstore.get(self.store, f"{name}/{ROOT_KEY}").bytes()))

    def _failed(self, verb: str, error: Exception) -> StoreError:
        return StoreError(f"{self.place} could not be {verb}: {said_of_place(error)}")


def _chunk_rows(plan: CubePlan) -> int:
    """Return the number of rows in a chunk of every coordinate."""
    from pixel_gather.report.row_coordinates import chunk_rows  # noqa: PLC0415 # see above

    return chunk_rows(plan.n_rows) if plan.append is None else plan.append.chunk_rows


def _codecs_of(plan: CubePlan, measurement: Measurement) -> Codecs:
    coding = plan.slots[measurement.slot].coding
    if coding is not None:
        return tile_codecs(coding)
    return zarr_codecs(plan.codec, itemsize=np.dtype(measurement.dtype).itemsize)


def found_cube(root: Mapping[str, Any], *, place: str) -> FoundCube:
    """Return the cube that a group's metadata describe.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: No gather has made them.
    """
    attributes = root["attributes"]
    gather = gather_of(attributes)
    is_complete = bool(attributes["complete"])
    template = gather.get("template") if is_complete else None
    arrays = root.get("consolidated_metadata", {}).get("metadata", {})
    href = arrays.get("href", {"chunk_grid": {"configuration": {"chunk_shape": [0]}}})
    kept = ("version", "digest", "planned_at", "request", "footprints")
    return FoundCube(
        place=place,
        digest=str(gather["digest"]),
        planned_at=datetime.fromisoformat(gather["planned_at"]).timestamp(),
        report=gather.get("report") if is_complete else None,
        template=None if template is None else CubeTemplate.from_json(template),
        versions=msgspec.convert(gather.get("versions", []) if is_complete else [], tuple[CubeVersion, ...]),
        origin={name: gather[name] for name in kept if name in gather},
        chunk_rows=int(href["chunk_grid"]["configuration"]["chunk_shape"][0]),
    )


class _Content:
    """Size and digest of a file that is written in parts."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.digest = hashlib.sha256()

    def add(self, part: bytes) -> None:
        """Add the next part."""
        self.nbytes += len(part)
        self.digest.update(part)

    def file(self, key: str) -> "WrittenFile | None":
        """Return the file, or None if nothing was written."""
        from pixel_gather.report.receipt import WrittenFile  # noqa: PLC0415 # see above

        return (
            WrittenFile(key=key, nbytes=self.nbytes, sha256=self.digest.hexdigest()) if self.nbytes else None
        )


def _each_in_threads[Item, Found](work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """Process several arrays at a time. An error is raised after all have ended."""
    with ThreadPoolExecutor(_ARRAYS_AT_ONCE) as threads:
        return list(threads.map(work, items))
