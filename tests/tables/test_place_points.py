"""Points on images."""

from copy import replace

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Features
from pixel_gather.tables.place_points import PointPlaces
from support.fakes import UTM, header_of

IMAGE = header_of(np.zeros((1, 3, 4), "uint16"), "a")
"""Of 40 x 30 m."""


def places(*points: tuple[float, float], crs: str = "EPSG:32631") -> PointPlaces:
    """Return what finds points on images, given in metres east and south of the image's corner."""
    xs, ys = (np.array(each, float) for each in zip(*points, strict=True))
    of_image = crs == "EPSG:32631"
    return PointPlaces(
        Features(
            ids=np.arange(len(points)),
            xs=UTM.c + xs if of_image else xs,
            ys=UTM.f - ys if of_image else ys,
            crs=crs,
        ),
        RasterioProjector(),
    )


def test_an_image_has_the_points_on_its_left_and_upper_edge_and_none_on_the_others() -> None:
    """Neighbouring images share an edge, and a point on it lies on one of them."""
    inside = [(0, 0), (39.9, 0), (0, 29.9), (20, 15)]
    outside = [(-0.1, 0), (0, -0.1), (40, 0), (0, 30), (40, 30), (np.nan, np.nan)]

    found = places(*inside, *outside).on(IMAGE)

    assert found.members.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.cols, [x / 10 for x, _ in inside], atol=1e-6)
    np.testing.assert_allclose(found.rows, [y / 10 for _, y in inside], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"crs": None}, "it has no CRS"),
        ({"transform": None}, "it has no geotransform"),
        ({"crs": "LOCAL"}, "'LOCAL' is no CRS that PROJ knows"),
    ],
)
def test_an_image_without_a_place_has_no_point(changes: dict[str, str | None], says: str) -> None:
    """The error says what it lacks. So do lines of images whose CRS nobody knows. The others are read."""
    with pytest.raises(SourceError, match=says) as caught:
        places((3.0, 41.5), crs="EPSG:4326").on(replace(IMAGE, **changes))  # type: ignore[arg-type] # texts

    assert caught.value.status is Status.UNSUPPORTED


def test_points_near_a_curved_edge_are_found() -> None:
    """In degrees the edges of an image are no straight lines, and its box is taken larger."""
    image = header_of(np.zeros((1, 1, 1), "uint16"), "a")
    wide = header_of(
        np.broadcast_to(np.zeros((1, 1, 1), "uint16"), (1, 100, 100)), "a", transform=UTM.scaled(1000, 1000)
    )
    edge = np.linspace(0.001, 99.999, 50)
    on_edges = [(c, r) for at in edge for c, r in ((at, 0.001), (at, 99.999), (0.001, at), (99.999, at))]
    xs, ys = np.array([wide.transform.xy(*each) for each in on_edges]).T  # type: ignore[union-attr] # it has one
    lons, lats = RasterioProjector().point_arrays(xs, ys, source_crs="EPSG:32631", target_crs="EPSG:4326")

    found = places(*zip(lons.tolist(), lats.tolist(), strict=True), crs="EPSG:4326").on(wide)

    assert len(found.members) == len(on_edges)
    assert len(places((3.0, 41.0), crs="EPSG:4326").on(image).members) == 0
