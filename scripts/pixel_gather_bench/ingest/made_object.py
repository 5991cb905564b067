"""An object made on the fly, where a benchmark has none of its own to read."""

import random
from collections.abc import Iterator
from typing import Final

import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.io.store.object_store import Store, StoreSettings, open_place

_PIECE: Final = 8 * 2**20


def make_object(href: str, nbytes: int, stores: StoreSettings) -> bool:
    """Put an object of so many random bytes, unless it is there; return whether it was made.

    Raises:
        RequestError: An object of another size is there, which is not written over.
        StoreError: It cannot be put.
    """
    folder, _, name = href.rpartition("/")
    try:
        store = open_place(folder, stores)
        found = _size_of(store, name)
        if found is None:
            obstore.put(store, name, _pieces(nbytes))
    except (BaseError, OSError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise StoreError(f"{href} cannot be made: {said}") from error
    if found not in (None, nbytes):
        raise RequestError(
            f"an object of {found:,} bytes is there, not of {nbytes:,}, "
            "and is not written over: name another",
            field=href,
        )
    return found is None


def _size_of(store: Store, name: str) -> int | None:
    try:
        return obstore.head(store, name)["size"]
    except FileNotFoundError:
        return None


def _pieces(nbytes: int) -> Iterator[bytes]:
    """Yield bytes that no compression makes shorter."""
    draw = random.Random(1)  # noqa: S311 # content, no secret
    for start in range(0, nbytes, _PIECE):
        yield draw.randbytes(min(_PIECE, nbytes - start))
