"""From scenes to the lines of a list."""

from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import NO_MEANING, BandClass
from pixel_gather.core.scenes.duplicates import without_duplicates
from pixel_gather.core.scenes.scene_sources import (
    Address,
    address_of,
    asset_choices,
    band_numbers,
    meaning_in,
    row_of,
    slim_item,
    sources_of,
)
from scenes.scenes import item

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
    assert band_numbers(asset_choices({"g": "visual:2"})) == {"g": 2}
    assert band_numbers(asset_choices({"a": "visual", "b": "visual:0", "c": ":2"})) == {}
    assert found.columns["scale_claimed"] == 0.1
    assert found.columns["nodata_claimed"] == 0


@pytest.mark.parametrize(
    ("name", "band", "asset", "number"),
    [
        ("visual", "visual", "visual", None),
        ("visual:2", "visual_2", "visual", 2),
        ("visual:123456789", "visual_123456789", "visual", 123_456_789),
        ("visual:1234567890", "visual:1234567890", "visual:1234567890", None),
        ("a:b", "a:b", "a:b", None),
    ],
)
def test_a_number_after_a_colon_is_a_band(name: str, band: str, asset: str, number: int | None) -> None:
    """The cube's band is named after both. Other names with a colon are left as they are."""
    (choice,) = asset_choices((name,))

    assert (choice.band, choice.asset, choice.number) == (band, asset, number)


def test_two_bands_of_one_name_are_refused() -> None:
    """They would be one array of the cube."""
    with pytest.raises(RequestError, match="two of them would be the band red"):
        asset_choices(("red", "B04", "red"))


def test_what_is_claimed_of_a_band_comes_before_what_is_claimed_of_its_asset() -> None:
    """The older extension of the bands comes first of all."""
    asset = {
        "href": "s3://b/a.tif",
        "raster:scale": 1,
        "raster:offset": 1,
        "nodata": 1,
        "bands": [{"raster:scale": 2, "raster:offset": 2}],
        "raster:bands": [{"scale": 3}],
    }

    (found,) = sources_of(item(assets={"a": asset}), asset_choices(("a",)))

    claims = {name: value for name, value in found.columns.items() if name.endswith("_claimed")}
    assert claims == {"scale_claimed": 3, "offset_claimed": 2, "nodata_claimed": 1}


@pytest.mark.parametrize("place", ["asset", "band", "raster band"])
def test_classes_are_those_of_the_classification_extension(place: str) -> None:
    """Of the band or of its asset. A colour is six digits, and a title goes before a name."""
    told = [
        {"value": 6, "name": "water", "title": "Open water", "color_hint": "0000FF"},
        {"value": 4, "name": "veg", "color_hint": "green"},
        {"value": 2, "description": "x" * 300},
        {"value": "7"},
        {"value": True},
        3,
    ]
    asset: dict[str, object] = {"href": "s3://b/scl.tif"}
    if place == "asset":
        asset["classification:classes"] = told
    else:
        asset["bands" if place == "band" else "raster:bands"] = [{"classification:classes": told}]

    found = meaning_in(item(assets={"scl": asset}), asset_choices(("scl",))[0])

    assert found.classes == (
        BandClass(value=2, name="x" * 128),
        BandClass(value=4, name="veg"),
        BandClass(value=6, name="Open water", colour="#0000ff"),
    )
    assert meaning_in(item(assets={"scl": asset}), asset_choices(("red",))[0]) == NO_MEANING
    damaged = {"href": "s3://b/scl.tif", "classification:classes": 3}
    assert meaning_in(item(assets={"scl": damaged}), asset_choices(("scl",))[0]) == NO_MEANING


@pytest.mark.parametrize("key", ["unit", "raster:unit"])
@pytest.mark.parametrize("place", ["bands", "raster:bands", None])
def test_a_unit_is_that_of_the_band_or_of_its_asset(place: str | None, key: str) -> None:
    """In STAC 1.1 or by its raster extension."""
    asset: dict[str, object] = {"href": "s3://b/lst.tif"}
    asset |= {key: "kelvin"} if place is None else {key: 3, place: [{}, {key: "kelvin"}]}
    first, second = asset_choices(("lst:1", "lst:2"))

    assert meaning_in(item(assets={"lst": asset}), second).unit == "kelvin"
    assert meaning_in(item(assets={"lst": asset}), first).unit == ("kelvin" if place is None else "")


def test_a_slimmed_scene_has_the_same_sources() -> None:
    """What was left out of it is not needed for them, nor for finding duplicates."""
    scene = item(assets=ASSETS, platform="sentinel-2a", eo__cloud_cover=5, other="text")
    choices = asset_choices(("red", "visual:2", "swir"))

    slim = slim_item(scene, choices)

    assert list(sources_of(slim, choices)) == list(sources_of(scene, choices))
    assert slim["all_assets"] == ("B04", "visual")
    assert "other" not in slim["properties"]
    assert without_duplicates((slim, scene)).dropped == ((scene, slim),)


