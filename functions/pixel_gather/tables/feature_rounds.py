"""A table of points or zones between the steps of a distributed map: its state, its tasks, its parts.

One function writes the state, the features and the images of all tasks. Each worker measures the images of
its task and commits their lines. Then one function puts the lines together as a table.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from copy import replace
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.stores import ControlStore, unpack
from pixel_gather.tables.features import Features
from pixel_gather.tables.image_work import ImageWork, WantedImage, failed_record, measure_each
from pixel_gather.tables.map_tasks import (
    LOST,
    MOST_TRIES,
    MapTask,
    begin_round,
    commit_task,
    committed_tasks,
    find_round,
    missing_tasks,
    read_sidecars,
    read_task,
    round_files,
    round_state,
    sidecar_key,
    state_key,
    task_scenes,
    unpack_scenes,
)
from pixel_gather.tables.part_folder import NO_LINES, ImageRecord, Lines, Measured, line_dtype, piece_dtype
from pixel_gather.tables.read_forecast import ReadForecast


class TaskImage(msgspec.Struct, array_like=True, frozen=True):
    """An image of a task."""

    number: int
    row: CubeRow


class _Part(msgspec.Struct, array_like=True):
    """What a worker has measured."""

    records: tuple[ImageRecord, ...]
    lines: bytes
    """Of all images, one after the other."""

    worker_s: float
    pieces: bytes = b""


@dataclass(slots=True, kw_only=True)
class FeatureState:
    """A table at the start of a round."""

    number: int
    """Of the round."""

    first: int
    """Number of the table's first round: 0, or more if former rounds are of a table that was removed."""

    tasks: list[MapTask] = field(default_factory=list)
    images: list[list[int]] = field(default_factory=list)
    """The numbers of the images of each task."""

    n_tries: int = 1
    """2 where images are read again, one by one, whose worker was lost."""

    started_at: float
    """Seconds since 1970-01-01 UTC."""

    n_features: int
    n_images: int
    """Of the list, that the table lacks."""

    n_far: int
    """Images that are near no feature."""

    columns: list[str]
    """Names of the values."""

    tolerance_us: int | None
    """Longest time between feature and image; None if any image will do."""

    about: dict[str, Any]
    """The receipt so far."""

    notes: list[str]
    forecast: ReadForecast
    """Of all images."""

    append_to: str | None = None
    """The table that is appended to."""

    has_base: bool = False
    """Whether that table was there."""

    removals: int = 0
    """How often the table had been removed when this attempt was begun."""

    tries: dict[int, int] = field(default_factory=dict)
    """How often an image was read before, if it was, by its number."""

    @property
    def n_near(self) -> int:
        """Images that are near a feature."""
        return self.n_images - self.n_far

    @property
    def n_wanted(self) -> int:
        """Images that the round reads."""
        return sum(map(len, self.images))


class MeasuredPart(Struct, frozen=True, kw_only=True):
    """The lines of the images of one task."""

    images: tuple[Measured, ...]
    worker_s: float


