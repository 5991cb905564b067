"""What the tests of the stack share: the command lines that run on Node, at their pinned versions."""

import subprocess
import sys
from pathlib import Path

import pytest

from synthesized import ROOT

_NODE = ROOT / "infra" / "node"


@pytest.fixture(scope="session")
def node_commands() -> Path:
    """The folder of ``cdk`` and ``asl-validator``, set up from the lock where they are missing."""
    folder = _NODE / "node_modules" / ".bin"
    if not all((folder / name).exists() for name in ("cdk", "asl-validator")):
        npm = Path(sys.executable).parent / "npm"
        subprocess.run(  # noqa: S603 # our own command
            [npm, "ci", "--prefix", _NODE, "--no-audit", "--no-fund", "--loglevel", "error"], check=True
        )
    return folder
