"""The columns of a catalog, against looking at every scene by itself."""

from copy import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pixel_gather.core.area import Area, Box, unwrap_box
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.scenes.columns import (
    N_PER_BLOCK,
    BlockTable,
    Columns,
    Matches,
    block_nbytes,
    block_of_bytes,
    block_to_bytes,
    hilbert,
    matches_in,
    order_by_place,
    stack_columns,
)
from pixel_gather.core.scenes.item import SceneKey, scene_key
from pixel_gather.core.time_range import TimeRange, parse_time_range
from scenes.scenes import item


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Any box, also one that crosses the antimeridian or is a point."""
    west, east = draw(st.floats(-180, 180)), draw(st.floats(-180, 180))
    south, north = sorted((draw(st.floats(-90, 90)), draw(st.floats(-90, 90))))
    return (west, south, east, north)


def key(name: str, box: Box, **given_: object) -> SceneKey:
    """Return the key of a made-up scene."""
    return scene_key(item(name, box=box, **given_), name="item")  # type: ignore[arg-type] # a test's own


def found(keys: list[SceneKey], query: SceneQuery) -> set[int]:
    """Return the rows that the columns find."""
    collections: dict[str, int] = {}
    columns = stack_columns(keys, collections)
    return set(matches_in(columns, query, first_row=0, collections=tuple(collections)).row.tolist())


def matching(columns: Columns, query: SceneQuery, *, first_row: int = 0) -> Matches:
    """Return the matches in columns of one collection."""
    return matches_in(columns, query, first_row=first_row, collections=("sentinel-2-l2a",))


def meets(one: Box, other: Box) -> bool:
    """Tell by shapely whether two boxes meet, whichever turn they are written in."""
    a, b = shapely.box(*unwrap_box(one)), unwrap_box(other)
    return any(a.intersects(shapely.box(b[0] + turn, b[1], b[2] + turn, b[3])) for turn in (-360, 0, 360))


@pytest.mark.long
@given(st.lists(boxes(), min_size=1, max_size=20), boxes())
def test_no_scene_that_meets_the_area_is_missed(scenes: list[Box], area: Box) -> None:
    """Rounding to float32 may find a scene too many, never one too few."""
    keys = [key(f"s{n}", box) for n, box in enumerate(scenes)]

    rows = found(keys, SceneQuery(area=Area(area)))

    assert rows >= {n for n, box in enumerate(scenes) if meets(box, area)}


@pytest.mark.parametrize(
    ("scene", "area", "is_exact"),
    [
        ((0, 0, 2, 2), (1, 1, 3, 3), True),
        ((0, 0, 2, 2), (-1, -1, 1, 1), True),
        ((0.5, 0.5, 1, 1), (0, 0, 2, 2), True),
        ((0, 0, 1, 1), (1, 0, 2, 1), False),
        ((1, 0, 2, 1), (0, 0, 1, 1), False),
        ((0, 0, 1, 1), (0, 1, 1, 2), False),
        ((0, 1, 1, 2), (0, 0, 1, 1), False),
        ((0, 0, 1, 1), (0.99995, 0, 2, 1), False),
        ((1, 0, 2, 1), (0, 0, 1.00005, 1), False),
        ((0, 0, 1, 1), (0, 0.999995, 1, 2), False),
        ((0, 1, 1, 2), (0, 0, 1, 1.000005), False),
        ((170, 0, -170, 1), (-175, 0, -160, 1), True),
        ((-175, 0, -160, 1), (170, 0, -170, 1), True),
        ((170, 0, -170, 1), (160, 0, 175, 1), True),
    ],
)
def test_a_box_decides_where_it_meets_the_area_by_more_than_rounding(
    scene: Box, area: Box, *, is_exact: bool
) -> None:
    """Otherwise the footprint is looked at."""
    columns = stack_columns([replace(key("s", scene), is_box=True)], {})

    assert matching(columns, SceneQuery(area=Area(area))).is_exact.tolist() == [is_exact]


@pytest.mark.parametrize(
    ("area", "is_exact"),
    [
        ((0, 0, 3, 3), True),
        ((1, 1, 2, 2), True),
        ((1.5, 0, 3, 3), False),
        ((0, 1.5, 3, 3), False),
        ((0, 0, 1.5, 3), False),
        ((0, 0, 3, 1.5), False),
    ],
)
def test_a_footprint_that_is_not_its_box_is_looked_at_unless_all_of_the_box_is_wanted(
    area: Box, *, is_exact: bool
) -> None:
    """A triangle may miss an area that its box meets."""
    columns = stack_columns([replace(key("s", (1, 1, 2, 2)), is_box=False)], {})

    assert matching(columns, SceneQuery(area=Area(area))).is_exact.tolist() == [is_exact]


def test_more_collections_than_a_catalog_holds_are_refused() -> None:
    """The number of a collection takes two bytes."""
    there = {f"c{n}": n for n in range(2**16 - 2)}

    columns = stack_columns([key("s", (0, 0, 1, 1), collection="last")], there)

    assert columns["collection"].tolist() == [2**16 - 2]
    with pytest.raises(ValueError, match="more than 65,535 collections"):
        stack_columns([key("s", (0, 0, 1, 1), collection="one more")], there)


@pytest.mark.parametrize(
    ("times", "asked", "is_found"),
    [
        (("1850-01-01T00:00:00Z", "2014-12-31T00:00:00Z"), "2010", True),
        (("1850-01-01T00:00:00Z", "2014-12-31T00:00:00Z"), "2015/..", False),
        (("0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z"), "2024-06", True),
        (("2020-01-01T00:00:00Z", None), "2024-06", True),
        (("2020-01-01T00:00:00Z", None), "2019", False),
        (("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000001Z"), "2020-01-01T00:00:00.000002Z/..", False),
    ],
)
def test_a_scene_is_found_in_all_of_its_time(
    times: tuple[str, str | None], asked: str, *, is_found: bool
) -> None:
    """A model's run may take centuries. A scene without an end goes on."""
    scene = key("s", (0, 0, 1, 1), time=None, start_datetime=times[0], end_datetime=times[1])
    query = SceneQuery(times=parse_time_range(asked))

    assert (found([scene], query) == {0}) is is_found
    assert (len(BlockTable.of(stack_columns([scene], {})).find_blocks(query)) == 1) is is_found


