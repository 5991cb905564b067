"""What a search needs of every scene, as plain columns in blocks of 4,096 scenes.

A query looks at the box, the times and the least cloud of each block, then at the columns of the blocks that
are left. So a small area among a million scenes costs a few blocks. One scene takes 48 bytes. A file has the
layout of memory: block after block, in each block column after column. Pure.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from pixel_gather.core.area import SHIFTS, unwrap_box
from pixel_gather.core.scene_conditions import most_cloud
from pixel_gather.core.scenes.acquisition import Acquisition
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.scenes.duplicates import SAME_TIME_US
from pixel_gather.core.scenes.item import SceneKey

type Columns = dict[str, np.ndarray[Any, Any]]

N_PER_BLOCK: Final = 4096
DTYPES: Final[dict[str, str]] = {
    "start_us": "<i8",
    "stop_us": "<i8",
    "hash": "<u8",
    "x0": "<f4",
    "y0": "<f4",
    "x1": "<f4",
    "y1": "<f4",
    "acquisition": "<u4",
    "collection": "<u2",
    "cloud": "|u1",
    "is_box": "|u1",
}
"""Widest first, so that each column of a block lies at a multiple of its width."""

NBYTES_PER_SCENE: Final = sum(np.dtype(dtype).itemsize for dtype in DTYPES.values())
N_COLLECTIONS: Final = 2**16 - 1

_HIGHEST: Final = ("stop_us", "x1", "y1")
"""Columns whose highest value a block's table has. Of the others, it has the lowest."""

_TABLE_DTYPES: Final[dict[str, str]] = {
    **{name: DTYPES[name] for name in ("start_us", "stop_us", "x0", "y0", "x1", "y1")},
    "cloud": "<f4",
}
_N_AT_A_TIME: Final = 10_000
_CELLS_LOG2: Final = 8
"""Scenes of one of 256 x 256 cells of the Earth lie together, in the order of time."""


class BlockTable(Struct, frozen=True):
    """What is known of each block: its box, its times, its least cloud."""

    columns: Columns

    @classmethod
    def of(cls, columns: Columns) -> "BlockTable":
        """Sum up columns that are in their final order."""
        starts = np.arange(0, len(columns["hash"]), N_PER_BLOCK)
        found = {}
        for name, dtype in _TABLE_DTYPES.items():
            bound = np.maximum if name in _HIGHEST else np.minimum
            found[name] = bound.reduceat(columns[name], starts).astype(dtype, copy=False)
        return cls(found)

    @classmethod
    def of_bytes(cls, content: bytes | memoryview, n_blocks: int) -> "BlockTable":
        """Take a table from a file."""
        return cls(_split(content, n_blocks, _TABLE_DTYPES))

    def to_bytes(self) -> bytes:
        """Return the table as it stands in a file."""
        return b"".join(self.columns[name].astype(dtype).tobytes() for name, dtype in _TABLE_DTYPES.items())

    @staticmethod
    def nbytes(n_blocks: int) -> int:
        """Return how long a table is in a file."""
        return n_blocks * sum(np.dtype(dtype).itemsize for dtype in _TABLE_DTYPES.values())

    def find_blocks(self, query: SceneQuery) -> np.ndarray[Any, Any]:
        """Return the numbers of the blocks that may hold a scene of the query, in order."""
        columns = self.columns
        found = _meets(columns, query)
        found &= columns["start_us"] <= query.times.stop_us
        found &= columns["stop_us"] >= query.times.start_us
        if (cloud := most_cloud(query.where)) is not None:
            found &= columns["cloud"] <= np.float64(cloud)  # which may be more than a float32 holds
        if query.after is not None:
            found &= columns["start_us"] <= query.after.start_us
        return np.flatnonzero(found)


