"""Quicklooks: their rows, their pixels, and the joining of strips."""

from copy import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import cut_tasks
from pixel_gather.core.read.quicklook import QuicklookAlbum, quicklook_rows, quicklook_step, take_quicklooks
from pixel_gather.core.read.valid_pixels import pack_inside
from support.fakes import FakeReader, table_of
from support.plans import planned


@given(n_rows=st.integers(1, 100_000), nbytes=st.sampled_from([1, 32_768, 200_000, 2**30]))
def test_rows_are_spread_evenly_with_the_ends_and_the_middle(n_rows: int, nbytes: int) -> None:
    """At most 239 rows have pictures, and no more than fit into 32 MiB."""
    rows = quicklook_rows(n_rows, nbytes=nbytes)

    assert len(rows) == min(n_rows, {1: 239, 32_768: 239, 200_000: 167, 2**30: 3}[nbytes])
    assert (rows[0], rows[-1]) == (0, n_rows - 1)
    assert (n_rows - 1) // 2 in rows
    gaps = {after - before for before, after in pairwise(rows)}
    assert not gaps or max(gaps) - min(gaps) <= 1 <= min(gaps)


@given(height=st.integers(1, 20_000), width=st.integers(1, 20_000))
def test_step_makes_every_picture_fit_128_pixels(height: int, width: int) -> None:
    """Pictures are as large as allowed. Windows narrower than 8 pixels have none."""
    step = quicklook_step(height, width)

    if min(height, width) < 8:
        assert step is None
    else:
        assert step is not None
        assert -(-max(height, width) // step) <= 128
        assert step == 1 or -(-max(height, width) // (step - 1)) > 128


def _read(height: int, width: int, *, nodata: int | None = None) -> Outcome:
    return Outcome(status=Status.OK, nodata=nodata, extent=(0, 0, width, height))


def plan_of(*, height: int, width: int, n_rows: int, layout: tuple[int, int, int]) -> CubePlan:
    """Return the plan of a cube that is cut into shards of this shape."""
    pixels = np.zeros((1, height, width), "uint16")
    window = {"pixels": [0, 0, width, height]}
    rows, y, x = layout
    return planned(
        FakeReader({"a": pixels}),
        table_of(*["a"] * n_rows),
        window=window,
        output={"layout": {"chunk": [1, y, x], "shard_rows": rows}},
        max_task_nbytes=rows * y * (width + x) * 2,
    )


def test_pictures_of_strips_are_those_of_whole_windows() -> None:
    """They are means of blocks of three pixels a side, however the window was cut."""
    plan = plan_of(height=300, width=290, n_rows=4, layout=(1, 16, 16))
    tasks = cut_tasks(plan, [1, 2, 3, 4])
    cube = np.random.default_rng(1).integers(1, 999, plan.shape, "uint16")
    cube[:, 30:40, 50:70] = 0
    album, n_strips = QuicklookAlbum(plan), len(tasks) // 4
    assert n_strips > 3

    for row in range(4):
        strips = [
            take_quicklooks(
                [cube[row : row + 1, task.y_start : task.y_stop]],
                plan=plan,
                task=task,
                outcomes=[[_read(task.y_stop - task.y_start, 290, nodata=0)]],
            )
            for task in tasks[row * n_strips : (row + 1) * n_strips]
        ]
        album.add([[row != 1]], strips)

    (found,) = album.quicklooks()
    assert found.step == 3
    assert found.rows.tolist() == [0, 2, 3]
    assert found.dtype == "uint16"
    assert found.shape == (100, 97)
    starts = sorted({task.y_start for task in tasks})[1:]
    divided = sorted({start // 3 for start in starts if start % 3})
    for row, picture in zip((0, 2, 3), found.pictures, strict=True):
        padded = np.pad(cube[row].astype("float64"), ((0, 0), (0, 1)))
        blocks = padded.reshape(100, 3, 97, 3)
        n_valid = (blocks > 0).sum(axis=(1, 3))
        means = np.rint(blocks.sum(axis=(1, 3)) / np.maximum(n_valid, 1)).astype("uint16")
        shown = np.frombuffer(picture, "uint16").reshape(100, 97)
        assert (np.delete(shown, divided, axis=0) == np.delete(means, divided, axis=0)).all()
        assert ((shown == 0) == (n_valid == 0)).all()


def test_classes_and_parts_outside_are_not_averaged() -> None:
    """A mean of classes is no class. Fill outside of the source is no value."""
    plan = plan_of(height=300, width=300, n_rows=1, layout=(1, 300, 300))
    (task,) = cut_tasks(plan, [1])
    classes = np.tile(np.arange(10, dtype="uint16"), (1, 300, 30))
    ramp = np.broadcast_to(1000 + np.arange(300, dtype="uint16"), (1, 300, 300)).copy()
    ramp[:, :, 151:] = 0
    inside = Outcome(status=Status.OK, extent=(0, 0, 151, 300))
    pictures = [
        take_quicklooks([pixels], plan=plan, task=task, outcomes=[[outcome]])[0][0]
        for pixels, outcome in ((classes, _read(300, 300)), (ramp, inside))
    ]

    of_classes, of_ramp = (np.frombuffer(each, "uint16").reshape(100, 100) for each in pictures)
    assert (of_classes == classes[0, ::3, ::3]).all()
    assert of_ramp[0, :51].tolist() == [1001 + 3 * block for block in range(50)] + [1150]


def test_pixels_beside_a_warped_source_are_not_averaged() -> None:
    """Integers without nodata hold 0 there, which is no value."""
    plan = plan_of(height=300, width=300, n_rows=1, layout=(1, 300, 300))
    (task,) = cut_tasks(plan, [1])
    inside = np.add.outer(np.arange(300), np.arange(300)) < 300
    pixels = np.where(inside, 1000 + np.arange(300), 0).astype("uint16")[None]
    outcome = replace(_read(300, 300), inside=pack_inside(inside, (0, 0, 300, 300)))

    (taken,) = take_quicklooks([pixels], plan=plan, task=task, outcomes=[[outcome]])

    shown = np.frombuffer(taken[0], "uint16").reshape(100, 100)
    assert (shown[np.add.outer(np.arange(100), np.arange(100)) < 100] >= 1000).all()
    assert (shown == 0).sum() == 100 * 99 // 2


def test_row_without_all_of_its_strips_has_no_picture() -> None:
    """A window with a lost strip has no picture."""
    plan = plan_of(height=16, width=16, n_rows=2, layout=(1, 8, 8))
    album = QuicklookAlbum(plan)

    album.add([[True]], [[{0: b"\0" * 256}], []])
    album.add([[True]], [[{}], [{1: b"\0" * 256}]])

    assert album.quicklooks() == ()


def test_only_rows_that_were_read_are_taken() -> None:
    """A row whose source failed has no picture."""
    plan = plan_of(height=8, width=8, n_rows=3, layout=(3, 8, 8))
    (task,) = cut_tasks(plan, [1])

    outcomes = [[_read(8, 8)], [Outcome(status=Status.MISSING)], [_read(8, 8)]]
    taken = take_quicklooks([np.ones(plan.shape, "uint16")], plan=plan, task=task, outcomes=outcomes)

    assert taken == [{0: b"\1\0" * 64, 2: b"\1\0" * 64}]


def test_every_measurement_has_its_own_pictures() -> None:
    """Each measurement has its own dtype. A failed source removes only its own pictures."""
    plan = plan_of(height=8, width=8, n_rows=2, layout=(2, 8, 8))
    red, (slot,) = plan.measurements[0], plan.slots
    plan = replace(
        plan,
        slots=(slot, slot),
        measurements=(replace(red, name="red"), replace(red, name="nir", slot=1, dtype="uint8")),
    )
    (task,) = cut_tasks(plan, [1])
    arrays = [np.full(plan.shape, 5, "uint16"), np.full(plan.shape, 6, "uint8")]
    were_read = [[True, True], [True, False]]

    album = QuicklookAlbum(plan)
    outcomes = [
        [_read(8, 8) if was_read else Outcome(status=Status.MISSING) for was_read in row] for row in were_read
    ]
    album.add(were_read, [take_quicklooks(arrays, plan=plan, task=task, outcomes=outcomes)])

    found = {each.measurement: each for each in album.quicklooks()}
    assert {name: (each.rows.tolist(), each.dtype) for name, each in found.items()} == {
        "red": ([0, 1], "uint16"),
        "nir": ([0], "uint8"),
    }
    assert found["nir"].pictures == (b"\6" * 64,)


def test_windows_that_are_no_picture_have_none() -> None:
    """Windows of few pixels have no pictures, and nothing is stored."""
    plan = plan_of(height=7, width=400, n_rows=2, layout=(2, 7, 400))
    (task,) = cut_tasks(plan, [1])

    were_read = [[True], [True]]
    assert (
        take_quicklooks([np.ones(plan.shape, "uint16")], plan=plan, task=task, outcomes=[[_read(7, 7)]]) == []
    )
    album = QuicklookAlbum(plan)
    album.add(were_read, [[]])
    assert album.quicklooks() == ()
