"""Installs npm packages as a folder locks them: the CDK command line and the validator of state machines.

``python -m infra.node_tools`` installs those where they are missing or out of date, and prints their folder.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from infra.file_lock import file_lock

_NODE: Final = Path(__file__).parent / "node"
_LOCK: Final = "package-lock.json"
_INSTALLED: Final = ".installed"
"""A copy of the lock file that was installed, in node_modules."""


class NodeToolsError(Exception):
    """npm could not install the commands."""


def node_tools() -> Path:
    """Return the folder of ``cdk`` and ``asl-validator``.

    Raises:
        NodeToolsError: npm failed. The message has its output.
    """
    return node_modules(_NODE) / ".bin"


def node_modules(folder: Path) -> Path:
    """Return the packages that a folder's lock file names. They are installed where they are missing.

    Raises:
        NodeToolsError: npm failed. The message has its output.
    """
    modules = folder / "node_modules"
    with file_lock(folder / ".lock"):
        locked, installed = folder / _LOCK, modules / _INSTALLED
        if not installed.is_file() or installed.read_bytes() != locked.read_bytes():
            _install(folder)
            shutil.copyfile(locked, installed)
    return modules


def node_environment() -> dict[str, str]:
    """Return an environment that uses this installation's Node and trusts the same certificates as Python."""
    environment = os.environ
    path = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", os.defpath)))
    trusted = {"NODE_EXTRA_CA_CERTS": environment["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in environment else {}
    return {**trusted, **environment, "PATH": path}


def _install(folder: Path) -> None:
    done = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"],  # noqa: S607 # node_environment says which
        cwd=folder,
        env=node_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NodeToolsError(f"npm cannot set up {folder}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.stdout.write(f"{node_tools()}\n")
