"""Another Python than the project needs is told so when it installs."""

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PROJECT = Path(__file__).parents[1]
_INTERFACE = "hatchling.metadata.plugin.interface"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the build loads, without the package that loads it."""
    parts = _INTERFACE.split(".")
    for n in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:n]), ModuleType(".".join(parts[:n])))
    vars(sys.modules[_INTERFACE])["MetadataHookInterface"] = object
    spec = importlib.util.spec_from_file_location("hatch_build", PROJECT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("version", [(3, 11, 7), (3, 12, 1), (3, 15, 0)])
def test_another_python_is_refused(
    version: tuple[int, int, int], build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names both versions."""
    monkeypatch.setattr(build, "sys", SimpleNamespace(version_info=version, exit=sys.exit))
    monkeypatch.setattr(build.platform, "python_version", lambda: ".".join(map(str, version)))

    with pytest.raises(SystemExit, match=rf"needs Python 3.13 or 3.14, and this is Python 3.{version[1]}\."):
        build.CustomMetadataHook().update({})


def test_a_python_that_fits_installs(build: Any) -> None:
    """The versions are those of the project's metadata."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    (first, last), ends = build.OLDEST, (build.NEWEST[0], build.NEWEST[1] + 1)

    build.CustomMetadataHook().update({})
    assert project["requires-python"] == f">={first}.{last},<{ends[0]}.{ends[1]}"
