"""Uploads list files and indexes of this machine, so that the deployment can read them."""

import hashlib
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pixel_gather.adapters.object_store.object_store import split_href
from pixel_gather.errors import RequestError
from pixel_gather.request.href_policy import IN_PROCESS, check_href
from pixel_gather.request.request import GatherRequest, Sources
from pixel_gather_cli.deployment.deployment import LocalList, RemoteDeployment

_STDIN: Final = "-"
_FORMATS: Final = frozenset({"txt", "lst", "csv", "tsv", "jsonl", "ndjson", "parquet", "pq"})
_UNKNOWN: Final = "list"
"""Not a format's suffix: the reader looks at the first line."""


def with_list_uploaded(request: GatherRequest, deployment: RemoteDeployment) -> GatherRequest:
    """Return the request with its list file and its index uploaded, if they are on this machine.

    An upload is named by its content, so the same list makes the same request.

    Raises:
        RequestError: A file cannot be read.
    """
    sources = uploaded_sources(request.sources, deployment)
    if sources is not request.sources:
        request = request.model_copy(update={"sources": sources})
    if request.index is not None:
        path = _local_path(request.index, "index")
        if path is not None:
            href = _uploaded(path, deployment, "index", "the index is empty")
            request = request.model_copy(update={"index": href})
    return request


def uploaded_sources(sources: Sources, deployment: RemoteDeployment) -> Sources:
    """Return sources with their list file uploaded, if it is on this machine.

    Raises:
        RequestError: The file cannot be read.
    """
    if sources.list is None:
        return sources
    path = _local_path(sources.list, "sources.list")
    if path is None:
        return sources
    return Sources(list=_uploaded(path, deployment, "list", "the list names no source"))


def _uploaded(path: str, deployment: RemoteDeployment, what: str, if_empty: str) -> str:
    with _opened(path, what) as file:
        nbytes = file.seek(0, 2)
        if nbytes == 0:
            raise RequestError(if_empty, field=_name_of(path))
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        local = LocalList(file=file, nbytes=nbytes, sha256=sha256, suffix=_suffix_of(path))
        href: str = deployment.keep_list(local)
    return href


def _local_path(place: str, field: str) -> str | None:
    """Return the path of a file on this machine, or None for any other address."""
    if place == _STDIN and field != "index":
        return place
    try:
        root, path = split_href(check_href(place, policy=IN_PROCESS.within(str(Path.cwd()))))
    except ValueError as error:
        raise RequestError(str(error), field=field) from error
    return f"/{path}" if root == "file://" else None


@contextmanager
def _opened(path: str, what: str) -> Iterator[io.BufferedIOBase]:
    if path == _STDIN:
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            yield kept
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 # closed below
    except OSError as error:
        reason = error.strerror or str(error)
        raise RequestError(f"the {what} cannot be read: {reason} ({path})", field=_name_of(path)) from error
    with file:
        yield file


def _name_of(path: str) -> str:
    return "stdin" if path == _STDIN else Path(path).name


def _suffix_of(path: str) -> str:
    suffix = Path(path.removesuffix(".gz")).suffix.lower().lstrip(".")
    return suffix if suffix in _FORMATS else _UNKNOWN
