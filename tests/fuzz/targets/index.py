"""A header index: somebody else's Parquet file of packed headers."""

import io
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, cast

from fuzz.mutations import mutated_bytes as mutated
from fuzz.targets import packed_header
from pixel_gather.core.errors import RequestError
from pixel_gather.io.header_index import read_index, write_index

__all__ = ["fuzz_one", "mutated", "seeds"]

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 # no disk is worn by a million inputs
_NO_OBJECTS: Final = cast("Any", None)
"""The file is local."""


def seeds() -> list[bytes]:
    """Return indexes with one and with several headers."""
    entries = [(f"s3://b/{n}.tif", packed) for n, packed in enumerate(packed_header.seeds())]
    found = []
    for some in (entries[:1], entries):
        file = io.BytesIO()
        write_index(iter((some,)), file)
        found.append(file.getvalue())
    return found


def fuzz_one(content: bytes) -> None:
    """Read all entries. A wrong index is a RequestError."""
    path = _file()
    path.write_bytes(content)
    try:
        with suppress(RequestError):
            for _, packed in read_index(f"file://{path}", objects=_NO_OBJECTS, overview=None):
                packed_header.fuzz_one(packed)
    finally:
        path.unlink()


def _file() -> Path:
    import os  # noqa: PLC0415 # the number of this process, after forks as well

    folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(gettempdir())
    return folder / f"pixel-gather-fuzz-{os.getpid()}.parquet"
