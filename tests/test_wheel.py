"""The wheel works in a new environment, away from the checkout."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
DEMO = PROJECT / "tests/data/demo"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and no extra. Extras can be added."""

    folder: Path
    wheel: Path
    constraints: Path

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the checkout."""
        return _run(str(self.folder / "venv/bin" / name), *arguments, cwd=self.folder)

    def install(self, extras: str = "") -> None:
        """Install the wheel with extras, in the locked versions."""
        _uv(
            *("pip", "install", "--quiet", "--python", str(self.folder / "venv/bin/python")),
            *("--constraints", str(self.constraints), f"pixel-gather{extras} @ {self.wheel.as_uri()}"),
            cwd=self.folder,
        )


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 # our own words
        command, capture_output=True, text=True, check=False, cwd=cwd
    )


def _uv(*arguments: str, cwd: Path) -> str:
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH: source scripts/setup.sh"
    ended = _run(uv, *arguments, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The built and installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    _uv("build", "--quiet", "--wheel", "--out-dir", str(folder), cwd=PROJECT)
    locked = _uv(
        "export", "--locked", "--all-extras", "--no-dev", "--no-emit-project", "--no-hashes", cwd=PROJECT
    )
    constraints = folder / "constraints.txt"
    constraints.write_text(locked)
    _uv("venv", "--quiet", "--python", sys.executable, str(folder / "venv"), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    made = Installed(folder=folder, wheel=wheel, constraints=constraints)
    made.install()
    yield made
    shutil.rmtree(folder)  # hundreds of megabytes


@pytest.mark.slow
def test_wheel_alone_plans_and_gathers(installed: Installed) -> None:
    """The wheel needs no file of the checkout and no extra. A message says what the report needs."""
    request = ("--sources", str(DEMO / "sources.csv"), "--bbox", "-109.1,36.9,-101.9,41.1")

    planned = installed.run("pixel-gather", "plan", *request, "--json")
    ran = installed.run("pixel-gather", "run", *request, "--to", "cube.zarr", "--json")

    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["shape"] == [5, 102, 174]
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == {"ok": 5}
    assert "pip install 'pixel-gather[report]'" in ran.stderr


def test_wheel_alone_says_what_an_extra_would_bring(installed: Installed) -> None:
    """There is a message instead of a traceback."""
    ended = installed.run("pixel-gather", "list")

    assert ended.returncode == 2
    assert ended.stderr.strip().endswith("pip install 'pixel-gather[aws]'")


def test_wheel_is_typed_and_knows_its_version(installed: Installed) -> None:
    """Type checkers find its types, and the command prints its version."""
    program = (
        "import pixel_gather, pathlib; "
        "print(pixel_gather.__version__, pathlib.Path(pixel_gather.__file__).with_name('py.typed').is_file())"
    )

    ended = installed.run("python", "-c", program)

    assert ended.stdout.split() == [installed.wheel.name.split("-")[1], "True"]


@pytest.mark.slow
def test_wheel_with_all_extras_draws_and_opens(installed: Installed) -> None:
    """The page is drawn, and xarray opens the cube."""
    installed.install("[all]")
    program = (
        "from pathlib import Path; from pixel_gather import gather; "
        f"gathered = gather({{'sources': Path({str(DEMO / 'sources.csv')!r}), 'window': 'centre'}}, "
        "to=Path('all.zarr')); "
        "print(Path(gathered.page).is_file(), dict(gathered.open().sizes)['time'])"
    )

    ended = installed.run("python", "-c", program)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["True", "5"]
