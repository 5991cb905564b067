"""A shard's pixels equal those of NumPy, and each failure stays in its own row."""

import asyncio
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.outcome import Lookup, Outcome
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask, cut_tasks, row_ranges
from pixel_gather.core.read.read_shard import ignore, read_shard
from pixel_gather.core.read.shard_buffers import Buffer, Pixels, ShardBuffers
from pixel_gather.core.read.stored_tiles import StoredTiles
from pixel_gather.features.virtual.referred_tiles import ReferredTiles
from support.fakes import (
    CODING,
    UTM,
    FakeImage,
    FakeLimiter,
    FakeOpened,
    FakeProjector,
    FakeReader,
    FakeTable,
    access_to,
    header_of,
    packed_header_of,
    table_of,
)
from support.plans import planned
from support.strategies import COMPLEXES, FLOATS, INTEGERS, images, layouts, windows_touching

A = np.arange(2 * 50 * 40, dtype="uint16").reshape(2, 50, 40) + 1
WINDOW = {"pixels": [3, 4, 6, 5]}


def tasks_of(plan: CubePlan) -> tuple[ShardTask, ...]:
    """Return the tasks of a plan. Their ranges of the list are arbitrary."""
    return cut_tasks(plan, [0 for _ in row_ranges(plan)])


def read(
    plan: CubePlan,
    table: FakeTable,
    reader: FakeReader,
    *,
    task: ShardTask | None = None,
    left_s: float = inf,
    packed_headers: Sequence[Sequence[bytes | None]] = (),
    **access: Any,
) -> tuple[list[Pixels], list[list[Outcome]]]:
    """Read one task into buffers that hold arbitrary values before, with ``access`` as of `access_to`."""
    task = task or tasks_of(plan)[0]
    with ShardBuffers(plan).borrow(task) as lent:
        buffers = [buffer for buffer in lent if isinstance(buffer, np.ndarray)]
        for buffer in buffers:
            buffer.view("u1")[...] = 0xAB
    seen: dict[tuple[int, int], Outcome] = {}

    def note(row: int, slot: int, outcome: Outcome) -> None:
        assert (row, slot) not in seen
        seen[row, slot] = outcome

    async def reading() -> list[list[Outcome]]:
        return await read_shard(
            list(table.rows(task.row_start, task.row_stop)),
            buffers,
            plan=plan,
            task=task,
            sources=access_to(reader, **{"timeout_s": 5.0} | access),
            on_source=note,
            packed_headers=packed_headers,
            read_until=asyncio.get_running_loop().time() + left_s,
        )

    outcomes = asyncio.run(reading())
    told = {
        (row, slot): id(outcome)
        for row, of_row in enumerate(outcomes, start=task.row_start)
        for slot, outcome in enumerate(of_row)
    }
    assert {place: id(outcome) for place, outcome in seen.items()} == told
    return buffers, outcomes


def test_shard_buffers_lend_the_same_memory_again() -> None:
    """A smaller task borrows a part of the memory. Two concurrent tasks have separate memory."""
    reader, table = FakeReader(dict.fromkeys("abc", A)), table_of("a", "b", "c")
    plan = planned(reader, table)
    plan = replace(plan, layout=replace(plan.layout, shard=(2, *plan.layout.shard[1:])))
    first, second = tasks_of(plan)
    buffers = ShardBuffers(plan)

    with buffers.borrow(first) as (one,), buffers.borrow(first) as (other,):
        assert not np.shares_memory(one, other)
    with buffers.borrow(second) as (again,):
        assert isinstance(one, np.ndarray)
        assert isinstance(other, np.ndarray)
        assert isinstance(again, np.ndarray)
        assert np.shares_memory(again, one) or np.shares_memory(again, other)
        assert again.shape[:2] == (one.shape[0], 1)


def test_read_shard_tells_each_source_the_plans_parts() -> None:
    """Each source is read in the parts that the plan decided on."""
    reader, table = FakeReader(dict.fromkeys("ab", A)), table_of("a", "b")
    plan = planned(reader, table)

    for part_nbytes in (None, 1000):
        read(replace(plan, part_nbytes=part_nbytes), table, reader)

    assert reader.part_nbytes == [None, None, 1000, 1000]


