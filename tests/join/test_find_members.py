"""The cubes that places and patterns name."""

from pathlib import Path
from typing import Any

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.features.join.find_members import find_members
from pixel_gather.io.store.store_settings import StoreSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of cubes."""
    for name in ("b2", "q", "b1", "b3", "b10", "z", "a"):
        (tmp_path / name).mkdir()
    return tmp_path


def found(*cubes: Any, to: str = "/elsewhere") -> list[str]:
    """Return the last parts of the hrefs of cubes."""
    return [each.rpartition("/")[2] for each in find_members(cubes, StoreSettings(), to=f"file://{to}")]


def test_patterns_name_cubes_in_the_order_of_their_names(folder: Path) -> None:
    """Also one of addresses. Places stay in the order in which they are given."""
    assert found(folder / "b*", folder / "a") == ["b1", "b10", "b2", "b3", "a"]
    assert found(f"file://{folder}/b?") == ["b1", "b2", "b3"]
    assert found(f"{folder}/b2/", f"{folder}/b1/../a") == ["b2", "a"]


def test_a_cube_that_is_spelled_in_two_ways_is_named_twice(folder: Path) -> None:
    """A pattern may name it again."""
    for again in (f"{folder}/a/", f"{folder}/b1/../a", f"file://{folder}/a", f"{folder}/*"):
        with pytest.raises(RequestError, match=f"^cubes: {folder}/a is named twice"):
            found(folder / "a", again)


def test_a_place_beside_a_cube_is_not_in_it(folder: Path) -> None:
    """Its name may begin with that of the cube."""
    assert found(folder / "a", to=f"{folder}/a.icechunk") == ["a"]
    with pytest.raises(RequestError, match=f"^to: {folder}/a/joined lies in the cube {folder}/a: choose"):
        found(folder / "a", to=f"{folder}/a/joined")


@pytest.mark.parametrize(
    ("cubes", "said"),
    [
        ([], "name the cubes to join"),
        (["s3://b*/a"], r"s3://b\*/a: only the last part of it may have \* or \?"),
        (["s3://b/t?/a*"], r"s3://b/t\?/a\*: only the last part"),
        (["https://b/a"], "https:// is not read here; write one of file, s3"),
    ],
)
def test_other_places_are_refused(cubes: list[str], said: str) -> None:
    """The message says what to write."""
    with pytest.raises(RequestError, match=f"^cubes: {said}"):
        found(*cubes)
