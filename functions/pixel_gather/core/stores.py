"""Interfaces to the stores of a gather: the cube, and the control files of a run."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.core.plan.cube_plan import CubePlan, PixelArray, claim_of
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.stored_tiles import BandTiles

if TYPE_CHECKING:  # only plan and finish need these: a worker starts faster without them
    from pixel_gather.core.read.quicklook import Quicklooks
    from pixel_gather.core.results.receipt import Receipt, WrittenFile
    from pixel_gather.core.results.report import Report
    from pixel_gather.core.results.row_coordinates import Coordinate, Values

RECEIPT_KEY: Final = "receipt.json"
ROOT_KEY: Final = "zarr.json"
"""Key of the group's metadata, below a cube's place. An array has the same key below its name."""

FOUND_LIST_KEY: Final = "sources.parquet"
"""Key of the list that a search found: below a claim, and in the cube of the first gather."""

NOT_COMPLETE: Final = (
    "the cube is not complete. If its gather is still at work, wait. If not, run its request again: the "
    "gather goes on where it stopped"
)
"""Said of a cube that a gather has begun and not finished."""


class FoundCube(Struct, frozen=True, kw_only=True):
    """A cube that is already at the output location."""

    place: str
    """Its location, as the user wrote it."""

    digest: str
    """Digest of its plan."""

    planned_at: float
    """When the plan was made, in seconds since 1970-01-01 UTC."""

    report: Mapping[str, Any] | None
    """Its report; None if the cube is not complete."""

    template: CubeTemplate | None = None
    """What other gathers inherit from it. None if it is not complete, or no gather made it."""

    versions: tuple[CubeVersion, ...] = ()
    """Its commits, the first gather first. Empty if it is not complete."""

    origin: Mapping[str, Any] = {}
    """What its metadata say of its first gather."""

    chunk_rows: int = 0
    """Rows in a chunk of each coordinate; 0 if it is not complete."""

    arrays: frozenset[str] = frozenset()
    """Names of its arrays. Empty if it is not complete."""

    etag: str | None = None
    """ETag of the group's metadata that say all this. They are replaced only under this condition."""

    @property
    def version(self) -> int:
        """Number of its last commit; 0 if it is not complete."""
        return self.versions[-1].number if self.versions else 0

    @property
    def claim(self) -> str:
        """The same as `CubePlan.place_claim`."""
        return claim_of(self.planned_at)

    def has_version_of(self, digest: str) -> bool:
        """Return whether a gather or an append of this digest is committed."""
        return any(each.digest == digest for each in self.versions)

    def complete_report(self) -> "Report | None":
        """Return the report of a complete cube, or None."""
        from pixel_gather.core.results.report import Report  # noqa: PLC0415 # as above

        return None if self.report is None else msgspec.convert(self.report, Report)


class StoredShard(Struct, frozen=True, kw_only=True):
    """One object of a shard that was put."""

    nbytes: int
    etag: str
    """As the store answered the PUT. Another PUT of the object gives it another ETag, or the same content."""


type Content = bytes | Sequence[bytes | bytearray | memoryview]
"""What an object holds: all of it, or its parts in order."""


class RowEncoder(Protocol):
    """Compresses the pixels of one shard, some rows at a time."""

    @property
    def nbytes(self) -> int | None:
        """Bytes of the rows that are compressed. None if the pixels are needed until the shard is stored."""

    async def encode_rows(self, start: int, stop: int) -> None:
        """Compress rows [start, stop) of the pixels: those of one or several chunks."""

    def close(self) -> None:
        """Give its memory back when the shard is stored. Nothing may read its parts any more."""


