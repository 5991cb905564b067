"""From scenes to the lines of a list."""

from typing import Any

import pytest

from catalog.scenes import item
from pixel_gather.catalog.scene_sources import Address, address_of, asset_choices, sources_of
from pixel_gather.errors import RequestError

ASSETS: dict[str, dict[str, Any]] = {
    "B04": {
        "href": "https://data.s3.us-west-2.amazonaws.com/a/B04.tif",
        "eo:bands": [{"name": "B04", "common_name": "red"}],
    },
    "visual": {
        "href": "s3://data/a/visual.tif",
        "bands": [{"name": "r"}, {"name": "g", "raster:scale": 0.1, "nodata": 0}],
    },
}


def test_assets_are_found_by_key_and_by_common_name() -> None:
    """The cube's measurement has the name that was asked for."""
    scene = item(assets=ASSETS)

    found = list(sources_of(scene, asset_choices(("red", "B04"))))

    assert [(each.band, each.href) for each in found] == [
        ("red", ASSETS["B04"]["href"]),
        ("B04", ASSETS["B04"]["href"]),
    ]
    assert {each.scene for each in found} == {"scene-1"}


def test_a_mapping_names_the_measurements() -> None:
    """A band of the cube may have another name than its asset."""
    (found,) = sources_of(item(assets=ASSETS), asset_choices({"rot": "red"}))

    assert found.band == "rot"


def test_a_band_of_an_asset_brings_its_own_claims() -> None:
    """``visual:2`` is the second band, with the scale and nodata that the item claims of it."""
    (choice,) = asset_choices(("visual:2",))

    (found,) = sources_of(item(assets=ASSETS), (choice,))

    assert choice.number == 2
    assert found.columns["scale_claimed"] == 0.1
    assert found.columns["nodata_claimed"] == 0


def test_a_scene_without_the_asset_has_no_href() -> None:
    """It is a row without pixels, not an error."""
    (found,) = sources_of(item(assets=ASSETS), asset_choices(("swir",)))

    assert found.href is None


@pytest.mark.parametrize(
    ("asset", "wanted", "address"),
    [
        (ASSETS["B04"], "asset", ASSETS["B04"]["href"]),
        (ASSETS["B04"], "s3", "s3://data/a/B04.tif"),
        (ASSETS["visual"], "s3", "s3://data/a/visual.tif"),
        ({"href": "https://x/a.tif", "alternate": {"s3": {"href": "s3://x/a.tif"}}}, "s3", "s3://x/a.tif"),
        ({"href": "https://data.example.org/a.tif"}, "s3", "https://data.example.org/a.tif"),
        ({"href": "https://b.s3.amazonaws.com/a.tif?sig=1"}, "s3", "https://b.s3.amazonaws.com/a.tif?sig=1"),
    ],
)
def test_addresses(asset: dict[str, object], wanted: Address, address: str) -> None:
    """An alternate address is taken where there is one; signed addresses are left as they are."""
    assert address_of(asset, wanted) == address


def test_no_asset_is_refused() -> None:
    """A search without an asset gathers nothing."""
    with pytest.raises(RequestError, match="at least one asset"):
        asset_choices(())
