"""The ledgers of hosts as objects: in a deployment's control bucket, or in a folder of this user."""

import os
import stat
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Final

import obstore
from obstore.exceptions import PermissionDeniedError
from obstore.store import LocalStore

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.conditional_put import put_if
from pixel_gather.io.store.limiter.govern_host import Budget, HostGovernor, Ledger
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store

_MOST_NBYTES: Final = 2**21
"""Of the ledger of 10,000 workers. A longer object is none."""

_FOLDER: Final = "pixel-gather-pace"
_CLOCK: Final = "clock"
_IN_FLIGHT_S: Final = 2.0
"""A request takes less, its wait for its turn left out."""

_LEAST_IN_FLIGHT: Final = 4
_OUT_OF_REACH: Final = "{}, which holds limits.requests_per_s, is out of reach"


class ObjectLedger:
    """The ledger of one host as an object."""

    def __init__(self, store: Store, key: str) -> None:
        """Read nothing yet."""
        self._store = store
        self._key = key
        self._clock_key = f"{key.rpartition('/')[0]}/{_CLOCK}".lstrip("/")

    async def touch(self) -> float:
        """Write the clock's object and return when it was last written."""
        with errors_of_store(_OUT_OF_REACH.format(self._clock_key)):
            await obstore.put_async(self._store, self._clock_key, b"clock", use_multipart=False)
            meta = await obstore.head_async(self._store, self._clock_key)
        return float(int(meta["last_modified"].timestamp()))

    async def read(self) -> tuple[bytes, str | None]:
        """Return the leases and their ETag."""
        with errors_of_store(_OUT_OF_REACH.format(self._key)):
            try:
                answer = await obstore.get_async(self._store, self._key)
                content = b"" if answer.meta["size"] > _MOST_NBYTES else bytes(await answer.bytes_async())
            except (FileNotFoundError, PermissionDeniedError):  # S3 says the latter to who may not list
                return b"", None
            return content, answer.meta["e_tag"]

    async def replace(self, content: bytes, version: str | None) -> bool:
        """Put the leases if the ETag is still this one; None: if there are none."""
        what = _OUT_OF_REACH.format(self._key)
        return await put_if(self._store, self._key, content, etag=version, what=what) is not None


class HostBudgets:
    """What this process may ask of each host."""

    def __init__(self, per_s: Mapping[str, float], *, open_store: Callable[[], tuple[Store, str]]) -> None:
        """Open nothing yet.

        The limits are those of all workers together, by ``s3://bucket`` or ``https://host``. ``open_store``
        returns where the ledgers lie, and the start of their keys.
        """
        self._always = dict(per_s)
        self._per_s = dict(per_s)
        self._n_workers = 1
        self._open_store = open_store
        self._place: tuple[Store, str] | None = None
        self._governors: dict[str, HostGovernor] = {}

    def use(self, per_s: Mapping[str, float], *, n_workers: int) -> None:
        """Follow the limits of the gather at hand, too. The lower one of two holds.

        The workers of the gather start at about the same time.
        """
        both = [self._always, per_s]
        roots = self._always.keys() | per_s.keys()
        self._per_s = {root: min(each[root] for each in both if root in each) for root in roots}
        self._n_workers = n_workers

    def governor(self, root: str) -> HostGovernor | None:
        """Return what keeps the budget of a bucket or host; None where there is none."""
        per_s = self._per_s.get(root)
        if per_s is None:
            return None
        budget = Budget(per_s=per_s, n_workers=self._n_workers)
        governor = self._governors.get(root)
        if governor is None:
            governor = self._governors[root] = HostGovernor(self._ledger(root), budget)
        governor.budget = budget
        return governor

    def in_flight(self, root: str, *, most: int) -> int:
        """Return how many requests in flight use up a budget. More would only wait, and time out."""
        per_s = self._per_s.get(root)
        return most if per_s is None else min(max(ceil(_IN_FLIGHT_S * per_s), _LEAST_IN_FLIGHT), most)

    def _ledger(self, root: str) -> Ledger:
        if self._place is None:
            self._place = self._open_store()
        store, prefix = self._place
        return ObjectLedger(store, f"{prefix}{root.replace('://', '-').replace(':', '-')}.json")


def open_users_folder() -> tuple[Store, str]:
    """Return the folder in which all processes of this user on this machine share the budgets of hosts.

    Raises:
        StoreError: It cannot be made, or belongs to somebody else.
    """
    import tempfile  # noqa: PLC0415 # 3 ms that no worker needs

    user = getattr(os, "getuid", int)()  # 0 on Windows, as the owner of every file there
    folder = Path(tempfile.gettempdir(), f"{_FOLDER}-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise StoreError(
            f"{folder}: processes share limits.requests_per_s there, and it cannot be made: {error.strerror}"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        raise StoreError(f"{folder}: processes share limits.requests_per_s there, and it is another user's")
    return LocalStore(folder), ""
