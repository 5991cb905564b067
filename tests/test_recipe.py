"""The recipe of conda-forge says what pyproject.toml says, and the tool that builds it can read it."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from packaging.requirements import Requirement

from pixel_gather import __version__

PROJECT: Final = Path(__file__).parents[1]
_RECIPE: Final = PROJECT / "recipe/recipe.yaml"
_NAMES: Final = {"xxhash": "python-xxhash"}
"""Packages that conda-forge calls otherwise."""


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    """The recipe as it is written."""
    return yaml.safe_load(_RECIPE.read_text())  # type: ignore[no-any-return]


def test_recipe_needs_what_the_wheel_needs(recipe: dict[str, Any]) -> None:
    """A package that the project gains or loses, the recipe gains or loses."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    ours = (Requirement(each) for each in project["dependencies"])
    needed = [f"{_NAMES.get(each.name, each.name)} {each.specifier}" for each in ours]
    oldest, newest = re.findall(r"3\.\d+", project["requires-python"])

    system, python, *packages = recipe["requirements"]["run"]
    assert packages == needed
    assert (system, python) == ("__unix", f"python >=${{{{ python_min }}}},<{newest}")
    assert oldest == "3.13"
    assert recipe["context"]["version"] == __version__
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {target}" for name, target in project["scripts"].items()
    ]


def test_recipe_is_rendered_as_one_package_of_pure_python() -> None:
    """rattler-build renders it for Linux and macOS to the same name, version and requirements."""
    rattler = pytest.importorskip("rattler_build", reason="needs the group judges")
    stage0 = rattler.Stage0Recipe.from_file(_RECIPE)
    variants = rattler.VariantConfig({"python_min": ["3.13"]})
    rendered = []
    for platform in ("linux-64", "linux-aarch64", "osx-arm64"):
        config = rattler.RenderConfig(platform=rattler.PlatformConfig(target_platform=platform))
        rendered += [each.recipe.to_dict() for each in stage0.render(variants, config)]

    assert len(rendered) == 3
    first, *others = rendered
    assert first["package"] == {"name": "pixel-gather", "version": __version__}
    assert first["build"]["noarch"] == "python"
    assert "python >=3.13,<3.15" in first["requirements"]["run"]
    assert [each["requirements"] for each in others] == [first["requirements"]] * 2
