"""Unpacks the wheels of a dependency group, as ``uv.lock`` pins them, into a folder."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
"""Where ``pyproject.toml`` and ``uv.lock`` are."""

IN_THE_RUNTIME: Final = ("boto3", "botocore", "s3transfer")
"""Packages of Lambda's own Python."""

_PYTHON: Final = "3.13"
_PLATFORM: Final = "manylinux_2_28"
"""glibc 2.28; Lambda's Amazon Linux 2023 has 2.34."""


class BundleError(Exception):
    """A package cannot be made. The message says what to do."""


def locked_requirements(group: str, *, without: Sequence[str] = ()) -> str:
    """Return a group's packages, pinned and with their hashes, as a requirements file.

    This needs no package index: ``uv.lock`` has all versions and hashes.

    Raises:
        BundleError: There is no uv, no such group, or ``uv.lock`` does not fit ``pyproject.toml``.
    """
    options = [f"--no-emit-package={name}" for name in without]
    return _uv("export", "--locked", "--only-group", group, "--no-emit-project", "--no-header", *options)


def unpack(requirements: str, folder: Path, *, machine: str) -> None:
    """Unpack the wheels of a requirements file into a folder.

    The files are copies, so that changing them does not change uv's cache.

    Raises:
        BundleError: A wheel cannot be fetched, has a wrong hash, or does not exist for the machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder.with_name(f"{folder.name}.txt")
    listed.write_text(requirements)
    _uv(
        "pip",
        "install",
        "--quiet",
        f"--target={folder}",
        f"--python-platform={machine}-{_PLATFORM}",
        f"--python-version={_PYTHON}",
        "--only-binary=:all:",
        "--require-hashes",
        "--no-deps",
        "--link-mode=copy",
        f"--requirements={listed}",
    )
    listed.unlink()
    (folder / ".lock").unlink(missing_ok=True)


def _uv(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 # our own words
        [_find_uv(), "--color=never", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BundleError(f"`uv {' '.join(arguments)}` failed:\n{done.stderr.strip()}")
    return done.stdout


def _find_uv() -> str:
    named = os.environ.get("UV")
    found = shutil.which(named or "uv")
    if found is None and named is None:
        found = shutil.which(REPOSITORY / ".uv" / "bin" / "uv")
    if found is None:
        where = f"UV names {named!r}, no program" if named else "It is neither on PATH nor .uv/bin/uv"
        raise BundleError(
            f"uv is needed to make the Lambda packages. {where}: run "
            "`python3 -m venv .uv && .uv/bin/pip install uv`, or let UV name it."
        )
    return found
