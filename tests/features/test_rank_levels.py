"""Which levels a ranking reads, what that costs, and what each row says of it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform

from pixel_gather.features.gather.gather import gather, make_plan
from pixel_gather.features.rank.rank import rank, rank_async
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.io.event_loop import run
from rank.rasters import landscape, make_cog
from scenes.scenes import item

_DEMO = Path(__file__).parents[1] / "data" / "demo" / "sources.csv"


def _broken_at_full_resolution(path: Path) -> None:
    """Overwrite the last tiles, which are those of full resolution."""
    content = bytearray(path.read_bytes())
    content[-60_000:-20_000] = bytes(40_000)
    path.write_bytes(content)


@pytest.mark.long
@pytest.mark.parametrize("precision", [0.0, "exact"])
def test_a_value_is_kept_where_a_finer_level_cannot_be_read(tmp_path: Path, precision: float | str) -> None:
    """The row says so, and its interval is that of the level that was read. Without one, it has no value."""
    paths = [make_cog(tmp_path / f"{n}.tif", landscape(n, level=2000 + n)) for n in range(6)]
    _broken_at_full_resolution(paths[4])

    rows = {row["id"]: row for row in rank(paths, by="b1", precision=precision).rows()}
    broken = rows["4.tif"]

    if precision == "exact":
        assert (broken["status"], broken["rank"], broken["value"]) == ("corrupt", None, None)
    else:
        assert broken["status"] == "ok"
        assert broken["level"].startswith("overview")
        assert broken["reason"].startswith("no finer level could be read: ")
        assert broken["low"] <= landscape(4, level=2004).mean() <= broken["high"]


@pytest.mark.parametrize("precision", ["coarse", "2%"])
def test_a_row_without_a_reason_has_a_value(tmp_path: Path, precision: str) -> None:
    """If the coarsest level of an image shows none of its few pixels, a finer one is read."""
    paths = []
    for n in range(2):
        pixels = np.zeros((512, 512), "uint8")
        pixels[n::64, n::64] = 200 + n
        paths.append(make_cog(tmp_path / f"{n}.tif", pixels, resampling="NEAREST", nodata=0))

    rows = rank(paths, by="b1", precision=precision).rows()

    assert [row["value"] for row in rows] == [201, 200]


@pytest.mark.parametrize("precision", ["coarse", "2%", "exact"])
def test_a_scene_without_a_pixel_says_so(tmp_path: Path, precision: str) -> None:
    """It has no rank and no value, and comes after those that have."""
    paths = [make_cog(tmp_path / f"{n}.tif", np.full((512, 512), n, "uint8"), nodata=0) for n in range(2)]

    first, last = rank(paths, by="b1", precision=precision).rows()

    assert (first["id"], first["rank"], first["reason"]) == ("1.tif", 1, None)
    assert (last["rank"], last["value"], last["status"]) == (None, None, "ok")
    assert last["reason"] == "no pixel of the area has data"


@pytest.mark.long
@pytest.mark.parametrize(("precision", "level"), [(0.0, 0.0), ("2%", 0.5)])
def test_a_ranking_of_all_places_reads_no_more_than_exact(
    tmp_path: Path, precision: float | str, level: float
) -> None:
    """Whether all ranks are open or few are. What it does not read finer is noted."""
    paths = [make_cog(tmp_path / f"{n}.tif", landscape(n, level=2000 + level * n)) for n in range(12)]

    found = rank(paths, by="b1", precision=precision)
    exact = rank(paths, by="b1", precision="exact")

    assert found.nbytes <= exact.nbytes
    if precision == 0:
        open_ = [row for row in found.rows() if row["level"] != "full"]
        assert 0 < len(open_) <= 2
        assert any("precision: exact" in note for note in found.notes)


@pytest.mark.parametrize(
    ("box", "most"),
    [
        ((-109.1, 36.9, -105.0, 41.1), 1.0),  # an overview saves bytes in the first file alone
        ((-109.1, 36.9, -101.9, 39.0), 0.5),  # it saves more in the first file than in the others
    ],
)
@pytest.mark.parametrize("precision", ["coarse", "2%"])
def test_files_smaller_than_the_first_take_no_more_than_exact(
    box: tuple[float, ...], most: float, precision: str
) -> None:
    """What pays in the first file is not read of all others before their headers are known."""
    found, exact = (rank(_DEMO, by="b1", bbox=list(box), precision=each) for each in (precision, "exact"))

    assert found.nbytes <= exact.nbytes * (most if precision == "coarse" else 1.0)
    if most == 1:
        assert all(row["rank_low"] == row["rank_high"] for row in found.rows())


@pytest.mark.long
@pytest.mark.parametrize(("method", "level"), [("RMS", "full"), ("MODE", "full"), ("AVERAGE", "overview 1")])
def test_declared_overviews_that_move_means_are_not_read(tmp_path: Path, method: str, level: str) -> None:
    """Not even at coarse, and not if they are those of one band of two."""
    path = make_cog(tmp_path / "a.tif", landscape(1), resampling=method)
    other = make_cog(tmp_path / "b.tif", landscape(2))
    listed = tmp_path / "list.csv"
    listed.write_text(f"href,time,band\n{path},2024-01-01,red\n{other},2024-01-01,nir\n")

    (alone,) = rank([path], by="b1", precision="coarse").rows()
    (ratio,) = rank(listed, by="ndvi", precision="coarse").rows()

    assert alone["level"] == ratio["level"] == level


@pytest.mark.long
def test_many_small_scenes_take_no_more_than_exact(tmp_path: Path) -> None:
    """The first reads of files get shorter if only full resolution is wanted."""
    paths = [make_cog(tmp_path / f"{n}.tif", landscape(n, side=256)) for n in range(100)]

    found = rank(paths, by="b1", precision=0.0)

    assert {row["level"] for row in found.rows()} == {"overview 0", "full"}
    assert found.nbytes <= rank(paths, by="b1", precision="exact").nbytes


@pytest.mark.long
def test_overviews_that_cannot_decide_a_rank_are_left_out(tmp_path: Path) -> None:
    """From the coarsest level straight to full resolution: scenes of one mean need an error of 0."""
    image = landscape(0, side=1024)
    paths = [make_cog(tmp_path / f"{n}.tif", np.roll(image, 128 * n, axis=1)) for n in range(8)]

    found = rank(paths, by="b1", precision=0.0)

    at_full = [row for row in found.rows() if row["level"] == "full"]
    assert len(at_full) >= 7
    assert all(row["bytes"] < 1.1 * 1024 * 1024 * 2 for row in at_full)


@pytest.mark.long
def test_default_bound_is_relative_to_the_spread_of_the_values(tmp_path: Path) -> None:
    """The same images in another unit are read at the same levels."""
    images = [landscape(n, level=1000 + 1000 * (n // 3) + n % 3, step=20) for n in range(6)]
    folders = []
    for name, scale in (("raw", 1.0), ("percent", 0.01)):
        (tmp_path / name).mkdir()
        folders.append(
            [
                make_cog(tmp_path / name / f"{n}.tif", each, scaling=(scale, 0.0))
                for n, each in enumerate(images)
            ]
        )

    raw, percent = (rank(paths, by="b1").rows() for paths in folders)

    assert [row["level"] for row in raw] == [row["level"] for row in percent]
    assert {row["level"] for row in raw} == {"overview 1"}


_NORTH = rasterio.Affine(10, 0, 350_000, 0, -10, 7_250_000)


@pytest.mark.long
@pytest.mark.parametrize("precision", ["exact", "coarse"])
def test_a_box_holds_the_pixels_whose_centre_is_in_it(tmp_path: Path, precision: str) -> None:
    """Far from the middle of a UTM zone, meridians are turned against the pixels."""
    rows, cols = np.mgrid[:1024, :1024]
    pixels = ((cols // 8) % 100 + 20).astype("uint8")
    path = tmp_path / "a.tif"
    profile: dict[str, Any] = {
        "width": 1024,
        "height": 1024,
        "count": 1,
        "dtype": "uint8",
        "crs": "EPSG:32632",
    }
    with rasterio.open(path, "w", driver="COG", transform=_NORTH, blocksize=128, **profile) as dataset:
        dataset.write(pixels, 1)
    xs, ys = _NORTH @ (cols.ravel() + 0.5, rows.ravel() + 0.5)
    lon, lat = (np.reshape(each, pixels.shape) for each in transform("EPSG:32632", "EPSG:4326", xs, ys))
    middle = lon[512, 512], lat[512, 512]
    west, east, south, north = middle[0] - 0.005, middle[0] + 0.005, middle[1] - 0.04, middle[1] + 0.04
    inside = (lon >= west) & (lon <= east) & (lat >= south) & (lat <= north)

    (row,) = rank([path], by="b1", bbox=[west, south, east, north], precision=precision).rows()

    assert row["low"] <= pixels[inside].mean() <= row["high"]
    if precision == "exact":
        assert row["pixels"] == pytest.approx(inside.sum(), abs=2)
        assert row["value"] == pytest.approx(pixels[inside].mean(), rel=1e-4)
        assert row["valid"] == 1


@pytest.mark.long
@pytest.mark.parametrize("method", ["AVERAGE", "CUBIC", "NEAREST"])
@pytest.mark.parametrize("precision", ["coarse", "every:5", "exact"])
def test_valid_and_clear_have_an_interval(tmp_path: Path, method: str, precision: str) -> None:
    """It holds the share of full resolution."""
    pixels = landscape(1)
    pixels[:, :203] = 0  # so that pixels of overviews lie across the edge
    pixels[397:, :] = 0
    classes = np.where(landscape(2) > np.quantile(landscape(2), 0.8), 9, 4).astype("uint8")
    red = make_cog(tmp_path / "red.tif", pixels, resampling=method, nodata=0)
    scl = make_cog(tmp_path / "scl.tif", classes, resampling="NEAREST")
    listed = tmp_path / "list.csv"
    listed.write_text(f"href,time,band\n{red},2024-01-01,red\n{scl},2024-01-01,scl\n")

    (row,) = rank(listed, by="red", mask={"band": "scl", "drop": [9]}, precision=precision).rows()

    exact = {"valid": (pixels != 0).mean(), "clear": ((pixels != 0) & (classes != 9)).mean()}
    for name, share in exact.items():
        assert row[f"{name}_low"] <= share + 1e-12
        assert share - 1e-12 <= row[f"{name}_high"]
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
        assert row[f"{name}_high"] - row[f"{name}_low"] < 0.25


@pytest.mark.parametrize("shape", [(301, 517), (333, 411)])
def test_a_whole_area_has_the_share_1(tmp_path: Path, shape: tuple[int, int]) -> None:
    """Also if the factor of its level is a root that no float is."""
    make_cog(tmp_path / "odd.tif", np.random.default_rng(0).integers(100, 2000, shape).astype("uint16"))

    (row,) = rank([str(tmp_path / "odd.tif")], by="b1", precision="coarse").rows()

    assert row["factor"] > 1
    assert {row[f"{share}{end}"] for share in ("valid", "clear") for end in ("", "_low", "_high")} == {1.0}


def test_kept_statistics_are_checked_by_default(tmp_path: Path) -> None:
    """A file that was replaced is measured anew, without being asked to. One that is gone has no value."""
    paths = [make_cog(tmp_path / f"{n}.tif", landscape(n, level=2000 + 500 * n)) for n in range(2)]
    kept = tmp_path / "kept.sqlite"

    first = rank(paths, by="b1", statistics=kept).rows()
    make_cog(paths[0], landscape(5, level=6000))
    checked = rank(paths, by="b1", statistics=kept).rows()
    make_cog(paths[0], landscape(6, level=1000))
    unchecked = rank(paths, by="b1", statistics=kept, check_kept=False).rows()
    paths[1].unlink()
    *_, gone = rank(paths, by="b1", statistics=kept).rows()

    assert (gone["id"], gone["status"]) == ("1.tif", "missing")
    assert [rows[0]["id"] for rows in (first, checked, unchecked)] == ["1.tif", "0.tif", "0.tif"]


@pytest.mark.long
@pytest.mark.parametrize("scaling", [(math.nan, 0.0), (1.0, math.inf), (-math.inf, math.nan)])
def test_a_scale_that_is_no_number_is_told_and_ignored(tmp_path: Path, scaling: tuple[float, float]) -> None:
    """By gathers and by rankings."""
    pixels = landscape(0)
    path = make_cog(tmp_path / "a.tif", pixels, scaling=scaling)

    request = {"sources": [str(path)], "window": {"tile": "centre"}}
    planned, gathered = make_plan(request), gather(request, to=tmp_path / "cube.zarr")
    (row,) = rank([path], by="b1", precision="exact").rows()

    assert any("scale or offset that is NaN or infinite" in said for said in planned.warnings)
    assert gathered.report.n_failed == 0
    assert row["value"] == pytest.approx(pixels.mean())
    assert row["remarks"] == "a scale or offset that is no number is ignored"


def _scenes(folder: Path, *, names_it: bool, darkest: int) -> str:
    """Write two scenes, the second with the offset in its pixels and claimed. Return their items."""
    items = []
    for n, is_applied in enumerate((False, True)):
        assets = {}
        for band, reflectance in (("red", 400), ("nir", 2400)):
            level = reflectance if is_applied else reflectance + 1000
            path = folder / f"{band}{n}{names_it}{darkest}.tif"
            pixels = np.full((256, 256), level, "uint16") + np.arange(40, dtype="uint16").repeat(7)[:256]
            pixels[:3, :3] = darkest if is_applied else darkest + 1000
            make_cog(path, pixels)
            claim = {"scale": 0.0001, "offset": -0.1, "nodata": 0}
            assets[band] = {"href": str(path), "roles": ["data"], "raster:bands": [claim]}
        given = item(f"scene {n}", time=f"2024-06-0{n + 1}T10:20:30Z", assets=assets)
        if names_it:
            given["properties"]["earthsearch:boa_offset_applied"] = is_applied
        items.append(given)
    places = folder / f"{names_it}{darkest}.json"
    places.write_text("\n".join(map(json.dumps, items)))
    return str(places)


@pytest.mark.long
@pytest.mark.parametrize(("names_it", "darkest"), [(True, 900), (False, 120)])
@pytest.mark.parametrize("precision", ["exact", "coarse"])
def test_an_offset_that_the_pixels_have_is_not_applied_again(
    tmp_path: Path, *, names_it: bool, darkest: int, precision: str
) -> None:
    """The item says so, or some pixels would be far below 0. Both bands of a scene are treated alike."""
    items = _scenes(tmp_path, names_it=names_it, darkest=darkest)

    rows = rank(
        {"stac": {"items": items, "assets": ["red", "nir"], "area": "all"}}, by="ndvi", precision=precision
    ).rows()

    assert rows[0]["value"] == pytest.approx(rows[1]["value"], rel=1e-6)
    assert 0 < rows[0]["value"] < 1
    said = {row["id"]: row["remarks"] for row in rows}["scene 1"]
    assert names_it or said.startswith("the catalog's offset is not applied: the pixels have it already")


def test_pictures_have_no_offset_twice(tmp_path: Path) -> None:
    """A sheet shows scenes whose pixels have the claimed offset already."""
    items = _scenes(tmp_path, names_it=False, darkest=120)
    sources = {"stac": {"items": items, "assets": ["red", "nir"], "area": "all"}}

    _, pictures = run(rank_async(sources, RankingRequest.of(by="ndvi"), n_pictures=2))

    assert all(np.median(picture["nir"]) == pytest.approx(0.24, abs=0.005) for picture in pictures)


def test_an_impossible_index_is_told(tmp_path: Path) -> None:
    """A normalised difference beyond 1 has a wrong scale or offset."""
    paths = {
        band: make_cog(tmp_path / f"{band}.tif", np.full((64, 64), level, "uint16"), scaling=(0.0001, -0.1))
        for band, level in (("red", 400), ("nir", 2400))
    }
    listed = tmp_path / "list.csv"
    listed.write_text(
        "href,time,band\n" + "\n".join(f"{path},2024-01-01,{band}" for band, path in paths.items())
    )

    (row,) = rank(listed, by="ndvi").rows()

    assert row["value"] > 1
    assert "between -1 and 1" in row["remarks"]
