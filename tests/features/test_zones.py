"""Tables of polygons, against exactextract and rasterstats, and by counting what is read."""

import re
import shlex
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.warp import transform_geom

from parity.truth import SMALL, Truth, truths
from pixel_gather.core.area import Area
from pixel_gather.core.errors import RequestError
from pixel_gather.features.catalog.catalog import make_catalog
from pixel_gather.features.zones.zones import zones
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.open_table import open_zones
from pixel_gather.tables.read_features import FeatureColumns, given_features
from pixel_gather.tables.zone_cells import ZonePlaces, check_zones
from rank.rasters import landscape, make_cog
from support.command_line import run
from support.dependency_groups import module_of_group
from support.geojson import feature
from support.images import write_image
from support.local_server import LocalServer
from support.tables import CRS, LEFT, SIDE, TOP, content_of, make_images, make_scenes, rows_of, serving_files

pytestmark = pytest.mark.usefixtures("without_hedges")

PROJECT: Final = Path(__file__).parents[2]
NAD83: Final = "EPSG:4269"
_ALL: Final = (
    *("count", "sum", "mean", "variance", "stdev", "cv", "min", "max", "median", "p10", "p90", "p0", "p100"),
    *("mode", "minority", "variety"),
)


def _blob(rng: np.random.Generator, x: float, y: float, radius: float) -> shapely.Polygon:
    """Return a polygon with corners at random, which may cross itself."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 20))))
    radii = radius * rng.uniform(0.3, 1, len(angles))
    return shapely.Polygon(np.stack([x + np.cos(angles) * radii, y + np.sin(angles) * radii], axis=1))


def _fields(n: int, *, seed: int = 0) -> list[shapely.Geometry]:
    """Return valid polygons on and over the edge of the made images; some with a hole, some of two parts."""
    rng = np.random.default_rng(seed)
    found: list[shapely.Geometry] = []
    while len(found) < n:
        x, y = LEFT + rng.uniform(-100, 5220), TOP - rng.uniform(-100, 5220)
        shape = shapely.make_valid(_blob(rng, x, y, float(rng.choice([4.0, 40.0, 400.0]))))
        if len(found) % 5 == 1:
            shape = shapely.difference(shape, shapely.Point(x, y).buffer(20))
        if len(found) % 5 == 2:
            shape = shapely.union(shape, shapely.box(x + 500, y, x + 530, y + 25))
        if shape.is_valid and shape.geom_type in ("Polygon", "MultiPolygon") and shape.area > 0:
            found.append(shape)
    return found


def _given(shapes: list[shapely.Geometry]) -> list[dict[str, Any]]:
    return [{"n": n, "wkb": shape.wkb} for n, shape in enumerate(shapes)]


def _rows(features: Any, sources: Any, to: Path, **how: Any) -> list[dict[str, Any]]:
    """Make a table in a folder, and return its lines."""
    zones(features, sources, to=to / "t.parquet", **how)
    return rows_of(to / "t.parquet")


def _places(shapes: list[shapely.Geometry]) -> ZonePlaces:
    features = given_features(_given(shapes), columns=FeatureColumns(id="n", crs=CRS))
    return ZonePlaces(check_zones(features), RasterioProjector(), coverage="fraction")


def _earth(folder: Path, image: np.ndarray[Any, Any], *, west: float = -180) -> str:
    """Write an image of the whole Earth with pixels of a degree."""
    file = folder / "earth.tif"
    return write_image(file, image, west=west, north=90, size=1, crs="EPSG:4326", nodata=None)


def _exactextract(path: Path, shapes: list[shapely.Geometry], names: list[str]) -> list[dict[str, Any]]:
    exactextract = module_of_group("exactextract", "rank-anchors")
    features = [feature(shapely.geometry.mapping(each)) for each in shapes]
    return [each["properties"] for each in exactextract.exact_extract(str(path), features, names)]


def _name_there(statistic: str) -> str:
    names = {"cv": "coefficient_of_variation", "p0": "quantile(q=0)", "p100": "quantile(q=1)"}
    names |= {"p10": "quantile(q=0.1)", "p90": "quantile(q=0.9)"}
    return names.get(statistic, statistic)


def _key_there(statistic: str) -> str:
    names = {"cv": "coefficient_of_variation", "p0": "quantile_0", "p100": "quantile_100"}
    return names.get(statistic, {"p10": "quantile_10", "p90": "quantile_90"}.get(statistic, statistic))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four images of one grid with nodata in a corner, one of classes, and their list."""
    folder = make_images(tmp_path_factory.mktemp("images"), 4)
    classes = np.random.default_rng(5).integers(0, 6, (SIDE, SIDE)).astype("uint8")
    make_cog(folder / "classes.tif", classes, nodata=0)
    make_cog(folder / "float.tif", (landscape(6) * 0.37).astype("float32"), nodata=-1)
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    """Serves the images, and counts."""
    with serving_files(content_of(folder)) as found:
        yield found