@given(boxes(), st.sampled_from(["west", "south", "east", "north"]))
def test_no_scene_is_missed_that_only_touches_the_area(scene: Box, side: str) -> None:
    """An edge that float32 cannot hold is kept further out."""
    west, south, east, north = scene
    area = {
        "west": (west - 1, south, west, north),
        "south": (west, south - 1, east, south),
        "east": (east, south, east + 1, north),
        "north": (west, north, east, north + 1),
    }[side]
    assume(area[0] >= -180 and area[2] <= 180 and area[1] >= -90 and area[3] <= 90)

    assert found([key("s", scene)], SceneQuery(area=Area(area))) == {0}


def test_rows_are_counted_from_the_first_one_of_the_block() -> None:
    """They are rows of the whole catalog."""
    keys = [key(f"s{n}", (n, 0, n + 0.5, 1)) for n in range(4)]
    columns = stack_columns(keys, {})

    matches = matching(columns, SceneQuery(area=Area((2, 0, 4, 1))), first_row=512)

    assert matches.row.tolist() == [514, 515]


@pytest.mark.long
@given(st.lists(boxes(), min_size=1, max_size=20), boxes())
def test_a_box_that_decides_is_never_wrong(scenes: list[Box], area: Box) -> None:
    """Where the footprint is not looked at, the scene does meet the area."""
    keys = [key(f"s{n}", box) for n, box in enumerate(scenes)]
    columns = stack_columns(keys, {})

    matches = matching(columns, SceneQuery(area=Area(area)))

    for row, is_exact in zip(matches.row.tolist(), matches.is_exact.tolist(), strict=True):
        assert not is_exact or meets(scenes[row], area)


def test_times_clouds_collections_and_ids_are_looked_at() -> None:
    """Each narrows the search by itself."""
    keys = [
        key("a", (0, 0, 1, 1), time="2023-01-01", eo__cloud_cover=10),
        key("b", (0, 0, 1, 1), time="2024-01-01", eo__cloud_cover=90),
        key("c", (0, 0, 1, 1), time="2024-01-01", collection="landsat"),
    ]

    assert found(keys, SceneQuery(times=parse_time_range("2024"))) == {1, 2}
    assert found(keys, SceneQuery(where=parse_where("eo:cloud_cover<50"))) == {0}
    assert found(keys, SceneQuery(where=parse_where("eo:cloud_cover<=90"))) == {0, 1}
    assert found(keys, SceneQuery(collections=frozenset({"landsat"}))) == {2}
    by_id = SceneQuery(ids=frozenset({"b"}), known_collections=("sentinel-2-l2a", "landsat"))
    assert found(keys, by_id) == {1}


