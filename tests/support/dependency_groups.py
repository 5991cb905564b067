"""Other programs that tests compare with, from the dependency groups that scripts/test installs as well."""

from typing import Any

import pytest


def module_of_group(module: str, group: str) -> Any:
    """Return a module of a dependency group. The test is skipped where the group is not installed."""
    return pytest.importorskip(module, reason=f"the dependency group {group} is not installed")