def _assert_equal(
    found: dict[str, Any], wanted: dict[str, Any], names: tuple[str, ...], *, dtype: str
) -> None:
    """Compare with exactextract, which returns quantiles in the dtype of the image."""
    largest = abs(wanted["max"] or 1.0)
    rounding = {"stdev": largest, "cv": 1.0, "variance": largest**2}
    for name in names:
        ours, theirs = found[name], wanted[_key_there(name)]
        if name in ("median", "p10", "p90"):
            ours = float(np.array(ours).astype(dtype))
        if theirs is None or theirs != theirs:  # noqa: PLR0124 # NaN
            assert ours is None, name
        else:
            slack = 1e-12 * max(rounding.get(name, 1.0), 1.0)
            assert ours == pytest.approx(float(theirs), rel=1e-12, abs=slack), name


@pytest.mark.parametrize("image", ["0.tif", "classes.tif", "float.tif"])
def test_statistics_are_exactextracts(folder: Path, tmp_path: Path, image: str) -> None:
    """All of them, within 1e-12, for polygons with holes and parts, small ones, and over the edge."""
    shapes = _fields(150)

    lines = _rows(_given(shapes), [str(folder / image)], tmp_path, id="n", crs=CRS, statistics=_ALL)

    rows = {row["id"]: row for row in lines}
    there = _exactextract(folder / image, shapes, [_name_there(name) for name in _ALL])
    assert set(rows) == set(range(150))
    n_compared = 0
    for n, wanted in enumerate(there):
        if rows[n]["status"] == "outside":
            assert not wanted["count"]
            continue
        n_compared += rows[n]["status"] == "ok"
        if rows[n]["status"] == "nodata":
            assert rows[n]["count"] == wanted["count"] == 0
            assert rows[n]["mean"] is None
        else:
            _assert_equal(rows[n], wanted, _ALL, dtype="float32" if image == "float.tif" else "int64")
    assert n_compared > 100


def _can_be_judged(truth: Truth) -> bool:
    is_placed = truth.answers["crs_wkt"] is not None and truth.transform is not None
    if not is_placed or truth.transform is None or truth.dtype.kind == "c" or truth.has_mask:
        return False
    is_small = truth.nbytes < 32 << 20
    return is_small and truth.transform.is_rectilinear and truth.transform.e < 0 < truth.transform.a


@pytest.mark.long
@pytest.mark.parametrize("truth", [*filter(_can_be_judged, truths(SMALL))], ids=lambda truth: truth.file)
def test_real_files_have_exactextracts_statistics(truth: Truth, tmp_path: Path) -> None:
    """Of the first band of every file of the collection that exactextract reads as it is."""
    path = SMALL / truth.file
    with rasterio.open(path) as dataset:
        west, south, east, north = dataset.bounds
        crs, alpha = dataset.crs.to_wkt(), "alpha" in {str(each.name) for each in dataset.colorinterp}
        masked = dataset.read(1, masked=True)
        # Both compute the edges of pixels from large coordinates, in another order: this is their last digit
        rounding = 32 * np.spacing(max(map(abs, dataset.bounds))) / min(dataset.res)
    if alpha or not np.isfinite(masked.astype(float).filled(0)).all():
        return  # exactextract counts infinite values and hidden pixels
    rng = np.random.default_rng(3)
    shapes = [
        _blob(rng, rng.uniform(west, east), rng.uniform(south, north), (north - south) * share)
        for share in (0.02, 0.1, 0.3)
        for _ in range(4)
    ]
    shapes = [shape for shape in shapes if shape.is_valid]
    names = ("count", "mean", "stdev", "min", "max")

    lines = _rows(_given(shapes), [str(path)], tmp_path, id="n", crs=crs, by="b1", statistics=names)

    rows = {row["id"]: row for row in lines}
    for n, answers in enumerate(_exactextract(path, shapes, list(names))):
        wanted = {key.removeprefix("band_1_"): value for key, value in answers.items()}
        if rows[n]["status"] != "ok":
            assert not wanted["count"]
            continue
        scale = max(abs(wanted["max"]), abs(wanted["min"]), 1.0)
        for name in names:
            slack = max(1e-12, rounding) * (max(wanted["count"], 1.0) if name == "count" else scale)
            assert rows[n][name] == pytest.approx(wanted[name], rel=1e-12, abs=slack), name


