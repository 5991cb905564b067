"""Claims the location of a cube, which is a Zarr v3 group, and stores its shards. Each shard is one PUT.

Order of writing: the group's ``zarr.json`` claims the location and says ``complete: 0``. Then follow the
measurements' metadata and the shards. All else is staged, and published when the shards are there; see
`pixel_gather.engine.publish`.
"""

import asyncio
import json
import os
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError

from pixel_gather.core.claim import check_can_continue
from pixel_gather.core.errors import ArrayExistsError, BusyError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan, Measurement
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.plan.inherit import CubeTemplate
from pixel_gather.core.read.read_shard import Pixels
from pixel_gather.core.read.stored_tiles import BandTiles
from pixel_gather.core.stores import ROOT_KEY, FoundCube, RowEncoder, StoredShard
from pixel_gather.io.cube.chunk_memory import ChunkMemory, LentMemory
from pixel_gather.io.cube.shard_codec import ShardEncoder, TileShard, chunk_encoder
from pixel_gather.io.cube.zarr_metadata import (
    gather_of,
    group_attributes,
    group_content,
    put_measurement,
)
from pixel_gather.io.store.conditional_put import NO_ETAG, etag_of, put_if
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place

_CLAIM_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Longest pause after each try to claim a location while another PUT to it is running."""

RECEIPT_KEY: Final = "receipt.json"
CONTROL_FOLDER: Final = ".gather/"
UNIQUE_NBYTES: Final = 16
"""Random bytes that tell an object from every other. No index names them."""


@dataclass(frozen=True, slots=True)
class ZarrCube:
    """Implements `pixel_gather.core.stores.CubeStore` at the root of a store."""

    store: Store
    place: str
    """The location as the user wrote it, for messages."""

    may_list: bool = True
    """Whether listing is allowed. If not, S3 answers 403 for a missing object."""

    _memory: ChunkMemory = field(default_factory=ChunkMemory, repr=False, compare=False)

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if the location is empty."""
        found = await self.found_among_files()
        return found if found is not None else await self._found_in_empty_place()

    async def found_among_files(self) -> FoundCube | None:
        """Return the cube at the location, or None. Other files may be there, as nothing is to be created."""
        try:
            answer = await obstore.get_async(self.store, ROOT_KEY)
            content = json.loads(bytes(await answer.bytes_async()))
            return found_cube(content, place=self.place, etag=answer.meta["e_tag"] or NO_ETAG)
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            if isinstance(error, PermissionDeniedError) and not self.may_list:
                return None
            raise self._failed("read", error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of any other shape
            raise ArrayExistsError(
                f"{self.place}: a Zarr that no gather made is there: choose another place"
            ) from error

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
        root = {"zarr_format": 3, "node_type": "group", "attributes": group_attributes(plan)}
        plan = await self._claimed(plan, group_content(root))
        try:
            await asyncio.to_thread(self._create_measurements, plan)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error
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
        from pixel_gather.io.cube.row_table import stored_shards  # noqa: PLC0415 # not in a worker's start

        try:
            there = await asyncio.to_thread(stored_shards, self.store, plan)
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error
        return {key: etag or NO_ETAG for key, _, etag in there}

    def _create_measurements(self, plan: CubePlan) -> None:
        """Put the metadata that are missing. What is there may be that of the complete cube."""
        for measurement in plan.measurements:
            with suppress(AlreadyExistsError):
                put_measurement(self.store, plan, measurement, mode="create")

    def _failed(self, verb: str, error: Exception) -> StoreError:
        return StoreError(f"{self.place} could not be {verb}: {said_of_place(error)}")


def found_cube(root: Mapping[str, Any], *, place: str, etag: str) -> FoundCube:
    """Return the cube that a group's metadata describe.

    Args:
        root: The metadata.
        place: Where they are.
        etag: Their ETag.

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
        arrays=frozenset(arrays),
        etag=etag,
    )
