"""Removes what killed writers have left on a local disk.

obstore writes each file as ``NAME#NUMBER`` and renames it when it is whole. It neither lists nor deletes
files of such names.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from obstore.store import LocalStore

from pixel_gather.io.store.object_store import Store

_UNFINISHED: Final = re.compile(r"#\d+$")


def remove_unfinished(
    store: Store,
    prefix: str = "",
    *,
    is_removed: Callable[[str], bool] = lambda _: True,
    min_age_s: float = 0,
) -> None:
    """Remove files that were never finished, and empty folders. Blocks.

    A writer that is still at work fails, because it finds its file no more.

    Args:
        store: Nothing happens if this is not a folder.
        prefix: Ends in a slash, or is empty. Only what is below it is looked at.
        is_removed: Tells by its key below the prefix whether something is removed. All of it if not given.
        min_age_s: Files that were written to within so many seconds stay.
    """
    if not isinstance(store, LocalStore):
        return
    top = Path(store.prefix or "/", prefix)
    for path in sorted(top.rglob("*"), reverse=True):  # what is in a folder comes before it
        if not is_removed(path.relative_to(top).as_posix()):
            continue
        with suppress(OSError):  # a folder is not empty, or a writer has just renamed its file
            if path.is_dir():
                path.rmdir()
            elif _UNFINISHED.search(path.name) and time.time() - path.stat().st_mtime >= min_age_s:
                path.unlink()
    with suppress(OSError):  # not empty, or not there
        top.rmdir()