class StagedCube(Protocol):
    """Everything of a cube but its pixels, written to a place of its own before it is published."""

    async def create(self, plan: CubePlan) -> CubePlan:
        """Describe the measurements."""

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        """Describe the arrays along the first axis. Replaces those of an earlier try."""

    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence["Coordinate"], start: int, values: Mapping[str, "Values"]
    ) -> None:
        """Write consecutive rows of several coordinates, in whole chunks.

        Args:
            plan: The cube.
            coordinates: Which to write.
            start: First row. It is the first one of a chunk.
            values: The rows, by name of the coordinate. It may hold other coordinates as well.
        """

    async def write_row_table(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, "Values"]]
    ) -> "WrittenFile | None":
        """Write all rows' coordinates as one table beside the arrays, when all shards are stored.

        Args:
            plan: The cube.
            batches: Values of consecutive rows by name. Nothing is written if there are none.
        """

    async def write_headers(
        self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]
    ) -> "WrittenFile | None":
        """Write the header index, which spares later gathers the reading of headers.

        Args:
            entries: Batches of (href, packed header). Nothing is written if there are none.
        """

    async def write_found_list(self, plan: CubePlan, content: bytes) -> "WrittenFile":
        """Write the list that a search found beside the arrays.

        Args:
            plan: Plan of the gather or the append.
            content: A Parquet file, from `pixel_gather.core.ports.SourceTable.found_list`.
        """

    async def write_contributors(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, "Values"]]
    ) -> "WrittenFile | None":
        """Write the sources of rows that are reduced as one table beside the arrays.

        Args:
            plan: The cube.
            batches: From `contributor_values`.
        """

    async def write_quicklooks(self, quicklooks: Sequence["Quicklooks"]) -> "WrittenFile":
        """Write small pictures of some windows beside the arrays."""

    async def write_receipt(self, receipt: "Receipt") -> None:
        """Write the receipt beside the arrays. Replaces that of an earlier try."""

    async def complete(self, plan: CubePlan, report: "Report") -> None:
        """Write the georeference and the group's metadata, consolidated and marked as complete."""

    def phases(self, plan: CubePlan, found: FoundCube) -> Sequence[Sequence[str]]:
        """Return the keys of what a cube lacks or has otherwise, but for the group's metadata.

        Args:
            plan: What was staged.
            found: The cube as it was found before.

        Returns:
            Groups of keys, in the order in which they are put.
        """

    def chunk_keys(self, name: str) -> Mapping[int, str]:
        """Return the keys of a coordinate's chunks, by their number along the first axis."""

    def content(self, key: str) -> Content:
        """Return what was written under a key."""


class StoredObject(Struct, frozen=True, kw_only=True):
    """An object of a cube, and the version of it that was read."""

    content: bytes
    etag: str
    modified_at: float
    """When it was put, in seconds since 1970-01-01 UTC."""


class EarlierRows(Struct, frozen=True, kw_only=True):
    """What is known of the rows before those of a plan. The defaults are those of a new cube."""

    report: "Report | None" = None
    receipt: "Receipt | None" = None
    rows: Callable[[], Iterator[Mapping[str, "Values"]]] = lambda: iter(())
    """Returns the values of all rows, in batches; see `row_coordinates.table_values`."""

    headers: Callable[[], Iterator[Sequence[tuple[str, bytes]]]] = lambda: iter(())
    """Returns the header index: batches of (href, packed header)."""


class ArchiveStore(Protocol):
    """The folder of cubes, for the files of their archives."""

    async def read_object(self, key: str) -> StoredObject | None:
        """Return an object of the folder, or None if there is no such object."""

    async def put_object(self, key: str, content: bytes, *, replaces: str | None) -> str | None:
        """Put an object if what is there has the ETag ``replaces``; with None, if nothing is there.

        Returns:
            The object's ETag; None if it was not put.
        """


