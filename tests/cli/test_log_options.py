"""The option ``--log-file``: what a command did, one JSON object a line."""

import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pixel_gather_cli.log_options import COMMAND, LIBRARY
from support.command_line import run


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a log."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_log_file_says_what_a_command_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has times in UTC and the exit code. Standard output and standard error do not change."""
    (tmp_path / "a.tif").touch()
    log = tmp_path / "log.jsonl"
    handlers = [len(logging.getLogger(name).handlers) for name in (LIBRARY, COMMAND)]

    assert run("ls", tmp_path, "--glob", "*.tif", "--log-file", log) == 0

    printed = capsys.readouterr()
    assert "a.tif" in printed.out
    assert printed.err.splitlines()[1:] == []  # no time was found
    first, *_, last = lines_of(log)
    assert " ls, version " in first["message"]
    assert (last["message"], last["level"]) == ("ends with exit code 0", "INFO")
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() is not None
    assert [len(logging.getLogger(name).handlers) for name in (LIBRARY, COMMAND)] == handlers


def test_log_file_keeps_the_error_and_earlier_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a program of the night said is there in the morning."""
    log = tmp_path / "log.jsonl"

    codes = [run("verify", tmp_path / name, "--log-file", log) for name in ("one.zarr", "two.zarr")]

    said = capsys.readouterr().err.splitlines()
    errors = [each["message"] for each in lines_of(log) if each["level"] == "ERROR"]
    assert codes == [2, 2]
    assert errors == said
    assert len(errors) == 2


def test_log_file_has_the_traceback_of_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be sent with a report of the defect."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("nothing is divided by it")

    monkeypatch.setattr("pixel_gather_cli.commands.ls.ls", fail)
    log = tmp_path / "log.jsonl"

    assert run("ls", tmp_path, "--log-file", log) == 70

    assert "this is a defect" in capsys.readouterr().err
    (found,) = [each for each in lines_of(log) if each["level"] == "CRITICAL"]
    assert "ZeroDivisionError: nothing is divided by it" in found["exception"]


def test_log_file_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after hours of work."""
    assert run("ls", tmp_path, "--log-file", tmp_path / "none" / "log.jsonl") == 2

    assert "--log-file: " in (said := capsys.readouterr().err)
    assert "cannot be written: No such file or directory" in said
