"""Opens cubes of others with codecs that unpack no more than a chunk may hold.

A chunk of some KB may unpack to gigabytes, and zarr-python sets no limit. Here every chunk has one: the size
that its array's metadata say, and `LARGEST_CHUNK_NBYTES`. Codecs that no gather uses are refused.
"""

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import replace
from typing import TYPE_CHECKING, Any, Final

import zarr
from zarr.abc.store import Store as ZarrStore
from zarr.codecs import BloscCodec, ZstdCodec
from zarr.codecs import VLenUTF8Codec as Texts
from zarr.codecs.numcodecs import Zlib
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.group import ConsolidatedMetadata, GroupMetadata
from zarr.storage import ObjectStore

from pixel_gather.core.errors import RequestError
from pixel_gather.io.cube.tile_codecs import register_codecs
from pixel_gather.io.store.list_objects import root_folders
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:
    import xarray as xr

LARGEST_CHUNK_NBYTES: Final = 256 << 20
"""No tile of a source is larger, and no chunk of a gather."""

DECODERS: Final = (
    "mask_and_scale", "decode_times", "decode_timedelta", "use_cftime", "concat_characters", "decode_coords",
)  # fmt: skip
"""Arguments of xarray that say how values are decoded."""

_BLOSC_NBYTES_AT: Final = 4
_TEXT_NBYTES: Final = 8
"""What an array in memory takes for each text, beside the text."""

_KNOWN: Final = frozenset(
    {
        "blosc",
        "bytes",
        "crc32c",
        "imagecodecs_delta",
        "imagecodecs_floatpred",
        "imagecodecs_lzma",
        "imagecodecs_lzw",
        "imagecodecs_packbits",
        "imagecodecs_zfp",
        "numcodecs.zlib",
        "sharding_indexed",
        "vlen-utf8",
        "zstd",
    }
)


def _as_plain(codec: Any) -> tuple[Any, ...]:
    """Send zarr-python's own codec to other processes, which may lack this package."""
    plain: Any = type(codec).__base__
    return plain.from_dict, (codec.to_dict(),)


class BoundedZstd(ZstdCodec):
    """Zstd, after a look at the size in its frame."""

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        content = chunk_bytes.to_bytes()
        limit, nbytes = _most_nbytes(chunk_spec), zstd_nbytes(content)
        if nbytes is None:  # a tile that a writer of GeoTIFFs compressed as a stream
            from imagecodecs import zstd_decode  # noqa: PLC0415 # seldom needed

            return chunk_spec.prototype.buffer.from_bytes(zstd_decode(content, out=limit))
        if nbytes > limit:
            raise ValueError("a chunk unpacks to more than its array says")
        return super()._decode_sync(chunk_bytes, chunk_spec)

    __reduce__ = _as_plain


class BoundedBlosc(BloscCodec):
    """Blosc, after a look at the size in its header."""

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        (nbytes,) = struct.unpack_from("<I", chunk_bytes.to_bytes(), _BLOSC_NBYTES_AT)
        if nbytes > _most_nbytes(chunk_spec):
            raise ValueError("a chunk unpacks to more than its array says")
        return super()._decode_sync(chunk_bytes, chunk_spec)

    __reduce__ = _as_plain


class BoundedZlib(Zlib):
    """Deflate, up to the chunk's size."""

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        content = zlib.decompressobj().decompress(chunk_data.to_bytes(), _most_nbytes(chunk_spec))
        return chunk_spec.prototype.buffer.from_bytes(content)

    __reduce__ = _as_plain


class VLenUTF8Codec(Texts):
    """Texts, after a look at their number in the first four bytes. zarr-python asks for this name."""

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        n_texts = int.from_bytes(chunk_bytes[:4].to_bytes(), "little")
        if n_texts != math.prod(chunk_spec.shape):
            raise ValueError("a chunk has more or fewer texts than its array says")
        return super()._decode_sync(chunk_bytes, chunk_spec)

    __reduce__ = _as_plain


@contextmanager
def with_bounded_codecs() -> Iterator[None]:
    """Let arrays that are opened now have the codecs above.

    Arrays that are opened at other times have zarr-python's own.
    """
    register_codecs()
    here = __name__
    own = {
        "zstd": BoundedZstd,
        "blosc": BoundedBlosc,
        "numcodecs.zlib": BoundedZlib,
        "vlen-utf8": VLenUTF8Codec,
    }
    for name, codec in own.items():
        zarr.registry.register_codec(name, codec)
    with zarr.config.set(
        {
            "codecs": zarr.config.get("codecs")
            | {name: f"{here}.{each.__name__}" for name, each in own.items()}
        }
    ):
        yield


