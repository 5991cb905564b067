"""Finds the cubes that a pattern such as ``s3://arrays/tiles/*.zarr`` names."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import glob
from typing import Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import (
    HrefPolicy,
    checked_href,
    place_text,
    with_home,
    without_dots,
)
from pixel_gather.in_process.places import show_place
from pixel_gather.io.store.list_objects import root_folders
from pixel_gather.io.store.object_store import open_to_read
from pixel_gather.io.store.store_error_status import errors_of_store
from pixel_gather.io.store.store_settings import StoreSettings

_FIELD: Final = "cubes"


def find_members(cubes: Iterable[str | os.PathLike[str]], settings: StoreSettings, *, to: str) -> list[str]:
    """Return the hrefs of cubes. Those of one pattern are in the order of their names.

    Args:
        cubes: Folders, ``s3://bucket/prefix``, or patterns whose last part has ``*`` or ``?``.
        settings: How to access S3.
        to: The href of the place where they are joined.

    Raises:
        RequestError: A pattern names no cube, a cube is named twice, or ``to`` lies in one of them.
        StoreError: A bucket cannot be listed.
    """
    if isinstance(cubes, str) or not isinstance(cubes, Iterable):
        raise RequestError("write a list of places", field=_FIELD)
    policy = HrefPolicy(schemes=frozenset({"s3", "file"}), base=os.getcwd())  # noqa: PTH109 # a text
    found: list[str] = []
    for each in cubes:
        text = without_dots(with_home(place_text(each, _FIELD))).rstrip("/")
        names = _matching(text, settings) if any(sign in text for sign in "*?") else [text]
        if not names:
            raise RequestError(f"{text} names nothing", field=_FIELD)
        found += [checked_href(name, _FIELD, policy=policy) for name in names]
    if not found:
        raise RequestError("name the cubes to join", field=_FIELD)
    seen: set[str] = set()
    for href in found:
        if href in seen:
            raise RequestError(f"{show_place(href)} is named twice", field=_FIELD)
        if to.startswith(f"{href}/"):
            lies = f"{show_place(to)} lies in the cube {show_place(href)}"
            raise RequestError(f"{lies}: choose a place outside of it", field="to")
        seen.add(href)
    return found


def _matching(pattern: str, settings: StoreSettings) -> list[str]:
    if not pattern.startswith("s3://"):
        return sorted(glob(pattern.removeprefix("file://")))  # noqa: PTH207 # as the shell does it
    folder, _, name = pattern.rpartition("/")
    if any(sign in folder for sign in "*?"):
        raise RequestError(f"{pattern}: only the last part of it may have * or ?", field=_FIELD)
    with errors_of_store(f"{folder} cannot be listed"):
        store = open_to_read(folder, settings)
        there = root_folders(store)
    return sorted(f"{folder}/{each}" for each in there if fnmatchcase(each, name))
