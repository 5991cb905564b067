"""What a table does with each of its images, whatever it computes of them."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import replace
from typing import Any, Protocol

import msgspec
import xxhash

from pixel_gather.core.errors import RequestError, SourceError, StaleHeaderError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.source import Cost, CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.tables.features import Features, Integers
from pixel_gather.tables.merge_zone_lines import Combine
from pixel_gather.tables.open_scene import ImageAccess, ImagePlan
from pixel_gather.tables.part_folder import NO_LINES, ImageRecord, Measured
from pixel_gather.tables.table_values import Values

type WantedImage = tuple[int, CubeRow, Integers | None]
"""The number of an image in the list, its row, and the features that are wanted; None for all."""


class ImageWork(Protocol):
    """What a table computes of one image."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""

    async def measure(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> Measured:
        """Return the lines of an image.

        ``members`` are the features that are wanted; None for all. The cost is added to.

        Raises:
            SourceError: A file cannot be read.
        """

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take. Reads headers, and no pixel."""


class TableKind(Protocol):
    """A kind of table: which features it takes, and what it computes of them."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What decides the table besides features, images and values, as JSON values; ``kind`` among them."""

    @property
    def combine(self) -> Combine | None:
        """What computes a line of the pieces of several images; None if images are never merged."""

    def check(self, features: Features) -> Features:
        """Return the features as they are measured, with what is wrong with them.

        Raises:
            RequestError: They are of another kind.
        """

    def open_work(
        self, features: Features, values: Values, access: ImageAccess
    ) -> AbstractContextManager[ImageWork]:
        """Return what computes the lines of an image."""


def measure_each(
    work: ImageWork, wanted: Iterator[WantedImage], *, most_ahead: int
) -> AsyncGenerator[Measured]:
    """Yield the record and the lines of each image, in order. An image that cannot be read has a record."""

    async def one(image: WantedImage) -> Measured:
        number, row, members = image
        cost = Cost()
        try:
            found = await _twice(work, row, members, cost)
        except SourceError as error:
            status, reason = error.status, error.reason
        except RequestError as error:
            if error.field != "crs":  # PROJ finds no way to this image's CRS
                raise
            status, reason = Status.UNSUPPORTED, str(error)
        else:
            n_unread = int((found.lines["reason"] >= 0).sum())
            record = replace(found.record, number=number, key=key_of(row), n_unread=n_unread)
            again = encoded_row(row) if n_unread else None
            return found._replace(
                record=replace(record, row=again, n_requests=cost.requests, nbytes=cost.nbytes)
            )
        record = failed_record(number, row, status, reason)
        return Measured(replace(record, n_requests=cost.requests, nbytes=cost.nbytes), NO_LINES)

    return in_order(wanted, one, most_ahead=most_ahead)


def failed_record(number: int, row: CubeRow, status: Status, reason: str) -> ImageRecord:
    """Return the record of an image that could not be read."""
    sources = [source for source in row.sources if source is not None]
    return ImageRecord(
        number=number,
        scene=next((each.scene or each.href for each in sources), ""),
        time_us=row.time_us,
        hrefs=tuple(each.href for each in sources),
        key=key_of(row),
        status=status.name.lower(),
        reason=reason,
        row=encoded_row(row),
    )


def key_of(row: CubeRow) -> str:
    """Return what is equal for rows of the same files."""
    hrefs = [None if source is None else source.href for source in row.sources]
    return xxhash.xxh3_64(msgspec.json.encode(hrefs)).hexdigest()


def encoded_row(row: CubeRow) -> str:
    """Return a row as JSON."""
    return msgspec.json.encode(row).decode()


def decoded_row(content: str) -> CubeRow:
    """Return a row of `encoded_row`."""
    return msgspec.json.decode(content, type=CubeRow)


async def _twice(work: ImageWork, row: CubeRow, members: Integers | None, cost: Cost) -> Measured:
    """Measure an image, again if it was replaced meanwhile."""
    try:
        return await work.measure(row, members, cost=cost)
    except SourceError as error:
        if error.status is not Status.CHANGED and not isinstance(error, StaleHeaderError):
            raise
    return await work.measure(row, members, cost=cost)
