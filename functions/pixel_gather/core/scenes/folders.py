"""Scenes of which a catalog knows only the folder of their images. Pure.

The public Sentinel-2 index is such a catalog. A search can list the folders. Then each image is an asset of
its own.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from msgspec import Struct

from pixel_gather.core.model.band_names import SUFFIX
from pixel_gather.core.model.status import Status

type Item = Mapping[str, Any]

FOLDER_TYPE: Final = "application/x-directory"
"""Media type of an asset that is a folder. An asset whose link ends in a slash is one, too."""

STATUS_FIELD: Final = "pixel_gather:status"
REASON_FIELD: Final = "pixel_gather:reason"
"""Fields of the asset of a folder that could not be listed."""

_IMAGES: Final = (".tif", ".tiff", ".jp2")


class FolderListing(Struct, frozen=True, kw_only=True):
    """What became of listing one folder."""

    href: str
    """Address of the folder, with its closing slash."""

    images: Mapping[str, str] = {}
    """Hrefs by path in the folder."""

    status: Status = Status.OK
    reason: str = ""
    """Why it could not be listed; empty where it could."""


class UnlistedFolder(TypedDict):
    """A folder of a scene that could not be listed."""

    asset: str
    href: str
    status: str
    reason: str


def is_image(name: str) -> bool:
    """Tell whether a file is an image by the end of its name."""
    return name.lower().endswith(_IMAGES)


def folders_of(item: Item) -> dict[str, str]:
    """Return the hrefs of an item's folders, each with a closing slash, by asset."""
    found = {}
    for key, asset in item["assets"].items():
        href = asset.get("href") if isinstance(asset, Mapping) else None
        if isinstance(href, str) and (href.endswith("/") or asset.get("type") == FOLDER_TYPE):
            found[key] = href.rstrip("/") + "/"
    return found


def with_images(item: Item, listings: Mapping[str, FolderListing]) -> Item:
    """Return an item with an asset for each image instead of its folders.

    An image's asset is called by its path in the folder. Its band is the end of the file's name, behind the
    last underscore, such as B04. A resolution behind it, as in B04_10m, is no part of it. So it is found by
    its band, too; of several resolutions, the first one by path is found. A folder that could not be listed
    stays, with the fields ``pixel_gather:status`` and ``pixel_gather:reason``.

    Args:
        item: A STAC item.
        listings: What its folders hold, by href.
    """
    folders = folders_of(item)
    assets: dict[str, Any] = {}
    for key, asset in item["assets"].items():
        listing = listings.get(folders[key]) if key in folders else None
        if listing is None:
            assets[key] = asset
        elif listing.status is not Status.OK:
            assets[key] = {
                **asset,
                STATUS_FIELD: listing.status.name.lower(),
                REASON_FIELD: listing.reason,
            }
        else:
            assets |= {path: _image(href) for path, href in listing.images.items()}
    return {**item, "assets": assets}


def unlisted_folders(item: Item) -> list[UnlistedFolder]:
    """Return the folders that could not be listed, after `with_images`."""
    return [
        {
            "asset": key,
            "href": asset["href"],
            "status": asset[STATUS_FIELD],
            "reason": asset[REASON_FIELD],
        }
        for key, asset in item["assets"].items()
        if isinstance(asset, Mapping) and STATUS_FIELD in asset
    ]


def _image(href: str) -> dict[str, Any]:
    stem, _, _ = href.rpartition("/")[2].rpartition(".")
    return {"href": href, "roles": ["data"], "bands": [{"name": re.sub(SUFFIX, "", stem).rpartition("_")[2]}]}
