"""Makes relative addresses of assets whole. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from pixel_gather.core.request.href_policy import parent_of


def with_whole_hrefs(items: Iterable[Mapping[str, Any]], start: str | None) -> Iterator[dict[str, Any]]:
    """Yield items with whole hrefs of assets. If nothing says where a relative href starts, it stays.

    A relative href starts from the item's own address, which its link ``self`` names, or else from ``start``.
    An href that begins with a slash always starts from ``start``. So only a document of this machine names
    its files by their paths, wherever its items come from.

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
    """Return an href of the document ``start`` as a whole one, on the document's host or in its bucket."""
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
