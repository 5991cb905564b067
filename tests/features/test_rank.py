"""Rankings of real files on disk and over HTTP, against NumPy on the whole arrays."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.features import geometry_mask
from rasterio.warp import transform_geom

from pixel_gather.core.errors import BudgetError, RequestError, SourceError, StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.rank import catalog_sources, plan_ranking, rank, rank_async
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.table import Ranking
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings
from rank.rasters import landscape, lonlat_box, make_cog
from scenes import stac_server
from scenes.scenes import item
from support.images import write_image
from support.local_server import Asked, LocalServer, ranged, serving
from support.tables import make_scenes

pytestmark = pytest.mark.usefixtures("without_hedges")

_SCL_DROP = (3, 8, 9, 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six scenes: red and nir of 10 m with scale and offset, scl of 20 m, and their list."""
    folder = tmp_path_factory.mktemp("scenes")
    make_scenes(folder, 6, rise=50, gap=40)
    return folder


@pytest.mark.long
def test_an_area_around_more_than_half_the_earth_is_told(folder: Path) -> None:
    """The ranking is made all the same."""
    steps = [[x, -80] for x in range(-170, 171, 10)] + [[x, 80] for x in range(170, -171, -10)]
    around = {"type": "Polygon", "coordinates": [[*steps, steps[0]]]}

    found = rank(str(folder / "list.csv"), by="red", geojson=around)

    assert "1 polygon more than 180 degrees wide, taken as drawn" in found.notes[0]


def _read(path: Path) -> np.ndarray[Any, Any]:
    """Return scaled pixels as GDAL reads them; NaN where there is nodata."""
    with rasterio.open(path) as dataset:
        pixels = dataset.read(1, masked=True).astype("float64").filled(np.nan)
        return np.asarray(pixels * dataset.scales[0] + dataset.offsets[0])


def _ndvi(folder: Path, n: int) -> np.ndarray[Any, Any]:
    red, nir = _read(folder / f"red{n}.tif"), _read(folder / f"nir{n}.tif")
    with np.errstate(divide="ignore"):
        return np.asarray((nir - red) / (nir + red))


def _kept(folder: Path, n: int) -> np.ndarray[Any, Any]:
    scl = np.kron(_read(folder / f"scl{n}.tif"), np.ones((2, 2)))
    return ~np.isin(scl, _SCL_DROP)


def _by_scene(ranking: Ranking) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in ranking.rows()}


@pytest.mark.parametrize("statistic", ["mean", "median", "p90", "share_above:0.4"])
def test_exact_ranking_is_numpys(folder: Path, statistic: str) -> None:
    """NDVI of scaled values without nodata and clouds, at full resolution."""
    found = rank(
        folder / "list.csv",
        by="ndvi",
        mask={"band": "scl", "drop": _SCL_DROP},
        precision="exact",
        statistic=statistic,
    )
    of_numpy: dict[str, Callable[[Any], Any]] = {
        "mean": np.mean,
        "median": np.median,
        "p90": lambda values: np.percentile(values, 90),
        "share_above:0.4": lambda values: (values > 0.4).mean(),
    }
    expected = {}
    for n in range(6):
        values = _ndvi(folder, n)[_kept(folder, n)]
        expected[f"scene {n}"] = of_numpy[statistic](values[np.isfinite(values)])

    assert {name: row["value"] for name, row in _by_scene(found).items()} == pytest.approx(expected, rel=1e-9)
    assert [row["id"] for row in found.rows()] == sorted(expected, key=lambda name: -expected[name])
    assert {row["error"] for row in found.rows()} == {0.0}
    assert [row["rank"] for row in found.rows()] == [1, 2, 3, 4, 5, 6]


def test_shares_are_those_of_the_area(folder: Path) -> None:
    """Valid, clear and cloud, of full resolution: classes are never averaged."""
    mask = {"band": "scl", "drop": _SCL_DROP}
    n_nodata = 40 * 40 / 512**2

    clear = _by_scene(rank(folder / "list.csv", by="clear", mask=mask))
    cloud = _by_scene(rank(folder / "list.csv", by="cloud", mask=mask))
    valid = _by_scene(rank(folder / "list.csv", by="valid", bands={"valid": "red"}, precision="exact"))

    for n in range(6):
        share = _kept(folder, n).mean()
        assert clear[f"scene {n}"]["value"] == pytest.approx(share, abs=1e-12)
        assert cloud[f"scene {n}"]["value"] == pytest.approx(1 - share, abs=1e-12)
        assert valid[f"scene {n}"]["value"] == pytest.approx(1 - n_nodata, abs=1e-12)
        assert clear[f"scene {n}"]["level"] == "full"


