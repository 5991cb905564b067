"""Lists the objects below a folder, in a bucket or on this machine, sorted by name.

The package ``regex`` runs the patterns: it can stop a search after a time limit, which ``re`` cannot.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from glob import translate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import (
    IN_PROCESS,
    HrefPolicy,
    bucket_address,
    check_folder,
    check_href,
    checked_href,
)
from pixel_gather.io.store.object_store import Store, open_store, split_href
from pixel_gather.io.store.open_list_file import Check, no_deadline
from pixel_gather.io.store.store_error_status import classify_store_error
from pixel_gather.io.store.store_settings import StoreSettings

_N_PER_PAGE: Final = 1000
_LONGEST_PATTERN: Final = 1000
_MOST_NESTED: Final = 100
"""Parentheses inside one another. Python allows some 300 before it gives up."""

_LONGEST_SEARCH_S: Final = 1.0
if TYPE_CHECKING:  # few lists have a pattern
    import regex as timed_re

type Pattern = timed_re.Pattern[str]

_WILDCARD = re.compile(r"[*?\[]")
_ALTERNATIVES = re.compile(r"\{[^{}/]*,[^{}/]*\}")


class ListedObject(Struct, frozen=True, kw_only=True):
    """One object below a prefix."""

    href: str
    nbytes: int
    last_modified: datetime


type _Found = tuple[str, int, datetime]
"""A path below the listed folder, the size in bytes, and when it was last modified."""


def list_prefix(
    prefix: str,
    *,
    glob: str | None = None,
    regex: str | None = None,
    policy: HrefPolicy,
    settings: StoreSettings,
    open_: Callable[[str, StoreSettings], Store] = open_store,
    check: Check = no_deadline,
) -> Iterator[ListedObject]:
    """Yield the objects below a folder, sorted by their keys as S3 sorts them.

    Args:
        prefix: ``s3://bucket/folder/``, or of another store, or a local folder. The last slash is optional.
        glob: Pattern for the path below the prefix: ``*`` and ``?`` stay within one folder, ``**``
            means any number of folders. Without one, everything is listed.
        regex: Regular expression, searched for in the whole href.
        policy: What may be listed. A relative folder is resolved against its base.
        settings: How object stores are reached.
        open_: Opens a bucket.
        check: Called for every key, also those that no pattern matches, and before every retry.

    Raises:
        RequestError: The prefix or a pattern is wrong, or the folder cannot be listed.
        TimeoutError: Raised by ``check``.
    """
    folder = _check_folder(prefix, policy)
    glob = glob and glob.lstrip("/")
    below_matches = compile_pattern(_as_regex(glob), "glob") if glob else None
    whole_matches = None if regex is None else compile_pattern(regex, "regex")
    literal = _WILDCARD.split(glob, maxsplit=1)[0] if glob else ""
    below, _, _ = literal.rpartition("/")
    start = f"{folder}/{below}" if below and ".." not in below else folder
    root, path = split_href(start)
    is_local = root == "file://"
    path = "/" + path if is_local else path
    found = _walk(path) if is_local else _list_store(open_(root, settings), path, start, settings, check)
    for at, nbytes, last_modified in found:
        check()
        relative = f"{below}/{at}" if start != folder else at
        is_folder_marker = nbytes == 0 and "." not in relative.rpartition("/")[2]
        if is_folder_marker or (below_matches and search(below_matches, relative, "glob") is None):
            continue
        href = _file_href(f"{path}/{at}") if is_local else f"{folder}/{relative}"
        if whole_matches is None or search(whole_matches, href, "regex") is not None:
            yield ListedObject(href=href, nbytes=nbytes, last_modified=last_modified)


def _check_folder(prefix: str, policy: HrefPolicy) -> str:
    """Return the folder's href without a closing slash."""
    if not prefix:
        raise RequestError("the prefix is empty; write s3://bucket/folder/", field="prefix")
    href = checked_href(prefix, "prefix", policy=policy, check=check_folder)
    if href.startswith(("http:", "https:")):
        raise RequestError(f"web servers cannot be listed; write {bucket_address(href)}", field="prefix")
    return href


def _file_href(path: str) -> str:
    try:
        return check_href(path, policy=IN_PROCESS)
    except ValueError as error:
        raise RequestError(f"a file below it cannot be named: {error} ({path!r})", field="prefix") from error


