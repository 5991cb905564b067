"""The versions of a cube: list them, give back space, forget some."""

import asyncio
import os
from typing import Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.stores import FoundCube
from pixel_gather.engine.base_cube import find_finished_cube
from pixel_gather.engine.compact import Compacted, compact_cube
from pixel_gather.features.versions.named_version import named_before
from pixel_gather.in_process.cleanup import clear_committed
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.compact_cube import forget_versions, kept_versions
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import CONTROL_FOLDER, ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.io.store.unfinished_files import remove_unfinished

_UNFINISHED_AGE_S: Final = 24 * 3600
"""A process may be stopped while it writes, and go on. After a day nobody is expected to."""


@check_arguments
def versions(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> tuple[CubeVersion, ...]:
    """Return the versions of a cube, the first gather first.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: There is no complete cube.
        StoreError: The folder is missing, or the store failed.
    """
    return find_complete(growing_cube(cube, stores)).versions


@check_arguments
def compact(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> Compacted:
    """Free the space of chunks that later appends have replaced. Their shards are written again.

    Nothing is left of an abandoned append: neither pixels beyond the cube's rows nor its control files. In a
    folder, files that a killed process left half-written are removed once they are a day old.

    See `pixel_gather.engine.compact.compact_cube`.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: There is no complete cube, or it cannot grow.
        AppendRunningError: An append is at work, was stopped within its commit, or was committed meanwhile.
        StoreError: The folder is missing, or the store failed.
    """
    growing = growing_cube(cube, stores, to_write=True)
    find_complete(growing)

    async def compacted() -> Compacted:
        done = await compact_cube(growing)
        await clear_committed(ObjectControlStore(growing.store, CONTROL_FOLDER), done.version)
        await asyncio.to_thread(remove_unfinished, growing.store, min_age_s=_UNFINISHED_AGE_S)
        return done

    return run(compacted())


@check_arguments
def forget(
    cube: str | os.PathLike[str], before: int | str, *, stores: StoreSettings | None = None
) -> tuple[CubeVersion, ...]:
    """Remove former versions. The present version and all rows stay.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        before: A number, or a time in UTC: versions before it are removed. A date stands for its
            first moment.
        stores: How to access S3. Removing needs the right to delete objects.

    Returns:
        The versions that were removed.

    Raises:
        RequestError: There is no complete cube, or ``before`` is neither a number nor a time.
        StoreError: The folder is missing, or the store failed.
    """
    growing = growing_cube(cube, stores, to_write=True)
    former = _list_versions(growing).before(before)
    if former:
        forget_versions(growing, frozenset(each.number for each in former))
    return former


def list_versions(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> "ListedVersions":
    """Return the versions of a cube, and which of them can be opened. Arguments and errors as `versions`."""
    return _list_versions(growing_cube(cube, stores))


class ListedVersions(Struct, frozen=True):
    """The versions of a cube at one time."""

    cube: FoundCube
    there: frozenset[int]
    """Numbers of the versions that can be opened."""

    @property
    def images_per_chip(self) -> int | None:
        """How many rows each chip has, one for each image. None if the cube holds no chips."""
        report = self.cube.complete_report()
        return None if report is None else report.images_per_chip

    def before(self, before: int | str) -> tuple[CubeVersion, ...]:
        """Return the versions that `forget` would remove."""
        is_before = named_before(before)
        return tuple(
            each for each in self.cube.versions[:-1] if is_before(each) and each.number in self.there
        )


def _list_versions(growing: ZarrCube) -> ListedVersions:
    found = find_complete(growing)
    return ListedVersions(found, kept_versions(growing, found))


def growing_cube(
    cube: str | os.PathLike[str], stores: StoreSettings | None, *, to_write: bool = False
) -> ZarrCube:
    """Return the store of a cube that is there. Errors as of `open_existing`."""
    return ZarrCube(*open_existing(cube, stores, to_write=to_write))


def find_complete(growing: ZarrCube) -> FoundCube:
    """Return the complete cube at a place, with its versions.

    Raises:
        RequestError: There is no complete cube.
        StoreError: The folder is missing, or the store failed.
    """
    try:
        return run(find_finished_cube(growing, field="cube"))
    except RequestError:
        refuse_joined(
            growing.store,
            growing.place,
            done="opened as one cube",
            instead="in Python, open it by open_joined or open_virtual, with a version",
        )
        raise
