"""Statistics of areas as other programs compute them: rasterstats, exactextract and rio-tiler.

They are in the dependency group rank-anchors, which scripts/test installs. Without it these tests
are skipped.
"""

from pathlib import Path
from typing import Any

import pytest
import rasterio
from rasterio.warp import transform_geom

from pixel_gather.features.rank.rank import rank
from rank.rasters import landscape, lonlat_box, make_cog
from support.dependency_groups import module_of_group

_TRIANGLE = (120, 40, 260, 300)


@pytest.fixture(scope="module")
def cog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A COG of 512 x 512 pixels."""
    return make_cog(tmp_path_factory.mktemp("anchors") / "a.tif", landscape(3))


def _polygon() -> dict[str, Any]:
    west, south, east, north = lonlat_box(*_TRIANGLE)
    ring = [[west, south], [east, south], [(west + east) / 2, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def _in_crs_of(cog: Path, polygon: dict[str, Any]) -> dict[str, Any]:
    with rasterio.open(cog) as dataset:
        found: dict[str, Any] = transform_geom("EPSG:4326", dataset.crs, polygon, precision=9)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("statistic", "of_rasterstats"), [("mean", "mean"), ("median", "median"), ("p90", "percentile_90")]
)
def test_polygon_is_that_of_rasterstats(cog: Path, statistic: str, of_rasterstats: str) -> None:
    """Which holds pixels by their centre, too; edges are straight here in another CRS than there."""
    rasterstats = module_of_group("rasterstats", "rank-anchors")
    (row,) = rank([cog], by="b1", geojson=_polygon(), statistic=statistic, precision="exact").rows()

    (expected,) = rasterstats.zonal_stats(
        _in_crs_of(cog, _polygon()), str(cog), stats=["count", of_rasterstats], nodata=-1
    )

    assert row["pixels"] == pytest.approx(expected["count"], rel=1e-3)
    assert row["value"] == pytest.approx(expected[of_rasterstats], rel=1e-4)


def test_polygon_is_close_to_that_of_exactextract(cog: Path) -> None:
    """Which counts pixels at the edge by the share that the polygon covers."""
    exactextract = module_of_group("exactextract", "rank-anchors")
    (row,) = rank([cog], by="b1", geojson=_polygon(), precision="exact").rows()
    feature = {"type": "Feature", "properties": {}, "geometry": _in_crs_of(cog, _polygon())}

    (found,) = exactextract.exact_extract(str(cog), [feature], ["mean", "count"])

    assert row["pixels"] == pytest.approx(found["properties"]["count"], rel=1e-3)
    assert row["value"] == pytest.approx(found["properties"]["mean"], rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("statistic", ["mean", "median", "p2", "p98"])
def test_box_is_that_of_rio_tiler(cog: Path, statistic: str) -> None:
    """All pixels of the box count, as in titiler's statistics with max_size=None."""
    rio_tiler = module_of_group("rio_tiler.io", "rank-anchors")
    (row,) = rank([cog], by="b1", bbox=lonlat_box(*_TRIANGLE), statistic=statistic, precision="exact").rows()
    col, row_off, width, height = _TRIANGLE

    with rio_tiler.Reader(str(cog)) as reader:
        left, top = reader.dataset.transform @ (col, row_off)
        right, bottom = reader.dataset.transform @ (col + width, row_off + height)
        part = reader.part((left, bottom, right, top), bounds_crs=reader.dataset.crs, max_size=None)
        found = part.statistics(percentiles=[2, 98])["b1"]

    name = {"p2": "percentile_2", "p98": "percentile_98"}.get(statistic, statistic)
    assert row["pixels"] == found.count
    assert row["value"] == pytest.approx(getattr(found, name), rel=1e-9)
