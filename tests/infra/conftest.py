"""What the tests of the stack share: the command lines that run on Node, at their pinned versions."""

from pathlib import Path

import pytest

from infra.node_tools import node_tools


@pytest.fixture(scope="session")
def node_commands() -> Path:
    """The folder of ``cdk`` and ``asl-validator``, set up from the lock where they are missing."""
    return node_tools()
