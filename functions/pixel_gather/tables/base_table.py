"""A table that is there already, to which an append adds images: what it has, and its lines.

The receipt, in the metadata of the table of images, tells which images the table has. An append reads only
what it lacks, and images that could not be read. It puts its lines and those of the table together, and
replaces the table. What two appends have read of one image counts once: for each feature a line, with a value
if either has one. So an append that comes twice or late adds nothing twice, and takes nothing away.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.source import CubeRow
from pixel_gather.io.parquet.parquet_batches import blame_file, parquet_batches
from pixel_gather.tables.features import NO_TIME, Features
from pixel_gather.tables.image_work import decoded_row, key_of
from pixel_gather.tables.part_folder import (
    IMAGE_COLUMNS,
    LISTS,
    NO_LINES,
    ImageRecord,
    Lines,
    LineStatus,
    PartFolder,
    line_dtype,
    n_piece_values,
    piece_columns,
    piece_dtype,
)
from pixel_gather.tables.table_receipt import Written, digest_of_path, read_receipt, side_path, staged_path

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch

MOST_TRIES: Final = 5
"""An image that could not be read so often is not read again."""

_BATCH: Final = 65_536
_SAME: Final = ("request", "features")
_NEW_COLUMNS: Final = ("acquisition", "place", "pieces")
"""Columns that older tables of images do not have."""

_SAID: Final = {"tolerance_us": "tolerance", "band_numbers": "the band of an asset, such as rgb:3"}
"""Fields of a receipt that no request has, in words."""

_FIELD: Final = "append_to"


class BaseTable(Struct, frozen=True, kw_only=True, dict=True):
    """A complete table, and its three files on this machine."""

    path: Path
    receipt: Mapping[str, Any]
    records: tuple[ImageRecord, ...]
    """Of its images. Their numbers are below 0, so they come before others of the same time."""

    @classmethod
    def open_(cls, path: Path, *, with_features: bool = False) -> "BaseTable":
        """Read what a table has. A commit that was cut off is ended first.

        The file of features is looked at only if it is read as well.

        Raises:
            StoreError: It is no table with a receipt, or its files are not those of the receipt.
        """
        opened = cls.of_images(path)
        try:
            for name, digest in opened.receipt["files"].items():
                if with_features or name != "features":
                    file = path if name == "table" else side_path(path, name)
                    _end_commit(file, digest)
                    if digest_of_path(file) != digest:
                        raise StoreError(f"{file} is not as its receipt says: pixel-gather verify tells more")
        except OSError as error:
            raise _none_there(path, error) from error
        return opened

    @classmethod
    def of_images(cls, path: Path) -> "BaseTable":
        """Read the table of images alone.

        Raises:
            StoreError: There is none, or it has no receipt.
        """
        images = side_path(path, "images")
        try:
            with images.open("rb") as file, blame_file(str(images)):
                schema, batches = parquet_batches(file, batch_size=_BATCH)
                receipt = read_receipt(schema.metadata)
                records = [each for batch in batches for each in _records(batch)]
        except OSError as error:
            raise _none_there(path, error) from error
        n = len(records)
        numbered = tuple(replace(each, number=at - n) for at, each in enumerate(records))
        return cls(path=path, receipt=receipt, records=numbered)

    @property
    def bands(self) -> Sequence[str]:
        """The bands of the list that the table was made of, in their order. Older tables do not tell them."""
        found: Sequence[str] = self.receipt.get("bands", ())
        return found

    @property
    def written(self) -> Written:
        """What it was written with."""
        it = self.receipt
        return Written(
            n_lines=it["lines"],
            n_by_status=it["statuses"],
            n_images=len(self.records),
            n_failed=sum(each.status != "ok" for each in self.records),
            last_us=max((each.time_us for each in self.records if each.time_us is not None), default=None),
            digest=it["digest"],
        )

    def difference(self, about: Mapping[str, Any], *, names: Iterable[str] = _SAME) -> str | None:
        """Return in words what the table was made of otherwise; None if that is the same.

        Args:
            about: What a request would make a table of, as a receipt tells it.
            names: What of it is compared.
        """
        ours = json.loads(json.dumps(about))
        for name in names:
            theirs = self.receipt.get(name)
            if name == "request" and "merge" in ours[name]:  # older tables do not say it
                theirs = {"merge": False, **self.receipt[name]}
            if ours[name] == theirs:
                continue
            if not isinstance(theirs, Mapping):
                return f"was made of other {name}" if name == "features" else f"was made of another {name}"
            kinds = ours[name].get("kind"), theirs.get("kind")
            if kinds[0] != kinds[1]:
                return f"is one of {kinds[1]}, and not of {kinds[0]}"
            keys = dict.fromkeys([*ours[name], *theirs])
            differ = [key for key in keys if ours[name].get(key) != theirs.get(key)]
            # names of values and columns follow from what else differs
            first = [each for each in differ if each not in ("values", "columns")] or differ[:1]
            what = " and ".join(_SAID.get(each, each) for each in first)
            return f"was made with {'another value' if len(first) == 1 else 'other values'} of {what}"
        return None

    def check(self, about: Mapping[str, Any]) -> None:
        """Refuse an append of other values or other features.

        Raises:
            RequestError: It says what differs.
        """
        if (said := self.difference(about)) is not None:
            raise RequestError(f"the table {said}: give the same, or make another table", field=_FIELD)
        for tell in (_name, attrgetter("key")):
            if len(set(map(tell, self.records))) < len(self.records):
                raise RequestError(
                    "the table has an image twice, so lines do not tell of which they are", field=_FIELD
                )

    def to_read(self, rows: Iterable[CubeRow]) -> Iterator[CubeRow]:
        """Yield the rows of a list that the table lacks, then those of images that could not be read."""
        known = self._by_key
        seen: set[str] = set()
        for row in map(self._in_order, rows):
            key = key_of(row)
            there = known.get(key)
            if key not in seen and (there is None or _is_wanted(there)):
                yield row
            seen.add(key)
        for each in self.records:
            if each.row is not None and each.key not in seen and _is_wanted(each):
                yield decoded_row(each.row)

    def _in_order(self, row: CubeRow) -> CubeRow:
        """Return a row with the first list's bands, in their order, so that equal images have one key."""
        named = {each.band: each for each in row.sources if each is not None}
        sources = tuple(named.get(band) for band in self.bands)
        return replace(row, sources=sources) if any(sources) else row

    def tries(self, key: str) -> int:
        """Return how often an image was read before."""
        there = self._by_key.get(key)
        return 0 if there is None else there.tries

    @cached_property
    def _by_key(self) -> Mapping[str, ImageRecord]:
        return {each.key: each for each in self.records}

    def complete(self, parts: PartFolder, ids: np.ndarray[Any, Any]) -> None:
        """Fill what an append could not read of an image with what the table has of the same file.

        Parts of such images are written anew. The ids are those of all features, in order.
        """
        torn = [
            (there, each)
            for each in parts.records.values()
            if each.n_unread and (there := self._by_key.get(each.key)) and there.etags == each.etags
        ]
        if not torn:
            return
        at = {there.number: index for index, (there, _) in enumerate(torn)}
        pieces = self.pieces(parts.path / "torn.pieces", at=at)
        lines = self.lines(parts.path / "torn", ids, at=at, reasons={}, pieces=pieces)
        for index, (_, record) in enumerate(torn):
            read = lines[(lines["image"] == index) & (lines["reason"] < 0)]
            parts.write(*_complete_image(record, parts, read, pieces.get(index)))

    def merge_records(self, records: Iterable[ImageRecord]) -> list[ImageRecord]:
        """Return the records of the table and of an append: of one image, that of which more was read."""
        found: dict[str, ImageRecord] = {}
        for each in (*self.records, *records):
            there = found.get(each.key)
            if there is None:
                found[each.key] = each
                continue
            best = each if _replaces(each, there) else there
            found[each.key] = replace(best, tries=max(each.tries, there.tries))
        return list(found.values())

    def gains(self, records: Iterable[ImageRecord]) -> bool:
        """Return whether the table would be another one with the images of an append."""
        return self.merge_records(records) != list(self.records)

    def lines(
        self,
        to: Path,
        ids: np.ndarray[Any, Any],
        *,
        at: Mapping[int, int],
        reasons: dict[str, int],
        pieces: Mapping[int, Lines],
    ) -> Lines:
        """Return the lines of the table that stay, in the order of features, mapped into memory.

        Args:
            to: A file that is written.
            ids: Of all features, in order.
            at: Where an image's record is among all of them, by its number. Lines of others are left out.
            reasons: The number of each reason; is added to.
            pieces: Of records, by their position. Lines that have pieces are left out: they are made again.

        Returns:
            Lines with a field ``image`` in front. Their reason is a number of ``reasons``, or -1.
        """
        columns: Sequence[str] = self.receipt["request"]["columns"]
        dtype = np.dtype([("image", "<i4"), *line_dtype(columns).descr])
        images = {_name(each): at.get(each.number, -1) for each in self.records}
        n = max(at.values(), default=0) + 1
        made_again = [
            np.unique(each["feature"][each["whole"] >= 0]) * n + index for index, each in pieces.items()
        ]
        left_out = np.concatenate([*made_again, np.zeros(0, np.int64)])
        with self.path.open("rb") as file, to.open("wb") as out, blame_file(str(self.path)):
            _, batches = parquet_batches(file, batch_size=_BATCH)
            for batch in batches:
                lines = _lines(batch, columns, dtype, ids, images, reasons)
                pairs = lines["feature"] * n + lines["image"]
                out.write(lines[~np.isin(pairs, left_out)].tobytes())
        if not to.stat().st_size:
            return np.zeros(0, dtype)
        return np.memmap(to, dtype, mode="r")

    def pieces(self, to: Path, *, at: Mapping[int, int]) -> dict[int, Lines]:
        """Return the pieces of the images that stay, mapped into memory, by where their records are.

        Args:
            to: A file that is written.
            at: As of `lines`.
        """
        if not any(each.n_pieces for each in self.records):
            return {}
        path = side_path(self.path, "pieces")
        with path.open("rb") as file, to.open("wb") as out, blame_file(str(path)):
            schema, batches = parquet_batches(file, batch_size=_BATCH)
            dtype = piece_dtype(n_piece_values(schema.names))
            for batch in batches:
                some = np.zeros(batch.num_rows, dtype)
                for name in piece_columns(some):
                    some[name] = batch.column(name).to_numpy()
                out.write(some.tobytes())
        whole: Lines = np.memmap(to, dtype, mode="r")
        stops = np.cumsum([each.n_pieces for each in self.records]).tolist()
        return {
            at[each.number]: whole[stop - each.n_pieces : stop]
            for each, stop in zip(self.records, stops, strict=True)
            if each.n_pieces and each.number in at
        }


