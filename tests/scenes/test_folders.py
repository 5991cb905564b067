"""Scenes that name folders, and the images that were listed in them."""

from typing import Any

import pytest

from pixel_gather.core.model.status import Status
from pixel_gather.core.scenes.folders import (
    FolderListing,
    folders_of,
    is_image,
    unlisted_folders,
    with_images,
)
from pixel_gather.core.scenes.item import asset_hrefs
from scenes.scenes import item

FOLDER = "s3://bucket/granule/IMG_DATA/"


def scene(**assets: Any) -> dict[str, Any]:
    """Return an item with these assets."""
    return item(assets=assets)


def test_folders_are_known_by_their_slash_or_their_type() -> None:
    """Other assets are no folders."""
    found = folders_of(
        scene(
            a={"href": "s3://bucket/a/"},
            b={"href": "s3://bucket/b", "type": "application/x-directory"},
            c={"href": "s3://bucket/c.tif"},
            d={"type": "image/tiff"},
        )
    )

    assert found == {"a": "s3://bucket/a/", "b": "s3://bucket/b/"}


@pytest.mark.parametrize(
    ("name", "expected"), [("a.tif", True), ("A.JP2", True), ("a.xml", False), ("tif", False)]
)
def test_images_are_known_by_the_end_of_their_names(name: str, *, expected: bool) -> None:
    """Case does not matter."""
    assert is_image(name) is expected


def test_images_take_the_place_of_their_folder() -> None:
    """They are found by path and by band; other assets stay."""
    images = {name: FOLDER + name for name in ("T32_B04.jp2", "R10m/T32_B8A.jp2")}
    found = with_images(
        scene(images={"href": FOLDER}, tci={"href": "s3://bucket/tci.tif"}),
        {FOLDER: FolderListing(href=FOLDER, images=images)},
    )

    assert list(found["assets"]) == ["T32_B04.jp2", "R10m/T32_B8A.jp2", "tci"]
    assert asset_hrefs(found, ("B8A", "tci")) == [
        ("B8A", FOLDER + "R10m/T32_B8A.jp2"),
        ("tci", "s3://bucket/tci.tif"),
    ]
    assert unlisted_folders(found) == []


def test_a_resolution_is_no_part_of_a_band() -> None:
    """Scenes of Level 2A have a folder for each resolution; of those, the finest is found."""
    names = (
        "R10m/T32_B04_10m.jp2",
        "R20m/T32_B04_20m.jp2",
        "R20m/T32_SCL_20m.jp2",
    )
    listing = FolderListing(href=FOLDER, images={name: FOLDER + name for name in names})
    found = with_images(scene(images={"href": FOLDER}), {FOLDER: listing})

    assert asset_hrefs(found, ("B04", "SCL")) == [("B04", FOLDER + names[0]), ("SCL", FOLDER + names[2])]


def test_a_folder_that_cannot_be_listed_stays_with_its_status() -> None:
    """Its link still ends in a slash, so nobody takes it for an image."""
    listing = FolderListing(href=FOLDER, status=Status.DENIED, reason="no")

    found = with_images(scene(images={"href": FOLDER}), {FOLDER: listing})

    assert unlisted_folders(found) == [
        {"asset": "images", "href": FOLDER, "status": "denied", "reason": "no"}
    ]
    assert asset_hrefs(found) == [("images", FOLDER)]
