"""Icechunk repositories with references to the shards of cubes. Only this module imports icechunk."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Self

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError
from zarr.abc.store import ByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from pixel_gather.core.errors import ArrayExistsError, BusyError, RequestError, StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.time_range import last_moment
from pixel_gather.features.join.read_members import mtime_of
from pixel_gather.features.join.references import Reference, not_within, percent_encode
from pixel_gather.in_process.places import show_place
from pixel_gather.io.store.object_store import open_to_read, split_href
from pixel_gather.io.store.open_bucket import endpoint_of
from pixel_gather.io.store.s3_credentials import find_credentials
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    import icechunk

_BRANCH: Final = "main"
_ROOT_ID: Final = "1CECHNKREP0F1RSTCMT0"
"""Icechunk's name of the snapshot and the transaction of every empty repository."""
_FIRST_LISTED: Final = 8
_PAYS: Final = {"x-amz-request-payer": "requester"}
SHARD_CHANGED: Final = (
    "this shard has changed since its cube was joined: join the cubes again, with --replace"
)
_DENIED: Final = (
    "the store refused access to its pixels: check the credentials and the rights to read the bucket. S3 "
    "gives the same answer for requester-pays buckets, where Icechunk cannot read pixels: gather the files, "
    "or join the cubes with --copy"
)


class JoinedVersion(Struct, frozen=True, kw_only=True):
    """One commit of a joined place."""

    number: int
    """From 1 for the first join."""

    id: str
    """Icechunk's name of it."""

    at: datetime
    """When it was committed, in UTC."""

    message: str
    added: Mapping[str, Any]
    """``members`` and ``rows``: how many this commit added."""


