"""Lists objects, and starts again if an answer breaks off. obstore only repeats requests that fail."""

from collections.abc import Callable
from itertools import chain
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import obstore
from obstore.store import AzureStore

from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import classify_store_error

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAUSES_S: Final = (0.1, 0.5, 2.0)
_LONGEST_S: Final = 60.0
"""A listing that has taken longer is not started again."""


def list_objects(store: Store, prefix: str) -> list["ObjectMeta"]:
    """Return all objects below a prefix. Blocks.

    A listing that breaks off within the first minute is started again, up to three times. ETags are as other
    requests tell them: Azure's lists leave out their quotes.

    Raises:
        obstore.exceptions.BaseError, OSError: The store refuses, or the last try failed as well.
    """
    there = _whole(lambda: list(chain.from_iterable(obstore.list(store, prefix))))
    if isinstance(store, AzureStore):
        for meta in there:
            meta["e_tag"] = meta["e_tag"] and f'"{meta["e_tag"].strip('"')}"'
    return there


def root_folders(store: Store) -> list[str]:
    """Return the folders at the root of a store; see `list_objects`."""
    return _whole(lambda: list(obstore.list_with_delimiter(store)["common_prefixes"]))


def _whole[T](list_all: Callable[[], T]) -> T:
    started = monotonic()
    for pause_s in _PAUSES_S:
        try:
            return list_all()
        except (obstore.exceptions.BaseError, OSError) as error:
            *_, n_retries = classify_store_error(error)
            if not n_retries or monotonic() - started > _LONGEST_S:
                raise
        sleep(pause_s)
    return list_all()
