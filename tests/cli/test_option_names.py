"""Errors name what the user wrote, and ``.`` is a place like any other."""

import shlex
from pathlib import Path

import pytest

from support.command_line import run

_FILE = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
_SCENES = str(_FILE.parent / "stactools-nclimgrid")
_WRONG = {
    "verify s3://b/c": "CUBE: 'b' cannot be the name",
    "versions ftp://host/c": "CUBE: ftp:// is not read here",
    "view s3://b/c": "CUBE: 'b' cannot be the name",
    "export s3://b/c --to a.gif": "CUBE: 'b' cannot be the name",
    "compact .": "CUBE: ",
    "join s3://b/c --to j": "CUBES: 'b' cannot be the name",
    "join c --to s3://b/j": "--to: 'b' cannot be the name",
    "search --catalog s3://b/c": "--catalog: 'b' cannot be the name",
    "run --sources list.txt --tile centre --to s3://b/c": "--to: 'b' cannot be the name",
    "run --sources list.txt --tile centre --append-to s3://b/c": "--append-to: 'b' cannot be the name",
    "run --sources list.txt --bbox 1,2,0,1 --to x": "--bbox: bbox is [west",
    "run --sources list.txt --pixels 0,0,0,1 --to x": "--pixels: pixels is [column",
    "run --sources list.txt --tile centre --codec zfp --to x": "--codec: give zfp_tolerance",
    "run --sources list.txt --tile centre --layout 0,1,1 --to x": "--layout: it is 0",
    "run --sources list.txt --tile centre --max-usd -1 --to x": "--max-usd: it is -1.0",
    "run --sources list.txt --tile centre --index missing --to x": "--index: the index cannot be read",
    "run --prefix missing/ --tile centre --to x": "--prefix: there is no folder",
    "run --prefix . --regex ( --tile centre --to x": "--regex: this is not a regular expression",
    "run --items missing.json --assets red --point 1,2 --to x": "--items: the catalog cannot be read",
    "run --catalog a --assets red --datetime x --point 1,2 --to x": "--datetime: 'x' is no time",
    "index list.txt --to list.txt": "--to: a header index is a Parquet file",
    "rank list.txt --by ''": "--by: write what to rank by",
    "rank list.txt --by b1 --parquet a/b.csv": "--parquet: there is no folder a",
    "rank list.txt --by b1 --parquet b.csv": "--parquet: the table is a Parquet file; write b.parquet",
    "replay c --parquet b.CSV": "--parquet: the table is a Parquet file; write b.parquet",
    "search --catalog c --format parquet --to b.json": "--to: the list of scenes is a Parquet file",
    "rank list.txt --by b1 --bbox 500,1,2,3": "--bbox: west is 500",
    "ls missing": "PREFIX: there is no folder",
    "ls list.txt": "PREFIX: ",
    "run list.txt --tile centre --to x": "list.txt: this is a list, not a REQUEST: write --sources list.txt",
    "plan list.parquet --tile centre": "list.parquet: this is a list, not a REQUEST",
    "plan a.tif": "a.tif: this is an image, not a REQUEST: write its name into a file",
    "plan s3://b/r.json": "s3://b/r.json: a REQUEST is a file on this machine: copy it here first",
    "plan .": ".: this is a folder, not a REQUEST: write --prefix . to read the files in it",
    "plan bolzano": (
        "bolzano: the request cannot be read: No such file or directory; REQUEST is a file, and pixel-gather "
        "status bolzano shows a gather on AWS"
    ),
    "plan missing.json": "missing.json: the request cannot be read: No such file or directory",
    "export cube.zarr --to s3://b/x.csv": "--to: an export is written to this machine: give a path",
    "run request.json --to x": "window.pixels: ",
    "run --sources list.txt --windows plots.csv --to x": "--size: is needed",
    "run --sources list.txt --windows plots.csv --size 8,8 --seed 3 --to x": "--seed: use it only",
    "virtual --sources list.txt --tile centre --band-axis --to x": "--band-axis: references have",
    "virtual --sources list.txt --tile centre --no-sharding --to x": "--no-sharding: a virtual cube",
    "points plots.csv --sources list.txt --id nope --to x.parquet": "--id: there is no column nope",
    "points plots.csv --sources list.txt --time nope --tolerance 1d --to x.parquet": "--time: there is no",
    "points plots.csv --sources list.txt --time when --to x.parquet": "--time: give time (--time) and",
    "points plots.csv --sources list.txt --tolerance 1d --to x.parquet": "--tolerance: give time",
    "points plots.csv --sources list.txt --time when --tolerance 1d --to x.parquet": (
        "plots.csv: 'noon' in column when is no time; write 2024-06-01"
    ),
    "points plots.csv --sources list.txt --x when --y lat --to x.parquet": (
        "plots.csv: 'noon' in column when is no number"
    ),
    "points plots.csv --to x.parquet": "--sources: give one of",
    "points sources.csv --sources plots.csv --to x.parquet": "sources.csv: there are no coordinates",
    "points here/sources.csv --sources plots.csv --to x.parquet": "sources.csv: there are no coordinates",
    "run --sources here/sources.txt --tile centre --to x": "sources.txt line 2: ftp:// is not read here",
    "drill sources.txt --point 1,2": "sources.txt line 2: ftp:// is not read here",
    "series --sources list.txt": "--point, --geojson: give one of them",
    "series --sources list.txt --point 46,111": "--point: it has longitude 46 and latitude 111",
    "points far.csv --sources list.txt --to x.parquet": "far.csv: row 2 has longitude 500 and latitude 46",
    "run --sources list.txt --windows far.csv --size 8,8 --to x": "far.csv: row 2 has longitude 500 and",
    "series --sources list.txt --geojson two.json": ("--geojson: it has 2 features, and a series is of one"),
    "series --sources list.txt --geojson none.json": "--geojson: none.json cannot be read: No such file",
    "run --sources list.txt --tile centre --mask scl:3 --to x": "--mask: the cube has no band scl",
    "plan --sources list.txt --tile centre --max-usd 1e-9": "--max-usd: the plan takes",
    "plan --sources list.txt --pixels 0,0,9000,9000": "--pixels: the window of 9,000 x 9,000 pixels",
    "plan --sources list.txt --point 0,0 --size 9000,9000": "--size: the window of 9,000 x 9,000 pixels",
    "plan --sources list.txt --pixels 0,0,9000,9000 --times-source 2": "--times-source: the window of 9,000",
    "plan large.json": "window: the window of 9,000 x 9,000 pixels",
    "drill list.txt --pixel 1,2 --json --nodata gap": "--nodata: JSON has is_nodata and status",
    "drill list.txt --pixel 1,2 --json --out-of-bounds -1": "--out-of-bounds: JSON has is_nodata",
    "drill list.txt --point 500,46": "--point: the longitude is 500",
    "rank list.txt --by b1 --max-seconds 1e-9": "--max-seconds: 1 scene would take",
    "rank list.txt --by b1 --html none/x.html": "--html: there is no folder none",
    "rank list.txt --by b1 --html s3://none/x.html": "--html: the page is written to this machine: give a",
    "rank list.txt --by b1 --statistics s3://none/x": "--statistics: the statistics are written to this",
    "ls here --log-file s3://none/x": "--log-file: the log is written to this machine: give a path",
    "ls here --log-file ~who-is-it/none/x": "--log-file: ~who-is-it/none/x cannot be written",
    "check --save s3://none/x": "--save: the file is written to this machine: give a path",
    "emulate --env-file s3://none/x": "--env-file: the file is written to this machine: give a path",
    "report c --to s3://none/x": "--to: the folder is written to this machine: give a path",
    "report ~who-is-it/c --to r": "~who-is-it/c: there is no such folder",
    "bench list.txt --to s3://none/x": "--to: the folder is written to this machine: give a path",
    "points plots.csv --sources list.txt --to x.parquet --wide none/x.csv": "--wide: there is no folder none",
    "series --sources list.txt --point 1,2 --html none/x.html": "--html: there is no folder none",
    "rank list.txt --by clear": "--mask: clear needs a mask",
    "run --sources list.txt --windows plots.csv --size 0,0 --to x": (
        "--size: size is [width, height]: width is 0"
    ),
    "run --sources list.txt --windows plots.csv --sample 0 --size 0,0 --to x": (
        "--size: size is [width, height]: width is 0; the least is 1. "
        "Also wrong: --sample (it is 0; the least is 1)\n"
    ),
    "run --sources list.txt --seed 3 --to x": "--windows: is needed. Also wrong: --size (is needed)\n",
    "run --sources list.txt --windows plots.csv --sample 0 --to x": (
        "--size: is needed. Also wrong: --sample (it is 0; the least is 1)\n"
    ),
    "run --sources list.txt --tile centre --layout 0,0,1 --max-usd -1 --bands 0,0 --to x": (
        "--bands: it is 0; the least is 1. Also wrong: --layout (it is 0; the least is 1), "
        "--max-usd (it is -1.0; the least is 0)\n"
    ),
    "rank list.txt --by b1 --html list.txt": "--html: the page is an HTML file; write list.html",
    "series --sources list.txt --point 1,2 --html list.CSV": "--html: the page is an HTML file; write list",
    "points plots.csv --sources list.txt --to x.parquet --html x.parquet": "--html: the page is an HTML file",
    "points plots.csv --sources list.txt --to x.parquet --wide x.parquet": "--wide: the wide table is a CSV",
    "rank list.txt --by b1 --html here": "--html: it is a folder; name a file in it",
    "rank list.txt --by b1 --parquet here": "--parquet: it is a folder; name a file in it",
    "points plots.csv --sources list.txt --to x.parquet --wide here": "--wide: it is a folder; name a file",
    "search --catalog c --format parquet --to here": "--to: it is a folder; name a file in it",
    "catalog --sources list.txt --to here": "--to: it is a folder; name a file in it",
    "index list.txt --to here": "--to: it is a folder; name a file in it",
    "plan deep.json": "deep.json: is nested too deep to be a request",
    "rank list.txt --by b1 --geojson deep.json": "--geojson: deep.json is no GeoJSON file: ",
    "points empty.parquet --sources list.txt --to x.parquet": (
        "empty.parquet: this is not Parquet, or is damaged: Parquet file too small. Size is 0 but need 8"
    ),
    "join here --to list.txt": "{here}/list.txt cannot be written to: it is a file, not a folder; choose",
    "virtual --sources list.txt --tile centre --to list.txt": "{here}/list.txt cannot be written to: it is a",
    "rank none.parquet --by b1 --parquet x": "none.parquet: the list cannot be read",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a list of one file."""
    file = min(_FILE.glob("heat_content_anomaly_0-2000*.tif"))
    (tmp_path / "list.txt").write_text(f"{file}\n")
    (tmp_path / "plots.csv").write_text("lon,lat,when\n11,46,noon\n")
    (tmp_path / "sources.csv").write_text(f"href\n{file}\n")
    (tmp_path / "sources.txt").write_text("a.tif\nftp://b/c\n")
    (tmp_path / "here").symlink_to(tmp_path)
    (tmp_path / "far.csv").write_text("lon,lat\n11,46\n500,46\n")
    (tmp_path / "two.json").write_text('{"type": "FeatureCollection", "features": [{}, {}]}')
    (tmp_path / "request.json").write_text('{"sources": "list.txt", "window": {"pixels": [0, 0, 0, 1]}}')
    (tmp_path / "deep.json").write_text("[" * 20_000)
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "large.json").write_text('{"sources": "list.txt", "window": {"pixels": [0, 0, 9000, 9000]}}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("words", "said"), _WRONG.items())
def test_errors_name_the_option_that_was_given(
    words: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user of the command knows options. The fields of a request are for those who write one."""
    assert run(*shlex.split(words)) == 2
    lines = capsys.readouterr().err.splitlines(keepends=True)
    told = "".join(each for each in lines if not each.startswith("planning: "))  # on a busy machine
    assert told.startswith(f"pixel-gather: {said.replace('{here}', str(here))}")


def test_a_dot_is_a_place(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of a cube, the cube is ``.``."""
    (here / "cube").mkdir()
    monkeypatch.chdir(here / "cube")

    assert run("run", "--sources", "../list.txt", "--tile", "centre", "--to", ".", "--quiet") == 0
    assert (here / "cube" / "zarr.json").is_file()
    for words in (
        "verify .",
        "verify ../cube/.",
        "versions ./",
        "presence . --by status",
        "export . --to ../table.csv",
        "replay . --headers-only",
        "report . --to ../report",
        "compact .",
        "join . --to ../joined/.",
        "run --sources ../list.txt --tile centre --append-to . --quiet",
    ):
        assert run(*words.split()) == 0, words


def test_an_option_that_can_be_repeated_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not called as the library calls one of its values. Here nobody has given it."""
    (here / "bands.csv").write_text("href,band,scene\n" + "".join(f"{here}/{n}.tif,{n},s\n" for n in "ab"))
    for name in "ab":
        (here / f"{name}.tif").symlink_to(min(_FILE.glob("heat_content_anomaly_0-2000*.tif")))
    assert run("run", "--sources", "bands.csv", "--tile", "centre", "--to", "c", "--no-report") == 0
    capsys.readouterr()

    assert run("export", "c", "--to", "x.gif") == 2
    assert capsys.readouterr().err.startswith(
        "pixel-gather: --measurement: the cube has 2 measurements, a, b;"
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan --assets no --bands 1 --point -96,37", "--assets"),
        ("rank --by no", "--bands"),
        ("rank --by red --bands red=no", "--bands"),
        ("points plots.csv --by no --to x.parquet", "--bands"),
    ],
)
def test_the_option_that_says_an_asset_is_named(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is another one in each command. What ``plan`` calls ``--bands`` takes numbers."""
    Path("plots.csv").write_text("lon,lat\n-96,37\n")
    made = run("catalog", "--prefix", _SCENES, "--regex", "1895", "--time", "prcp-%Y%m", "--to", "c.parquet")
    assert made == 0
    capsys.readouterr()

    assert run(*words.split(), "--catalog", "c.parquet") == 2
    answer = capsys.readouterr().err
    assert answer.startswith(f"pixel-gather: {said}: ")
    assert "; the first has data; if one of these is meant, write " in answer
