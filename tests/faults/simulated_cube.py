"""A cube in the memory of a simulation: objects with ETags, written by whoever comes, in whatever order.

The program's own steps run on it: planning, commits of shards, finish, publishing, appends, compactions. Only
the formats of objects are left out. An object's content is a Python value.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from copy import replace
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from pixel_gather.core.claim import check_can_continue, check_files
from pixel_gather.core.errors import ArrayExistsError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan, PixelArray
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.read.quicklook import Quicklooks
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.stored_tiles import BandTiles
from pixel_gather.core.results.contributors import CONTRIBUTORS, unpacked_lines
from pixel_gather.core.results.receipt import Receipt, WrittenFile
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.row_coordinates import Coordinate, Values
from pixel_gather.core.stores import (
    ROOT_KEY,
    EarlierRows,
    FoundCube,
    RowEncoder,
    StoredObject,
    StoredShard,
)
from pixel_gather.io.cube.zarr_metadata import versions_after

ROWS_KEY: Final = "rows.parquet"
RECEIPT_KEY: Final = "receipt.json"
CONTRIBUTORS_KEY: Final = "contributors.parquet"
TOLD_APART: Final = ("status", "etag", "max")
"""Coordinates that may be objects of their own, the first always. All others are one object, which takes less
time."""

_CHUNK_ROWS: Final = 1024


@dataclass(frozen=True, slots=True)
class Root:
    """The group's metadata."""

    plan: CubePlan
    """Of the gather or the append that wrote them."""

    origin_at: float
    """When the first gather was planned."""

    report: Mapping[str, Any] | None = None
    versions: tuple[CubeVersion, ...] = ()
    fence: str = ""


@dataclass(frozen=True, slots=True)
class Shard:
    """An object of pixels."""

    rows: Mapping[tuple[int, int], Pixels]
    """By their place in the shard, and their band, which is 0 without an axis of bands."""

    n_stale: int = 0
    """Chunks that only the indexes of former objects name."""

    nbytes: int = 0
    """As without a codec: one for each chunk, and one for each index."""

    former: Mapping[int, Mapping[tuple[int, int], Pixels]] = field(default_factory=dict)
    """Rows of the objects with which this one begins, by their size."""

    def rows_of(self, nbytes: int) -> Mapping[tuple[int, int], Pixels]:
        """Return the rows of the first so many bytes; of the first object if none has this size.

        See `pixel_gather.io.cube.grown_shard`.
        """
        sizes = {0: {}, **self.former, self.nbytes: self.rows}
        first = next(iter(self.former.values()), self.rows)
        return sizes.get(nbytes, first)

    def __len__(self) -> int:
        return len(self.rows) + self.n_stale


def grown_nbytes(former: int, n_added: int, committed: int) -> int:
    """Return the size of an object that grows, which never is the committed one's: see `GrownShard`."""
    nbytes = former + n_added + 1
    return nbytes + 1 if nbytes == committed else nbytes


class Table(dict[str, Any]):
    """The columns of the table of rows, and key and size of each shard."""

    shards: Sequence[tuple[str, int, str]] = ()


class Access(Protocol):
    """Sends a request to a store: it may be late, fail, or arrive when its sender is gone."""

    def __call__[T](self, act: Callable[[], T]) -> Awaitable[T]:
        """Return the answer."""


@dataclass
class SimulatedEncoder:
    """A ``RowEncoder`` that compresses nothing."""

    plan: CubePlan
    bands: Sequence[Pixels]
    n_before: int = 0
    places: Sequence[Sequence[int | None]] = ()
    """Of each band: place in the shard of each row; None if it is not put."""

    rows: set[int] = field(default_factory=set)
    nbytes: int | None = None
    """None, as the pixels are needed until they are stored."""

    async def encode_rows(self, start: int, stop: int) -> None:
        """Note the rows."""
        assert self.rows.isdisjoint(range(start, stop))
        self.rows.update(range(start, stop))

    def close(self) -> None:
        """Hold no memory."""


