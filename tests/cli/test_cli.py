"""The command as its users meet it: arguments in, text and exit code out."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.transform import Affine

from support.command_line import run, succeed
from support.images import write_image

PROJECT = Path(__file__).parents[2]
SERIES = PROJECT / "tests/data/series/files"
OHC = sorted((SERIES / "stactools-noaa-cdr").glob("heat_content_anomaly_0-2000*.tif"))


@pytest.fixture
def list_file(tmp_path: Path) -> Path:
    """A list of four real COGs on one grid."""
    file = tmp_path / "list.txt"
    file.write_text("".join(f"{path}\n" for path in OHC))
    return file


def test_plan_tells_the_shape_and_writes_nothing(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``plan`` prints the cube's shape and writes no file."""
    before = sorted(tmp_path.iterdir())

    code = run("plan", "--sources", list_file, "--tile", "centre", "--json")

    plan = json.loads(capsys.readouterr().out)
    assert code == 0
    assert plan["shape"] == [4, 180, 360]
    assert plan["measurements"][0]["dtype"] == "float32"
    assert plan["shards"] == 1
    assert plan["estimate"]["usd"] > 0
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"a": {}}', '{"measured": 3}', '{"measured": {"A": "b"}}'),
        *('{"measured": {"CHILDS": 1}}', '{"measured": {"CHILD": -1}}', '{"measured": {"ACCOUNT": 0}}'),
    ],
)
def test_plan_refuses_figures_of_another_file(
    list_file: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option and the file."""
    file = list_file.with_name("figures.json")
    file.write_text(content)

    code = run("plan", "--sources", list_file, "--tile", "centre", "--measured", file)

    assert code == 2
    assert f"'--measured': {file} was not written by scripts/deploy check --save: " in capsys.readouterr().err


def test_plan_shows_beside_every_number_what_it_rests_on(
    list_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each number has its basis, in the table and in JSON, for the requested number of workers."""
    request = list_file.with_name("request.json")
    request.write_text(json.dumps({"sources": str(list_file), "window": "centre", "limits": {"workers": 7}}))

    succeed("plan", request, "--verbose")
    text = capsys.readouterr().out
    succeed("plan", request, "--json")
    estimate = json.loads(capsys.readouterr().out)["estimate"]

    assert "4 x 180 x 360 (source, y, x)" in text
    assert "not measured on AWS" in text
    assert "how much" in text
    assert "rests on" in text
    assert "at most 7: the request's limits.workers" in text
    for each in estimate["figures"]:
        assert each["rests_on"]
        for words in (each["how_much"], *each["rests_on"]):
            assert words in text
    assert sum(estimate["seconds_by_part"].values()) == pytest.approx(estimate["seconds"])
    assert estimate["bound_by"] in text


def test_plan_fits_the_terminal(
    list_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a narrow terminal the words are the same, and lines are wrapped."""
    succeed("plan", "--sources", list_file, "--tile", "centre", "--verbose")
    whole = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "80")

    succeed("plan", "--sources", list_file, "--tile", "centre", "--verbose")

    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()


@pytest.mark.slow
def test_run_prints_one_json_object_and_leaves_a_cube(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``--json`` standard output is one JSON object. ``--no-report`` draws none."""
    to = tmp_path / "cube.zarr"

    code = run("run", "--sources", list_file, "--pixels", "10,20,30,40", "--to", to, "--no-report", "--json")

    printed = json.loads(capsys.readouterr().out)
    assert code == 0
    assert printed["cube"] == str(to)
    assert printed["status"] == {"ok": 4}
    assert len(printed["digest"]) == 32
    assert printed["timings"]["open"]["median"] > 0
    assert xr.open_zarr(to).band_1.shape == (4, 40, 30)
    assert not (to / "report.html").exists()


@pytest.mark.slow
def test_run_again_reads_nothing_and_says_so(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same request at the same location reads nothing, and the output says so."""
    arguments = ("run", "--sources", list_file, "--tile", "centre", "--to", tmp_path / "c", "--json")
    succeed(*arguments)
    first = json.loads(capsys.readouterr().out)

    code = run(*arguments)

    second = json.loads(capsys.readouterr().out)
    assert code == 0
    assert second == first | {"was_complete": True}


@pytest.mark.slow
def test_run_ends_with_1_when_a_source_failed(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cube is complete, and the report names the failed file."""
    list_file.write_text(list_file.read_text() + "gone.tif\n")

    code = run("run", "--sources", list_file, "--tile", "centre", "--to", tmp_path / "cube", "--no-report")

    printed = capsys.readouterr()
    assert code == 1
    assert "  missing              1: no such object, such as file:///" in printed.out
    assert "gone.tif" in printed.out


BAD_USAGE = {
    "plan": "give a REQUEST file",
    "plan --sources no-such-list.txt --tile 0,0": "no-such-list.txt",
    "plan --sources LIST": "window: is needed",
    "plan --sources IMAGE --tile 0,0": (
        "it is an image, not a list: write its name in a list file, or name its folder as prefix"
    ),
    "plan --sources no/such/*.tif --tile 0,0": "/no/such/ --glob '*.tif'",
    "rn --tile 0,0": "No such command 'rn'. Did you mean run?",
    "xyzzy": "No such command 'xyzzy'.",
    "plan --sources LIST --tile a,b": "'a,b' is not COL,ROW",
    "plan --sources LIST --bbox 11 46": "is not W,S,E,N; write numbers with commas between, such as 11.3,46",
    "plan --sources LIST --point 1,2 --size 256x256": "write numbers with commas between, such as 256,256",
    "rank --sources LIST --by b1": "write the list without --sources: pixel-gather rank LIST",
    "drill --sources LIST --pixel 0,0": "write the list without --sources: pixel-gather drill LIST",
    "index --sources LIST --to i.parquet": "write the list without --sources: pixel-gather index LIST",
    "plan --sources LIST --tile centre --to a.zarr": "plan writes nothing: leave --to out here, and",
    "plan --sources LIST --tile 9,9": "outside its 360 x 180",
    "plan --sources LIST --tile 0,0 --bands 7": "bands: ",
    "plan --sources LIST --bbox 1,1,2,2 --crs EPSG:1": "EPSG:1",
    "run --sources LIST --tile 0,0": "--to",
    "run --sources LIST --tile 0,0 --to https://a.example/b": "to: ",
    "drill LIST": "exactly one of --point",
    "limit ID --workers x": "'--workers': 'x' is not a valid whole number.",
    "plan --sample x": "'--sample': 'x' is not a valid whole number.",
    "plan --overview x": "'--overview': 'x' is neither a whole number nor auto",
    "watch ID --every x": "'--every': 'x' is not a valid number.",
    "ls s3://bucket/a --endpoint --unsigned": "'--unsigned' is not an address",
}


@pytest.mark.parametrize(("words", "message"), BAD_USAGE.items())
def test_bad_usage_ends_with_2_and_one_sentence(
    words: str, message: str, list_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names the field or file. Standard output is empty."""
    places: dict[str, str | Path] = {"LIST": list_file, "IMAGE": OHC[0]}

    code = run(*(places.get(word, word) for word in words.split()))

    printed = capsys.readouterr()
    assert code == 2
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_run_refuses_a_folder_that_holds_something_else(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files in the folder are not changed."""
    to = tmp_path / "mine"
    to.mkdir()
    (to / "thesis.txt").write_text("two years of work")

    code = run("run", "--sources", list_file, "--tile", "centre", "--to", to)

    assert code == 2
    assert "it is not empty (thesis.txt is there)" in capsys.readouterr().err
    assert [path.name for path in to.iterdir()] == ["thesis.txt"]


def test_run_refuses_a_place_that_is_a_file(list_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error is one sentence, and the file is not changed."""
    before = list_file.read_text()

    codes = [
        run("run", "--sources", list_file, "--tile", "centre", "--to", to, "--quiet")
        for to in (list_file, list_file / "below")
    ]

    printed = capsys.readouterr()
    assert codes == [2, 2]
    assert printed.err.count("cannot be written to") == 2
    assert f"{list_file} cannot be written to: it is a file, not a folder" in printed.err
    assert "Traceback" not in printed.err
    assert list_file.read_text() == before


@pytest.mark.long
def test_drill_that_nobody_reads_to_the_end_ends_quietly(list_file: Path) -> None:
    """``drill`` ends without an error when ``head`` closes the pipe."""
    list_file.write_text(list_file.read_text() * 500)
    command = [sys.executable, "-m", "pixel_gather_cli", "drill", str(list_file), "--pixel", "1,1", "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as drill:  # noqa: S603 # ours
        assert drill.stdout is not None
        assert drill.stderr is not None
        drill.stdout.readline()
        drill.stdout.close()
        said = drill.stderr.read().decode()

    assert "Traceback" not in said
    assert "Error" not in said


def test_a_request_file_and_options_go_together(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options replace the fields of a request file, in YAML and in JSON."""
    as_yaml = tmp_path / "request.yaml"
    as_yaml.write_text(f"sources: {list_file}\nwindow: {{tile: [0, 0]}}\n")
    as_json = tmp_path / "request.json"
    as_json.write_text(json.dumps({"sources": str(list_file), "window": "centre"}))

    succeed("plan", as_yaml, "--pixels", "0,0,5,6", "--json")
    from_yaml = json.loads(capsys.readouterr().out)
    succeed("plan", as_json, "--json")
    from_json = json.loads(capsys.readouterr().out)

    assert from_yaml["shape"] == [4, 6, 5]
    assert from_json["shape"] == [4, 180, 360]


def test_a_request_comes_from_standard_input(
    list_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``-`` means standard input, as for lists."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"sources": str(list_file), "window": "centre"})))

    code = run("plan", "-", "--json")

    assert code == 0
    assert json.loads(capsys.readouterr().out)["sources"] == 4


@pytest.mark.slow
def test_ls_gives_a_first_cube_its_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The times in the names of MODIS files become the cube's axis."""
    folder = tmp_path / "files"
    folder.mkdir()
    for day in (200, 17):
        (folder / f"MOD13Q1.A2021{day:03}.h18v04.061.2021300000000.tif").symlink_to(OHC[0])
    succeed("ls", folder)
    listed = tmp_path / "listed.txt"
    text = capsys.readouterr().out
    listed.write_text(text)
    succeed(
        "run", "--sources", listed, "--tile", "centre", "--to", tmp_path / "cube", "--no-report", "--quiet"
    )

    assert text.splitlines()[0] == "href,time"
    assert text.splitlines()[1].endswith(".061.2021300000000.tif,2021-01-17T00:00:00Z")
    cube = xr.open_zarr(tmp_path / "cube")
    assert cube.band_1.dims == ("time", "y", "x")
    assert [str(time)[:10] for time in cube.time.values] == ["2021-01-17", "2021-07-19"]


def test_ls_finds_times_by_a_pattern_and_says_where_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line without a time stays in the list."""
    for name in ("a_1895-02.tif", "b.tif"):
        (tmp_path / name).touch()

    succeed("ls", tmp_path, "--time", "_%Y-%m", "--long")
    found = capsys.readouterr()
    succeed("ls", tmp_path)
    without = capsys.readouterr()
    succeed("ls", tmp_path, "--glob", "a*")
    guessed = capsys.readouterr().err

    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [(row["time"], row["size_bytes"]) for row in rows] == [("1895-02-01T00:00:00Z", "0"), ("", "0")]
    assert found.err.startswith("warning: 1 of 2 hrefs contain no time")
    assert [line.rpartition("/")[2] for line in without.out.splitlines()] == ["a_1895-02.tif", "b.tif"]
    said = "no time was found in the names: say where it is by --time, such as _%Y%m%d_; see ls --help"
    assert without.err == f"warning: {said}\n"
    assert r"in the names: try --time '_%Y-%m\.'; see ls" in guessed


def test_prefix_and_pattern_make_a_cube_along_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pattern that finds no time is refused by the name of the option."""
    for name in ("x_1990.tif", "x_1980.tif"):
        (tmp_path / name).symlink_to(OHC[0])
    (tmp_path / "r.yaml").write_text(f"sources: {{prefix: {tmp_path}, glob: '*.tif'}}\nwindow: centre\n")

    code = run("plan", tmp_path / "r.yaml", "--time", r"_%Y\.", "--json")
    dims = json.loads(capsys.readouterr().out)["dims"]
    refused = run("plan", tmp_path / "r.yaml", "--time", "y%Y")
    said = capsys.readouterr().err

    assert (code, dims) == (0, ["time", "y", "x"])
    assert refused == 2
    assert "--time: 'y%Y' finds no time in any href" in said


@pytest.mark.slow
def test_ls_long_is_a_csv_whose_columns_become_coordinates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list has the size and the time of change."""
    succeed("ls", SERIES, "--regex", r"heat_content.*\.tif$", "--long")
    listed = tmp_path / "listed.csv"
    listed.write_text(capsys.readouterr().out)
    succeed(
        "run", "--sources", listed, "--tile", "centre", "--to", tmp_path / "cube", "--no-report", "--quiet"
    )

    cube = xr.open_zarr(tmp_path / "cube")
    assert cube.size_bytes.values.tolist() == [path.stat().st_size for path in OHC]


def _drilled(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_drill_by_pixel_and_by_place_agree(list_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pixel given by position or by coordinates has the same values."""
    succeed("drill", list_file, "--pixel", "200,90", "--csv")
    by_pixel = _drilled(capsys)
    succeed("drill", list_file, "--point", "20.5,-0.5", "--csv")
    by_place = _drilled(capsys)
    succeed("drill", list_file, "--xy", "20.5,-0.5", "--csv")
    by_xy = _drilled(capsys)

    assert len(by_pixel) == 4
    assert by_pixel == by_place == by_xy
    assert list(by_pixel[0].items())[3:5] == [("col", "200"), ("row", "90")]  # as in --pixel COL,ROW


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        (("--point", "46,-75"), "; longitude comes first: --point LON,LAT\n"),
        (("--pixel", "0,180"), " pixels\n"),
    ],
)
def test_drill_says_that_no_file_has_the_pixel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: tuple[str, str], hint: str
) -> None:
    """A latitude that was given first is the usual reason, where it is a longitude as well."""
    at = Affine(1, 0, -80, 0, -1, 50)
    write_image(tmp_path / "a.tif", np.ones((16, 16), "uint8"), crs="EPSG:4326", transform=at)
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'a.tif'}\n")

    assert run("drill", tmp_path / "list.txt", *place) == 0
    said = capsys.readouterr().err
    assert run("drill", tmp_path / "list.txt", "--pixel", "2,9") == 0
    of_one_that_is_there = capsys.readouterr().err

    assert said.startswith("no file has the pixel: in the first, the window (columns ")
    assert said.endswith(hint)
    assert "no file has" not in of_one_that_is_there


@pytest.mark.parametrize("point", ["-75,46", "285,46"])
def test_drill_finds_points_on_files_past_180_degrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], point: str
) -> None:
    """Some products count longitudes from 0 to 360."""
    place = Affine(1, 0, 280, 0, -1, 50)
    write_image(tmp_path / "a.tif", np.ones((16, 16), "uint8"), crs="EPSG:4326", transform=place)
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'a.tif'}\n")

    assert run("drill", tmp_path / "list.txt", "--point", point, "--csv") == 0

    assert _drilled(capsys)[0]["value"] == "1"


