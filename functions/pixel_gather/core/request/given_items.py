"""STAC items that a program gives with its request, whatever library they are from. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any, Final

_DIGEST: Final = "sha256"


def are_items(given: Any) -> bool:
    """Return whether it looks like STAC items: a list of them, or one object that holds them."""
    first = given[0] if isinstance(given, list | tuple) and given else given
    is_object = hasattr(first, "to_dict") and not hasattr(first, "columns")  # data frames have both
    return is_object or (isinstance(first, Mapping) and ("stac_version" in first or "features" in first))


def plain_items(given: Any) -> Any:
    """Return items as dicts, or the address of a file of items.

    Args:
        given: Text or a path. Or items, each a dict or an object with ``to_dict``, as pystac has them. Or one
            object that holds items: a FeatureCollection, an ItemCollection, or what `pixel_gather.search`
            returns.

    Raises:
        ValueError: It is none of these.
    """
    if isinstance(given, str | PathLike):
        return fspath(given)
    whole = as_dict(given)
    if whole is not None:
        if _DIGEST in whole:
            raise ValueError(
                "a program gave these items, and the request keeps only their digest; give the items again"
            )
        features = whole.get("features", [whole] if whole.get("type") == "Feature" else None)
        if not isinstance(features, list):
            raise ValueError("it holds no items; give a FeatureCollection, or a list of items")
        given = features
    if not isinstance(given, Iterable):
        raise ValueError("give the address of a file of items, or the items")  # noqa: TRY004 # pydantic's way
    items = tuple(as_dict(each) for each in given)
    if not items or None in items:
        raise ValueError("give at least one item, each as a dict or as an object with to_dict")
    return items


def items_in_request(items: Any) -> Any:
    """Return what a stored request says of items: their number and a digest, as items are large."""
    if isinstance(items, str) or items is None:
        return items
    content = json.dumps(items, sort_keys=True, separators=(",", ":"), default=str)
    return {"n_items": len(items), _DIGEST: hashlib.sha256(content.encode()).hexdigest()}


def as_dict(given: Any) -> dict[str, Any] | None:
    """Return a dict, or what ``to_dict`` returns; None for anything else.

    pystac is told to leave hrefs as they are: otherwise it may ask a server for the catalog of an item.
    """
    if isinstance(given, Mapping):
        return dict(given)
    if not hasattr(given, "to_dict"):
        return None
    try:
        found = given.to_dict(transform_hrefs=False)
    except TypeError:  # another library's
        found = given.to_dict()
    return dict(found) if isinstance(found, Mapping) else None
