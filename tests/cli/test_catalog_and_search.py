"""``catalog`` and ``search`` on real images: from a folder to a list, and from the list to a cube."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from pixel_gather.features.catalog.catalog import make_catalog
from scenes.scenes import item
from support.command_line import run

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "tests/data/series/files/stactools-nclimgrid"
IMAGES = sorted(each for each in FOLDER.glob("*.tif") if "1951" not in each.name)  # that one has no place
TIME = "prcp-%Y%m"
POINT = ("--point", "-96,37")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of a folder of monthly rain images, three of them of one month."""
    place = tmp_path_factory.mktemp("catalog") / "catalog.parquet"
    assert (
        run("catalog", "--prefix", f"{FOLDER}/", "--regex", "1895|2022", "--time", TIME, "--to", place) == 0
    )
    return place


def found(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """Return the lines of CSV that the command printed."""
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_log_gets_one_line_of_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only a terminal can write over a line."""
    below = ("--prefix", f"{FOLDER}/", "--regex", "1895", "--time", TIME)
    assert run("catalog", *below, "--to", tmp_path / "catalog.parquet") == 0
    assert capsys.readouterr().err == "2 scenes\n"


def test_a_catalog_that_is_replaced_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Adding to one is what may have been meant."""
    below = ("--prefix", f"{FOLDER}/", "--regex", "1895", "--time", TIME)
    asked = ("catalog", *below, "--to", tmp_path / "catalog.parquet")
    codes = [run(*asked), run(*asked, "--add")]
    assert "replaced" not in capsys.readouterr().err
    codes.append(run(*asked))
    assert "warning: the catalog that was there is replaced; add would keep" in capsys.readouterr().err
    assert codes == [0, 0, 0]


def test_a_folder_of_images_is_searchable(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every image is found at its location and its time only."""
    capsys.readouterr()
    code = run("search", "--catalog", catalog, *POINT, "--assets", "data")

    rows = found(capsys)
    assert code == 0
    assert sorted(row["href"] for row in rows) == [f"file://{each}" for each in IMAGES]
    for row in rows:
        assert row["time"][:7].replace("-", "") in Path(row["href"]).name

    assert run("search", "--catalog", catalog, "--point", "0,50", "--assets", "data") == 0
    assert "no scenes found" in capsys.readouterr().err


@pytest.mark.slow
def test_what_search_prints_is_a_list(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``run`` accepts the printed list. Its cube equals the one with the catalog as source."""
    capsys.readouterr()
    assert run("search", "--catalog", catalog, *POINT, "--assets", "data") == 0
    (tmp_path / "list.csv").write_text(capsys.readouterr().out)
    assert (
        run("run", "--sources", tmp_path / "list.csv", *POINT, "--to", tmp_path / "a.zarr", "--no-report")
        == 0
    )
    asked = ("--catalog", catalog, "--assets", "data", "--datetime", "2020/..")
    assert run("run", *asked, *POINT, "--to", tmp_path / "b.zarr", "--no-report") == 0

    with xr.open_zarr(tmp_path / "a.zarr") as one, xr.open_zarr(tmp_path / "b.zarr") as other:
        assert one.sizes["time"] == len(IMAGES)
        assert other.sizes["time"] == 3
        values = dict(zip(one.scene.values, one.data.values.ravel(), strict=True))
        for scene, value in zip(other.scene.values, other.data.values.ravel(), strict=True):
            assert np.isfinite(value)
            assert values[scene] == value


@pytest.mark.parametrize("format_", ["table", "json", "jsonl", "hrefs", "csv"])
def test_every_format_tells_every_scene(
    catalog: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every format has the same scenes."""
    capsys.readouterr()
    assert run("search", "--catalog", catalog, "--format", format_) == 0

    text = capsys.readouterr().out
    assert all(each.stem in text for each in IMAGES)
    if format_ == "json":
        assert len(json.loads(text)["features"]) == len(IMAGES)
    if format_ in ("jsonl", "hrefs"):
        assert len(text.splitlines()) == len(IMAGES)


def test_parquet_can_be_searched_again(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of a search is STAC-GeoParquet, and a catalog can be made from it."""
    place = tmp_path / "found.parquet"
    for _ in range(2):  # the second replaces the first
        assert run("search", "--catalog", catalog, "--format", "parquet", "--to", place) == 0
    assert run("catalog", "--items", place, "--to", tmp_path / "again.parquet", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_scenes"] == len(IMAGES)


def test_a_search_replaces_no_other_file(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a list of sources in Parquet."""
    place = tmp_path / "list.parquet"
    pq.write_table(pa.table({"href": ["a.tif"]}), place)
    before = place.read_bytes()

    assert run("search", "--catalog", catalog, "--format", "parquet", "--to", place) == 2

    assert "--to: " in (said := capsys.readouterr().err)
    assert "list.parquet exists and is no STAC-GeoParquet" in said
    assert place.read_bytes() == before


def test_refresh_finds_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The catalog remembers its folder and the options, and finds new files."""
    folder, place = tmp_path / "images", tmp_path / "catalog.parquet"
    folder.mkdir()
    for each in IMAGES[:2]:
        (folder / each.name).write_bytes(each.read_bytes())
    assert run("catalog", "--prefix", f"{folder}/", "--time", TIME, "--to", place) == 0
    (folder / IMAGES[2].name).write_bytes(IMAGES[2].read_bytes())
    (folder / IMAGES[0].name).unlink()
    capsys.readouterr()

    assert run("catalog", "--refresh", "--to", place, "--json") == 0

    assert json.loads(capsys.readouterr().out)["n_scenes"] == 2
    assert run("search", "--catalog", place, "--format", "hrefs") == 0
    names = sorted(Path(line).name for line in capsys.readouterr().out.splitlines())
    assert names == sorted(each.name for each in IMAGES[1:3])


def test_files_of_which_no_scene_can_be_made_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files without a scene are named, and the exit code is 1."""
    (tmp_path / "list.csv").write_text(
        f"href,time\n{IMAGES[0]},1895-01\n{tmp_path}/nosuch.tif,1895-02\n{IMAGES[1]},\n"
    )
    assert run("catalog", "--sources", tmp_path / "list.csv", "--to", tmp_path / "c.parquet", "--json") == 1

    answer = capsys.readouterr()
    assert json.loads(answer.out)["n_left_out"] == 2
    assert "nosuch.tif" in answer.err
    assert "no time" in answer.err


def test_scenes_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table says how many. Several ways at once are refused."""
    make_catalog([item(name) for name in "abc"], to=tmp_path / "c.parquet")

    assert run("catalog", "--remove", "--id", "a", "--id", "c", "--to", tmp_path / "c.parquet") == 0
    assert "removed                2\n" in capsys.readouterr().out
    assert run("search", "--catalog", tmp_path / "c.parquet", "--format", "csv") == 0
    assert [row["id"] for row in found(capsys)] == ["b"]
    assert run("catalog", "--remove", "--to", tmp_path / "c.parquet") == 2
    assert "--remove: say which scenes" in capsys.readouterr().err
    assert run("catalog", "--remove", "--id", "b", "--to", tmp_path / "c.parquet") == 2
    assert "--remove: nothing would be left of 1 scene;" in capsys.readouterr().err
    assert run("catalog", "--remove", "--refresh", "--to", tmp_path / "c.parquet") == 2
    assert run("catalog", "--remove", "--items", "x", "--id", "b", "--to", tmp_path / "c.parquet") == 2


def test_search_tells_of_an_area_around_more_than_half_the_earth(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error."""
    steps = [[x, -80] for x in range(-170, 171, 10)] + [[x, 80] for x in range(170, -171, -10)]
    (tmp_path / "a.json").write_text(json.dumps({"type": "Polygon", "coordinates": [[*steps, steps[0]]]}))

    assert run("search", "--catalog", catalog, "--geojson", tmp_path / "a.json", "--json") == 0

    assert "warning: 1 polygon more than 180 degrees wide" in capsys.readouterr().err


def test_files_of_the_same_name_are_two_scenes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of one name in different folders are two scenes."""
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / IMAGES[0].name).write_bytes(IMAGES[0].read_bytes())
    options = ("--prefix", f"{tmp_path}/in/", "--glob", "**/*.tif", "--time", TIME, "--json")
    assert run("catalog", *options, "--to", tmp_path / "c.parquet") == 0
    assert json.loads(capsys.readouterr().out)["n_scenes"] == 2


def test_items_of_a_file_are_gathered(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A catalog's own Parquet file is one."""
    asked = ("--assets", "data", *POINT, "--json")
    assert run("plan", "--items", catalog, *asked) == 0
    by_items = json.loads(capsys.readouterr().out)
    assert run("plan", "--catalog", catalog, *asked) == 0

    assert by_items["shape"] == json.loads(capsys.readouterr().out)["shape"]
    assert run("plan", "--items", catalog, "--stac", "https://x", *asked) == 2
    assert "give exactly one of api, items, cmr" in capsys.readouterr().err


@pytest.mark.parametrize("assets", [(), ("--assets", "red")])
def test_hrefs_are_of_the_address_that_was_asked_for(
    assets: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """List files have such hrefs, too."""
    red = {"href": "https://host/red.tif", "alternate": {"s3": {"href": "s3://bucket/red.tif"}}}
    make_catalog([item(assets={"red": red})], to=tmp_path / "c.parquet")
    asked: tuple[str | Path, ...] = ("search", "--catalog", tmp_path / "c.parquet", *assets)

    assert run(*asked, "--format", "hrefs", "--address", "s3") == 0
    assert capsys.readouterr().out == "s3://bucket/red.tif\n"


def test_a_cloud_cover_that_is_no_number_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table shows the scene."""
    make_catalog([item(eo__cloud_cover="5")], to=tmp_path / "c.parquet")

    assert run("search", "--catalog", tmp_path / "c.parquet") == 0
    assert "scene-1" in capsys.readouterr().out


@pytest.mark.parametrize("format_", ["csv", "hrefs"])
def test_a_list_cannot_say_which_band(
    format_: str, catalog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads it would take the first one."""
    asked = ("search", "--catalog", catalog, *POINT, "--format", format_)
    assert run(*asked, "--assets", "data:2") == 2

    told = capsys.readouterr()
    assert "--assets: a list names whole files" in told.err
    assert told.out == ""


WRONG = {
    "catalog --to c.parquet": "give one of --stac",
    "catalog --sources a --prefix b --to c": "give one of --stac",
    "catalog --items a --glob * --to c": "--glob: use it only with --sources or --prefix",
    "catalog --items a --collection-name b --to c": "--collection-name: use it only with --sources or --pref",
    "catalog --items a --bbox 1,2,3,4 --to c": "--bbox: use it only with --stac, --cmr or --remove",
    "catalog --sources a --collection b --to c": "--collection: use it only with --stac, --cmr or --remove",
    "catalog --prefix a --id b --to c": "--id: use it only with --stac, --cmr or --remove",
    "catalog --refresh --datetime 2024 --to c": "--datetime: use it only with --stac, --cmr or --remove",
    "catalog --remove --id a --time auto --to c": "--time: use it only with --sources or --prefix",
    "catalog --refresh --add --to c": "--refresh alone",
    "catalog --refresh --to new/a/c.parquet": "there is no catalog at new/a/c.parquet",
    "catalog --remove --id a --to new/a/c.parquet": "there is no catalog at new/a/c.parquet",
    "search --bbox 1,2,3,4": "give either a catalog or the address",
    "search --catalog nosuch/c.parquet": "there is no catalog at nosuch/c.parquet;",
    "search --catalog c --bbox 1,20,3,4": "south is 20",
    "search --catalog c --point 37,-96": "the latitude is -96; write latitudes",
    "search --catalog c --where cloud": "where: 'cloud' is no condition",
    "search --catalog c --geojson nosuch.json": "--geojson: nosuch.json",
    "search --catalog c --to x": "go together",
    "search --catalog c --json --format csv": "give --json or --format, not both",
    "run --catalog c --point 1,2 --to x": "--assets: say what is read",
    "run --sources c --collection a --to x": "--collection: use it only with --stac, --items or --catalog",
    "points f --sources c --collection a --to x.parquet": "--collection: use it only with --catalog or",
    "run --sources c --where a<1 --to x": "--where: use it only with --stac, --items or --catalog",
    "plan --sources l --catalog c --assets red --point 1,2": "give exactly one",
}


@pytest.mark.parametrize(("words", "said"), WRONG.items())
def test_what_is_wrong_is_said(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is not 0, and no file or folder is made."""
    monkeypatch.chdir(tmp_path)

    assert run(*words.split()) != 0

    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_folders_become_images_and_what_cannot_be_listed_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A catalog that names folders gives a list of images; the exit code says that a folder is missing."""
    scenes = [
        item(name, time=time, assets={"images": {"href": folder}})
        for name, time, folder in (
            ("rain", "2024-06-01T00:00:00Z", f"file://{FOLDER}/"),
            ("none", "2024-06-02T00:00:00Z", f"file://{tmp_path}/no-such/"),
        )
    ]
    make_catalog(scenes, to=tmp_path / "folders.parquet")
    search = ("search", "--catalog", tmp_path / "folders.parquet", "--expand", "--listings", "2")

    assert run(*search, "--assets", "prcp-202201-grd-prelim-01") == 1
    told = capsys.readouterr()
    assert [row["href"] for row in csv.DictReader(io.StringIO(told.out))] == [
        f"file://{FOLDER}/prcp-202201-grd-prelim-01.tif"
    ]
    assert told.err == f"file://{tmp_path}/no-such/: missing: there is no such folder\n"
    assert run(*search, "--id", "rain", "--format", "hrefs") == 0
    assert capsys.readouterr().out.splitlines() == [f"file://{each}" for each in sorted(FOLDER.glob("*.tif"))]
    assert run(*search[:3], "--id", "rain", "--format", "hrefs") == 0
    assert capsys.readouterr().out == f"file://{FOLDER}/\n"
