"""Sorts a list of sources into the rows of the cube. Uses a table on disk, so memory does not grow.

Without bands, each line of the list is a row. With bands, lines of one scene share a row. Lines without a
scene share a row if their times are equal. If a scene repeats a band, the nth repeat goes to its nth row.
"""

import hashlib
import sqlite3
import tempfile
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import batched, groupby, repeat
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import numpy as np

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import MAX_EXACT, CubeRow, ListColumn, Source
from pixel_gather.io.lists.column_types import ColumnTypes, to_dtype
from pixel_gather.io.lists.href_band import note_of_equal_times, note_of_names, note_of_words
from pixel_gather.io.lists.list_columns import N_MAX_COLUMNS, Scalar
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.store.open_list_file import Check, no_deadline

_S3: Final = "s3://"
_N_MAX_BANDS: Final = 1000
_N_PER_BATCH: Final = 5000
_N_KNOWN_PER_BATCH: Final = 256
"""Entries of a header index in one batch. Each may have 64 KB."""

_N_CHARACTERS_PER_BATCH: Final = 8 << 20
_N_STEPS_BETWEEN_CHECKS: Final = 100_000
_MAX_INT64: Final = 2**63 - 1
_N_FIXED: Final = 6
"""Columns of the table ``cube`` before those of the list."""

_SCHEMA: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA temp_store = FILE;
PRAGMA cache_size = -16384;
CREATE TABLE source (n INTEGER PRIMARY KEY, href TEXT, band INTEGER, scene TEXT, time_us INTEGER);
CREATE TABLE grouped (n INTEGER PRIMARY KEY, band INTEGER, first INTEGER, time_us INTEGER);
"""

_GROUP_BY_LINE: Final = "INSERT INTO grouped SELECT n, 0, n, time_us FROM source"

_GROUP_BY_SCENE: Final = """
WITH keyed AS (SELECT n, band, time_us, coalesce('s' || scene, 't' || time_us) AS key FROM source),
ranked AS (SELECT *, row_number() OVER (PARTITION BY key, band ORDER BY n) AS repeat FROM keyed)
INSERT INTO grouped SELECT n, band, min(n) OVER same_row, min(time_us) OVER same_row
FROM ranked WINDOW same_row AS (PARTITION BY key, repeat)
"""

_PLACE: Final = """
CREATE TABLE place (n INTEGER PRIMARY KEY, place INTEGER);
INSERT INTO place SELECT n, (dense_rank() OVER (ORDER BY {order}) - 1) * {n_slots} + band FROM grouped;
DROP TABLE grouped;
"""

_SORT: Final = """
CREATE TABLE cube (place INTEGER PRIMARY KEY, {columns});
INSERT INTO cube SELECT place.place, source.* FROM source CROSS JOIN place USING (n) ORDER BY place.place;
DROP TABLE source;
DROP TABLE place;
"""
"""The table is sorted once: reading a million rows out of order takes longer."""

_MOST_OF_ONE_TIME: Final = 50
_MOST_TIMES_SHOWN: Final = 20
_TIMES: Final = "SELECT place, coalesce(time_us, ?) FROM cube ORDER BY place"
_FIRST_HREFS: Final = "SELECT min(href) FROM cube WHERE place >= ? AND place < ? GROUP BY place / {n_slots}"
_N_NAMES: Final = 200
"""Hrefs that are looked at for names of bands."""

_KNOWN: Final = """
CREATE INDEX IF NOT EXISTS of_href ON cube (href);
CREATE TABLE IF NOT EXISTS known (place INTEGER PRIMARY KEY, packed BLOB);
"""

_LEARN: Final = "INSERT OR REPLACE INTO known SELECT place, ?2 FROM cube WHERE href = ?1"
_MOST_KNOWN_NBYTES: Final = 2 << 30
"""Half of the disk of the plan's Lambda function. A million files of 225 tiles take 0.8 GB."""