def test_share_of_valid_pixels_is_not_read_from_overviews_that_lose_or_gain_some(tmp_path: Path) -> None:
    """Averages fill a pixel that holds any data; nearest overviews are a sample."""
    pixels = landscape(0)
    pixels[np.random.default_rng(0).random(pixels.shape) < 0.3] = 0
    share = (pixels > 0).mean()
    average = make_cog(tmp_path / "average.tif", pixels, nodata=0)
    nearest = make_cog(tmp_path / "nearest.tif", pixels, nodata=0, resampling="NEAREST")

    found = _by_scene(rank([average, nearest], by="valid", precision="coarse"))

    assert found["average.tif"]["level"] == "full"
    assert found["average.tif"]["value"] == pytest.approx(share)
    assert found["nearest.tif"]["level"].startswith("overview")
    assert abs(found["nearest.tif"]["value"] - share) <= 1.96 * found["nearest.tif"]["error"]


def test_a_share_of_the_area_is_at_most_1(tmp_path: Path) -> None:
    """The pixels of an overview of 607 pixels cover shares of pixels, whose sum is rounded up."""
    pixels = np.random.default_rng(1).integers(1, 3000, (607, 607)).astype("uint16")

    (row,) = rank([make_cog(tmp_path / "a.tif", pixels)], by="b1", precision="coarse").rows()

    assert row["level"].startswith("overview")
    assert (row["valid"], row["clear"]) == (1.0, 1.0)


def test_classes_are_read_at_an_overview_that_says_it_holds_classes(tmp_path: Path) -> None:
    """Nearest overviews hold classes; the error says that they are a sample."""
    classes = np.kron(
        np.random.default_rng(0).choice([4, 8], (64, 64)), np.ones((8, 8), dtype="uint8")
    ).astype("uint8")
    path = make_cog(tmp_path / "scl.tif", classes, resampling="NEAREST")

    (row,) = rank([path], by="clear", mask={"band": "b1", "drop": [8]}, precision="coarse").rows()

    assert row["level"].startswith("overview")
    assert abs(row["value"] - (classes == 4).mean()) <= 1.96 * row["error"]


