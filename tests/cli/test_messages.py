"""What commands say where nothing is found, added, shown or left."""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from pixel_gather import RequestError, StoreError, forget, gather, join, open_cube, versions
from support.command_line import run
from support.joined_cubes import FILES, gather_member

FOLDER = FILES[0].parent


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """A cube of five rows."""
    gather_member(tmp_path / "a.zarr", n_rows=5, folder=tmp_path)
    return tmp_path / "a.zarr"


def test_a_search_names_assets_that_no_scene_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which ones there are. A name that some scenes have is no mistake."""
    place = tmp_path / "c.parquet"
    assert run("catalog", "--prefix", FOLDER, "--time", "_%Y-%m", "--glob", "*2000*1972*", "--to", place) == 0
    capsys.readouterr()

    assert run("search", "--catalog", place, "--assets", "red,data") == 0
    some = capsys.readouterr()
    assert run("search", "--catalog", place, "--assets", "red", "--format", "hrefs") == 0
    none = capsys.readouterr()

    assert some.err == "no scene has 'red'; they have data\n"
    assert len(some.out.splitlines()) > 1
    assert (none.out, none.err) == ("", some.err)


def test_an_installed_package_says_where_the_emulator_is(tmp_path: Path) -> None:
    """Pip installs no module pixel_gather_emulator."""
    program = (
        "import sys, importlib.abc\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pixel_gather_emulator': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from pixel_gather_cli.main import main; main(['emulate'])"
    )
    ended = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert ended.returncode == 2
    assert "clone the project, and run 'uv run pixel-gather emulate' in the clone" in ended.stderr


def test_an_append_of_nothing_shows_no_figures(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the cube are of an earlier gather. ``plan`` says the same as ``run``."""
    asked = ("--sources", next(tmp_path.glob("*.csv")), "--pixels", "0,0,16,12", "--append-to", cube)
    code = run("run", *asked, "--quiet")
    said = capsys.readouterr().out.splitlines()

    assert code == 0
    assert [line.split("  ")[0] for line in said] == ["cube", "report", "time in all"]
    assert " ".join(said[0].split()) == f"cube {cube} has all of these sources already: nothing to append"
    assert run("plan", *asked) == 0
    assert capsys.readouterr().out.split() == said[0].split()
    assert run("plan", *asked, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"cube": str(cube), "appended": 0}
    assert run("plan", *asked[:-1], tmp_path) == 2


def test_drill_shows_what_differs_in_a_narrow_terminal(tmp_path: Path) -> None:
    """The folder of all files stands above the table."""
    folder = tmp_path / ("long" * 15)
    folder.mkdir()
    for name, file in zip(("2024-01-01.tif", "2024-01-02.tif"), FILES, strict=False):
        (folder / name).symlink_to(file)
    (tmp_path / "list.txt").write_text("".join(f"{each}\n" for each in sorted(folder.iterdir())))
    program = (
        "import sys, shutil; sys.stdout.isatty = lambda: True\n"
        "from pixel_gather_cli.main import main\n"
        f"main(['drill', {str(tmp_path / 'list.txt')!r}, '--pixel', '3,4'])"
    )
    ended = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "80", "TERM": "dumb"},
    )
    head, *table = ended.stdout.splitlines()

    assert ended.returncode == 0, ended.stderr
    assert head == f"files of file://{folder}/"
    assert max(map(len, table)) <= 80
    assert [line for line in table if "2024-01-01.tif" in line]
    assert [line for line in table if "2024-01-02.tif" in line]


@pytest.mark.parametrize("command", ["versions", "retry"])
def test_the_name_of_a_gather_on_aws_is_no_cube_here(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what to write instead. A path cannot be meant so."""
    monkeypatch.chdir(tmp_path)
    assert run(command, "bolzano") == 2
    of_name = capsys.readouterr().err
    assert run(command, "./a/b") == 2
    of_path = capsys.readouterr().err

    assert "write the cube's address, s3://..., which pixel-gather status ID prints" in of_name
    assert "no cube is there" in of_path
    assert "pixel-gather status" not in of_path


def test_forget_asks_before_it_takes_everything(
    cube: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal it needs a word. Other versions go without a question."""
    lines = next(tmp_path.glob("*.csv")).read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(lines[:2]))
    (tmp_path / "two.csv").write_text("\n".join(lines[:3]))
    request = {
        "window": {"pixels": [0, 0, 16, 12]},
        "output": {"append_to": cube, "report": False},
        "duplicates": "again",
    }
    for name in ("one.csv", "two.csv"):
        gather(request | {"sources": str(tmp_path / name)})

    assert run("forget", cube, "--before", "2") == 0
    assert run("forget", cube, "--before", "2999-01-01") == 2
    said = capsys.readouterr().err
    answers = io.StringIO("n\n")
    answers.isatty = lambda: True  # type: ignore[method-assign] # a terminal, as far as it asks
    monkeypatch.setattr(sys, "stdin", answers)
    assert run("forget", cube, "--before", "2999-01-01") == 1
    asked = capsys.readouterr().err
    assert "1 former version cannot be opened again; give --yes" in said
    assert "1 former version cannot be opened again. Go on?" in asked
    assert open_cube(cube, 2).sizes["time"] == 6
    assert run("forget", cube, "--before", "2999-01-01", "--yes") == 0
    assert len(versions(cube)) == 3
    assert forget(cube, 3) == ()