class CubeStore(Protocol):
    """The place of one cube. Nothing that a reader may have seen changes in place."""

    @property
    def place(self) -> str:
        """The location as the user wrote it."""

    # Objects of any kind, each put under a condition

    async def etag_of(self, key: str) -> str | None:
        """Return the ETag of an object; None if there is no such object."""

    async def read_object(self, key: str) -> StoredObject | None:
        """Return an object of the cube, or None if there is no such object."""

    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        """Put an object, if what is there still has this ETag; None: if nothing is there.

        Returns:
            Its ETag; None if it was not put, or was put by a try whose answer was lost.
        """

    # The group's metadata: whose the place is, and which version the cube has reached

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if the location is empty.

        Raises:
            ArrayExistsError: Something else is there.
        """

    async def found_among_files(self) -> FoundCube | None:
        """Return the cube at the location, or None if there is none, whatever else is there."""

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the location for a new cube and describe the measurements. Replaces nothing.

        Returns:
            The plan. If another run of the same digest was first, with that run's ``planned_at``.

        Raises:
            ArrayExistsError: Another gather has claimed the location meanwhile, or the cube is complete.
            BusyError: Other runs write there at the same time.
        """

    async def fence(self, claim: str, *, version: int) -> bool:
        """Change the group's metadata without changing their meaning, so that nobody else can commit.

        Args:
            claim: Noted in the metadata.
            version: Number of the version that is claimed.

        Returns:
            False if the cube has reached this version, or changes at this moment.
        """

    # Shards

    def encoder(
        self,
        plan: CubePlan,
        array: PixelArray,
        bands: Sequence[Pixels | BandTiles],
        *,
        n_before: int,
        places: Sequence[Sequence[int | None]] = (),
    ) -> RowEncoder:
        """Return what compresses the rows of one task.

        Args:
            plan: The cube.
            array: Which array.
            bands: Of each measurement of it, shape (row, y, x), at most as large as a shard. Or compressed
                tiles, which are kept.
            n_before: Rows of the shard that the cube has already. They stay readable in the former version,
                too, but for those that are put anew.
            places: For each measurement, each row's place in the shard, ascending; None if it is not put. If
                not given, the rows follow those before.
        """

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Return the ETags of all objects of all shards, by key."""

    async def write_shard(self, key: str, encoder: RowEncoder, *, replaces: str | None) -> StoredShard | None:
        """Store one object in one PUT.

        Args:
            key: Its key in the cube.
            encoder: From `encoder`. It has compressed all rows.
            replaces: ETag that the present object must have; None if there must be none. An object that
                replaces another has bytes that none had before.

        Returns:
            What was stored; None if something else is there, so that nothing was put.
        """

    # What is known of the rows that are there, and what a finish adds

    async def row_table(self) -> tuple[Mapping[str, Any], Iterator[Mapping[str, "Values"]]]:
        """Return the metadata and the rows of the table of all rows."""

    async def receipt(self) -> "Receipt":
        """Return the receipt of the complete cube."""

    async def earlier_rows(self, plan: CubePlan) -> EarlierRows:
        """Return what is known of the cube before an append."""

    def stage(self) -> AbstractContextManager[StagedCube]:
        """Open an empty place, where a finish writes all that is not pixels. It is removed at the end."""

    # Compaction

    async def shards_beyond(self, found: FoundCube) -> Sequence[str]:
        """Return the keys of shards with chunks that lie beyond the rows of a complete cube."""

    def compacted_shard(self, content: bytes | None, grid: tuple[int, ...]) -> bytes:
        """Return a shard's object without the bytes that its index does not name.

        Args:
            content: The object; None for a shard without chunks.
            grid: Number of chunks in a shard, along each axis.
        """

    async def compaction_files(self, found: FoundCube) -> Mapping[str, bytes]:
        """Return what follows the shards of a compacted cube, by key, in the order of the PUTs.

        Args:
            found: The cube as it was before.
        """


class ControlStore(Protocol):
    """Small files of one gather: the plan, the list in shard order, the sidecars."""

    async def put(self, key: str, content: bytes) -> None:
        """Write a file. Replaces an earlier one."""

    async def put_new(self, key: str, content: bytes) -> bool:
        """Write a file if there is none. Return whether it was written.

        False may also mean that another such PUT is on its way.
        """

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Write a file of any length from parts. A few parts are in memory at a time."""

    async def get(self, key: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Return bytes [start, stop) of a file.

        Raises:
            StoreError: There is no such file, or the store refuses.
        """

    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        """Return the keys below a prefix, with or without those of empty files."""

    async def clear(self) -> None:
        """Remove every file. A complete cube does not need them."""

    def below(self, folder: str) -> Self:
        """Return a store for the files in one folder."""


def unpack[T](content: bytes, type_: type[T], *, key: str) -> T:
    """Return what a control file holds, packed by MessagePack.

    Raises:
        StoreError: It is damaged.
    """
    try:
        return msgspec.msgpack.decode(content, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged_control(key, error) from error


def decode_json[T](content: bytes, type_: type[T], *, key: str) -> T:
    """Return what a control file of JSON holds. A request in it may have texts that are no valid Unicode.

    Raises:
        StoreError: The file is damaged.
    """
    try:
        return msgspec.convert(json.loads(content), type_)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise damaged_control(key, error) from error


def damaged_control(key: str, error: Exception) -> StoreError:
    """Return the error for a control file that cannot be decoded."""
    return StoreError(f"{key} is damaged ({error}): remove this control file and run again")


async def needed_file(control: ControlStore, key: str) -> bytes:
    """Return the content of a control file.

    Raises:
        StoreError: There is no such file.
    """
    content = await control.get(key)
    if content is None:
        raise missing_file(key)
    return content


def missing_file(key: str) -> StoreError:
    """Return the error of a control file that is not there."""
    return StoreError(
        f"the control file {key} is missing. Its gather has ended meanwhile, or was never planned. Send the "
        "same request again"
    )
