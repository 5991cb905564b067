"""Compares a cube with its receipt, which tells what is covered. Reads every object that readers use."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import batched, chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore
from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.core.errors import DAMAGED_JSON, NOT_OF_A_CUBE, GatherError
from pixel_gather.core.model.outcome import strip_digests
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.plan.cube_plan import BAND
from pixel_gather.core.read.measure_rows import digest_of
from pixel_gather.core.read.stored_tiles import digest_of_tiles
from pixel_gather.core.results.own_checksum import is_file_as_written
from pixel_gather.core.results.receipt import Receipt, ReceiptFile, digest_of_rows
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.engine.row_claim import claim_key
from pixel_gather.features.verify.check_coordinates import array_metadata_that_differ, coordinates_that_differ
from pixel_gather.io.cube.open_group import open_group
from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table
from pixel_gather.io.cube.row_view import RowArray
from pixel_gather.io.cube.shard_codec import split_chunks
from pixel_gather.io.cube.staged_cube import VERSIONS_FOLDER
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.cube.written_report import PAGE_KEYS
from pixel_gather.io.cube.zarr_metadata import gather_of, is_group_as_written
from pixel_gather.io.header_index import HEADERS_KEY, stored_entries
from pixel_gather.io.parquet.parquet_batches import ParquetError
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store

if TYPE_CHECKING:  # takes 0.3 s
    import zarr

_SHARDS_AT_ONCE: Final = 4
"""Each is decoded in memory."""

_FILES_AT_ONCE: Final = 8
"""Each is some 30 KB, or a page."""

_FORMER: Final = re.compile(r"versions/(\d+)\.json")
_BEGUN: Final = (
    "version {} was begun and is not committed: an append or a compaction was stopped before its commit, "
    "or is at work; run it again"
)


class Verified(Struct, frozen=True, kw_only=True):
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

    n_coordinates: int
    """Number of arrays without pixels that were compared."""

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

    Raises:
        StoreError: There is no receipt, it is damaged, or the store failed.
    """
    with errors_of_store(f"{place}: the cube cannot be read"):
        receipt = read_receipt(store, place, wanted="a complete cube or of a table")
        root = _read_root(store, receipt)
        group = open_group(store, is_consolidated=not root.is_behind)
        pixels = dict(_check_pixel_arrays(store, group, root, receipt))
        arrays = {name: each for name, each in root.arrays.items() if not pixels.get(name, (0, []))[1]}
        said, table = _check_metadata_and_files(store, root, receipt, arrays)
        differences = [*root.wrong, *chain.from_iterable(each for _, each in pixels.values()), *said]
        coordinates = sorted(root.arrays.keys() - receipt.arrays.keys())
        if group is not None:
            begun = _BEGUN.format(root.version + 1) if root.is_claimed else None
            differing = coordinates_that_differ(store, group, coordinates, table, begun=begun)
            differences = list(dict.fromkeys([*differences, *differing]))
        n_own, said = _check_own_checksums(store)
        differences += said
        if not (root.is_as_written or differences):
            differences.append(f"{ROOT_KEY} has another content than was written")
    return Verified(
        place=place,
        differences=tuple(differences),
        n_shards=len(receipt.shards),
        n_compared=sum(n for n, _ in pixels.values()),
        n_coordinates=len(coordinates),
        n_files=len(receipt.files) + n_own,
        is_lossless=receipt.is_lossless,
    )


class _Root(Struct, frozen=True, kw_only=True):
    """The group's metadata."""

    version: int
    """The version that it has reached. That of the receipt if they do not tell it."""

    is_behind: bool
    """Whether everything else is of the next version already."""

    is_claimed: bool
    """Whether somebody has begun to write the next version, and may have put some of its objects."""

    arrays: Mapping[str, Mapping[str, Any]]
    """Metadata of all arrays, by name."""

    wrong: tuple[str, ...]
    """What differs in them."""

    is_as_written: bool
    """Whether their checksum is theirs."""