def _as_regex(glob: str) -> str:
    if _ALTERNATIVES.search(glob):
        raise RequestError(
            r"braces are no wildcard: give a regex, which may name alternatives, such as \.(tif|jp2)$",
            field="glob",
        )
    return r"\A" + translate(glob, recursive=True, include_hidden=True, seps="/")


def compile_pattern(pattern: str, field: str) -> Pattern:
    """Compile a regular expression. An error names the request's field."""
    if len(pattern) > _LONGEST_PATTERN:
        raise RequestError(f"the pattern is longer than {_LONGEST_PATTERN} characters", field=field)
    if _depth(pattern) > _MOST_NESTED:
        raise RequestError("the pattern has too many parentheses inside one another", field=field)
    import regex as timed_re  # noqa: PLC0415 # 0.02 s; few lists have a pattern

    try:
        return timed_re.compile(pattern)
    except timed_re.error as error:
        raise RequestError(f"this is not a regular expression: {error}", field=field) from error


def _depth(pattern: str) -> int:
    """Return how many parentheses are open at most. Compiling goes one call deeper for each."""
    depth = deepest = 0
    for bracket in re.findall(r"\\.|[()]", pattern, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(bracket, 0)
        deepest = max(deepest, depth)
    return deepest


def search(pattern: Pattern, text: str, field: str) -> "timed_re.Match[str] | None":
    """Search with a time limit, because some patterns backtrack almost without end."""
    try:
        return pattern.search(text, timeout=_LONGEST_SEARCH_S)
    except TimeoutError as error:
        raise RequestError(
            f"it takes over {_LONGEST_SEARCH_S:.0f} s to match {text}: write it without repeats in repeats",
            field=field,
        ) from error


def _list_store(
    store: Store, folder: str, start: str, settings: StoreSettings, check: Check
) -> Iterator[_Found]:
    """List a bucket page by page. After a failure, continue behind the last key."""
    last: str | None = None
    attempt = 0
    while True:
        listed_until = last
        try:
            for page in obstore.list(store, folder or None, offset=listed_until, chunk_size=_N_PER_PAGE):
                for meta in page:
                    if listed_until is not None and meta["path"] <= listed_until:
                        continue  # Azurite lists from the start
                    last, attempt = meta["path"], 0
                    yield last.removeprefix(folder).lstrip("/"), meta["size"], meta["last_modified"]
        except (BaseError, OSError, ValueError) as error:
            check()
            attempt += 1
            _, reason, tries = classify_store_error(error)
            if attempt > min(tries, settings.max_retries):
                raise RequestError(f"{start}/ cannot be listed: {reason}", field="prefix") from error
            time.sleep(min(settings.first_backoff_s * 2 ** (attempt - 1), 5.0))
        else:
            return


def _walk(folder: str) -> Iterator[_Found]:
    """Walk a local folder in S3's order. Follow links, except to a folder that is being walked."""
    if Path(folder).is_file():
        raise RequestError(
            f"{folder} is a file: name the folder that it lies in. If it is a list, run and plan take it by "
            "--sources",
            field="prefix",
        )
    if not Path(folder).is_dir():
        raise RequestError(f"there is no folder {folder}", field="prefix")
    above = (parent.stat() for parent in Path(folder).resolve().parents)
    yield from _walk_below(folder, "", frozenset((parent.st_dev, parent.st_ino) for parent in above))


def _walk_below(folder: str, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[_Found]:
    try:
        own = os.stat(folder)  # noqa: PTH116 # os.scandir takes the same text
        with os.scandir(folder) as entries:
            # S3 compares the slash behind a folder's name, too
            names = sorted(entry.name + "/" * _is_folder(entry) for entry in entries)
    except OSError as error:
        raise RequestError(f"{folder} cannot be listed: {error.strerror}", field="prefix") from error
    if (own.st_dev, own.st_ino) in above:
        return
    above |= {(own.st_dev, own.st_ino)}
    for name in names:
        if name.endswith("/"):
            yield from _walk_below(f"{folder}/{name[:-1]}", prefix + name, above)
            continue
        try:
            entry = Path(folder, name).stat()
        except OSError:  # a broken link, or a file removed meanwhile
            continue
        if stat.S_ISREG(entry.st_mode):
            yield prefix + name, entry.st_size, datetime.fromtimestamp(entry.st_mtime, tz=UTC)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
