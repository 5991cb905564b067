"""The first minutes of a new user with the command, and the output for programs."""

import json
import logging
import re
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pixel_gather.core.request.request import parse_request
from pixel_gather.in_process.progress import Progress
from pixel_gather_cli import progress
from pixel_gather_cli.progress import Lines, every, open_progress
from pixel_gather_cli.request_options import read_request_file
from support.command_line import run, succeed

PROJECT = Path(__file__).parents[2]
FILES = sorted(
    (PROJECT / "tests/data/series/files/stactools-noaa-cdr").glob("heat_content_anomaly_0-2000*.tif")
)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A list of four real files, in the working folder."""
    file = tmp_path / "list.txt"
    file.write_text("".join(f"{each}\n" for each in FILES))
    return file


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    addresses: list[str] = []

    def show(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    return addresses


@pytest.mark.parametrize("name", ["export", "presence", "replay", "search", "verify", "versions"])
def test_long_commands_give_a_sign(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those that count nothing. The first sign is given at once here, instead of after five seconds."""

    @contextmanager
    def at_once(_seconds: float, act: Callable[[], None]) -> Iterator[None]:
        act()
        yield

    given = {
        "export": ["s3://bucket/cube.zarr", "--to", "a.gif"],
        "presence": ["s3://bucket/cube.zarr", "--by", "month"],
        "search": ["--catalog", "s3://bucket/catalog.parquet"],
    }
    monkeypatch.setattr(progress, "every", at_once)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    assert run(name, *given.get(name, ["s3://bucket/cube.zarr"])) == 2
    assert "ing: 0 s\n" in capsys.readouterr().err


@pytest.mark.slow
def test_run_says_that_the_cube_is_complete_before_it_draws(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of the cube need not wait for the page."""
    there: list[bool] = []
    echo = click.echo

    def look(message: Any = None, **options: Any) -> None:
        there.append((tmp_path / "cube/report.html").exists())
        echo(message, **options)

    monkeypatch.setattr(click, "echo", look)
    # on a busy machine, progress would be printed as well
    succeed("run", "--sources", listed, "--pixels", "0,0,8,8", "--to", tmp_path / "cube", "--quiet")

    *_, cube, _next, page, seconds = capsys.readouterr().out.strip().splitlines()
    assert cube.endswith("cube is complete")
    assert page.endswith("report.html")
    assert seconds.startswith("time in all")
    assert there == [False, True, True]


def test_time_in_all_counts_from_the_start_of_the_command(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user waits for its libraries as well."""
    monkeypatch.setattr("pixel_gather_cli.main.write_whole_output", lambda: time.sleep(0.7))

    began = time.monotonic()
    succeed("run", "--sources", listed, "--pixels", "0,0,8,8", "--to", tmp_path / "cube", "--no-report")
    took_s = time.monotonic() - began

    told = capsys.readouterr().out.splitlines()[-1]
    assert 0.7 <= float(told.removeprefix("time in all").removesuffix("s")) <= took_s + 0.05


@pytest.mark.slow
def test_run_opens_the_report(listed: Path, tmp_path: Path, opened: list[str]) -> None:
    """``--open`` opens the report in the browser."""
    succeed("run", "--sources", listed, "--pixels", "0,0,8,8", "--to", tmp_path / "cube", "--open")

    assert opened == [(tmp_path / "cube/report.html").as_uri()]


@pytest.mark.slow
def test_report_opens_its_page(listed: Path, tmp_path: Path, opened: list[str]) -> None:
    """``report --open`` opens the page, as ``run`` does."""
    succeed("run", "--sources", listed, "--pixels", "0,0,8,8", "--to", tmp_path / "cube", "--no-report")

    succeed("report", tmp_path / "cube", "--to", tmp_path / "page", "--open")

    assert opened == [(tmp_path / "page/report.html").as_uri()]


@pytest.mark.parametrize(
    ("refusal", "place"), [(["--max-usd", "0"], "cube"), (["--bands", "9"], "some/where/cube")]
)
def test_refused_run_leaves_no_folder(refusal: list[str], place: str, listed: Path, tmp_path: Path) -> None:
    """A refused run leaves neither the output folder nor new folders above it."""
    code = run("run", "--sources", listed, "--tile", "centre", "--to", tmp_path / place, *refusal)

    assert code == 2
    assert list(tmp_path.iterdir()) == [listed]


def test_refused_run_keeps_a_folder_that_was_there(listed: Path, tmp_path: Path) -> None:
    """A folder that existed before is kept."""
    (tmp_path / "cube").mkdir()

    code = run("run", "--sources", listed, "--tile", "centre", "--to", tmp_path / "cube", "--bands", "9")

    assert code == 2
    assert (tmp_path / "cube").is_dir()


@pytest.mark.slow
@pytest.mark.usefixtures("listed")
def test_home_folder_is_found_where_the_shell_leaves_it_to_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``~`` is expanded in every option with a path, as in ``--to=~/x``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path.parent))  # else matplotlib keeps its files in the home
    monkeypatch.chdir(tmp_path)

    to = ("--to=~/cube", "--no-report")

    codes = [
        run("index", "~/list.txt", "--to=~/headers.parquet"),
        run("run", "--sources=~/list.txt", "--pixels=0,0,8,8", "--index=~/headers.parquet", *to),
        run("report", "~/cube", "--to=~/page"),
        run("drill", "~/list.txt", "--pixel", "0,0", "--csv"),
        run("ls", "~/page"),
    ]

    assert codes == [0] * 5
    assert {each.name for each in tmp_path.iterdir()} == {"list.txt", "headers.parquet", "cube", "page"}


