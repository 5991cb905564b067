"""Where all sources of a cube lie, from the header index beside it."""

import asyncio
import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore
from rasterio.transform import from_origin

from geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise
from pixel_gather.core.model.source import Cost
from pixel_gather.features.report.cube_footprints import footprints_of_grids, read_footprints
from pixel_gather.features.report.lonlat import to_lonlat
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.header_index import Grid, write_index


def _tile(x: float, y: float, *, side: int = 1098, pixel: float = 100, crs: str = "EPSG:32633") -> Grid:
    """Return the grid of a Sentinel-2 tile with its upper left corner at a place."""
    return side, side, crs, (pixel, 0.0, x, 0.0, -pixel, y)


@pytest.mark.parametrize("crs", ["EPSG:32601", "EPSG:32633", "EPSG:32760", "EPSG:25832", "EPSG:26910"])
def test_utm_is_what_proj_computes(crs: str) -> None:
    """Both agree to a tenth of a metre, up to a degree beyond the zone, from the equator to 84 degrees."""
    points = np.array(list(product((160_000, 500_000, 840_000), (0, 2_500_000, 5_200_000, 9_300_000))), float)
    xs, ys = RasterioProjector().points(*points.T.tolist(), source_crs=crs, target_crs="EPSG:4326")
    project = to_lonlat(crs)
    assert project is not None

    found = project(points)

    turns = (found[:, 0] - np.array(xs)) / 360
    assert np.abs(turns - turns.round()).max() * 360 < 1e-6
    np.testing.assert_allclose(found[:, 1], ys, atol=1e-6)


def test_web_mercator_is_what_proj_computes() -> None:
    """On a sphere, and geographic CRSs are what they are."""
    points = np.array([[1_000_000.0, 6_000_000.0], [-9_000_000.0, -200.0]])
    xs, ys = RasterioProjector().points(*points.T.tolist(), source_crs="EPSG:3857", target_crs="EPSG:4326")
    mercator, geographic = to_lonlat("EPSG:3857"), to_lonlat("EPSG:4326")
    assert mercator is not None
    assert geographic is not None

    np.testing.assert_allclose(mercator(points), np.stack([xs, ys], axis=-1), atol=1e-9)
    np.testing.assert_array_equal(geographic(points), points)


@pytest.mark.parametrize("crs", ["EPSG:2056", "EPSG:32661", "EPSG:32600", 'PROJCS["?"]', ""])
def test_other_crss_are_not_guessed(crs: str) -> None:
    """Their sources are left out, and the caption counts those that are shown."""
    assert to_lonlat(crs) is None
    assert footprints_of_grids([_tile(300_000, 5_000_040, crs=crs)]) is None


def test_equal_footprints_are_one_ring_with_a_count() -> None:
    """Bands of several resolutions share it, and so do all dates of a tile."""
    grids = [_tile(300_000, 5_000_040), _tile(300_000, 5_000_040, side=549, pixel=200)] * 40
    grids += [_tile(399_960, 5_000_040)] * 20

    found = footprints_of_grids(grids)

    assert found is not None
    assert (found.n_sources, found.n_different, len(found.rings)) == (100, 2, 2)
    assert found.cell_degrees is None
    assert len(found.rings[0]) == 4


@pytest.mark.long
def test_of_many_footprints_a_thousand_are_drawn_at_most() -> None:
    """Those that are drawn are real ones. Larger ones are not lost among the small."""
    random = np.random.default_rng(4)
    places = random.uniform([100_000, 3_000_000], [700_000, 7_000_000], (20_000, 2))
    large = _tile(300_000, 5_000_040, side=10_980)

    found = footprints_of_grids([*(_tile(x, y) for x, y in np.repeat(places, 2, axis=0)), large])
    alone = footprints_of_grids([large])

    assert found is not None
    assert alone is not None
    assert (found.n_sources, found.n_different) == (40_001, 20_001)
    assert 300 < len(found.rings) <= 1000
    assert found.cell_degrees is not None
    assert found.cell_degrees < 2
    assert alone.rings[0] in found.rings


def test_footprints_across_the_antimeridian_are_in_one_piece() -> None:
    """Longitudes go on beyond 180, as those of the window do."""
    found = footprints_of_grids([_tile(200_000, 8_000_000, crs="EPSG:32701")])

    assert found is not None
    xs = [x for x, _ in found.rings[0]]
    assert 0 < max(xs) - min(xs) < 2


def _index(tmp_path: Path, *places: tuple[float, float]) -> bytes:
    entries = []
    for place in places:
        transform = from_origin(*place, 100, 100)
        image = geotiff(
            tmp_path / "a.tif", noise((1, 32, 32), "uint8"), tiled=True, crs="EPSG:32633", transform=transform
        )
        opened = asyncio.run(GeoTiffReader(MemoryObject(image)).open_(HREF, overview=None, cost=Cost()))
        assert opened.packed_header is not None
        entries.append(("s3://b/a.tif", opened.packed_header))
    file = io.BytesIO()
    write_index(iter([entries]), file)
    return file.getvalue()


def test_footprints_are_read_from_the_cubes_own_index(tmp_path: Path) -> None:
    """The index lies beside every cube whose sources our reader has read."""
    store: Any = MemoryStore()
    obstore.put(store, "headers.parquet", _index(tmp_path, (500_000, 5_000_000), (500_000, 5_000_000)))

    found = read_footprints(store)

    assert found is not None
    assert (found.n_sources, found.n_different) == (2, 1)
    assert found.rings[0][0] == pytest.approx((15.0, 45.15348), abs=1e-4)


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"PAR1" * 9])
def test_a_cube_without_a_sound_index_has_none(content: bytes | None) -> None:
    """Its map shows the sampled sources, and nothing fails."""
    store: Any = MemoryStore()
    if content is not None:
        obstore.put(store, "headers.parquet", content)

    assert read_footprints(store) is None