def test_drill_writes_what_it_is_told_for_nodata_and_out_of_bounds(
    list_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodata and a point outside of the image are no errors, and get the given texts."""
    code = run("drill", list_file, "--pixel", "0,180", "--csv", "--out-of-bounds", "-1")
    outside = _drilled(capsys)
    succeed("drill", list_file, "--pixel", "200,90", "--csv", "--nodata", "gap")
    inside = _drilled(capsys)

    assert code == 0
    assert {(line["value"], line["status"]) for line in outside} == {("-1", "outside")}
    assert all((line["value"] == "gap") == (line["status"] == "nodata") for line in inside)


def test_drill_as_a_table_shows_every_file(list_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default ``drill`` prints a table of all files."""
    succeed("drill", list_file, "--pixel", "180,90")

    table = capsys.readouterr().out
    assert all(path.name in table for path in OHC)


@pytest.mark.slow
def test_docs_are_what_the_code_tells() -> None:
    """The generated documents are up to date; `uv run python scripts/write_docs.py` writes them."""
    program = (
        "import json, write_docs as docs; "
        "print(json.dumps([docs.commands_text(), docs.python_text(), docs.schema_text()]))"
    )

    told = subprocess.run(  # noqa: S603 # our own words; click keeps with a command how it was first called
        [sys.executable, "-c", program], cwd=PROJECT / "scripts", stdout=subprocess.PIPE, check=True
    )

    for name, text in zip(
        ("cli.md", "python.md", "request.schema.json"), json.loads(told.stdout), strict=True
    ):
        assert (PROJECT / "docs" / name).read_text() == text


@pytest.mark.slow
def test_index_makes_what_run_takes(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the index, each file takes one request instead of two, and the pixels are the same."""
    index = tmp_path / "headers.parquet"
    assert run("index", list_file, "--to", index, "--json", "--quiet") == 0
    made = json.loads(capsys.readouterr().out)
    window = ("--sources", list_file, "--tile", "centre", "--json", "--quiet")
    succeed("run", *window, "--to", tmp_path / "cold", "--no-report")
    cold = json.loads(capsys.readouterr().out)
    assert run("run", *window, "--index", index, "--to", tmp_path / "warm", "--no-report") == 0
    warm = json.loads(capsys.readouterr().out)

    assert (made["place"], made["n_indexed"], made["n_failed"]) == (str(index), 4, 0)
    assert warm["digest"] == cold["digest"]
    assert (cold["report"]["requests"], warm["report"]["requests"]) == (8, 4)
    assert warm["report"]["n_known"] == 4


@pytest.mark.long
def test_index_tells_how_many_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of sources without an entry is printed."""
    image = tmp_path / "a.jp2"
    with rasterio.open(
        image, "w", driver="JP2OpenJPEG", width=16, height=16, count=1, dtype="uint8"
    ) as dataset:
        dataset.write(np.zeros((1, 16, 16), "uint8"))
    (tmp_path / "list.txt").write_text(f"{image}\n")

    assert run("index", tmp_path / "list.txt", "--to", tmp_path / "i.parquet", "--quiet") == 0

    assert "read as without it     1: only GDAL reads them" in capsys.readouterr().out


def test_index_ends_with_1_when_a_source_failed(
    list_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The index has the other sources, and the failed one is named."""
    list_file.write_text(f"{OHC[0]}\n{tmp_path}/gone.tif\n")

    code = run("index", list_file, "--to", tmp_path / "i.parquet", "--quiet")

    said = capsys.readouterr()
    assert code == 1
    assert "sources indexed        1 of 2" in said.out
    assert "gone.tif: no such object" in said.err


def test_index_of_nothing_that_is_a_list_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong list writes no index."""
    assert run("index", tmp_path / "gone.txt", "--to", tmp_path / "i.parquet") == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "i.parquet").exists()


def _completed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what the shell bash is told to complete the last one of these words with."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    monkeypatch.setenv("_PIXEL_GATHER_COMPLETE", "bash_complete")
    monkeypatch.setattr(sys, "argv", ["pixel-gather"])

    assert run() == 0
    return capsys.readouterr().out.split()


def test_the_shell_completes_commands_options_and_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command by its first letters, an option by its own, and a path where a file is asked for."""
    assert _completed("pixel-gather veri", monkeypatch, capsys) == ["plain,verify"]
    assert "plain,--profile" in _completed("pixel-gather verify --pro", monkeypatch, capsys)
    assert _completed("pixel-gather verify out", monkeypatch, capsys) == ["dir,out"]
    assert _completed("pixel-gather run --sources li", monkeypatch, capsys) == ["file,li"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shell is the one named by ``SHELL`` if none is given; another one is refused."""
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run("completion") == 0
    by_variable = capsys.readouterr().out
    assert run("completion", shell) == 0
    assert capsys.readouterr().out == by_variable
    assert f"_PIXEL_GATHER_COMPLETE={shell}_complete" in by_variable

    monkeypatch.setenv("SHELL", "/usr/bin/nu")
    assert run("completion") == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
