"""Compiles the modules of the packages. A module that several packages have is compiled once."""

import hashlib
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Final

from infra.bundle.wheels import BundleError

_TASK_ROOT: Final = "/var/task"
"""The folder that Lambda unpacks a package to. Tracebacks name it."""

_HOW: Final = ("--invalidation-mode=unchecked-hash", "-p", _TASK_ROOT)
"""Neither times nor the name of the folder get into the byte code."""


def compile_modules(folder: Path, modules: list[Path], *, kept: Path) -> None:
    """Compile modules of a package.

    ``kept`` is a folder on the same disk. It keeps byte code by a module's path and content, and packages are
    hard-linked to it.

    Raises:
        BundleError: A module cannot be compiled.
    """
    kept.mkdir(parents=True, exist_ok=True)
    places = {module: kept / _key(module.relative_to(folder), module.read_bytes()) for module in modules}
    missing = [module for module, place in places.items() if not _take(place, _compile_module(module))]
    if missing:
        _compile(folder, missing)
    for module in missing:
        try:
            os.link(_compile_module(module), places[module])
        except FileExistsError:  # another process has just compiled it
            continue


def _key(name: Path, content: bytes) -> str:
    parts = (MAGIC_NUMBER, repr(_HOW).encode(), name.as_posix().encode(), content)
    return hashlib.sha256(b"".join(f"{len(part)}\n".encode() + part for part in parts)).hexdigest()


def _compile_module(module: Path) -> Path:
    return Path(cache_from_source(module))


def _take(kept: Path, target: Path) -> bool:
    """Link byte code that is kept. Return whether there is some."""
    target.parent.mkdir(exist_ok=True)
    try:
        os.link(kept, target)
    except FileNotFoundError:
        return False
    return True


def _compile(folder: Path, modules: list[Path]) -> None:
    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-m", "compileall", "-q", *_HOW, "-s", str(folder), "-i", "-"],
        input="".join(f"{module}\n" for module in modules),
        env={"PYTHONHASHSEED": "0"},  # the order of a set's constants
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BundleError(f"a module of the package cannot be compiled:\n{done.stdout}{done.stderr}")