def test_box_and_polygon_are_cut_at_pixels(folder: Path) -> None:
    """A box holds the pixels that it touches, a polygon those whose centre it holds."""
    box = lonlat_box(100, 60, 200, 150)
    ring = [[box[0], box[1]], [box[2], box[1]], [box[2], box[3]], [box[0], box[1]]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    with rasterio.open(folder / "nir0.tif") as dataset:
        shape = transform_geom("EPSG:4326", dataset.crs, polygon, precision=6)
        outside = geometry_mask([shape], (512, 512), dataset.transform)
    values = _read(folder / "nir0.tif")

    (in_box,) = rank([folder / "nir0.tif"], by="b1", bbox=box, precision="exact").rows()
    (in_polygon,) = rank([folder / "nir0.tif"], by="b1", geojson=polygon, precision="exact").rows()

    assert in_box["value"] == pytest.approx(values[60:210, 100:300].mean(), rel=1e-12)
    assert in_polygon["pixels"] == pytest.approx((~outside).sum(), rel=1e-3)
    assert in_polygon["value"] == pytest.approx(values[~outside].mean(), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("by", ["ndvi", "red"])
@pytest.mark.parametrize("area", [None, (37, 61, 311, 254)])
@pytest.mark.parametrize("mask", [None, {"band": "scl", "drop": _SCL_DROP}])
def test_coarse_intervals_hold_the_exact_values(
    folder: Path, by: str, area: tuple[int, int, int, int] | None, mask: dict[str, Any] | None
) -> None:
    """They do at the coarsest overview, over whole scenes and a box, with clouds and without."""
    bbox = None if area is None else lonlat_box(*area)
    exact = _by_scene(rank(folder / "list.csv", by=by, bbox=bbox, mask=mask, precision="exact"))
    coarse = _by_scene(rank(folder / "list.csv", by=by, bbox=bbox, mask=mask, precision="coarse"))

    for name, row in coarse.items():
        assert row["level"] != "full"
        assert row["low"] <= exact[name]["value"] <= row["high"]
        assert row["clear"] == pytest.approx(exact[name]["clear"], abs=0.02)


_GLOBE = rasterio.Affine(1, 0, -180, 0, -1, 90)


def _globe(
    path: Path, *, crs: str = "EPSG:4326", transform: rasterio.Affine = _GLOBE
) -> np.ndarray[Any, Any]:
    """Write an image of random pixels, by default the whole Earth by degrees, and return its pixels."""
    pixels = np.random.default_rng(0).random((180, 360)).astype("float32")
    write_image(path, pixels, crs=crs, transform=transform, nodata=None)
    return pixels


@pytest.mark.parametrize("precision", ["exact", "coarse"])
def test_box_across_180_degrees_holds_both_sides(tmp_path: Path, precision: str) -> None:
    """The image shows the whole Earth."""
    pixels = _globe(tmp_path / "globe.tif")

    (row,) = rank([tmp_path / "globe.tif"], by="b1", bbox=[170, -10, -160, 20], precision=precision).rows()

    inside = np.concatenate([pixels[70:100, 350:], pixels[70:100, :20]], axis=1).astype("float64")
    assert row["pixels"] == inside.size
    assert row["value"] == pytest.approx(inside.mean(), rel=1e-9)
    assert row["valid"] == 1.0


@pytest.mark.parametrize("west", [0, 170, -180.5])
def test_longitudes_go_around_the_earth(tmp_path: Path, west: float) -> None:
    """Wherever an image begins to count them, it shows the same places."""
    pixels = _globe(tmp_path / "globe.tif", transform=rasterio.Affine(1, 0, west, 0, -1, 90))
    corners = [[170, -10], [-160, -10], [-160, 20], [170, 20], [170, -10]]
    areas: list[dict[str, Any]] = [
        {"bbox": [170, -10, -160, 20]},
        {"geojson": {"type": "Polygon", "coordinates": [corners]}},
    ]

    rows = [rank([tmp_path / "globe.tif"], by="b1", precision="exact", **area).rows()[0] for area in areas]

    inside = np.roll(pixels, math.floor(west) - 170, axis=1)[70:100, :30].astype("float64")
    for row in rows:
        assert (row["pixels"], row["valid"]) == (inside.size, 1.0)
        assert row["value"] == pytest.approx(inside.mean(), rel=1e-9)


def test_box_across_180_degrees_holds_the_side_that_an_image_shows(tmp_path: Path) -> None:
    """Of images that end there; and both where the image's own grid goes on beyond 180 degrees."""
    pixels = _globe(tmp_path / "side.tif", transform=rasterio.Affine(0.1, 0, 144, 0, -0.1, 10))
    _globe(
        tmp_path / "utm.tif", crs="EPSG:32660", transform=rasterio.Affine(1000, 0, 700_000, 0, -1000, 90_000)
    )

    rows = _by_scene(
        rank(
            [tmp_path / "side.tif", tmp_path / "utm.tif"],
            by="b1",
            bbox=[179.5, 0.1, -179.5, 0.6],
            precision="exact",
        )
    )

    assert rows["side.tif"]["value"] == pytest.approx(pixels[94:99, 355:].astype("float64").mean())
    assert rows["utm.tif"]["pixels"] == pytest.approx(111 * 55, rel=0.05)
    assert rows["utm.tif"]["valid"] == pytest.approx(1.0, abs=1e-9)  # a pixel in both sides counts once


_EAST_PART = [[170, 10], [180, 10], [180, -8], [170, 10]]
_WEST_PART = [[-180, 10], [-160.5, 12], [-165, -6], [-180, -8], [-180, 10]]


@pytest.mark.parametrize("precision", ["exact", "coarse"])
@pytest.mark.parametrize(
    "polygon",
    [
        {"type": "MultiPolygon", "coordinates": [[_EAST_PART], [_WEST_PART]]},
        {
            "type": "Polygon",
            "coordinates": [[[170, 10], [180, 10], [-160.5, 12], [-165, -6], [180, -8], [170, 10]]],
        },
    ],
    ids=["cut, as RFC 7946 asks", "in one piece"],
)
def test_polygon_across_180_degrees_holds_both_sides(
    tmp_path: Path, polygon: dict[str, Any], precision: str
) -> None:
    """Of an image of the whole Earth: the pixels that GDAL finds in either side."""
    pixels = _globe(tmp_path / "globe.tif")
    parts = [{"type": "Polygon", "coordinates": [each]} for each in (_EAST_PART, _WEST_PART)]

    (row,) = rank([tmp_path / "globe.tif"], by="b1", geojson=polygon, precision=precision).rows()

    inside = ~geometry_mask(parts, pixels.shape, _GLOBE)
    assert inside[:, :20].any()
    assert inside[:, 350:].any()
    assert row["pixels"] == inside.sum()
    assert row["value"] == pytest.approx(pixels[inside].astype("float64").mean(), rel=1e-9)
    assert row["valid"] == pytest.approx(1.0, abs=0.03)


def test_polygon_across_180_degrees_holds_the_side_that_an_image_shows(tmp_path: Path) -> None:
    """And both where the image's own grid goes on beyond 180 degrees. Images of neither side are listed."""
    side = rasterio.Affine(0.1, 0, 144, 0, -0.1, 10)
    utm = rasterio.Affine(1000, 0, 700_000, 0, -1000, 90_000)
    pixels = _globe(tmp_path / "side.tif", transform=side)
    of_utm = _globe(tmp_path / "utm.tif", crs="EPSG:32660", transform=utm)
    _globe(tmp_path / "far.tif", transform=rasterio.Affine(0.1, 0, 0, 0, -0.1, 10))
    west = {"type": "Polygon", "coordinates": [[[179.03, 0.12], [180, 0.12], [180, 0.73], [179.03, 0.12]]]}
    east = {"type": "Polygon", "coordinates": [[[-180, 0.12], [-179.6, 0.12], [-180, 0.73], [-180, 0.12]]]}
    both = {"type": "MultiPolygon", "coordinates": [west["coordinates"], east["coordinates"]]}
    hrefs = [tmp_path / f"{name}.tif" for name in ("side", "utm", "far")]

    rows = _by_scene(rank(hrefs, by="b1", geojson=both, precision="exact"))

    inside = ~geometry_mask([west], pixels.shape, side)
    in_utm = [transform_geom("EPSG:4326", "EPSG:32660", each, precision=9) for each in (west, east)]
    inside_utm = ~geometry_mask(in_utm, pixels.shape, utm)
    assert rows["side.tif"]["value"] == pytest.approx(pixels[inside].astype("float64").mean())
    assert rows["utm.tif"]["pixels"] == pytest.approx(inside_utm.sum(), rel=2e-3)
    assert rows["utm.tif"]["value"] == pytest.approx(of_utm[inside_utm].astype("float64").mean(), rel=5e-3)
    assert rows["utm.tif"]["valid"] == pytest.approx(1.0, abs=0.01)
    assert (rows["far.tif"]["status"], rows["far.tif"]["rank"]) == ("outside", None)


def test_share_beside_other_values_is_refused() -> None:
    """Unless the request says that a band has this name."""
    with pytest.raises(RequestError, match="by: clear is a share of the whole area"):
        rank(["a.tif"], by="clear * 2", mask={"band": "scl", "drop": [3]})
    with pytest.raises(RequestError, match="by: valid is a share of the whole area"):
        rank(["a.tif"], by="min(valid, red)")

    assert RankingRequest.of(by="valid * 2", bands={"valid": "b1"}).names == ("valid",)


def test_names_of_bands_are_a_mapping() -> None:
    """The command line takes a text."""
    with pytest.raises(RequestError, match=r"^bands: write {red: B04}: the name in by, and its band"):
        rank(["a.tif"], by="red", bands="red=b1")  # type: ignore[arg-type] # as a program may


def test_a_name_for_an_expression_is_refused_with_what_to_leave_out() -> None:
    """Values of tables have names, and a ranking has none."""
    with pytest.raises(RequestError, match="by one expression, which needs no name: leave 'ndvi=' out"):
        rank(["a.tif"], by="ndvi=(nir-red)/(nir+red)")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"usd": 1e-9}, r"limits.usd: 6 scenes .* over the limit of \$0\.0000000010: "),
        ({"seconds": 1e-6}, "limits.seconds: 6 scenes"),
    ],
)
def test_ranking_over_a_limit_is_refused_after_its_first_scene(
    folder: Path, limits: dict[str, float], words: str
) -> None:
    """The forecast of the other scenes decides."""
    with pytest.raises(BudgetError, match=words) as caught:
        rank(folder / "list.csv", by="red", limits=limits)

    assert caught.value.field == f"limits.{next(iter(limits))}"
    assert rank(
        folder / "list.csv", by="red", precision="coarse", limits={"usd": 1.0, "seconds": 60.0}
    ).rows()