@pytest.mark.long
def test_fractions_are_exactextracts_bit_for_bit(folder: Path) -> None:
    """Computed in the box of each polygon, as the table does."""
    shapes = _fields(120, seed=1)
    places = _places(shapes)
    header = _header(folder / "float.tif")
    found: dict[int, np.ndarray[Any, Any]] = {}
    for cells in places.on(header):
        for zone, start, stop in zip(
            cells.zones, cells.starts, [*cells.starts[1:], len(cells.cols)], strict=True
        ):
            whole = np.zeros((SIDE, SIDE))
            whole[cells.rows[start:stop], cells.cols[start:stop]] = cells.coverage[start:stop]
            found[int(zone)] = whole
    places.close()

    for n, wanted in enumerate(_exactextract(folder / "float.tif", shapes, ["cell_id", "coverage"])):
        expected = np.zeros(SIDE * SIDE)
        expected[wanted["cell_id"]] = wanted["coverage"]
        assert (found.get(n, np.zeros((SIDE, SIDE))).ravel() == expected).all()


def _header(path: Path) -> Any:
    from pixel_gather.core.model.source import Cost  # noqa: PLC0415 # for this test alone
    from pixel_gather.core.request.request import parse_sources  # noqa: PLC0415 # as above
    from pixel_gather.in_process.job import opened_job  # noqa: PLC0415 # as above
    from pixel_gather.io.event_loop import run  # noqa: PLC0415 # as above

    async def read() -> Any:
        async with opened_job(parse_sources([str(path)]), Settings()) as job:
            return (await job.reader.open_(f"file://{path}", overview=None, cost=Cost())).header

    return run(read())


@pytest.mark.long
@pytest.mark.parametrize("coverage", ["centre", "touched"])
def test_centre_and_touched_are_rasterstats(folder: Path, tmp_path: Path, coverage: str) -> None:
    """The same pixels, and their statistics."""
    rasterstats = module_of_group("rasterstats", "rank-anchors")
    shapes = [
        each for each in _fields(80, seed=2) if shapely.box(LEFT, TOP - 5120, LEFT + 5120, TOP).contains(each)
    ]

    how = {"id": "n", "crs": CRS, "coverage": coverage, "statistics": "count,mean,min,max,stdev,sum"}
    lines = _rows(_given(shapes), [str(folder / "0.tif")], tmp_path, **how)

    rows = {row["id"]: row for row in lines}
    there = rasterstats.zonal_stats(
        shapes,
        str(folder / "0.tif"),
        stats=["count", "mean", "min", "max", "std", "sum"],
        all_touched=coverage == "touched",
    )
    n_compared = 0
    for n, wanted in enumerate(there):
        row = rows[n]
        assert (row["count"] or 0) == wanted["count"]
        if wanted["count"]:
            n_compared += 1
            ours = [row[name] for name in ("mean", "min", "max", "stdev", "sum")]
            theirs = [wanted[name] for name in ("mean", "min", "max", "std", "sum")]
            assert ours == pytest.approx(theirs, rel=1e-12)
    assert n_compared > 30