def test_a_folder_given_as_list_is_sent_to_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    """The error suggests ``--prefix`` for a folder."""
    code = run("plan", "--sources", FILES[0].parent, "--tile", "centre")

    assert code == 2
    assert "it is a folder: pixel-gather ls makes a list of it; run and plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "sources: a.csv\nwindow: centre\nsources: b.csv\n",
            "sources is there twice; leave one out (line 3)",
        ),
        (
            "sources: a\nwindow:\n  tile: [0, 0]\n  tile: [1, 1]\n",
            "tile is there twice; leave one out (line 4)",
        ),
        ('{"sources": "a", "window": "centre", "window": {"tile": [0, 0]}}', "window is there twice"),
        ("? [1, 2]\n: 3\n", "request.yaml: write text as a name (line 1)"),
    ],
    ids=["YAML", "below", "JSON", "list"],
)
def test_a_key_that_is_there_twice_or_is_no_text_is_refused(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """YAML and JSON would silently take the last one."""
    (tmp_path / "request.yaml").write_text(text)

    code = run("plan", tmp_path / "request.yaml")

    assert code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("day", ["2024-02-28", "2024-02-30"])
def test_a_date_in_yaml_is_a_text(day: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no quotes, and a wrong one is told as in JSON."""
    catalog = f"{{file: c.parquet, assets: red, datetime: {day}}}"
    (tmp_path / "request.yaml").write_text(f"sources: {{catalog: {catalog}}}\nwindow: centre\n")

    assert run("plan", tmp_path / "request.yaml") == 2

    said = capsys.readouterr().err
    assert ("sources.catalog.datetime: " in said) == (day == "2024-02-30")
    assert "write text" not in said


def test_a_request_that_is_no_yaml_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parser's own words say where, and not what the text is to Python."""
    (tmp_path / "request.yaml").write_text("sources: a.csv\nwindow: centre\n  x: 1\n")

    assert run("plan", tmp_path / "request.yaml") == 2

    said = capsys.readouterr().err
    assert "is neither JSON nor YAML: mapping values are not allowed here in line 3, column 4" in said


@pytest.mark.long
@given(number=(st.floats(allow_nan=False, allow_infinity=False) | st.integers()).map(json.dumps))
@example(number="1e-9")
@example(number="1.5E3")
def test_numbers_of_a_json_request_are_jsons(number: str) -> None:
    """Its file is read as YAML, which takes 1e-9 for a text."""
    with NamedTemporaryFile("w", suffix=".json") as file:
        file.write(f'{{"sources": "a.csv", "limits": {{"usd": {number}}}}}')
        file.flush()
        assert read_request_file(file.name, fields="sources")["limits"]["usd"] == json.loads(number)


def test_requests_of_the_docs_can_be_typed_as_they_stand(tmp_path: Path) -> None:
    """Every block of YAML in docs/request.md is a valid request."""
    blocks = re.findall(r"```yaml\n(.*?)```", (PROJECT / "docs" / "request.md").read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        (tmp_path / "request.yaml").write_text(block)
        parse_request(read_request_file(str(tmp_path / "request.yaml"), fields="sources and window"))


def test_a_command_that_is_not_there_is_refused_before_the_emulation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unknown command is refused before the deployment, which takes ten seconds."""
    code = run("emulate", "--", "no-such-command")

    printed = capsys.readouterr().err
    assert code == 2
    assert "no-such-command: no such command" in printed
    assert " s  " not in printed


def test_a_log_gets_lines_whether_or_not_anything_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """While a list is read or a cube is finished, nothing is counted. The user still sees that it works."""
    moments = iter([0.0, 5.0, 10.0, 15.0])
    lines = Lines("gathering", clock=lambda: next(moments))

    lines.write()
    lines.show(Progress(n_sources=40, n_done=20))
    lines.write()
    lines.show(Progress(n_sources=40, n_done=30, n_failed=1))
    lines.write()

    assert capsys.readouterr().err.splitlines() == [
        "gathering: 5 s",
        "gathering: 20 of 40 files, 2 files/s (10 s)",
        "gathering: 30 of 40 files, 1 failed, 2 files/s (15 s)",
    ]


def test_a_sign_is_given_again_and_again_while_the_work_lasts() -> None:
    """The work itself need not call anything."""
    third, given = threading.Event(), []

    def give() -> None:
        given.append(1)
        if len(given) == 3:
            third.set()

    with every(0.001, give):
        third.wait()
    n_given = len(given)
    time.sleep(0.01)

    assert len(given) == n_given


def test_plan_and_run_print_ten_lines_and_all_of_it_with_verbose(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user sees shape, size, dollars, seconds, warnings and what to do next."""
    file = tmp_path / "some.txt"
    file.write_text(listed.read_text() + "".join(f"/nowhere/{n}.tif\n" for n in range(6)))
    request = ("--sources", file, "--tile", "centre")

    succeed("plan", *request)
    plan = capsys.readouterr().out.splitlines()
    succeed("plan", *request, "--verbose")
    whole_plan = capsys.readouterr().out
    assert run("run", *request, "--to", tmp_path / "cube", "--no-report") == 1
    result = capsys.readouterr().out.splitlines()
    assert run("run", *request, "--to", tmp_path / "cube", "--no-report", "--verbose") == 1
    whole_result = capsys.readouterr().out

    assert len(plan) <= 10
    assert [line.split()[0] for line in plan if not line.startswith("warning")] == (
        ["cube", "measurements", "to", "on", "next"]
    )
    assert "rests on" in whole_plan
    assert len(result) <= 10
    assert "sources read           4 of 10, 6 failed" in "\n".join(result)
    assert "  missing              6: no such object, such as file:///nowhere/0.tif" in result
    assert result[-1].startswith("time in all")
    assert "per source in flight" in whole_result


def test_ls_as_json_is_a_list_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``plan``, ``run`` and ``drill`` accept the output of one object per line."""
    succeed("ls", FILES[0].parent, "--glob", "heat_content_anomaly_0-2000*.tif", "--json")
    (tmp_path / "list.jsonl").write_text(capsys.readouterr().out)

    code = run("plan", "--sources", tmp_path / "list.jsonl", "--tile", "centre", "--json")

    first = json.loads((tmp_path / "list.jsonl").read_text().splitlines()[0])
    assert list(first) == ["href", "size_bytes", "last_modified"]
    assert first["size_bytes"] == FILES[0].stat().st_size
    assert code == 0
    assert json.loads(capsys.readouterr().out)["shape"][0] == len(FILES)


def test_drill_as_json_tells_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that cannot be read are included. Every line is valid JSON."""
    (tmp_path / "list.txt").write_text(f"{FILES[0]}\n/nowhere/b.tif\n")

    code = run("drill", tmp_path / "list.txt", "--pixel", "0,0", "--json")

    good, bad = map(json.loads, capsys.readouterr().out.splitlines())
    assert code == 1
    assert (good["status"], good["row"], good["col"]) == ("ok", 0, 0)
    assert set(good["values"]["1"]) == {"value", "is_nodata"}
    assert (bad["status"], bad["values"], bad["reason"]) == ("missing", {}, "no such object")


def test_verbose_logs_to_standard_error(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``-v`` does not change standard output."""
    logger = logging.getLogger("pixel_gather")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logger.level)
    to = ("--to", tmp_path / "cube", "--no-report", "--json", "-v")

    succeed("run", "--sources", listed, "--pixels", "0,0,8,8", *to)

    printed = capsys.readouterr()
    assert json.loads(printed.out)["status"] == {"ok": 4}
    assert "INFO pixel_gather.features.gather.gather: the list names 4 sources" in printed.err


def test_one_source_is_said_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports about a single source are in the singular."""
    (tmp_path / "list.txt").write_text(f"{FILES[0]}\n")
    window = ("--pixels", "0,0,8,8", "--to", tmp_path / "c", "--no-report", "--verbose")

    succeed("run", "--sources", tmp_path / "list.txt", *window)

    assert "8 x 8 pixels of 1 row," in capsys.readouterr().out


@pytest.mark.parametrize(("no_color", "has_colours"), [(None, True), ("1", False)])
def test_bar_has_colours_unless_the_user_wants_none(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    no_color: str | None,
    has_colours: bool,
) -> None:
    """The rule is that of https://no-color.org."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)

    with open_progress("reading", quiet=False) as show:
        show(Progress(n_sources=4, n_done=2, n_failed=1))

    said = capsys.readouterr().err
    assert "1 failed" in said
    assert bool(re.search(r"\x1b\[[\d;]*3[1-8][;m]", said)) == has_colours


def test_bbox_that_is_a_file_with_a_shape_is_refused_with_the_box_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other programs take a file there."""
    shape = {"type": "Polygon", "coordinates": [[[9, 46.5], [9.25, 46], [8.5, 46.25], [9, 46.5]]]}
    (tmp_path / "lake.geojson").write_text(json.dumps(shape))

    assert run("plan", "--sources", "list.txt", "--bbox", tmp_path / "lake.geojson") == 2

    assert (
        "a window is a rectangle: give the box around the shape, 8.5,46,9.25,46.5" in capsys.readouterr().err
    )
