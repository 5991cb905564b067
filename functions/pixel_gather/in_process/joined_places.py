"""Tells joined and virtual cubes from plain ones, and refuses them where only a plain one will do."""

import os
from typing import Final

from pixel_gather.core.errors import RequestError
from pixel_gather.in_process.places import holds_file, open_existing
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_settings import StoreSettings

_REPOSITORY_KEY: Final = "repo"
"""A file that every Icechunk repository has, and no cube."""


def is_joined(place: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> bool:
    """Return whether joined cubes are at a place, not one cube. Errors as in `presence`."""
    return holds_joined(*open_existing(place, stores))


def holds_joined(store: Store, place: str) -> bool:
    """Tell whether joined cubes are at a place, and not one cube. Errors as in `holds_file`."""
    return holds_file(store, place, _REPOSITORY_KEY)


def refuse_joined(store: Store, place: str, *, done: str, instead: str) -> None:
    """Refuse joined cubes and virtual cubes where only one plain cube will do.

    Args:
        store: At the place.
        place: The location as users write it.
        done: What cannot be done with them, such as ``exported``.
        instead: What to do.

    Raises:
        RequestError: They are there.
        StoreError: The store does not answer.
    """
    if holds_joined(store, place):
        raise RequestError(
            f"{place} is a joined or a virtual cube, which cannot be {done}: {instead}", field="cube"
        )


def refuse_choice(group: str | None, version: object) -> None:
    """Refuse a group or a version of one cube, which has neither."""
    for field, given in (("group", group), ("version", version)):
        if given is not None:
            raise RequestError("it is for joined cubes, and this is one cube: leave it out", field=field)