class Repository(Struct, frozen=True, kw_only=True):
    """A repository that is there."""

    place: str
    """Location as users write it, for messages."""

    repository: "icechunk.Repository"

    @classmethod
    def create(
        cls,
        href: str,
        place: str,
        settings: StoreSettings,
        *,
        folders: Sequence[str],
        advice: str = "mode add (--add) adds to them, mode replace (--replace) replaces them",
    ) -> Self:
        """Create an empty repository.

        The folders are all that references will lie in. ``advice`` is what the error says of a place in use.

        Raises:
            MissingExtraError: icechunk is not installed.
            ArrayExistsError: Something is there.
            StoreError: The store failed.
        """
        ic = _icechunk()
        _check_reach(href, folders)
        with _in_words(place, "written"):
            if ic.Repository.exists(_storage(href, settings)):
                found = cls.open(href, place, settings, more_folders=folders)
                if not found.history():  # an earlier call was stopped before its first version
                    return found
                raise ArrayExistsError(f"{place}: references to cubes or files are there already: {advice}")
            try:
                made = _create_repository(href, settings, folders, is_clean=True)
            except ic.IcechunkError as error:
                if not ("clean" in str(error).lower() or "exist" in str(error).lower()):
                    raise
                if not _is_half_created(href, settings):
                    raise ArrayExistsError(f"{place}: it is not empty: choose another place") from error
                made = _create_repository(href, settings, folders, is_clean=False)
            made.save_config()
        return cls(place=place, repository=made)

    @classmethod
    def open(
        cls,
        href: str,
        place: str,
        settings: StoreSettings,
        *,
        more_folders: Iterable[str] = (),
        advice: str = "name what pixel-gather join or virtual wrote",
    ) -> Self:
        """Open a repository and authorise its references.

        Further folders are stored in the repository. ``advice`` is what to do if none is there.

        Raises:
            MissingExtraError: icechunk is not installed.
            StoreError: No repository is there, or the store failed.
        """
        ic = _icechunk()
        with _in_words(place, "read"):
            try:
                stored = ic.Repository.fetch_config(_storage(href, settings))
            except ic.RepositoryNotFoundError as error:
                raise StoreError(
                    f"{place}: no joined cubes are there, nor a virtual cube; {advice}"
                ) from error
            told = (stored.virtual_chunk_containers if stored is not None else None) or {}
            new = not_within(more_folders, told)
            folders = (*told, *new)
            _check_reach(href, folders)
            found = ic.Repository.open(
                _storage(href, settings),
                _config(folders, settings),
                authorize_virtual_chunk_access=_authorize_folders(folders, settings),
            )
            if new:
                found.save_config()
        return cls(place=place, repository=found)

    @classmethod
    def is_used(cls, href: str, place: str, settings: StoreSettings) -> bool:
        """Return whether a repository with a version is there. Arguments and errors as for `open`."""
        ic = _icechunk()
        with _in_words(place, "read"):
            is_there = ic.Repository.exists(_storage(href, settings))
        return is_there and bool(cls.open(href, place, settings).history())

    def history(self) -> list[JoinedVersion]:
        """Return all versions, the latest first."""
        with _in_words(self.place, "read"):
            found = list(self.repository.ancestry(branch=_BRANCH))[:-1]  # the last one is empty
        return [
            JoinedVersion(
                number=len(found) - n,
                id=each.id,
                at=each.written_at.astimezone(UTC),
                message=each.message,
                added=each.metadata or {},
            )
            for n, each in enumerate(found)
        ]

    def at(self, version: str | int | datetime | None, *, changed: str = SHARD_CHANGED) -> "ReferringStore":
        """Return a version's Zarr store, for reading.

        Args:
            version: Its number, its id, or a time: the latest version of that time, or of the end of a date.
                None for the latest.
            changed: What the error says of an object that has changed since it was referred to.

        Raises:
            RequestError: There is no such version.
        """
        with _in_words(self.place, "read"):
            if version is None:
                return ReferringStore(self.repository.readonly_session(_BRANCH).store, changed)
            found = _choose_version(self.history(), version)
            return ReferringStore(self.repository.readonly_session(snapshot_id=found.id).store, changed)

    @contextmanager
    def transaction(self, message: str, added: Mapping[str, Any]) -> "Iterator[Transaction]":
        """Write a version. It is committed at the end, or nothing is changed.

        Raises:
            BusyError: Another version was committed meanwhile.
        """
        ic = _icechunk()
        with _in_words(self.place, "written"):
            session = self.repository.writable_session(_BRANCH)
            yield Transaction(session=session)
            try:
                session.commit(message, dict(added))
            except (ic.ConflictError, ic.RebaseFailedError) as error:
                raise BusyError(f"{self.place}: others have written there meanwhile: run again") from error


class Transaction(Struct, frozen=True, kw_only=True):
    """A version that is being written."""

    session: "icechunk.Session"

    @property
    def store(self) -> ZarrStore:
        """The Zarr store to write to."""
        return self.session.store

    def refer(self, array: str, references: Iterable[Reference]) -> None:
        """Let chunks of an array be ranges of objects."""
        ic = _icechunk()
        specs = [
            ic.VirtualChunkSpec(
                list(each.index),
                percent_encode(each.href),
                each.start,
                each.nbytes,
                *_version_of(each.href, each.etag),
            )
            for each in references
        ]
        if self.session.store.set_virtual_refs(array, specs, validate_containers=True):
            raise StoreError(f"{array}: some of its chunks lie outside the folders of the repository")

    def clear(self) -> None:
        """Remove all arrays. Former versions keep theirs."""
        self.session.store.sync_clear()


