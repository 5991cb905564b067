"""Installs the CDK command line and the validator of state machines, as locked in infra/node.

``python -m infra.node_tools`` installs them where they are missing or out of date, and prints their folder.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infra.file_lock import file_lock

_NODE: Final = Path(__file__).parent / "node"
_LOCK: Final = _NODE / "package-lock.json"
_INSTALLED: Final = _NODE / "node_modules" / ".installed"
"""A copy of the lock file that was installed."""


class NodeToolsError(Exception):
    """npm could not install the commands."""


def node_tools() -> Path:
    """Return the folder of ``cdk`` and ``asl-validator``.

    Raises:
        NodeToolsError: npm failed. The message has its output.
    """
    with file_lock(_NODE / ".lock"):
        if not _INSTALLED.is_file() or _INSTALLED.read_bytes() != _LOCK.read_bytes():
            _install()
    return _NODE / "node_modules" / ".bin"


def _install() -> None:
    done = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"],  # noqa: S607 # _with_node says which
        cwd=_NODE,
        env=_with_node(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NodeToolsError(f"npm cannot set up {_NODE}:\n{done.stdout}{done.stderr}")
    shutil.copyfile(_LOCK, _INSTALLED)


def _with_node(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that uses this installation's Node and trusts the same certificates as Python."""
    path = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", os.defpath)))
    trusted = {"NODE_EXTRA_CA_CERTS": environment["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in environment else {}
    return {**trusted, **environment, "PATH": path}


if __name__ == "__main__":
    sys.stdout.write(f"{node_tools()}\n")
