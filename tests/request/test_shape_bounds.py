"""A GeoJSON shape is no window. The error says which box is."""

from typing import Any

import pytest
from shapely.geometry import shape

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.request.shape_bounds import shape_bounds

POLYGON = {
    "type": "Polygon",
    "coordinates": [[[9.0, 46.5, 7], [9.25, 46.0, 7], [8.5, 46.25, 7], [9.0, 46.5, 7]]],
}
FEATURE = {"type": "Feature", "properties": {"area": [1, 2]}, "geometry": POLYGON}
POINT = {"type": "Point", "coordinates": [10, 40]}
BOX = (8.5, 46.0, 9.25, 46.5)


@pytest.mark.parametrize(
    "given",
    [
        POLYGON,
        FEATURE,
        {"type": "FeatureCollection", "features": [FEATURE, FEATURE]},
        {"polygon": POLYGON["coordinates"]},
        {"geometry": POLYGON, "crs": "EPSG:4326"},
        {"bbox": POLYGON},
        shape(POLYGON),
        {"bbox": shape(POLYGON)},
    ],
    ids=["polygon", "feature", "collection", "ring", "geometry", "as bbox", "shapely", "shapely as bbox"],
)
def test_a_shape_is_refused_with_the_box_around_it(given: Any) -> None:
    """The cube holds all pixels of a rectangle, so a shape would be lost without a word."""
    with pytest.raises(
        RequestError, match=r"^window: a GeoJSON shape is no window.* bbox: \[8.5, 46, 9.25, 46.5\]"
    ):
        parse_request({"sources": ["s3://data/a.tif"], "window": given})


def test_a_geojson_point_is_refused_with_the_point_to_write() -> None:
    """The box around it would have no pixel."""
    with pytest.raises(RequestError, match=r"^window: a GeoJSON point .* Write point: \[10, 40\] and size"):
        parse_request({"sources": ["s3://data/a.tif"], "window": POINT})


def test_a_list_of_numbers_is_no_shape() -> None:
    """Whoever forgets the word bbox is not told another box."""
    with pytest.raises(RequestError, match=r"^window: it is \[11, 46, 11.1, 46.1\]; write an object"):
        parse_request({"sources": ["s3://data/a.tif"], "window": [11, 46, 11.1, 46.1]})


def test_box_is_around_all_parts_of_a_shape() -> None:
    """A collection of geometries has one box, too."""
    assert shape_bounds({"type": "GeometryCollection", "geometries": [POLYGON, POINT]}) == (8.5, 40, 10, 46.5)
    assert shape_bounds(POLYGON) == BOX


@pytest.mark.parametrize(
    "given",
    [
        *("centre", None, 7, {"bbox": [1, 2, 3, 4]}, {"point": [1, 2], "size": [3, 4]}, {"tile": [0, 1]}, {}),
        *([11, 46, 11.1, 46.1], [11, 46], {"polygon": [[10**400, 1], [2, float("nan")]]}),
    ],
)
def test_what_is_no_shape_has_no_box(given: Any) -> None:
    """All kinds of windows are none."""
    assert shape_bounds(given) is None


@pytest.mark.long
def test_a_shape_without_end_is_left_alone() -> None:
    """A list that holds itself ends, too."""
    endless: list[Any] = []
    endless.append(endless)

    assert shape_bounds({"coordinates": endless}) is None