@pytest.mark.parametrize("open_", [open_cube, versions])
def test_joined_cubes_are_sent_to_what_opens_them(
    open_: Callable[[Path], object], cube: Path, tmp_path: Path
) -> None:
    """They are cubes, but not one."""
    join([cube], to=tmp_path / "joined")

    with pytest.raises(RequestError, match="open it by open_joined or open_virtual"):
        open_(tmp_path / "joined")


def test_a_join_is_asked_for_in_one_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To add to joined cubes, to replace them and to copy them exclude each other."""
    assert run("join", tmp_path, "--to", tmp_path / "joined", "--add", "--copy") != 0

    assert "give one of --add, --replace and --copy" in capsys.readouterr().err
    assert not (tmp_path / "joined").exists()


@pytest.mark.parametrize("how", ["add", "replace"])
def test_nothing_that_is_joined_cannot_be_replaced(
    how: Literal["add", "replace"], cube: Path, tmp_path: Path
) -> None:
    """The message says what to leave out."""
    with pytest.raises(StoreError, match="leave out mode"):
        join([cube], to=tmp_path / "joined", mode=how)


def test_run_tells_each_cause_of_failed_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not only the two commonest: a rare one may be the one to mend."""
    (tmp_path / "text.tif").write_text("rubbish")
    (tmp_path / "cut.tif").write_bytes(FILES[0].read_bytes()[:300])
    (tmp_path / "empty.tif").touch()
    names = ["text.tif", "cut.tif", "empty.tif", "missing.tif"]
    (tmp_path / "list.txt").write_text("\n".join([str(FILES[0]), *(str(tmp_path / name) for name in names)]))

    code = run(
        "run", "--sources", tmp_path / "list.txt", "--pixels", "0,0,16,12", "--no-report", "--quiet",
        "--to", tmp_path / "new.zarr",
    )  # fmt: skip
    said = capsys.readouterr().out

    assert code == 1
    assert [name for name in names if name not in said] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"zarr_format": 3, "no', "its zarr.json is damaged (Unterminated string"),
        ("[" * 100_000, "its zarr.json is damaged ("),
        ('{"zarr_format": 3, "node_type": "group"}', "a Zarr that no gather made is there: choose another"),
    ],
)
def test_a_damaged_group_is_told_alike(
    content: str, said: str, cube: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever command reads it. Its other files may be all right."""
    monkeypatch.chdir(cube.parent)
    (cube / "zarr.json").write_text(content)
    asked = f"--sources {next(cube.parent.glob('*.csv'))} --pixels 0,0,16,12"
    commands = (
        f"run {asked} --append-to", f"plan {asked} --append-to", "retry", "versions", "compact", "replay",
        "export --to rows.csv", "presence --by month", "report --to page", "join --to joined",
    )  # fmt: skip
    for words in (*commands, *(["view --no-open"] if "damaged" in said else [])):
        assert run(*words.split(), cube) == 2, words
        assert f"{cube}: {said}" in capsys.readouterr().err, words


def test_verify_names_a_damaged_group(cube: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a difference like any other."""
    (cube / "zarr.json").write_text("{")

    assert run("verify", cube) == 1
    assert capsys.readouterr().out.startswith("zarr.json is damaged (Expecting property name")


def test_a_second_replay_does_not_call_its_cube_new(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first has gathered it. The second has read no source, so it does not say that all is well."""
    to = tmp_path / "b.zarr"
    assert run("replay", cube, "--to", to) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"new cube: {to}"
    assert run("replay", cube, "--to", to) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"cube: {to}; it was there already"


def test_an_overview_that_no_file_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list is not to blame."""
    (tmp_path / "list.txt").write_text(f"{FILES[0]}\n{FILES[1]}\n")
    code = run("plan", "--sources", tmp_path / "list.txt", "--tile", "centre", "--overview", "9")
    assert code == 2
    assert capsys.readouterr().err.startswith("pixel-gather: --overview: none of the 2 sources")


def test_failed_rows_that_are_kept_explain_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is said of them where nothing is appended."""
    (tmp_path / "list.txt").write_text(f"{FILES[0]}\n{tmp_path}/missing.tif\n")
    asked = ("run", "--sources", tmp_path / "list.txt", "--pixels", "0,0,16,12", "--no-report", "--quiet")
    assert run(*asked, "--to", tmp_path / "new.zarr") == 1
    assert "exit code" not in capsys.readouterr().err

    assert run(*asked, "--append-to", tmp_path / "new.zarr", "--failed-rows", "keep") == 1
    said = "exit code 1: the cube has 1 failed source, and none was read again\n"
    assert capsys.readouterr().err == said


def test_what_the_page_cannot_show_is_opened_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A browser has no zfp."""
    asked = ("run", "--prefix", FOLDER, "--glob", "*2000*1972*", "--tile", "0,0", "--to", tmp_path / "a.zarr")

    assert run(*asked, "--codec", "zfp", "--zfp-tolerance", "0.1", "--no-report") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("next "))
    assert line.removeprefix("next").strip().startswith("pixel_gather.open_cube opens it in Python")


def test_the_next_command_can_be_pasted_into_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the cube's place has spaces."""
    cube = tmp_path / "my cube.zarr"

    assert run("run", "--prefix", FOLDER, "--glob", "*2000*1972*", "--tile", "0,0", "--to", cube) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("next "))
    command = line.removeprefix("next").partition(" shows it")[0]
    assert shlex.split(command) == ["pixel-gather", "view", str(cube)]
