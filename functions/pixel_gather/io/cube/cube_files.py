"""Reads and puts single objects of a cube, and tells which cube the group's metadata describe."""

import json
from collections.abc import Mapping
from datetime import datetime
from math import prod
from typing import Any

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import NOT_OF_A_CUBE, ArrayExistsError, StoreError, why_no_cube
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.stores import ROOT_KEY, Content, FoundCube, StoredObject
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.store.conditional_put import NO_ETAG, etag_of, put_if, read_if_there
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store


class CubeFiles(Struct, frozen=True):
    """A cube's objects, by their keys. The cube lies at the root of the store."""

    store: Store
    place: str
    """The location as the user wrote it, for messages."""

    may_list: bool = True
    """Whether listing is allowed. If not, S3 answers 403 for a missing object."""

    async def etag_of(self, key: str) -> str | None:
        """Return the ETag of an object; None if there is none."""
        with errors_of_store(f"{self.place} could not be read"):
            return await etag_of(self.store, key, may_list=self.may_list)

    async def read_object(self, key: str) -> StoredObject | None:
        """Return an object of the cube."""
        what = f"{self.place} could not be read"
        there = await read_if_there(self.store, key, may_list=self.may_list, what=what)
        if there is None:
            return None
        content, meta = there
        return StoredObject(
            content=content,
            etag=meta["e_tag"] or NO_ETAG,
            modified_at=meta["last_modified"].timestamp(),
        )

    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        """Put an object if its ETag is still this one; None: if there is none. Return its new ETag."""
        what = f"{self.place} could not be written"
        return await put_if(self.store, key, content, etag=replaces, what=what)

    async def read_needed(self, key: str) -> StoredObject:
        """Return an object of the cube.

        Raises:
            StoreError: There is none.
        """
        there = await self.read_object(key)
        if there is None:
            raise StoreError(f"{self.place}: {key} is missing")
        return there

    async def found_among_files(self) -> FoundCube | None:
        """Return the cube at the location, or None. Other files may be there, as nothing is to be created."""
        there = await self.read_object(ROOT_KEY)
        if there is None:
            return None
        try:
            return found_cube(json.loads(there.content), place=self.place, etag=there.etag)
        except NOT_OF_A_CUBE as error:
            raise ArrayExistsError(f"{self.place}: {why_no_cube(error)}") from error


def found_cube(root: Mapping[str, Any], *, place: str, etag: str) -> FoundCube:
    """Return the cube that a group's metadata describe.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: No gather has made them.
    """
    attributes = root["attributes"]
    gather = gather_of(attributes)
    is_complete = bool(attributes["complete"])
    template = gather.get("template") if is_complete else None
    arrays = root.get("consolidated_metadata", {}).get("metadata", {}) if is_complete else {}
    has_chips = template is not None and template.get("chips") is not None
    of_rows = arrays.get("status" if has_chips else "href")
    chunk = [0] if of_rows is None else of_rows["chunk_grid"]["configuration"]["chunk_shape"]
    kept = ("version", "digest", "planned_at", "request", "footprints")
    return FoundCube(
        place=place,
        digest=str(gather["digest"]),
        planned_at=datetime.fromisoformat(gather["planned_at"]).timestamp(),
        report=gather.get("report") if is_complete else None,
        template=None if template is None else CubeTemplate.from_json(template),
        versions=msgspec.convert(gather.get("versions", []) if is_complete else [], tuple[CubeVersion, ...]),
        origin={name: gather[name] for name in kept if name in gather},
        chunk_rows=prod(map(int, chunk[: 2 if has_chips else 1])),
        arrays=frozenset(arrays),
        etag=etag,
    )
