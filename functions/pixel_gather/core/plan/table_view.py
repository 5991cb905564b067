"""Part of a list, with its bands in the order of a cube. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import CubeRow, ListColumn, SearchCost, Source
from pixel_gather.core.ports import SourceTable

_S3: Final = "s3://"


class TableOverList(Struct, frozen=True, kw_only=True):
    """What tables over a list have from it, however they choose and order its rows."""

    table: SourceTable
    """The list."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the list."""
        return self.table.notes

    @property
    def search_cost(self) -> SearchCost | None:
        """Requests of the search."""
        return self.table.search_cost

    @property
    def band_numbers(self) -> Mapping[str, int]:
        """Which band of its sources each name in ``bands`` is."""
        return self.table.band_numbers

    @property
    def band_meanings(self) -> Mapping[str, BandMeaning]:
        """What is said of each name in ``bands``."""
        return self.table.band_meanings

    @property
    def has_time(self) -> bool:
        """Whether every row of the list has a time."""
        return self.table.has_time

    @property
    def n_timeless(self) -> int:
        """Rows of the whole list without a time, if others have one."""
        return self.table.n_timeless

    @property
    def columns(self) -> tuple[ListColumn, ...]:
        """The list's columns."""
        return self.table.columns

    @property
    def bands(self) -> tuple[str, ...]:
        """Names in the list's ``band`` column."""
        return self.table.bands

    @property
    def n_sources(self) -> int:
        """Lines of the list."""
        return self.table.n_sources

    @property
    def n_repeated(self) -> int:
        """Sources whose href is in an earlier line of the list, too."""
        return self.table.n_repeated

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of sources in each S3 bucket."""
        return self.table.n_by_bucket

    @property
    def n_known(self) -> int:
        """0: packed headers are of no use for these rows."""
        return 0

    def packed_headers(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield a tuple of None for each row in [start, stop)."""
        yield from repeat((None,) * max(len(self.bands), 1), stop - start)

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the list."""
        return self.table.spread(n, band=band)

    def found_list(self) -> bytes | None:
        """Return what a search found."""
        return self.table.found_list()


class TableView(TableOverList, frozen=True, kw_only=True, dict=True):
    """Implements `pixel_gather.core.ports.SourceTable` over some rows of another table.

    The digest stays that of the whole list.
    """

    bands: tuple[str, ...]
    """Names of the cube's slots; empty if each row is one source."""

    slot_order: tuple[int | None, ...]
    """For each slot, its position in a row of ``table``; None if no row has it."""

    kept: Sequence[int]
    """The rows of ``table`` that belong to the view, ascending."""

    own_notes: tuple[str, ...] = ()
    """Remarks about the view."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the list, and about the view."""
        return (*self.table.notes, *self.own_notes)

    @property
    def digest(self) -> str:
        """Digest of the whole list."""
        return self.table.digest

    @property
    def n_rows(self) -> int:
        """Rows of the view."""
        return len(self.kept)

    @cached_property
    def _hrefs(self) -> Counter[str]:
        return Counter(each.href for each in self._sources(None))

    @property
    def n_sources(self) -> int:
        """Sources of the view."""
        return self._hrefs.total()

    @property
    def n_repeated(self) -> int:
        """Sources whose href is in an earlier row of the view, too."""
        return self._hrefs.total() - len(self._hrefs)

    @cached_property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of sources in each S3 bucket."""
        counts: Counter[str] = Counter()
        for href, n in self._hrefs.items():
            if href.startswith(_S3):
                counts[href[len(_S3) :].partition("/")[0]] += n
        return counts

    @cached_property
    def n_known(self) -> int:
        """Sources that the header index has a packed header for."""
        if not self.table.n_known:
            return 0
        return sum(each is not None for row in self.packed_headers(0, self.n_rows) for each in row)

    def rows(self, start: int, stop: int) -> Iterator[CubeRow]:
        """Yield rows [start, stop) of the view."""
        for row in chain.from_iterable(self.table.rows(*span) for span in self._spans(start, stop)):
            yield CubeRow(time_us=row.time_us, sources=self._in_order(row.sources))

    def packed_headers(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield the packed headers of rows [start, stop) of the view."""
        spans = self._spans(start, stop)
        yield from map(
            self._in_order, chain.from_iterable(self.table.packed_headers(*span) for span in spans)
        )

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the view, first and last among them."""
        there = list(self._sources(band))
        wanted = min(n, len(there))
        return tuple(there[i * (len(there) - 1) // max(wanted - 1, 1)] for i in range(wanted))

    def _sources(self, band: str | None) -> Iterator[Source]:
        for row in self.rows(0, self.n_rows):
            for source in row.sources:
                if source is not None and band in (None, source.band):
                    yield source

    def _in_order[Each](self, values: tuple[Each | None, ...]) -> tuple[Each | None, ...]:
        return tuple(None if at is None else values[at] for at in self.slot_order)

    def _spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield runs [first, last + 1) of neighbouring rows of the table."""
        run: range | None = None
        for row in self.kept[start:stop]:
            if run is not None and row == run.stop:
                run = range(run.start, row + 1)
            else:
                if run is not None:
                    yield run.start, run.stop
                run = range(row, row + 1)
        if run is not None:
            yield run.start, run.stop
