"""Tables of points, against rasterio on real files, and by counting what is read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
import rasterio
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform as warp_points

from parity.truth import SMALL, Truth, truths
from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather.features.points.points import points
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.in_process.table_job import MadeTable, make_table, plan_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables import place_points
from pixel_gather.tables.table_plan import TablePlan
from pixel_gather.tables.table_request import TableRequest
from pixel_gather.tables.wide_table import write_wide
from scenes.scenes import item
from support.dependency_groups import module_of_group
from support.images import write_image
from support.local_server import LocalServer
from support.tables import (
    CRS,
    LEFT,
    SIDE,
    SIZE,
    TOP,
    content_of,
    make_images,
    make_scenes,
    rows_of,
    serving_files,
)

pytestmark = pytest.mark.usefixtures("without_hedges")

TILE: Final = 128


def _xy(cols: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """Return points in the CRS of the made images, by their place in pixels."""
    return [{"x": LEFT + col * SIZE, "y": TOP - row * SIZE} for col, row in zip(cols, rows, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images of one grid with nodata in a corner, and their list."""
    return make_images(tmp_path_factory.mktemp("images"), 5, scaling=(0.5, -1.0))


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    """Serves the images, and counts."""
    with serving_files(content_of(folder)) as found:
        yield found


@pytest.fixture
def clusters() -> list[dict[str, Any]]:
    """200 points in two places."""
    rng = np.random.default_rng(7)
    middles = rng.choice([[200.0, 300.0], [60.0, 60.0]], 200)
    cols, rows = (middles + rng.normal(0, 15, (200, 2))).T
    return _xy(cols, rows)


def _are_placed(truth: Truth) -> bool:
    """Return whether a file has a place on the map, numbers that have an order, and no block of 512 MiB."""
    is_placed = truth.answers["crs_wkt"] is not None and truth.transform is not None
    return is_placed and truth.dtype.kind != "c" and truth.nbytes < 512 << 20


@pytest.mark.long
@pytest.mark.parametrize("truth", [*filter(_are_placed, truths(SMALL))], ids=lambda truth: truth.file)
def test_nearest_is_rasterios_sample_on_real_files(truth: Truth, tmp_path: Path) -> None:
    """All bands of every file of the collection, at random points and at corners of pixels.

    Longitudes beyond an image may lie on it after a turn around the Earth, which rasterio does not look for.
    """
    path = SMALL / truth.file
    with rasterio.open(path) as dataset:
        rng = np.random.default_rng(1)
        at = rng.uniform(-0.05, 1.05, (40, 2)) * (dataset.width, dataset.height)
        at = np.concatenate([at, np.floor(at[:10])])  # corners of pixels
        xys = [dataset.transform @ (col, row) for col, row in at]
        box = dataset.bounds
        turned = [
            next((x + turn for turn in (-360, 360) if box.left < x + turn < box.right), x)
            if dataset.crs.is_geographic and not box.left <= x <= box.right
            else x
            for x, _ in xys
        ]
        places = [(x, y) for x, (_, y) in zip(turned, xys, strict=True)]
        expected = list(dataset.sample(places, masked=True))
        inside = [
            0 <= row < dataset.height and 0 <= col < dataset.width
            for row, col in (dataset.index(*place) for place in places)
        ]
        crs = dataset.crs.to_wkt()
    features = [{"x": x, "y": y, "n": n} for n, (x, y) in enumerate(xys)]

    points(features, [str(path)], to=tmp_path / "t.parquet", id="n", x="x", y="y", crs=crs)

    rows = rows_of(tmp_path / "t.parquet")
    assert [row["id"] for row in rows] == list(range(len(xys)))
    for row, values, is_inside in zip(rows, expected, inside, strict=True):
        assert (row["status"] != "outside") == is_inside
        found = [row[f"b{number}"] for number in range(1, len(values) + 1)]
        wanted = [
            None if not is_inside or value is np.ma.masked or not np.isfinite(float(value)) else float(value)
            for value in values
        ]
        assert found == wanted


