"""Uploads lists, indexes and features of this machine, so that the deployment can read them."""

import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.chip_table import TABLE_FIELD
from pixel_gather.core.request.href_policy import (
    IN_PROCESS,
    HrefPolicy,
    check_folder,
    check_href,
    checked_href,
)
from pixel_gather.core.request.request import GatherRequest
from pixel_gather.core.request.sources import Sources
from pixel_gather.in_process.places import href_here
from pixel_gather.io.lists.parse_list import read_records
from pixel_gather.io.store.object_store import Objects, split_href
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.io.store.regular_file import open_given_file
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.deployment.deployment import LocalList, RemoteDeployment

_STDIN: Final = "-"
_FORMATS: Final = frozenset({"txt", "lst", "csv", "tsv", "jsonl", "ndjson", "parquet", "pq", "geojson"})
_UNKNOWN: Final = "list"
"""Not a format's suffix: the reader looks at the first line."""

_ON_AWS: Final = HrefPolicy(schemes=frozenset({"s3", "https", "http"}))
"""What a worker can reach. The deployment decides which of it may be read."""

_LOOKED_AT: Final = 1000
"""So many sources of a list are checked before it is uploaded. The plan checks all."""


def check_no_rows(sources: Sources) -> None:
    """Refuse rows that stand in a request: a stored one would keep only their number."""
    if sources.rows is not None:
        raise RequestError(
            "a deployment takes no rows: write them to a list, and name it by sources (--sources)",
            field="sources",
        )


def with_list_uploaded(request: GatherRequest, deployment: RemoteDeployment) -> GatherRequest:
    """Return the request with its list file, chips and index uploaded, if they are on this machine.

    An upload is named by its content, so the same list makes the same request.
    """
    sources = uploaded_sources(request.sources, deployment)
    if sources is not request.sources:
        request = request.model_copy(update={"sources": sources})
    if (windows := request.windows) is not None:
        table = _upload_list(windows.table, TABLE_FIELD, deployment, "table of chips", "the table is empty")
        request = request.model_copy(update={"windows": windows.model_copy(update={"table": table})})
    if request.index is not None:
        index = _upload_list(request.index, "index", deployment, "index", "the index is empty")
        request = request.model_copy(update={"index": index})
    return request


def uploaded_sources(sources: Sources, deployment: RemoteDeployment) -> Sources:
    """Return sources with their list file uploaded, if it is on this machine."""
    places = {f"sources.hrefs.{position}": href for position, href in enumerate(sources.hrefs or ())}
    if sources.catalog is not None:
        places["sources.catalog.file"] = sources.catalog.file
    if sources.stac is not None and isinstance(sources.stac.items, str):
        places["sources.stac.items"] = sources.stac.items
    for field, place in places.items():
        _refuse_local(place, field)
    if sources.prefix is not None:
        _refuse_local(sources.prefix, "sources.prefix", check=check_folder)
    if sources.list is None:
        return sources
    place = _upload_list(sources.list, "sources.list", deployment, "list", "the list names no source")
    return sources if place == sources.list else sources.model_copy(update={"list": place})


def uploaded_features(place: str, deployment: RemoteDeployment) -> str:
    """Return the address of a file of features, which is uploaded if it is on this machine."""
    return _upload_list(place, "features", deployment, "file of features", "the file is empty")


def _refuse_local(href: str, field: str, *, check: Callable[..., str] = check_href) -> None:
    """Refuse a file or folder of this machine. What else may be wrong is for the deployment to say."""
    try:
        is_local = check(href, policy=IN_PROCESS.within("/")).startswith("file://")
    except ValueError:
        return
    if is_local:
        checked_href(href, field, policy=_ON_AWS.within("/"), check=check)


def _check_sources(path: str, file: io.BufferedIOBase) -> None:
    """Refuse a list that names files of this machine."""
    stdin = os.fdopen(os.dup(file.fileno()), "rb") if path == _STDIN else None
    place = path if path == _STDIN else check_href(path, policy=IN_PROCESS)
    name, listed = open_list_file(place, objects=Objects(StoreSettings()), stdin=stdin)
    for number, record in islice(read_records(listed, name=name).lines, _LOOKED_AT):
        if isinstance(href := record.get("href"), str):
            _refuse_local(href, f"{name} line {number}")


def _upload_list(place: str, field: str, deployment: RemoteDeployment, what: str, if_empty: str) -> str:
    """Return the address of a file, which is uploaded if it is on this machine."""
    path = _local_path(place, field)
    if path is None:
        return place
    with _open_list(path, what) as file:
        nbytes = file.seek(0, 2)
        if nbytes == 0:
            raise RequestError(if_empty, field=_name_of(path))
        file.seek(0)
        if what == "list":
            _check_sources(path, file)
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
    root, path = split_href(href_here(place, field))
    return f"/{path}" if root == "file://" else None


@contextmanager
def _open_list(path: str, what: str) -> Iterator[io.BufferedIOBase]:
    if path == _STDIN:
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            yield kept
        return
    try:
        file = open_given_file(path)
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