def test_progress_counts_the_scenes_of_each_round(folder: Path, tmp_path: Path) -> None:
    """Those that could not be read are counted as failed. Kept ones are not read."""
    sources = [folder / "red0.tif", folder / "red1.tif", tmp_path / "missing.tif"]
    seen: list[tuple[int, int, int]] = []

    def show(progress: Progress) -> None:
        seen.append((progress.n_done, progress.n_sources, progress.n_failed))

    run(rank_async(sources, RankingRequest.of(by="b1", precision="coarse"), on_progress=show))

    assert [each[:2] for each in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[-1][2] == 1


@pytest.mark.long
def test_scenes_of_a_stac_api_are_ranked(
    server: tuple[LocalServer, dict[str, tuple[bytes, str]]],
) -> None:
    """By the asset that the expression names, with the time of the item."""
    found, _ = server
    west, south, east, north = lonlat_box(0, 0, 512, 512)
    items = [
        item(
            f"s{n}",
            box=(west, south, east, north),
            time=f"2024-06-0{n + 1}T10:00:00Z",
            assets={"B04": {"href": f"{found.root}/{n}.tif"}},
        )
        for n in range(3)
    ]

    with stac_server.serving_api(lambda _asked, _url: stac_server.page(items)) as api:
        request = RankingRequest.of(
            by="red", bands={"red": "B04"}, bbox=(west, south, east, north), precision="coarse"
        )
        sources = catalog_sources(request, "stac", {"api": api.url})
        ranking, _ = run(rank_async(sources, request, settings=_over_http()))

    assert [(row["id"], row["time"][:10]) for row in ranking.rows()] == [
        ("s2", "2024-06-03"),
        ("s1", "2024-06-02"),
        ("s0", "2024-06-01"),
    ]
    assert next(asked.body or asked.parameters for asked in api.asked if asked.path == "/search")


@pytest.mark.long
def test_only_open_ranks_are_read_finer(tmp_path: Path) -> None:
    """Scenes that lie far apart are decided at an overview; two that are alike are not."""
    levels = [1000, 4000, 4001, 7000]
    paths = []
    for n, level in enumerate(levels):
        paths.append(make_cog(tmp_path / f"{n}.tif", landscape(n, level=level, step=5)))
    found = _by_scene(rank(paths, by="b1", precision=0.01))

    assert [found[f"{n}.tif"]["level"] == "full" for n in range(4)] == [False, True, True, False]
    assert [found[f"{n}.tif"]["rank_low"] for n in (3, 0)] == [1, 4]

    top = _by_scene(rank(paths, by="b1", precision=0.01, top=1))
    assert all(row["level"] != "full" for row in top.values())


@pytest.mark.long
def test_a_scene_that_cannot_be_read_is_listed_last(folder: Path, tmp_path: Path) -> None:
    """With its status and the reason, and so is one that lies elsewhere or is all nodata."""
    empty = make_cog(tmp_path / "empty.tif", np.zeros((256, 256), "uint16"), nodata=0)
    (tmp_path / "broken.tif").write_bytes(b"II*\0broken")
    sources = [tmp_path / "missing.tif", empty, tmp_path / "broken.tif", folder / "nir0.tif"]

    rows = rank(sources, by="b1").rows()

    assert [row["status"] for row in rows] == ["ok", "ok", "missing", "corrupt"]
    assert rows[1]["value"] is None
    assert rows[1]["reason"] is not None
    assert [row["rank"] for row in rows] == [1, None, None, None]
    assert [row["status"] for row in rank([folder / "nir0.tif"], by="b1", bbox=[0, 0, 1, 1]).rows()] == [
        "outside"
    ]


def test_a_scene_without_a_band_is_listed_as_absent(folder: Path, tmp_path: Path) -> None:
    """The list names no nir for it."""
    lines = (folder / "list.csv").read_text().splitlines()
    kept = [lines[0], *(f"{folder}/{line}" for line in lines[1:] if not line.startswith("nir3"))]
    (tmp_path / "list.csv").write_text("\n".join(kept))

    last = rank(tmp_path / "list.csv", by="ndvi", precision="coarse").rows()[-1]

    assert (last["id"], last["status"], last["reason"]) == (
        "scene 3",
        "absent",
        "the list names no nir for this scene",
    )


def test_a_band_that_no_scene_has_is_refused(folder: Path, tmp_path: Path) -> None:
    """Before anything is read; the message names the bands that there are. A file of red has no blue."""
    with pytest.raises(RequestError, match="the list has no band green; it has red, nir, scl"):
        rank(folder / "list.csv", by="ndwi")

    (tmp_path / "list.csv").write_text(f"href,band,scene\n{folder / 'red0.tif'},red,a\n")
    for name in ("blue", "haze"):
        with pytest.raises(RequestError, match=f"the list has no band {name}; it has red"):
            rank(tmp_path / "list.csv", by=f"{name} / red")


def test_a_percentile_of_more_pixels_than_a_worker_holds_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean needs no memory."""
    monkeypatch.setattr("pixel_gather.features.rank.strip_totals._MOST_EXACT", 100)

    def first(statistic: str) -> dict[str, Any]:
        return rank([folder / "red0.tif"], by="b1", statistic=statistic, precision="exact").rows()[0]

    median, mean = first("median"), first("mean")

    assert (median["status"], mean["status"]) == ("unsupported", "ok")
    assert "percentiles are computed of at most 100 pixels" in median["reason"]


def test_every_nth_pixel_is_a_sample_of_full_resolution(folder: Path) -> None:
    """The published way: the interval holds, and no byte is saved."""
    exact = rank(folder / "list.csv", by="red", precision="exact")
    sampled = rank(folder / "list.csv", by="red", precision="every:5")

    for name, row in _by_scene(sampled).items():
        assert row["level"] == "every 5"
        assert row["pixels"] < 12_000
        assert row["low"] <= _by_scene(exact)[name]["value"] <= row["high"]
    assert sampled.nbytes == exact.nbytes


@pytest.mark.long
def test_second_ranking_reads_nothing(folder: Path, tmp_path: Path) -> None:
    """Of the same area, expression and mask; another statistic is read anew."""
    kept = tmp_path / "kept.sqlite"
    first = rank(folder / "list.csv", by="ndvi", statistics=kept)
    second = rank(folder / "list.csv", by="ndvi", statistics=kept)
    other = rank(folder / "list.csv", by="ndvi", statistic="median", statistics=kept)

    assert first.requests > 0
    assert (second.requests, second.nbytes, second.n_kept) == (0, 0, 6)
    assert [(row["id"], row["value"], row["error"]) for row in second.rows()] == [
        (row["id"], row["value"], row["error"]) for row in first.rows()
    ]
    assert other.requests > 0


@pytest.mark.long
@pytest.mark.parametrize("precision", ["coarse", "2%", "every:5"])
def test_kept_exact_values_stand_for_levels_that_are_not_kept(
    folder: Path, tmp_path: Path, precision: str
) -> None:
    """Each row says that it is of full resolution, and without an error. Other levels do not stand for it."""

    def ranked(precision: str, kept: str) -> Ranking:
        return rank(folder / "list.csv", by="ndvi", precision=precision, statistics=tmp_path / kept)

    coarser = ranked(precision, "both.sqlite")
    exact = ranked("exact", "both.sqlite")
    again = ranked(precision, "both.sqlite")
    ranked("exact", "exact.sqlite")
    instead = ranked(precision, "exact.sqlite")

    assert coarser.requests > 0
    assert exact.requests > 0
    assert [(each.requests, each.nbytes, each.n_kept) for each in (again, instead)] == [(0, 0, 6)] * 2
    assert [row["value"] for row in again.rows()] == [row["value"] for row in coarser.rows()]
    for row, known in zip(instead.rows(), exact.rows(), strict=True):
        assert (row["level"], row["factor"], row["error"]) == ("full", 1, 0)
        assert [row[name] for name in ("id", "value", "clear", "pixels")] == [
            known[name] for name in ("id", "value", "clear", "pixels")
        ]


def test_kept_statistics_that_are_no_such_file_are_refused(folder: Path, tmp_path: Path) -> None:
    """The message names the file."""
    (tmp_path / "kept.sqlite").write_text("something else, long enough to be looked at as a database file")

    with pytest.raises(StoreError, match=r"kept\.sqlite: the kept statistics cannot be opened"):
        rank(folder / "list.csv", by="ndvi", statistics=tmp_path / "kept.sqlite")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[LocalServer, dict[str, tuple[bytes, str]]]]:
    """Eight COGs on a server that counts; their content and versions can be changed."""
    files = {}
    for n in range(8):
        path = make_cog(tmp_path / f"{n}.tif", landscape(n, level=1000 + 500 * n, step=10))
        files[f"/{n}.tif"] = (path.read_bytes(), '"1"')

    def answer(asked: Asked) -> Any:
        content, etag = files[asked.path]
        return ranged(content, asked, etag=etag)

    with serving(answer) as found:
        yield found, files


def _over_http() -> Settings:
    return Settings(stores=StoreSettings(unsigned=True))


@pytest.mark.long
def test_header_and_coarsest_overview_come_with_one_request(
    server: tuple[LocalServer, dict[str, tuple[bytes, str]]],
) -> None:
    """Once the first file has shown how long that is."""
    found, _ = server
    hrefs = [f"{found.root}/{n}.tif" for n in range(8)]

    ranking = rank(hrefs, by="b1", precision="coarse", settings=_over_http())

    asked = [each.path for each in found.asked]
    assert [asked.count(f"/{n}.tif") for n in range(1, 8)] == [1] * 7
    assert asked.count("/0.tif") <= 2
    assert ranking.requests == len(asked)


@pytest.mark.long
def test_replaced_file_is_measured_anew(
    server: tuple[LocalServer, dict[str, tuple[bytes, str]]], tmp_path: Path
) -> None:
    """Kept statistics are dropped by ETag, where the ranking is told to look."""
    found, files = server
    hrefs = [f"{found.root}/{n}.tif" for n in range(8)]
    kept = tmp_path / "kept.sqlite"

    def ranked(*, check_kept: bool) -> Ranking:
        found.asked.clear()
        return rank(
            hrefs, by="b1", precision="coarse", statistics=kept, check_kept=check_kept, settings=_over_http()
        )

    assert ranked(check_kept=False).rows()[0]["id"] == "7.tif"
    files["/0.tif"] = (files["/7.tif"][0], '"2"')
    assert ranked(check_kept=False).rows()[0]["id"] == "7.tif"
    assert not found.asked

    checked = ranked(check_kept=True)
    assert {row["id"] for row in checked.rows()[:2]} == {"0.tif", "7.tif"}
    assert checked.n_kept == 7


@pytest.mark.long
def test_jpeg2000_is_read_by_its_resolution_levels() -> None:
    """Through GDAL; the interval holds NumPy's mean of the whole image."""
    folder = Path(__file__).parents[1] / "data/series/files/mapchete-eo"
    path = folder / "S2B_33TWL_20230810_0_L2A__SCL.tif"
    with rasterio.open(path) as dataset:
        pixels = dataset.read(1)

    (coarse,) = rank([path], by="b1", precision="coarse").rows()
    (exact,) = rank([path], by="b1", precision="exact").rows()

    assert coarse["level"].startswith("overview")
    assert exact["value"] == pytest.approx(pixels.mean(), rel=1e-12)
    assert abs(coarse["value"] - exact["value"]) <= 1.96 * coarse["error"]


@pytest.mark.long
def test_masked_pixels_do_not_count(tmp_path: Path) -> None:
    """Those that a file's own mask hides, though they hold a value that others hold, too."""
    pixels = np.tile(np.arange(4, dtype="uint8"), (256, 64))
    hidden = np.zeros(pixels.shape, bool)
    hidden[:100] = True
    path = tmp_path / "masked.tif"
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(
            path, "w", driver="GTiff", width=256, height=256, count=1, dtype="uint8", tiled=True
        ) as dataset,
    ):
        dataset.write(np.where(hidden, 0, pixels), 1)
        dataset.write_mask(~hidden)

    (row,) = rank([path], by="b1", precision="exact").rows()

    assert row["value"] == pytest.approx(pixels[100:].mean())
    assert row["valid"] == pytest.approx(156 / 256)