def test_coverage_is_computed_once_and_tiles_are_fetched_once(server: LocalServer, tmp_path: Path) -> None:
    """However many images have the grid, and however many polygons lie on a tile."""
    hrefs = [f"{server.root}/{n}.tif" for n in range(4)]

    made = zones(_given(_fields(60)), hrefs, to=tmp_path / "t.parquet", id="n", crs=CRS, by="b1")

    fetched = [(each.path, each.range_) for each in server.asked]
    assert len(set(fetched)) == len(fetched) == made.n_requests
    assert made.n_requests <= 4 * (1 + 16)


def test_parts_share_few_tiles(server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polygons are taken in the order of the tiles that they lie on, whatever the order of the file."""
    from pixel_gather.tables import sample_at_pixels, zone_cells  # noqa: PLC0415 # for this test alone

    rng = np.random.default_rng(3)
    shapes = [
        shapely.box(LEFT + x, TOP - y - 100, LEFT + x + 100, TOP - y)
        for x, y in rng.uniform(0, 5000, (200, 2))
    ]
    monkeypatch.setattr(zone_cells, "_MOST_CELLS", 6000)
    monkeypatch.setattr(sample_at_pixels, "_MOST_RUN_NBYTES", 1)  # each tile is a read of its own

    made = zones(_given(shapes), [f"{server.root}/0.tif"], to=tmp_path / "t.parquet", crs=CRS, by="b1")

    # 4 parts: each but the first shares at most a row of 4 tiles, and a corner, with the one before
    assert 1 + 16 <= made.n_requests <= 1 + 16 + 3 * 5


def test_each_grid_and_polygon_is_computed_once(folder: Path) -> None:
    """A second image of the same grid finds what the first one has computed."""
    places = _places(_fields(40))
    for n in range(3):
        assert sum(len(cells.zones) for cells in places.on(_header(folder / f"{n}.tif"))) > 20
    places.close()

    assert places.n_computed <= 40


def test_places_are_closed_while_a_thread_computes_more_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller of the thread was cancelled. Nothing stays on disk, and the thread ends."""
    places = _places(_fields(40))
    computes = threading.Event()
    cells_of = places._cells

    def slowly(*arguments: Any) -> Any:
        computes.set()
        until_s = time.monotonic() + 10
        while not places._is_closed and time.monotonic() < until_s:
            time.sleep(0.001)
        return cells_of(*arguments)

    monkeypatch.setattr(places, "_cells", slowly)
    with ThreadPoolExecutor() as threads:
        found = threads.submit(list, places.on(_header(folder / "0.tif")))
        computes.wait(10)
        places.close()

    assert found.result() == []
    assert not Path(places._folder.name).exists()


def test_expressions_masks_and_grids_of_other_sizes(tmp_path: Path) -> None:
    """As in rankings: values of 10 m, classes of 20 m; a pixel that the mask drops does not count."""
    listed = make_scenes(tmp_path, 1)
    red, nir, classes = (rasterio.open(tmp_path / f"{name}0.tif").read(1) for name in ("red", "nir", "scl"))
    box = shapely.box(LEFT + 1000, TOP - 2000, LEFT + 1500, TOP - 1700)

    mask = {"band": "scl", "drop": [8, 9]}
    (row,) = _rows(
        _given([box]), listed, tmp_path, crs=CRS, by="ndvi,red", statistics="mean,count", mask=mask
    )

    part = slice(170, 200), slice(100, 150)
    kept = np.isin(np.kron(classes, np.ones((2, 2)))[part], [4, 5])
    red_there, nir_there = (each[part] * 0.0001 - 0.1 for each in (red.astype(float), nir.astype(float)))
    ndvi = (nir_there - red_there) / (nir_there + red_there)
    assert row["ndvi_mean"] == pytest.approx(ndvi[kept].mean())
    assert row["red_mean"] == pytest.approx(red_there[kept].mean())
    assert row["ndvi_count"] == row["red_count"] == kept.sum()
    assert row["valid"] == pytest.approx(kept.mean())


def test_a_zone_with_a_value_of_one_band_alone_is_ok(tmp_path: Path) -> None:
    """As a point is: the other band holds nodata in all of the zone."""
    image = np.stack([np.full((8, 8), 9, "uint8"), np.full((8, 8), 5, "uint8")])
    path = write_image(tmp_path / "two.tif", image, west=LEFT, north=TOP, crs=CRS, nodata=9)

    (row,) = _rows(
        _given([shapely.box(LEFT, TOP - 40, LEFT + 40, TOP)]),
        {"hrefs": [path]},
        tmp_path,
        crs=CRS,
        statistics="count",
    )

    assert (row["b1_count"], row["b2_count"], row["valid"], row["status"]) == (0, 16, 0, "ok")


def test_nothing_vanishes(folder: Path, tmp_path: Path) -> None:
    """Invalid, empty, without an area, outside, smaller than a pixel, over nodata: each has a line."""
    bow = shapely.Polygon([(0, 0), (100, 100), (100, 0), (0, 100)])
    at = {"x": LEFT + 1000, "y": TOP - 1000}
    features = [
        {"id": "bow", "wkb": shapely.affinity.translate(bow, at["x"], at["y"] - 100).wkb},
        {"id": "empty", "wkb": None},
        {"id": "far", "wkb": shapely.box(0, 0, 10, 10).wkb},
        {"id": "hole", "wkb": shapely.box(LEFT + 5, TOP - 95, LEFT + 95, TOP - 5).wkb},
        {"id": "line", "wkb": shapely.LineString([(at["x"], at["y"]), (at["x"] + 50, at["y"])]).wkb},
        {"id": "point", "wkb": shapely.Point(at["x"], at["y"]).wkb},
        {"id": "small", "wkb": shapely.box(at["x"] + 1, at["y"] + 1, at["x"] + 3, at["y"] + 3).wkb},
    ]

    made = zones(
        features,
        [str(folder / "0.tif"), str(folder / "no.tif")],
        to=tmp_path / "t.parquet",
        id="id",
        crs=CRS,
        by="b1",
        statistics="count",
    )

    rows = rows_of(tmp_path / "t.parquet")
    assert [(row["id"], row["status"], row["count"]) for row in rows] == [
        ("bow", "ok", pytest.approx(50)),
        ("empty", "empty", None),
        ("far", "unread", None),
        ("hole", "nodata", 0.0),
        ("line", "no_area", None),
        ("point", "no_area", None),
        ("small", "ok", pytest.approx(0.04)),
        (None, "missing", None),
    ]
    assert made.notes[:-1] == (
        "1 feature without coordinates: the table says empty",
        "1 invalid polygon made valid",
        "2 features without an area: the table says no_area",
    )
    assert "is missing: " in made.notes[-1]


def test_edges_stay_straight_in_another_crs(folder: Path, tmp_path: Path) -> None:
    """A polygon in degrees covers what it covers after cutting its edges into many small ones."""
    box = shapely.box(LEFT + 200, TOP - 5000, LEFT + 5000, TOP - 200)
    lonlat = shapely.geometry.shape(transform_geom(CRS, "EPSG:4326", shapely.geometry.mapping(box)))
    dense = shapely.segmentize(lonlat, 1e-4)
    moved = shapely.geometry.shape(transform_geom("EPSG:4326", CRS, shapely.geometry.mapping(dense)))

    image = [str(folder / "0.tif")]
    (row,) = _rows([{"wkt": lonlat.wkt}], image, tmp_path, by="b1", statistics="count,mean")

    (wanted,) = _exactextract(folder / "0.tif", [moved], ["count", "mean"])
    assert row["count"] == pytest.approx(wanted["count"], rel=1e-4)
    assert row["mean"] == pytest.approx(wanted["mean"], rel=1e-4)


def test_scenes_between_a_polygons_ends_and_180_degrees_are_found(tmp_path: Path) -> None:
    """Before, a search of a catalog looked for them on the other side of the Earth."""
    pixels = np.arange(100 * 30, dtype="uint16").reshape(100, 30)
    path = write_image(
        tmp_path / "a-20240101.tif", pixels, west=179.6, north=2, size=0.01, crs="EPSG:4326", nodata=None
    )
    make_catalog({"hrefs": [str(path)], "time": "-%Y%m%d"}, kind="sources", to=tmp_path / "c.parquet")
    ring = shapely.Polygon([(179.5, 1.2), (-179.5, 1.2), (-179.5, 1.8), (179.5, 1.8)])
    catalog = {"catalog": {"file": str(tmp_path / "c.parquet"), "assets": ["data"]}}

    (row,) = _rows(_given([ring]), catalog, tmp_path, statistics="count")

    assert row["count"] == pytest.approx(60 * 30)


_CUT = [shapely.box(178, 5, 180, 7), shapely.box(-180, 5, -178, 7)]
_RING = shapely.Polygon([(179, 0), (-179, 0), (-179, 2), (179, 2)])


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        # On the map it crosses itself: one corner lies far in the west
        (shapely.Polygon([(-179, 2), (179, 4), (178, 5), (176, 1), (179, 0.5)]), 11.75),
        (shapely.MultiPolygon([_RING, shapely.box(-170, 0, -168, 2)]), 8),
        (shapely.MultiPolygon([_RING, shapely.box(170, 0, 172, 2)]), 8),
        (shapely.MultiPolygon([_RING, shapely.box(-2, 0, 2, 2)]), 12),
        (shapely.MultiPolygon([*_CUT, _RING]), 12),
        (shapely.MultiPolygon([*_CUT, shapely.box(-2, 0, 2, 2)]), 16),
        (shapely.box(-150, 0, 150, 9).segmentize(99).difference(shapely.box(110, 2, 112, 4)), 2696),
    ],
)
def test_each_part_of_a_polygon_crosses_180_degrees_by_itself(
    tmp_path: Path, shape: shapely.Geometry, n: float
) -> None:
    """Other parts stay where they are, also those that it lies over on the map, or that lie around 0."""
    earth = _earth(tmp_path, np.ones((180, 360), "uint8"))

    (row,) = _rows(_given([shape]), [earth], tmp_path, statistics="count")
    area = Area.of_geojson(shapely.geometry.mapping(shape), field="area")

    assert row["count"] == pytest.approx(n)
    assert area.shape.area == pytest.approx(n)