class Matches(Struct, frozen=True):
    """Scenes that a query may want: rows of the catalog, with what they are ordered by."""

    row: np.ndarray[Any, Any]
    start_us: np.ndarray[Any, Any]
    hash: np.ndarray[Any, Any]
    is_exact: np.ndarray[Any, Any]
    """Whether the scene's box decides, so that its footprint need not be looked at."""

    acquisition: np.ndarray[Any, Any]
    """A hash of what processings of one scene share; 0 where there is none."""

    @classmethod
    def joined(cls, parts: Sequence["Matches"]) -> "Matches":
        """Return all matches of several blocks."""
        if not parts:
            return cls(*(np.empty(0, dtype) for dtype in (np.int64, np.int64, np.uint64, bool, np.uint32)))
        return cls(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))

    def newest_first(self) -> Iterator[tuple[int, Position, bool]]:
        """Yield row, position and whether the box decides, newest first and by hash within one time."""
        left = self
        while len(left.row):
            is_next = np.ones(len(left.row), bool)
            if len(left.row) > _N_AT_A_TIME:  # sorting all of a million takes longer than a page
                oldest = np.partition(left.start_us, -_N_AT_A_TIME)[-_N_AT_A_TIME]
                is_next = left.start_us >= oldest
            some = left._only(is_next)
            for n in np.lexsort((some.hash, -some.start_us)).tolist():
                position = Position(start_us=int(some.start_us[n]), hash=int(some.hash[n]))
                yield int(some.row[n]), position, bool(some.is_exact[n])
            left = left._only(~is_next)

    def after(self, position: Position) -> "Matches":
        """Return those behind a position."""
        return self._only(position.is_behind(self.start_us, self.hash))

    def rivals(self) -> dict[int, tuple[int, ...]]:
        """Return, by row, the rows that may be of the same scene, newest first; only where there are some."""
        which = np.flatnonzero(self.acquisition)
        order = np.lexsort((self.hash[which], -self.start_us[which], self.acquisition[which]))
        named = self._only(which[order])
        is_near = (np.diff(named.acquisition) == 0) & (np.diff(named.start_us) > -SAME_TIME_US)
        found: dict[int, tuple[int, ...]] = {}
        for rows in np.split(named.row, np.flatnonzero(~is_near) + 1):
            if len(rows) > 1:
                found |= dict.fromkeys(rows.tolist(), tuple(rows.tolist()))
        return found

    def _only(self, which: np.ndarray[Any, Any]) -> "Matches":
        return Matches(*(values[which] for values in astuple(self)))


def block_nbytes(n_scenes: int) -> int:
    """Return how long a block of so many scenes is in a file."""
    return n_scenes * NBYTES_PER_SCENE


def block_of_bytes(content: bytes | memoryview, n_scenes: int) -> Columns:
    """Take one block's columns from a file, without a copy."""
    return _split(content, n_scenes, DTYPES)


def block_to_bytes(columns: Columns, start: int, stop: int) -> bytes:
    """Return the rows [start, stop) of columns as a block stands in a file."""
    return b"".join(columns[name][start:stop].astype(dtype).tobytes() for name, dtype in DTYPES.items())


def matches_in(block: Columns, query: SceneQuery, *, first_row: int, collections: Sequence[str]) -> Matches:
    """Return the scenes of one block whose box, times, cloud, ids and collection fit a query.

    Args:
        block: Its columns.
        query: What is wanted.
        first_row: First row of the block, in the catalog.
        collections: Names behind the column ``collection``.
    """
    in_area = np.flatnonzero(_meets(block, query))
    block = {name: values[in_area] for name, values in block.items()}  # a small area leaves few rows
    found = (block["start_us"] <= query.times.stop_us) & (block["stop_us"] >= query.times.start_us)
    if (cloud := most_cloud(query.where)) is not None:
        found &= block["cloud"] <= cloud
    if query.collections:
        wanted = [n for n, name in enumerate(collections) if name in query.collections]
        found &= np.isin(block["collection"], wanted)
    if query.hashes is not None:
        found &= np.isin(block["hash"], np.array(sorted(query.hashes), np.uint64))
    if (after := query.after) is not None:
        found &= after.is_behind(block["start_us"], block["hash"])
    rows = np.flatnonzero(found)
    is_exact = np.ones(len(rows), bool) if query.area is None else _is_decided(block, rows, query)
    return Matches(
        in_area[rows] + first_row,
        block["start_us"][rows],
        block["hash"][rows],
        is_exact,
        block["acquisition"][rows],
    )


def stack_columns(keys: Sequence[SceneKey], collections: dict[str, int]) -> Columns:
    """Return the columns of scenes in the order given.

    Args:
        keys: Keys of the scenes.
        collections: Numbers by name; new names are added.

    Raises:
        ValueError: There are more collections than a catalog can hold.
    """
    boxes = np.array([unwrap_box(key.box) for key in keys], np.float64).reshape(-1, 4)
    numbers = [collections.setdefault(key.collection, len(collections)) for key in keys]
    if len(collections) > N_COLLECTIONS:
        raise ValueError(f"there are more than {N_COLLECTIONS:,} collections; make several catalogs")
    return {
        "start_us": np.array([key.start_us for key in keys], "<i8"),
        "stop_us": np.array([key.stop_us for key in keys], "<i8"),
        "hash": np.array([key.hash for key in keys], "<u8"),
        "x0": _round_outwards(boxes[:, 0], -np.inf),
        "y0": _round_outwards(boxes[:, 1], -np.inf),
        "x1": _round_outwards(boxes[:, 2], np.inf),
        "y1": _round_outwards(boxes[:, 3], np.inf),
        "acquisition": np.array([_hash(key.acquisition) for key in keys], "<u4"),
        "collection": np.array(numbers, "<u2"),
        "cloud": np.array([key.cloud_percent for key in keys], "|u1"),
        "is_box": np.array([key.is_box for key in keys], "|u1"),
    }


