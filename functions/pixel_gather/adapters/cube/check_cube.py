"""Compares a cube with its receipt. Reads every shard and every file that the receipt names."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched, product
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.adapters.cube.shard_codec import chunks_of
from pixel_gather.adapters.cube.zarr_cube import RECEIPT_KEY, ROOT_KEY
from pixel_gather.adapters.cube.zarr_metadata import gather_of
from pixel_gather.adapters.object_store.listed import listed
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import said_of_place
from pixel_gather.errors import StoreError
from pixel_gather.model.tile_coding import AS_STORED
from pixel_gather.read.pixel_statistics import digest_of
from pixel_gather.read.stored_tiles import digest_of_tiles
from pixel_gather.report.receipt import FORMAT, Receipt, ReceiptFile, digest_of_rows

if TYPE_CHECKING:  # takes 0.3 s
    import zarr

_SHARDS_AT_ONCE: Final = 4
"""Each is decoded in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a cube's verification has found."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    differences: tuple[str, ...]
    """One sentence for each difference from the receipt. Empty if there is none."""

    n_shards: int
    """Number of shards that the receipt names."""

    n_compared: int
    """Number of shards whose pixels were compared with their digest.

    Shards that were lost have no digest. Pixels that were stored with loss are decoded, but not compared.
    """

    n_files: int
    """Number of files beside the arrays that were compared."""

    is_lossless: bool
    """False if the pixels were stored with loss. Then no shard is compared."""

    @property
    def is_same(self) -> bool:
        """Whether the cube is as its receipt says."""
        return not self.differences


def check_cube(store: Store, *, place: str) -> Verified:
    """Read a cube and compare it with its receipt. Blocks.

    Args:
        store: At the cube's root.
        place: The location as users write it, for messages.

    Raises:
        StoreError: There is no receipt, it is damaged, or the store failed.
    """
    try:
        receipt = read_receipt(store, place)
        differences = [*_of_root(store, receipt)]
        n_compared = 0
        group = open_group(store)
        for name in receipt.dtypes:
            array = _array(group, name)
            found = list(_of_description(array, name, receipt))
            differences += found
            if not found:
                n, told = _of_pixels(store, array, name, receipt)
                n_compared += n
                differences += told
        for key, told_file in receipt.files.items():
            differences += _of_file(store, key, told_file)
    except (BaseError, OSError) as error:
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
    return Verified(
        place=place,
        differences=tuple(differences),
        n_shards=len(receipt.shards),
        n_compared=n_compared,
        n_files=len(receipt.files),
        is_lossless=receipt.is_lossless,
    )


def read_receipt(store: Store, place: str) -> Receipt:
    """Return a cube's receipt. Blocks.

    Args:
        store: At the cube's root.
        place: The location as users write it, for messages.

    Raises:
        StoreError: There is no receipt, or it is damaged.
    """
    try:
        content = bytes(obstore.get(store, RECEIPT_KEY).bytes())
    except FileNotFoundError as error:
        raise StoreError(
            f"{place}: there is no receipt.json, so there is nothing to compare with: name the folder of a "
            "complete cube"
        ) from error
    return parse_receipt(content, place)


def parse_receipt(content: bytes, place: str) -> Receipt:
    """Return the receipt with this content. Arguments and errors as in `read_receipt`."""
    try:
        receipt = msgspec.json.decode(content, type=Receipt)
    except ValueError as error:
        raise StoreError(f"{place}: its receipt.json is damaged ({error})") from error
    if receipt.format != FORMAT:
        raise StoreError(
            f"{place}: its receipt has format {receipt.format}; this version of Pixel Gather reads {FORMAT}"
        )
    if min(receipt.shape) < 1 or min(receipt.shard) < 1 or not _has_all_shards(receipt):
        raise StoreError(f"{place}: its receipt.json is damaged (its shards do not fit its shape)")
    return receipt


def _has_all_shards(receipt: Receipt) -> bool:
    n = math.prod(_grid(receipt)) * len(receipt.dtypes)
    return n == len(receipt.shards) and all(
        key in receipt.shards for name in receipt.dtypes for key, _ in _shards_of(name, receipt)
    )


def _grid(receipt: Receipt) -> tuple[int, ...]:
    """Return the number of shards along each axis."""
    return tuple(-(-whole // part) for whole, part in zip(receipt.shape, receipt.shard, strict=True))


def _shards_of(name: str, receipt: Receipt) -> Iterator[tuple[str, tuple[slice, ...]]]:
    """Yield the key of each shard of a measurement, and its place in the array."""
    for place in product(*map(range, _grid(receipt))):
        edges = zip(place, receipt.shard, receipt.shape, strict=True)
        key = f"{name}/c/{'/'.join(map(str, place))}"
        yield key, tuple(slice(at * side, min((at + 1) * side, stop)) for at, side, stop in edges)


def _of_root(store: Store, receipt: Receipt) -> Iterator[str]:
    """Yield what differs in the cube's own record of its gather."""
    try:
        attributes = json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))["attributes"]
        gather, is_complete = gather_of(attributes), bool(attributes["complete"])
    except FileNotFoundError:
        yield f"{ROOT_KEY} is missing"
        return
    except (ValueError, KeyError, TypeError):
        yield f"{ROOT_KEY} is not that of a gather"
        return
    if not is_complete:
        yield "the cube is not marked as complete"
    number = gather["versions"][-1]["number"] if gather.get("versions") else receipt.version
    if number != receipt.version:
        yield (
            f"the receipt is of version {receipt.version} and the cube is at version {number}: an append was "
            "stopped before its commit; run it again"
        )
        return
    if gather.get("digest") != receipt.digest:
        yield "the receipt is that of another gather: their digests differ"
    elif is_complete and _pixels_of(gather) != receipt.pixels:
        yield f"the report in {ROOT_KEY} has another digest of all pixels"


