"""Refuses file names that end like those of another kind of file."""

from pathlib import PurePosixPath
from typing import Final, Literal

from pixel_gather.core.errors import RequestError

type FileKind = Literal["CSV", "HTML", "Parquet"]

_SUFFIXES: Final[dict[FileKind, str]] = {"CSV": ".csv", "HTML": ".html", "Parquet": ".parquet"}
_OTHER_SUFFIXES: Final = frozenset({".geojson", ".json", ".jsonl", ".ndjson", ".tif", ".txt", ".zarr"})


def check_file_name(file: str, *, what: str, kind: FileKind, field: str) -> None:
    """Refuse a file name with the suffix of another kind of file, such as a list or a table.

    Raises:
        RequestError: The name is refused. The message says what is written, and a name for it.
    """
    name, own = PurePosixPath(file), _SUFFIXES[kind]
    if name.suffix.lower() in {*_SUFFIXES.values(), *_OTHER_SUFFIXES} - {own}:
        article = "an" if kind == "HTML" else "a"
        raise RequestError(f"{what} is {article} {kind} file; write {name.stem}{own}", field=field)
