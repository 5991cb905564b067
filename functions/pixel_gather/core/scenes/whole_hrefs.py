"""Makes relative addresses of assets whole. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from pixel_gather.core.request.href_policy import parent_of


def with_whole_hrefs(items: Iterable[Mapping[str, Any]], start: str | None) -> Iterator[dict[str, Any]]:
    """Yield items whose assets have no relative hrefs, as far as it is known where they start.

    A relative href starts from the item's own address, which its link ``self`` names, or else from ``start``.
    One with a slash at its beginning always starts from ``start``: an item that was fetched from the web may
    name files of this machine.

    Args:
        items: STAC items, which are not changed.
        start: Address of the document that holds them; None if a program or an API gave them.
    """
    for item in items:
        own, assets = _own_address(item, start), item.get("assets")
        if own is None or not isinstance(assets, Mapping):
            yield dict(item)
        else:
            yield {**item, "assets": {name: _with_whole(each, own, start) for name, each in assets.items()}}


def whole_href(href: str, start: str) -> str:
    """Return an href that stands in the document ``start``, on its host or in its bucket."""
    if "://" in href:
        return href
    scheme, _, rest = start.partition("://")  # urljoin knows no s3://
    if rest:
        return f"{scheme}://{urljoin(f'http://{rest}', href).removeprefix('http://')}"
    return href if href.startswith("/") else f"{parent_of(start)}/{href}"


def _own_address(item: Mapping[str, Any], start: str | None) -> str | None:
    links = item.get("links")
    for link in links if isinstance(links, list | tuple) else ():
        href = link.get("href") if isinstance(link, Mapping) and link.get("rel") == "self" else None
        if isinstance(href, str) and ("://" in href or href.startswith("/")):
            return href if start is None else whole_href(href, start)
    return start


def _with_whole(asset: Any, own: str, start: str | None) -> Any:
    if not isinstance(asset, Mapping) or not isinstance(href := asset.get("href"), str):
        return asset
    base = start if href.startswith("/") else own
    return asset if base is None else {**asset, "href": whole_href(href, base)}
