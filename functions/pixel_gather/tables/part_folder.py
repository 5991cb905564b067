"""What has been computed of each image, on disk: lines of the table, and one record of the image.

A folder beside the table holds them while the job runs. A job that was stopped goes on with it. Memory does
not grow with the number of images.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status

type Lines = np.ndarray[Any, np.dtype[np.void]]
"""A structured array whose type is `line_dtype` or `piece_dtype`."""

NO_LINES: Final[Lines] = np.zeros(0, np.uint8).view(np.void)
"""Of an image that could not be read."""

_JOB: Final = "job.json"
_LOG: Final = "images.jsonl"


class LineStatus(IntEnum):
    """Status of a line: that of the image, or of the feature. Codes may be added, but never change."""

    OK = Status.OK
    ABSENT = Status.ABSENT
    MISSING = Status.MISSING
    DENIED = Status.DENIED
    CORRUPT = Status.CORRUPT
    UNLIKE = Status.UNLIKE
    OUTSIDE = Status.OUTSIDE
    """Without an image: the feature lies on none of them."""
    TIMED_OUT = Status.TIMED_OUT
    CHANGED = Status.CHANGED
    UNSUPPORTED = Status.UNSUPPORTED
    LOST = Status.LOST
    NODATA = 32
    """None of its pixels holds data."""
    MASKED = 33
    """Some of its pixels hold data, but the mask drops them."""
    EMPTY = 34
    """The feature has no coordinates."""
    UNMATCHED = 35
    """The feature lies on no image that is near it in time."""
    NO_AREA = 36
    """A point or a line among polygons."""
    UNREAD = 37
    """The feature lies on no image that could be read. It may lie on another."""


NO_VALUES: Final = (
    *("id", "time", "feature_time", "days_apart", "scene", "href", "images", "other_hrefs"),
    *("status", "reason"),
)
"""Columns of a table that tell of a line, and hold none of its values."""


def line_dtype(columns: Sequence[str]) -> np.dtype[np.void]:
    """Return the type of a line: which feature, its status, and one number for each column."""
    fields = [("feature", "<i8"), ("status", "u1"), ("reason", "<i2"), ("valid", "<f4")]
    return np.dtype([*fields, *((f"v{number}", "<f8") for number in range(len(columns)))])


def piece_dtype(n_values: int) -> np.dtype[np.void]:
    """Return the type of a piece: one cell of a zone of which an image shows a part.

    ``col`` and ``row`` count from the origin of the CRS. ``whole`` is the size of the zone in cells;
    negative if the zone is too large to be merged.
    """
    fields = [("feature", "<i8"), ("col", "<i4"), ("row", "<i4"), ("coverage", "<f4"), ("is_kept", "?")]
    return np.dtype([*fields, ("whole", "<f8"), *((f"v{number}", "<f8") for number in range(n_values))])


def piece_columns(pieces: Lines) -> tuple[str, ...]:
    """Return the names of the fields of pieces."""
    return pieces.dtype.names or ()


def n_piece_values(columns: Sequence[str]) -> int:
    """Return how many of these fields or columns of pieces hold values."""
    return len(set(columns) - {"image", *piece_columns(np.zeros(0, piece_dtype(0)))})


class ImageRecord(Struct, frozen=True, kw_only=True):
    """One image of the job."""

    number: int
    """Its row in the list, from 0."""

    scene: str
    time_us: int | None
    hrefs: tuple[str, ...]
    etags: tuple[str | None, ...] = ()
    status: str = "ok"
    reason: str | None = None
    """Why it could not be read."""

    reasons: tuple[str, ...] = ()
    """Texts that the field ``reason`` of its lines counts into, from 0."""

    key: str = ""
    """Of its files: equal for the same image in another list."""

    n_unread: int = 0
    """Lines of features that lie on a part of it that could not be read."""

    tries: int = 1
    """How often it was read."""

    row: str | None = None
    """As JSON, if it has to be read again."""

    units: tuple[str, ...] = ()
    """Of each value, as its files say; empty where they say nothing."""

    acquisition: str = ""
    """Equal for images whose lines may be merged if they are near in time; empty if none may."""

    place: tuple[int, ...] = ()
    """Of its grid: first column and row, counted from the origin of the CRS, width and height."""

    n_pieces: int = 0

    n_lines: int = 0
    n_requests: int = 0
    nbytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all of it was read that features lie on."""
        return self.status == "ok" and not self.n_unread

    @property
    def worth(self) -> tuple[bool, int]:
        """Greater if more of the image was read."""
        return self.status == "ok", -self.n_unread


