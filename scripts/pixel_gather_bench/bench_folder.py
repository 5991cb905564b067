"""The folder of one benchmark. Its name has the kind and the time, so no benchmark overwrites another."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from pixel_gather.core.errors import RequestError


def new_folder(to: Path, kind: str) -> Path:
    """Make ``<to>/<kind>-20261121T143015Z`` and return it.

    Args:
        to: Made if need be.
        kind: What is measured: ``suite``, ``ingest``.

    Raises:
        RequestError: It cannot be made there.
    """
    name = f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        to.mkdir(parents=True, exist_ok=True)
        for n_before in count():  # two may start in one second
            folder = to / (f"{name}-{n_before + 1}" if n_before else name)
            if not folder.exists():
                folder.mkdir()
                return folder
    except OSError as error:
        raise RequestError(f"no folder can be made in {to}: {error.strerror}", field="to") from error
    raise AssertionError


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """Remove the folder at the end of the block if nothing was written to it."""
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def put_text(file: Path, text: str) -> None:
    """Write a file. If that fails, there is no file instead of half of one."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)
