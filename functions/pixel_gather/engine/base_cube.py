"""What the rows of a plan are added to: nothing yet, the cube of an archive, or a cube that is there."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pixel_gather.core.claim import find_cube
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.stores import NOT_COMPLETE, ArchiveStore, CubeStore, FoundCube
from pixel_gather.engine.archive import read_archive

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

APPEND_TO: Final = "output.append_to"
"""The field of a request that names the cube to which rows are added."""


class Base(Struct, frozen=True, kw_only=True):
    """What the rows of a plan are added to. The defaults are those of a new cube."""

    template: CubeTemplate | None = None
    """What the plan inherits; None if it is free."""

    append: Append = msgspec.field(default_factory=Append)
    """Where the new rows go."""

    shards: Mapping[str, int] = {}
    """Size in bytes of each shard that is stored, by its key."""

    rows: Iterator[Mapping[str, Any]] = msgspec.field(default_factory=lambda: iter(()))
    """Values of the rows that are there, in batches. They can be read once."""


async def read_base(
    request: "GatherRequest",
    archive: ArchiveStore | None,
    cube: CubeStore | None,
    found: FoundCube | None,
) -> Base:
    """Return what the rows of a request are added to.

    Args:
        request: The checked request.
        archive: The folder of the cube, for the request's archive if it names one.
        cube: The place; not needed for a new cube.
        found: The complete cube that is there; not needed for a new cube.

    Raises:
        RequestError: The cube cannot grow.
        StoreError: A store failed, or a file is damaged.
    """
    if request.output.append_to is None:
        return Base(template=await read_archive(request, archive))
    assert cube is not None  # noqa: S101 # `find_growing_cube` has found it
    assert found is not None  # noqa: S101 # as above
    assert found.template is not None  # noqa: S101 # as above
    if found.template.codec == AS_STORED:
        raise RequestError("a cube of codec source cannot grow: gather a new cube", field=APPEND_TO)
    _check_kind(request, found)
    metadata, batches = await cube.row_table()
    return Base(
        template=found.template,
        append=Append(
            version=found.version + 1,
            first_row=found.versions[-1].n_rows,
            chunk_rows=found.chunk_rows,
            versions=found.versions,
            origin=dict(found.origin),
            place_claim=found.claim,
        ),
        shards={key: nbytes for key, nbytes, _ in metadata["shards"]},
        rows=batches,
    )


def _check_kind(request: "GatherRequest", found: FoundCube) -> None:
    """Refuse chips for a cube of one window, and one window for a cube of chips."""
    has_chips = "windows" in found.origin.get("request", {})
    if has_chips and request.windows is None:
        raise RequestError(
            f"{found.place} is a cube of chips and cannot grow by other windows: give windows, a table of "
            "more chips of its images",
            field=APPEND_TO,
        )
    if request.windows is not None and not has_chips:
        raise RequestError(
            f"{found.place} has one window and takes no chips: leave windows out", field="windows"
        )
    if has_chips and (found.template is None or found.template.chips is None):
        raise RequestError(
            f"an earlier version gathered the chips of {found.place}, and they cannot grow: gather new ones",
            field=APPEND_TO,
        )


async def find_place(request: "GatherRequest", cube: CubeStore, digest: str | None) -> FoundCube | None:
    """Return the cube that is at the place of a request; None if the place is empty.

    Args:
        request: The checked request.
        cube: The place.
        digest: Digest of the request and its list. None if the list is not known yet: then any cube is
            returned.

    Raises:
        ArrayExistsError: A new cube is asked for, and something else is there.
        RequestError: There is no cube to which rows can be added.
    """
    if request.output.append_to is not None:
        return await find_growing_cube(cube, field=APPEND_TO)
    if digest is None:
        return await cube.found()
    return await find_cube(cube, digest, request.without_key().to_json())


async def find_growing_cube(cube: CubeStore, *, field: str) -> FoundCube:
    """Return the cube that rows are to be added to.

    Args:
        cube: Where to look.
        field: The field or argument that names the cube, for messages.

    Raises:
        RequestError: There is none that rows can be added to.
    """
    found = await find_finished_cube(cube, field=field)
    if found.template is None:
        raise RequestError(
            f"{cube.place} is a copy of joined cubes and cannot grow: append to its members and copy again",
            field=field,
        )
    if found.template.reduce is not None and not found.template.scene_slots:
        raise RequestError(
            f"{cube.place} was made by an earlier version and does not describe its scenes, so it cannot "
            "grow: gather a new cube",
            field=field,
        )
    return found


async def find_finished_cube(cube: CubeStore, *, field: str) -> FoundCube:
    """Return the complete cube that is there, whether it can grow or not.

    Args:
        cube: Where to look.
        field: The field or argument that names the cube, for messages.

    Raises:
        RequestError: There is none.
    """
    found = await cube.found_among_files()
    if found is None:
        raise RequestError(
            f"{cube.place} holds no cube: name an existing one, or gather a new one", field=field
        )
    if not found.versions:
        raise RequestError(f"{cube.place}: {NOT_COMPLETE}", field=field)
    return found
