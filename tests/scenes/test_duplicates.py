"""Scenes that were processed several times."""

from functools import partial
from typing import Any

import pytest

from pixel_gather.core.area import Box
from pixel_gather.core.scenes.acquisition import FROM_HEADERS
from pixel_gather.core.scenes.duplicates import without_duplicates
from scenes import scenes

item = partial(scenes.item, platform="sentinel-2a")
"""A scene of one satellite."""

DATATAKE = "GS2B_20220821T101739_028507"


def names(*items: dict[str, object]) -> list[object]:
    """Return the ids of the scenes that count."""
    return [each["id"] for each in without_duplicates(items).items]


def test_the_highest_version_counts() -> None:
    """5.10 is later than 5.9, whatever the alphabet says."""
    old = item("a", s2__mgrs_tile="33TWL", s2__processing_baseline="05.09", updated="2025-01-01")
    new = item("b", s2__mgrs_tile="33TWL", s2__processing_baseline="05.10", updated="2024-01-01")

    assert names(old, new) == names(new, old) == ["b"]


def test_the_latest_update_counts_where_versions_are_equal() -> None:
    """Or when it was written. The later time may have the smaller text."""
    for old, new in (
        ("2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"),
        ("20240101", "20240201"),
        ("2024-01-02T01:00:00Z", "2024-01-01T23:00:00-05:00"),
    ):
        assert names(item("b", updated=old), item("a", updated=new)) == ["a"], new


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


def test_the_baseline_is_no_part_of_the_datatake() -> None:
    """Sentinel-2's datatakes end in the version of the processing."""
    old, new = (
        item(
            name,
            s2__mgrs_tile="33UUB",
            s2__datatake_id=f"{DATATAKE}_N{version}",
            s2__processing_baseline=version,
        )
        for name, version in (("a", "04.00"), ("b", "05.10"))
    )

    assert names(old, new) == names(new, old) == ["b"]


@pytest.mark.parametrize(
    ("box", "time", "is_same"),
    [
        ((11, 46, 12, 46.5), "2024-06-01T10:20:30Z", False),
        ((11, 46.2, 12, 46.7), "2024-06-01T10:20:30Z", False),
        ((11, 46.4, 12, 47), "2024-06-01T10:20:44Z", False),
        ((11, 46.4, 12, 47), "2024-06-01T10:20:30.9Z", True),
    ],
    ids=["the other half", "with some overlap", "later", "the same half"],
)
def test_two_parts_of_one_pass_are_two_scenes(box: Box, time: str, *, is_same: bool) -> None:
    """A tile that two data strips of a datatake share comes as two items, which together cover it."""
    named: dict[str, Any] = {"s2__mgrs_tile": "33UUB", "s2__datatake_id": f"{DATATAKE}_N04.00"}
    one = item("a", box=(11, 46.5, 12, 47), **named)
    other = item("b", box=box, time=time, **named)

    assert len(names(one, other)) == 2 - is_same


def test_scenes_without_platform_and_acquisition_are_no_duplicates() -> None:
    """Four variables of a model share time and place, and so do the steps of a forecast."""
    world = (-180.0, -90.0, 180.0, 90.0)
    variables = [scenes.item(name, box=world, collection="era5") for name in ("t2m", "u10", "v10")]
    tiles = [scenes.item(name, grid__code="MGRS-33UUB") for name in "ab"]

    assert names(*variables, *tiles) == ["t2m", "u10", "v10", "a", "b"]


@pytest.mark.parametrize(
    "name",
    ["s5p__product_type", "sar__product_type", "s2__product_type", "processing__level", "forecast__horizon"],
)
def test_other_products_of_one_moment_are_other_scenes(name: str) -> None:
    """A platform may measure several things at once."""
    x: dict[str, Any] = {name: "x"}
    y: dict[str, Any] = {name: "y"}

    assert names(item("a", **x), item("b", **y)) == ["a", "b"]
    assert names(item("a", **x), item("b", **x)) == ["b"]


def test_a_second_on_the_clock_does_not_part_two_processings() -> None:
    """They may write times on both sides of it, and with or without a fraction."""
    assert names(item("a"), item("b", time="2024-06-01T10:20:30.024Z")) == ["b"]
    one = item("a", time="2024-06-01T10:20:29.99Z")

    assert names(one, item("b", time="2024-06-01T10:20:30.01Z")) == ["b"]
    assert names(one, item("b", time="2024-06-01T10:20:30.99Z")) == ["a", "b"]


def test_properties_can_be_named_by_which_scenes_are_one() -> None:
    """A provider may name its scenes in its own way. A scene that lacks one of them is by itself."""
    found = (
        scenes.item("a", x__scene="1", box=(0, 0, 1, 1), updated="2024-01-01"),
        scenes.item("b", x__scene="1", box=(5, 5, 6, 6), updated="2024-01-02"),
        scenes.item("c", x__scene="2"),
        item("d"),
        item("e"),
    )

    kept = without_duplicates(found, by=("x:scene", "datetime"))

    assert [each["id"] for each in kept.items] == ["b", "c", "d", "e"]
