"""What a search needs of an item."""

import math
from typing import Any

import pytest

from catalog.scenes import item
from pixel_gather.catalog.item import UNKNOWN_CLOUD, scene_key
from pixel_gather.errors import RequestError

SQUARE = [[11, 46], [12, 46], [12, 47], [11, 47], [11, 46]]
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
        ({"type": "Polygon", "coordinates": [AT_THE_EDGE]}, (179, 0, 180, 1), True),
        ({"type": "Polygon", "coordinates": [TURNED]}, (11, 46, 12, 47), False),
        ({"type": "Polygon", "coordinates": [STEPPING]}, (179, 0, -179, 1), False),
        ({"type": "MultiPolygon", "coordinates": CUT}, (179, 0, -179, 1), False),
        ({"type": "Point", "coordinates": [11, 46]}, (11, 46, 11, 46), False),
    ],
    ids=[
        "box",
        "triangle",
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


def test_a_period_that_ends_before_it_begins_is_not_used() -> None:
    """The item's moment counts then."""
    moment = scene_key(item(), name="item")
    turned = item(start_datetime="2024-06-03T00:00:00Z", end_datetime="2024-06-02T00:00:00Z")
    period = item(start_datetime="2024-06-02T00:00:00Z", end_datetime="2024-06-02T00:00:00Z")

    found = scene_key(turned, name="item")
    assert (found.start_us, found.stop_us) == (moment.start_us, moment.stop_us)
    assert scene_key(period, name="item").stop_us == 1_717_286_400_000_000
