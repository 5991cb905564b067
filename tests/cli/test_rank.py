"""``pixel-gather rank``: its outputs and what it says of wrong options."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import arro3.io
import pytest

from pixel_gather.features.rank.table import COLUMNS
from pixel_gather_cli.main import main
from rank.rasters import landscape, lonlat_box, make_cog


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three scenes of red and nir, and a missing one; the list's path."""
    folder = tmp_path_factory.mktemp("rank")
    lines = ["href,time,band,scene"]
    for n in range(3):
        for band, level in (("B4", 1500), ("B5", 2000 + 500 * n)):
            make_cog(folder / f"{band}_{n}.tif", landscape(n, side=256, level=level))
            lines.append(f"{folder}/{band}_{n}.tif,2024-01-0{n + 1},{band},s{n}")
    lines += [f"{folder}/none_{band}.tif,2024-02-01,{band},lost" for band in ("B4", "B5")]
    (folder / "list.csv").write_text("\n".join(lines))
    return folder / "list.csv"


_NDVI = ("--by", "ndvi", "--bands", "red=B4,nir=B5")


def _run(*arguments: str) -> int:
    try:
        main(["rank", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_table_lists_the_order_and_the_lost_scene(scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, as one was not read; the summary goes to standard error."""
    code = _run(str(scenes), *_NDVI)

    out, error = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert code == 1
    assert [line[2] for line in lines[1:4]] == ["s2", "s1", "s0"]
    assert "missing: no such object" in out.splitlines()[4]
    assert error.splitlines()[-1].startswith("4 scenes, 1 not read: ")


def test_scenes_outside_the_area_are_one_line(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their number and the reason of the first. JSON has all of them."""
    assert _run(str(scenes), *_NDVI, "--bbox=100,46,100.1,46.1") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["rank", "2024-02-01", "3"]
    said = "3 of 4 scenes lie outside the area, such as s0: the window (columns "
    assert lines[-1].startswith(said)
    assert lines[-1].endswith("lies outside its 256 x 256 pixels")
    few = tmp_path / "few.csv"
    few.write_text("\n".join(scenes.read_text().splitlines()[:5]))
    assert _run(str(few), *_NDVI, "--bbox=100,46,100.1,46.1") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("2 of 2 scenes lie outside the area, such as s0: ")
    _run(str(few), *_NDVI, "--bbox=100,46,100.1,46.1", "--json")
    assert [row["status"] for row in json.loads(capsys.readouterr().out)["scenes"]] == ["outside"] * 2


def test_json_csv_and_parquet_hold_the_same(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has all columns."""
    place = tmp_path / "ranking.parquet"
    box = ",".join(map(str, lonlat_box(20, 30, 200, 180)))

    _run(str(scenes), *_NDVI, "--json", "--parquet", str(place), f"--bbox={box}")
    found = json.loads(capsys.readouterr().out)
    _run(str(scenes), *_NDVI, "--csv", f"--bbox={box}")
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    table = arro3.io.read_parquet(str(place)).read_all()

    assert [row["id"] for row in found["scenes"]] == ["s2", "s1", "s0", "lost"]
    assert [row["id"] for row in rows] == ["s2", "s1", "s0", "lost"]
    assert tuple(rows[0]) == tuple(table.schema.names) == tuple(COLUMNS)
    values = [row["value"] for row in found["scenes"]]
    assert [float(row["value"]) for row in rows[:3]] == values[:3]
    assert table["value"].to_pylist() == values
    assert table["rank"].to_pylist() == [1, 2, 3, None]
    assert json.loads(dict(table.schema.metadata)[b"pixel_gather"])["by"] == "ndvi"


def test_request_file_says_the_same_as_options(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what POST /rankings takes, in YAML or JSON."""
    box = lonlat_box(20, 30, 200, 180)
    file = tmp_path / "ranking.yaml"
    file.write_text(
        f"sources: {scenes}\nby: ndvi\nbands: {{red: B4, nir: B5}}\narea: {{bbox: {list(box)}}}\n"
        "order: asc\nprecision: exact\n"
    )

    _run("--request", str(file), "--json")
    found = json.loads(capsys.readouterr().out)
    words = ("--order", "asc", "--precision", "exact", f"--bbox={','.join(map(str, box))}")
    _run(str(scenes), *_NDVI, *words, "--json")
    by_options = json.loads(capsys.readouterr().out)

    values = [(row["id"], row["value"]) for row in found["scenes"]]
    assert values == [(row["id"], row["value"]) for row in by_options["scenes"]]
    assert values[0][0] == "s0"


def test_options_replace_fields_of_the_request_file(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with ``run``. What an option does not say stays, and its default replaces nothing."""
    file = tmp_path / "ranking.json"
    given = {"sources": str(scenes), "by": "B4", "order": "asc", "precision": "exact", "area": "scene"}
    file.write_text(json.dumps(given | {"limits": {"usd": 1, "seconds": 0.0001}}))
    box = ",".join(map(str, lonlat_box(20, 30, 200, 180)))
    few = tmp_path / "few.csv"
    few.write_text("\n".join(scenes.read_text().splitlines()[:5]))
    words = ("--max-seconds", "60", "--json")

    def ranked(*more: str) -> dict[str, Any]:
        _run(*more, *words)
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert _run("--request", str(file)) == 2
    assert "limits.seconds: 4 scenes would take" in capsys.readouterr().err
    found = ranked("--request", str(file), *_NDVI, f"--bbox={box}", "--top", "2")
    alone = ranked(
        str(scenes), *_NDVI, f"--bbox={box}", "--top", "2", "--order", "asc", "--precision", "exact"
    )
    assert found["scenes"][0]["id"] == "s0"
    for rows in (found["scenes"], alone["scenes"]):
        for row in rows:
            del row["seconds"]
    assert found["scenes"] == alone["scenes"]
    assert [row["id"] for row in ranked(str(few), "--request", str(file), *_NDVI)["scenes"]] == ["s0", "s1"]


def test_what_is_wrong_in_the_file_or_beside_it_is_named(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field of the file by its name, an option by its own."""
    file = tmp_path / "ranking.json"
    file.write_text(json.dumps({"sources": str(scenes), "by": "B4", "tops": 3}))
    said = {
        (): "pixel-gather: tops: there is no such field",
        ("--top", "3"): "pixel-gather: tops: there is no such field",
    }

    for more, words in said.items():
        assert _run("--request", str(file), *more) == 2
        assert words in capsys.readouterr().err
    file.write_text(json.dumps({"sources": str(scenes), "by": "B4"}))
    for more, words in {
        ("--collection", "a"): "give one of LIST, --catalog and --stac",
        ("--by", ""): "--by: write what to rank by",
        ("--bbox", "1,2,1,3"): "--bbox: it has no width",
    }.items():
        assert _run("--request", str(file), *more) == 2
        assert words in capsys.readouterr().err


def test_sheet_shows_the_top_with_pictures(scenes: Path, tmp_path: Path) -> None:
    """One page without links to elsewhere."""
    page = tmp_path / "sheet.html"

    _run(str(scenes), *_NDVI, "--html", str(page), "--top", "2")

    text = page.read_text()
    assert text.count("<img") == text.count("<svg") == 2
    assert ">s2<" in text
    assert ">s0<" not in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_dry_run_compares_levels(scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints a table, or JSON. Nothing is ranked."""
    assert _run(str(scenes), *_NDVI, "--dry-run") == 0
    text = capsys.readouterr().out
    assert _run(str(scenes), *_NDVI, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)

    lines = text.splitlines()
    assert lines[0].startswith("4 scenes like s0, 8 files.")
    assert lines[2].split()[-5:] == ["all", "requests", "seconds", "dollars", "read"]
    assert lines[-1].startswith("full ")
    assert lines[-1].endswith("  yes")
    assert [line.split("  ")[0] for line in lines[3:]] == [each["level"] for each in plan["levels"]]
    assert plan["levels"][-1]["pixels"] == 256 * 256


WRONG = {
    "LIST --by B4 --dry-run --csv": "--csv: a dry run ranks nothing",
    "LIST --by B4 --dry-run --html x": "--html: a dry run ranks nothing",
    "LIST --by B4 --dry-run --deployed": "--dry-run: it is computed on this machine",
    "--by ndvi": "rank: give one of LIST, --catalog and --stac",
    "LIST --by 'nir ++'": "by: position 7: it ends where",
    "LIST --by ndvi": "no band nir; it has B4, B5; say which one is meant by bands: {nir: NAME} (--bands ",
    "LIST --by B4 --mask scl": "--mask: 'scl' is not BAND:3,8,9",
    "LIST --by B4 --bands red": "--bands: 'red' is not such as",
    "LIST --by B4 --precision fine": "precision: it is 'fine'",
    "LIST --by B4 --statistic mode": "statistic: it is 'mode'",
    "LIST --by B4 --check-kept": "--check-kept: use it only with --statistics",
    "LIST --by B4 --datetime 2024": "--datetime: use it only with --catalog",
    "LIST --by B4 --geojson none.json": "--geojson: none.json cannot be read: No such file",
    "LIST --by B4 --bbox=10,50,10,51": "--bbox: it has no width or no height",
    "LIST --by B4 --api https://x": "--api: use it only with --deployed",
    "LIST --by B4 --deployed --html x.html": "--html: a deployment returns no pictures",
    "LIST --by B4 --deployed --statistics x": "--statistics: a deployment keeps its own",
    "LIST --by B4 --max-usd 0": "--max-usd: it is 0.0; write a number above 0",
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.items())
def test_wrong_options_are_named(
    scenes: Path, arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and one line."""
    code = _run(*(str(scenes) if each == "LIST" else each for each in shlex.split(arguments)))

    assert code == 2
    assert words in capsys.readouterr().err
