"""The compressed tiles of one shard, in place of its pixels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import xxhash
from msgspec import Struct

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource

type Tile = bytes | bytearray | memoryview
type Tiles = Sequence[Tile | None]
"""Tiles of one window, row by row. None for a tile that is not stored."""


@dataclass(slots=True)
class TileRow:
    """One source's tiles."""

    bands: list[Tiles] = field(default_factory=list)
    """For each band, its tiles. Empty for a source that was not read."""

    async def fill(
        self, source: OpenedSource, window: Window, bands: Sequence[int]
    ) -> Sequence[Sequence[object | None]]:
        """Read a window's tiles, and return them by band. None for a tile that is not stored."""
        self.bands = list(await source.read_tiles(window, bands))
        return self.bands

    def clear(self) -> None:
        """Forget the tiles of a source that could not be used."""
        self.bands = []


class StoredTiles:
    """The tiles of the sources in one slot of a task."""

    reads_tiles: ClassVar[bool] = True
    """Whether filling a row takes requests for tiles."""

    def __init__(self, n_rows: int, *, n_bands: int) -> None:
        """Hold nothing yet."""
        self.rows: Sequence[TileRow] = [TileRow() for _ in range(n_rows)]
        self.n_bands = n_bands

    def __iter__(self) -> Iterator["BandTiles"]:
        """Yield each band."""
        return (BandTiles(self, band) for band in range(self.n_bands))

    def measure(self, row: int, outcome: Outcome) -> list[BandStats]:
        """Return the digest of each band of a row. How many pixels are valid is not known."""
        n_valid = None if outcome.status is Status.OK else 0
        return [BandStats(n_valid=n_valid, digest=digest_of_tiles(band.of_row(row))) for band in self]


class BandTiles(Struct, frozen=True):
    """The tiles of one band of a task's sources: what one shard of an array holds."""

    slot: StoredTiles
    band: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.slot.rows)

    def of_row(self, row: int) -> Tiles:
        """Return one row's tiles. Empty if its source was not read."""
        bands = self.slot.rows[row].bands
        return bands[self.band] if bands else ()


def digest_of_tiles(tiles: Tiles) -> str:
    """Return XXH3-128 of the stored tiles' bytes, in order, in hexadecimal digits."""
    digest = xxhash.xxh3_128()
    for tile in tiles:
        if tile is not None:
            digest.update(tile)
    return digest.hexdigest()
