"""Pipes, devices, sockets and folders in the place of files. None of them is waited for."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import run

IMAGE = Path(__file__).parents[1] / "data" / "chips" / "nir.tif"
WAYS = ("sources", "list", "index", "request", "windows", "features", "geojson")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def command_with(place: str | Path, way: str, folder: Path) -> list[str | Path]:
    """Return a command that names a place in one of the ways that files are named."""
    names_it, names_image = folder / "it.csv", folder / "image.csv"
    names_it.write_text(f"{place}\n")
    names_image.write_text(f"{IMAGE}\n")
    tile = ("--tile", "0,0")
    commands: dict[str, list[str | Path]] = {
        "sources": ["plan", "--sources", names_it, *tile],
        "list": ["plan", "--sources", place, *tile],
        "index": ["plan", "--sources", names_image, "--index", place, *tile],
        "request": ["plan", place],
        "windows": ["plan", "--sources", names_image, "--windows", place, "--size", "8,8"],
        "features": ["points", place, "--sources", names_image, "--to", folder / "out.parquet"],
        "geojson": ["search", "--catalog", names_it, "--geojson", place],
    }
    return commands[way]


@pytest.mark.parametrize("way", WAYS)
def test_a_named_pipe_is_refused_at_once(
    way: str, pipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who opens a pipe waits until somebody writes to it."""
    assert run(*command_with(pipe, way, tmp_path)) == 2

    assert "it is a named pipe; only regular files are read" in capsys.readouterr().err


@pytest.mark.parametrize("way", WAYS)
def test_a_device_is_no_file(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """/dev/zero has no end."""
    assert run(*command_with("/dev/zero", way, tmp_path)) == 2

    assert "it is a device; only regular files are read" in capsys.readouterr().err


def test_a_socket_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor can it be opened."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))

        assert run(*command_with(tmp_path / "s", "list", tmp_path)) == 2

    assert "it is a socket; only regular files are read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("sources", "it is a folder; only regular files are read"),
        ("list", "pixel-gather ls makes a list of it"),
        ("index", "the index cannot be read: it is a folder: name a file in it"),
        ("features", "the file of features cannot be read: it is a folder: name a file in it"),
    ],
)
def test_a_folder_is_no_file(way: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only in the place of a list it is worth to say what makes a list of it."""
    assert run(*command_with(tmp_path, way, tmp_path)) == 2

    assert says in capsys.readouterr().err


@pytest.mark.long
def test_what_the_shell_opens_is_read(tmp_path: Path) -> None:
    """``<(command)`` is a pipe under /dev/fd, and somebody writes to it."""
    command = f"{sys.executable} -m pixel_gather_cli plan --tile 0,0 --sources <(echo {IMAGE})"

    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)  # noqa: S603, S607 # our own words

    assert "1 source" in ended.stdout, ended.stderr