def open_foreign_group(store: Store, *, is_consolidated: bool = True) -> zarr.Group:
    """Open a cube whose files anybody may have written.

    If it is consolidated, arrays are described by the group's metadata, where these hold them.

    Raises:
        FileNotFoundError: There is no group.
        ValueError: A codec is unknown, or its chunks are too large. zarr-python raises more types where
            metadata are damaged.
    """
    with with_bounded_codecs():
        group = zarr.open_group(
            ObjectStore(store, read_only=True), mode="r", use_consolidated=None if is_consolidated else False
        )
        known = group.metadata.consolidated_metadata
        if known is None:  # as a cube is before its end, and those of other writers
            known = ConsolidatedMetadata(metadata=_arrays_of(group, store))
            metadata = replace(group.metadata, consolidated_metadata=known)
            group = zarr.Group(replace(group._async_group, metadata=metadata))  # noqa: SLF001 # no other way
    for name, each in known.flattened_metadata.items():
        if not isinstance(each, GroupMetadata):
            _check(name, each)
    return group


def open_foreign_dataset(store: ZarrStore, decoding: Mapping[str, Any], group: str = "") -> "xr.Dataset":
    """Open a group whose files anybody may have written with xarray.

    Raises:
        RequestError: ``decoding`` has an argument that is none of `DECODERS`.
        FileNotFoundError: There is no group.
        ValueError: As `open_foreign_group`. Pixels that unpack to too much raise it when they are read.
    """
    import xarray as xr  # noqa: PLC0415 # an extra, and 0.5 s

    if unknown := decoding.keys() - {*DECODERS, "decode_cf"}:
        raise RequestError(
            f"there is no such argument; of xarray's, decode_cf, {', '.join(DECODERS)} are taken, and "
            "stores=StoreSettings(...) says how buckets are reached",
            field=min(unknown),
        )
    with with_bounded_codecs():
        arrays = zarr.open_group(store, path=group, mode="r")
        for name, each in arrays.arrays():
            _check(name, each.metadata)
        is_consolidated = arrays.metadata.consolidated_metadata is not None
        asked: Any = {"group": group or None, "consolidated": is_consolidated, **decoding}
        found: xr.Dataset = xr.open_zarr(store, **asked)
        # where dask is installed, coordinates would be chunked, too, and xarray groups by none of them
        if any(each.chunks is not None for each in found.coords.values()):
            plain = xr.open_zarr(store, **asked, chunks=None)
            found = found.assign_coords({name: each.variable for name, each in plain.coords.items()})
    return found


def _arrays_of(group: zarr.Group, store: Store) -> dict[str, Any]:
    """Return the metadata of all arrays. zarr-python's own listing fails at files on a local disk."""
    found = {name: group.get(name) for name in sorted(root_folders(store))}
    return {name: each.metadata for name, each in found.items() if isinstance(each, zarr.Array)}


def _check(name: str, metadata: Any) -> None:
    described: dict[str, Any] = metadata.to_dict()
    if described["zarr_format"] != 3:  # noqa: PLR2004 # the only one with these codecs
        raise ValueError(f"{name} is no array of Zarr 3")
    chunk = described["chunk_grid"]["configuration"]["chunk_shape"]
    codecs = list(described["codecs"])
    while codecs:
        codec = codecs.pop()
        if codec["name"] not in _KNOWN:
            raise ValueError(f"{name} has the codec {codec['name']}, which no gather uses")
        inner = codec.get("configuration") or {}
        codecs += inner.get("codecs", []) + inner.get("index_codecs", [])
        chunk = inner.get("chunk_shape", chunk)
    itemsize = getattr(metadata.dtype, "item_size", None) or _TEXT_NBYTES
    if math.prod(chunk) * itemsize > LARGEST_CHUNK_NBYTES:
        raise ValueError(f"the chunks of {name} are larger than those of any gather")


def _most_nbytes(spec: ArraySpec) -> int:
    """Return how many bytes a chunk may have once it is decoded; of texts, as many as any chunk."""
    itemsize = getattr(spec.dtype, "item_size", None) or LARGEST_CHUNK_NBYTES
    return min(math.prod(spec.shape) * itemsize, LARGEST_CHUNK_NBYTES) or LARGEST_CHUNK_NBYTES


_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_DICTIONARY_NBYTES: Final[Mapping[int, int]] = {0: 0, 1: 1, 2: 2, 3: 4}


def zstd_nbytes(content: bytes) -> int | None:
    """Return the size that a zstd frame says it unpacks to (RFC 8878, section 3.1.1); None if it does not.

    Raises:
        ValueError: It is no such frame.
    """
    if content[:4] != _ZSTD_MAGIC or len(content) < 6:  # noqa: PLR2004 # magic, descriptor, one more
        raise ValueError("no zstd frame")
    descriptor = content[4]
    is_single = bool(descriptor & 0x20)
    start = 5 + (0 if is_single else 1) + _DICTIONARY_NBYTES[descriptor & 3]
    size = {0: 1 if is_single else 0, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    field = content[start : start + size]
    if len(field) < size:
        raise ValueError("a zstd frame that is cut off")
    if not size:
        return None
    return int.from_bytes(field, "little") + (256 if size == 2 else 0)  # noqa: PLR2004 # as the RFC has it
