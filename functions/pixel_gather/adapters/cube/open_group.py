"""Opens a finished cube with zarr-python."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from pixel_gather.adapters.cube.tile_codecs import register_codecs
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import said_of_place
from pixel_gather.errors import StoreError

if TYPE_CHECKING:
    import zarr


@contextmanager
def finished_group(store: Store, place: str) -> Generator["zarr.Group"]:
    """Open a cube for reading. Errors of the store inside the context name the place.

    Args:
        store: At the cube's root.
        place: The location as users write it, for messages.

    Raises:
        StoreError: No finished cube is there, or it cannot be read.
    """
    import zarr  # noqa: PLC0415 # takes 0.3 s
    from zarr.storage import ObjectStore  # noqa: PLC0415 # as above

    register_codecs()  # a cube of zfp, or of tiles as they were, needs them
    try:
        group = zarr.open_group(ObjectStore(store, read_only=True), mode="r")
        if not group.attrs.get("complete"):
            raise StoreError(f"{place}: no complete cube is there; name the folder that a gather has written")
        yield group
    except FileNotFoundError as error:
        raise StoreError(f"{place}: no cube is there; name the folder that a gather has written") from error
    except (BaseError, OSError) as error:
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