def test_a_period_meets_a_time_within_it() -> None:
    """A scene with a beginning and an end is found at any time between."""
    period = item(time=None, start_datetime="2024-01-01T00:00:00Z", end_datetime="2024-12-31T23:59:59Z")
    keys = [scene_key(period, name="item")]

    assert found(keys, SceneQuery(times=parse_time_range("2024-06-15"))) == {0}
    assert found(keys, SceneQuery(times=parse_time_range("2025-06-15"))) == set()
    assert found(keys, SceneQuery(times=parse_time_range("2024-12-31T23:59:59Z/.."))) == {0}
    assert found(keys, SceneQuery(times=parse_time_range("2025-01-01T00:00:00Z/.."))) == set()
    assert found(keys, SceneQuery(times=parse_time_range("../2024-01-01T00:00:00Z"))) == {0}
    assert found(keys, SceneQuery(times=parse_time_range("../2023-12-31T23:59:59Z"))) == set()


def test_pages_begin_behind_a_position() -> None:
    """What a page ended with is not in the next one; what has the same time and a later hash is."""
    keys = [key(f"s{n}", (0, 0, 1, 1)) for n in range(20)]
    columns = stack_columns(keys, {})
    matches = matching(columns, SceneQuery())
    ordered = [position for _, position, _ in matches.newest_first()]

    after = matching(columns, SceneQuery(after=ordered[7]))

    assert [position for _, position, _ in after.newest_first()] == ordered[8:]


def test_newest_first_is_the_same_for_few_and_for_many() -> None:
    """More scenes than are sorted at a time come in the same order."""
    random = np.random.default_rng(1)
    n = 25_000
    start_us, hashes = random.integers(0, 50, n), random.integers(0, 2**63, n).astype(np.uint64)
    matches = Matches(np.arange(n), start_us, hashes, np.ones(n, bool), np.zeros(n, np.uint32))

    rows = [row for row, _, _ in matches.newest_first()]

    assert rows == np.lexsort((hashes, -start_us)).tolist()


def test_no_part_and_parts_are_joined() -> None:
    """Their rows come newest first, whichever block they are of. No block has no row."""
    keys = [
        replace(key(f"s{n}", (0, 0, 1, 1)), start_us=time, stop_us=time) for n, time in enumerate((3, 1, 2))
    ]
    columns = stack_columns(keys, {})
    parts = [
        matching({name: values[n : n + 1] for name, values in columns.items()}, SceneQuery(), first_row=n)
        for n in range(3)
    ]

    assert [row for row, _, _ in Matches.joined(parts).newest_first()] == [0, 2, 1]
    assert list(Matches.joined([]).newest_first()) == []
    assert Matches.joined([]).row.dtype == Matches.joined(parts).row.dtype


def test_blocks_come_back_from_a_file() -> None:
    """A block's bytes are its columns."""
    columns = stack_columns([key(f"s{n}", (n, 0, n + 1, 1)) for n in range(10)], {})

    content = block_to_bytes(columns, 2, 7)
    block = block_of_bytes(content, 5)

    assert len(content) == block_nbytes(5) == 240
    assert {name: values.tolist() for name, values in block.items()} == {
        name: values[2:7].tolist() for name, values in columns.items()
    }


@cache
def blocks() -> Columns:
    """Three blocks of random boxes, as a catalog sorts them."""
    random = np.random.default_rng(2)
    west, south = random.uniform(-180, 179, 3 * N_PER_BLOCK), random.uniform(-90, 89, 3 * N_PER_BLOCK)
    keys = [
        SceneKey(
            id=f"s{n}",
            collection="",
            box=(float(x), float(y), float(x) + 1, float(y) + 1),
            is_box=True,
            start_us=n,
            stop_us=n,
            cloud_percent=n % 101,
        )
        for n, (x, y) in enumerate(zip(west, south, strict=True))
    ]
    columns = stack_columns(keys, {})
    return {name: values[order_by_place(columns)] for name, values in columns.items()}


@pytest.mark.slow
@settings(max_examples=25)
@given(boxes())
def test_skipped_blocks_hold_nothing_that_is_wanted(area: Box) -> None:
    """The table of blocks leaves out only what holds no match."""
    columns = blocks()
    query = SceneQuery(area=Area(area), where=parse_where("eo:cloud_cover<30"))

    kept = set(BlockTable.of(columns).find_blocks(query).tolist())

    for number in {0, 1, 2} - kept:
        start = number * N_PER_BLOCK
        block = {name: values[start : start + N_PER_BLOCK] for name, values in columns.items()}
        assert not len(matches_in(block, query, first_row=0, collections=("",)).row)