class SqliteSourceTable:
    """Implements ``SourceTable`` on a temporary SQLite file. Leaving the context removes the file."""

    def __init__(self, source_list: SourceList, *, check: Check = no_deadline) -> None:
        """Read the whole list and put it in order.

        ``check`` is called while the lines are sorted.

        Raises:
            RequestError: A line is wrong, or lines contradict each other.
            StoreError: The disk has no room for temporary files.
            TimeoutError: Raised by ``check``.
        """
        self._list = source_list
        self.search_cost = source_list.search_cost
        """Requests of the search; None if nothing was searched."""

        self.band_numbers = source_list.band_numbers
        """Which band of its sources each name in `bands` is, from 1, where the request says so."""

        self.band_meanings = source_list.band_meanings
        """What the catalog says of each name in `bands`, where it says something."""

        self.n_sources = 0
        """Number of lines in the list."""

        self.n_by_bucket: Counter[str] = Counter()
        """Number of sources by S3 bucket."""

        self.n_repeated = 0
        """Sources whose href has appeared before in the list, for the same band of it."""

        self.n_known = 0
        """Sources whose header is in a header index."""

        self.common_href = ""
        """What all hrefs begin with; empty if they share nothing."""

        self.has_time = False
        """Whether every row has a time. The cube's first axis is then ``time``."""

        self.n_timeless = 0
        """Rows without a time, if other rows have one. If no row has a time, 0."""

        self._bands: dict[str, int] = {}
        self._types: dict[str, ColumnTypes] = {}
        self._has_scenes = False
        self._folder = tempfile.TemporaryDirectory(prefix="pixel-gather-")
        self._database = sqlite3.connect(
            Path(self._folder.name, "sources.sqlite"), isolation_level=None, check_same_thread=False
        )
        try:
            self._database.executescript(_SCHEMA)
            self._database.set_progress_handler(check, _N_STEPS_BETWEEN_CHECKS)
            self._load()
            self._put_in_order()
            self._own_notes = tuple(self._notes_of_bands())
            self._database.set_progress_handler(None, 0)
        except sqlite3.OperationalError as error:
            self.close()
            check()  # SQLite only says that it was interrupted
            raise StoreError(f"the list needs more room for temporary files: {error}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file. May be called twice."""
        self._database.close()
        self._folder.cleanup()

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads the list should know, such as scenes that were left out."""
        return (*self._list.notes, *self._own_notes)

    def _notes_of_bands(self) -> Iterator[str]:
        """Tell of bands that may be mixed in one array. A search tells its bands and scenes apart."""
        if self._list.left_out is not None:
            return
        sample = [] if self._bands else [each.href for each in self.spread(_N_NAMES, band=None)]
        if (note := note_of_names(sample)) is not None:
            yield note
        elif self.has_time:
            n, same_time = self._equal_times()
            if same_time:
                yield note_of_equal_times(
                    n, self.n_rows, same_time, has_bands=bool(self._bands), sample=sample
                )
        elif (note := note_of_words(sample)) is not None:
            yield note

    def _equal_times(self) -> tuple[int, list[list[str]]]:
        """Return how many rows have the time of another row, and hrefs of rows of some of these times.

        A time whose rows are all of one href is left out: `n_repeated` tells of it.
        """
        times = self._row_times()
        is_same = times[1:] == times[:-1]  # the rows are in order of time
        firsts = np.flatnonzero(is_same & ~np.append(False, is_same[:-1]))
        found = []
        for first in firsts[:: len(firsts) // _MOST_TIMES_SHOWN + 1].tolist():
            n = int(np.argmin(np.append(is_same[first : first + _MOST_OF_ONE_TIME], False))) + 1
            bounds = (first * self._n_slots, (first + n) * self._n_slots)
            hrefs = self._database.execute(_FIRST_HREFS.format(n_slots=self._n_slots), bounds)
            found.append(sorted({href for (href,) in hrefs}))
        n_equal = int(np.count_nonzero(np.append(False, is_same) | np.append(is_same, False)))
        return n_equal, [hrefs for hrefs in found if len(hrefs) > 1]

    def _row_times(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Return the time of each row: the earliest of its sources. 16 bytes a source."""
        with closing(self._database.execute(_TIMES, (_MAX_INT64,))) as cursor:
            each = np.fromiter(cursor, [("place", "int64"), ("time_us", "int64")], self.n_sources)
        starts = np.flatnonzero(np.diff(each["place"] // self._n_slots, prepend=-1))
        return np.minimum.reduceat(each["time_us"], starts)

    def found_list(self) -> bytes | None:
        """Return what a search found, as the content of ``sources.parquet``; None if nothing was searched."""
        if self._list.left_out is None:
            return None
        from pixel_gather.io.lists.found_list import found_parquet  # noqa: PLC0415 # arro3 costs 30 ms

        in_order = self._database.execute("SELECT * FROM cube ORDER BY n")
        dtypes = {name: dtype for name, (dtype, _) in self._stored_columns.items()}
        return found_parquet(
            map(self._to_source, in_order), self._list.left_out, dtypes=dtypes, meanings=self.band_meanings
        )

    @cached_property
    def n_rows(self) -> int:
        """Rows of the cube: one per source, or one per scene if the list has bands."""
        return int(self._one("SELECT coalesce(max(place), -1) FROM cube") // self._n_slots + 1)

    @property
    def bands(self) -> tuple[str, ...]:
        """Names in the ``band`` column in order of first appearance. Empty without such a column."""
        return tuple(self._bands)

    @cached_property
    def columns(self) -> tuple[ListColumn, ...]:
        """The list's other columns. ``scene`` is one of them, and ``time`` if only some rows have a time.

        A source has their values in ``columns``, except for its ``scene`` and ``time_us``.
        """
        dtypes = {name: dtype for name, (dtype, _) in self._stored_columns.items()}
        if self._has_scenes:
            dtypes["scene"] = "string"
        if self.n_timeless:
            dtypes["time"] = "int64"
        varies = self._varies_in_row()
        return tuple(
            ListColumn(
                name=name,
                dtype=dtype,
                varies_in_row=name in varies,
                is_large=dtype == "int64" and name in self._types and self._types[name].largest > MAX_EXACT,
            )
            for name, dtype in dtypes.items()
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rows in the cube's order. Changes if any line of the list changes.

        The order of the list does not matter if it leads to the same rows.
        """
        digest = hashlib.sha256(repr((self.bands, [(c.name, c.dtype) for c in self.columns])).encode())
        encode = msgspec.json.Encoder().encode
        for row in self.rows(0, self.n_rows):
            digest.update(encode(row))
            digest.update(b"\n")
        return digest.hexdigest()

    def rows(self, start: int, stop: int) -> Generator[CubeRow]:
        """Yield rows [start, stop) in the cube's order."""
        query = "SELECT * FROM cube WHERE place >= ? AND place < ? ORDER BY place"
        n_slots = self._n_slots
        with closing(self._database.execute(query, (start * n_slots, stop * n_slots))) as cursor:
            for _, records in groupby(cursor, key=lambda record: record[0] // n_slots):
                sources: list[Source | None] = [None] * n_slots
                for record in records:
                    sources[record[0] % n_slots] = self._to_source(record)
                times = [source.time_us for source in sources if source and source.time_us is not None]
                yield CubeRow(time_us=min(times, default=None), sources=tuple(sources))

    def learn(self, entries: Iterable[tuple[str, bytes]], *, check: Check = no_deadline) -> None:
        """Keep the headers of a header index that belong to sources of this list.

        Args:
            entries: Hrefs and packed headers. The last of one href counts. Entries after the first 2 GiB are
                left out, and the headers of their sources are read from the sources.
            check: Called while the entries are stored.

        Raises:
            StoreError: The disk has no room for temporary files.
            TimeoutError: Raised by ``check``.
        """
        try:
            self._database.set_progress_handler(check, _N_STEPS_BETWEEN_CHECKS)
            self._database.executescript(_KNOWN)
            most_nbytes = self._nbytes + _MOST_KNOWN_NBYTES
            for batch in batched(entries, _N_KNOWN_PER_BATCH, strict=False):
                if self._nbytes > most_nbytes:
                    break
                self._database.execute("BEGIN")
                self._database.executemany(_LEARN, batch)
                self._database.execute("COMMIT")
            self.n_known = int(self._one("SELECT count(*) FROM known"))
            self._database.set_progress_handler(None, 0)
        except sqlite3.OperationalError as error:
            check()
            raise StoreError(f"the index needs more room for temporary files: {error}") from error

    def packed_headers(self, start: int, stop: int) -> Generator[tuple[bytes | None, ...]]:
        """Yield the packed headers of the sources of rows [start, stop); None for a source without one."""
        n_slots = self._n_slots
        if not self.n_known:
            yield from repeat((None,) * n_slots, stop - start)
            return
        query = "SELECT place, packed FROM known WHERE place >= ? AND place < ? ORDER BY place"
        with closing(self._database.execute(query, (start * n_slots, stop * n_slots))) as cursor:
            found = next(cursor, None)
            for row in range(start, stop):
                packed: list[bytes | None] = [None] * n_slots
                while found is not None and found[0] // n_slots == row:
                    packed[found[0] % n_slots] = found[1]
                    found = next(cursor, None)
                yield tuple(packed)

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the rows, with the first and the last.

        There are fewer if the list has fewer.
        """
        where, values = ("", ()) if band is None else ("WHERE band = ?", (self._bands[band],))
        n_there = int(self._one(f"SELECT count(*) FROM cube {where}", values))  # noqa: S608 # only our own words
        n_wanted = min(n, n_there)
        wanted = {i * (n_there - 1) // max(n_wanted - 1, 1) for i in range(n_wanted)}
        in_order = self._database.execute(f"SELECT place FROM cube {where} ORDER BY place", values)  # noqa: S608 # as above
        places = [place for position, (place,) in enumerate(in_order) if position in wanted]
        records = (self._database.execute("SELECT * FROM cube WHERE place = ?", (at,)) for at in places)
        return tuple(self._to_source(record.fetchone()) for record in records)

    @property
    def _n_slots(self) -> int:
        """Number of sources in a full row."""
        return max(len(self._bands), 1)

    def _load(self) -> None:
        batch: list[list[Scalar]] = []
        n_characters = 0
        hashes = array("q")  # 8 MB for a million hrefs, which SQLite takes seconds to compare
        numbers = self._list.band_numbers
        for n, source in enumerate(self._list.sources):
            hashes.append(hash((source.href, numbers.get(source.band or "")) if numbers else source.href))
            if not self._types.keys() >= source.columns.keys():
                self._insert(batch)
                batch, n_characters = [], 0
                self._add_columns(source.columns.keys() - self._types.keys(), in_order=source.columns)
            record: list[Scalar] = [n, source.href, self._band_index(source), source.scene, source.time_us]
            for name, types in self._types.items():
                value = source.columns.get(name)
                types.add(value)
                record.append(_to_stored(value))
            batch.append(record)
            self.n_sources += 1
            if not n:
                self.common_href = source.href
            elif not source.href.startswith(self.common_href):
                self.common_href = commonprefix((self.common_href, source.href))  # noqa: RUF071 # of addresses
            if source.href.startswith(_S3):
                self.n_by_bucket[source.href[len(_S3) :].partition("/")[0]] += 1
            n_characters += sum(len(value) for value in record if isinstance(value, str))
            if len(batch) == _N_PER_BATCH or n_characters > _N_CHARACTERS_PER_BATCH:
                self._insert(batch)
                batch, n_characters = [], 0
        self._insert(batch)
        in_order = np.frombuffer(hashes, "int64")
        in_order.sort()
        self.n_repeated = int(np.count_nonzero(in_order[1:] == in_order[:-1]))
        if both := sorted(self._bands.keys() & self._types.keys()):
            raise RequestError(
                f"{both[0]!r} is the name of a band and of a column; rename one", field=self._list.name
            )

    def _band_index(self, source: Source) -> int | None:
        if source.band is None:
            return None
        if source.scene is None and source.time_us is None:
            raise RequestError(
                f"{shown_href(source.href)} has a band but neither scene nor time; add a column scene or "
                "time that tells which bands belong together",
                field=self._list.name,
            )
        index = self._bands.setdefault(source.band, len(self._bands))
        if index >= _N_MAX_BANDS:
            raise RequestError(
                f"the column band has more than {_N_MAX_BANDS} different names; did you mean another column?",
                field=self._list.name,
            )
        return index

    def _add_columns(self, new: set[str], *, in_order: Iterable[str]) -> None:
        if len(self._types) + len(new) > N_MAX_COLUMNS:
            raise RequestError(
                f"there are more than {N_MAX_COLUMNS} columns; leave some out", field=self._list.name
            )
        for name in in_order:
            if name in new:
                self._database.execute(f"ALTER TABLE source ADD COLUMN c{len(self._types)}")
                self._types[name] = ColumnTypes(reads_text=not self._list.is_typed)

    def _insert(self, batch: list[list[Scalar]]) -> None:
        if batch:
            marks = ",".join("?" * len(batch[0]))
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO source VALUES ({marks})", batch)  # noqa: S608 # question marks
            self._database.execute("COMMIT")

    def _put_in_order(self) -> None:
        self._database.execute(_GROUP_BY_SCENE if self._bands else _GROUP_BY_LINE)
        n_times, n_all = self._database.execute("SELECT count(time_us), count(*) FROM grouped").fetchone()
        self.has_time = n_times == n_all > 0
        self.n_timeless = n_all - n_times if n_times else 0
        self._has_scenes = bool(self._one("SELECT count(scene) FROM source"))
        order = "time_us, first" if self.has_time else "first"
        self._database.executescript(_PLACE.format(order=order, n_slots=self._n_slots))
        columns = ", ".join(["n", "href", "band", "scene", "time_us", *self._c_names()])
        self._database.executescript(_SORT.format(columns=columns))

    def _c_names(self) -> list[str]:
        """Return the SQL names of the list's columns. They do not depend on the names in the list."""
        return [f"c{i}" for i in range(len(self._types))]

    @cached_property
    def _stored_columns(self) -> dict[str, tuple[str, int]]:
        """Dtype and position in a record of ``cube``, by column of the list."""
        return {
            name: (types.dtype(self.n_sources), _N_FIXED + i)
            for i, (name, types) in enumerate(self._types.items())
        }

    def _varies_in_row(self) -> set[str]:
        """Return the columns in which sources of one row differ. A missing value differs from any other."""
        if not self._bands:
            return set()
        stored = dict(zip(self._types, self._c_names(), strict=True)) | {"scene": "scene", "time": "time_us"}
        varies = ", ".join(
            f"min({column}) IS NOT max({column}) OR count({column}) NOT IN (0, count(*)) AS v{i}"
            for i, column in enumerate(stored.values())
        )
        per_row = f"SELECT {varies} FROM cube GROUP BY place / {self._n_slots}"  # noqa: S608 # only our own words
        largest = ", ".join(f"max(v{i})" for i in range(len(stored)))
        flags = self._database.execute(f"SELECT {largest} FROM ({per_row})").fetchone()  # noqa: S608 # as above
        return {name for name, flag in zip(stored, flags, strict=True) if flag}

    def _to_source(self, record: Sequence[Any]) -> Source:
        _, _, href, band, scene, time_us, *_ = record
        columns = {name: to_dtype(record[at], dtype) for name, (dtype, at) in self._stored_columns.items()}
        return Source(
            href=href,
            band=None if band is None else self.bands[band],
            scene=scene,
            time_us=time_us,
            columns=columns,
        )

    @property
    def _nbytes(self) -> int:
        """Size of the SQLite file in bytes."""
        return int(self._one("PRAGMA page_count")) * int(self._one("PRAGMA page_size"))

    def _one(self, query: str, values: tuple[Scalar, ...] = ()) -> Any:
        return self._database.execute(query, values).fetchone()[0]


def _to_stored(value: Scalar) -> Scalar:
    """Convert to text what SQLite cannot store unchanged: booleans, and integers beyond 64 bits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > _MAX_INT64:
        return str(value)
    return value