def _read_root(store: Store, receipt: Receipt) -> _Root:
    """Return the group's metadata, and what differs in the cube's own record of its gather."""
    version, arrays, wrong, is_as_written = receipt.version, dict[str, Any](), list[str](), False
    try:
        root = json.loads(bytes(obstore.get(store, ROOT_KEY).bytes()))
        gather, is_complete = gather_of(root["attributes"]), bool(root["attributes"]["complete"])
        if gather.get("versions"):
            version = int(gather["versions"][-1]["number"])
        arrays = dict(root.get("consolidated_metadata", {}).get("metadata", {}))
        if version == receipt.version:
            wrong += _check_record(gather, receipt, is_complete=is_complete)
        elif version + 1 != receipt.version:
            wrong.append(f"the receipt is of version {receipt.version} and the cube is at version {version}")
        is_as_written = is_group_as_written(root)
    except FileNotFoundError:
        wrong.append(f"{ROOT_KEY} is missing")
    except DAMAGED_JSON as error:
        wrong.append(f"{ROOT_KEY} is damaged ({error})")
    except (*NOT_OF_A_CUBE, IndexError):
        wrong.append(f"{ROOT_KEY} is not that of a gather")
    is_behind = version + 1 == receipt.version
    return _Root(
        version=version,
        is_behind=is_behind,
        is_claimed=is_behind or _is_there(store, claim_key(version + 1)),
        arrays=arrays,
        wrong=tuple(wrong),
        is_as_written=is_as_written,
    )


def _check_record(gather: Mapping[str, Any], receipt: Receipt, *, is_complete: bool) -> Iterator[str]:
    """Yield what differs in the cube's own record of its gather."""
    if not is_complete:
        yield "the cube is not marked as complete"
    if gather.get("digest") != receipt.digest:
        yield "the receipt is that of another gather: their digests differ"
    elif is_complete and _pixels_of(gather) != receipt.pixels:
        yield f"the report in {ROOT_KEY} has another digest of all pixels"


def _pixels_of(gather: Mapping[str, Any]) -> Any:
    """Return the digest of all pixels: of a gather from its report, of a copy of joined cubes as it is."""
    return gather["report"].get("digest") if "report" in gather else gather.get("pixels")


def _is_there(store: Store, key: str) -> bool:
    try:
        obstore.head(store, key)
    except FileNotFoundError:
        return False
    return True


def _check_pixel_arrays(
    store: Store, group: "zarr.Group | None", root: _Root, receipt: Receipt
) -> Iterator[tuple[str, tuple[int, list[str]]]]:
    """Yield each array of pixels with the number of its shards that were compared, and what differs."""
    rows = _Rows(store, root, receipt)
    for name in receipt.arrays:
        array = _array(group, name)
        wrong = list(_check_description(array, name, receipt))
        yield name, ((0, wrong) if wrong else _check_pixels(store, array, name, receipt, rows))


class _Rows:
    """What ``rows.parquet`` says of the rows. It is read when the pixels of a shard differ."""

    def __init__(self, store: Store, root: _Root, receipt: Receipt) -> None:
        self._store, self._root, self._receipt = store, root, receipt

    def explain(self, name: str, place: slice, digests: Sequence[str], *, strip: int) -> bool:
        """Return whether the rows of a shard hold other pixels only where none are told of.

        A row that is tried again may hold pixels while it still counts as failed.

        Args:
            name: The array.
            place: The rows.
            digests: Of their pixels: each measurement of the first row, then of the next one.
            strip: Place along y.
        """
        if self._told is None:
            return False
        names = self._receipt.arrays[name]
        first = list(self._receipt.dtypes).index(names[0])
        statuses, told = (each[place, first : first + len(names)] for each in self._told)
        told = np.array([strip_digests(each)[strip] for each in told.flat], dtype=object).reshape(told.shape)
        has_failed = ~np.isin(statuses, (Status.OK, Status.ABSENT))
        return bool((has_failed | (told == np.array(digests, dtype=object).reshape(told.shape))).all())

    @cached_property
    def _told(self) -> tuple[Values, Values] | None:
        """Status and digest of each row and measurement; None if the table cannot be trusted."""
        told = self._receipt.files.get(ROWS_KEY)
        if told is None:
            return None
        content, wrong = _read_file(self._store, ROWS_KEY, told)
        if wrong is not None and not (
            self._root.is_claimed and _is_of_version(ROWS_KEY, content, self._root.version + 1)
        ):
            return None
        names = ("status", "pixel_digest")
        batches = list(read_row_table(content, names)[1])
        if not batches or names[1] not in batches[0]:
            return None
        status, digests = (
            np.concatenate([batch[name].reshape(len(batch[name]), -1) for batch in batches]) for name in names
        )
        return status, digests