def sliced(image: Pixels, window: Window, fill: Any) -> Pixels:
    """Return a window of an image by NumPy alone, with fill outside of the image."""
    n_bands, height, width = image.shape
    rows = np.arange(window.row_off, window.row_stop)
    cols = np.arange(window.col_off, window.col_stop)
    found = image[:, np.clip(rows, 0, height - 1)][:, :, np.clip(cols, 0, width - 1)]
    outside = ((rows < 0) | (rows >= height))[:, None] | ((cols < 0) | (cols >= width))
    found[:, outside] = fill
    assert found.shape[0] == n_bands
    return found


@pytest.mark.long
@settings(max_examples=150)
@given(data=st.data(), dtype=st.sampled_from(INTEGERS + FLOATS + COMPLEXES), declares_nodata=st.booleans())
def test_read_then_assemble_is_numpy_slicing(
    data: st.DataObject, dtype: str, *, declares_nodata: bool
) -> None:
    """This holds for any window, overhang, choice of bands, nodata and strips."""
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 12)), label="shape")
    first, second = data.draw(images(shape, (dtype,))), data.draw(images(shape, (dtype,)))
    window = data.draw(windows_touching(shape[2], shape[1]), label="window")
    bands = data.draw(st.lists(st.integers(1, shape[0]), min_size=1, unique=True), label="bands")
    nodata = 7 if declares_nodata else None
    reader = FakeReader(
        {
            href: FakeImage(pixels=pixels, header={"nodata": nodata})
            for href, pixels in (("a", first), ("b", second))
        }
    )
    table = table_of("a", "b")
    pixels = [window.col_off, window.row_off, window.width, window.height]
    plan = planned(reader, table, window={"pixels": pixels}, bands=bands)
    plan = replace(plan, layout=data.draw(layouts(plan.shape), label="layout"))

    cube = np.empty((len(bands), *plan.shape), dtype=dtype)
    for task in tasks_of(plan):
        (buffer,), outcomes = read(plan, table, reader, task=task)
        assert {each.status for (each,) in outcomes} == {Status.OK}
        cube[:, task.row_start : task.row_stop, task.y_start : task.y_stop] = buffer

    fill = plan.measurements[0].fill_value
    for row, image in enumerate((first, second)):
        expected = sliced(image[[band - 1 for band in bands]], window, fill)
        assert cube[:, row].tobytes() == expected.tobytes()


def test_read_shard_keeps_the_other_rows_when_one_source_fails() -> None:
    """One bad COG costs only its row, which is filled with nodata."""
    sound = FakeImage(pixels=A, header={"nodata": 9})
    reader = FakeReader({"a": sound, "c": sound})
    table = table_of("a", "b", "c")
    plan = planned(reader, table, window=WINDOW)

    (buffer,), outcomes = read(plan, table, reader)

    assert [row[0].status for row in outcomes] == [Status.OK, Status.MISSING, Status.OK]
    assert outcomes[1][0].reason == "no such object"
    assert (buffer[:, 1] == 9).all()
    for row in (0, 2):
        np.testing.assert_array_equal(buffer[:, row], A[:, 4:9, 3:9])


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("uint8", 0), ("int32", 0), ("float32", np.nan), ("float64", np.nan), ("complex64", np.nan)],
)
def test_read_shard_fills_failed_rows_with_what_is_no_pixel(dtype: str, fill: float) -> None:
    """Without nodata, a failed row is NaN, or 0 for integers."""
    reader = FakeReader({"a": A.astype(dtype)})
    table = table_of("a", "b")
    plan = planned(reader, table, window=WINDOW)

    (buffer,), _ = read(plan, table, reader)

    np.testing.assert_array_equal(buffer[:, 1], np.full((2, 5, 6), fill, dtype))