@pytest.mark.parametrize(("west", "crs"), [(-180, None), (0, None), (170, None), (-180, NAD83), (0, NAD83)])
def test_a_polygon_across_180_degrees(tmp_path: Path, west: int, crs: str | None) -> None:
    """As one piece or cut in two, on an image of the whole Earth, wherever it begins to count longitudes.

    Longitudes in another CRS are longitudes, too.
    """
    image = np.arange(360 * 180, dtype="uint16").reshape(180, 360)
    earth = _earth(tmp_path, image, west=west)
    whole = shapely.Polygon([(178, 0), (-178, 0), (-178, 3), (178, 3)])
    cut = shapely.MultiPolygon([shapely.box(178, 0, 180, 3), shapely.box(-180, 0, -178, 3)])
    beyond = [shapely.box(178, 0, 182, 3), shapely.box(-182, 0, -178, 3)]

    rows = _rows(_given([whole, cut, *beyond]), [earth], tmp_path, crs=crs, statistics="count,min,max")

    both = np.roll(image, west - 178, axis=1)[87:90, :4]
    assert [(row["count"], row["min"], row["max"]) for row in rows] == [(12, both.min(), both.max())] * 4
    assert {row["valid"] for row in rows} == {1}


@pytest.mark.long
@pytest.mark.parametrize("west", [-180, 0])
def test_a_polygon_on_a_map_without_an_end_at_180_degrees(tmp_path: Path, west: int) -> None:
    """Its edges go on at the other end of the image. Beside the hole of the last one lies the Pole."""
    image = np.repeat(np.arange(180, dtype="uint8"), 360).reshape(180, 360)
    earth = _earth(tmp_path, image, west=west)
    degree, north_10 = 111_319.490793, 1_111_475.102852  # of Mercator: x, and y of 10 degrees north
    mercator = [shapely.box(20 * degree, 0, 40 * degree, north_10), shapely.box(0, 0, 359 * degree, north_10)]
    at_80, at_85 = (shapely.Point(0, 0).buffer(metres, quad_segs=180) for metres in (1_085_943, 541_765))

    for crs, shapes in (
        ("EPSG:3832", mercator[:1]),
        ("+proj=merc +lon_0=-180 +datum=WGS84", [shapely.affinity.translate(mercator[1], -180 * degree)]),
        ("EPSG:3413", [at_80, at_80 - at_85, at_80 & shapely.box(-1e9, -1e9, 0, 1e9)]),
    ):
        folder = tmp_path / f"{len(shapes)}{crs[:5].strip('+')}"
        folder.mkdir()
        rows = _rows(_given(shapes), [earth], folder, crs=crs, statistics="count,mean")
        found = [(row["count"], row["mean"], row["valid"]) for row in rows]

        by_crs = {
            "EPSG:3832": [(200, 84.5, 1)],
            "EPSG:3413": [(3600, 4.5, 1), (1800, 7, 1), (1800, 4.5, 1)],
        }
        assert found == [pytest.approx(each, rel=2e-3) for each in by_crs.get(crs, [(3590, 84.5, 1)])]


