"""Opens the store that a folder of images lies in: a bucket, or this machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from obstore.store import GCSStore, HTTPStore, LocalStore

from pixel_gather.core.errors import PickledError
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.href_policy import BUCKET_SCHEMES, HrefPolicy, check_folder
from pixel_gather.io.store.object_store import open_to_read, split_href
from pixel_gather.io.store.open_bucket import Bucket
from pixel_gather.io.store.store_settings import StoreSettings

_GOOGLE: Final = "https://storage.googleapis.com"

type ListableStore = Bucket | LocalStore


class FolderRefusedError(PickledError):
    """A folder is not listed here. The message says why."""

    def __init__(self, reason: str, status: Status) -> None:
        super().__init__(reason)
        self.status = status


class OpenFolder(Struct, frozen=True, kw_only=True):
    """A folder that can be listed."""

    store: ListableStore
    path: str
    """Path of the folder in the store, without a closing slash."""

    start: str
    """What hrefs begin with, before the path in the store."""

    def href(self, path: str) -> str:
        """Return the href of a file in the store."""
        return self.start + (path if self.start.partition("://")[0] in BUCKET_SCHEMES else quote(path))


def _open_google(bucket: str) -> GCSStore:
    return GCSStore(bucket, skip_signature=True)


@dataclass(slots=True)
class Folders:
    """Opens folders. Has one client per bucket."""

    policy: HrefPolicy
    """What may be listed: a folder of which an object may be read."""

    settings_of: Callable[[str], StoreSettings]
    """How a bucket is reached."""

    open_google: Callable[[str], GCSStore] = _open_google
    _stores: dict[str, ListableStore] = field(default_factory=dict)

    def open_(self, href: str) -> OpenFolder:
        """Open the store of a folder. No request is sent.

        Raises:
            FolderRefusedError: It may not be listed, or no store can list it.
            DeniedError, MissingExtraError: As `open_to_read`.
        """
        try:
            checked = check_folder(href, policy=self.policy)
        except ValueError as error:
            raise FolderRefusedError(str(error), Status.DENIED) from error
        root, path = split_href(checked)
        if root == _GOOGLE:
            bucket, _, path = path.partition("/")
            root = f"{_GOOGLE}/{bucket}"
            store = self._stores.setdefault(root, self.open_google(bucket))
        elif root == "file://":
            if not Path(f"/{path}").is_dir():
                raise FolderRefusedError("there is no such folder", Status.MISSING)
            return OpenFolder(store=LocalStore(f"/{path}"), path="", start=f"{checked}/")
        elif root.partition("://")[0] in BUCKET_SCHEMES:
            if root not in self._stores:
                opened = open_to_read(root, self.settings_of(root))
                assert not isinstance(opened, HTTPStore)  # noqa: S101 # its root says so
                self._stores[root] = opened
            store = self._stores[root]
        else:
            raise FolderRefusedError("a web server cannot be listed", Status.UNSUPPORTED)
        return OpenFolder(store=store, path=path, start=f"{root}/")
