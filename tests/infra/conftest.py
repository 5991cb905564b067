"""Fixtures of the stack's tests: command lines on Node, at their pinned versions."""

from pathlib import Path

import pytest

from infra.node_tools import node_tools
from support.synthesized import Synthesized, synthesized


@pytest.fixture(scope="session")
def node_commands() -> Path:
    """The folder of ``cdk`` and ``asl-validator``. They are installed from the lock if they are missing."""
    return node_tools()


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """The stack with default settings."""
    return synthesized()
