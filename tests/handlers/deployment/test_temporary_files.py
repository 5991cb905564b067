"""Temporary files of a function lie in a folder that its next process empties."""

import subprocess
import sys
from pathlib import Path

import pytest

from handlers.deployment import stores
from handlers.deployment.settings import Settings
from support.lambda_functions import ENVIRONMENT

_MAKE = """
import sys, tempfile
from pathlib import Path
from handlers.deployment.temporary_files import take_folder

take_folder(Path(sys.argv[1]))
print(tempfile.mkdtemp())
"""


def made_by_a_killed_process(folder: Path, monkeypatch: pytest.MonkeyPatch, *, task_root: str) -> Path:
    """Return a temporary folder that a process has made and left."""
    monkeypatch.setenv("LAMBDA_TASK_ROOT", task_root)
    command = [sys.executable, "-c", _MAKE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 # our own command
    return Path(done.stdout.strip())


def test_next_process_of_lambda_finds_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda kills a function, keeps its /tmp, and starts the next process there."""
    folder = tmp_path / "pixel-gather"
    first = made_by_a_killed_process(folder, monkeypatch, task_root="/var/task")
    (first / "list.sqlite").write_text("a list")

    second = made_by_a_killed_process(folder, monkeypatch, task_root="/var/task")

    assert first.parent == folder
    assert [*folder.iterdir()] == [second]


def test_elsewhere_temporary_files_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator's functions share one folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = tmp_path / "pixel-gather"

    made = made_by_a_killed_process(folder, monkeypatch, task_root="/work/packages/plan")

    assert made.parent == tmp_path
    assert not folder.exists()


def test_every_function_that_has_stores_takes_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function takes its folder when it starts, before it writes a file."""
    taken: list[bool] = []
    monkeypatch.setattr(stores, "take_folder", lambda: taken.append(True))

    stores.Deployment(Settings.from_environment(dict(ENVIRONMENT)))

    assert taken == [True]
