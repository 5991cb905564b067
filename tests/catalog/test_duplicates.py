"""Scenes that were processed several times."""

import pytest

from catalog.scenes import item
from pixel_gather.catalog.area import Box
from pixel_gather.catalog.duplicates import FROM_HEADERS, without_duplicates


def names(*items: dict[str, object]) -> list[object]:
    """Return the ids of the scenes that count."""
    return [each["id"] for each in without_duplicates(items).items]


def test_the_highest_version_counts() -> None:
    """5.10 is later than 5.9, whatever the alphabet says."""
    old = item("a", s2__mgrs_tile="33TWL", s2__processing_baseline="05.09", updated="2025-01-01")
    new = item("b", s2__mgrs_tile="33TWL", s2__processing_baseline="05.10", updated="2024-01-01")

    assert names(old, new) == names(new, old) == ["b"]


def test_the_latest_update_counts_where_versions_are_equal() -> None:
    """A provider that names no version names at least when it wrote the item."""
    old, new = item("b", updated="2024-01-01T00:00:00Z"), item("a", updated="2024-02-01T00:00:00Z")

    assert names(old, new) == ["a"]


def test_other_tiles_times_platforms_and_collections_are_other_scenes() -> None:
    """Only the same acquisition of the same place is a duplicate."""
    scenes = (
        item("a", s2__mgrs_tile="33TWL"),
        item("b", s2__mgrs_tile="33TWM"),
        item("c", s2__mgrs_tile="33TWL", time="2024-06-01T10:20:31Z"),
        item("d", s2__mgrs_tile="33TWL", platform="sentinel-2b"),
        item("e", s2__mgrs_tile="33TWL", collection="other"),
    )

    assert names(*scenes) == ["a", "b", "c", "d", "e"]


def test_versions_with_text_and_dashes_are_compared_part_by_part() -> None:
    """A number is later than a text, and its digits count as a number."""
    order = ["2-9", "2-10", "2-10.1"]
    scenes = [item(str(n), s2__processing_baseline=version) for n, version in enumerate(order)]

    assert names(*scenes) == names(*reversed(scenes)) == ["2"]
    assert names(item("a", s2__processing_baseline="final"), item("b", s2__processing_baseline="1")) == ["b"]


def test_images_known_by_their_headers_are_duplicates_by_id_alone() -> None:
    """Their time may be made up, so two files of one moment and place are two scenes."""
    one, other = (item(name) for name in "ab")
    for each in (one, other):
        each["properties"][FROM_HEADERS] = True

    assert names(one, other, {**one}) == ["a", "b"]


def test_fractions_of_a_second_do_not_matter() -> None:
    """Two processings may write the same moment with and without a fraction."""
    assert names(item("a"), item("b", time="2024-06-01T10:20:30.024Z")) == ["b"]


def test_without_a_cell_almost_the_same_box_is_the_same_place() -> None:
    """Boxes that share 95 % of their union are one place; neighbours are not."""
    scene = item("a", box=(0, 0, 1, 1))

    assert names(scene, item("b", box=(0, 0, 1, 1.01))) == ["b"]
    assert names(scene, item("b", box=(0, 0.5, 1, 1.5))) == ["a", "b"]
    assert names(scene, item("b", box=(2.2, 2.2, 3.2, 3.2))) == ["a", "b"]
    assert names(scene, item("b", box=(2.2, 0, 3.2, 1))) == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ((0, 50, 1, 51), (0, 50, 1, 51.01), True),
        ((0, 0, 1, 1), (0, 0, 1, 0.95), False),
        ((0, 0, 1, 1), (0, 0, 1, 0.951), True),
        ((0, 0, 1, 1), (0, 0, 0.949, 1), False),
        ((5, 5, 5, 5), (5, 5, 5, 5), True),
        ((0, 0, 0, 1), (0, 0, 0, 2), False),
        ((0, 0, 1, 0), (0, 0, 2, 0), False),
    ],
    ids=["far north", "95 %", "more", "less", "one point", "two meridians", "two parallels"],
)
def test_more_than_95_percent_of_both_boxes_are_one_place(one: Box, other: Box, *, is_same: bool) -> None:
    """Lines have no surface to compare. Two equal points are one place."""
    assert len(names(item("a", box=one), item("b", box=other))) == 2 - is_same


def test_the_same_cell_is_one_place_whatever_the_boxes() -> None:
    """A footprint may be only the part of the cell that the swath has covered."""
    whole = item("a", s2__mgrs_tile="33TWL", box=(0, 0, 1, 1))
    part = item("b", s2__mgrs_tile="33TWL", box=(0, 0, 0.2, 1))

    assert names(whole, part) == ["b"]


def test_boxes_are_compared_across_the_antimeridian() -> None:
    """The same place may be written from 179 to -179 twice, and its neighbour ends at -178."""
    scene = item("a", box=(179, 0, -179, 1))

    assert names(scene, item("b", box=(179, 0, -179, 1.01))) == ["b"]
    assert names(scene, item("b", box=(180, 0, -178, 1))) == ["a", "b"]


def test_what_was_dropped_is_told() -> None:
    """Each dropped scene comes with the one that counts."""
    old, new = item("a"), item("b")

    assert without_duplicates((old, new)).dropped == ((old, new),)