def test_an_asset_without_an_address_hides_none_of_the_same_common_name() -> None:
    """This holds for the asset that has the name as its key, and for one with fewer bands."""
    red = {"bands": [{"eo:common_name": "red"}]}
    assets = {"red": red, "gone": {"href": None} | red, "B04": {"href": "s3://b/B04.tif"} | red}
    choices = asset_choices(("red",))

    (found,) = sources_of(item(assets=assets), choices)
    (slim,) = sources_of(slim_item(item(assets=assets), choices), choices)

    assert found.href == slim.href == "s3://b/B04.tif"


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
        (
            {"href": "s3://x/a.tif", "alternate": {"https": {"href": "https://x/a.tif"}}},
            "https",
            "https://x/a.tif",
        ),
        (
            {"href": "s3://x/a.tif", "alternate": {"s3": {"href": "s3://copy/a.tif"}}},
            "s3",
            "s3://x/a.tif",
        ),
        (
            {"href": "https://x/a.tif", "alternate": {"az": {"href": "az://x/a.tif"}, "s3": {"href": 7}}},
            "s3",
            "https://x/a.tif",
        ),
        ({"href": "https://my.s3data.s3.amazonaws.com/a%20b.tif"}, "s3", "s3://my.s3data/a b.tif"),
        ({"href": "https://s3.us-west-2.amazonaws.com/data/a.tif"}, "s3", "s3://data/a.tif"),
        ({"href": "https://s3.amazonaws.com/data"}, "s3", "https://s3.amazonaws.com/data"),  # no key
        ({"href": "https://data.s3.dualstack.us-west-2.amazonaws.com/a.tif"}, "s3", "s3://data/a.tif"),
        ({"href": "https://data.s3.cn-north-1.amazonaws.com.cn/a.tif"}, "s3", "s3://data/a.tif"),
        ({"href": "https://s3.cn-north-1.amazonaws.com.cn/data/a.tif"}, "s3", "s3://data/a.tif"),
        ({"href": "https://data.s3.amazonaws.com.de/a.tif"}, "s3", "https://data.s3.amazonaws.com.de/a.tif"),
        ({"href": "https://data.s3.xamazonaws.com/a.tif"}, "s3", "https://data.s3.xamazonaws.com/a.tif"),
        ({"href": "https://data.example.org/a.tif"}, "s3", "https://data.example.org/a.tif"),
        ({"href": f"https://s3{'-a' * 5000}/a.tif"}, "s3", f"https://s3{'-a' * 5000}/a.tif"),  # in no time
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


@pytest.mark.parametrize(
    ("west", "time", "row"),
    [
        (0.0, "2024-06-01T23:30:00Z", "c 2024-06-01"),
        (15.0, "2024-06-01T23:30:00Z", "c 2024-06-02"),  # an hour later by the sun
        (-75.0, "2024-06-01T03:00:00Z", "c 2024-05-31"),
        (179.5, "2024-06-01T13:00:00Z", "c 2024-06-02"),
        (179.7, "2024-06-01T13:00:00Z", "c 2024-06-01"),  # its middle lies over the antimeridian
        (-180.0, "2024-06-01T11:00:00Z", "c 2024-05-31"),
        (14.6, "2024-06-01T23:00:00Z", "c 2024-06-02"),  # its middle is 15 degrees east
        (14.5, "2024-06-01T23:00:00Z", "c 2024-06-01"),
    ],
)
def test_a_solar_day_is_that_of_the_scenes_longitude(west: float, time: str, row: str) -> None:
    """Two passes of a night over one place are of one day, whatever the date in Greenwich."""
    east = west + 0.8
    scene = item(box=(west, 0.0, east if east <= 180 else east - 360, 1.0), time=time, collection="c")

    assert row_of(scene, "solar-day") == row


def test_a_datatake_is_named_by_the_item() -> None:
    """By Sentinel-2's id or by Landsat's; a scene without one is by itself."""
    assert row_of(item("a", s2__datatake_id="GS2A_1"), "datatake") == "GS2A_1"
    assert row_of(item("a", s2__datatake_id="GS2A_1_N05.10"), "datatake") == "GS2A_1"
    assert row_of(item("a", landsat__scene_id="LC8"), "datatake") == "LC8"
    assert row_of(item("a"), "datatake") == "a"
    assert row_of(item("a", s2__datatake_id="GS2A_1"), "item") == "a"


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_offset_that_the_pixels_have_already_is_no_claim(*, is_applied: bool) -> None:
    """Earth Search says so in a property, and leaves the offset in the asset."""
    asset = {"href": "s3://b/a.tif", "raster:bands": [{"scale": 0.0001, "offset": -0.1}]}
    given = item(assets={"a": asset}, earthsearch__boa_offset_applied=is_applied)

    (found,) = sources_of(slim_item(given, asset_choices(("a",))), asset_choices(("a",)))

    assert found.columns["scale_claimed"] == 0.0001
    assert ("offset_claimed" in found.columns) != is_applied


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_claim_that_is_no_number_is_none(number: float) -> None:
    """As if the item did not claim it."""
    asset = {"href": "s3://b/a.tif", "raster:bands": [{"scale": number, "offset": number}]}

    (found,) = sources_of(item(assets={"a": asset}), asset_choices(("a",)))

    assert not [name for name in found.columns if name.endswith("_claimed")]