@pytest.mark.parametrize(("dtype", "fill"), [("uint16", 0), ("float32", np.nan)])
def test_read_shard_fills_what_overhangs_with_what_is_no_pixel(dtype: str, fill: float) -> None:
    """Pixels outside a source hold its nodata, or the cube's, or NaN, or 0."""
    reader = FakeReader({"a": FakeImage(pixels=A.astype(dtype), header={"nodata": 9}), "b": A.astype(dtype)})
    table = table_of("a", "a", "b")
    with_nodata = planned(reader, table, window={"pixels": [-2, 0, 4, 3]})
    without = planned(reader, table_of("b"), window={"pixels": [-2, 0, 4, 3]})

    (first,), _ = read(with_nodata, table, reader)
    (second,), _ = read(without, table_of("b"), reader)

    assert (first[..., :2] == 9).all()
    np.testing.assert_array_equal(second[..., :2], np.full((2, 1, 3, 2), fill, dtype))
    np.testing.assert_array_equal(second[:, 0, :, 2:], A[:, :3, :2])


def failing(status: Status) -> SourceError:
    """Return the error that a reader raises."""
    return SourceError("because", href="s3://b/x", status=status)


@dataclass(frozen=True)
class Case:
    """A source that fails, and its status in the cube."""

    id: str
    image: FakeImage
    expected: Status


def like(**header: Any) -> FakeImage:
    """Return an image as `A` with another header."""
    return FakeImage(pixels=A, header=header)


