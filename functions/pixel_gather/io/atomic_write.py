"""Writes a local file as a whole: readers find the former file or the new one, and no half of one."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from obstore.exceptions import BaseError

from pixel_gather.core.errors import StoreError


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary path beside ``path``. After the block, its file replaces the one at ``path``.

    Only this process writes to the temporary file. If ``path`` is a link, the file behind it is replaced. If
    ``path`` is no regular file, such as a terminal, ``path`` itself is yielded.

    Raises:
        StoreError: The file cannot be written, or ``path`` is a folder. A regular file there is as it was.
    """
    with errors_of_writing(path):
        own = path.resolve()
        if own.is_dir():
            raise StoreError(f"{path} is a folder: choose the name of a file")
        if own.exists() and not own.is_file():
            yield path
            return
        partial = own.with_name(f".{own.stem}.{os.getpid()}.partial{own.suffix}")
        try:
            yield partial
            partial.replace(own)
        finally:
            with suppress(OSError):  # a read-only folder raises even if the file is missing
                partial.unlink(missing_ok=True)


@contextmanager
def errors_of_writing(path: Path) -> Generator[None]:
    """Turn an error of this machine's files into one that names the path. Errors of a store stay as they are.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        yield
    except BaseError:  # an OSError as well
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