def _pixels_of(gather: dict[str, Any]) -> Any:
    """Return the digest of all pixels: of a gather from its report, of a copy of joined cubes as it is."""
    return gather["report"].get("digest") if "report" in gather else gather.get("pixels")


def open_group(store: Store) -> "zarr.Group | None":
    """Return a cube's group, for all codecs of a gather; None if its metadata are missing or damaged."""
    from pixel_gather.adapters.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # takes 0.3 s

    try:
        return open_foreign_group(store)
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            return None
        raise
    except Exception:  # noqa: BLE001 # zarr-python raises many types for broken metadata
        return None


def _array(group: "zarr.Group | None", name: str) -> Any:
    """Return an array of the cube, or None if it is missing or its metadata are damaged."""
    import zarr  # noqa: PLC0415 # takes 0.3 s

    try:
        found = None if group is None else group[name]
    except (BaseError, OSError):
        raise
    except Exception:  # noqa: BLE001 # as above
        return None
    return found if isinstance(found, zarr.Array) else None


def _of_description(array: Any, name: str, receipt: Receipt) -> Iterator[str]:
    """Yield what differs in the description of a measurement."""
    if array is None:
        yield f"{name} is missing, or its metadata are damaged"
        return
    found = (tuple(array.shape), np.dtype(array.dtype).name, tuple(array.shards or array.chunks))
    dims = tuple(array.metadata.dimension_names or ())
    told = (receipt.shape, receipt.dtypes[name], receipt.shard)
    if found[:2] != told[:2]:
        yield f"{name} is {_by(found[0])} {found[1]}; the receipt says {_by(told[0])} {told[1]}"
    elif found[2] != told[2]:
        yield f"{name} has shards of {_by(found[2])}; the receipt says {_by(told[2])}"
    if dims != receipt.dims:
        yield f"{name} has the axes {', '.join(dims)}; the receipt says {', '.join(receipt.dims)}"


def _of_pixels(store: Store, array: Any, name: str, receipt: Receipt) -> tuple[int, list[str]]:
    """Return the number of shards that were compared, and what differs in them."""
    there = {item["path"] for item in listed(store, f"{name}/c/")}

    def check(shard: tuple[str, tuple[slice, ...]]) -> str | None:
        key, place = shard
        if key not in there:
            return f"{key} is missing"
        if receipt.codec == AS_STORED:
            return _of_tiles(store, array, key, place, receipt)
        try:
            pixels = np.asarray(array[place])
        except Exception as error:  # noqa: BLE001 # as above
            if isinstance(error, BaseError | OSError):
                obstore.get(store, key).bytes()  # if this fails too, the store is at fault
            return f"{key} is damaged: it cannot be decoded"
        rows = pixels[: receipt.padded.get(key)]
        if receipt.is_lossless and digest_of_rows([digest_of(row) for row in rows]) != receipt.shards[key]:
            return f"{key} has other pixels than the receipt says"
        return None

    known = [each for each in _shards_of(name, receipt) if receipt.shards[each[0]] is not None]
    with ThreadPoolExecutor(_SHARDS_AT_ONCE) as threads:
        found = [each for each in threads.map(check, known) if each is not None]
    return len(known) if receipt.is_lossless else 0, found


def _of_tiles(store: Store, array: Any, key: str, place: tuple[slice, ...], receipt: Receipt) -> str | None:
    """Return what differs in a shard of compressed tiles. They are compared as they are stored."""
    rows, height, width = (-(-whole // part) for whole, part in zip(receipt.shard, array.chunks, strict=True))
    content = memoryview(obstore.get(store, key).bytes())
    try:
        chunks = chunks_of(content, n=rows * height * width)
    except ValueError:
        return f"{key} is damaged: its index cannot be read"
    n_rows = receipt.padded.get(key, place[0].stop - place[0].start)
    of_rows = batched(chunks, height * width, strict=True)
    digests = [digest_of_tiles(row) for row, _ in zip(of_rows, range(n_rows), strict=False)]
    if digest_of_rows(digests) != receipt.shards[key]:
        return f"{key} has other bytes than the receipt says"
    return None


def _of_file(store: Store, key: str, told: ReceiptFile) -> Iterator[str]:
    """Yield what differs in a file beside the arrays."""
    digest, nbytes = hashlib.sha256(), 0
    try:
        for part in obstore.get(store, key).stream():
            digest.update(part)
            nbytes += len(part)
    except FileNotFoundError:
        yield f"{key} is missing"
        return
    if nbytes != told.nbytes:
        yield f"{key} has {nbytes:,} bytes; the receipt says {told.nbytes:,}"
    elif digest.hexdigest() != told.sha256:
        yield f"{key} has another content than the receipt says"


def _by(lengths: Sequence[int]) -> str:
    return " x ".join(f"{length:,}" for length in lengths)
