"""What a search needs of an item."""

import math
from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.item import (
    UNKNOWN_CLOUD,
    asset_hrefs,
    find_asset,
    footprint_shape,
    scene_key,
    wanted_assets,
    without_links,
)
from scenes.scenes import item

SQUARE = [[11, 46], [12, 46], [12, 47], [11, 47], [11, 46]]
HOLE = [[11.4, 46.4], [11.6, 46.4], [11.6, 46.6], [11.4, 46.6], [11.4, 46.4]]
TURNED = [[11, 46], [12, 47], [12, 46], [11, 47], [11, 46]]
AT_THE_EDGE = [[179, 0], [180, 0], [180, 1], [179, 1], [179, 0]]
STEPPING = [[179, 0], [-179, 0], [-179, 1], [179, 1], [179, 0]]
CUT = [
    [[[179, 0], [180, 0], [180, 1], [179, 1], [179, 0]]],
    [[[-180, 0], [-179, 0], [-179, 1], [-180, 1], [-180, 0]]],
]


def without_box(geometry: dict[str, Any]) -> dict[str, Any]:
    """Return an item that has no box of its own."""
    found = item(geometry=geometry)
    del found["bbox"]
    return found


@pytest.mark.parametrize(
    ("geometry", "box", "is_box"),
    [
        ({"type": "Polygon", "coordinates": [SQUARE]}, (11, 46, 12, 47), True),
        ({"type": "Polygon", "coordinates": [[*SQUARE[:3], SQUARE[0]]]}, (11, 46, 12, 47), False),
        ({"type": "Polygon", "coordinates": [SQUARE, HOLE]}, (11, 46, 12, 47), False),
        ({"type": "Polygon", "coordinates": [[*SQUARE, SQUARE[0]]]}, (11, 46, 12, 47), False),
        ({"type": "Polygon", "coordinates": [AT_THE_EDGE]}, (179, 0, 180, 1), True),
        ({"type": "Polygon", "coordinates": [TURNED]}, (11, 46, 12, 47), False),
        ({"type": "Polygon", "coordinates": [STEPPING]}, (179, 0, -179, 1), False),
        ({"type": "MultiPolygon", "coordinates": CUT}, (179, 0, -179, 1), False),
        ({"type": "Point", "coordinates": [11, 46]}, (11, 46, 11, 46), False),
    ],
    ids=[
        "box",
        "triangle",
        "with a hole",
        "a corner twice",
        "at the antimeridian",
        "hourglass",
        "steps over the antimeridian",
        "cut at the antimeridian",
        "point",
    ],
)
def test_an_item_without_a_box_has_that_of_its_geometry(
    geometry: dict[str, Any], box: tuple[float, ...], *, is_box: bool
) -> None:
    """A geometry that crosses the antimeridian has a narrow box, and not one around the Earth."""
    key = scene_key(without_box(geometry), name="item")

    assert (key.box, key.is_box) == (box, is_box)


@pytest.mark.parametrize("box", [None, [-130, 79, 150, 82], [-180, 79, 180, 90]])
def test_a_footprint_around_a_pole_is_found_at_the_pole(box: list[float] | None) -> None:
    """Its box ends at the outline, if it was made on a flat map."""
    ring = [[-130, 80], [-50, 82], [40, 81], [150, 79], [-130, 80]]
    scene = item(geometry={"type": "Polygon", "coordinates": [ring]}) | {"bbox": box}
    wide = item(box=(-130, 79, 150, 82)) | {"geometry": None}

    assert scene_key(scene, name="item").box == (-180, 79, 180, 90)
    assert scene_key(wide, name="item").box == (-130, 79, 150, 82)


