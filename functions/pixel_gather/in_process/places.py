"""Places of cubes and files, as a user of this process names them."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import DAMAGED_JSON, GatherError, RequestError, StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.check_file_name import check_file_name
from pixel_gather.core.request.href_policy import (
    BUCKET_SCHEMES,
    IN_PROCESS,
    HrefPolicy,
    bucket_address,
    check_href,
    checked_href,
    place_text,
    with_home,
    without_dots,
)
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.store.object_store import Store, open_place, open_store, open_to_read, split_href
from pixel_gather.io.store.store_error_status import classify_store_error, said_of_place
from pixel_gather.io.store.store_settings import StoreSettings

_BY_XARRAY: Final = ", or open it by xarray.open_zarr with fsspec and aiohttp"
IS_FOLDER: Final = "it is a folder; name a file in it"
"""Said of a place where a file is to be written."""

_PLACES: Final = BUCKET_SCHEMES | {"file"}


def check_place(to: str | os.PathLike[str], *, field: str = "to", is_read: bool = False) -> str:
    """Return the href of a folder. ``~/`` is the user's home, and ``.`` the folder where we are.

    Args:
        to: A folder, or ``s3://bucket/prefix``.
        field: What an error names.
        is_read: Whether what is there is only read.
    """
    to = without_dots(with_home(place_text(to, field)))
    policy = HrefPolicy(schemes=_PLACES, base=str(Path.cwd()))
    try:
        if to.startswith(("https://", "http://")):
            there = bucket_address(check_href(to, policy=IN_PROCESS))
            refused = "it is not read from web servers" if is_read else "nothing is written to web servers"
            advice = _BY_XARRAY if is_read and field == "cube" else ""
            raise ValueError(f"{refused}; write {there}{advice}")  # noqa: TRY301 # as check_href
        return check_href(to.rstrip("/") or to, policy=policy)
    except ValueError as error:
        raise RequestError(str(error), field=field) from error


def check_parquet_place(to: str | os.PathLike[str], *, what: str) -> str:
    """Return the href of a Parquet file that is to be written.

    Raises:
        RequestError: The place is a folder, or its name is refused by `check_file_name`.
    """
    place = check_place(to)
    check_file_name(place, what=what, kind="Parquet", field="to")
    if Path(show_place(place)).is_dir():
        raise RequestError(IS_FOLDER, field="to")
    return place


def href_here(place: str | os.PathLike[str], field: str) -> str:
    """Return the href of what is read in process. A relative path is below the folder where we are.

    Raises:
        RequestError: It is none. The error names the field.
    """
    return checked_href(place_text(place, field), field, policy=IN_PROCESS.within(str(Path.cwd())))


def open_existing(
    cube: str | os.PathLike[str],
    stores: StoreSettings | None,
    *,
    field: str = "cube",
    to_write: bool = False,
) -> tuple[Store, str]:
    """Return a client for a cube that is there, and its place in words. Creates no folder.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        stores: How to access buckets.
        field: What a `RequestError` names.
        to_write: Whether the cube is to be changed.

    Raises:
        RequestError: The place is neither a local folder nor in a bucket, or it lies in a cube.
        StoreError: The folder is missing, or takes no files.
    """
    href = check_place(cube, field=field, is_read=not to_write)
    place = show_place(href)
    if "://" not in place:
        refuse_within_cube(Path(place), field=field)
    if "://" not in place and not Path(place).is_dir():
        if field == "table":
            raise StoreError(f"{place}: no table is there; name its Parquet file or its folder")
        aws = "; of a gather on AWS, write the cube's address, s3://..., which pixel-gather status ID prints"
        is_a_name = Path(place).name == str(cube)
        raise StoreError(
            f"{place}: no cube is there; name the folder that a gather has written{aws if is_a_name else ''}"
        )
    return (open_place if to_write else open_to_read)(href, stores or StoreSettings()), place


def check_new_place(to: str | os.PathLike[str]) -> str:
    """Return the href of a folder where a cube is to be written.

    A local place inside another cube is refused, unless a Zarr group is there.

    In a bucket, `refuse_within_cube_of_bucket` looks at the folders above.

    Raises:
        RequestError: The place cannot be used, or it lies in a cube.
        StoreError: The place is a file.
    """
    href = check_place(to)
    place = show_place(href)
    if "://" not in place:
        refuse_within_cube(Path(place), field="to", instead="choose a place outside of it")
        if Path(place).is_file():
            said = "it is a file, not a folder; choose another place"
            raise StoreError(f"{place} cannot be written to: {said}")
    return href


def refuse_within_cube(place: Path, *, field: str, instead: str = "name the cube itself") -> None:
    """Refuse a local path inside a cube, such as the folder of an array. The error names the cube.

    A path that is a group itself is not refused: a cube may lie in the folder of another one.

    Raises:
        RequestError: The path lies inside a cube.
    """
    for folder in place.parents:
        if _is_cube(_metadata(folder)) and (kind := _metadata(place).get("node_type")) != "group":
            what = f"is an array in the cube {folder}" if kind == "array" else f"lies in the cube {folder}"
            raise RequestError(f"{place} {what}: {instead}", field=field)


async def refuse_within_cube_of_bucket(href: str, stores: StoreSettings) -> None:
    """Refuse a new cube inside another one in a bucket. A local place is not looked at.

    The folders above are read at the same time, by one GET each. If one is a cube, the place is read, too: it
    is not refused if a Zarr group is there. A folder that cannot be read counts as no cube.

    Raises:
        RequestError: The place lies inside a cube.
    """
    root, path = split_href(href)
    if root == "file://":
        return
    bucket = ObjectControlStore(open_store(root, stores), "")

    async def read(folder: str) -> dict[str, Any]:
        with suppress(GatherError):  # such as for lack of rights
            return _decoded(await bucket.get(f"{folder}/{ROOT_KEY}".lstrip("/")) or b"")
        return {}

    parts = path.split("/")
    above = ["/".join(parts[:n]) for n in range(len(parts))]
    for folder, metadata in zip(above, await asyncio.gather(*map(read, above)), strict=True):
        if _is_cube(metadata) and (await read(path)).get("node_type") != "group":
            cube = f"{root}/{folder}".rstrip("/")
            raise RequestError(f"{href} lies in the cube {cube}: choose a place outside of it", field="to")


def _is_cube(metadata: Mapping[str, Any]) -> bool:
    attributes = metadata.get("attributes")
    return isinstance(attributes, dict) and "pixel_gather" in attributes


def _metadata(folder: Path) -> dict[str, Any]:
    file = folder / ROOT_KEY
    try:
        return _decoded(file.read_bytes()) if file.is_file() else {}
    except OSError:
        return {}


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except DAMAGED_JSON:
        return {}
    return found if isinstance(found, dict) else {}


def holds_file(store: Store, place: str, key: str) -> bool:
    """Tell whether a file is at a place. A store that refuses to say holds none.

    Raises:
        StoreError: The store does not answer.
    """
    try:
        obstore.head(store, key)
    except (BaseError, OSError) as error:  # S3 also says of a missing object that it may not be read
        status, *_ = classify_store_error(error)
        if status is Status.TIMED_OUT:  # so would the next request
            raise StoreError(f"{place} cannot be read: {said_of_place(error)}") from error
        return False
    return True


def show_place(place: str) -> str:
    """Return a location as other tools expect it: local ones as a path."""
    root, path = split_href(place)
    return f"/{path}" if root == "file://" else place
