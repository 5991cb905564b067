"""Checks web addresses that requests and servers name, before anything is asked there. Pure: no I/O."""

from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from pixel_gather.core.errors import RequestError

CMR: Final = "https://cmr.earthdata.nasa.gov/search"
"""NASA's Common Metadata Repository."""

_PORTS: Final = {"https": 443, "http": 80}

type CheckUrl = Callable[[str], None]
"""Raises RequestError for an address that may not be asked."""


def same_host_only(url: str, *, field: str) -> CheckUrl:
    """Return a check that allows the scheme, host and port of one address and no other.

    Args:
        url: The address, as the request names it.
        field: Where the request names it, for errors.

    Raises:
        RequestError: It is no web address.
    """
    first = _split(url, field)
    if first.scheme not in _PORTS or not first.hostname:
        raise RequestError(f"{shown_url(url)!r} is no web address; write https://host/path", field=field)

    def check(asked: str) -> None:
        other = _split(asked, field)
        if _server(other) != _server(first):
            raise RequestError(
                f"{first.hostname} refers to {shown_url(asked)!r} on another host, which is not asked",
                field=field,
            )
        if other.username or other.password:
            raise RequestError(
                "an address with a user or a password is not asked; write https://host/path", field=field
            )

    check(url)
    return check


def hosts_only(hosts: frozenset[str], *, field: str) -> CheckUrl:
    """Return a check that allows https to some hosts, each ``host`` or ``host:port``."""

    def check(asked: str) -> None:
        address = _split(asked, field)
        if address.scheme != "https" or address.username or address.password:
            raise RequestError(
                f"{shown_url(asked)!r} is no plain https address; write https://host/path", field=field
            )
        if not {address.netloc.lower(), address.netloc.lower().removesuffix(":443")} & hosts:
            raise RequestError(
                f"the host {address.netloc[:200]} is not allowed here; the setting catalog_hosts names "
                "those that are",
                field=field,
            )

    return check


def check_deployed_search(*, api: str | None, cmr: bool, hosts: frozenset[str], field: str) -> None:
    """Refuse a search that a deployment would not make.

    Args:
        api: Address of a STAC API; None if none is asked.
        cmr: Whether NASA's CMR is asked.
        hosts: The deployment's setting ``catalog_hosts``.
        field: Where the request has the fields ``api`` and ``cmr``, for errors.

    Raises:
        RequestError: The host is not one of these, or the address has a query, which may hold a key.
    """
    if api is not None:
        if "?" in api:
            raise RequestError(
                "write the address without a query: it may hold a key, and requests are stored",
                field=f"{field}.api",
            )
        hosts_only(hosts, field=f"{field}.api")(api)
    if cmr:
        hosts_only(hosts, field=f"{field}.cmr")(CMR)


def without_query(url: str) -> str:
    """Return an address without its query, which may hold a key."""
    return url.partition("?")[0]


def with_query_of(url: str, first: str) -> str:
    """Return an address with those parameters of another one on the same host that it does not have.

    So a key is sent along, but only to the host that it was given for.
    """
    asked, known = urlsplit(url), urlsplit(first)
    names = {name for name, _ in parse_qsl(asked.query, keep_blank_values=True)}
    missing = [pair for pair in parse_qsl(known.query, keep_blank_values=True) if pair[0] not in names]
    if not missing or asked.netloc != known.netloc or asked.scheme != known.scheme:
        return url
    query = "&".join(filter(None, (asked.query, urlencode(missing))))
    return urlunsplit(asked._replace(query=query))


def shown_url(url: str) -> str:
    """Return an address as messages may show it: shortened, and without its query, which may hold a key."""
    address, mark, _ = url.partition("?")
    return address[:200] + ("?…" if mark else "")


def _split(url: str, field: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.port  # raises for what is no port
    except ValueError as error:
        raise RequestError(f"{shown_url(url)!r} is no web address: {error}", field=field) from error
    return split


def _server(address: SplitResult) -> tuple[str, str | None, int | None]:
    return address.scheme, address.hostname, address.port or _PORTS.get(address.scheme)