def order_by_place(columns: Columns) -> np.ndarray[Any, Any]:
    """Return the order in which scenes that are close in space and in time lie close in the catalog."""
    n = 1 << _CELLS_LOG2
    x = (columns["x0"].astype(np.float64) + columns["x1"]) / 2
    y = (columns["y0"].astype(np.float64) + columns["y1"]) / 2
    cols = np.clip(((x + 180) % 360 / 360 * n).astype(np.int64), 0, n - 1)
    rows = np.clip(((y + 90) / 180 * n).astype(np.int64), 0, n - 1)
    return np.lexsort((columns["hash"], columns["start_us"], hilbert(cols, rows, _CELLS_LOG2)))


def hilbert(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], log2_size: int) -> np.ndarray[Any, Any]:
    """Return the distance along Hilbert's curve of cells of a grid with 2**log2_size cells a side.

    The usual way with quadrants from the largest down: https://en.wikipedia.org/wiki/Hilbert_curve.
    """
    x, y = x.copy(), y.copy()
    distance = np.zeros_like(x)
    for log2 in range(log2_size - 1, -1, -1):
        side = 1 << log2
        right, upper = (x & side) > 0, (y & side) > 0
        distance += side * side * ((3 * right) ^ upper)
        flips = ~upper & right
        last = side - 1
        x[flips], y[flips] = last - (x[flips] & last), last - (y[flips] & last)
        turns = ~upper
        x[turns], y[turns] = y[turns].copy(), x[turns].copy()
        x, y = x & (side - 1), y & (side - 1)
    return distance


def _meets(columns: Columns, query: SceneQuery) -> np.ndarray[Any, Any]:
    """Tell of each row or block whether its box meets the query's, whichever turn either is written in."""
    if query.area is None:
        return np.ones(len(columns["x0"]), bool)
    west, south, east, north = unwrap_box(query.area.box)
    across = np.zeros(len(columns["x0"]), bool)
    least, most = columns["x0"].min(initial=np.inf), columns["x1"].max(initial=-np.inf)
    for shift in SHIFTS:
        if least <= east + shift and most >= west + shift:
            across |= (columns["x0"] <= east + shift) & (columns["x1"] >= west + shift)
    return across & (columns["y0"] <= north) & (columns["y1"] >= south)


def _is_decided(block: Columns, rows: np.ndarray[Any, Any], query: SceneQuery) -> np.ndarray[Any, Any]:
    """Tell of which rows the rounded box decides.

    The box is all of the footprint and meets the query by more than rounding. Or it lies in the query's box:
    then the footprint does, too.
    """
    assert query.area is not None  # noqa: S101 # the caller's
    if query.area.geometry is not None:
        return np.zeros(len(rows), bool)
    west, south, east, north = unwrap_box(query.area.box)
    x0, x1 = block["x0"][rows].astype(np.float64), block["x1"][rows].astype(np.float64)
    y0, y1 = block["y0"][rows].astype(np.float64), block["y1"][rows].astype(np.float64)
    x_slack, y_slack = 1e-4, 1e-5  # float32 has steps of 3e-5 at 360 and 8e-6 at 90 degrees
    meets, is_within = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for shift in SHIFTS:
        meets |= (x0 + x_slack < east + shift) & (x1 - x_slack > west + shift)
        is_within |= (x0 >= west + shift) & (x1 <= east + shift)
    meets &= (block["is_box"][rows] != 0) & (y0 + y_slack < north) & (y1 - y_slack > south)
    is_within &= (y0 >= south) & (y1 <= north)
    decided: np.ndarray[Any, Any] = meets | is_within
    return decided


def _hash(acquisition: Acquisition | None) -> int:
    """Return 32 bits of what processings of one scene share; 0 where there is none."""
    if acquisition is None:
        return 0
    return int.from_bytes(hashlib.blake2b(repr(acquisition).encode(), digest_size=4).digest(), "little") or 1


def _round_outwards(values: np.ndarray[Any, Any], towards: float) -> np.ndarray[Any, Any]:
    """Return float32 that is never inside of the exact value: a hit at the edge is not to be missed."""
    narrow = values.astype("<f4")
    is_inside = narrow > values if towards < 0 else narrow < values
    narrow[is_inside] = np.nextafter(narrow[is_inside], np.float32(towards))
    return narrow


def _split(content: bytes | memoryview, n: int, dtypes: dict[str, str]) -> Columns:
    columns, offset = {}, 0
    for name, dtype in dtypes.items():
        columns[name] = np.frombuffer(content, dtype, count=n, offset=offset)
        offset += columns[name].nbytes
    return columns
