"""Claims the location of a cube, which is a Zarr v3 group, and stores its shards. Each shard is one PUT.

Order of writing: the group's ``zarr.json`` claims the location and says ``complete: 0``. Then follow the
measurements' metadata and the shards. All else is staged, and published when the shards are there; see
`pixel_gather.engine.publish_version`.

Rows are added in the same order, but for the claim. Readers that hold the former metadata read the former
rows: chunks of these keep their places in all objects. Objects of one chunk have these rows, too.
"""

import asyncio
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore

from pixel_gather.core.claim import check_can_continue
from pixel_gather.core.errors import ArrayExistsError, BusyError
from pixel_gather.core.plan.cube_plan import CubePlan, PixelArray
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.stored_tiles import BandTiles
from pixel_gather.core.stores import (
    RECEIPT_KEY,
    ROOT_KEY,
    EarlierRows,
    FoundCube,
    RowEncoder,
    StagedCube,
    StoredShard,
)
from pixel_gather.io.cube.chunk_memory import ChunkMemory, LentMemory
from pixel_gather.io.cube.cube_files import CubeFiles, found_cube
from pixel_gather.io.cube.grown_shard import GrownShard, compact_shard
from pixel_gather.io.cube.shard_codec import ShardEncoder, TileShard, chunk_encoder, index_nbytes
from pixel_gather.io.cube.zarr_metadata import (
    changed_group,
    gather_of,
    group_attributes,
    group_content,
    put_pixel_array,
)
from pixel_gather.io.store.conditional_put import NO_ETAG
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store

if TYPE_CHECKING:  # not in a worker's start
    from pixel_gather.core.results.receipt import Receipt
    from pixel_gather.core.results.row_coordinates import Values