class ReferringStore(WrapperStore[Any]):
    """Tells in words which object has changed."""

    def __init__(self, store: Any, changed: str, refused: dict[str, str] | None = None) -> None:
        """Take Icechunk's store, what to say of an object that has changed, and what `refuse` was given."""
        super().__init__(store)
        self._changed = changed
        self._refused = {} if refused is None else refused

    def refuse(self, chunks: Mapping[str, str]) -> None:
        """Refuse to read chunks of local files that have changed, though Icechunk would read them.

        Icechunk refuses only files that are younger than a reference says.

        Args:
            chunks: Keys of chunks, or of rows of chunks such as ``red/c/3``, and the files behind them.
        """
        self._refused |= chunks

    def _with_store(self, store: Any) -> Self:
        return type(self)(store, self._changed, self._refused)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return an object, or a part of it."""
        if self._refused:
            row = key.rsplit("/", 2)[0]
            if (file := self._refused.get(key, self._refused.get(row))) is not None:
                raise StoreError(f"{show_place(file)}: {self._changed}")
        with _in_words(key, "read", changed=self._changed):
            found: Buffer | None = await self._store.get(key, prototype, byte_range)
            return found


def warn_of_payers(hrefs: Iterable[str], settings: StoreSettings, *, instead: str) -> tuple[str, ...]:
    """Return the warning of references into requester-pays buckets, and what to do instead; else none."""
    if not (settings.requester_pays and any(each.startswith("s3://") for each in hrefs)):
        return ()
    return (f"Icechunk cannot read pixels in a requester-pays bucket: {instead}",)


def _icechunk() -> Any:
    check_extra("join", "joined cubes")
    import icechunk  # noqa: PLC0415 # an extra; 1.3 s when it is imported for the first time

    icechunk.set_logs_filter("error")  # its warnings say that local folders are unsafe for several writers
    return icechunk


@contextmanager
def _in_words(place: str, verb: str, *, changed: str = SHARD_CHANGED) -> Iterator[None]:
    """Turn icechunk's errors into ours."""
    import icechunk  # noqa: PLC0415 # as above

    try:
        yield
    except icechunk.IcechunkError as error:
        said = str(error).partition("\n")[0]
        kind = getattr(error, "kind", None)
        if kind is not None and "virtual-chunk-modified" in str(kind):
            found = said.partition("(")[2].rpartition(")")[0]
            raise StoreError(f"{found}: {changed}") from error
        if "virtual reference" in said and "(AccessDenied)" in said:
            raise StoreError(f"{place}: {_DENIED}") from error
        raise StoreError(f"{place} could not be {verb}: {said}") from error


def _choose_version(history: Sequence[JoinedVersion], version: str | int | datetime) -> JoinedVersion:
    moment = version if isinstance(version, datetime) else _moment_of_version(version)
    if moment is not None:
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        found = next((each for each in history if each.at <= moment), None)
    else:
        found = next((each for each in history if str(version) in (str(each.number), each.id)), None)
    if found is None:
        first = f"{history[-1].at:%Y-%m-%d %H:%M:%S} UTC"
        raise RequestError(
            f"there is no version {version}; there are 1 to {len(history)}, the first of {first}",
            field="version",
        )
    return found


def _moment_of_version(version: str | int) -> datetime | None:
    text = str(version)
    try:
        return last_moment(text) if "-" in text else None
    except ValueError:
        return None


def _version_of(href: str, etag: str) -> tuple[str | None, datetime | None]:
    """Return what tells whether a referenced object has changed: its ETag, or the time of a local file.

    Icechunk knows a file's time to the second, and obstore's ETags of files not at all. So a change within
    the same second goes unnoticed by others, and so does a file that is replaced by an older one. We look at
    the files ourselves, too: see `ReferringStore.refuse`.
    """
    if not href.startswith("file://"):
        return etag.strip('"') or None, None
    told = mtime_of(etag)
    return None, None if told is None else datetime.fromtimestamp(ceil(told.timestamp()), UTC)


