"""Reads the receipt that lies beside a cube."""

import json

import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import DAMAGED_JSON, StoreError
from pixel_gather.core.results.receipt import FORMAT, Receipt
from pixel_gather.core.stores import NOT_COMPLETE, RECEIPT_KEY, ROOT_KEY
from pixel_gather.io.cube.zarr_metadata import is_unfinished
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place, says_missing


def read_receipt(store: Store, place: str, *, wanted: str = "a complete cube") -> Receipt:
    """Return a cube's receipt. Blocks. The error for a place without one says to name what is wanted.

    Raises:
        StoreError: There is no receipt, it is damaged, or the store refuses.
    """
    try:
        content = bytes(obstore.get(store, RECEIPT_KEY).bytes())
    except (BaseError, OSError) as error:
        if not says_missing(error, may_list=True):
            raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
        if _is_begun(store):
            raise StoreError(f"{place}: {NOT_COMPLETE}") from error
        raise StoreError(
            f"{place}: there is no receipt.json, so there is nothing to compare with: name the folder of "
            f"{wanted}"
        ) from error
    return parse_receipt(content, place)


def _is_begun(store: Store) -> bool:
    """Return whether a gather has begun a cube there, and not finished it."""
    try:
        return is_unfinished(json.loads(bytes(obstore.get(store, ROOT_KEY).bytes())))
    except (BaseError, OSError, *DAMAGED_JSON):
        return False


def parse_receipt(content: bytes, place: str) -> Receipt:
    """Return the receipt with this content. Arguments and errors as in `read_receipt`."""
    try:
        receipt = Receipt.from_bytes(content)
    except ValueError as error:
        raise StoreError(f"{place}: its receipt.json is damaged ({error})") from error
    if receipt.format != FORMAT:
        raise StoreError(
            f"{place}: its receipt has format {receipt.format}; this version of Pixel Gather reads {FORMAT}"
        )
    if min(receipt.shape) < 1 or min(receipt.shard) < 1 or not receipt.has_all_shards:
        raise StoreError(f"{place}: its receipt.json is damaged (its shards do not fit its shape)")
    return receipt
