"""Skips are told: how many, and why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_SKIPPING = """\
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    pytest.skip("there is no moon")

@pytest.mark.skipif(True, reason="needs the sun")
def test_another():
    pass

def test_module():
    pytest.importorskip("no_such_module")

def test_run():
    pass
"""


@pytest.mark.long
def test_skips_are_counted_by_reason_in_one_line(tmp_path: Path) -> None:
    """Wherever the tests are. The most frequent reason comes first."""
    module = tmp_path / "test_skipping.py"
    module.write_text(_SKIPPING)

    settings = ["-c", "pyproject.toml", "--rootdir", str(tmp_path), "-p", "conftest", "-n", "1"]
    # In its usual folder, pytest first removes those of earlier runs. That can take minutes.
    settings += ["--basetemp", str(tmp_path / "base")]
    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-m", "pytest", *settings, str(module)],
        cwd=_TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(_TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "5 tests were skipped: there is no moon (3); could not import 'no_such_module': "
        "No module named 'no_such_module' (1); needs the sun (1)"
    ) in lines
    assert not [line for line in lines if line.startswith("SKIPPED")]