_CLAIM_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Longest pause after each try to claim a location while another PUT to it is running."""

CONTROL_FOLDER: Final = ".gather/"
_FENCE: Final = "fence"


class ZarrCube(CubeFiles, frozen=True):
    """Implements `pixel_gather.core.stores.CubeStore` at the root of a store."""

    _memory: ChunkMemory = msgspec.field(default_factory=ChunkMemory)

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if the location is empty."""
        # concurrently: one round trip instead of two
        finding = asyncio.ensure_future(self.found_among_files())
        listing = asyncio.ensure_future(self._is_empty())
        await asyncio.gather(finding, listing, return_exceptions=True)
        found = finding.result()
        if found is not None or listing.result():
            return found
        return await self.found_among_files()  # another gather has created it meanwhile

    async def _is_empty(self) -> bool:
        """Return whether nothing is there; False if a cube is."""
        with errors_of_store(f"{self.place} could not be listed"):
            async for page in obstore.list(self.store, chunk_size=2):
                others = [item["path"] for item in page if not item["path"].startswith(CONTROL_FOLDER)]
                if ROOT_KEY in others:
                    return False
                if others:
                    raise ArrayExistsError(
                        f"{self.place}: it is not empty ({others[0]} is there) and holds no cube: "
                        "choose another place"
                    )
        return True

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the location, or resume a claim of the same digest. Write the measurements' metadata."""
        root = {"zarr_format": 3, "node_type": "group", "attributes": group_attributes(plan)}
        plan = await self._claim_cube(plan, group_content(root))
        with errors_of_store(f"{self.place} could not be written"):
            await asyncio.to_thread(self._create_measurements, plan)
        return plan

    async def _claim_cube(self, plan: CubePlan, content: bytes) -> CubePlan:
        """Put the group's metadata if there are none. Return the plan of the gather that was first.

        S3 refuses a conditional PUT if the object exists. It also refuses it (409) while another such PUT is
        running, and that one may still fail. For both, obstore raises the same error. So this looks what is
        there.
        """
        for longest_s in _CLAIM_PAUSES_S:
            with errors_of_store(f"{self.place} could not be written"), suppress(AlreadyExistsError):
                await obstore.put_async(self.store, ROOT_KEY, content, mode="create", use_multipart=False)
                return plan
            found = await self.found()
            if found is not None:
                check_can_continue(found, plan.digest, plan.request)
                return replace(plan, planned_at=found.planned_at)
            await asyncio.sleep(random.uniform(longest_s / 2, longest_s))  # noqa: S311 # no secret
        raise BusyError(f"{self.place}: others are writing there at the same time: run again")

    async def fence(self, claim: str, *, version: int) -> bool:
        """Note the claim in the group's metadata. Whoever has read them before cannot replace them."""
        there = await self.read_needed(ROOT_KEY)
        root = json.loads(there.content)
        if found_cube(root, place=self.place, etag=there.etag).version >= version:
            return False
        gather = gather_of(root["attributes"])
        if gather.get(_FENCE) == claim:
            return True
        content = changed_group(root, gather | {_FENCE: claim})
        return await self.put_object(ROOT_KEY, content, replaces=there.etag) is not None

    def encoder(
        self,
        plan: CubePlan,
        array: PixelArray,
        bands: Sequence[Pixels | BandTiles],
        *,
        n_before: int,
        places: Sequence[Sequence[int | None]] = (),
    ) -> ShardEncoder | TileShard | GrownShard:
        """Return what compresses a shard's pixels, or keeps its tiles as they are."""
        pixels = [each for each in bands if not isinstance(each, BandTiles)]
        if isinstance(bands[0], BandTiles):  # each has an array of its own
            return TileShard(bands[0], shard=plan.layout.shard, chunk=plan.layout.chunk)
        if n_before:
            return GrownShard(plan, array, pixels, n_before=n_before, places=places)
        memory, fill_value = LentMemory(self._memory), array.measurements[0].fill_value
        encode = chunk_encoder(
            plan.codec,
            itemsize=pixels[0].itemsize,
            fill_value=fill_value,
            zfp_tolerance=plan.zfp_tolerance,
            take=memory.take,
        )
        return ShardEncoder(
            pixels,
            shard=plan.layout.shard,
            chunk=plan.layout.chunk,
            fill_value=fill_value,
            encode=encode,
            codec_of_one=None if plan.layout.is_sharded else plan.codec,
            memory=memory,
        )

    async def write_shard(self, key: str, encoder: RowEncoder, *, replaces: str | None) -> StoredShard | None:
        """Store a compressed shard in one PUT. One that replaces another has random bytes in it."""
        if isinstance(encoder, GrownShard):
            return await self._grow_shard(key, encoder, replaces)
        assert isinstance(encoder, ShardEncoder | TileShard)  # noqa: S101 # `encoder` returns no others
        parts = encoder.parts(is_unique=replaces is not None)
        etag = await self.put_object(key, parts, replaces=replaces)
        return None if etag is None else StoredShard(nbytes=sum(map(len, parts)), etag=etag)

    async def _grow_shard(self, path: str, rows: GrownShard, replaces: str | None) -> StoredShard | None:
        """Put a shard whose first rows are there.

        If none of those rows has a pixel that is stored, there is no former object.
        """
        there = await self.read_needed(path) if replaces is not None or rows.is_tail(path) else None
        if there is not None and there.etag != replaces:
            return None
        former = b"" if there is None else there.content
        committed_nbytes = rows.committed_nbytes(path, former)
        parts = await rows.parts_with(former, committed_nbytes=committed_nbytes)
        etag = await self.put_object(path, parts, replaces=replaces)
        return None if etag is None else StoredShard(nbytes=sum(map(len, parts)) - len(former), etag=etag)

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Return the ETags of all shards' objects. S3 needs one request for 1,000 of them."""
        from pixel_gather.io.cube.row_table import stored_shards  # noqa: PLC0415 # not in a worker's start

        with errors_of_store(f"{self.place} could not be read"):
            there = await asyncio.to_thread(stored_shards, self.store, plan)
        return {key: etag or NO_ETAG for key, _, etag in there}

    async def row_table(self) -> tuple[Mapping[str, Any], Iterator[Mapping[str, "Values"]]]:
        """Return the metadata and the rows of ``rows.parquet``."""
        from pixel_gather.io.cube.earlier_rows import read_table_of_rows  # noqa: PLC0415 # arro3

        return await read_table_of_rows(self)

    async def receipt(self) -> "Receipt":
        """Read the receipt."""
        from pixel_gather.io.cube.stored_receipt import parse_receipt  # noqa: PLC0415 # not for workers

        return parse_receipt((await self.read_needed(RECEIPT_KEY)).content, self.place)

    async def earlier_rows(self, plan: CubePlan) -> EarlierRows:
        """Read the report, the receipt, ``rows.parquet`` and ``headers.parquet``."""
        from pixel_gather.io.cube.earlier_rows import read_earlier_rows  # noqa: PLC0415 # as above

        return await read_earlier_rows(self, plan)

    async def shards_beyond(self, found: FoundCube) -> Sequence[str]:
        """Return the keys of shards with chunks that lie beyond the cube's rows."""
        with errors_of_store(f"{self.place} could not be read"):
            return await asyncio.to_thread(_shards_beyond, self.store, found)

    def compacted_shard(self, content: bytes | None, grid: tuple[int, ...]) -> bytes:
        """Return a shard's object without the bytes that its index does not name."""
        return b"".join(compact_shard(content or b"", grid))

    async def compaction_files(self, found: FoundCube) -> Mapping[str, bytes]:
        """Return the table of rows, the receipt and the group's metadata of the compacted cube."""
        from pixel_gather.io.cube.compact_cube import compaction_files  # noqa: PLC0415 # arro3

        return await compaction_files(self, found)

    @contextmanager
    def stage(self) -> Iterator[StagedCube]:
        """Open an empty cube in a temporary folder. Its table of rows names the shards of this one."""
        from tempfile import TemporaryDirectory  # noqa: PLC0415 # 3 ms that no worker needs

        from pixel_gather.io.cube.staged_cube import StagedZarrCube  # noqa: PLC0415 # arro3

        with TemporaryDirectory(prefix="pixel-gather-") as folder:
            yield StagedZarrCube(LocalStore(folder), self.place, shards_in=self.store)

    def _create_measurements(self, plan: CubePlan) -> None:
        """Put the metadata that are missing. What is there may be that of the complete cube."""
        for array in plan.arrays:
            with suppress(AlreadyExistsError):
                put_pixel_array(self.store, plan, array, mode="create")


def _shards_beyond(store: Store, found: FoundCube) -> list[str]:
    from pixel_gather.io.cube.row_table import shards_below  # noqa: PLC0415 # not in a worker's start

    assert found.template is not None  # noqa: S101 # the cube is complete
    template, n_rows = found.template, found.versions[-1].n_rows
    beyond = range(-(-n_rows // template.layout.shard[0]), sys.maxsize)
    there = shards_below(store, [each.name for each in template.arrays], beyond)
    return [key for key, nbytes, _ in there if nbytes > index_nbytes(prod(template.chunk_grid))]