def test_a_polygon_over_an_end_of_a_map_that_is_no_straight_line_is_outside(tmp_path: Path) -> None:
    """Its edges go from one end to the other. One that touches none of the ends has its own pixels."""
    image = np.ones((400, 800), "uint8")
    place: dict[str, Any] = {"west": -20e6, "north": 10e6, "size": 5e4}
    path = write_image(tmp_path / "earth.tif", image, **place, crs="+proj=sinu +R=6371007", nodata=None)
    beside, across = (shapely.box(x, 55e5, x + 3e5, 59e5) for x in (6e5, 1e5))

    rows = _rows(_given([beside, across]), [path], tmp_path, crs="EPSG:32601", statistics="count")

    found = [(row["count"], row["status"]) for row in rows]
    assert found == [(pytest.approx(48, rel=5e-3), "ok"), (None, "outside")]


def test_a_turned_grid(tmp_path: Path) -> None:
    """Shares are those of the polygon in the image's own pixels."""
    turned = (
        rasterio.Affine.translation(LEFT, TOP) @ rasterio.Affine.rotation(30) @ rasterio.Affine.scale(10, -10)
    )
    path = write_image(tmp_path / "turned.tif", np.full((50, 50), 7, "uint8"), crs=CRS, transform=turned)
    corners = [turned @ at for at in ((10, 10), (20, 10), (20, 15.5), (10, 15.5))]

    (row,) = _rows(_given([shapely.Polygon(corners)]), [path], tmp_path, crs=CRS, statistics="count,mean")

    assert (row["count"], row["mean"]) == (pytest.approx(55, rel=1e-5), pytest.approx(7, rel=1e-12))