def _check_reach(href: str, folders: Iterable[str]) -> None:
    """Refuse references from S3 to files of one machine, which nobody else could read.

    Icechunk 2.3 cannot replace its own files under keys that are encoded in addresses, so these are refused.
    """
    if href.startswith("s3://") and percent_encode(href) != href:
        raise RequestError(
            f"{href}: choose a name of letters, digits and . _ - for it: Icechunk cannot write to this one",
            field="to",
        )
    local = next((each for each in folders if each.startswith("file://")), None)
    if local is not None and not href.startswith("file://"):
        raise RequestError(
            f"{href} is on S3 and {show_place(local)} on this machine: a place on S3 can only join cubes "
            "on S3",
            field="to",
        )


def _create_repository(
    href: str, settings: StoreSettings, folders: Sequence[str], *, is_clean: bool
) -> "icechunk.Repository":
    made: icechunk.Repository = _icechunk().Repository.create(
        _storage(href, settings),
        _config(folders, settings),
        authorize_virtual_chunk_access=_authorize_folders(folders, settings),
        check_clean_root=is_clean,
    )
    return made


def _is_half_created(href: str, settings: StoreSettings) -> bool:
    """Return whether only a part of an empty repository is there: a call that created it was killed."""
    try:
        page: Sequence[Any] = next(
            iter(obstore.list(open_to_read(href, settings), chunk_size=_FIRST_LISTED)), []
        )
    except (BaseError, OSError):
        return False
    names = [item["path"].rpartition("/")[2] for item in page]
    return 0 < len(names) < _FIRST_LISTED and all(name.startswith(_ROOT_ID) for name in names)


def _storage(href: str, settings: StoreSettings) -> Any:
    ic = _icechunk()
    root, path = split_href(href)
    if root == "file://":
        return ic.local_filesystem_storage(f"/{path}")
    if not root.startswith("s3://"):
        raise RequestError(f"{href}: joined and virtual cubes lie on S3 or in local folders", field="to")
    return ic.s3_storage(
        bucket=root.removeprefix("s3://"),
        prefix=path,
        write_headers=_PAYS if settings.requester_pays else None,  # Icechunk 2.3 says it only when it reads
        **_endpoint(settings),
        **_credentials(settings),
    )


def _config(folders: Iterable[str], settings: StoreSettings) -> Any:
    ic = _icechunk()
    config = ic.RepositoryConfig.default()
    for folder in folders:
        root, path = split_href(folder)
        store = (
            ic.local_filesystem_store(f"/{path}")
            if root == "file://"
            else ic.s3_store(**_endpoint(settings), anonymous=settings.unsigned)
        )
        config.set_virtual_chunk_container(ic.VirtualChunkContainer(folder, store))
    return config


def _authorize_folders(folders: Iterable[str], settings: StoreSettings) -> Any:
    ic = _icechunk()
    return {
        folder: ic.Credentials.LocalFileSystemAccess()
        if folder.startswith("file://")
        else ic.Credentials.S3(ic.s3_credentials(**_credentials(settings)))
        for folder in folders
    }


def _endpoint(settings: StoreSettings) -> dict[str, Any]:
    url = endpoint_of(settings)
    region = settings.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {"region": region, "requester_pays": settings.requester_pays}
    if url is not None:
        options |= {"endpoint_url": url, "allow_http": url.startswith("http://"), "force_path_style": True}
    return options


def _credentials(settings: StoreSettings) -> dict[str, Any]:
    if settings.unsigned:
        return {"anonymous": True}
    if find_credentials(settings.profile) is None:
        return {"from_env": True}
    return {"get_credentials": _Refreshed(settings.profile)}


class _Refreshed(Struct, frozen=True):
    """Gets the credentials of a profile, whenever icechunk needs new ones."""

    profile: str | None

    def __call__(self) -> "icechunk.S3StaticCredentials":
        found = find_credentials(self.profile)()
        return _icechunk().S3StaticCredentials(  # type: ignore[no-any-return] # icechunk is an extra
            access_key_id=found["access_key_id"],
            secret_access_key=found["secret_access_key"],
            session_token=found.get("token"),
            expires_after=found.get("expires_at"),
        )
