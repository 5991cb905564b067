"""Ranged GETs from one bucket or host. A GET that is late is sent a second time."""

import time
from typing import Any, Final, Protocol

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError
from obstore.store import HTTPStore, LocalStore

from pixel_gather.core.model.source import Cost
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.hedge_policy import BackEnd, HedgeSettings
from pixel_gather.io.store.hedged_gets import HedgedGets, Leg
from pixel_gather.io.store.no_redirect_http import FixedHost
from pixel_gather.io.store.open_bucket import Bucket
from pixel_gather.io.store.signing import Containers
from pixel_gather.io.store.store_error_status import classify_store_error, is_throttling

type Client = Bucket | HTTPStore | LocalStore | FixedHost | Containers

STORE_ERRORS: Final = (BaseError, OSError, ValueError)
"""What a client raises. `classify_store_error` translates it."""


class Pace(Protocol):
    """Paces requests. One per worker: it is asked before each request and learns of each answer.

    ``root`` names the back end, as `split_href` returns it: a bucket, ``https://host`` or ``file://``.
    """

    async def turn(self, root: str) -> None:
        """Wait until another request may be sent. There is no wait unless the store throttled lately."""

    def governs(self, root: str) -> bool:
        """Whether all workers share what a back end may be asked. Then no request is sent a second time."""

    def record_answer(self, root: str, *, first_byte_s: float) -> None:
        """Record an answer, and the seconds from the request to its first byte."""

    def record_throttle(self, root: str) -> None:
        """Record a 503 or 429: the store wants fewer requests."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Bytes [start, stop) of the version ``if_match``, or of any version."""

    start: int
    stop: int
    if_match: str | None


class RangedGets:
    """One bucket or host: its client and its hedges. Reports each answer to ``pace``."""

    def __init__(
        self,
        root: str,
        store: Client,
        *,
        hedging: HedgeSettings | None,
        first_byte_timeout_s: float,
        pace: Pace | None,
    ) -> None:
        """Send nothing yet.

        The root is that of `split_href`. The pace learns of each answer.
        """
        self._root = root
        self._store = store
        self._pace = pace
        self._gets = HedgedGets(
            BackEnd(hedging),
            first_byte_timeout_s=first_byte_timeout_s,
            is_final=lambda error: not isinstance(error, STORE_ERRORS) or classify_store_error(error)[2] == 0,
        )

    async def get(self, path: str, wanted: Wanted, cost: Cost) -> Fetched:
        """Read a range. A second request is sent where the first is late.

        A hedge is counted in the cost.

        Raises:
            STORE_ERRORS: No request was answered well.
        """

        async def send(leg: Leg) -> Fetched:
            try:
                answer = await self._send(path, wanted, leg)
            except STORE_ERRORS as error:
                if is_throttling(error):
                    self._gets.back_end.record_throttle(now_s=time.monotonic())
                    if self._pace is not None:
                        self._pace.record_throttle(self._root)
                raise
            if self._pace is not None and leg.first_byte_s is not None:
                self._pace.record_answer(self._root, first_byte_s=leg.first_byte_s)
            return answer

        if self._root == "file://" or (self._pace is not None and self._pace.governs(self._root)):
            return await send(Leg())
        return await self._gets.get(send, cost)

    async def _send(self, path: str, wanted: Wanted, leg: Leg) -> Fetched:
        store = self._store
        if isinstance(store, FixedHost):
            request = store.get(
                path, wanted.start, wanted.stop, if_match=wanted.if_match, on_begin=leg.begins
            )
            return await leg.waits_for(request)
        reader: Bucket | HTTPStore | LocalStore
        reader, path = store.of(path) if isinstance(store, Containers) else (store, path)
        options: dict[str, Any] = {"range": (wanted.start, wanted.stop)}
        if wanted.if_match is not None:
            options["if_match"] = wanted.if_match
        answer = await leg.waits_for(obstore.get_async(reader, path, options=options))  # type: ignore[arg-type] # a plain dict is what it takes
        leg.begins()
        content = memoryview(await leg.waits_for(answer.bytes_async()))
        meta = answer.meta  # made anew at each look
        return Fetched(content=content, etag=meta["e_tag"], object_nbytes=meta["size"])