@pytest.mark.long
@pytest.mark.parametrize("west", [-180, -180.5, 0, 170])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:4269"])
def test_longitudes_go_around_the_earth(west: float, crs: str, tmp_path: Path) -> None:
    """Wherever image and features begin to count them."""
    image = np.arange(360 * 180, dtype="uint16").reshape(180, 360)
    path = write_image(tmp_path / "a.tif", image, west=west, north=90, size=1, crs=crs, nodata=None)
    lons = [-359.75, -180.0, -179.75, -10.25, 0.0, 0.25, 179.25, 180.0, 190.25, 359.25, 360.0]
    features = [{"n": n, "lon": lon, "lat": 0.5} for n, lon in enumerate(lons)]

    tables = {given: tmp_path / f"{given}.parquet" for given in (None, "EPSG:4269")}
    for given, table in tables.items():
        points(features, [path], to=table, id="n", crs=given)

    expected = [image[89, int((lon - west) % 360)] for lon in lons]
    for table in tables.values():
        assert [row["b1"] for row in rows_of(table)] == expected


def test_points_in_degrees_lie_where_rasterio_finds_them(folder: Path, tmp_path: Path) -> None:
    """They are transformed by PROJ, as rasterio does."""
    rng = np.random.default_rng(2)
    cols, rows = rng.uniform(0, SIDE, (2, 500))
    xs, ys = LEFT + cols * SIZE, TOP - rows * SIZE
    lons, lats = warp_points(CRS, "EPSG:4326", xs, ys)
    features = [{"lon": lon, "lat": lat} for lon, lat in zip(lons, lats, strict=True)]

    points(features, [str(folder / "0.tif")], to=tmp_path / "t.parquet")

    with rasterio.open(folder / "0.tif") as dataset:
        xys = zip(*warp_points("EPSG:4326", dataset.crs, lons, lats), strict=True)
        expected = [int(value[0]) for value in dataset.sample(xys)]
    assert [row["b1"] or 0 for row in rows_of(tmp_path / "t.parquet")] == expected


