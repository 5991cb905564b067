"""Without the packages of an extra, commands say what to install."""

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from pixel_gather.core import extras

PROJECT = Path(__file__).parents[1]
FILE = min((PROJECT / "tests/data/series/files/stactools-noaa-cdr").glob("heat_content_anomaly_0-2000*.tif"))
_NAMES = {"netcdf4": "netCDF4", "pillow": "PIL"}
"""Packages whose import name differs from their name in the registry."""


@dataclass(frozen=True)
class Case:
    """A command, the packages that are missing, and the expected message."""

    id: str
    arguments: str
    without: tuple[str, ...]
    said: str


def _install(extra: str) -> str:
    return (
        f"which is not installed: pip install '.[{extra}]' in a clone, or 'WHEEL[{extra}]' with the path of "
        "the wheel"
    )


CASES = (
    Case("deployment", "list", ("boto3", "botocore"), f"gathers on AWS need boto3, {_install('aws')}"),
    Case(
        "report",
        "report cube --to page",
        ("matplotlib",),
        f"report pages need matplotlib, {_install('report')}",
    ),
    Case("pictures", "report cube --to page", ("PIL",), f"report pages need PIL, {_install('report')}"),
    Case(
        "netcdf", "export cube --to x.nc", ("PIL", "netCDF4"), f".nc files need netCDF4, {_install('export')}"
    ),
    Case("films", "export cube --to x.webp", ("PIL",), f".webp files need PIL, {_install('export')}"),
    Case("suite", "bench list.txt", ("matplotlib",), f"benchmarks need matplotlib, {_install('report')}"),
    Case("blocks", "bench blocks", ("matplotlib",), f"benchmarks need matplotlib, {_install('report')}"),
)


def _run(arguments: list[str], without: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({without!r})); "
        f"from pixel_gather_cli.main import main; main({arguments!r})"
    )
    return subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_command_without_its_packages_says_what_to_install(case: Case, tmp_path: Path) -> None:
    """The message is one sentence, before anything is done."""
    ended = _run(case.arguments.split(), case.without, tmp_path)

    assert ended.returncode == 2
    assert ended.stderr.strip() == f"pixel-gather: {case.said}"
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_the_report_of_a_gather_needs_no_matplotlib(tmp_path: Path) -> None:
    """Only the figures that stand beside those of 2018 do. So no function of a deployment has it."""
    (tmp_path / "list.txt").write_text(f"{FILE}\n")
    arguments = ["run", "--sources", "list.txt", "--pixels", "0,0,8,8", "--to", "cube.zarr"]

    ended = _run(arguments, ("matplotlib",), tmp_path)

    assert ended.returncode == 0
    assert (tmp_path / "cube.zarr/report.html").exists()


@pytest.mark.slow
def test_a_gather_needs_no_extra(tmp_path: Path) -> None:
    """The cube is complete. A message says what could not be drawn."""
    every = tuple(name for names in extras._PACKAGES.values() for name in names)
    arguments = ["run", "--sources", "list.txt", "--pixels", "0,0,8,8", "--to", "cube.zarr"]
    (tmp_path / "list.txt").write_text(f"{FILE}\n")

    ended = _run(arguments, (*every, "botocore"), tmp_path)

    assert ended.returncode == 0
    assert "is complete" in ended.stdout
    assert f"report pages need jinja2, {_install('report')}" in ended.stderr


def test_extras_are_those_of_the_project() -> None:
    """The extras in messages exist and install these packages."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = {
        extra: {_NAMES.get(name, name) for name in (re.split(r"[>=\[]", each)[0] for each in packages)}
        for extra, packages in project["optional-dependencies"].items()
        if extra != "all"
    }

    assert declared == {extra: set(packages) for extra, packages in extras._PACKAGES.items()}
    assert project["optional-dependencies"]["all"] == [f"pixel-gather[{','.join(declared)}]"]
