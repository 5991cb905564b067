"""What a table's receipt says of its files: their sizes and digests."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final

import xxhash

_PART_NBYTES: Final = 1 << 20


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

    Args:
        columns: Its columns but for the times, in their order.
    """
    return xxhash.xxh3_128(json.dumps([list(each) for each in columns]).encode()).hexdigest()