def _array(group: "zarr.Group | None", name: str) -> Any:
    """Return an array of the cube, or None if it is missing or its metadata are damaged."""
    import zarr  # noqa: PLC0415 # takes 0.3 s

    try:
        found = None if group is None else group[name]
    except Exception:  # noqa: BLE001 # zarr-python raises many types; the store is not asked
        return None
    return found if isinstance(found, zarr.Array | RowArray) else None


def _check_description(array: Any, name: str, receipt: Receipt) -> Iterator[str]:
    """Yield what differs in the description of an array of pixels."""
    if array is None:
        yield f"{name} is missing, or its metadata are damaged"
        return
    found = (tuple(array.shape), np.dtype(array.dtype).name, tuple(array.shards or array.chunks))
    dims = tuple(array.metadata.dimension_names or ())
    names = receipt.arrays[name]
    n_bands = () if receipt.band_axis is None else (len(names),)
    shape, shard = ((rows, *n_bands, y, x) for rows, y, x in (receipt.shape, receipt.shard))
    told = (shape, receipt.dtypes[names[0]], shard)
    row_dim, *on_map = receipt.dims
    told_dims = (row_dim, *(() if receipt.band_axis is None else (BAND,)), *on_map)
    if found[:2] != told[:2]:
        yield f"{name} is {_by(found[0])} {found[1]}; the receipt says {_by(told[0])} {told[1]}"
    elif found[2] != told[2]:
        yield f"{name} has shards of {_by(found[2])}; the receipt says {_by(told[2])}"
    if dims != told_dims:
        yield f"{name} has the axes {', '.join(dims)}; the receipt says {', '.join(told_dims)}"