def refuse_repeated_ids(features: Features) -> None:
    """Refuse features of which some share an id, for a table that grows.

    Raises:
        RequestError: A later append could not tell whose lines are whose.
    """
    ids = features.ids.tolist()
    if len(set(ids)) < len(ids):
        raise RequestError(
            "an id repeats among the features, so a line does not tell which feature it belongs to: give "
            "each feature its own id, or write a table that does not grow (--to)",
            field=_FIELD,
        )


def _is_wanted(record: ImageRecord) -> bool:
    return not record.is_whole and record.tries < MOST_TRIES


def _replaces(new: ImageRecord, old: ImageRecord) -> bool:
    """Return whether the lines of an image take the place of older ones."""
    if new.etags == old.etags or old.n_unread == old.n_lines:  # the same file, or none of it was read
        return new.worth > old.worth
    return new.is_whole and not old.is_whole  # values of two files are not mixed, and none is taken away


def _complete_image(
    record: ImageRecord, parts: PartFolder, read: Lines, read_pieces: Lines | None
) -> tuple[ImageRecord, Lines, Lines]:
    """Return the part of an image whose unread features have lines or pieces of another try."""
    lines = np.array(parts.lines(record.number))
    unread = lines["feature"][lines["reason"] >= 0]
    is_line = np.isin(lines["feature"], np.intersect1d(unread, read["feature"]))
    found = read[np.searchsorted(read["feature"], lines["feature"][is_line])]
    for name in lines.dtype.names or ():
        lines[name][is_line] = found[name]
    pieces = parts.pieces(record.number) if record.n_pieces else NO_LINES
    if read_pieces is not None:
        more = read_pieces[np.isin(read_pieces["feature"], unread)]
        # The line of such a zone is made of its pieces, or it was there.
        lines["reason"][np.isin(lines["feature"], more["feature"])] = -1
        pieces = np.concatenate([pieces, more]) if record.n_pieces else more  # unread features have none
        pieces = pieces[np.argsort(pieces["feature"], kind="stable")]
    n_unread = int((lines["reason"] >= 0).sum())
    row = record.row if n_unread else None
    return replace(record, n_unread=n_unread, row=row, n_pieces=len(pieces)), lines, pieces


