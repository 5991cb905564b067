"""Replaces a file of this machine by a whole one, or leaves it as it is."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from obstore.exceptions import BaseError

from pixel_gather.core.errors import StoreError


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Give a path of this process alone to write to. Afterwards, that file replaces the one at ``path``.

    A link stays, and its file is replaced. What is no file, such as a terminal, is written to as it is.

    Raises:
        StoreError: The file cannot be written. What was there is as it was.
    """
    with errors_of_writing(path):
        own = path.resolve()
        if own.exists() and not own.is_file():
            yield path
            return
        partial = own.with_name(f".{own.stem}.{os.getpid()}.partial{own.suffix}")
        try:
            yield partial
            partial.replace(own)
        finally:
            with suppress(OSError):  # a folder that is read-only says so also of a file that is not there
                partial.unlink(missing_ok=True)


@contextmanager
def errors_of_writing(path: Path) -> Generator[None]:
    """Turn an error of this machine's files into one that names the path. Errors of a store stay as they are.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        yield
    except BaseError:  # it is an OSError
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
