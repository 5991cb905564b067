"""Join cubes into one array by what they say of themselves, and open what was joined."""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import zarr
from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.results.join_member import OF_PIXELS, PRESENCE, Member
from pixel_gather.core.results.presence import Presence
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.results.rows_where import NumberedTexts
from pixel_gather.features.join.copied_cube import copy_cubes
from pixel_gather.features.join.find_members import find_members
from pixel_gather.features.join.icechunk_repository import (
    JoinedVersion,
    Repository,
    Transaction,
    warn_of_payers,
)
from pixel_gather.features.join.join_rows import SHOWN, check_column
from pixel_gather.features.join.joined_files import JoinedFiles
from pixel_gather.features.join.joined_group import (
    JoinedGroup,
    extend_group,
    read_groups,
    write_group,
    write_groups,
)
from pixel_gather.features.join.joined_rows import joined_columns, make_presence
from pixel_gather.features.join.read_members import MemberReader, changed_rows
from pixel_gather.features.join.references import innermost_folders
from pixel_gather.in_process.joined_places import refuse_choice
from pixel_gather.in_process.places import (
    check_new_place,
    check_place,
    open_existing,
    refuse_within_cube_of_bucket,
    show_place,
)
from pixel_gather.io.cube.bounded_codecs import open_foreign_dataset
from pixel_gather.io.cube.open_group import errors_of_cube
from pixel_gather.io.cube.served_files import Files, StoredFiles
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    import xarray as xr

type JoinMode = Literal["new", "add", "replace", "copy"]
"""What becomes of what is joined at a place."""

_GROUP: Final = "group_{}"
_NOTHING_THERE: Final = "leave out mode (--add, --replace) to join cubes there"


class Joined(Struct, frozen=True, kw_only=True):
    """What was joined."""

    place: str
    """Location: a local path, or ``s3://bucket/prefix``."""

    groups: tuple[str, ...]
    """Names of all groups that are there now. Members of one group make one array."""

    n_members: int
    """Cubes that were added."""

    n_rows: int
    """Rows of these."""

    n_shards: int
    """Shards of these that are referred to."""

    n_requests: int
    """Requests for files of the members."""

    fetched_nbytes: int
    """Bytes of these files. None of them are pixels."""

    version: int | None
    """Number of the version; None of a copy."""

    warnings: tuple[str, ...]
    """Such as that pixels of a requester-pays bucket cannot be read."""


class JoinedMember(Struct, frozen=True, kw_only=True):
    """One cube of a joined array."""

    place: str
    """Its folder, as an href."""

    version: str
    """ETag of its ``zarr.json`` when it was joined."""

    n_rows: int

    @property
    def rows_table(self) -> str:
        """Location of the table with all coordinates of its rows, which DuckDB reads."""
        return f"{show_place(self.place)}/rows.parquet"