def _name(record: ImageRecord) -> tuple[int | None, str, str | None]:
    """Return what a line tells of its image."""
    return record.time_us, record.scene, record.hrefs[0] if record.hrefs else None


def _none_there(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: there is no such table: {error.strerror or error}")


def _end_commit(path: Path, expected: Mapping[str, Any]) -> None:
    """Put a file in its place, if a process was ended in the middle of a commit."""
    staged = staged_path(path)
    if staged.exists() and digest_of_path(staged) == expected:
        staged.replace(path)


def _records(batch: "RecordBatch") -> Iterator[ImageRecord]:
    there = [name for name in IMAGE_COLUMNS if name in batch.schema.names or name not in _NEW_COLUMNS]
    columns: dict[str, Any] = {IMAGE_COLUMNS[name]: batch.column(name).to_pylist() for name in there}
    for name in LISTS & columns.keys():
        columns[name] = [json.loads(each) for each in columns[name]]
    times = microseconds_of(batch.column("time")).tolist()
    columns["time_us"] = [None if each == NO_TIME else each for each in times]
    for values in zip(*columns.values(), strict=True):
        yield msgspec.convert({"number": 0, **dict(zip(columns, values, strict=True))}, ImageRecord)


def _lines(  # what a batch is translated by
    batch: "RecordBatch",
    columns: Sequence[str],
    dtype: np.dtype[np.void],
    ids: np.ndarray[Any, Any],
    images: Mapping[tuple[int | None, str, str | None], int],
    reasons: dict[str, int],
) -> Lines:
    """Return the lines of a batch whose feature and image are there."""
    times = microseconds_of(batch.column("time"))
    of_image = zip(
        (None if each == NO_TIME else each for each in times.tolist()),
        batch.column("scene").to_pylist(),
        batch.column("href").to_pylist(),
        strict=True,
    )
    image = np.array([-1 if each[1] is None else images[each] for each in of_image], np.int64)
    named = batch.column("id").to_pylist()
    kept = (image >= 0) & np.array([each is not None for each in named], bool)
    lines = np.zeros(int(kept.sum()), dtype)
    lines["image"] = image[kept]
    own = np.array([each for each, is_kept in zip(named, kept, strict=True) if is_kept], ids.dtype)
    lines["feature"] = np.searchsorted(ids, own)
    codes = {each.name.lower(): int(each) for each in LineStatus}
    lines["status"] = np.array([codes[each] for each in batch.column("status").to_pylist()])[kept]
    said = batch.column("reason").to_pylist()
    lines["reason"] = np.array(
        [-1 if each is None else reasons.setdefault(each, len(reasons)) for each in said], np.int64
    )[kept]
    lines["valid"] = floats_of(batch.column("valid"))[kept]
    for number, name in enumerate(columns):
        lines[f"v{number}"] = floats_of(batch.column(name))[kept]
    return lines


def microseconds_of(column: "Array") -> np.ndarray[Any, Any]:
    """Return times in microseconds; `NO_TIME` where there is none."""
    from arro3.core import DataType  # noqa: PLC0415 # 0.1 s, for Parquet alone

    values = column.cast(DataType.int64())
    if not values.null_count:
        return values.to_numpy()
    return np.array([NO_TIME if each is None else each for each in values.to_pylist()], np.int64)


def floats_of(column: "Array") -> np.ndarray[Any, Any]:
    """Return numbers; NaN where there is none."""
    return column.to_numpy() if not column.null_count else np.array(column.to_pylist(), np.float64)