@pytest.mark.parametrize(
    ("given", "box"),
    [
        ([-182.8, -10, -170, 0], (177.2, -10, -170, 0)),  # VIIRS, tile h00v09
        ([-180.5, -80.5, 180, -71.5], (-180, -80.5, 180, -71.5)),  # Impact Observatory, tile 01C
        ([-180.125, -89.875, 179.875, 90.125], (-180, -89.875, 180, 90)),  # pixels around the poles
        ([0, -90, 360, 90], (-180, -90, 180, 90)),
        ([190, 0, 270, 1], (-170, 0, -90, 1)),
        ([170, 0, 190, 1], (170, 0, -170, 1)),
        ([180, 0, 190, 1], (-180, 0, -170, 1)),
        ([-190, 0, -180, 1], (170, 0, 180, 1)),
        ([-180 - 1e-9, 0, -170, 1], (-180, 0, -170, 1)),
        ([170, 0, 5, -170, 1, 9], (170, 0, -170, 1)),
    ],
)
def test_a_box_beyond_the_map_is_laid_onto_it(given: list[float], box: tuple[float, ...]) -> None:
    """Tiles across the antimeridian and global grids are written so in real archives."""
    scene = item() | {"bbox": given, "geometry": None}

    assert scene_key(scene, name="item").box == pytest.approx(box, abs=1e-9)


@pytest.mark.parametrize(
    "box", [[-361, 0, -10, 1], [0, 0, 361, 1], [200, 0, 190, 1], [0, -92, 1, 0], [0, 0, 1, 92], [9, 1, 10, 0]]
)
def test_a_box_that_is_not_on_the_earth_is_refused(box: list[float]) -> None:
    """It may be in metres, or have its sides in another order."""
    with pytest.raises(RequestError, match="write l"):
        scene_key(item() | {"bbox": box}, name="item")


@pytest.mark.parametrize(
    ("geometry", "said"),
    [
        ({"type": "Polygon", "coordinates": []}, "no position"),
        ({"type": "Polygon", "coordinates": "x"}, "cannot be used"),
        ({"type": "Polygon", "coordinates": [[*SQUARE[:3], [math.nan, 47], SQUARE[0]]]}, "not finite"),
        ({"type": "Point", "coordinates": [11, 91]}, "write latitudes from -90 to 90"),
    ],
)
def test_a_geometry_that_gives_no_box_is_refused(geometry: dict[str, Any], said: str) -> None:
    """The error names the item."""
    with pytest.raises(RequestError, match=said) as raised:
        scene_key(without_box(geometry), name="item 7")

    assert raised.value.field is not None
    assert raised.value.field.startswith("item 7 scene-1")


@pytest.mark.parametrize(
    ("cloud", "percent"),
    [
        (0, 0),
        (0.9, 0),
        (99.9, 99),
        (100, 100),
        (101, 100),
        (-1, 0),
        ("5", UNKNOWN_CLOUD),
        (None, UNKNOWN_CLOUD),
    ],
)
def test_cloud_is_a_whole_percentage_from_0_to_100(cloud: object, percent: int) -> None:
    """It is rounded down, so that a search for less than a number misses none."""
    assert scene_key(item(eo__cloud_cover=cloud), name="item").cloud_percent == percent


@pytest.mark.parametrize("ends", [("2024-06-03", "2024-06-02"), ("2020-01-01", None), (None, "2020-01-01")])
def test_a_period_that_is_turned_or_lacks_an_end_is_not_used(ends: tuple[str | None, ...]) -> None:
    """The item's moment counts then."""
    moment = scene_key(item(), name="item")
    start, end = (each and f"{each}T00:00:00Z" for each in ends)
    period = item(start_datetime="2024-06-02T00:00:00Z", end_datetime="2024-06-02T00:00:00Z")
    given: dict[str, Any] = {"start_datetime": start, "end_datetime": end}

    found = scene_key(item(**{name: time for name, time in given.items() if time}), name="item")
    assert (found.start_us, found.stop_us) == (moment.start_us, moment.stop_us)
    assert scene_key(period, name="item").stop_us == 1_717_286_400_000_000


