"""Ranged GETs from buckets, HTTP and local files, pinned to one version of each object.

obstore does the transport. This module finds the store of an href, retries, and counts what each request
cost.
"""

import asyncio
import atexit
import functools
import logging
import random
from collections import Counter
from collections.abc import Mapping
from copy import replace
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from obstore.store import HTTPStore, LocalStore

from pixel_gather.core.errors import DeniedError, MissingExtraError, SourceError, StoreError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.href_policy import BUCKET_SCHEMES, parent_of
from pixel_gather.io.store.exit_wait import wait_for_native_threads
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.no_redirect_http import PAST_THE_END, FixedHost
from pixel_gather.io.store.open_bucket import Bucket, endpoint_of, open_bucket
from pixel_gather.io.store.ranged_gets import STORE_ERRORS, Client, Pace, RangedGets, Wanted
from pixel_gather.io.store.regular_file import why_no_file
from pixel_gather.io.store.signing import Containers, Signing
from pixel_gather.io.store.store_error_status import EMPTY, classify_store_error
from pixel_gather.io.store.store_settings import StoreSettings

_log: Final = logging.getLogger(__name__)

atexit.register(wait_for_native_threads)

type Store = Bucket | HTTPStore | LocalStore

_POOL_IDLE_TIMEOUT: Final = "15s"
"""Longest idle time of a connection. Later the server may have closed it while Lambda was frozen."""

_NO_RETRY: Final[dict[str, Any]] = {"max_retries": 0}


@functools.lru_cache(maxsize=512)  # of each source in flight it is asked three times
def split_href(href: str) -> tuple[str, str]:
    """Split a checked href into a path and its root: a bucket, ``https://host`` or ``file://``."""
    scheme, _, rest = href.partition("://")
    if scheme == "file":
        return "file://", unquote(rest).lstrip("/")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", path if scheme in BUCKET_SCHEMES else unquote(path)


def folder_and_key(href: str) -> tuple[str, str]:
    """Split a checked href into that of its folder, for `open_place`, and the key of its object in it."""
    return parent_of(href), split_href(href)[1].rpartition("/")[2]


def open_store(root: str, settings: StoreSettings) -> Store:
    """Create the client that reads from a bucket, ``https://host`` or ``file://``."""
    client_options = _client_options(root, settings, total_s=settings.request_timeout_s)
    return _open_store(root, settings, None, client_options, _NO_RETRY)


def open_place(href: str, settings: StoreSettings) -> Store:
    """Create the client that writes below a folder of a bucket or of this machine.

    It has the same time-outs for reading and writing.

    Raises:
        StoreError: The folder cannot be created, or takes no files.
    """
    root, path = split_href(href)
    if root == "file://":
        from tempfile import TemporaryFile  # noqa: PLC0415 # 3 ms that no worker needs

        try:
            store = LocalStore(f"/{path}", mkdir=True, automatic_cleanup=True)
            with TemporaryFile(dir=f"/{path}"):
                pass  # obstore would try to make such a file for ever, as in /proc
        except OSError as error:
            said = error.strerror or str(error).partition("\n")[0]
            if Path(f"/{path}").is_file():
                said = "it is a file, not a folder"
            raise StoreError(f"/{path} cannot be written to: {said}; choose another place") from error
        return store
    client_options = _client_options(root, settings, total_s=settings.write_timeout_s)
    del client_options["read_timeout"]  # a store is silent during an upload
    retry = _retry_config(settings, within_s=settings.write_timeout_s)
    return _open_store(root, settings, path or None, client_options, retry)


def open_to_read(href: str, settings: StoreSettings) -> Store:
    """Create the client that reads below a folder of a bucket or of this machine.

    An object may be as long as a shard. A store that is silent is given up after about a minute.
    """
    root, path = split_href(href)
    if root == "file://":
        return LocalStore(f"/{path}")
    client_options = _client_options(root, settings, total_s=settings.write_timeout_s)
    retry = _retry_config(settings, within_s=2 * settings.request_timeout_s)
    return _open_store(root, settings, path or None, client_options, retry)


def _open_store(
    root: str,
    settings: StoreSettings,
    prefix: str | None,
    client_options: dict[str, Any],
    retry: dict[str, Any],
) -> Store:
    scheme = urlsplit(root).scheme
    if scheme == "file":
        return LocalStore(prefix)
    if scheme in ("http", "https"):
        return HTTPStore(root, client_options=client_options, retry_config=retry)  # type: ignore[arg-type] # a plain dict is what it takes
    options = {"prefix": prefix, "client_options": client_options, "retry_config": retry}
    return open_bucket(root, settings, options)


def _client_options(root: str, settings: StoreSettings, *, total_s: float) -> dict[str, Any]:
    return {
        "timeout": _milliseconds(total_s),
        "read_timeout": _milliseconds(settings.stall_timeout_s),
        "connect_timeout": _milliseconds(settings.connect_timeout_s),
        "pool_idle_timeout": _POOL_IDLE_TIMEOUT,
        "allow_http": root.startswith("http://"),
    }


def _retry_config(settings: StoreSettings, *, within_s: float) -> dict[str, Any]:
    return {"max_retries": settings.max_retries, "retry_timeout": timedelta(seconds=within_s)}