def test_each_tile_is_fetched_once(
    server: LocalServer, clusters: list[dict[str, Any]], tmp_path: Path
) -> None:
    """However many points lie on it: one request for the header and at most one for each tile."""
    hrefs = [f"{server.root}/{n}.tif" for n in range(5)]

    made = points(clusters, hrefs, to=tmp_path / "t.parquet", crs=CRS)

    tiles = {
        (int((each["x"] - LEFT) / SIZE) // TILE, int((TOP - each["y"]) / SIZE) // TILE) for each in clusters
    }
    assert made.n_requests == len(server.asked) <= 5 * (1 + len(tiles))
    fetched = [(each.path, each.range_) for each in server.asked]
    assert len(set(fetched)) == len(fetched)
    assert made.n_lines == 5 * len(clusters)


def test_bilinear_is_gdals(folder: Path, tmp_path: Path) -> None:
    """Also next to pixels without data, and at the edge of the image."""
    rng = np.random.default_rng(3)
    cols, rows = rng.uniform(0, SIDE, (2, 300))
    cols[:100], rows[:100] = rng.uniform(36, 44, (2, 100))
    cols[100:110] = 0.2
    features = _xy(cols, rows)

    points(features, [str(folder / "0.tif")], to=tmp_path / "t.parquet", crs=CRS, method="bilinear")

    rows_found = rows_of(tmp_path / "t.parquet")
    with rasterio.open(folder / "0.tif") as dataset:
        for feature, row in zip(features, rows_found, strict=True):
            moved = rasterio.Affine(SIZE, 0, feature["x"] - SIZE / 2, 0, -SIZE, feature["y"] + SIZE / 2)
            with WarpedVRT(
                dataset,
                crs=dataset.crs,
                transform=moved,
                width=1,
                height=1,
                resampling=Resampling.bilinear,
                dtype="float64",
                XSCALE=1,
                YSCALE=1,
            ) as vrt:
                expected = vrt.read(1, masked=True)[0, 0]
            if row["b1"] is None:
                assert row["status"] == "nodata"
            elif expected is not np.ma.masked:  # GDAL drops a value with too little weight
                assert row["b1"] == pytest.approx(float(expected), rel=1e-6)


def test_a_square_is_numpys_mean(folder: Path, tmp_path: Path) -> None:
    """Of the pixels that hold data; their number is told."""
    cols, rows = np.array([100.5, 40.5, 0.5, 10.5]), np.array([100.5, 40.5, 500.5, 10.5])

    points(_xy(cols, rows), [str(folder / "0.tif")], to=tmp_path / "t.parquet", crs=CRS, square=3)

    with rasterio.open(folder / "0.tif") as dataset:
        pixels = dataset.read(1, masked=True)
    for row, col, line in zip(
        rows.astype(int), cols.astype(int), rows_of(tmp_path / "t.parquet"), strict=True
    ):
        part = pixels[max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
        assert line["count"] == part.count()
        assert line["valid"] == pytest.approx(part.count() / 9)
        assert line["b1"] == (pytest.approx(part.mean()) if part.count() else None)
        assert line["status"] == ("ok" if part.count() else "nodata")


@pytest.mark.long
def test_expressions_and_masks_are_those_of_rankings(tmp_path: Path) -> None:
    """Of physical values, pixel by pixel; the mask has another grid."""
    rng = np.random.default_rng(4)
    cols, rows = rng.uniform(0, SIDE, (2, 200))

    listed, mask = make_scenes(tmp_path, 3), {"band": "scl", "drop": [8, 9]}
    points(_xy(cols, rows), listed, to=tmp_path / "t.parquet", crs=CRS, by="ndvi,both=red+nir", mask=mask)

    found = rows_of(tmp_path / "t.parquet")
    assert len(found) == 3 * 200
    for n in range(3):
        read = {}
        for name in ("red", "nir", "scl"):
            with rasterio.open(tmp_path / f"{name}{n}.tif") as dataset:
                read[name] = dataset.read(1).astype(float)
        at = rows.astype(int), cols.astype(int)
        red, nir = (read[name][at] * 0.0001 - 0.1 for name in ("red", "nir"))
        dropped = np.isin(read["scl"][rows.astype(int) // 2, cols.astype(int) // 2], [8, 9])
        lines = found[n::3]
        for line, one, other, is_dropped in zip(lines, red, nir, dropped, strict=True):
            assert line["scene"] == f"scene {n}"
            assert line["status"] == ("masked" if is_dropped else "ok")
            assert line["ndvi"] == (None if is_dropped else pytest.approx((other - one) / (other + one)))
            assert line["both"] == (None if is_dropped else pytest.approx(one + other))


def test_nothing_vanishes(folder: Path, tmp_path: Path) -> None:
    """A point outside, an empty one, an image that is missing: each has a line."""
    features = [
        {"id": "in", "x": LEFT + 1000, "y": TOP - 1000},
        {"id": "far", "x": 0.0, "y": 0.0},
        {"id": "none", "x": None, "y": None},
        {"id": "hole", "x": LEFT + 5, "y": TOP - 5},
    ]
    hrefs = [str(folder / "0.tif"), str(folder / "no.tif")]

    made = points(features, hrefs, to=tmp_path / "t.parquet", id="id", crs=CRS)

    rows = rows_of(tmp_path / "t.parquet")
    assert [(row["id"], row["status"]) for row in rows] == [
        ("far", "unread"),
        ("hole", "nodata"),
        ("in", "ok"),
        ("none", "empty"),
        (None, "missing"),
    ]
    assert "no.tif" in rows[-1]["href"]
    assert made.n_failed == 1
    assert dict(made.n_by_status) == {"ok": 1, "missing": 1, "unread": 1, "nodata": 1, "empty": 1}
    empty, gone = made.notes
    assert empty == "1 feature without coordinates: the table says empty"
    assert "no.tif is missing: " in gone


def test_a_table_of_something_else_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    """The same request makes the same table again. Nothing is lost by another one."""
    to, hrefs = tmp_path / "t.parquet", [str(folder / f"{n}.tif") for n in range(3)]
    how: dict[str, Any] = {"to": to, "crs": CRS}
    place = [{"x": LEFT + 1000, "y": TOP - 1000}]
    first = points(place, hrefs[:2], **how)
    kept = to.read_bytes()

    assert points(place, hrefs[:2], **how).digest == first.digest
    others: list[tuple[Any, list[str], dict[str, Any], str]] = [
        (place, hrefs, {}, "of another list"),
        ([{"x": LEFT + 2000, "y": TOP - 1000}], hrefs[:2], {}, "of other features"),
        (place, hrefs[:2], {"square": 3}, "with another value of square"),
    ]
    for features, sources, more, says in others:
        with pytest.raises(RequestError, match=rf"^to: .*t\.parquet was made {says}: choose another name"):
            points(features, sources, **how, **more)
    points(place, hrefs, append_to=to, crs=CRS)
    with pytest.raises(RequestError, match=r"t\.parquet has grown: choose"):
        points(place, hrefs, **how)
    (tmp_path / "other.parquet").write_bytes(kept)
    with pytest.raises(RequestError, match="no table of ours: choose another name"):
        points(place, hrefs, to=tmp_path / "other.parquet", crs=CRS)
    with pytest.raises(RequestError, match=r"^append_to: .* no table of ours: choose another name"):
        points(place, hrefs, append_to=tmp_path / "other.parquet", crs=CRS)
    to.unlink()
    assert points(place, hrefs[:1], **how).n_images == 1


def test_a_wide_table_tells_how_many_values_it_lacks(folder: Path, tmp_path: Path) -> None:
    """Of images of one time, the first with a value of the feature counts."""
    features = [{"id": "hole", "x": LEFT + 5, "y": TOP - 5}, {"id": "in", "x": LEFT + 1000, "y": TOP - 1000}]
    days = {0: "2024-01-01", 1: "2024-01-01", 2: "2024-01-02"}
    rows = [{"href": str(folder / f"{n}.tif"), "time": day} for n, day in days.items()]
    points(features, {"rows": rows}, to=tmp_path / "t.parquet", id="id", crs=CRS)

    assert write_wide(tmp_path / "t.parquet", tmp_path / "w.csv") == 1

    first, _, third = [row["b1"] for row in rows_of(tmp_path / "t.parquet") if row["id"] == "in"]
    assert (tmp_path / "w.csv").read_text().splitlines() == [
        "id,2024-01-01,2024-01-02",
        "hole,,",
        f"in,{first},{third}",
    ]


def test_images_without_a_time_share_a_wide_column(folder: Path, tmp_path: Path) -> None:
    """Its title is no empty text, which readers of CSV would replace."""
    features = [{"id": "in", "x": LEFT + 1000, "y": TOP - 1000}]
    rows = [{"href": str(folder / f"{n}.tif"), "time": time} for n, time in enumerate(("", "2024-01-02", ""))]
    points(features, {"rows": rows}, to=tmp_path / "t.parquet", id="id", crs=CRS)

    assert write_wide(tmp_path / "t.parquet", tmp_path / "w.csv") == 1

    assert (tmp_path / "w.csv").read_text().splitlines()[0] == "id,no time,2024-01-02"


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_an_image_without_a_point_is_no_error(folder: Path, tmp_path: Path, method: Any) -> None:
    """A plain list does not say where its images lie."""
    to = tmp_path / "t.parquet"
    made = points([{"x": 9e5, "y": TOP}], str(folder / "list.csv"), to=to, crs=CRS, method=method)

    assert [row["status"] for row in rows_of(to)] == ["outside"]
    assert made.notes[-1] == "no feature lies on an image: is their CRS EPSG:32633, with x first?"


def test_a_feature_that_may_lie_on_an_unread_image_is_not_unmatched(folder: Path, tmp_path: Path) -> None:
    """The image may show it, if its time is within the tolerance."""
    at = {"x": LEFT + 1000, "y": TOP - 1000}
    times = ("2024-06-02T11:59:59Z", "2024-06-02T12:00:00Z", "2024-06-04", "2024-06-05T12:00:00Z", "")
    features = [{"id": n, "visited": time, **at} for n, time in enumerate(times)]
    rows = [{"href": str(folder / f"no{day}.tif"), "time": f"2024-06-0{day}"} for day in (3, 5)]
    rows.append({"href": str(folder / "no.tif")})

    how: dict[str, Any] = {"id": "id", "crs": CRS, "time": "visited", "by": "b1"}
    points(features, {"rows": rows}, to=tmp_path / "t.parquet", tolerance="12h", **how)

    lines = [(row["id"], row["status"]) for row in rows_of(tmp_path / "t.parquet")]
    expected = ["unmatched", "unread", "unmatched", "unread", "unmatched"]
    assert lines == [*enumerate(expected), (None, "missing"), (None, "missing")]


def test_only_pairs_near_in_time_are_read(server: LocalServer, tmp_path: Path) -> None:
    """Images that are near no point are not opened, and each line tells both times."""
    at = {"x": LEFT + 1000, "y": TOP - 1000}
    features = [
        {"id": 1, "visited": "2024-06-02T12:00:00Z", **at},
        {"id": 1, "visited": "2024-06-04", **at},
        {"id": 2, "visited": "2023-01-01", **at},
        {"id": 3, "visited": "", **at},
    ]
    rows = [{"href": f"{server.root}/{n}.tif", "time": f"2024-06-{n + 1:02d}"} for n in range(5)]

    how: dict[str, Any] = {"id": "id", "crs": CRS, "time": "visited", "tolerance": "12h", "by": "b1"}
    made = points(features, {"rows": rows}, to=tmp_path / "t.parquet", **how)

    lines = rows_of(tmp_path / "t.parquet")
    assert [
        (row["id"], row["time"] and row["time"].day, row["days_apart"], row["status"]) for row in lines
    ] == [
        (1, 2, -0.5, "ok"),
        (1, 3, 0.5, "ok"),
        (1, 4, 0.0, "ok"),
        (2, None, None, "unmatched"),
        (3, None, None, "unmatched"),
    ]
    assert {each.path for each in server.asked} == {"/1.tif", "/2.tif", "/3.tif"}
    assert made.n_far == 2


@pytest.mark.parametrize("n_with", [0, 1, 2])
def test_images_without_a_time_are_told_where_times_count(n_with: int, folder: Path, tmp_path: Path) -> None:
    """Else a list without times gives a table without a value, and no word why."""
    features = [{"id": 1, "visited": "2024-06-01", "x": LEFT + 1000, "y": TOP - 1000}]
    times = ["2024-06-01"] * n_with + [""] * (2 - n_with)
    rows = [{"href": str(folder / f"{n}.tif"), "time": time} for n, time in enumerate(times)]
    how: dict[str, Any] = {"id": "id", "crs": CRS}

    without = points(features, {"rows": rows}, to=tmp_path / "all.parquet", **how)
    made = points(
        features, {"rows": rows}, to=tmp_path / "near.parquet", time="visited", tolerance="1d", **how
    )

    has = "has" if n_with else "have"
    told = f"{2 - n_with} of 2 images {has} no time, so no feature is near in time"
    assert [told in note for note in made.notes if "no time" in note] == [True] * (n_with < 2)
    assert not any("no time" in note for note in without.notes)


def test_scenes_of_a_search_that_no_feature_lies_on_are_never_opened(
    server: LocalServer, tmp_path: Path
) -> None:
    """Though the box around all features has them. A note tells how many."""
    lons, lats = warp_points(CRS, "EPSG:4326", [LEFT + 1000], [TOP - 1000])
    lon, lat = lons[0], lats[0]
    boxes = [(lon - 0.1, lat - 0.1, lon + 0.1, lat + 0.1), (lon + 0.5, lat, lon + 0.6, lat + 0.6)]
    items = [
        item(f"s{n}", box=box, assets={"red": {"href": f"{server.root}/{n}.tif"}})
        for n, box in enumerate(boxes)
    ]
    features = [{"lon": lon, "lat": lat}, {"lon": lon + 1, "lat": lat + 1}]

    made = points(features, {"stac": {"items": items}}, to=tmp_path / "t.parquet", by="red")

    assert {each.path for each in server.asked} == {"/0.tif"}
    assert made.notes == ("1 scene found that no feature lies on: left out",)
    assert [row["status"] for row in rows_of(tmp_path / "t.parquet")] == ["ok", "outside"]


def test_a_stopped_job_goes_on(server: LocalServer, clusters: list[dict[str, Any]], tmp_path: Path) -> None:
    """What was read is not read again, and the table is the same. A torn last record is done anew."""
    hrefs = [f"{server.root}/{n}.tif" for n in range(5)]
    request = TableRequest.of(features=clusters, sources=hrefs, crs=CRS, by="b1")
    to = tmp_path / "t.parquet"

    def stop(progress: Progress) -> None:
        if progress.n_done == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(
            make_table(
                PointTable(Method()), request, to=to, settings=Settings(concurrency=1), on_progress=stop
            )
        )
    log = to.with_name("t.parquet.parts") / "images.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    n_before = len(server.asked)
    assert not to.exists()
    made = run(make_table(PointTable(Method()), request, to=to))

    asked_again = {each.path for each in server.asked[n_before:]}
    assert asked_again == {"/2.tif", "/3.tif", "/4.tif"}
    assert not log.parent.exists()
    whole = points(clusters, hrefs, to=tmp_path / "u.parquet", crs=CRS, by="b1")
    assert made.digest == whole.digest
    assert made.n_requests == whole.n_requests


def test_the_table_is_the_same_however_it_is_made(
    folder: Path, clusters: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Whatever the order of the list and of the points, and the number of images at one time."""
    numbered = [{**each, "n": n} for n, each in enumerate(clusters)]
    rows = [{"href": str(folder / f"{n}.tif"), "time": f"2024-06-{n + 1:02d}"} for n in range(5)]
    how: dict[str, Any] = {"id": "n", "crs": CRS}
    first = points(numbered, {"rows": rows}, to=tmp_path / "a.parquet", **how)
    how["settings"] = Settings(concurrency=1)
    other = points(numbered[::-1], {"rows": rows[::-1]}, to=tmp_path / "b.parquet", **how)

    assert first.digest == other.digest
    assert rows_of(tmp_path / "a.parquet") == rows_of(tmp_path / "b.parquet")


def test_other_readers_agree(folder: Path, clusters: list[dict[str, Any]], tmp_path: Path) -> None:
    """DuckDB reads the lines that pyarrow reads; ids have statistics, hrefs are a dictionary."""
    duckdb = module_of_group("duckdb", "dev")
    to = tmp_path / "t.parquet"
    points(clusters, str(folder / "list.csv"), to=to, crs=CRS)

    rows = rows_of(to)
    file = pq.ParquetFile(to)
    names = ("id", "scene", "href", "b1", "valid", "status", "reason")
    of_duckdb = duckdb.sql(f"SELECT {', '.join(names)} FROM '{to}'").fetchall()  # noqa: S608 # our own file
    assert of_duckdb == [tuple(row[name] for name in names) for row in rows]
    assert str(file.schema_arrow.field("href").type).startswith("dictionary")
    ids = file.metadata.row_group(0).column(0).statistics
    assert (ids.min, ids.max) == (1, len(clusters))


def test_a_plan_reads_no_pixel_and_limits_refuse(
    server: LocalServer, clusters: list[dict[str, Any]], tmp_path: Path
) -> None:
    """It tells the lines and requests that the table then takes."""
    hrefs = [f"{server.root}/{n}.tif" for n in range(5)]
    request = TableRequest.of(features=clusters, sources=hrefs, crs=CRS)

    plan = run(plan_table(PointTable(Method()), request)).to_json()

    assert len(server.asked) <= 6  # the first image is opened once more, for its bands
    made = points(clusters, hrefs, to=tmp_path / "t.parquet", crs=CRS)
    assert plan["lines"] == made.n_lines
    assert plan["requests"] == pytest.approx(made.n_requests, abs=5)
    with pytest.raises(BudgetError, match=r"limits\.usd"):
        points(clusters, hrefs, to=tmp_path / "u.parquet", crs=CRS, limits={"usd": 1e-9})


@pytest.mark.long
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_points_that_are_placed_some_at_a_time_change_nothing(
    folder: Path, clusters: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Any
) -> None:
    """A plan has the requests of the job, and a table its lines, however many points are in memory."""
    listed = str(folder / "list.csv")
    request = TableRequest.of(features=clusters, sources=listed, crs=CRS)

    def planned() -> TablePlan:
        return run(plan_table(PointTable(Method(kind=method)), request))

    def made(name: str) -> MadeTable:
        return points(clusters, listed, to=tmp_path / name, crs=CRS, method=method)

    plan, table = planned(), made("one.parquet")
    monkeypatch.setattr(place_points, "_TOGETHER", 7)

    assert planned() == plan
    assert plan.n_lines == table.n_lines
    assert plan.forecast.requests == pytest.approx(table.n_requests, abs=5)
    assert made("other.parquet").digest == table.digest


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "no"}, "id: there is no column no"),
        ({"crs": None}, "crs: say which CRS"),
        ({"crs": "EPSG:1"}, "crs: "),
        ({"time": "x"}, "time: give time (--time) and tolerance (--tolerance) together"),
        ({"time": "x", "tolerance": "soon"}, "tolerance: 'soon' is no duration"),
        ({"method": "cubic"}, "method: it is 'cubic'"),
        ({"square": 2}, "square: it is 2"),
        ({"by": "valid"}, "by: valid is no value of a pixel"),
        ({"by": "b1,b1"}, "by: b1 is there twice"),
        ({"bands": "red=b1", "by": "red"}, "bands: write {red: B04}: the name in by"),
        ({"crs": 32632}, "crs: it is 32632; write text, such as EPSG:32632"),
        ({"limits": {"eur": 1}}, "limits.eur: there is no such field; it takes seconds, usd"),
        ({"limits": 5}, "limits: write {usd: "),
        ({"to": "t.csv"}, "to: t.csv does not end with .parquet"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    """Before anything is read."""
    given: dict[str, Any] = {"to": tmp_path / "t.parquet", "crs": CRS} | changes

    with pytest.raises(RequestError) as refused:
        points([{"x": 1.0, "y": 2.0}], [str(folder / "0.tif")], **given)

    assert str(refused.value).startswith(says)


def test_several_points_of_one_feature_are_refused(folder: Path, tmp_path: Path) -> None:
    """A line is of one pixel."""
    shape = {"type": "MultiPoint", "coordinates": [[100, 100], [200, 100]]}

    with pytest.raises(RequestError, match="each point of a MultiPoint is a feature"):
        points(shape, str(folder / "list.csv"), to=tmp_path / "t.parquet", crs=CRS)


def test_the_receipt_is_beside_the_table(folder: Path, tmp_path: Path) -> None:
    """The images' table says what was asked, and what became of each image."""
    point = _xy(np.array([100.0]), np.array([100.0]))
    points(point, str(folder / "list.csv"), to=tmp_path / "t.parquet", crs=CRS)

    images = rows_of(tmp_path / "t.images.parquet")
    about = json.loads(pq.read_schema(tmp_path / "t.images.parquet").metadata[b"pixel_gather"])
    assert [(each["status"], each["lines"], each["requests"]) for each in images] == [("ok", 1, 2)] * 5
    assert about["lines"] == 5
    assert about["statuses"] == {"ok": 5}
    assert about["request"]["kind"] == "points"
