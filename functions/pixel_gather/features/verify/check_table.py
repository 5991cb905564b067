"""Compare a table with its receipt, which is in the metadata of its table of images."""

from contextlib import closing
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.in_process.places import show_place
from pixel_gather.io.parquet.parquet_batches import ParquetError, checked_batches
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.tables.table_receipt import digest_of_images, file_digest, read_receipt

_BATCH = 65_536
_INSTEAD = "name a table that pixel-gather points or zones has written"


class VerifiedTable(Struct, frozen=True, kw_only=True):
    """A table that was compared with its receipt."""

    n_lines: int
    n_images: int
    differences: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


def check_table(href: str, objects: Objects) -> VerifiedTable:
    """Read the files of a table and compare them with the receipt.

    Raises:
        StoreError: There is no such table, or no receipt, or a file cannot be read.
    """
    beside = href.removesuffix(".parquet")
    receipt, digest, n_images = _images(f"{beside}.images.parquet", objects, table=show_place(href))
    differences = []
    if digest != receipt["images"]:
        differences.append("the table of images is not that of the receipt")
    for name, expected in receipt["files"].items():
        place = href if name == "table" else f"{beside}.{name}.parquet"
        file = PurePosixPath(place).name
        found = _digest(place, objects)
        if found is None:
            differences.append(f"{file} is missing")
        elif found["nbytes"] != expected["nbytes"]:
            said = f"the receipt says {expected['nbytes']:,}"
            differences.append(f"{file} has {found['nbytes']:,} bytes, {said}")
        elif found != expected:
            differences.append(f"{file} holds other bytes than the receipt says")
    return VerifiedTable(n_lines=receipt["lines"], n_images=n_images, differences=tuple(differences))


def _images(href: str, objects: Objects, *, table: str) -> tuple[dict[str, Any], str, int]:
    """Return the receipt, the digest of the table of images, and their number."""
    try:
        _, file = open_list_file(href, objects=objects, what="table of images")
    except RequestError as error:
        reason = error.message.removesuffix(f" ({href})").partition(": ")[2]
        raise StoreError(
            f"{table}: no receipt is there, as {error.field} cannot be read: {reason}; {_INSTEAD}"
        ) from error
    with closing(file):
        try:
            schema, batches = checked_batches(file, field="images", batch_size=_BATCH)
            receipt = read_receipt(schema.metadata)
            names = [name for name in schema.names if name != "time"]
            columns: list[list[Any]] = [[] for _ in names]
            for batch in batches:
                for name, values in zip(names, columns, strict=True):
                    values.extend(cast("list[Any]", batch.column(name).to_pylist()))
            return receipt, digest_of_images(columns), len(columns[0])
        except (ParquetError, RequestError, ValueError, LookupError, TypeError) as error:
            raise StoreError(f"{show_place(href)}: no receipt of a table is in it; {_INSTEAD}") from error


def _digest(href: str, objects: Objects) -> dict[str, Any] | None:
    try:
        _, file = open_list_file(href, objects=objects, what="table")
    except RequestError:
        return None
    with closing(file):
        return file_digest(file)
