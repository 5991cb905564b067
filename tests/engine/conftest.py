"""Temporary folders of the tests of the engine: in memory, where Linux has a folder for that."""

import os
import tempfile
from collections.abc import Iterator

import pytest

_IN_MEMORY = "/dev/shm"  # noqa: S108 # a folder is made in it, with a name of its own


@pytest.fixture(scope="module", autouse=True)
def staged_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Finish each cube in memory: its hundred small files take a seventh of a test's CPU time on a disk."""
    tmp_path_factory.getbasetemp()  # stays where pytest puts it
    with pytest.MonkeyPatch.context() as patch:
        if os.access(_IN_MEMORY, os.W_OK):
            patch.setattr(tempfile, "tempdir", _IN_MEMORY)
        yield
