"""Our client beside pystac-client, of the dependency group ``stac-tools``, which ``scripts/test`` installs.

``uv run --group stac-tools pytest tests/scenes/test_pystac_client.py``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pixel_gather.core.area import Area
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.request.web_address import same_host_only
from pixel_gather.core.scenes.search_criteria import SearchCriteria
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import parse_time_range
from pixel_gather.io.scenes.search_stac_api import search_items
from pixel_gather.io.store.json_http import JsonClient
from scenes.scenes import item
from scenes.stac_server import Answer, Asked, page, serving_api
from support.dependency_groups import module_of_group

pystac_client = module_of_group("pystac_client", "stac-tools")

SCENES = [item(f"s{(7 * n) % 23}", time=f"2024-06-{1 + n:02}T10:00:00Z") | {"links": []} for n in range(23)]


@contextmanager
def api(method: str) -> Iterator[str]:
    """Serve the scenes, five a page, by one of the ways of paging."""

    def search(asked: Asked, url: str) -> Answer:
        start = int((asked.body or asked.parameters).get("token", 0))
        link: dict[str, Any] = {"rel": "next", "href": f"{url}/search?token={start + 5}", "method": method}
        if method == "POST":
            link |= {"href": f"{url}/search", "body": {"token": start + 5}, "merge": True}
        return page(SCENES[start : start + 5], *([link] if start + 5 < len(SCENES) else []))

    document = {"id": "api", "stac_version": "1.0.0", "description": "-"}
    with serving_api(search, method=method, **document) as server:
        yield server.url


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_both_find_the_same_items_in_the_same_order(method: str) -> None:
    """Over all pages."""
    with api(method) as url:
        found = pystac_client.Client.open(url).search(
            bbox=[11.2, 46.2, 11.4, 46.4], datetime="2024-06", method=method
        )
        theirs = [each.id for each in found.items()]
        search = SearchCriteria(area=Area((11.2, 46.2, 11.4, 46.4)), times=parse_time_range("2024-06"))
        client = JsonClient(same_host_only(url, field="stac"))
        ours = [each["id"] for each in search_items(search, url, client, skipped=SkippedItems())]

    assert ours == theirs
    assert len(ours) == 23


def test_what_it_returns_goes_into_a_request() -> None:
    """An ItemCollection and its items are the same gather."""
    with api("POST") as url:
        found = pystac_client.Client.open(url).search(bbox=[11.2, 46.2, 11.4, 46.4]).item_collection()

    def digest(items: Any) -> str:
        stac = {"items": items, "assets": ["red"]}
        return parse_request({"sources": {"stac": stac}, "window": "centre"}).digest()

    assert digest(found) == digest(list(found)) == digest(found.to_dict())