CASES = [
    *(
        Case(f"open {status.name}", FakeImage(pixels=A, open_error=failing(status)), status)
        for status in Status
        if status.is_failure
    ),
    *(
        Case(f"read {status.name}", FakeImage(pixels=A, read_error=failing(status)), status)
        for status in Status
        if status.is_failure
    ),
    Case("other dtype", FakeImage(pixels=A.astype("int16")), Status.UNLIKE),
    Case("fewer bands", FakeImage(pixels=A[:1]), Status.UNLIKE),
    Case("other tiles elsewhere", like(tile_width=8, transform=UTM.shifted(1, 0)), Status.UNLIKE),
    Case("elsewhere", like(transform=UTM.shifted(999, 0)), Status.OUTSIDE),
    Case("unplaced", like(transform=None, crs=None), Status.UNSUPPORTED),
    Case("unknown CRS", like(crs="LOCAL"), Status.UNSUPPORTED),
    Case("slow", FakeImage(pixels=A, delay_s=3.0), Status.TIMED_OUT),
    Case("time-out of the reader's own", FakeImage(pixels=A, read_error=TimeoutError()), Status.TIMED_OUT),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_read_shard_gives_each_failure_its_code(case: Case) -> None:
    """Every failure of a reader or of a header gets its status and a reason."""
    reader = FakeReader({"a": A, "x": case.image})
    table = table_of("a", "x")
    window: Any = {"point": [500_055, 4_599_945], "crs": "EPSG:3857"}
    if case.id == "other tiles elsewhere":
        window = "centre"
    plan = planned(FakeReader({"a": A}), table_of("a", "a"), window=window)
    projector = FakeProjector(unknown=frozenset({"LOCAL"}))

    _, outcomes = read(plan, table, reader, timeout_s=0.1, projector=projector)

    assert outcomes[0][0].status is Status.OK
    assert outcomes[1][0].status is case.expected
    assert outcomes[1][0].reason


TOO_LATE: Final = "not read before the worker's time was up"


def test_read_shard_gives_up_at_its_end_what_has_not_been_read() -> None:
    """At the shard's time limit a slow source times out, and the others are read."""
    reader = FakeReader({"a": A, "slow": FakeImage(pixels=A, delay_s=60)})
    table = table_of("a", "slow")
    plan = planned(FakeReader({"a": A}), table_of("a", "a"), window=WINDOW)

    (buffer,), outcomes = read(plan, table, reader, left_s=0.1)

    assert [row[0].status for row in outcomes] == [Status.OK, Status.TIMED_OUT]
    assert outcomes[1][0].reason == TOO_LATE
    np.testing.assert_array_equal(buffer[:, 0], A[:, 4:9, 3:9])


def test_read_shard_asks_for_no_source_after_its_end() -> None:
    """No request is sent after the shard's time limit."""
    reader = FakeReader({"a": A})
    table = table_of("a", "a")
    plan = planned(reader, table, window=WINDOW)
    reader.opened.clear()

    _, outcomes = read(plan, table, reader, left_s=0)

    assert [(row[0].status, row[0].reason) for row in outcomes] == [(Status.TIMED_OUT, TOO_LATE)] * 2
    assert reader.opened == []


def test_read_shard_tells_a_sources_time_out_from_the_end() -> None:
    """The reason of a slow source says how long it was given."""
    reader = FakeReader({"slow": FakeImage(pixels=A, delay_s=60)})
    plan = planned(FakeReader({"a": A}), table_of("a"), window=WINDOW)

    _, outcomes = read(plan, table_of("slow"), reader, timeout_s=0.1, left_s=60)

    assert (outcomes[0][0].status, outcomes[0][0].reason) == (Status.TIMED_OUT, "not read within 0.1 s")


def test_read_shard_calls_another_grid_unlike_only_where_one_grid_is_wanted() -> None:
    """A grid that is off by half a pixel fails if the request wants one grid.

    Otherwise the row is not aligned.
    """
    reader = FakeReader({"a": A, "b": FakeImage(pixels=A, header={"transform": UTM._replace(c=UTM.c + 5)})})
    table = table_of("a", "b")
    strict = planned(reader, table, window=WINDOW, grid="same")
    loose = planned(reader, table, window=WINDOW)

    _, of_strict = read(strict, table, reader)
    _, of_loose = read(loose, table, reader)

    assert [row[0].status for row in of_strict] == [Status.OK, Status.UNLIKE]
    assert [row[0].status for row in of_loose] == [Status.OK, Status.OK]
    assert [row[0].is_aligned for row in of_loose] == [True, False]


def test_read_shard_records_where_each_window_lies() -> None:
    """Each row keeps its own transform, CRS, ETag and extent."""
    reader = FakeReader({"a": FakeImage(pixels=A, etags=['"7"'])})
    plan = planned(reader, table_of("a"), window={"pixels": [-2, 45, 6, 9]})

    _, ((outcome,),) = read(plan, table_of("a"), reader)

    assert outcome.transform == UTM.shifted(-2, 45)
    assert (outcome.crs, outcome.etag) == ("EPSG:32631", '"7"')
    assert outcome.extent == (2, 0, 6, 5)


def test_read_shard_adds_up_what_each_source_cost() -> None:
    """Each source's requests, bytes and times are recorded, also if it failed."""
    reader = FakeReader({"a": A, "b": FakeImage(pixels=A, read_error=failing(Status.CORRUPT))})
    table = table_of("a", "b")
    plan = planned(reader, table, window=WINDOW)

    _, ((first,), (second,)) = read(plan, table, reader)

    assert (first.cost.requests, first.cost.nbytes, first.cost.header_nbytes) == (2, 512 + 2 * 6 * 5 * 2, 512)
    assert (first.cost.open_s, first.cost.read_s, first.cost.decode_s) == (0.25, 0.5, 0.125)
    assert (second.cost.requests, second.cost.open_s) == (1, 0.25)


def test_read_shard_reads_no_more_sources_at_a_time_than_there_are_permits() -> None:
    """The limiter's permits cover opening and reading together."""
    names = [f"s3://b/{n}" for n in range(20)]
    reader = FakeReader({name: FakeImage(pixels=A, delay_s=0.001) for name in names})
    plan = planned(reader, table_of(*names), window=WINDOW)
    reader.most_in_flight = 0
    limiter = FakeLimiter(3)

    read(plan, table_of(*names), reader, limiter=limiter)

    assert reader.most_in_flight == 3
    assert limiter.most_held == 3
    assert limiter.asked == [(name, 1) for name in names]


def test_read_shard_weighs_a_source_by_its_rows_of_tiles() -> None:
    """The weight of a source is its rows of tiles, because neighbours in a row are one request."""
    image = FakeImage(pixels=np.zeros((1, 100, 40), "uint8"), header={"tile_width": 16, "tile_height": 16})
    reader, table, limiter = FakeReader({"a": image}), table_of("a"), FakeLimiter()

    read(planned(reader, table, window={"pixels": [0, 10, 40, 40]}), table, reader, limiter=limiter)

    assert limiter.asked == [("a", 4)]

    limiter.asked.clear()
    for height in (16, 17):
        read(planned(reader, table, window={"pixels": [0, 16, 40, height]}), table, reader, limiter=limiter)

    assert limiter.asked == [("a", 1), ("a", 2)]


def test_read_shard_says_which_sources_were_read() -> None:
    """Only sources that were read are reported. Others are answered too fast to be a measure."""
    images: dict[str, Any] = {
        "a": A,
        "missing": FakeImage(pixels=A, open_error=failing(Status.MISSING)),
        "corrupt": FakeImage(pixels=A, read_error=failing(Status.CORRUPT)),
        "unlike": A.astype("float32"),
        "b": A,
    }
    table, limiter = table_of(*images), FakeLimiter()
    plan = planned(FakeReader({"a": A}), table_of(*"aaaaa"), window=WINDOW)

    read(plan, table, FakeReader(images), limiter=limiter)

    assert sorted(limiter.read) == [("a", 2), ("b", 2)]


def test_read_shard_masks_pixels_only_where_that_is_asked_for() -> None:
    """Hidden pixels are nodata if the request has ``masked``. Otherwise they are as stored."""
    hidden = np.zeros((50, 40), dtype=bool)
    hidden[5] = True
    reader = FakeReader({"a": FakeImage(pixels=A, hidden=hidden)})
    table = table_of("a")

    (raw,), _ = read(planned(reader, table, window=WINDOW), table, reader)
    (masked,), _ = read(planned(reader, table, window=WINDOW, masked=True, nodata=65_535), table, reader)

    np.testing.assert_array_equal(raw[:, 0], A[:, 4:9, 3:9])
    assert (masked[:, 0, 1] == 65_535).all()
    np.testing.assert_array_equal(np.delete(masked, 1, axis=2), np.delete(raw, 1, axis=2))


def test_read_shard_records_absent_sources_without_reading() -> None:
    """A scene that lacks one band keeps its other bands."""
    rows = (
        CubeRow(time_us=None, sources=(Source(href="a", band="red"), Source(href="a", band="nir"))),
        CubeRow(time_us=None, sources=(None, Source(href="a", band="nir"))),
    )
    table = FakeTable(rows, bands=("red", "nir"))
    reader = FakeReader({"a": A})
    plan = planned(reader, table, window=WINDOW, nodata=65_535)
    reader.opened.clear()

    (red, nir), outcomes = read(plan, table, reader)

    assert [[each.status for each in row] for row in outcomes] == [
        [Status.OK, Status.OK],
        [Status.ABSENT, Status.OK],
    ]
    assert (red[:, 1] == 65_535).all()
    np.testing.assert_array_equal(nir[:, 1], nir[:, 0])
    assert len(reader.opened) == 3


def test_read_shard_stops_at_a_fault_of_our_own() -> None:
    """An unexpected exception fails the shard and is not a row's status."""
    reader = FakeReader(
        {"a": FakeImage(pixels=A, delay_s=2), "b": FakeImage(pixels=A, read_error=KeyError("bug"))}
    )
    table = table_of("a", "b")
    plan = planned(reader, table, window=WINDOW)

    with pytest.raises(KeyError):
        read(plan, table, reader)


def test_shard_buffers_are_no_larger_than_the_cube() -> None:
    """A shard may have room for more rows and lines than there are. No memory is taken for them."""
    reader, table = FakeReader(dict.fromkeys("ab", A)), table_of("a", "b")
    plan = planned(reader, table, window=WINDOW)
    plan = replace(plan, layout=replace(plan.layout, shard=(64, 64, 6)))
    task = replace(tasks_of(plan)[0], row_stop=1)

    with ShardBuffers(plan).borrow(task) as (lent,):
        assert isinstance(lent, np.ndarray)
        assert lent.shape == (2, 1, 5, 6)
        assert lent.base is not None
        assert lent.base.shape == (2, 2, 5, 6)


def test_read_shard_records_when_and_with_what_nodata_and_scaling_each_source_was_read() -> None:
    """Nodata is the source's own, or else the request's. Scaling is recorded if it is not the cube's."""
    scaled = FakeImage(pixels=A, header={"nodata": 3, "scales": (2.0, 1.0)})
    reader, table = FakeReader({"a": A, "b": scaled}), table_of("a", "b")
    plan = planned(FakeReader({"a": A}), table_of("a", "a"), window=WINDOW, nodata=9)

    _, ((first,), (second,)) = read(plan, table, reader)

    assert (first.nodata, first.scaling) == (9, None)
    assert (second.nodata, second.scaling) == (3, ((2.0, 0.0), (1.0, 0.0)))
    assert 0 < first.start_s <= first.end_s < first.start_s + 60


def test_read_shard_masks_with_the_cubes_nodata_where_a_source_declares_none() -> None:
    """What is hidden then holds a value that is not valid."""
    hidden = np.zeros((50, 40), dtype=bool)
    hidden[5] = True
    declares = FakeImage(pixels=A, header={"nodata": 9})
    reader = FakeReader({"a": declares, "b": declares, "c": FakeImage(pixels=A, hidden=hidden)})
    table = table_of("a", "b", "c")
    plan = planned(reader, table, window=WINDOW, masked=True)

    (buffer,), outcomes = read(plan, table, reader)

    assert (buffer[:, 2, 1] == 9).all()
    assert outcomes[2][0].nodata == 9


def test_read_shard_leaves_a_strip_beside_its_source_empty() -> None:
    """The source has the first lines of the window alone. The second strip has no pixel of it."""
    reader, table = FakeReader({"a": A}), table_of("a")
    plan = planned(reader, table, window={"pixels": [0, 40, 8, 20]})
    plan = replace(plan, layout=replace(plan.layout, chunk=(1, 10, 8), shard=(1, 10, 8)))

    found = [read(plan, table, reader, task=task) for task in tasks_of(plan)]

    assert [(of_row.status, of_row.extent) for _, ((of_row,),) in found] == [
        (Status.OK, (0, 0, 8, 10)),
        (Status.OK, (0, 0, 0, 0)),
    ]
    assert (found[1][0][0] == 0).all()


def known(image: Pixels | FakeImage, href: str = "a") -> tuple[dict[bytes, dict[str, Any]], bytes]:
    """Return what a reader remembers of an image that was opened before, and under which name."""
    reader = FakeReader({href: image})

    async def opening() -> bytes | None:
        return (await reader.open_(href, overview=None, cost=Cost())).packed_header

    name = asyncio.run(opening())
    assert name is not None
    return reader.entries, name


def test_read_shard_opens_no_source_whose_header_the_index_has() -> None:
    """The pixels are read at once. The entry stays good for the next time."""
    entries, name = known(A)
    reader, table = FakeReader({"a": A}, entries=entries), table_of("a")
    plan = planned(reader, table, window=WINDOW)
    reader.opened.clear()

    (buffer,), ((outcome,),) = read(plan, table, reader, packed_headers=[[name]])

    assert reader.opened == []
    assert (outcome.lookup, outcome.packed_header) == (Lookup.USED, name)
    assert outcome.extent == (0, 0, 6, 5)
    np.testing.assert_array_equal(buffer[:, 0], A[:, 4:9, 3:9])


def test_read_shard_has_no_lookup_where_the_index_has_no_entry() -> None:
    """The header that was read is kept for an index."""
    reader, table = FakeReader({"a": A}), table_of("a")

    _, ((outcome,),) = read(planned(reader, table, window=WINDOW), table, reader, packed_headers=[[None]])

    assert (outcome.lookup, outcome.packed_header) == (Lookup.NONE, packed_header_of(header_of(A, "a")))


def test_read_shard_reads_a_source_anew_that_was_replaced_since_its_header_was_indexed() -> None:
    """No property of the earlier version remains."""
    entries, name = known(FakeImage(pixels=A, header={"nodata": 9}))
    now = FakeImage(pixels=A + 1, header={"etag": '"2"'})
    reader, table = FakeReader({"a": now}, entries=entries), table_of("a")
    plan = planned(reader, table, window=WINDOW)

    (buffer,), ((outcome,),) = read(plan, table, reader, packed_headers=[[name]])

    assert (outcome.status, outcome.lookup) == (Status.OK, Lookup.STALE)
    assert outcome.packed_header == packed_header_of(now.header_at("a"))
    assert (outcome.etag, outcome.nodata) == ('"2"', None)
    np.testing.assert_array_equal(buffer[:, 0], A[:, 4:9, 3:9] + 1)


@pytest.mark.parametrize("is_broken", [False, True])
def test_read_shard_reads_the_header_where_the_entry_is_unfit(*, is_broken: bool) -> None:
    """The reader cannot use the entry, or the window cannot be placed by it."""
    entries, name = known(FakeImage(pixels=A, header={"crs": "LOCAL"}))
    reader, table = FakeReader({"a": A}, entries={} if is_broken else entries), table_of("a")
    plan = planned(reader, table, window={"point": [500_055, 4_599_945], "crs": "EPSG:3857"})
    projector = FakeProjector(unknown=frozenset({"LOCAL"}))

    _, ((outcome,),) = read(plan, table, reader, projector=projector, packed_headers=[[name]])

    assert (outcome.status, outcome.lookup) == (Status.OK, Lookup.UNFIT)
    assert outcome.packed_header == packed_header_of(header_of(A, "a"))


def test_read_shard_checks_that_an_indexed_source_is_current_where_no_pixel_is_read() -> None:
    """The strip lies beside the version that the index knows, but on the present one."""
    entries, name = known(A[:, :45])
    now = FakeImage(pixels=A, header={"etag": '"2"'})
    reader, table = FakeReader({"a": now}, entries=entries), table_of("a")
    plan = planned(FakeReader({"a": A}), table, window={"pixels": [0, 35, 8, 15]})
    plan = replace(plan, layout=replace(plan.layout, chunk=(1, 10, 8), shard=(1, 10, 8)))

    (buffer,), ((outcome,),) = read(plan, table, reader, task=tasks_of(plan)[1], packed_headers=[[name]])

    assert outcome.lookup is Lookup.STALE
    np.testing.assert_array_equal(buffer[:, 0], A[:, 45:50, :8])


class Sparse(FakeOpened):
    """A source that stores a tile of its first band alone."""

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Return that there is none of the other bands."""
        (first, *others) = await super().read_tiles(window, bands)
        absent: list[list[memoryview | None]] = [[None for _ in tiles] for tiles in others]
        return [first, *absent]


@dataclass
class SparseReader(FakeReader):
    """Opens sparse sources."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        """Open one."""
        opened = await super().open_(href, overview=overview, cost=cost, packed_header=packed_header)
        return Sparse(**vars(opened))


def read_tiles(images: dict[str, Any], reader: FakeReader) -> tuple[StoredTiles, list[Outcome], FakeLimiter]:
    """Read the centre tiles of sources as they are stored. The first source is the typical one."""
    stored = {
        href: replace(image, header={"coding": CODING} | dict(image.header)) for href, image in images.items()
    }
    first, table, limiter = next(iter(images)), table_of(*images), FakeLimiter()
    plan = planned(FakeReader(stored), table_of(first), output={"codec": "source"})
    plan = replace(plan, n_rows=len(images), layout=replace(plan.layout, shard=(len(images), 16, 16)))
    reader.images = stored
    (task,) = tasks_of(plan)

    async def reading(tiles: Sequence[Buffer]) -> list[list[Outcome]]:
        return await read_shard(
            list(table.rows(0, len(images))),
            tiles,
            plan=plan,
            task=task,
            sources=access_to(reader, limiter=limiter),
            on_source=ignore,
        )

    with ShardBuffers(plan).borrow(task) as lent:
        (tiles,) = lent
        assert isinstance(tiles, StoredTiles)
        outcomes = asyncio.run(reading(lent))
    return tiles, [outcome for (outcome,) in outcomes], limiter


def test_read_shard_keeps_tiles_as_they_are_stored() -> None:
    """The whole window counts as on the raster. A source whose tiles are stored otherwise is unlike."""
    other = FakeImage(pixels=A, header={"coding": replace(CODING, compression="zstd")})

    tiles, outcomes, limiter = read_tiles({"a": FakeImage(pixels=A), "b": other}, FakeReader({}))

    assert [each.status for each in outcomes] == [Status.OK, Status.UNLIKE]
    assert outcomes[1].reason == "its compression is zstd, not none"
    assert outcomes[0].extent == (0, 0, 16, 16)
    assert [bytes(tile or b"") for (tile,) in tiles.rows[0].bands] == [
        band[16:32, 16:32].tobytes() for band in A
    ]
    assert tiles.rows[1].bands == []
    assert limiter.asked == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("nodata", "of_source", "status"),
    [
        (None, None, Status.OK),
        (7, 7, Status.OK),
        (7, 0, Status.UNLIKE),
        (7, None, Status.UNLIKE),
        (0, None, Status.OK),
    ],
)
def test_read_shard_takes_absent_tiles_only_if_they_stand_for_the_cubes_fill_value(
    nodata: float | None, of_source: float | None, status: Status
) -> None:
    """A tile that GDAL has not stored holds nodata, or 0 without one."""
    first = FakeImage(pixels=A, header={"nodata": nodata})
    other = FakeImage(pixels=A, header={"nodata": of_source})

    tiles, outcomes, _ = read_tiles({"a": first, "b": other}, SparseReader({}))

    assert outcomes[1].status is status
    assert len(tiles.rows[1].bands) == (2 if status is Status.OK else 0)
    assert outcomes[1].reason == (
        None
        if status is Status.OK
        else "a tile is absent. It stands for 0, but an absent chunk of the cube for 7"
    )


def test_read_shard_keeps_tiles_of_any_nodata_where_none_is_absent() -> None:
    """The row keeps its own."""
    first, other = (FakeImage(pixels=A, header={"nodata": nodata}) for nodata in (7, 0))

    _, outcomes, _ = read_tiles({"a": first, "b": other}, FakeReader({}))

    assert [(each.status, each.nodata) for each in outcomes] == [(Status.OK, 7), (Status.OK, 0)]


def test_absent_tiles_of_nan_are_those_of_a_cube_of_nan() -> None:
    """NaN differs from itself, but stands for the same. It does not stand for 0."""
    coding = replace(CODING, dtype="float32")
    nan, zero = (
        FakeImage(pixels=A.astype("float32"), header={"nodata": nodata, "coding": coding})
        for nodata in (float("nan"), 0.0)
    )

    _, outcomes, _ = read_tiles({"a": nan, "b": nan, "c": zero}, SparseReader({}))

    assert [each.status for each in outcomes] == [Status.OK, Status.OK, Status.UNLIKE]


def test_read_shard_weighs_a_source_as_one_request_where_no_tile_is_read() -> None:
    """Only where its tiles are is looked up."""
    image = FakeImage(pixels=np.zeros((1, 100, 40), "uint16"), header={"coding": CODING})
    reader, table, limiter = FakeReader({"s3://b/a": image}), table_of("s3://b/a"), FakeLimiter()
    plan = planned(reader, table, window={"pixels": [0, 0, 40, 64]}, output={"codec": "source"})
    tiles = ReferredTiles(1, n_bands=1)

    async def reading() -> list[list[Outcome]]:
        return await read_shard(
            list(table.rows(0, 1)),
            [tiles],
            plan=plan,
            task=tasks_of(plan)[0],
            sources=access_to(reader, limiter=limiter),
            on_source=ignore,
        )

    ((outcome,),) = asyncio.run(reading())

    assert outcome.status is Status.OK
    assert limiter.asked == [("s3://b/a", 1)]


def test_read_shard_takes_no_value_of_a_source_for_nodata_that_it_does_not_declare() -> None:
    """The cube's nodata fills what overhangs, but the source may have pixels of that value."""
    declares = FakeImage(pixels=A, header={"nodata": 9})
    reader, table = FakeReader({"a": declares, "b": declares, "c": A}), table_of("a", "b", "c")
    plan = planned(reader, table, window={"pixels": [-2, 0, 4, 3]})

    (buffer,), outcomes = read(plan, table, reader)

    assert (buffer[:, 2, :, :2] == 9).all()
    assert [row[0].nodata for row in outcomes] == [9, 9, None]


def test_read_shard_keeps_the_indexed_header_of_a_source_that_cannot_be_read_now() -> None:
    """It may be good for the next time."""
    entries, name = known(FakeImage(pixels=A, read_error=failing(Status.CORRUPT)))
    reader, table = FakeReader({"a": A}, entries=entries), table_of("a")

    _, ((outcome,),) = read(planned(reader, table, window=WINDOW), table, reader, packed_headers=[[name]])

    assert (outcome.status, outcome.packed_header) == (Status.CORRUPT, name)
