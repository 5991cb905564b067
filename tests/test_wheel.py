"""The wheel of a release works in a new environment, away from the checkout."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

PROJECT = Path(__file__).parents[1]
DEMO = PROJECT / "tests/data/demo"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


_UV: Final = shutil.which("uv") or ""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel of a release and no extra. Extras can be added.

    The packages are the locked ones, from uv's cache: nothing is asked of a registry.
    """

    folder: Path
    wheel: Path

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the checkout."""
        return _run(str(self.folder / "venv/bin" / name), *arguments, cwd=self.folder)

    def install(self, *options: str) -> None:
        """Install the wheel, and what the lock has for it, with options such as ``--all-extras``."""
        _done(
            *(_UV, "sync", "--quiet", "--offline", "--locked", "--no-dev", "--no-install-project"),
            *("--inexact", *options),
            cwd=PROJECT,
            UV_PROJECT_ENVIRONMENT=str(self.folder / "venv"),
        )
        python = str(self.folder / "venv/bin/python")
        _done(
            *(_UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python),
            str(self.wheel),
            cwd=self.folder,
        )
        _done(_UV, "pip", "check", "--quiet", "--python", python, cwd=self.folder)


def _run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 # our own words
        command, capture_output=True, text=True, check=False, cwd=cwd, env=os.environ | environment
    )


def _done(*command: str, cwd: Path, **environment: str) -> str:
    ended = _run(*command, cwd=cwd, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The built and installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    said = _done(str(PROJECT / "scripts/release"), str(folder), cwd=folder)
    _done(_UV, "venv", "--quiet", "--python", sys.executable, str(folder / "venv"), cwd=folder)
    made = Installed(folder=folder, wheel=Path(said.split()[1]))
    made.install()
    yield made
    shutil.rmtree(folder)  # hundreds of megabytes


@pytest.mark.long
def test_a_release_is_one_file_of_pure_python(installed: Installed) -> None:
    """The same files give the same wheel, so that anybody can compare the digest of a release."""
    again = _done(str(PROJECT / "scripts/release"), str(installed.folder / "again"), cwd=PROJECT)

    assert installed.wheel.name.endswith("-py3-none-any.whl")
    assert again.split()[0] == hashlib.sha256(installed.wheel.read_bytes()).hexdigest()


@pytest.mark.long
def test_wheel_alone_lists_plans_and_gathers(installed: Installed) -> None:
    """The wheel needs no file of the checkout and no extra. A message says what the report needs."""
    listed = installed.run("pixel-gather", "ls", f"{DEMO}/../series/files/stactools-nclimgrid")
    request = ("--sources", str(DEMO / "sources.csv"), "--bbox", "-109.1,36.9,-101.9,41.1")

    planned = installed.run("pixel-gather", "plan", *request, "--json")
    ran = installed.run("pixel-gather", "run", *request, "--to", "cube.zarr", "--json")

    assert "nclimgrid-prcp-189501.tif" in listed.stdout, listed.stderr
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["shape"] == [5, 102, 174]
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == {"ok": 5}
    assert "pip install '.[report]' in a clone, or 'WHEEL[report]' with" in ran.stderr


def test_wheel_alone_says_what_an_extra_would_bring(installed: Installed) -> None:
    """There is a message instead of a traceback."""
    ended = installed.run("pixel-gather", "list")

    assert ended.returncode == 2
    assert ended.stderr.strip().endswith("or 'WHEEL[aws]' with the path of the wheel")


def test_wheel_is_typed_and_knows_its_version(installed: Installed) -> None:
    """Type checkers find its types, and the command prints its version."""
    program = (
        "import pixel_gather, pathlib; "
        "print(pixel_gather.__version__, pathlib.Path(pixel_gather.__file__).with_name('py.typed').is_file())"
    )

    ended = installed.run("python", "-c", program)

    assert ended.stdout.split() == [installed.wheel.name.split("-")[1], "True"]


@pytest.mark.long
def test_wheel_with_all_extras_draws_and_opens(installed: Installed) -> None:
    """The page is drawn, and xarray opens the cube."""
    installed.install("--all-extras")
    program = (
        "from pathlib import Path; from pixel_gather import gather; "
        f"gathered = gather({{'sources': Path({str(DEMO / 'sources.csv')!r}), 'window': 'centre'}}, "
        "to=Path('all.zarr')); "
        "print(Path(gathered.page).is_file(), dict(gathered.open().sizes)['time'])"
    )

    ended = installed.run("python", "-c", program)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["True", "5"]


def test_wheel_runs_without_being_installed(installed: Installed) -> None:
    """An empty home is enough for uvx and `uv tool install`. They ask a registry for versions of packages."""
    locked = _done(
        *(_UV, "export", "--quiet", "--locked", "--no-dev", "--no-emit-project", "--no-hashes"), cwd=PROJECT
    )
    (installed.folder / "locked.txt").write_text(locked)
    home = installed.folder / "home"
    home.mkdir()
    new = {"HOME": str(home), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": "", "XDG_BIN_HOME": ""}
    options = ("--quiet", "--python", sys.executable, "--constraints", "locked.txt")

    _done(_UV, "tool", "install", *options, str(installed.wheel), cwd=installed.folder, **new)
    kept = _done(str(home / ".local/bin/pixel-gather"), "--version", cwd=installed.folder, **new)
    once = _done(
        *(_UV, "tool", "run", *options, "--from", str(installed.wheel), "pixel-gather", "--version"),
        cwd=installed.folder,
        **new,
    )

    assert kept == once
    assert kept.split()[-1] == installed.wheel.name.split("-")[1]