def test_scenes_of_one_cell_lie_together_in_the_order_of_time() -> None:
    """Cells are 256 x 256 of the Earth. The poles and the antimeridian lie in the cells beside them."""
    width, height, inset = 360 / 256, 180 / 256, 0.01
    numbers = (0, 1, 100, 127, 128, 254, 255)
    places = [
        ((col, row), -180 + (col + across) * width, -90 + (row + up) * height)
        for col in numbers
        for row in numbers
        for across in (inset, 1 - inset)
        for up in (inset, 1 - inset)
    ]
    places += [((0, 0), -180, -90), ((0, 255), 180, 90), ((255, 255), 179.999, 90)]
    places += [((0, 0), 180, -89.999)]
    times = np.random.default_rng(3).permutation(len(places)) // 2
    keys = [
        SceneKey(
            id=f"s{n}",
            collection="",
            box=(x - 0.001, y - 0.001, x + 0.001, y + 0.001),
            is_box=True,
            start_us=int(time),
            stop_us=int(time),
            cloud_percent=0,
        )
        for n, ((_, x, y), time) in enumerate(zip(places, times, strict=True))
    ]

    order = order_by_place(stack_columns(keys, {})).tolist()

    cells = [places[n][0] for n in order]
    changes = [cell for before, cell in pairwise([None, *cells]) if cell != before]
    assert len(changes) == len(numbers) ** 2
    for before, after in pairwise(order):
        if places[before][0] == places[after][0]:
            assert (keys[before].start_us, keys[before].hash) < (keys[after].start_us, keys[after].hash)


def few_blocks() -> Columns:
    """Two full blocks and a block of one scene, of other places, times and clouds."""
    keys = [
        SceneKey(
            id=f"s{n}",
            collection="",
            box=(10.0 * block, 0.0, 10.0 * block + 1, 1.0),
            is_box=True,
            start_us=1_000_000 * block,
            stop_us=1_000_000 * block + 500_000,
            cloud_percent=10 * block,
        )
        for n, block in enumerate(np.repeat((0, 1, 2), (N_PER_BLOCK, N_PER_BLOCK, 1)).tolist())
    ]
    return stack_columns(keys, {})


@pytest.mark.long
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (SceneQuery(), [0, 1, 2]),
        (SceneQuery(area=Area((10, 0, 11, 1))), [1]),
        (SceneQuery(area=Area((1, 0, 10, 1))), [0, 1]),
        (SceneQuery(area=Area((0, 2, 30, 3))), []),
        (SceneQuery(where=parse_where("eo:cloud_cover<=10")), [0, 1]),
        (SceneQuery(where=parse_where("eo:cloud_cover<=9")), [0]),
        (SceneQuery(where=parse_where("eo:cloud_cover<=1e144")), [0, 1, 2]),
        (SceneQuery(times=TimeRange(start_us=0, stop_us=1_000_000)), [0, 1]),
        (SceneQuery(times=TimeRange(start_us=1_500_000, stop_us=3_000_000)), [1, 2]),
        (SceneQuery(times=TimeRange(start_us=1_500_001, stop_us=3_000_000)), [2]),
        (SceneQuery(after=Position(start_us=1_000_000, hash=0)), [0, 1]),
    ],
)
def test_blocks_are_skipped_by_place_time_cloud_and_page(query: SceneQuery, numbers: list[int]) -> None:
    """A catalog in memory and one in a file skip the same."""
    table = BlockTable.of(few_blocks())

    assert table.find_blocks(query).tolist() == numbers
    read = BlockTable.of_bytes(table.to_bytes(), 3)
    assert len(table.to_bytes()) == BlockTable.nbytes(3)
    assert read.find_blocks(query).tolist() == numbers


def test_hilbert_visits_every_cell_once_and_never_jumps() -> None:
    """Neighbours along the curve are neighbours on the grid."""
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    distance = hilbert(x.ravel(), y.ravel(), 5)
    order = np.argsort(distance)

    assert sorted(distance.tolist()) == list(range(1024))
    steps = np.abs(np.diff(x.ravel()[order])) + np.abs(np.diff(y.ravel()[order]))
    assert (steps == 1).all()


def test_tokens_come_back() -> None:
    """A page token is a position."""
    position = Position(start_us=-5, hash=2**64 - 1)

    assert Position.of_token(position.to_token()) == position


@pytest.mark.parametrize("token", ["", "x", "A" * 23, "ä"])
def test_made_up_tokens_are_refused(token: str) -> None:
    """A token that no answer had is the caller's mistake."""
    with pytest.raises(ValueError, match="no answer had this token"):
        Position.of_token(token)