IMAGE_COLUMNS: Final = {
    "scene": "scene",
    "hrefs": "hrefs",
    "etags": "etags",
    "status": "status",
    "reason": "reason",
    "lines": "n_lines",
    "requests": "n_requests",
    "bytes": "nbytes",
    "key": "key",
    "unread": "n_unread",
    "tries": "tries",
    "row": "row",
    "acquisition": "acquisition",
    "place": "place",
    "pieces": "n_pieces",
}
"""Columns of the table of images after its time, and the fields of `ImageRecord` that they hold."""

LISTS: Final = frozenset({"hrefs", "etags", "place"})
"""Those of them that hold lists, as JSON."""


def units_of(columns: Sequence[str], records: Iterable[ImageRecord]) -> dict[str, str]:
    """Return the units that all images agree on, by column. A column without one is left out."""
    said = {each.units for each in records if each.status == "ok"}
    found = {name: {units[n] if units else "" for units in said} for n, name in enumerate(columns)}
    return {name: units.pop() for name, units in found.items() if len(units) == 1 and units != {""}}


class Measured(NamedTuple):
    """What was computed of one image."""

    record: ImageRecord
    lines: Lines
    pieces: Lines = NO_LINES
    """In the order of features."""


@dataclass(slots=True)
class PartFolder:
    """The parts of one job."""

    path: Path
    records: dict[int, ImageRecord] = field(default_factory=dict)
    """Images that are done, by number."""

    @classmethod
    def open_(cls, path: Path, *, digest: str) -> "PartFolder":
        """Open the folder of a job, or make it. Parts of another job, or of an unknown one, are removed.

        Raises:
            OSError: It cannot be made, or other parts cannot be removed.
            StoreError: Its log is damaged.
        """
        folder = cls(path)
        if path.exists() and _digest_of(path) != digest:
            folder.end()
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        if not (path / _JOB).exists():
            _replace(path / _JOB, json.dumps({"digest": digest}).encode())
        for record in folder._read_log():
            folder.records[record.number] = record
        return folder

    def write(self, record: ImageRecord, lines: Lines, pieces: Lines = NO_LINES) -> None:
        """Keep what was computed of an image. Its record comes last: an image without one is done anew."""
        for content, part in ((lines, self._part(record.number)), (pieces, self._pieces(record.number))):
            if len(content):
                temporary = part.with_name(f".{part.name}")
                with temporary.open("wb") as file:
                    np.save(file, content)
                temporary.replace(part)
        with (self.path / _LOG).open("ab") as log:
            log.write(msgspec.json.encode(record) + b"\n")
        self.records[record.number] = record

    def lines(self, number: int) -> Lines:
        """Return the lines of an image that has some, mapped into memory.

        Raises:
            StoreError: Their file is missing or damaged.
        """
        return _load(self._part(number))

    def pieces(self, number: int) -> Lines:
        """Return the pieces of an image that has some, mapped into memory.

        Raises:
            StoreError: Their file is missing or damaged.
        """
        return _load(self._pieces(number))

    def end(self) -> None:
        """Keep later runs from going on with the folder. Its job is done, or the folder is removed next.

        Raises:
            OSError: The file that names the job cannot be removed.
        """
        (self.path / _JOB).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, as far as possible. The file that names the job goes first, as by `end`."""
        with suppress(OSError):
            self.end()
        shutil.rmtree(self.path, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.path / f"{number}.npy"

    def _pieces(self, number: int) -> Path:
        return self.path / f"{number}.pieces.npy"

    def _read_log(self) -> Iterator[ImageRecord]:
        """Yield the records. If a kill has cut the last line off, it is removed from the file."""
        log = self.path / _LOG
        if not log.exists():
            return
        content = log.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(log, len(whole))
        for line in whole.splitlines():
            try:
                record = msgspec.json.decode(line, type=ImageRecord)
            except (ValueError, RecursionError) as error:
                raise _damaged(log, error) from error
            yield record


def _load(path: Path) -> Lines:
    try:
        found: Lines = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, error) from error
    return found


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{path} is missing or damaged ({error}): remove the folder {path.parent} and run again. Then all "
        "images are read again"
    )


def _digest_of(path: Path) -> str | None:
    try:
        found = json.loads((path / _JOB).read_bytes())
        return str(found["digest"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(content)
    temporary.replace(path)