def _check_pixels(
    store: Store, array: Any, name: str, receipt: Receipt, known_rows: _Rows
) -> tuple[int, list[str]]:
    """Return the number of shards that were compared, and what differs in them."""
    there = {item["path"] for item in list_objects(store, f"{name}/c/")}

    def check(shard: tuple[str, tuple[slice, ...]]) -> str | None:
        key, place = shard
        if key not in there:
            return f"{key} is missing"
        if receipt.codec == AS_STORED:
            return _check_tiles(store, array, key, place, receipt)
        try:
            pixels = np.asarray(array[(place[0], ..., *place[1:])])
        except Exception as error:  # noqa: BLE001 # so do codecs
            if isinstance(error, BaseError | OSError):
                obstore.get(store, key).bytes()  # if this fails too, the store is at fault
            return f"{key} is damaged: it cannot be decoded"
        rows = pixels[: receipt.padded.get(key)].reshape(-1, *pixels.shape[-2:])
        digests = [digest_of(row) for row in rows] if receipt.is_lossless else []
        if not receipt.is_lossless or digest_of_rows(digests) == receipt.shards[key]:
            return None
        if known_rows.explain(name, place[0], digests, strip=place[1].start // receipt.shard[1]):
            return None
        return f"{key} has other pixels than the receipt says"

    known = [each for each in receipt.shards_of(name) if receipt.shards[each[0]] is not None]
    with ThreadPoolExecutor(_SHARDS_AT_ONCE) as threads:
        found = [each for each in threads.map(check, known) if each is not None]
    return len(known) if receipt.is_lossless else 0, found


def _check_tiles(
    store: Store, array: Any, key: str, place: tuple[slice, ...], receipt: Receipt
) -> str | None:
    """Return what differs in a shard of compressed tiles. They are compared as they are stored."""
    rows, height, width = (-(-whole // part) for whole, part in zip(receipt.shard, array.chunks, strict=True))
    content = memoryview(obstore.get(store, key).bytes())
    try:
        chunks = split_chunks(content, n=rows * height * width)
    except ValueError:
        return f"{key} is damaged: its index cannot be read"
    n_rows = receipt.padded.get(key, place[0].stop - place[0].start)
    of_rows = batched(chunks, height * width, strict=True)
    digests = [digest_of_tiles(row) for row, _ in zip(of_rows, range(n_rows), strict=False)]
    if digest_of_rows(digests) != receipt.shards[key]:
        return f"{key} has other bytes than the receipt says"
    return None


def _check_metadata_and_files(
    store: Store, root: _Root, receipt: Receipt, arrays: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], bytes | None]:
    """Return what differs in the metadata of some arrays and in the files that the receipt names.

    An append puts some of them before it commits them. These are no damage.

    Returns:
        The differences, and the content of ``rows.parquet`` if it is whole.
    """
    differences, longer = array_metadata_that_differ(store, arrays)
    is_begun = root.is_behind or (root.is_claimed and bool(longer))
    if not root.is_claimed:
        differences += [f"{name}/{ROOT_KEY} differs from the metadata in {ROOT_KEY}" for name in longer]
    table: bytes | None = None
    for key, told in receipt.files.items():
        content, wrong = _read_file(store, key, told)
        may_be_next = root.is_claimed and not root.is_behind
        if wrong is not None and may_be_next and _is_of_version(key, content, root.version + 1):
            is_begun, wrong = True, None
        if wrong is not None:
            differences.append(wrong)
        elif key == ROWS_KEY:
            table = content
    begun = [_BEGUN.format(root.version + 1)] if is_begun else []
    return begun + differences, table


def _read_file(store: Store, key: str, told: ReceiptFile) -> tuple[bytes, str | None]:
    """Return the content of a file beside the arrays, and what differs in it."""
    try:
        content = bytes(obstore.get(store, key).bytes())
    except FileNotFoundError:
        return b"", f"{key} is missing"
    if len(content) != told.nbytes:
        return content, f"{key} has {len(content):,} bytes; the receipt says {told.nbytes:,}"
    if hashlib.sha256(content).hexdigest() != told.sha256:
        return content, f"{key} has another content than the receipt says"
    return content, None


def _is_of_version(key: str, content: bytes, version: int) -> bool:
    """Return whether a file that every append writes again is whole, and may be of a version."""
    try:
        if key == ROWS_KEY:
            told, batches = read_row_table(content)
            return bool(told["version"] == version) and all(batches)
        return key == HEADERS_KEY and all(stored_entries(content))
    except (GatherError, ParquetError, ArithmeticError, LookupError, TypeError, ValueError):
        return False


def _check_own_checksums(store: Store) -> tuple[int, list[str]]:
    """Return the number of files with a checksum of their own, and what differs in them.

    These are the metadata of former versions, and the pages. A cube is complete without its pages.
    """
    listed_keys = (item["path"] for item in list_objects(store, VERSIONS_FOLDER))
    former = {key: int(match[1]) for key in listed_keys if (match := _FORMER.fullmatch(key))}

    def is_as_written(key: str) -> bool | None:
        try:
            content = bytes(obstore.get(store, key).bytes())
        except FileNotFoundError:
            return None
        return _is_former(content, former[key]) if key in former else is_file_as_written(key, content)

    keys = [*PAGE_KEYS, *former]
    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        found = dict(zip(keys, threads.map(is_as_written, keys), strict=True))
    differences = [f"{key} has another content than was written" for key in keys if found[key] is False]
    return sum(each is not None for each in found.values()), differences


def _is_former(content: bytes, number: int) -> bool:
    """Return whether a group's metadata are those of a version."""
    try:
        root = json.loads(content)
        return is_group_as_written(root) and gather_of(root["attributes"])["versions"][-1]["number"] == number
    except (*NOT_OF_A_CUBE, IndexError):
        return False


def _by(lengths: Sequence[int]) -> str:
    return " x ".join(f"{length:,}" for length in lengths)
