"""The list of a finished cube's sources, in the order of its rows, for a gather of the same list."""

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from itertools import repeat
from typing import Final

from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import CubeRow, ListColumn, SearchCost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.io.cube.stored_cube import StoredCube

_S3: Final = "s3://"
_N_PER_BATCH: Final = 4096


class StoredTable:
    """Implements `pixel_gather.core.ports.SourceTable` over the rows of a finished cube."""

    notes: tuple[str, ...] = ()
    n_repeated = n_known = 0
    n_timeless = 0
    """The plan of the cube has told of rows without a time."""

    search_cost: SearchCost | None = None
    band_meanings: Mapping[str, BandMeaning] = {}
    """None: the cube says itself what its values mean."""

    def __init__(
        self, cube: StoredCube, *, band_numbers: Mapping[str, int], found_list: bytes | None = None
    ) -> None:
        """Take the cube.

        Args:
            cube: It is read when rows are asked for.
            band_numbers: Which band of its sources each of the list's bands is, where the request says so.
            found_list: The cube's ``sources.parquet``, if its list was searched for.
        """
        self._cube, self._found_list = cube, found_list
        self.band_numbers = band_numbers
        self.bands, self.has_time = cube.bands, cube.has_time

    @property
    def digest(self) -> str:
        """The digest of the list, as the cube's receipt says; another one if rows have been appended."""
        receipt = self._cube.receipt
        if not receipt.appends:
            return receipt.list_digest
        parts = [receipt.list_digest, *(each.list_digest for each in receipt.appends)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    @property
    def n_rows(self) -> int:
        """Rows of the cube."""
        return self._cube.receipt.shape[0]

    @property
    def n_sources(self) -> int:
        """Sources that the rows name."""
        return self._count_sources[0]

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of sources by S3 bucket."""
        return self._count_sources[1]

    @property
    def columns(self) -> tuple[ListColumn, ...]:
        """The list's further columns."""
        return self._cube.columns

    def found_list(self) -> bytes | None:
        """Return the content of ``sources.parquet``; None if nothing was searched."""
        return self._found_list

    def rows(self, start: int, stop: int) -> Generator[CubeRow]:
        """Yield rows [start, stop) in the cube's order."""
        for first in range(start, stop, _N_PER_BATCH):
            yield from self._cube.rows(first, min(first + _N_PER_BATCH, stop))

    def packed_headers(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield no header for any source."""
        yield from repeat((None,) * max(len(self.bands), 1), stop - start)

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the rows that were read, or else over all rows."""
        slot = 0 if band is None else self.bands.index(band)
        were_read, others = self._positions[slot]
        there = were_read or others
        wanted = sorted(
            {i * (len(there) - 1) // max(min(n, len(there)) - 1, 1) for i in range(min(n, len(there)))}
        )
        found = (next(self._cube.rows(there[i], there[i] + 1)).sources[slot] for i in wanted)
        return tuple(each for each in found if each is not None)

    @cached_property
    def _count_sources(self) -> tuple[int, Counter[str]]:
        n, by_bucket = 0, Counter[str]()
        for row in self.rows(0, self.n_rows):
            for each in row.sources:
                if each is not None:
                    n += 1
                    if each.href.startswith(_S3):
                        by_bucket[each.href.removeprefix(_S3).partition("/")[0]] += 1
        return n, by_bucket

    @cached_property
    def _positions(self) -> list[tuple[list[int], list[int]]]:
        """For each slot, the rows whose source was read, and the rows whose source failed."""
        found: list[tuple[list[int], list[int]]] = [([], []) for _ in range(max(len(self.bands), 1))]
        for start in range(0, self.n_rows, _N_PER_BATCH):
            versions = self._cube.versions(start, min(start + _N_PER_BATCH, self.n_rows))
            for at, of_row in enumerate(versions, start):
                for slot, each in enumerate(of_row):
                    if each.status is not Status.ABSENT:
                        found[slot][each.status.is_failure].append(at)
        return found
