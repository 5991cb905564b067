"""``scripts/setup.sh`` can be sourced from any shell and any folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/setup.sh"
SHELLS = [shell for shell in ("bash", "dash", "zsh") if shutil.which(shell)]
TELLING = [shell for shell in SHELLS if shell != "dash"]
"""Shells that know which file is being sourced."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's folder, and a ``uv`` that records where it is called."""
    project, tools = tmp_path / "a project", tmp_path / "tools"
    (project / "scripts").mkdir(parents=True)
    (project / "uv.lock").touch()
    shutil.copy(SCRIPT, project / "scripts")
    tools.mkdir()
    (tools / "uv").write_text(f'#!/bin/sh\n[ "$1" = --version ] || pwd >> "{tmp_path}/called"\n')
    (tools / "uv").chmod(0o755)
    return project


def _source(
    shell: str, script: str, cwd: Path, tools: Path, *, then: str = "pwd"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 # our own words
        [shell, "-c", f'. "{script}" && {then}'],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_sourced_in_the_project_sets_it_up(shell: str, project: Path, tmp_path: Path) -> None:
    """This works in every shell."""
    ended = _source(shell, "scripts/setup.sh", project, tmp_path / "tools")

    assert ended.stdout.strip() == str(project)
    assert (tmp_path / "called").read_text().split("\n")[0] == str(project)


@pytest.mark.parametrize("shell", TELLING)
def test_sourced_from_elsewhere_finds_the_project(shell: str, project: Path, tmp_path: Path) -> None:
    """The path of the script may be relative to another folder."""
    (tmp_path / "elsewhere").mkdir()

    ended = _source(shell, "../a project/scripts/setup.sh", tmp_path / "elsewhere", tmp_path / "tools")

    assert ended.stdout.strip() == str(project)


def test_every_script_that_needs_uv_sets_it_up() -> None:
    """A page's first command may be any of them."""
    texts = {path.name: path.read_text() for path in SCRIPT.parent.iterdir() if path.is_file()}
    need = {
        name for name, text in texts.items() if text.startswith("#!/usr/bin/env bash") and "uv run" in text
    }

    assert {"simulate", "chaos", "load", "demo"} <= need
    assert [name for name in sorted(need) if "setup.sh" not in texts[name]] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_commands_of_the_project_are_found(shell: str, project: Path, tmp_path: Path) -> None:
    """The pages write ``pixel-gather`` alone, without ``uv run``."""
    command = project / ".venv" / "bin" / "pixel-gather"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\necho the one of the project\n")
    command.chmod(0o755)

    ended = _source(shell, "scripts/setup.sh", project, tmp_path / "tools", then="pixel-gather")

    assert ended.stdout.strip() == "the one of the project"


@pytest.mark.skipif("dash" not in SHELLS, reason="dash is not installed")
def test_a_shell_that_does_not_tell_is_sent_to_the_project(project: Path, tmp_path: Path) -> None:
    """The user is told to go to the project. No environment is made in the wrong folder."""
    (tmp_path / "elsewhere").mkdir()

    ended = _source("dash", str(project / "scripts/setup.sh"), tmp_path / "elsewhere", tmp_path / "tools")

    assert ended.returncode != 0
    assert "go there and source scripts/setup.sh again" in ended.stderr
    assert not (tmp_path / "called").exists()
    assert not list((tmp_path / "elsewhere").iterdir())
