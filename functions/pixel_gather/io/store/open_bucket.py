"""Opens a bucket by the scheme of its address: of S3, of Google Cloud Storage, or a container of Azure.

obstore finds the credentials of Google and Azure by itself, in the variables that their own tools read.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from pixel_gather.core.errors import DeniedError
from pixel_gather.io.store.s3_credentials import find_credentials
from pixel_gather.io.store.store_settings import StoreSettings

type Bucket = S3Store | GCSStore | AzureStore

NO_GOOGLE: Final = (
    "no credentials of Google were found: sign in with `gcloud auth application-default login` or set "
    "GOOGLE_APPLICATION_CREDENTIALS; where the bucket is public, give --unsigned"
)
GOOGLE_REFUSED: Final = (
    "Google refused these credentials: sign in again with `gcloud auth application-default login`"
)
WHO_PAYS: Final = (
    "who asks this bucket pays: give --requester-pays, and set GOOGLE_CLOUD_PROJECT to the project that pays"
)
NO_AZURE: Final = (
    "no credentials of Azure were found: set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or "
    "AZURE_STORAGE_SAS_TOKEN, or run `az login` and set AZURE_USE_AZURE_CLI=true; where the container is "
    "public, give --unsigned"
)
AZURE_REFUSED: Final = "Azure does not know these credentials, or they have expired: set others"
NOT_PUBLIC: Final = (
    "the container is not public: set AZURE_STORAGE_ACCOUNT_NAME to its account and give credentials, or "
    "have reads signed"
)
_NO_ACCOUNT: Final = (
    "az:// does not name the account: set AZURE_STORAGE_ACCOUNT_NAME, or write "
    "abfs://container@account.dfs.core.windows.net/key"
)
_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AZURE_ACCOUNTS: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
_AZURE_ENDPOINTS: Final = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
"""Of these, the first that is set counts. The tools of AWS know the first two of theirs; those of Azure know
the second name of the account."""

_READ_BY_OBSTORE: Final = ("GOOGLE_", "AZURE_")
"""Beginnings of names of variables."""

_S3_UNSIGNED: Final = {"skip_signature": True, "access_key_id": "none", "secret_access_key": "none"}
"""The keys are not used. Without them obstore refuses half a pair of keys in the environment."""


def open_bucket(root: str, settings: StoreSettings, options: Mapping[str, Any]) -> Bucket:
    """Create the client of ``s3://bucket``, ``gs://bucket``, ``az://container`` or ``abfs://container@host``.

    Raises:
        DeniedError: There are no credentials, or they cannot be used, or no account is named.
        MissingExtraError: The credentials need a package that is not installed.
    """
    scheme, _, name = root.partition("://")
    for empty in [each for each in os.environ if each.startswith(_READ_BY_OBSTORE) and not os.environ[each]]:
        del os.environ[empty]  # as for the clouds' own tools; obstore takes it as it is
    make, options_of = _CLOUDS[scheme]
    own = options_of(name, settings)
    client_options = dict(options["client_options"]) | own.pop("client_options", {})
    endpoint = own.get("endpoint") or own.get("base_url") or "https://"
    if not endpoint.startswith(("https://", "http://")):
        raise DeniedError(f"the endpoint {endpoint!r} is no web address; write https://host")
    if endpoint.startswith("http://"):
        client_options["allow_http"] = True
    given = dict(options) | {name: value for name, value in own.items() if value is not None}
    try:
        return make(**given | {"client_options": client_options})
    except (BaseError, ValueError) as error:  # a file of credentials, or a key, that is none
        raise DeniedError(f"{root} cannot be opened: {str(error).partition(chr(10))[0]}") from error


def endpoint_of(settings: StoreSettings) -> str | None:
    """Return the address of S3, if not AWS's own. obstore would read it too, but not allow plain http."""
    return settings.endpoint or _first_set(_S3_ENDPOINTS)


def _s3_options(bucket: str, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bucket": bucket,
        "region": settings.region,
        "endpoint": endpoint_of(settings) or _chinese_endpoint(settings.region or _first_set(_REGIONS)),
        "request_payer": settings.requester_pays or None,
    }
    return options | (
        _S3_UNSIGNED if settings.unsigned else {"credential_provider": find_credentials(settings.profile)}
    )


def _chinese_endpoint(region: str | None) -> str | None:
    """Return the address of S3 in a Region in China; None elsewhere, as obstore knows all others."""
    is_there = region is not None and region.startswith("cn-")
    return f"https://s3.{region}.amazonaws.com.cn" if is_there else None


def _google_options(bucket: str, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bucket": bucket,
        "base_url": _first_set(("GOOGLE_BASE_URL",)),
        "skip_signature": settings.unsigned or None,
    }
    if settings.requester_pays:
        project = _first_set(("GOOGLE_CLOUD_PROJECT",))
        if project is None:
            raise DeniedError(WHO_PAYS)
        options["client_options"] = {"default_headers": {"x-goog-user-project": project}}
    return options


def _azure_options(name: str, settings: StoreSettings) -> dict[str, Any]:
    """Return the options of a container. Credentials are sent to the account of the environment alone.

    So a list of somebody else's does not have a key or a token sent to an account of its choice.
    """
    container, _, host = name.partition("@")
    own = _first_set(_AZURE_ACCOUNTS)
    account = host.partition(".")[0] or own
    if account is None:
        raise DeniedError(_NO_ACCOUNT)
    is_own = account == own
    endpoint = _first_set(_AZURE_ENDPOINTS) if is_own else f"https://{account}.blob.core.windows.net"
    return {
        "container_name": container,
        "account_name": account,
        "endpoint": endpoint,
        "skip_signature": settings.unsigned or not is_own or None,
    }


def _first_set(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)


type _Options = Callable[[str, StoreSettings], dict[str, Any]]
_CLOUDS: Final[Mapping[str, tuple[Callable[..., Bucket], _Options]]] = {
    "s3": (S3Store, _s3_options),
    "gs": (GCSStore, _google_options),
    "az": (AzureStore, _azure_options),
    "abfs": (AzureStore, _azure_options),
}
