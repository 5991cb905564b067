"""Items that a program gives with its request."""

from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import GatherRequest, parse_request
from scenes.scenes import Item, item


class Collection:
    """As another library's: without any option."""

    def to_dict(self) -> dict[str, Any]:
        """Return all items."""
        return {"type": "FeatureCollection", "features": [item("a"), item("b")]}


def request_of(items: Any) -> GatherRequest:
    """Return a request with items."""
    return parse_request({"sources": {"stac": {"items": items, "assets": ["red"]}}, "window": "centre"})


@pytest.mark.parametrize(
    "items",
    [
        [item("a"), item("b")],
        (Item(item("a")), item("b")),
        {"type": "FeatureCollection", "features": [item("a"), item("b")]},
        Collection(),
        (each for each in (Item(item("a")), Item(item("b")))),
    ],
    ids=["dicts", "items and dicts", "feature collection", "object with items", "iterator"],
)
def test_items_may_be_of_any_library(items: Any) -> None:
    """What is stored and what the digest is of is the same for all."""
    request = request_of(items)

    assert request.sources.stac is not None
    assert [each["id"] for each in request.sources.stac.items or () if isinstance(each, dict)] == ["a", "b"]
    assert request.sources.stac.area == "all"
    assert request.digest() == request_of([item("a"), item("b")]).digest()
    stored = request.to_json()["sources"]["stac"]["items"]
    assert stored["n_items"] == 2
    assert len(stored["sha256"]) == 64


def test_an_item_is_asked_for_as_it_is() -> None:
    """Without that, pystac may look for the item's catalog, which may lie on a server."""
    one = Item(item("a"))
    request_of([one])

    assert one.asked == [False]


def test_the_order_of_an_items_fields_makes_no_other_gather() -> None:
    """It says nothing of the scene."""
    turned = dict(reversed(item("a").items()))

    assert request_of([turned]).to_json() == request_of([item("a")]).to_json()


def test_other_items_are_another_gather() -> None:
    """The digest is of everything that the items say."""
    assert request_of([item("a")]).digest() != request_of([item("a", eo__cloud_cover=3)]).digest()


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "at least one item"),
        ([7], "each as a dict"),
        (7, "give the address of a file of items, or the items"),
        ({"type": "Collection"}, "it holds no items"),
        ({"n_items": 2, "sha256": "0"}, "give the items again"),
    ],
)
def test_what_is_no_item_is_refused(items: Any, said: str) -> None:
    """The sentence names the field."""
    with pytest.raises(RequestError, match=rf"sources\.stac.*{said}"):
        request_of(items)


def test_one_kind_of_scenes_is_given() -> None:
    """Not two, and not none."""
    for given in ({}, {"api": "https://x/v1", "items": "a.json"}):
        with pytest.raises(RequestError, match="give exactly one of api, items, cmr"):
            parse_request({"sources": {"stac": {"assets": ["red"], **given}}, "window": "centre"})