async def write_round(
    state: FeatureState, images: Sequence[TaskImage], control: ControlStore, *, n_tasks: int
) -> FeatureState:
    """Cut the images of a round into tasks, and write its files, unless another call has begun the round.

    There are at most as many tasks as images.

    Returns:
        The state of the round, which has its tasks and their images. It may be that of the other call.
    """
    edges = [len(images) * each // n_tasks for each in range(n_tasks + 1)]
    cut = [images[start:stop] for start, stop in pairwise(edges)]
    state = replace(state, images=[[each.number for each in some] for some in cut])
    content = await begin_round(
        round_files(control, state.number),
        [msgspec.msgpack.encode(some) for some in cut],
        lambda tasks: msgspec.msgpack.encode(replace(state, tasks=tasks)),
        started_at=state.started_at,
    )
    return unpack(content, FeatureState, key=state_key(state.number))


async def load_round(control: ControlStore, number: int) -> FeatureState:
    """Return the state that `write_round` wrote."""
    content = await round_state(round_files(control, number))
    return unpack(content, FeatureState, key=state_key(number))


async def measure_task(
    task: MapTask,
    control: ControlStore,
    number: int,
    *,
    work: ImageWork,
    features: Features,
    tolerance_us: int | None,
    most_ahead: int,
    longest_s: float,
) -> tuple[ImageRecord, ...]:
    """Measure the images of one task, and commit their lines. Safe to run twice.

    Images that were not read within ``longest_s`` get the status timed out. Without a tolerance, any image
    will do for a feature.

    Returns:
        The records of the images; none if the task is committed already.
    """
    files, began = round_files(control, number), time.monotonic()
    content = await read_task(task, files)
    if content is None:
        return ()
    images = unpack_scenes(content, list[TaskImage], number)
    wanted: list[WantedImage] = [
        (each.number, each.row, features.within(each.row.time_us, tolerance_us)) for each in images
    ]
    found: list[Measured] = []
    try:
        async with (
            asyncio.timeout(longest_s),
            aclosing(measure_each(work, iter(wanted), most_ahead=most_ahead)) as measuring,
        ):
            async for each in measuring:
                found.append(each)  # noqa: PERF401 # what is there counts, if time is over
    except TimeoutError:
        reason = f"not read within the {longest_s:.0f} s of its worker"
        for image in images[len(found) :]:
            record = failed_record(image.number, image.row, Status.TIMED_OUT, reason)
            found.append(Measured(record, NO_LINES))
    records = tuple(each.record for each in found)
    part = _Part(
        records,
        b"".join(each.lines.tobytes() for each in found),
        time.monotonic() - began,
        b"".join(each.pieces.tobytes() for each in found),
    )
    await commit_task(task, files, msgspec.msgpack.encode(part))
    return records


async def lost_images(state: FeatureState, control: ControlStore) -> list[TaskImage]:
    """Return the images of a round's uncommitted tasks.

    Raises:
        StoreError: No task of any round was committed. The workers probably cannot read at all.
    """
    files = round_files(control, state.number)
    lost = await missing_tasks(state.tasks, files)
    are_all = len(lost) == len(state.tasks) and state.n_wanted == state.n_near
    if are_all and state.n_tries == MOST_TRIES:
        async with aclosing(measured_parts(state, control)) as parts:
            if await anext(parts, None) is None:
                raise StoreError(
                    "every worker failed, so no image was read. Their log says why. Then ask again"
                )
    found: list[TaskImage] = []
    for task in lost:
        found += unpack_scenes(await task_scenes(task, files), list[TaskImage], state.number)
    return found


def next_round(state: FeatureState) -> FeatureState:
    """Return the round in which lost images are read again. `write_round` cuts it into tasks."""
    return replace(state, number=state.number + 1, n_tries=state.n_tries + 1)


async def measured_parts(state: FeatureState, control: ControlStore) -> AsyncGenerator[MeasuredPart]:
    """Yield what the workers of all rounds of a table have committed, one task at a time.

    There may be a later round than that of the state. Say a task of this round is late. Another call finds it
    missing and begins the next round. Then the task is committed, and this call finds none missing.
    """
    n_values = len(state.about["request"]["values"])
    for number in count(state.first):
        files = round_files(control, number)
        found = await find_round(files)
        begun = None if found is None else unpack(found, FeatureState, key=state_key(number))
        if begun is None or begun.first != state.first:
            break
        for task in await committed_tasks(begun.tasks, files):
            (content,) = await read_sidecars(files, [task])
            part = unpack(content, _Part, key=f"rounds/{number}/{sidecar_key(task)}")
            lines = _cut(part.lines, line_dtype(state.columns), [each.n_lines for each in part.records])
            pieces = _cut(part.pieces, piece_dtype(n_values), [each.n_pieces for each in part.records])
            images = tuple(map(Measured, part.records, lines, pieces))
            yield MeasuredPart(images=images, worker_s=part.worker_s)


def _cut(content: bytes, dtype: np.dtype[np.void], sizes: Sequence[int]) -> list[Lines]:
    """Return the lines of each image from those of all, one after the other."""
    whole = np.frombuffer(content, dtype)
    return np.split(whole, np.cumsum(sizes)[:-1])


def lost_record(image: TaskImage) -> ImageRecord:
    """Return the record of an image whose worker was lost at every try."""
    return failed_record(image.number, image.row, Status.LOST, LOST)
