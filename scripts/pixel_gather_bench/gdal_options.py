"""GDAL's options for the engine ``rasterio``: those published in 2018, and those that reach the same stores.

GDAL takes its options from the environment, whenever it opens a file.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from pixel_gather.io.store.store_settings import StoreSettings

_PUBLISHED: Final = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",  # it wrote TRUE, which GDAL has since given another meaning
    "VSI_CACHE": "FALSE",
}
_EXTENSIONS: Final = "CPL_VSIL_CURL_ALLOWED_EXTENSIONS"
_PUBLISHED_EXTENSIONS: Final = ".tif"


def gdal_options(
    hrefs: Iterable[str], stores: StoreSettings, *, header_nbytes: int | None, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the options to set.

    Args:
        hrefs: What will be read: other endings than ``.tif`` are allowed where the list has them.
        stores: How the other engine reaches the stores; what is None there is left to the environment.
        header_nbytes: First read of each source; None for GDAL's own.
        environment: Where the AWS tools look for an endpoint, which GDAL does not know by that name.
    """
    options = _PUBLISHED | _extensions(hrefs) | _s3(stores, environment)
    if header_nbytes is not None:
        options["GDAL_INGESTED_BYTES_AT_OPEN"] = str(header_nbytes)
    return options


def gdal_path(href: str) -> str:
    """Return what GDAL calls a checked href."""
    scheme, _, rest = href.partition("://")
    if scheme == "file":
        return unquote(rest)
    return f"/vsis3/{rest}" if scheme == "s3" else f"/vsicurl/{href}"


def _extensions(hrefs: Iterable[str]) -> dict[str, str]:
    found = {_extension(href) for href in hrefs if not href.startswith("file://")}
    if "" in found:
        return {}  # with any list of endings GDAL would not even look at what has none
    others = sorted(found - {_PUBLISHED_EXTENSIONS})
    return {_EXTENSIONS: ",".join([_PUBLISHED_EXTENSIONS, *others])}


def _extension(href: str) -> str:
    parts = urlsplit(href)
    return "" if parts.query else PurePosixPath(parts.path).suffix.lower()


def _s3(stores: StoreSettings, environment: Mapping[str, str]) -> dict[str, str]:
    options = {
        "AWS_REGION": stores.region,
        "AWS_PROFILE": stores.profile,
        "AWS_NO_SIGN_REQUEST": "YES" if stores.unsigned else None,
        "AWS_REQUEST_PAYER": "requester" if stores.requester_pays else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    named = (environment.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    endpoint = stores.endpoint or next(filter(None, named), None)
    if endpoint is None:
        return given
    parts = urlsplit(endpoint)
    https = "NO" if parts.scheme == "http" else "YES"
    host = f"{parts.netloc}{parts.path}".rstrip("/")
    return given | {"AWS_S3_ENDPOINT": host, "AWS_HTTPS": https, "AWS_VIRTUAL_HOSTING": "FALSE"}


def apply(options: Mapping[str, str]) -> None:
    """Set the options for this process."""
    os.environ.update(options)
