"""Runs the command line in this process."""

from pathlib import Path

import pytest

from pixel_gather_cli.main import main


def run(*arguments: str | int | Path) -> int:
    """Run ``pixel-gather`` with these arguments and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code