def test_ranking_is_plain_json(folder: Path) -> None:
    """What is unknown is null, never NaN."""
    found = rank([folder / "nir0.tif", folder / "no.tif"], by="b1", precision="coarse").to_json()

    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert found["totals"]["failed"] == 1
    assert not math.isnan(found["totals"]["usd"])
    assert Status.MISSING.name.lower() == found["scenes"][-1]["status"]


def _planned(sources: Any, **given: Any) -> list[dict[str, Any]]:
    levels: list[dict[str, Any]] = run(plan_ranking(sources, RankingRequest.of(**given))).to_json()["levels"]
    return levels


def _stored_nbytes(path: Path, cols: tuple[int, int], rows: tuple[int, int], *, side: int = 128) -> int:
    """Return the bytes of the tiles that a window touches, as GDAL tells them."""
    with rasterio.open(path) as dataset:
        return sum(
            int(dataset.get_tag_item(f"BLOCK_SIZE_{x}_{y}", "TIFF", bidx=1))
            for x in range(cols[0] // side, (cols[1] - 1) // side + 1)
            for y in range(rows[0] // side, (rows[1] - 1) // side + 1)
        )


def test_plan_compares_the_bytes_that_each_level_takes(folder: Path) -> None:
    """They are those of the tiles that the area touches, of all bands and of the mask."""
    given: dict[str, Any] = {
        "by": "ndvi",
        "mask": {"band": "scl", "drop": _SCL_DROP},
        "bbox": lonlat_box(37, 61, 311, 254),
    }
    levels = _planned(folder / "list.csv", **given)
    coarse = rank(folder / "list.csv", by="ndvi", bbox=given["bbox"], precision="coarse").rows()[0]

    stored = [_stored_nbytes(folder / f"{band}0.tif", (37, 348), (61, 315)) for band in ("red", "nir")]
    of_mask = _stored_nbytes(folder / "scl0.tif", (18, 174), (30, 158))
    assert levels[-1]["bytes"] == sum(stored) + of_mask
    assert [each["bytes"] for each in levels] == sorted(each["bytes"] for each in levels)
    assert next(each["level"] for each in levels if each["read"]) == coarse["level"]
    assert all(each["bytes"] > of_mask for each in levels)  # no file says that its overviews hold classes
    assert levels[-1]["all_scenes"]["bytes"] == 6 * levels[-1]["bytes"]
    assert levels[-1]["all_scenes"]["requests"] == 6 * 3 * 2
    assert levels[-1]["share_of_full"] == 1


def test_plan_says_why_a_level_is_not_read(folder: Path) -> None:
    """In a small area overviews have few pixels or save nothing. Classes are not averaged."""
    small = _planned([folder / "nir0.tif"], by="b1", bbox=lonlat_box(130, 130, 66, 66))
    classes = _planned([folder / "scl0.tif"], by="clear", mask={"band": "b1", "drop": [9]})

    assert [each["read"] for each in small] == [False] * (len(small) - 1) + [True]
    assert [each["why_not"] for each in small] == [
        "it has under 1,000 pixels in the area",
        "it takes over 65 % of the bytes of full resolution",
        None,
    ]
    assert classes[0]["why_not"] == "the file does not say that its overviews are a sample of its classes"
    assert classes[-1]["why_not"] is None


@pytest.mark.parametrize(("settings", "in_flight"), [(Settings(), 128), (Settings(concurrency=16), 16)])
def test_forecast_is_of_a_near_store(folder: Path, settings: Settings, in_flight: int) -> None:
    """More than 128 requests are only in flight to distant stores. The forecast's first byte takes 30 ms."""
    plan = run(plan_ranking([folder / "nir0.tif"], RankingRequest.of(by="b1"), settings=settings))

    assert plan.in_flight == in_flight


def test_plan_is_of_the_first_scene_that_can_be_read(folder: Path, tmp_path: Path) -> None:
    """If there is none, its reason is the error."""
    gone = tmp_path / "gone.tif"
    plan = run(plan_ranking([gone, folder / "nir0.tif"], RankingRequest.of(by="b1")))

    assert (plan.like, plan.n_scenes) == ("nir0.tif", 2)
    with pytest.raises(SourceError, match="no such object"):
        run(plan_ranking([gone], RankingRequest.of(by="b1")))