def test_frac_is_the_share_of_a_class(folder: Path, tmp_path: Path) -> None:
    """Of what counts; a class that is not there has 0."""
    shapes = _fields(20, seed=4)

    image = [str(folder / "classes.tif")]
    lines = _rows(_given(shapes), image, tmp_path, id="n", crs=CRS, statistics="frac_4,frac_77")

    rows = [row for row in lines if row["status"] == "ok"]
    there = _exactextract(folder / "classes.tif", shapes, ["unique", "frac"])
    for row in rows:
        wanted = dict(zip(there[row["id"]]["unique"], there[row["id"]]["frac"], strict=True))
        assert row["frac_4"] == pytest.approx(wanted.get(4, 0.0), rel=1e-12)
        assert row["frac_77"] == 0


@pytest.mark.long
def test_many_parts_make_the_same_table(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polygons are taken some at a time, and so are their statistics; the lines are the same."""
    from pixel_gather.tables import zone_cells  # noqa: PLC0415 # for this test alone

    shapes = _given(_fields(50))
    asked: dict[str, Any] = {"id": "n", "crs": CRS, "statistics": _ALL}
    one = zones(shapes, str(folder / "list.csv"), to=tmp_path / "a.parquet", **asked)
    monkeypatch.setattr(zone_cells, "_MOST_CELLS", 3000)
    monkeypatch.setattr(zone_cells, "_MOST_KEPT_CELLS", 1)
    monkeypatch.setattr(zone_cells, "_MOST_OF_BLOCK", 300)
    other = zones(shapes[::-1], str(folder / "list.csv"), to=tmp_path / "b.parquet", **asked)

    assert one.digest == other.digest


def test_a_table_opens_as_arrays_of_geometry_and_time(folder: Path, tmp_path: Path) -> None:
    """Each value lies at its feature and time. Of two images of one time, the first with a value counts."""
    shapes = [
        shapely.box(LEFT + 10, TOP - 100, LEFT + 100, TOP - 10),  # without data in all but the last image
        shapely.box(LEFT + 1000, TOP - 1900, LEFT + 1500, TOP - 1500),
        shapely.box(LEFT - 900, TOP - 100, LEFT - 800, TOP),  # on no image
    ]
    (tmp_path / "list.csv").write_text(
        f"href,time\n{folder}/0.tif,2024-06-01\n{folder}/float.tif,2024-06-01\n{folder}/1.tif,2024-06-02\n"
    )
    given = [{"n": n, "crop": f"c{n}", "wkb": shape.wkb} for n, shape in enumerate(shapes)]
    zones(given, str(tmp_path / "list.csv"), to=tmp_path / "t.parquet", id="n", crs=CRS)

    found = open_zones(tmp_path / "t.parquet")

    assert found["mean"].dims == ("geometry", "time")
    assert found["id"].values.tolist() == [0, 1, 2]
    assert found["crop"].values.tolist() == ["c0", "c1", "c2"]
    assert all(shapely.equals(found["geometry"].values, shapes))
    assert rasterio.CRS.from_user_input(found.attrs["crs"]).to_epsg() == int(CRS[5:])
    rows = {(row["id"], Path(row["href"] or "").name): row["mean"] for row in rows_of(tmp_path / "t.parquet")}
    means = found["mean"].values
    assert means[0, 0] == rows[0, "float.tif"]
    assert means[1].tolist() == [rows[1, "0.tif"], rows[1, "1.tif"]]
    assert np.isnan(means[[0, 2, 2], [1, 0, 1]]).all()
    assert open_zones(tmp_path / "t.parquet", ids=[1])["mean"].values.tolist() == [means[1].tolist()]


def test_the_example_of_the_page_shows_the_season(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight real scenes of Landsat: forest is greenest in July, and greener than fields and city."""
    page = (PROJECT / "docs/points-and-zones.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page.partition("## The seasons of 2018")[2], re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(PROJECT / "tests")
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        words, _, to = line.partition(" > ")
        with Path(to or "output.txt").open("w") as file, redirect_stdout(file):
            assert run(*shlex.split(words)[1:]) == 0

    means = open_zones("areas.parquet")["mean"].sel(time="2018-07-10").values.tolist()
    assert means == pytest.approx([0.22, 0.40, 0.70], abs=0.005)  # city, fields, forest
    rows = rows_of(Path("matchups.parquet"))
    assert [row["status"] for row in rows] == ["ok"] * 5 + ["unmatched"]
    assert [row["days_apart"] for row in rows] == [3.0, 7.0, -5.0, -3.0, 6.0, None]


def test_points_are_refused(folder: Path, tmp_path: Path) -> None:
    """With the command that takes them; and polygons are by points."""
    with pytest.raises(RequestError, match="use pixel-gather points"):
        zones([{"lon": 1.0, "lat": 2.0}], [str(folder / "0.tif")], to=tmp_path / "t.parquet")
    wrong: tuple[dict[str, Any], ...] = (
        {"statistics": "best"},
        {"statistics": "mean,mean"},
        {"coverage": "all"},
    )
    for changes in wrong:
        with pytest.raises(RequestError, match=next(iter(changes))):
            zones(_given(_fields(1)), [str(folder / "0.tif")], to=tmp_path / "t.parquet", crs=CRS, **changes)


def test_a_table_without_statistics_is_refused(tmp_path: Path) -> None:
    """Every image would be read for nothing."""
    square = _given([shapely.box(LEFT, TOP - 9, LEFT + 9, TOP)])
    with pytest.raises(RequestError, match=r"^statistics: it is empty; write names, such as mean,p90"):
        _rows(square, ["a.tif"], tmp_path, crs=CRS, statistics=[])
