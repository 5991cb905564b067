"""Tiles of one acquisition that share a polygon make one line: the judge is exactextract on their mosaic."""

import os
import random
import shutil
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
import rasterio
import shapely
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pixel_gather import verify_table, zones
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.tables import merge_zone_lines
from pixel_gather.tables.acquisitions import group_images
from pixel_gather.tables.part_folder import ImageRecord
from pixel_gather.tables.table_receipt import side_path
from rank.rasters import landscape
from support.dependency_groups import module_of_group
from support.geojson import feature
from support.images import TILES_OF_64, write_image

_CRS: Final = "EPSG:32633"
_LEFT, _TOP, _SIDE = 500_000.0, 5_000_000.0, 384
_NAMES: Final = "mean,stdev,count,sum,min,max,median,p90,majority,variety"
_TILES: Final = {"a": (0, 0), "b": (160, 0), "c": (0, 160), "d": (160, 160)}
"""First column and row of tiles of 224 x 224 pixels, which overlap by 64."""

type Rows = list[dict[str, Any]]


def write(path: Path, pixels: np.ndarray[Any, Any], col: int, row: int, *, nodata: float | None = 0) -> None:
    """Write a tile of a larger image."""
    west, north = _LEFT + 10 * col, _TOP - 10 * row
    write_image(path, pixels, west=west, north=north, crs=_CRS, nodata=nodata, **TILES_OF_64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four tiles of one pass, which is without data in a corner, and the whole of it."""
    folder = tmp_path_factory.mktemp("tiles")
    whole = landscape(3)[:_SIDE, :_SIDE].copy()
    whole[np.add.outer(np.arange(_SIDE), np.arange(_SIDE)) < 120] = 0
    write(folder / "whole.tif", whole, 0, 0)
    scl = np.random.default_rng(2).choice([4, 9], whole.shape, p=[0.7, 0.3]).astype("uint8")
    write(folder / "whole-scl.tif", scl, 0, 0, nodata=None)
    shown = np.where(scl == 9, 0, whole)
    write(folder / "shown.tif", shown, 0, 0)
    for name, (col, row) in _TILES.items():
        part = slice(row, row + 224), slice(col, col + 224)
        write(folder / f"{name}.tif", whole[part], col, row)
        write(folder / f"{name}-scl.tif", scl[part], col, row, nodata=None)
    return folder


def shapes() -> list[shapely.Polygon]:
    """Return polygons on one tile, on two, on four, over the edge, and in the overlap."""
    rng = np.random.default_rng(4)
    found = [shapely.box(_LEFT + 1_000, _TOP - 3_000, _LEFT + 3_000, _TOP - 1_000)]
    for _ in range(60):
        x, y = _LEFT + rng.uniform(0, 3_900), _TOP - rng.uniform(0, 3_900)
        angles = np.sort(rng.uniform(0, 2 * np.pi, 7))
        radius = rng.choice([15.0, 500.0, 900.0])
        shape = shapely.Polygon(np.stack([x + np.cos(angles) * radius, y + np.sin(angles) * radius], axis=1))
        if shape.is_valid and shape.area > 0:
            found.append(shape)
    return found


def listed(folder: Path, *names: str, minutes: int = 0, **more: Any) -> dict[str, Any]:
    """Return a list of tiles, three seconds after each other."""
    rows = []
    for name in names:
        seconds = 3 * sorted(_TILES).index(name)
        row = {"scene": name, "time": f"2024-06-01T10:{minutes:02d}:{seconds:02d}Z", "platform": "s2a"} | more
        rows += [
            row | {"href": str(folder / f"{name}.tif"), "band": "red"},
            row | {"href": str(folder / f"{name}-scl.tif"), "band": "scl"},
        ]
    return {"rows": rows}


def polygons() -> list[dict[str, Any]]:
    """Return the polygons."""
    return [{"n": n, "wkb": shape.wkb} for n, shape in enumerate(shapes())]


def small() -> list[dict[str, Any]]:
    """Return narrow polygons of few pixels: on one tile, on two, on four, and over the edge."""
    lines = [
        (100, 50, 104, 54),
        (155, 50, 230, 52),
        (50, 155, 52, 230),
        (155, 155, 230, 230),
        (370, 200, 390, 205),
    ]
    ends = [[(_LEFT + 10 * x, _TOP - 10 * y) for x, y in (each[:2], each[2:])] for each in lines]
    return [{"n": n, "wkb": shapely.LineString(each).buffer(17).wkb} for n, each in enumerate(ends)]


def made(to: Path, sources: dict[str, Any], **options: Any) -> Rows:
    """Make a table, and return its lines."""
    place = "append_to" if options.pop("append", False) else "to"
    features = options.pop("features", None) or polygons()
    asked: dict[str, Any] = {"id": "n", "crs": _CRS, "by": "red", "statistics": _NAMES, place: to} | options
    zones(features, sources, **asked)
    rows: Rows = pq.read_table(to).to_pylist()
    return rows


def extracted(path: Path) -> Rows:
    """Return what exactextract computes of the mosaic."""
    exactextract = module_of_group("exactextract", "rank-anchors")
    names = [{"p90": "quantile(q=0.9)"}.get(name, name) for name in _NAMES.split(",")]
    features = [feature(shapely.geometry.mapping(each)) for each in shapes()]
    # Of float pixels it does not cut off quantiles
    with rasterio.open(path) as dataset:
        values = dataset.read(1).astype("float64")
        source = path.with_name(f"{path.stem}-float.tif")
        write(source, np.where(values == 0, -1.0, values), 0, 0, nodata=-1.0)
    return [each["properties"] for each in exactextract.exact_extract(str(source), features, names)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("mosaic", "mask"), [("whole.tif", None), ("shown.tif", {"band": "scl", "drop": [9]})]
)
def test_merged_lines_are_exactextracts_of_the_mosaic(
    folder: Path, tmp_path: Path, mosaic: str, mask: dict[str, Any] | None
) -> None:
    """All statistics, also of pixels that two tiles show, beside pixels without data, and under a mask."""
    rows = made(tmp_path / "t.parquet", listed(folder, *_TILES), mask=mask)
    wanted = extracted(folder / mosaic)
    with_image = {row["id"]: row for row in rows if row["href"] is not None}

    assert len(with_image) == sum(row["href"] is not None for row in rows)  # one line for each polygon
    assert sum(row["images"] > 1 for row in rows) > 15
    assert max(row["images"] for row in rows) == 4
    for n, expected in enumerate(wanted):
        if not expected["count"]:
            assert n not in with_image or with_image[n]["mean"] is None
            continue
        found = with_image[n]
        for name in _NAMES.split(","):
            theirs = expected["quantile_90" if name == "p90" else name]
            assert found[name] == pytest.approx(theirs, rel=1e-12, abs=1e-9 if name == "stdev" else 0), (
                n,
                name,
            )
        assert found["status"] == "ok"
        others = (found["other_hrefs"] or "").split()
        assert len({found["href"], *others}) == found["images"]


@pytest.mark.long
@pytest.mark.parametrize("coverage", ["centre", "touched"])
def test_other_coverages_merge_as_well(folder: Path, tmp_path: Path, coverage: str) -> None:
    """To what one image of the whole has."""
    rows = made(tmp_path / "t.parquet", listed(folder, *_TILES), coverage=coverage)
    alone = {"rows": [{"href": str(folder / "whole.tif"), "time": "2024-06-01"}]}
    expected = made(tmp_path / "u.parquet", alone, coverage=coverage, by="red=b1")

    assert any(row["images"] > 1 for row in rows)
    for name in _NAMES.split(","):
        found, wanted = ([row[name] or 0.0 for row in each] for each in (rows, expected))
        assert found == pytest.approx(wanted, rel=1e-12), name


@pytest.mark.long
def test_a_merged_line_with_one_value_of_two_is_ok(folder: Path, tmp_path: Path) -> None:
    """The other value divides by 0, so no pixel has it."""
    one = made(tmp_path / "one.parquet", listed(folder, *_TILES), features=small())
    two = made(
        tmp_path / "two.parquet", listed(folder, *_TILES), features=small(), by="red,never=red/(red-red)"
    )

    assert max(row["images"] for row in one) > 1
    assert {row["status"] for row in one} >= {"ok"}
    assert [row["status"] for row in two] == [row["status"] for row in one]
    assert {row["valid"] for row in two} == {0}


def test_an_order_of_the_list_changes_nothing(folder: Path, tmp_path: Path) -> None:
    """Nor the number of tiles in one append, nor what came first."""
    few = polygons()[::3]
    expected = made(tmp_path / "t.parquet", listed(folder, *_TILES), features=few)
    for seed in range(4):
        rng = random.Random(seed)  # noqa: S311 # no secret
        names, to = rng.sample(sorted(_TILES), 4), tmp_path / f"{seed}.parquet"
        cuts = sorted(rng.sample(range(1, 4), rng.randint(1, 3)))
        for start, stop in zip([0, *cuts], [*cuts, 4], strict=True):
            rows = made(to, listed(folder, *names[start:stop]), append=True, features=few)

        assert rows == expected
        assert verify_table(to).is_same


@pytest.mark.long
@pytest.mark.parametrize(
    ("sources", "n_merged"),
    [
        ({"platform": None}, 0),
        ({"minutes": 1}, 0),
        ({"platform": "s2b"}, 0),
        ({"merge": False}, 0),
        ({}, 1),
    ],
    ids=str,
)
def test_only_images_of_one_acquisition_are_merged(
    folder: Path, tmp_path: Path, sources: dict[str, Any], n_merged: int
) -> None:
    """Same platform, near in time; and it can be switched off."""
    merge = sources.pop("merge", True)
    rows = listed(folder, "a")["rows"] + listed(folder, "b", **sources)["rows"]
    found = made(tmp_path / "t.parquet", {"rows": rows}, merge=merge)

    assert ("images" in found[0]) == merge
    assert any(row.get("images", 1) > 1 for row in found) == bool(n_merged)


@pytest.mark.long
@pytest.mark.parametrize("most", [0, 40])
def test_few_pieces_in_memory_make_the_same_lines(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Features with many pieces are then merged in parts, in the end each by itself."""
    features = small() + [each | {"n": each["n"] + 5} for each in small()]
    expected = made(tmp_path / "t.parquet", listed(folder, *_TILES), features=features)
    monkeypatch.setattr(merge_zone_lines, "_MOST_TOGETHER", most)

    assert made(tmp_path / "u.parquet", listed(folder, *_TILES), features=features) == expected
    assert {row["images"] for row in expected} == {1, 2, 4}


def test_the_valid_share_of_merged_lines_is_of_the_whole_zone(folder: Path, tmp_path: Path) -> None:
    """Also where it lies beyond all tiles."""
    over = small()[4]
    shape = shapely.from_wkb(over["wkb"])
    image = shapely.box(_LEFT, _TOP - 10 * _SIDE, _LEFT + 10 * _SIDE, _TOP)

    (line,) = made(tmp_path / "t.parquet", listed(folder, *_TILES), features=[over])

    assert line["valid"] == pytest.approx(shape.intersection(image).area / shape.area, rel=1e-6)
    assert line["valid"] < 0.9


def test_tiles_that_count_longitudes_otherwise_share_their_pixels(tmp_path: Path) -> None:
    """One goes on past 180 degrees, and the other begins at -180. Before, what both show counted twice."""
    world = np.random.default_rng(5).integers(1, 900, (20, 200)).astype("uint16")  # from 170 degrees
    rows = []
    for number, (west, part) in enumerate([(175, world[:, 50:120]), (-180, world[:, 100:])]):
        path = write_image(
            tmp_path / f"{number}.tif", part, west=west, north=1, size=0.1, crs="EPSG:4326", nodata=0
        )
        time = f"2024-06-01T10:00:{3 * number:02d}Z"
        rows.append({"href": str(path), "time": time, "platform": "s2a", "scene": str(number)})
    across = [{"n": 0, "wkb": shapely.box(178, -0.5, 185, 0.5).wkb}]

    zones(across, {"rows": rows}, to=tmp_path / "t.parquet", id="n", statistics="count,sum")

    (line,) = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert (line["count"], line["sum"]) == pytest.approx((700, world[5:15, 80:150].sum()), rel=1e-6)
    assert line["images"] == 2


def test_a_table_that_is_not_merged_is_not_appended_to_as_if(folder: Path, tmp_path: Path) -> None:
    """The columns would differ."""
    made(tmp_path / "t.parquet", listed(folder, "a"), merge=False)

    with pytest.raises(RequestError, match="the table was made with another value of merge"):
        made(tmp_path / "t.parquet", listed(folder, "b"), append=True)


@pytest.mark.long
def test_a_tile_that_is_torn_keeps_a_line_of_its_own(folder: Path, tmp_path: Path) -> None:
    """What could be read of the other tiles is merged, and the torn one is named."""
    torn = tmp_path / "b.tif"
    content = bytearray((folder / "b.tif").read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    torn.write_bytes(content)
    sources = listed(folder, "a", "c")["rows"] + [
        row | {"href": str(torn)} if row["band"] == "red" else row for row in listed(folder, "b")["rows"]
    ]
    rows = [row for row in made(tmp_path / "t.parquet", {"rows": sources}) if row["id"] == 0]

    assert [(row["status"], row["images"]) for row in sorted(rows, key=lambda row: str(row["status"]))] == [
        ("corrupt", 1),
        ("ok", 2),
    ]


@pytest.mark.long
def test_two_tries_of_a_torn_tile_give_what_a_whole_one_gives(folder: Path, tmp_path: Path) -> None:
    """Each try lacks other parts of the same file. The table has the lines and pieces of both."""
    torn, table, at_once = tmp_path / "b.tif", tmp_path / "t.parquet", tmp_path / "u.parquet"
    content, told = (folder / "b.tif").read_bytes(), (folder / "b.tif").stat()
    sources = {"rows": [*listed(folder, "a", "c")["rows"], *listed(tmp_path, "b")["rows"][:1]]}

    def put(start: int, stop: int) -> None:
        torn.write_bytes(content[:start] + bytes(stop - start) + content[stop:])
        os.utime(torn, ns=(told.st_atime_ns, told.st_mtime_ns))

    def torn_ids(rows: Rows) -> set[int]:
        return {row["id"] for row in rows if row["status"] == "corrupt"}

    def known(rows: Rows, lacking: set[int]) -> tuple[list[Any], np.ndarray[Any, Any]]:
        some = [row for row in rows if row["id"] not in lacking]
        names = ("id", "scene", "images", "other_hrefs", "status")
        numbers = [[row[name] for name in (*_NAMES.split(","), "valid")] for row in some]
        return [[row[name] for name in names] for row in some], np.array(numbers, float)

    n = len(content)
    put(n * 3 // 5, n)
    first = made(table, sources)
    put(n // 5, n * 2 // 5)
    second = made(tmp_path / "second.parquet", sources)
    both = made(table, sources, append=True)
    lacking = torn_ids(first) & torn_ids(second)
    assert torn_ids(both) == lacking
    assert lacking < torn_ids(first)
    assert torn_ids(second) - lacking
    assert sum(pq.read_table(side_path(table, "images"))["unread"].to_pylist()) == len(lacking)
    pieces = pq.read_table(side_path(table, "pieces"), columns=["image", "feature"])
    assert pieces.equals(pieces.sort_by([("image", "ascending"), ("feature", "ascending")]))
    assert verify_table(table).is_same

    put(0, 0)
    whole = made(at_once, sources)
    (names, numbers), (expected, of_whole) = known(both, lacking), known(whole, lacking)
    assert names == expected
    np.testing.assert_array_equal(numbers, of_whole)
    made(table, sources, append=True)
    assert content_of(table) == content_of(at_once)


def test_an_image_that_is_not_there_is_appended_to_merged_lines_alone(folder: Path, tmp_path: Path) -> None:
    """All lines of the table are then made of its pieces, and no image brings another line."""
    table, across = tmp_path / "t.parquet", [small()[1]]
    first = made(table, listed(folder, "a", "b"), features=across)
    missing = {"rows": [row | {"href": f"{row['href']}.gone"} for row in listed(folder, "c")["rows"]]}
    rows = made(table, missing, append=True, features=across)

    assert [row["images"] for row in first] == [2]
    assert [row for row in rows if row["id"] is not None] == first
    lines = [(row["status"], row["images"], row["other_hrefs"]) for row in rows if row["id"] is None]
    assert lines == [("missing", 1, None)]


class Killed(BaseException):
    """The process was ended."""


def fail_at(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> list[str]:
    """Raise an error at a write or rename: a file that was begun stays empty. Return those before it."""
    done: list[str] = []
    replaced, opened = Path.replace, Path.open

    def count(what: str) -> None:
        if len(done) >= at:
            raise error
        done.append(what)

    def replace_or_die(self: Path, target: Path) -> Path:
        count(f"replace {target.name}")
        return replaced(self, target)

    def open_or_die(self: Path, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:
        file = opened(self, mode, *args, **options)
        if mode[0] in "wa":
            try:
                count(f"write {self.name}")
            except BaseException:
                file.close()
                raise
        return file

    monkeypatch.setattr(Path, "replace", replace_or_die)
    monkeypatch.setattr(Path, "open", open_or_die)
    return done


def content_of(table: Path) -> list[Any]:
    """Return the lines of a table, and its pieces bit for bit."""
    return [pq.read_table(table), side_path(table, "pieces").read_bytes()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_before", "error"), [(0, Killed()), (2, Killed()), (2, OSError(28, "No space left on device"))]
)
def test_an_append_that_is_killed_is_done_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int, error: BaseException
) -> None:
    """Or fails, at each write and rename, of the first table and of one that is there."""
    names = sorted(_TILES)
    at_once, base = tmp_path / "u.parquet", tmp_path / "base"
    few = small()
    assert {row["images"] for row in made(at_once, listed(folder, *names), features=few)} >= {1, 2, 4}
    base.mkdir()
    if n_before:
        made(base / "t.parquet", listed(folder, *names[:n_before]), append=True, features=few)
    expected, at, is_done = content_of(at_once), 0, False
    while not is_done:
        to = shutil.copytree(base, tmp_path / str(at)) / "t.parquet"
        with monkeypatch.context() as patch:
            done = fail_at(patch, at, error)
            try:
                made(to, listed(folder, *names[n_before:]), append=True, features=few)
                is_done = True
            except (Killed, StoreError):
                at += 1
        made(to, listed(folder, *names[n_before:]), append=True, features=few)

        assert content_of(to) == expected, done
        assert verify_table(to).is_same
        assert sorted(each.name for each in to.parent.iterdir()) == [
            "t.features.parquet",
            "t.images.parquet",
            "t.parquet",
            "t.pieces.parquet",
        ], done
        shutil.rmtree(to.parent)

    assert done[-3:] == ["replace t.images.parquet", "replace t.pieces.parquet", "replace t.parquet"]


@pytest.mark.long
def test_a_table_without_pieces_leaves_none_of_a_table_that_somebody_removed(
    folder: Path, tmp_path: Path
) -> None:
    """Whoever removes a table may forget the file of its pieces."""
    table = tmp_path / "t.parquet"
    made(table, listed(folder, *_TILES))
    assert side_path(table, "pieces").exists()
    table.unlink()
    side_path(table, "images").unlink()

    made(table, listed(folder, *_TILES), merge=False)

    assert not side_path(table, "pieces").exists()
    assert verify_table(table).is_same


@pytest.fixture(scope="module")
def versions(folder: Path) -> Path:
    """Three processings of each tile, which differ."""
    for name, (col, row) in _TILES.items():
        with rasterio.open(folder / f"{name}.tif") as dataset:
            pixels = dataset.read(1)
        for version in range(3):
            write(folder / f"{name}{version}.tif", np.where(pixels > 0, pixels + version, 0), col, row)
    return folder


type Image = tuple[str, int, float]
"""A tile, its version, and its second."""


def rows_of(folder: Path, images: list[Image]) -> dict[str, Any]:
    """Return a list of images of one platform."""
    rows = []
    for name, version, second in images:
        time = f"2024-06-01T10:{int(second // 60):02d}:{second % 60:04.1f}Z"
        href = str(folder / f"{name}{version}.tif")
        rows.append({"href": href, "scene": f"{name}{version}", "time": time, "platform": "s2a"})
    return {"rows": rows}


_IMAGES: Final = st.lists(
    st.tuples(
        st.sampled_from(sorted(_TILES)),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 1.2, 3.0, 40.0, 46.0, 80.0, 130.0]),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda image: image[:2],
)


@pytest.mark.long
@given(images=_IMAGES, cuts=st.sets(st.integers(1, 4)))
@example(images=[("a", 0, 0.0), ("b", 0, 1.2), ("b", 1, 0.5)], cuts={2})  # another processing, late
@example(images=[("a", 0, 0.0), ("b", 0, 80.0), ("c", 0, 40.0)], cuts={2})  # what joins two
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_images_of_a_pass_come_in_any_order(
    versions: Path, tmp_path_factory: pytest.TempPathFactory, images: list[Image], cuts: set[int]
) -> None:
    """Near and far in time, and several processings of a tile."""
    place = tmp_path_factory.mktemp("orders")
    to, at_once = place / "t.parquet", place / "u.parquet"
    stops = sorted(each for each in cuts if each < len(images))
    asked: dict[str, Any] = {"by": "red=b1", "statistics": "mean,p90", "features": small()}
    for start, stop in zip([0, *stops], [*stops, len(images)], strict=True):
        made(to, rows_of(versions, images[start:stop]), append=True, **asked)
    made(at_once, rows_of(versions, images), **asked)

    assert pq.read_table(to).to_pylist() == pq.read_table(at_once).to_pylist()
    assert verify_table(to).is_same


def _record(number: int, second: float, *, place: tuple[int, ...], acquisition: str = "s2a") -> ImageRecord:
    return ImageRecord(
        number=number,
        scene=str(number),
        time_us=int(second * 1e6),
        hrefs=(f"{number}.tif",),
        key=str(number),
        acquisition=acquisition,
        place=place,
    )


def test_processings_of_one_scene_are_not_merged() -> None:
    """They have one place and second, as duplicates of searches; parts of a scene are seconds apart."""
    left, right = (0, 0, 10, 10), (10, 0, 10, 10)
    records = [
        _record(0, 0, place=left),
        _record(1, 0.5, place=left),
        _record(2, 3, place=right),
        _record(3, 3, place=right),
        _record(4, 5, place=right),
        _record(5, 60, place=left),
        _record(6, 0, place=right, acquisition=""),
    ]

    passes, groups, ranks = group_images(records)

    assert passes.tolist() == [0, 0, 0, 0, 0, 5, 6]
    assert groups.tolist() == [0, 1, 0, 1, 0, 5, 6]
    assert ranks.tolist() == [0, 2, 3, 4, 5, 6, 1]