@dataclass(kw_only=True)
class SimulatedCube:
    """Implements `CubeStore`."""

    access: Access
    now: Callable[[], float]
    on_commit: Callable[[], None] = lambda: None
    """Called when the group's metadata of a complete cube were put."""

    splits: bool = False
    """Whether all coordinates of `TOLD_APART` are objects of their own."""

    objects: dict[str, StoredObject] = field(default_factory=dict)
    n_puts: int = 0
    calls: list[str] = field(default_factory=list)
    """Keys in the order of the PUTs."""

    place: str = "memory"
    _told: tuple[Any, Any] = (None, None)
    """The last group's metadata, and the cube as they tell of it."""

    # What a store does at once, when a request arrives

    def put_now(self, key: str, content: Any, replaces: str | None) -> str | None:
        """Put an object if it is as it was seen, as S3 does."""
        if not self.is_as_seen(key, replaces):
            return None
        self.n_puts += 1
        self.calls.append(key)
        self.objects[key] = StoredObject(content=content, etag=f'"{self.n_puts}"', modified_at=self.now())
        if key == ROOT_KEY and content.report is not None:
            self.on_commit()
        return self.objects[key].etag

    def is_as_seen(self, key: str, etag: str | None) -> bool:
        """Return whether an object has this ETag, or is missing with None."""
        there = self.objects.get(key)
        return etag == (None if there is None else there.etag)

    def content_now(self, key: str) -> Any:
        """Return what an object holds now; None if there is none."""
        there = self.objects.get(key)
        return None if there is None else there.content

    def remove(self) -> None:
        """Remove every object."""
        self.objects.clear()

    def _found_now(self) -> FoundCube | None:
        there = self.objects.get(ROOT_KEY)
        if there is None:
            return None
        root: Any = there.content
        if self._told[0] is not there:  # nothing changes in an object, nor in what is told of it
            self._told = there, self._found_as(root, there.etag)
        found: FoundCube = self._told[1]
        return found

    def _found_as(self, root: Any, etag: str) -> FoundCube:
        return FoundCube(
            place=self.place,
            digest=root.versions[0].digest if root.versions else root.plan.digest,
            planned_at=root.origin_at,
            report=root.report,
            template=None if root.report is None else CubeTemplate.of(root.plan, is_aligned=True),
            versions=root.versions,
            origin={"planned_at": root.origin_at, "request": {"windows": {}} if root.plan.chips else {}},
            chunk_rows=_CHUNK_ROWS,
            etag=etag,
        )

    # What the program asks for

    async def found(self) -> FoundCube | None:
        """Return the cube."""

        def look() -> FoundCube | None:
            return self._found_now()

        return await self.access(look)

    async def found_among_files(self) -> FoundCube | None:
        """Return the cube."""
        return await self.found()

    async def etag_of(self, key: str) -> str | None:
        """Look at an object."""

        def look() -> str | None:
            there = self.objects.get(key)
            return None if there is None else there.etag

        return await self.access(look)

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Look at all shards."""
        assert plan.measurements

        def look() -> Mapping[str, str]:
            return {key: each.etag for key, each in self.objects.items() if isinstance(each.content, Shard)}

        return await self.access(look)

    async def read_object(self, key: str) -> StoredObject | None:
        """Read an object."""

        def read() -> StoredObject | None:
            return self.objects.get(key)

        return await self.access(read)

    async def put_object(self, key: str, content: Any, *, replaces: str | None) -> str | None:
        """Put an object if it is as it was seen."""

        def put() -> str | None:
            return self.put_now(key, content, replaces)

        return await self.access(put)

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the place."""

        def put() -> CubePlan:
            found = self._found_now()
            if found is None:
                self.put_now(ROOT_KEY, Root(plan, plan.planned_at), None)
                return plan
            check_can_continue(found, plan.digest, plan.request)
            return replace(plan, planned_at=found.planned_at)

        plan = await self.access(put)
        await self.put_object(f"arrays/{ROOT_KEY}", plan.n_rows, replaces=None)
        return plan

    def encoder(
        self,
        plan: CubePlan,
        array: PixelArray,
        bands: Sequence[Pixels | BandTiles],
        *,
        n_before: int,
        places: Sequence[Sequence[int | None]] = (),
    ) -> SimulatedEncoder:
        """Keep the pixels as they are."""
        assert len(array.measurements) == len(bands)
        pixels = [each for each in bands if not isinstance(each, BandTiles)]
        return SimulatedEncoder(plan, pixels, n_before, places)

    async def write_shard(
        self, path: str, encoder: RowEncoder, *, replaces: str | None
    ) -> StoredShard | None:
        """Put a shard, with its former rows if it has some."""
        assert isinstance(encoder, SimulatedEncoder)
        assert encoder.rows == set(range(len(encoder.bands[0]))), "all rows are compressed, each once"
        n_before = encoder.n_before
        added = {
            (place, band): np.array(row)
            for band, (places, rows) in enumerate(zip(encoder.places, encoder.bands, strict=True))
            for place, row in zip(places, rows, strict=True)
            if place is not None
        }
        there = None
        if n_before and (path in encoder.plan.append.tails or replaces is not None):
            there = await self._needed(path)
            if there.etag != replaces:
                return None
        former: Any = Shard({}) if there is None else there.content
        plan = encoder.plan
        committed = former.nbytes if plan.reduction is None else plan.append.nbytes_of(path)
        rows = former.rows_of(committed)
        kept = {row: rows[row] for row in rows if row[0] < n_before}
        sizes = {**former.former, former.nbytes: former.rows} if former.nbytes else {}
        nbytes = grown_nbytes(former.nbytes, len(added), committed)
        shard = Shard({**kept, **added}, former.n_stale + len(former.rows), nbytes=nbytes, former=sizes)
        etag = await self.put_object(path, shard, replaces=replaces)
        return None if etag is None else StoredShard(nbytes=1, etag=etag)

    async def _needed(self, key: str) -> StoredObject:
        there = await self.read_object(key)
        if there is None:
            raise StoreError(f"{key} is missing")
        return there

    async def fence(self, claim: str, *, version: int) -> bool:
        """Note a claim in the group's metadata."""
        there = await self._needed(ROOT_KEY)
        root: Any = there.content
        if root.versions[-1].number >= version:
            return False
        if root.fence == claim:
            return True
        return await self.put_object(ROOT_KEY, replace(root, fence=claim), replaces=there.etag) is not None

    async def row_table(self) -> tuple[Mapping[str, Any], Iterator[Mapping[str, Values]]]:
        """Return the table of rows."""
        values: Any = (await self._needed(ROWS_KEY)).content
        return {"shards": values.shards}, iter([_with_contributors(values)])

    def shards_now(self) -> Sequence[tuple[str, int, str]]:
        """Return key and size of each shard."""
        contents = ((key, each.content) for key, each in self.objects.items())
        shards: Sequence[tuple[str, Any]] = [each for each in contents if isinstance(each[1], Shard)]
        return [(key, shard.nbytes, "") for key, shard in shards]

    async def earlier_rows(self, plan: CubePlan) -> EarlierRows:
        """Return what is known of the rows before an append."""
        found, table, receipt = (
            await self.found(),
            await self._needed(ROWS_KEY),
            await self._needed(RECEIPT_KEY),
        )
        report = None if found is None else found.complete_report()
        if report is None:
            raise ArrayExistsError("the cube was removed")
        rows: Any = table.content
        values = _with_contributors(rows)
        told: Any = receipt.content
        return EarlierRows(
            report=report,
            receipt=told,
            rows=lambda: iter([{name: each[: plan.first_row] for name, each in values.items()}]),
            headers=lambda: iter([]),
        )

    async def receipt(self) -> Receipt:
        """Return the receipt."""
        receipt: Any = (await self._needed(RECEIPT_KEY)).content
        assert isinstance(receipt, Receipt)
        return receipt

    async def shards_beyond(self, found: FoundCube) -> Sequence[str]:
        """Return the keys of shards beyond the rows that have some."""
        assert found.template is not None
        n_shards = -(-found.versions[-1].n_rows // found.template.layout.shard[0])

        def look() -> Sequence[str]:
            return [
                key
                for key, each in self.objects.items()
                if isinstance(each.content, Shard)
                and int(key.split("/")[2]) >= n_shards
                and len(each.content)
            ]

        return await self.access(look)

    def compacted_shard(self, content: Any, grid: tuple[int, ...]) -> Any:
        """Return a shard without what is stale."""
        del grid
        rows = {} if content is None else content.rows
        return Shard(rows, nbytes=len(rows) + 1)

    async def compaction_files(self, found: FoundCube) -> Mapping[str, Any]:
        """Return the files of a compacted cube."""
        contents: list[Any] = [(await self._needed(key)).content for key in (ROOT_KEY, ROWS_KEY, RECEIPT_KEY)]
        root, rows, receipt = contents
        arrays: Any = (await self._needed(f"arrays/{ROOT_KEY}")).content
        check_files(found, n_rows=(len(rows["href"]), receipt.shape[0], arrays))
        rows = Table(rows)
        rows.shards = self.shards_now()
        last = found.versions[-1]
        added = replace(
            last, number=last.number + 1, kind="compact", n_sources=0, n_failed=0, n_retried=0, n_recovered=0
        )
        return {
            ROWS_KEY: rows,
            RECEIPT_KEY: replace(receipt, version=added.number),
            ROOT_KEY: replace(root, versions=(*found.versions, added)),
        }

    @contextmanager
    def stage(self) -> Iterator["SimulatedStage"]:
        """Open an empty stage."""
        yield SimulatedStage(self)


def _with_contributors(values: Table) -> Mapping[str, Values]:
    """Return the columns of rows with what is known of the sources that each was reduced of."""
    told = {CONTRIBUTORS: unpacked_lines(values[CONTRIBUTORS])} if CONTRIBUTORS in values else {}
    return {**values, **told}


@dataclass
class SimulatedStage:
    """Implements `StagedCube`. Nobody else writes to it, and nothing fails there."""

    cube: SimulatedCube
    objects: dict[str, Any] = field(default_factory=dict)

    async def create(self, plan: CubePlan) -> CubePlan:
        """Describe the arrays."""
        self.objects[f"arrays/{ROOT_KEY}"] = plan.n_rows
        return plan

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence[Coordinate]) -> None:
        """Keep nothing: chunks are made when rows are written."""

    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence[Coordinate], start: int, values: Mapping[str, Values]
    ) -> None:
        """Keep the one chunk of each coordinate."""
        assert start == 0
        assert plan.n_rows <= _CHUNK_ROWS
        names = [each.name for each in coordinates]
        apart: Collection[str] = TOLD_APART if self.cube.splits else TOLD_APART[:1]
        parts = {name: [name] for name in names if name in apart}
        parts["others"] = [name for name in names if name not in apart]
        for name, part in parts.items():
            if not part:
                continue
            chunk = self.objects.setdefault(f"{name}/c/0", {})
            chunk.update({each: values[each] for each in part})

    async def write_row_table(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, Values]]
    ) -> WrittenFile | None:
        """Keep the columns."""
        assert plan.n_rows
        parts = [batch async for batch in batches]
        (values,) = parts  # a cube of few rows is one batch
        table = Table(values)
        table.shards = self.cube.shards_now()
        self.objects[ROWS_KEY] = table
        return WrittenFile(key=ROWS_KEY, nbytes=1, sha256="")

    async def write_headers(self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]) -> WrittenFile | None:
        """Keep nothing."""
        async for _ in entries:
            pass
        return None

    async def write_found_list(self, plan: CubePlan, content: bytes) -> WrittenFile:
        """Nothing was searched."""
        raise AssertionError(plan, content)

    async def write_contributors(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, Values]]
    ) -> WrittenFile | None:
        """Keep the lines."""
        assert plan.reduction is not None
        parts = [batch async for batch in batches]
        self.objects[CONTRIBUTORS_KEY] = {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }
        return WrittenFile(key=CONTRIBUTORS_KEY, nbytes=1, sha256="")

    async def write_quicklooks(self, quicklooks: Sequence[Quicklooks]) -> WrittenFile:
        """Keep nothing."""
        return WrittenFile(key="quicklooks.npz", nbytes=len(quicklooks), sha256="")

    async def write_receipt(self, receipt: Receipt) -> None:
        """Keep it."""
        self.objects[RECEIPT_KEY] = receipt

    async def complete(self, plan: CubePlan, report: Report) -> None:
        """Keep the group's metadata."""
        origin_at = plan.append.origin.get("planned_at", plan.planned_at)
        self.objects[ROOT_KEY] = Root(plan, origin_at, report.to_json(), versions_after(plan, report))

    def phases(self, plan: CubePlan, found: FoundCube) -> Sequence[Sequence[str]]:
        """Return all of a new cube at once, else chunks, the arrays' metadata, the table and the receipt."""
        del found
        if plan.append.is_first:
            return [sorted(self.objects.keys() - {ROOT_KEY})]
        chunks = sorted(key for key in self.objects if "/c/" in key)
        last = [key for key in chunks if key.startswith("status/")]
        files = sorted({ROWS_KEY, CONTRIBUTORS_KEY} & self.objects.keys())
        return [sorted(set(chunks) - set(last)), last, [f"arrays/{ROOT_KEY}"], files, [RECEIPT_KEY]]

    def chunk_keys(self, name: str) -> Mapping[int, str]:
        """Return the key of the one chunk."""
        return {0: f"{name}/c/0"}

    def content(self, key: str) -> Any:
        """Return what was kept."""
        return self.objects[key]
