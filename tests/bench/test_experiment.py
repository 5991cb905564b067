"""A benchmark's folder, the order of its rounds, and what is told of the machine."""

import re
from pathlib import Path

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather_bench.experiment import about_machine, free_memory_mib, new_folder, rounds


def test_new_folder_is_named_by_kind_and_time(tmp_path: Path) -> None:
    """None overwrites another, be they begun in one second."""
    folders = [new_folder(tmp_path / "out/bench", "suite") for _ in range(3)]

    assert len(set(folders)) == 3
    for folder in folders:
        assert folder.is_dir()
        assert re.fullmatch(r"suite-\d{8}T\d{6}Z(-[23])?", folder.name)


def test_new_folder_refuses_a_place_that_is_a_file(tmp_path: Path) -> None:
    """The sentence names the place."""
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(RequestError, match="no folder can be made in"):
        new_folder(file, "suite")


def test_about_machine_tells_what_figures_depend_on() -> None:
    """Cores, memory and versions are in every record."""
    machine = about_machine()

    assert machine["cores"] >= 1
    assert machine["versions"]["numpy"]
    free_mib = free_memory_mib()
    assert free_mib is None or machine["memory_mib"] > free_mib > 0


def test_every_second_round_goes_backwards_and_others_begin_later() -> None:
    """Nothing is always first, and nothing always follows the same neighbour."""
    order = ["".join(item for at, item in rounds("abc", 5) if at == number) for number in range(5)]

    assert order == ["abc", "cba", "bca", "acb", "cab"]


def test_warm_ups_have_numbers_below_0() -> None:
    """They are easy to leave out."""
    assert list(rounds("ab", 1, warm_ups=1)) == [(-1, "a"), (-1, "b"), (0, "a"), (0, "b")]


def test_nothing_to_compare_is_no_round() -> None:
    """An empty selection ends at once."""
    assert list(rounds([], 3)) == []
