"""Carries cached headers to the workers, and headers that they read to the cube's index.

Packed headers are opaque here: only the reader that made them can decode them. They are large, so they have
control files of their own.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask, rows_by_shard
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.stores import ControlStore, unpack

PACKED_HEADERS_KEY: Final = "packed_headers.msgpack"
_HEADERS: Final = "headers/shards/"
_FEWEST_AHEAD, _MOST_AHEAD = 8, 32
"""Number of shards whose headers are read at one time."""

_NBYTES_AHEAD: Final = 256 << 20
_MAX_SHARD_NBYTES: Final = 32 << 20
"""Limit for one shard. Headers beyond it are read from the sources. A file of 225 tiles takes 850 bytes."""

type PackedHeaders = Sequence[Sequence[bytes | None]]
"""Packed headers of each row's sources. Empty if there is none for the whole shard."""


def encode_headers(plan: CubePlan, table: SourceTable, stops: list[int]) -> Iterator[bytes]:
    """Yield the packed headers shard by shard. Append the end position of each part to ``stops``."""
    position = 0
    no_headers = (None,) * len(plan.slots)
    for each in rows_by_shard(plan):
        start, stop = each.start - plan.first_row, each.stop - plan.first_row
        new = table.packed_headers(start, stop) if each.start < each.stop else iter(())
        rows = [*(no_headers for _ in each.again), *_within_limit(new)]
        part = msgspec.msgpack.encode(rows) if any(map(any, rows)) else b""
        position += len(part)
        stops.append(position)
        yield part


def _within_limit(rows: Iterator[tuple[bytes | None, ...]]) -> Iterator[tuple[bytes | None, ...]]:
    left = _MAX_SHARD_NBYTES
    for row in rows:
        left -= sum(len(each) for each in row if each is not None)
        yield row if left >= 0 else (None,) * len(row)


async def load_packed_headers(task: ShardTask, control: ControlStore) -> PackedHeaders:
    """Return the packed headers of a task's sources; none if they are damaged."""
    if task.headers_start == task.headers_stop:
        return ()
    part = await control.get_range(PACKED_HEADERS_KEY, task.headers_start, task.headers_stop)
    try:
        return unpack(part, list[list[bytes | None]], key=PACKED_HEADERS_KEY)
    except StoreError:
        return ()


def take_headers(rows: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, bytes]:
    """Take the packed headers out of a task's outcomes, and return them by the source's href.

    Those beyond the limit of a shard are dropped, so that a finish can hold all.
    """
    found: dict[str, bytes] = {}
    left = _MAX_SHARD_NBYTES
    for row, row_outcomes in zip(rows, outcomes, strict=True):
        for source, outcome in zip(row.sources, row_outcomes, strict=True):
            packed_header, outcome.packed_header = outcome.packed_header, None
            if source is not None and packed_header is not None and len(packed_header) <= left:
                found[source.href] = packed_header
                left -= len(packed_header)
    return found


async def put_headers(task: ShardTask, headers: Mapping[str, bytes], control: ControlStore) -> None:
    """Write the packed headers of a task's sources for the finish; nothing if there are none."""
    if headers:
        await control.put(_key(task), msgspec.msgpack.encode(list(headers.items())))


async def read_gathered_headers(
    tasks: Sequence[ShardTask], control: ControlStore
) -> AsyncGenerator[list[tuple[str, bytes]]]:
    """Yield (href, packed header) of the sources, one range of rows at a time.

    If several strips have a header of the same source, the longest one is taken.
    """
    there = await control.list_(_HEADERS)
    wanted = [task for task in tasks if _key(task) in there]
    found: dict[str, bytes] = {}
    row_start = 0
    in_order, n_ahead = iter(wanted), _FEWEST_AHEAD
    while ahead := list(islice(in_order, n_ahead)):
        parts = await asyncio.gather(*(control.get(_key(task)) for task in ahead))
        largest = max(len(part or b"") for part in parts)
        n_ahead = min(max(_NBYTES_AHEAD // max(largest, 1), _FEWEST_AHEAD), _MOST_AHEAD)
        for task, part in zip(ahead, parts, strict=True):
            if found and task.row_start != row_start:
                yield list(found.items())
                found = {}
            row_start = task.row_start
            entries = unpack(part or b"\x90", list[tuple[str, bytes]], key=_key(task))
            for href, packed_header in entries:
                found[href] = max(found.get(href, b""), packed_header, key=len)
    if found:
        yield list(found.items())


def _key(task: ShardTask) -> str:
    """Return the key of a task's file. Workers may write below ``shards/`` only."""
    return f"{_HEADERS}{task.index:05d}.msgpack"