@check_arguments
def join(
    cubes: Sequence[str | os.PathLike[str]],
    *,
    to: str | os.PathLike[str],
    mode: JoinMode = "new",
    any_grid: bool = False,
    keep: Sequence[str] = (),
    list_shards: bool = False,
    stores: StoreSettings | None = None,
) -> Joined:
    """Join complete cubes into one array for each kind of cube, by references to their shards.

    Two small files of each cube are read, and no pixel. The cubes stay where they are and as they are.
    Cubes whose grid, dtype, codec, chunks or shards differ become groups of their own, in one version.

    Args:
        cubes: Folders, ``s3://bucket/prefix``, or patterns such as ``s3://bucket/tiles/*.zarr``.
        to: Where to write the Icechunk repository: a folder, or ``s3://bucket/prefix``.
        mode: ``new``; ``add`` to what is joined there; ``replace`` it, so that former versions stay; or
            ``copy`` the shards inside the bucket, or link them on this machine, and make ``to`` a plain Zarr
            cube. For a copy, all cubes must be of one kind.
        any_grid: Join cubes whose windows have the same size although they lie at different places.
        keep: Further coordinates of the rows that become coordinates of the array.
        list_shards: Take the shards as they are now, as for cubes that were copied.
        stores: How to access S3.

    Raises:
        RequestError: A place or the mode is wrong, or no cube has a coordinate of that name.
        ArrayExistsError: Something else is at ``to``, or cubes are joined there already.
        StoreError: A cube is incomplete or has changed, or the store failed. Nothing was changed.
        BusyError: Others have joined there at the same time. Nothing was changed.
        MissingExtraError: icechunk is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    # A copy is made in another way.
    if mode == "copy":
        if keep:
            raise RequestError(
                "it is not for copies: a copy is a plain cube with all coordinates. Leave it out",
                field="keep",
            )
        return _copy(cubes, to=to, any_grid=any_grid, list_shards=list_shards, settings=stores)
    check_extra("join", "joined cubes")
    settings = stores or StoreSettings()
    # Read the members, with what must fit the cubes that are joined there.
    href = check_new_place(to)
    run(refuse_within_cube_of_bucket(href, settings))
    places = find_members(cubes, settings, to=href)
    if mode == "add":
        repository = Repository.open(href, show_place(href), settings, advice=_NOTHING_THERE)
        there = read_groups(repository.at(None))
        any_grid, keep = _as_before(there, any_grid=any_grid, keep=keep)
        _refuse_joined(there, places)
    reader = MemberReader(settings)
    wanted = list(dict.fromkeys([PRESENCE, *SHOWN, *OF_PIXELS, *keep]))
    members = run(reader.read(places, columns=wanted, lists_shards=list_shards))
    for name in keep if mode != "add" else ():  # those of an add are of the first cubes
        check_column(members, name)
    # Nothing is written before all members were read.
    if mode != "new":
        repository = Repository.open(
            href, show_place(href), settings, more_folders=innermost_folders(places), advice=_NOTHING_THERE
        )
    else:
        repository = Repository.create(href, show_place(href), settings, folders=innermost_folders(places))
    # All groups change in one version.
    n_rows = _n_existing(members)
    said = f"{'add' if mode == 'add' else 'join'} {counted(len(members), 'cube')}"
    with repository.transaction(said, {"members": len(members), "rows": n_rows}) as transaction:
        if mode == "replace":
            transaction.clear()
        names = _write(
            transaction,
            there if mode == "add" else [],
            members,
            any_grid=any_grid,
            keep=keep,
        )
    version = len(repository.history())
    warnings = warn_of_payers(
        places, settings, instead="mode copy (--copy) makes a plain cube, which can be read"
    )
    return _describe_joined(
        href, members, reader=reader, groups=tuple(names), version=version, warnings=warnings
    )


@check_arguments
def open_joined(
    cube: str | os.PathLike[str],
    version: str | int | datetime | None = None,
    *,
    group: str | None = None,
    stores: StoreSettings | None = None,
    **decoding: Any,
) -> "xr.Dataset":
    """Open joined cubes with xarray. Pixels are read when they are used.

    The dataset has the rows that exist, one cube after the other. Rows that only fill up the last shard of a
    cube are left out. If a cube has changed since it was joined, reading its pixels raises a `StoreError`
    that names it.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        version: A number, an id, or a time: the latest version of that time, or of the end of a date. None
            for the latest.
        group: Name of the group, where cubes of several kinds are joined.
        stores: How to access S3.
        decoding: Arguments of xarray that say how values are decoded: ``mask_and_scale=False`` gives them as
            they are stored.

    Raises:
        RequestError: There is no such version or group, there are several groups and none is named, or a
            virtual cube is there.
        StoreError: No joined cubes are there, or they cannot be read.
        MissingExtraError: icechunk or xarray is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    repository = open_repository(cube, stores)
    store = repository.at(version)
    joined = choose_group(read_groups(store), group)
    store.refuse(joined.changed_shards())
    with errors_of_cube(str(cube)):
        whole = open_foreign_dataset(store, decoding, joined.name)
    there = joined.presence
    found = whole if there.all() else whole.isel({joined.dim: np.flatnonzero(there)})
    return found.drop_vars("presence")


