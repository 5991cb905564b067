"""The versions of a cube: list them, open one, give back space, forget some."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from operator import index
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.plan.cube_version import CubeVersion, version_key
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.stores import FoundCube
from pixel_gather.core.time_range import last_moment
from pixel_gather.engine.base import find_finished_cube
from pixel_gather.engine.compact import Compacted, compact_cube
from pixel_gather.in_process.cleanup import clear_committed
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.compact_cube import forget_versions, kept_versions
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.open_group import errors_of_cube
from pixel_gather.io.cube.zarr_cube import CONTROL_FOLDER, ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.io.store.unfinished_files import remove_unfinished

if TYPE_CHECKING:
    import xarray as xr

_FIELD: Final = "version"
_BEFORE: Final = "before"
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
    return _find_version(_growing(cube, stores)).versions


@check_arguments
def open_cube(
    cube: str | os.PathLike[str],
    version: int | str | None = None,
    *,
    stores: StoreSettings | None = None,
    **decoding: Any,
) -> "xr.Dataset":
    """Open a cube with xarray, as it is or as it was. Pixels are read when they are used.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        version: A number, or a time such as ``2026-11-01`` or ``2026-11-01T12:00``, in UTC. A time stands for
            the last version that was committed by then, and a date for the last one of that day or before.
            None for the present version.
        stores: How to access S3.
        decoding: Arguments of xarray that say how values are decoded: ``mask_and_scale=False`` gives them as
            they are stored.

    Raises:
        RequestError: There is no such version, it was forgotten, or there is no complete cube.
        StoreError: The folder is missing, or the store failed.
        MissingExtraError: xarray is not installed.
    """
    check_extra("xarray", "datasets")
    from zarr.storage import ObjectStore  # noqa: PLC0415 # 0.2 s

    from pixel_gather.io.cube.bounded_codecs import open_foreign_dataset  # noqa: PLC0415 # as above
    from pixel_gather.io.cube.version_store import VersionStore  # noqa: PLC0415 # as above

    growing = _growing(cube, stores)
    found = _find_version(growing)
    number = found.version if version is None else _number_of(found, version)
    store = ObjectStore(growing.store, read_only=True)
    if number == found.version:
        with errors_of_cube(growing.place):
            return open_foreign_dataset(store, decoding)
    root = run(growing.read_object(version_key(number)))
    if root is None:
        raise RequestError(f"version {number} was forgotten", field=_FIELD)
    with errors_of_cube(growing.place):
        return open_foreign_dataset(VersionStore(store, root.content), decoding)


@check_arguments
def compact(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> Compacted:
    """Free the space of chunks that later appends have replaced. Their shards are written again.

    Nothing is left of an abandoned append: neither pixels beyond the cube's rows nor its control files. In a
    folder, files that a killed process left half-written are removed once they are a day old.

    See `pixel_gather.engine.compact.compact_cube`.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        stores: How to access S3.
    """
    growing = _growing(cube, stores, to_write=True)

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
    """
    growing = _growing(cube, stores, to_write=True)
    former = _list_versions(growing).before(before)
    if former:
        forget_versions(growing, frozenset(each.number for each in former))
    return former


def list_versions(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> "ListedVersions":
    """Return the versions of a cube, and which of them can be opened. Arguments and errors as `versions`."""
    return _list_versions(_growing(cube, stores))


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
        is_before = _before(before)
        return tuple(
            each for each in self.cube.versions[:-1] if is_before(each) and each.number in self.there
        )


def _list_versions(growing: ZarrCube) -> ListedVersions:
    found = _find_version(growing)
    return ListedVersions(found, kept_versions(growing, found))


def _growing(
    cube: str | os.PathLike[str], stores: StoreSettings | None, *, to_write: bool = False
) -> ZarrCube:
    return ZarrCube(*open_existing(cube, stores, to_write=to_write))


def _find_version(growing: ZarrCube) -> FoundCube:
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


def _number_of(found: FoundCube, version: int | str) -> int:
    """Return the number of a version that is named by its number or by a time."""
    numbers = [each.number for each in found.versions]
    version = _as_named(version, _FIELD)
    if isinstance(version, int) or version.isdecimal():
        if int(version) not in numbers:
            there = f"versions 1 to {numbers[-1]}" if numbers[-1] > 1 else "version 1 alone"
            raise RequestError(
                f"the cube has the {there}, not {version}; write a time as 2026-11-01 or 2026-11-01T12:00",
                field=_FIELD,
            )
        return int(version)
    until = _time(version, _FIELD, last_moment)
    by_then = [each.number for each in found.versions if _time(each.committed_at, _FIELD) <= until]
    if not by_then:
        first = found.versions[0].committed_at
        raise RequestError(f"the first version is of {first}: there was none by {version}", field=_FIELD)
    return by_then[-1]


def _as_named(version: object, field: str) -> int | str:
    """Return a version's number or time as text; of dates and numbers of other packages, too."""
    if isinstance(version, str):
        return version
    if isinstance(version, date):  # a datetime is one
        return version.isoformat()
    if isinstance(version, SupportsIndex) and not isinstance(version, bool):
        return index(version)
    raise RequestError(
        f"it is of type {type(version).__name__}; write a number, or a time as 2026-11-01", field=field
    )


def _before(text: int | str) -> Callable[[CubeVersion], bool]:
    text = _as_named(text, _BEFORE)
    if isinstance(text, int) or text.isdecimal():
        number = int(text)
        return lambda each: each.number < number
    until = _time(text, _BEFORE)
    return lambda each: _time(each.committed_at, _BEFORE) < until


def _time(text: str, field: str, read: Callable[[str], datetime] = datetime.fromisoformat) -> datetime:
    try:
        found = read(text)
    except ValueError as error:
        raise RequestError(
            f"{text!r} is no number and no time such as 2026-11-01 or 2026-11-01T12:00", field=field
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
