"""What a table's receipt says of it: its lines, and the sizes and digests of its files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import xxhash
from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.request.href_policy import place_text, with_home

RESULT_KEY: Final = "result.json"
"""The result of a table of a deployment. In the table's folder it names the files of the last version."""

TABLE_KEY: Final = "table.parquet"
"""The table, in the folder of each version."""

_PART_NBYTES: Final = 1 << 20


class _File(Struct, frozen=True):
    nbytes: int
    xxh3: str


class _Request(Struct, frozen=True):
    columns: tuple[str, ...]
    values: tuple[str, ...]


class _Receipt(Struct, frozen=True):
    """What is read of a receipt: the others of its fields may be missing, or of any type."""

    request: _Request
    features: str
    n_features: int
    n_images: int
    appends: int
    lines: int
    statuses: dict[str, int]
    digest: str
    files: dict[str, _File]
    images: str
    units: dict[str, str] = {}  # earlier tables have none
    bands: tuple[str, ...] = ()  # as above


class Written(Struct, frozen=True, kw_only=True):
    """What was written."""

    n_lines: int
    n_by_status: Mapping[str, int]
    n_images: int
    """Of which the table tells."""

    n_failed: int
    """Images of them that could not be read."""

    last_us: int | None
    """Time of the last image."""

    digest: str
    """Of all lines, in their order."""


def read_receipt(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the receipt that is in the metadata of a table of images.

    Raises:
        ValueError: There is none, or it is damaged.
    """
    try:
        content = metadata[b"pixel_gather"]
        files = msgspec.json.decode(content, type=_Receipt).files
        files["table"], files["features"]
        receipt: dict[str, Any] = json.loads(content)
    except (LookupError, RecursionError) as error:
        raise ValueError("no receipt of a table is in it") from error
    return receipt


def read_result[Result](content: bytes, *, place: str, type: type[Result]) -> Result:  # noqa: A002
    """Return what is wanted of the ``result.json`` of a table's folder.

    Raises:
        StoreError: It is damaged.
    """
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreError(
            f"{place}: its {RESULT_KEY} is damaged ({error}): put it back from a copy. pixel-gather verify "
            "takes the table's Parquet file as well"
        ) from error


def key_in_folder(href: str) -> str:
    """Return where a file of a version lies in the folder of its table: below the folder of the version."""
    return "/".join(href.rsplit("/", 2)[1:])


def table_path(table: object) -> Path:
    """Return the path of a table that is to be opened. ``~/`` is the user's home.

    Raises:
        RequestError: It is on S3, or no path.
    """
    text = place_text(table, "table")
    if text.startswith("s3://"):
        folder, _, name = text.rpartition("/")
        raise RequestError(
            "a table is opened from a folder on this machine. Copy all files of its folder by "
            f"aws s3 cp --recursive {folder}/ table; then open table/{name}",
            field="table",
        )
    return Path(with_home(text))


def side_path(table: Path, name: str) -> Path:
    """Return the place of a table beside the table: ``plots.features.parquet`` of ``plots.parquet``."""
    return table.with_name(f"{table.name.removesuffix('.parquet')}.{name}.parquet")


def staged_path(path: Path) -> Path:
    """Return where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.new")


def file_digest(file: IO[bytes]) -> dict[str, Any]:
    """Return the size and the digest of a file, which is read from where it stands."""
    found, nbytes = xxhash.xxh3_128(), 0
    while content := file.read(_PART_NBYTES):
        found.update(content)
        nbytes += len(content)
    return {"nbytes": nbytes, "xxh3": found.hexdigest()}


def digest_of_path(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a local file."""
    with path.open("rb") as file:
        return file_digest(file)


def digest_of_images(columns: Iterable[Sequence[Any]]) -> str:
    """Return the digest of the table of images, whose metadata has the receipt.

    The columns are all but the times, in their order.
    """
    return xxhash.xxh3_128(json.dumps([list(each) for each in columns]).encode()).hexdigest()