def test_an_item_without_a_time_is_refused() -> None:
    """It could be found by no search."""
    turned: dict[str, Any] = {
        "start_datetime": "2024-06-03T00:00:00Z",
        "end_datetime": "2024-06-02T00:00:00Z",
    }
    for times in ({}, turned):
        with pytest.raises(RequestError, match="neither datetime nor start_datetime and a later end"):
            scene_key(item(time=None, **times), name="item")


def test_without_a_geometry_the_box_is_the_footprint() -> None:
    """There is nothing else to look at. A geometry that is no object says nothing of the box."""
    scene = item()

    bare = scene | {"geometry": None, "bbox": [179, 46, -179, 47]}
    key = scene_key(bare, name="item")
    assert key.is_box
    assert footprint_shape(bare, key).bounds == (179, 46, 181, 47)
    assert not scene_key(scene | {"geometry": "x"}, name="item").is_box


@pytest.mark.parametrize("rings", [None, "x", [], ["x"], [[[11], [12], [12], [11], [11]]]])
def test_a_polygon_without_sound_rings_is_no_box(rings: object) -> None:
    """The item's own box is used. Its geometry is looked at later, and refused then."""
    found = scene_key(item(geometry={"type": "Polygon", "coordinates": rings}), name="item")

    assert (found.box, found.is_box) == ((11, 46, 12, 47), False)


@pytest.mark.parametrize(
    ("name", "is_sound"), [("", False), ("x", True), ("x" * 1024, True), ("x" * 1025, False), (7, False)]
)
def test_an_id_is_a_text_of_1_to_1024_characters(name: Any, *, is_sound: bool) -> None:
    """Others are refused, because answers are ordered and paged by ids."""
    scene = item(name)
    if is_sound:
        assert scene_key(scene, name="item").id == name
        return
    with pytest.raises(RequestError, match="a text of 1 to 1024 characters"):
        scene_key(scene, name="item")


def test_what_is_kept_of_an_item() -> None:
    """Neither its links, nor what is empty or no object. What is missing is filled in."""
    scene = item(collection=None, assets={"a": {"href": "s3://b/a.tif"}, "broken": "s3://b/b.tif"})
    del scene["bbox"], scene["type"]

    found = without_links(scene | {"other": 1}, scene_key(scene, name="item"))

    assert found == {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": "scene-1",
        "bbox": [11, 46, 12, 47],
        "geometry": scene["geometry"],
        "properties": scene["properties"],
        "assets": {"a": {"href": "s3://b/a.tif"}},
    }


def test_a_common_name_is_that_of_the_asset_with_the_fewest_bands() -> None:
    """Red is the asset of the red band, and not a picture in three colours."""
    bands = [{"name": "blue"}, {"name": "green"}, {"name": "red"}]
    assets = {"visual": {"href": "1", "bands": bands}, "B04": {"href": "2", "bands": bands[2:]}}

    assert find_asset(assets, "red") is assets["B04"]
    assert find_asset(assets, "visual") is assets["visual"]
    assert find_asset(assets, "nir") is None


def test_assets_without_names_are_those_with_data() -> None:
    """They have the role, or no role at all. An asset without an address is none."""
    scene = item(
        assets={
            "plain": {"href": "1"},
            "empty": {"href": "5", "roles": []},
            "null": {"href": "6", "roles": None},
            "data": {"href": "2", "roles": ["data", "cloud-optimized"]},
            "thumbnail": {"href": "3", "roles": ["thumbnail"]},
            "text": {"href": "4", "roles": "metadata"},
            "nowhere": {"roles": ["data"]},
        }
    )

    assert asset_hrefs(scene) == [("plain", "1"), ("empty", "5"), ("null", "6"), ("data", "2")]
    assert asset_hrefs(scene, ("thumbnail", "nowhere", "other")) == [("thumbnail", "3")]


def test_an_asset_without_an_address_hides_no_other() -> None:
    """One asset is called red and has no address. Another one has a red band, and is taken."""
    red = {"href": "1", "bands": [{"eo:common_name": "red"}]}

    assert wanted_assets(item(assets={"red": {"roles": ["data"]}, "B04": red}), ("red",)) == [("red", red)]
