"""Signs reads with short-lived tokens: Planetary Computer's for Azure's blobs, Earthdata's for NASA's data.

obstore's providers ask for the tokens and renew them. They are given our own client instead of `requests`. It
asks a busy service again when the service wants. Workers do not all ask at the same moment. Tokens stay in
memory.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from msgspec import Struct
from obstore.store import AzureStore, S3Store

from pixel_gather.core.errors import DeniedError, GatherError
from pixel_gather.core.steady_clock import SteadyClock
from pixel_gather.io.store.token_session import (
    BUSY,
    EXPIRED,
    ODD,
    SETTINGS_FILE,
    UNKNOWN,
    UNSIGNED,
    SigningError,
    TokenSession,
)

if TYPE_CHECKING:
    import requests

type Sign = Literal["planetary-computer", "earthdata"]

_BLOBS: Final = ".blob.core.windows.net"
_EARTHDATA_REGION: Final = "us-west-2"
_SHORTEST_LIFE: Final = timedelta(seconds=60)
_TRIES: Final = 3
_PAUSE_S: Final = 60.0
_CREDENTIALS: Final = {
    "asf-ngap2w-p-s1-": "https://sentinel1.asf.alaska.edu/s3credentials",
    "gesdisc-": "https://data.gesdisc.earthdata.nasa.gov/s3credentials",
    "ghrc": "https://data.ghrc.earthdata.nasa.gov/s3credentials",
    "lp-": "https://data.lpdaac.earthdatacloud.nasa.gov/s3credentials",
    "nsidc-": "https://data.nsidc.earthdatacloud.nasa.gov/s3credentials",
    "ornl-": "https://data.ornldaac.earthdata.nasa.gov/s3credentials",
    "podaac-": "https://archive.podaac.earthdata.nasa.gov/s3credentials",
}
"""Who signs for the buckets whose names begin so. No archive's credentials open another's buckets."""


class Signing(Struct, frozen=True, kw_only=True):
    """How reads are signed."""

    kind: Sign
    read_token: Callable[[], str] | None = None
    """Returns the user's Earthdata token, when it is needed."""

    longest_jitter_s: float = 0.0
    """Each process waits a random time up to this before it asks first, so that not all ask at once."""

    token_url: str | None = None
    """Another address of the token service; None for the usual one."""

    blob_endpoint: str | None = None
    """Another address of the blobs, such as an emulator's; None for Azure's own."""

    def is_for(self, root: str) -> bool:
        """Tell whether reads from a bucket or ``https://host`` are signed."""
        if self.kind == "earthdata":
            return root.startswith("s3://") and self._credentials_url(root) is not None
        return root.startswith("abfs://") or (root.startswith("https://") and root.endswith(_BLOBS))

    def bucket(self, root: str, options: dict[str, Any]) -> S3Store:
        """Return the client of a bucket of NASA's.

        Raises:
            DeniedError: There is no token.
        """
        from obstore.auth.earthdata import NasaEarthdataCredentialProvider  # noqa: PLC0415 # seldom needed

        if (read_token := self.read_token) is None:
            raise DeniedError(UNSIGNED)

        def provider() -> NasaEarthdataCredentialProvider:
            url = self._credentials_url(root) or ""
            return NasaEarthdataCredentialProvider(url, auth=read_token(), session=self._session())

        given = options | {"region": _EARTHDATA_REGION, "credential_provider": _FreshTokens(provider)}
        return S3Store(urlsplit(root).netloc, **given)

    def blobs(self, account: str, container: str, options: dict[str, Any]) -> AzureStore:
        """Return the client of a container of Azure's.

        Raises:
            SigningError: There is a file of settings that cannot be read.
        """
        from obstore.auth.planetary_computer import PlanetaryComputerCredentialProvider  # noqa: PLC0415 # as above

        def provider() -> PlanetaryComputerCredentialProvider:
            return PlanetaryComputerCredentialProvider(
                account_name=account,
                container_name=container,
                session=self._session(),
                sas_url=self.token_url,
            )

        try:
            tokens = _FreshTokens(provider)
        except ImportError as error:
            raise SigningError(SETTINGS_FILE) from error
        if self.blob_endpoint is not None:
            options = options | {"endpoint": self.blob_endpoint}
        return AzureStore(container, account_name=account, credential_provider=tokens, **options)

    def _credentials_url(self, root: str) -> str | None:
        bucket = urlsplit(root).netloc
        found = (url for start, url in _CREDENTIALS.items() if bucket.startswith(start))
        usual = next(found, None)
        return usual and (self.token_url or usual)

    def _session(self) -> "requests.Session":
        # Earthdata's address names an archive, not a bucket: its 404 says nothing of what is read
        if_not_found = UNKNOWN if self.kind == "planetary-computer" else BUSY
        session = TokenSession(longest_jitter_s=self.longest_jitter_s, if_not_found=if_not_found)
        return cast("requests.Session", session)


class Containers:
    """The blobs of one account, whose containers are signed for one by one."""

    def __init__(self, root: str, signing: Signing, options: dict[str, Any]) -> None:
        self._root = root
        self._signing = signing
        self._options = options
        self._stores: dict[str, AzureStore] = {}

    def of(self, path: str) -> tuple[AzureStore, str]:
        """Return the client that a path ``container/key`` is read by, and the key."""
        container, _, key = path.partition("/")
        if container not in self._stores:
            account = urlsplit(self._root).netloc.removesuffix(_BLOBS)
            self._stores[container] = self._signing.blobs(account, container, self._options)
        return self._stores[container], key


class _FreshTokens:
    """A provider whose tokens are good for a while. Services have handed out tokens that had expired.

    After a failure, nothing is asked for a minute. Otherwise every source that is read would ask again. Then
    the provider is made anew, as the user may have given another token by now.
    """

    def __init__(
        self, make: Callable[[], Callable[[], Any]], *, clock: Callable[[], float] | None = None
    ) -> None:
        self._make, self._provider = make, make()
        self._failed: SigningError | None = None
        self._clock, self._failed_at = clock or SteadyClock(), -inf
        self.config: dict[str, Any] = {}

    def __call__(self) -> Any:
        if self._failed is not None:
            if self._clock() < self._failed_at + _PAUSE_S:
                raise self._failed
            with suppress(GatherError):  # the token cannot be read now
                self._provider = self._make()
        try:
            token = self._ask()
        except SigningError as error:
            self._failed, self._failed_at = error, self._clock()
            raise
        self._failed = None
        return token

    def _ask(self) -> Any:
        for _ in range(_TRIES):
            try:
                token = self._provider()
            except (KeyError, TypeError, ValueError) as error:  # of the answer's fields
                raise SigningError(ODD) from error
            if token["expires_at"] > datetime.now(UTC) + _SHORTEST_LIFE:
                return token
        raise SigningError(EXPIRED)
