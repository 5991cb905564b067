"""Where the tiles of some sources are stored, in place of the tiles. No tile is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import xxhash

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import OpenedSource
from pixel_gather.core.read.stored_tiles import StoredTiles, TileRow

type Ranges = Sequence[TileRange | None]
"""Ranges of one window's tiles, row by row. None for a tile that is not stored."""


@dataclass(slots=True)
class ReferredRow(TileRow):
    """Where one source's tiles are."""

    href: str = ""
    etag: str = ""
    """Version of the object that the ranges are valid for."""

    ranges: list[Ranges] = field(default_factory=list)
    """For each band, the ranges of its tiles. Empty for a source that cannot be used."""

    async def fill(
        self, source: OpenedSource, window: Window, bands: Sequence[int]
    ) -> Sequence[Sequence[object | None]]:
        """Find a window's tiles, and return their ranges by band.

        Icechunk 2.3 sends ETags without their quotes, which S3 alone understands.
        """
        header = source.header
        if not header.href.startswith(("s3://", "file://")):
            reason = "a virtual cube cannot notice that a file on the web has changed: copy the file to S3"
            raise SourceError(reason, href=header.href, status=Status.UNSUPPORTED)
        self.ranges = list(await source.find_tiles(window, bands))
        self.href, self.etag = header.href, header.etag or ""
        return self.ranges

    def clear(self) -> None:
        """Forget the ranges of a source that could not be used."""
        self.ranges = []


class ReferredTiles(StoredTiles):
    """The references of the sources in one slot of a task."""

    reads_tiles: ClassVar[bool] = False

    def __init__(self, n_rows: int, *, n_bands: int) -> None:
        """Hold nothing yet."""
        super().__init__(0, n_bands=n_bands)
        self.rows: Sequence[ReferredRow] = [ReferredRow() for _ in range(n_rows)]

    def of_band(self, band: int) -> Iterator[tuple[int, ReferredRow, Ranges]]:
        """Yield the position, the source and the ranges of each row that has any."""
        return ((n, row, row.ranges[band]) for n, row in enumerate(self.rows) if row.ranges)

    def measure(self, row: int, outcome: Outcome) -> list[BandStats]:
        """Return the digest of each band of a row: of version and ranges, as no byte of a tile is known."""
        found = self.rows[row]
        n_valid = None if outcome.status is Status.OK else 0
        bands = found.ranges or [()] * self.n_bands
        return [BandStats(n_valid=n_valid, digest=_digest_of(found.etag, ranges)) for ranges in bands]


def _digest_of(etag: str, ranges: Ranges) -> str:
    """Return XXH3-128 of an ETag and of ranges, in order, in hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(repr((etag, [each and tuple(each) for each in ranges])).encode())
