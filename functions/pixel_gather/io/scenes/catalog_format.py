"""The two files that a search reads, beside a catalog's Parquet file.

``NAME.columns`` begins with a header in JSON, then the table of blocks, the offsets of the groups of items,
and the blocks themselves (`catalog.columns`). ``NAME.DIGEST.items`` holds the items: groups of 64, each
MessagePack compressed by zlib. The columns name their items file. So whoever has read the columns of one
version finds the items of that version.
"""

import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.scenes.columns import N_PER_BLOCK, BlockTable, block_nbytes

MAGIC: Final = b"PGCATLG2"
N_PER_GROUP: Final = 64
HEAD_NBYTES: Final = len(MAGIC) + 8
_MOST_HEADER_NBYTES: Final = 16 << 20
_MOST_GROUP_NBYTES: Final = 256 << 20


def columns_key(key: str) -> str:
    """Return the columns' name beside a catalog ``catalog.parquet``."""
    return f"{stem_of(key)}.columns"


def stem_of(key: str) -> str:
    """Return what the names of a catalog's files begin with: ``s2.2024`` for ``s2.2024.parquet``."""
    return key.removesuffix(".parquet")


class CollectionExtent(msgspec.Struct, frozen=True, kw_only=True):
    """What a catalog holds of one collection."""

    id: str
    """Empty for scenes that name no collection."""

    n_scenes: int
    box: tuple[float, float, float, float]
    """Box around all its scenes, unwrapped."""

    start_us: int
    stop_us: int
    """LAST_US where a scene has no end yet."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where scenes of a catalog came from, so that the same can be asked again."""

    kind: str
    """As of `make_catalog`: ``stac``, ``cmr``, ``items_file``, ``sources``, and so on."""

    place: Any = None
    """Address, name, href, or a request's ``sources``."""

    search: dict[str, Any] = {}
    """What was looked for there, as `SearchCriteria.of` takes it."""

    collection: str = "images"
    """Name of the collection for scenes made from headers."""


class CatalogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the columns file says first."""

    n_scenes: int
    items_key: str
    """Name of the items file, in the same folder."""

    items_before: str = ""
    """Name of the version before's items, which searches under way still read; empty where there is none."""

    extents: tuple[CollectionExtent, ...]
    """In the order of the column ``collection``'s numbers."""

    assets: tuple[str, ...] = ()
    """Keys of assets that scenes have."""

    properties: tuple[str, ...] = ()
    """Names of properties that scenes have; empty where they are too many to be listed."""

    origins: tuple[Origin, ...] = ()
    """Where the scenes came from."""

    @property
    def collections(self) -> tuple[str, ...]:
        """Names behind the column ``collection``."""
        return tuple(each.id for each in self.extents)

    @property
    def n_blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.n_scenes // N_PER_BLOCK)

    @property
    def n_groups(self) -> int:
        """Groups of items."""
        return -(-self.n_scenes // N_PER_GROUP)

    def n_in_block(self, block: int) -> int:
        """Return how many scenes a block holds."""
        return min(N_PER_BLOCK, self.n_scenes - block * N_PER_BLOCK)


class CatalogParts(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of a columns file lie, in bytes."""

    table: int
    offsets: int
    blocks: int
    stop: int

    @classmethod
    def after(cls, header_nbytes: int, header: CatalogHeader) -> "CatalogParts":
        """Return the parts of a file whose header has this many bytes, padding included."""
        table = HEAD_NBYTES + header_nbytes
        offsets = table + _pad_nbytes(BlockTable.nbytes(header.n_blocks))
        blocks = offsets + 8 * (header.n_groups + 1)
        return cls(table=table, offsets=offsets, blocks=blocks, stop=blocks + block_nbytes(header.n_scenes))


def head_to_bytes(header: CatalogHeader, table: BlockTable, offsets: np.ndarray[Any, Any]) -> bytes:
    """Return everything of a columns file that comes before its blocks.

    An offset tells where a group of items begins in the items file; the last one, where all end.
    """
    text = msgspec.json.encode(header)
    text = text.ljust(_pad_nbytes(len(text)))
    content = MAGIC + len(text).to_bytes(8, "little") + text
    content += table.to_bytes().ljust(_pad_nbytes(BlockTable.nbytes(header.n_blocks)), b"\0")
    return content + offsets.astype("<u8").tobytes()


def header_nbytes_of(head: bytes, *, name: str) -> int:
    """Return how long the header is, from the file's first bytes.

    Raises:
        StoreError: This is no columns file.
    """
    n = int.from_bytes(head[len(MAGIC) : HEAD_NBYTES], "little")
    if head[: len(MAGIC)] != MAGIC or n > _MOST_HEADER_NBYTES:
        raise StoreError(f"{name} is no catalog of this version; make it again with pixel-gather catalog")
    return n


def parse_header(text: bytes | memoryview, *, name: str) -> CatalogHeader:
    """Return the header from its JSON.

    Raises:
        StoreError: It is damaged.
    """
    try:
        return msgspec.json.decode(text, type=CatalogHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{name} is damaged ({error}); make it again with pixel-gather catalog") from error


def group_to_bytes(items: Sequence[bytes]) -> bytes:
    """Return a group of items, each JSON, as it stands in the items file."""
    return zlib.compress(msgspec.msgpack.encode(items), 6)


def group_of_bytes(content: bytes | memoryview, *, name: str) -> list[bytes]:
    """Return the items of a group.

    Raises:
        StoreError: It is damaged, or unpacks to far more than a group may hold.
    """
    try:
        unpacking = zlib.decompressobj()
        packed = unpacking.decompress(content, _MOST_GROUP_NBYTES)
        if unpacking.unconsumed_tail:
            raise StoreError(f"{name} has a group of more than {_MOST_GROUP_NBYTES >> 20} MiB")
        return msgspec.msgpack.decode(packed, type=list[bytes])
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{name} is damaged ({error}); make it again with pixel-gather catalog") from error


def _pad_nbytes(nbytes: int) -> int:
    return -(-nbytes // 8) * 8
