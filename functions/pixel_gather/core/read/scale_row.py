"""Turn the pixels of a row into what they stand for, as float32. Pure."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.scaling import OffsetState
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan, StoredValues
from pixel_gather.core.read.harmonise_row import judge_offset
from pixel_gather.core.read.shard_buffers import Buffer, Pixels
from pixel_gather.core.read.valid_pixels import valid_on_raster

_TELL: Final = "if you know it, give the list columns scale and offset"


def scale_row(
    plan: CubePlan,
    read: Sequence[Buffer],
    of_cube: Sequence[Buffer],
    at: int,
    outcomes: Sequence[Outcome],
    row: CubeRow,
) -> None:
    """Fill a row of the cube with physical values, and NaN where there are none. Tell it in the outcomes.

    A source whose offset is undecided is unlike the cube, as no number is guessed.

    Args:
        plan: The cube. Nothing is done for measurements that hold what their sources hold.
        read: Of each slot, what its sources hold, shape (band, row, y, x).
        of_cube: The same of what the cube holds.
        at: Which row of them.
        outcomes: Of each slot of the row.
        row: The sources of the row.
    """
    for slot, (stored, values, outcome) in enumerate(zip(read, of_cube, outcomes, strict=True)):
        told, source = [each.stored for each in plan.of_slot(slot) if each.stored], row.sources[slot]
        if not told or not isinstance(stored, np.ndarray) or not isinstance(values, np.ndarray):
            continue
        values[:, at] = np.nan
        if outcome.status is Status.OK and source is not None:
            _scale(stored[:, at], values[:, at], outcome, source, told)
        outcome.scaling = outcome.nodata = outcome.inside = None  # the cube's values have none


def _scale(
    stored: Pixels, values: Pixels, outcome: Outcome, source: Source, told: Sequence[StoredValues]
) -> None:
    """Scale the bands of one source, all or none."""
    x_start, y_start, x_stop, y_stop = outcome.extent
    declared_by = outcome.scaling or ((1.0, 0.0),) * len(told)
    scaled, states, reasons = [], [], []
    for band, declared, expected in zip(stored, declared_by, told, strict=True):
        part = band[y_start:y_stop, x_start:x_stop]
        found = valid_on_raster(band, outcome)
        is_valid = np.ones(part.shape, dtype=bool) if found is None else found
        target = expected.scale, expected.offset
        state, scaling, reason = judge_offset(declared, part[is_valid], source, target)
        if state is OffsetState.UNDECIDED:
            outcome.status, outcome.reason = Status.UNLIKE, f"{reason}: {_TELL}"
            return
        scaled.append(scaling.apply(part, is_valid))
        states.append(int(state))
        reasons.append(reason)
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
        values[:, y_start:y_stop, x_start:x_stop] = scaled
    outcome.offset_states, outcome.offset_reasons = states, reasons