@check_arguments
def joined_versions(
    cube: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> list[JoinedVersion]:
    """Return all versions of joined cubes, the latest first. Errors as in `open_joined`."""
    return open_repository(cube, stores).history()


@check_arguments
def joined_members(
    cube: str | os.PathLike[str],
    version: str | int | datetime | None = None,
    *,
    group: str | None = None,
    stores: StoreSettings | None = None,
) -> list[JoinedMember]:
    """Return the cubes of a joined array in the order of their rows. Arguments and errors: `open_joined`."""
    table = choose_group(read_groups(open_repository(cube, stores).at(version)), group).members()
    rows = zip(table["place"], table["version"], table["n_rows"], strict=True)
    return [JoinedMember(place=str(at), version=str(etag), n_rows=int(n)) for at, etag, n in rows]


def read_joined_rows(
    place: str | os.PathLike[str],
    names: Iterable[str],
    *,
    group: str | None,
    version: str | int | datetime | None,
    stores: StoreSettings | None,
    field: str,
) -> dict[str, Values | NumberedTexts]:
    """Return coordinates of the rows that exist, by name. Errors as in `open_joined`."""
    joined = choose_group(read_groups(open_repository(place, stores).at(version)), group)
    return joined_columns(joined, names, reader=MemberReader(stores or StoreSettings()), field=field)


def joined_presence(
    place: str | os.PathLike[str],
    by: str,
    *,
    group: str | None,
    version: str | int | datetime | None,
    stores: StoreSettings | None,
) -> Presence:
    """Return a grid of presence. Errors as in `open_joined`."""
    joined = choose_group(read_groups(open_repository(place, stores).at(version)), group)
    return make_presence(joined, by, reader=MemberReader(stores or StoreSettings()))


def joined_files(
    place: str | os.PathLike[str], *, group: str | None, stores: StoreSettings | None
) -> JoinedFiles:
    """Return the files of the latest version, as if they were one cube. Errors as in `open_joined`.

    A virtual cube may be there, too.
    """
    store = open_repository(place, stores).at(None)
    root = zarr.open_group(store, mode="r", use_consolidated=False)
    if "groups" not in root.attrs:
        refuse_choice(group, None)
        measurements = tuple(gather_of(root.attrs)["report"]["measurements"])
        store.refuse(changed_rows(root, measurements))
        return JoinedFiles(store, root, measurements)
    joined = choose_group(read_groups(store), group)
    store.refuse(joined.changed_shards())
    measurements = tuple(joined.record["kind"]["measurements"])
    return JoinedFiles(store, joined.group, measurements, first_member=_first_member(joined, stores))


def _first_member(joined: JoinedGroup, stores: StoreSettings | None) -> Files | None:
    """Return the files of the cube that the first row comes from; None if its folder is gone."""
    try:
        return StoredFiles(open_existing(show_place(str(joined.members()["place"][0])), stores)[0])
    except StoreError:
        return None


def open_repository(place: str | os.PathLike[str], stores: StoreSettings | None) -> Repository:
    """Return the repository at a place. Errors as in `open_joined`."""
    href = check_place(place, field="cube", is_read=True)
    return Repository.open(href, show_place(href), stores or StoreSettings())


def choose_group(groups: Sequence[JoinedGroup], name: str | None) -> JoinedGroup:
    """Return the named group, or the only one.

    Raises:
        RequestError: There is no such group, or there are several and none is named.
    """
    names = ", ".join(each.name for each in groups)
    if name is None:
        if len(groups) > 1:
            raise RequestError(f"cubes of several kinds are joined there: name one of {names}", field="group")
        return groups[0]
    found = next((each for each in groups if each.name == name), None)
    if found is None:
        raise RequestError(f"there is no group {name!r}; there are {names}", field="group")
    return found


def _copy(
    cubes: Sequence[str | os.PathLike[str]],
    *,
    to: str | os.PathLike[str],
    any_grid: bool,
    list_shards: bool,
    settings: StoreSettings | None,
) -> Joined:
    reader = MemberReader(settings or StoreSettings())
    href = check_new_place(to)
    run(refuse_within_cube_of_bucket(href, reader.settings))
    places = find_members(cubes, reader.settings, to=href)
    members = run(reader.read(places, columns=None, lists_shards=list_shards))
    run(copy_cubes(href, members, place=show_place(href), any_grid=any_grid, reader=reader))
    return _describe_joined(href, members, reader=reader, groups=(), version=None)


def _describe_joined(
    href: str,
    members: Sequence[Member],
    *,
    reader: MemberReader,
    groups: tuple[str, ...],
    version: int | None,
    warnings: tuple[str, ...] = (),
) -> Joined:
    return Joined(
        place=show_place(href),
        groups=groups,
        n_members=len(members),
        n_rows=_n_existing(members),
        n_shards=sum(len(each.shards) for each in members),
        n_requests=reader.n_requests,
        fetched_nbytes=reader.fetched_nbytes,
        version=version,
        warnings=warnings,
    )


def _n_existing(members: Sequence[Member]) -> int:
    return sum(int(each.exists.sum()) for each in members)


def _as_before(
    there: Sequence[JoinedGroup], *, any_grid: bool, keep: Sequence[str]
) -> tuple[bool, Sequence[str]]:
    """Return how the first cubes were joined. Refuse other wishes."""
    if any_grid or keep:
        raise RequestError(
            "cubes are added as the first ones were joined: leave out any_grid and keep (--any-grid, "
            "--keep), or join all cubes again by mode replace (--replace)",
            field="add",
        )
    columns = dict.fromkeys(name for each in there for name in each.record["columns"])
    return bool(there[0].record["any_grid"]), [name for name in columns if name not in SHOWN]


def _refuse_joined(there: Sequence[JoinedGroup], places: Sequence[str]) -> None:
    known = {str(place) for each in there for place in each.members()["place"]}
    again = next((place for place in places if place in known), None)
    if again is not None:
        raise RequestError(
            f"{show_place(again)} is joined there already; if it has changed since, join all cubes again by "
            "mode replace (--replace)",
            field="cubes",
        )


def _write(
    transaction: Transaction,
    there: Sequence[JoinedGroup],
    members: Sequence[Member],
    *,
    any_grid: bool,
    keep: Sequence[str],
) -> list[str]:
    """Write the members into the groups that they fit, and into new ones. Return the names of all groups."""
    kinds: list[Any] = [each.record["kind"] for each in there]
    of_kind: list[list[Member]] = [[] for _ in kinds]
    lacking = [set(OF_PIXELS).difference(each.record["columns"]) for each in there]
    for member in members:
        kind = member.kind(any_grid=any_grid)
        fitting = (
            n for n, known in enumerate(kinds) if known == kind and lacking[n].isdisjoint(member.of_pixels)
        )
        at = next(fitting, len(kinds))
        if at == len(kinds):
            kinds.append(kind)
            of_kind.append([])
            lacking.append(set())
        of_kind[at].append(member)
    names = [_GROUP.format(n) for n in range(1, len(kinds) + 1)]
    write_groups(transaction.store, names)
    kept = list(dict.fromkeys(keep))
    opened = {each.name: each for each in read_groups(transaction.store, names[: len(there)])}
    for name, own in zip(names, of_kind, strict=True):
        if own and name in opened:
            extend_group(transaction, opened[name], own)
        elif own:
            of_group = [column for column in kept if any(column in each.columns for each in own)]
            write_group(transaction, name, own, any_grid=any_grid, keep=of_group)
    return names
