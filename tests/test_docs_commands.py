"""Parses every command in the ``sh`` blocks of README.md and docs/*.md, and runs those that work offline."""

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import pytest
import rasterio
import yaml
from rasterio.transform import from_origin

from pixel_gather_cli.main import command, main

PROJECT: Final = Path(__file__).parents[1]
PAGES: Final = sorted(page for page in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")))
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT: Final = re.compile(r"<<\s*'?(\w+)'?(.*?)\n.*?\n\1\n", re.DOTALL)
_ASSIGNED: Final = re.compile(r"^\w+=\$\((.*)\)$")
"""A variable that takes what a command prints."""

_BUCKET_FOLDER: Final = re.compile(r"s3://[\w.-]+/([\w/-]*/)?")
_PLACEHOLDER: Final = re.compile(r"\b[A-Z_]{2,}\b|[$<>]|://")
_OFFLINE: Final = (
    "catalog",
    "compact",
    "drill",
    "export",
    "forget",
    "index",
    "join",
    "ls",
    "plan",
    "points",
    "presence",
    "rank",
    "replay",
    "report",
    "run",
    "search",
    "series",
    "verify",
    "versions",
    "virtual",
    "zones",
)
"""Commands that need no account. Benchmarks and the emulator are left out, because they take minutes."""

# fmt: off
_PROGRAMS: Final = frozenset((
    "apt-get", "aws", "bash", "cat", "cd", "cdk", "curl", "echo", "eval", "export", "git", "jq",
    "lint-imports", "mkdir", "mypy", "npm", "open", "pip", "pipx", "pytest", "python", "python3", "rm",
    "ruff", "source", "unset", "uv", "uvx",
))
# fmt: on
"""Other programs, whose arguments are not checked."""

_CODE_IN_TEXT: Final = re.compile(r"`((?:pixel-gather [a-z]+ [^`]*)?--[a-z][^`]*)`")
_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_ANY_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_OPTIONS_OF_OTHERS: Final = frozenset(("--help", "--longest", "--patience", "--python"))
"""Options of all commands, of scripts/chaos and of uv, which running text names."""

_KEYWORDS: Final = ("do", "done", "else", "fi", "for", "if", "then", "while")
_SCENE_PX: Final = 1024


def lines_of(page: Path) -> Iterator[str]:
    """Yield the command lines of a page, continued lines joined, without here-documents."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        whole = _HERE_DOCUMENT.sub(r"\2\n", block).replace("\\\n", " ")
        lines = (line for line in whole.splitlines() if line.strip() and not line.startswith("#"))
        yield from (_ASSIGNED.sub(r"\1", line) for line in lines)


def words_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line. A redirection to a file stays at the end."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.commenters, lexer.whitespace_split = "#", True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;"):
            if words:
                yield words
            words = []
        elif words or "=" not in word:  # not the variables that are set before a command
            words.append(word)


def arguments_of(words: list[str]) -> list[str] | None:
    """Return the arguments of ``pixel-gather``, or None for another program."""
    for start in (["uv", "run", "pixel-gather"], ["pixel-gather"]):
        if words[: len(start)] == start:
            return words[len(start) :]
    return None


def split_redirection(arguments: list[str]) -> tuple[list[str], str | None]:
    """Return the arguments without ``> FILE``, and the file."""
    if ">" in arguments:
        at = arguments.index(">")
        return arguments[:at], arguments[at + 1]
    return arguments, None


def parse(arguments: list[str]) -> None:
    """Parse a command line without running it.

    Raises:
        click.ClickException: It is wrong.
    """
    found: Any = command
    rest = list(arguments)
    while isinstance(found, click.Group):
        if not rest or rest[0].startswith("-"):
            found.make_context("pixel-gather", list(rest) or ["--version"], resilient_parsing=True)
            return
        is_named = rest[0] in found.list_commands(click.Context(found))
        name = rest.pop(0) if is_named else getattr(found, "default", None)
        below = None if name is None else found.get_command(click.Context(found), name)
        if below is None:
            raise click.UsageError(f"no command {rest[0]}")
        found = below
    found.make_context("pixel-gather", rest)


def complaint_of(words: list[str]) -> str | None:
    """Return what is wrong with another program's command, or None."""
    rest = words[2:] if words[:2] == ["uv", "run"] else words
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("--group", "--with", "--from", "--extra") else rest[1:]
    if not rest or rest[0] in _KEYWORDS:
        return None
    program, *arguments = rest
    if program.startswith("scripts/"):
        return None if (PROJECT / program).is_file() else "there is no such script"
    if program in ("python", "pytest", "source"):
        if program == "python" and arguments[:1] == ["-m"]:
            return None if find_spec(arguments[1]) else "there is no such module"
        paths = [each for each in arguments if each.startswith(("scripts/", "tests/"))]
        missing = [each for each in paths if not (PROJECT / each.partition("::")[0]).exists()]
        return f"there is no {missing[0]}" if missing else None
    return None if program in _PROGRAMS else "the test does not know this program"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with scenes around Bolzano in landsat/, lists of them, and a request."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(PROJECT / "tests")  # pages name the project's own files
    (tmp_path / "landsat").mkdir()
    scenes = []
    for day in (3, 19):
        scenes.append(tmp_path / f"landsat/LC08_L1TP_192028_202006{day:02}_202006{day:02}_02_T1_B4.TIF")
        with rasterio.open(
            scenes[-1],
            "w",
            driver="COG",
            width=_SCENE_PX,
            height=_SCENE_PX,
            count=1,
            dtype="uint16",
            crs="EPSG:32632",
            transform=from_origin(665_000, 5_167_000, 30, 30),
            blocksize=256,
        ) as image:
            image.write(np.full((1, _SCENE_PX, _SCENE_PX), day, "uint16"))
    for name in ("list.txt", "files.txt", "new.txt"):
        (tmp_path / name).write_text("".join(f"{each}\n" for each in scenes))
    (tmp_path / "list.csv").write_text("href\n" + "".join(f"{each}\n" for each in scenes))
    (tmp_path / "request.yaml").write_text(yaml.safe_dump({"sources": "list.txt", "window": "centre"}))
    return tmp_path


def localized(argument: str, workplace: Path) -> str:
    """Return an argument in which files of a bucket are replaced by files of this folder."""
    return f"{workplace}/landsat/" if _BUCKET_FOLDER.fullmatch(argument) else argument


def run(arguments: list[str], output: str | None) -> int:
    """Run a command in this process, its output in a file of the working folder."""
    with Path(output or "output.txt").open("w") as file, redirect_stdout(file):
        try:
            main(arguments)
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_work(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands run in the order of the page."""
    wrong = []
    for words in (words for line in lines_of(page) for words in words_of(line)):
        arguments = arguments_of(words)
        if arguments is None:
            if complaint := complaint_of(words):
                wrong.append((words, complaint))
            continue
        arguments, output = split_redirection(arguments)
        try:
            parse(arguments)
        except click.ClickException as error:
            wrong.append((words, error.format_message()))
            continue
        local = [localized(each, workplace) for each in arguments]
        is_offline = bool(local) and local[0] in _OFFLINE and not any(map(_PLACEHOLDER.search, local[1:]))
        if is_offline and (code := run(local, output)):
            wrong.append((words, f"exit code {code}: {capsys.readouterr().err}"))

    assert not wrong, "\n".join(f"{shlex.join(words)}: {reason}" for words, reason in wrong)


def test_readme_has_commands_that_run_offline() -> None:
    """The test above runs some commands of the README."""
    commands = [words for line in lines_of(PROJECT / "README.md") for words in words_of(line)]
    ours = [found for words in commands if (found := arguments_of(words))]

    assert {"plan", "run"} <= {arguments[0] for arguments in ours}


@pytest.mark.parametrize(
    "line", ["pixel-gather run --nonsense", "pixel-gather fly", "uv run pixel-gather status ID --every x"]
)
def test_a_wrong_command_is_found(line: str) -> None:
    """An unknown option, command or value is found."""
    (words,) = words_of(line)
    arguments = arguments_of(words)
    assert arguments is not None

    with pytest.raises(click.ClickException):
        parse(arguments)


def options_of(found: click.Command) -> Iterator[tuple[str, str]]:
    """Yield each option of a command and of those below it, with the name of the command that has it."""
    for each in found.params:
        yield from ((found.name or "", name) for name in (*each.opts, *each.secondary_opts))
    if isinstance(found, click.Group):
        for name in found.list_commands(click.Context(found)):
            below = found.get_command(click.Context(found), name)
            assert below is not None
            yield from options_of(below)


def test_options_that_running_text_names_exist() -> None:
    """Pages also name options between their blocks of commands."""
    there = set(options_of(command))
    of_any = {option for _, option in there}
    missing = []
    for page in PAGES:
        for code in _CODE_IN_TEXT.findall(_ANY_BLOCK.sub("", page.read_text(encoding="utf-8"))):
            words = code.split()
            for option in _OPTION.findall(code):
                known = (
                    option in of_any
                    if code.startswith("--")
                    else any((word, option) in there for word in words)
                )
                if not known and option not in _OPTIONS_OF_OTHERS:
                    missing.append((page.name, code))

    assert not missing


def test_every_option_says_what_it_does() -> None:
    """A default alone is no help. The pages show the same texts. Of a hidden option they show none."""

    def without_words(found: click.Command) -> Iterator[str]:
        for each in found.params:
            if not isinstance(each, click.Option) or each.hidden:
                continue
            if not (each.help or "[").partition("[")[0].strip():
                yield f"{found.name} {each.opts[0]}"
        if isinstance(found, click.Group):
            for name in found.list_commands(click.Context(found)):
                below = found.get_command(click.Context(found), name)
                assert below is not None
                yield from without_words(below)

    assert list(without_words(command)) == []
