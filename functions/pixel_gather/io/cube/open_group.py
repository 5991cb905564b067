"""Opens a finished cube with zarr-python."""

import json
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import DAMAGED_JSON, OF_NO_GATHER, GatherError, StoreError, why_no_cube
from pixel_gather.core.stores import NOT_COMPLETE, ROOT_KEY
from pixel_gather.io.cube.row_view import as_rows
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place, says_missing

if TYPE_CHECKING:
    import zarr

_DAMAGED: Final = (
    ArithmeticError, AttributeError, LookupError, MemoryError, NotImplementedError, RuntimeError, TypeError,
    ValueError, zlib.error,
)  # fmt: skip
"""What zarr-python, NumPy and codecs raise for damaged metadata and chunks."""


@contextmanager
def finished_group(store: Store, place: str) -> Generator["zarr.Group"]:
    """Open a cube for reading. Errors of the store inside the context name the place.

    A cube of chips looks as if its arrays had rows; see `pixel_gather.io.cube.row_view`.

    Raises:
        StoreError: No finished cube is there, or it cannot be read.
    """
    with errors_of_cube(place):
        yield as_rows(_open_finished(store, place))


def finished_arrays(store: Store, place: str) -> "dict[str, zarr.Array[Any]]":
    """Return the arrays of a finished cube, those of chips as they are.

    Raises:
        StoreError: No finished cube is there, or it cannot be read.
    """
    with errors_of_cube(place):
        return dict(_open_finished(store, place).arrays())


def _open_finished(store: Store, place: str) -> "zarr.Group":
    from zarr.errors import ContainsArrayError  # noqa: PLC0415 # takes 0.3 s

    from pixel_gather.io.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # as above

    try:
        group = open_foreign_group(store)
    except (*DAMAGED_JSON, ContainsArrayError) as error:
        raise StoreError(f"{place}: {why_no_cube(error)}") from error
    except FileNotFoundError:
        read_root(store, place)  # zarr-python does not tell a bucket that is missing from a file
        raise
    if not group.attrs.get("complete"):
        raise StoreError(f"{place}: {why_not_finished(group.attrs)}")
    return group


def read_root(store: Store, place: str) -> tuple[Any, str]:
    """Return the content of a cube's ``zarr.json``, and its ETag; an empty text if the store has none.

    Raises:
        StoreError: No cube is there, the file is damaged, or the store does not answer.
    """
    with errors_of_cube(place):
        answer = obstore.get(store, ROOT_KEY)
        content, etag = bytes(answer.bytes()), answer.meta["e_tag"] or ""
    try:
        return json.loads(content), etag
    except DAMAGED_JSON as error:
        raise StoreError(f"{place}: {why_no_cube(error)}") from error


def why_not_finished(attributes: Mapping[str, Any]) -> str:
    """Return why what has these attributes is no finished cube."""
    return NOT_COMPLETE if "complete" in attributes else OF_NO_GATHER


@contextmanager
def errors_of_cube(place: str) -> Iterator[None]:
    """Turn what zarr-python, codecs and stores raise into a `StoreError` that names the cube."""
    try:
        yield
    except GatherError:
        raise
    except (BaseError, OSError) as error:
        if says_missing(error, may_list=True):
            said = "no cube is there; name the folder that a gather has written"
            raise StoreError(f"{place}: {said}") from error
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
    except _DAMAGED as error:
        raise StoreError(
            f"{place}: the cube is damaged, or no gather has written it ({str(error)[:200]}); pixel-gather "
            "verify says where"
        ) from error


def open_group(store: Store, *, is_consolidated: bool = True) -> "zarr.Group | None":
    """Return a cube's group, for all codecs of a gather; None if its metadata are missing or damaged.

    A cube of chips looks as if its arrays had rows; see `pixel_gather.io.cube.row_view`. If it is
    consolidated, arrays are described by the group's metadata, not by their own.
    """
    from pixel_gather.io.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # takes 0.3 s

    try:
        found = open_foreign_group(store, is_consolidated=is_consolidated)
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            return None
        raise
    except Exception:  # noqa: BLE001 # zarr-python raises many types for broken metadata
        return None
    return as_rows(found)
