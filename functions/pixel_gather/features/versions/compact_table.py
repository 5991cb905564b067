"""Remove old versions of a table of a deployment: all but the last one and the one before it."""

import os
import re
from typing import Final

from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.tables.table_receipt import RESULT_KEY, read_result

_OF_VERSION: Final = re.compile(r"v(\d+)-[0-9a-f]+/[^/]+")
_KEPT: Final = 2
"""Who reads the version before the last one, since before the last commit, is not disturbed."""


class _Result(Struct, frozen=True):
    """What is read of a ``result.json``. That of a ranking has no version."""

    version: int | None = None


class CompactedTable(Struct, frozen=True, kw_only=True):
    """A table whose old versions were removed."""

    version: int
    """The last one when it was looked at."""

    n_removed: int
    """Versions that were removed, those among them that were written and never committed."""


def compact_table(
    place: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> CompactedTable | None:
    """Remove the files of old versions. Safe beside appends: versions are counted up, and files never change.

    An append that is so late that it still reads a removed version fails, and is redriven by the next one.

    Args:
        place: The folder of a table of a deployment, such as ``s3://bucket/tables/zones-ndvi``.
        stores: How to access S3. Removing needs the right to delete objects.

    Returns:
        What was removed; None if no such table is there.

    Raises:
        StoreError: The folder is missing, its ``result.json`` is damaged, or the store does not answer.
    """
    store, name = open_existing(place, stores, to_write=True)
    return run(_compact(ObjectControlStore(store, ""), name))


async def _compact(files: ObjectControlStore, place: str) -> CompactedTable | None:
    try:
        content = await files.get(RESULT_KEY)
    except StoreError as error:
        raise StoreError(f"{place}: {error}") from error
    version = None if content is None else read_result(content, place=place, type=_Result).version
    if version is None:
        return None
    removed = set[str]()

    def is_old(key: str) -> bool:
        found = _OF_VERSION.fullmatch(key)
        if found is None or int(found[1]) > version - _KEPT:
            return False
        removed.add(key.partition("/")[0])
        return True

    await files.clear(is_old)
    return CompactedTable(version=version, n_removed=len(removed))