def _open_signed(root: str, settings: StoreSettings, signing: Signing) -> Client:
    """Create the client that reads what a service signs for."""
    options: dict[str, Any] = {
        "client_options": _client_options(root, settings, total_s=settings.request_timeout_s),
        "retry_config": _NO_RETRY,
    }
    endpoint = endpoint_of(settings) if root.startswith("s3://") else signing.blob_endpoint
    if (endpoint or "").startswith("http://"):
        options["client_options"]["allow_http"] = True
    if root.startswith("abfs://"):
        container, _, host = root.removeprefix("abfs://").partition("@")
        return signing.blobs(host.partition(".")[0], container, options)
    if not root.startswith("s3://"):
        return Containers(root, signing, options)
    return signing.bucket(root, options if endpoint is None else options | {"endpoint": endpoint})


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"


@dataclass(slots=True)
class Objects:
    """Reads ranges of any object by href. Has one client per bucket or host."""

    settings: StoreSettings
    by_root: Mapping[str, StoreSettings] = field(default_factory=dict)
    """Other settings for some back ends, by ``s3://bucket`` or ``https://host``."""

    pace: Pace | None = None
    _back_ends: dict[str, RangedGets] = field(default_factory=dict)

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) of one version of an object.

        Args:
            href: A checked href.
            start: First byte, from 0.
            stop: Byte after the last. It may lie beyond the object's end.
            etag: The version to read, or None for the current one.
            cost: The requests, retries, hedges and bytes of this call are added to it.

        Raises:
            SourceError: With status MISSING, DENIED, CHANGED, TIMED_OUT, CORRUPT (the range begins
                beyond the end) or UNSUPPORTED (the server does not answer ranges).
        """
        wanted = Wanted(start=start, stop=stop, if_match=strong_etag(etag))
        root, path = split_href(href)
        if root == "file://" and (why := why_no_file(f"/{path}")) is not None:
            raise SourceError(why, href=href, status=Status.MISSING)
        back_end = self._open_root(root, href)
        failures = Counter[str]()
        while True:
            if self.pace is not None:
                await self.pace.turn(root)
            cost.requests += 1
            try:
                answer = await back_end.get(path, wanted, cost)
            except STORE_ERRORS as error:
                status, reason, tries = classify_store_error(error)
                if reason == PAST_THE_END and start == 0:
                    reason = EMPTY
                failures[reason] += 1
                n_failed = failures.total()
                if failures[reason] > tries or n_failed > self.settings.max_retries:
                    raise SourceError(reason, href=href, status=status) from error
                cost.retries += 1
                _log.debug("%s: %s; try %d follows", href, reason, n_failed + 1)
                await asyncio.sleep(self._pause_s(n_failed))
                continue
            cost.nbytes += answer.content.nbytes
            if etag is not None and answer.etag != etag:
                raise SourceError("replaced while it was being read", href=href, status=Status.CHANGED)
            return answer

    def open_(self, href: str) -> None:
        """Open the store of a checked href. No request is sent.

        Raises:
            DeniedError: There are no credentials for it, or the profile does not exist.
            MissingExtraError: Its credentials need a package that is not installed.
        """
        self._back_end(split_href(href)[0])

    def settings_of(self, href: str) -> StoreSettings:
        """Return how the store of a checked href is reached."""
        return self.by_root.get(split_href(href)[0], self.settings)

    def signed(self, signing: Signing) -> "Objects":
        """Return another reader of the same objects, which signs."""
        return Objects(
            replace(self.settings, signing=signing),
            by_root={root: replace(each, signing=signing) for root, each in self.by_root.items()},
            pace=self.pace,
        )

    def _open_root(self, root: str, href: str) -> RangedGets:
        try:
            return self._back_end(root)
        except (DeniedError, MissingExtraError) as error:
            raise SourceError(str(error), href=href, status=Status.DENIED) from error

    def _back_end(self, root: str) -> RangedGets:
        if root not in self._back_ends:
            settings = self.by_root.get(root, self.settings)
            self._back_ends[root] = RangedGets(
                root,
                _open_client(root, settings),
                hedging=settings.hedging,
                first_byte_timeout_s=settings.first_byte_timeout_s,
                pace=self.pace,
            )
        return self._back_ends[root]

    def _pause_s(self, attempt: int) -> float:
        """Return a pause with full jitter."""
        longest = min(self.settings.first_backoff_s * 2 ** (attempt - 1), 5.0)
        return random.uniform(0, longest)  # noqa: S311 # not for secrets


def _open_client(root: str, settings: StoreSettings) -> Client:
    """Create the client that reads ranges, signed or bound to its host where the settings say so."""
    signing = settings.signing
    if signing is not None and signing.is_for(root):
        return _open_signed(root, settings, signing)
    if root.startswith(("http://", "https://")) and settings.stays_on_host:
        return FixedHost(
            root,
            connect_timeout_s=settings.connect_timeout_s,
            first_byte_timeout_s=settings.first_byte_timeout_s,
            stall_timeout_s=settings.stall_timeout_s,
            request_timeout_s=settings.request_timeout_s,
        )
    return open_store(root, settings)


def strong_etag(etag: str | None) -> str | None:
    """Return the value of If-Match. None for a weak tag, which never matches (RFC 9110, section 13.1.1)."""
    return None if etag is None or etag.startswith("W/") else etag
