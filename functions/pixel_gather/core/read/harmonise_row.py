"""Give the pixels of a row the scale and offset of the cube, where it is known what they have. Pure."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.scaling import NO_SCALING, SCALING_COLUMNS, OffsetState, Scaling
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan, Measurement
from pixel_gather.core.read.shard_buffers import Buffer, Pixels
from pixel_gather.core.read.valid_pixels import valid_on_raster

_WHOLE: Final = 1e-6
"""Scales and offsets are decimal fractions in binary numbers, so a whole step may miss by this much."""


class _NoStepError(Exception):
    """The pixels cannot get the cube's scale and offset. The message says why."""


def harmonise_row(
    plan: CubePlan, buffers: Sequence[Buffer], at: int, outcomes: Sequence[Outcome], row: CubeRow
) -> None:
    """Add to the pixels of a row what is between their offset and the cube's, and tell it in the outcomes.

    Each band is judged by itself, so a second try of one source decides as the first would have. The mask is
    left out: its numbers are classes.

    Args:
        plan: The cube. Nothing is done if its values are not harmonised.
        buffers: Of each slot, shape (band, row, y, x).
        at: Which row of them.
        outcomes: Of each slot of the row.
        row: The sources of the row.
    """
    if plan.values != "harmonised":
        return
    for slot, (buffer, outcome, source) in enumerate(zip(buffers, outcomes, row.sources, strict=True)):
        if slot == plan.mask_slot or not isinstance(buffer, np.ndarray):
            continue
        if outcome.status is Status.OK and source is not None:
            try:
                _harmonise(buffer[:, at], outcome, source, plan.of_slot(slot))
            except _NoStepError as error:
                outcome.status, outcome.reason = Status.UNLIKE, str(error)
                buffer[:, at] = plan.fill_value(slot)
        if outcome.status is not Status.OK:
            outcome.scaling = None


def _harmonise(pixels: Pixels, outcome: Outcome, source: Source, measurements: Sequence[Measurement]) -> None:
    """Harmonise the bands of one source, all or none."""
    ours = tuple((each.scale, each.offset) for each in measurements)
    scalings, steps, states, reasons = [], [], [], []
    x_start, y_start, x_stop, y_stop = outcome.extent
    for band, declared, target in zip(pixels, outcome.scaling or ours, ours, strict=True):
        part = band[y_start:y_stop, x_start:x_stop]
        is_valid = valid_on_raster(band, outcome)
        stored = part if is_valid is None else part[is_valid]
        state, found, reason = judge_offset(declared, stored, source, target)
        if state is not OffsetState.UNDECIDED:
            step = _step(found, target, stored.dtype)
            if step:
                steps.append((part, is_valid, _shift_values(stored, step, outcome.nodata)))
                reason = f"{reason}; {step:+g} was added to its pixels"
        scalings.append(declared if state is OffsetState.UNDECIDED else target)
        states.append(int(state))
        reasons.append(reason)
    for part, is_valid, shifted in steps:
        part[... if is_valid is None else is_valid] = shifted
    outcome.offset_states, outcome.offset_reasons = states, reasons
    outcome.scaling = None if tuple(scalings) == ours else tuple(scalings)


def judge_offset(
    declared: tuple[float, float], stored: Pixels, source: Source, target: tuple[float, float]
) -> tuple[OffsetState, Scaling, str]:
    """Return whether pixels have their offset already, what they stand for, and why."""
    said = Scaling.said(declared, source.columns)
    if said.claims and said.offset:
        darkest = float(stored.min()) if stored.size else math.nan
        if said.is_denied_by(darkest):
            reason = f"the darkest pixel, {darkest:g}, denies the claimed offset of {said.offset:g}"
            return OffsetState.APPLIED, said.without_claim(), reason
        reason = f"the list claims an offset of {said.offset:g}, and no pixel is dark enough to tell"
        return OffsetState.UNDECIDED, said, reason
    if declared != NO_SCALING:
        reason = f"the file declares a scale of {said.scale:g} and an offset of {said.offset:g}"
    elif any(source.columns.get(name) is not None for name in SCALING_COLUMNS[:-1]):
        reason = f"the list says a scale of {said.scale:g} and an offset of {said.offset:g}"
    elif target != NO_SCALING:
        return OffsetState.UNDECIDED, said, "neither the file nor the list says a scale or an offset"
    else:
        reason = "nobody says a scale or an offset, and the cube has none"
    return OffsetState.NOT_APPLIED if said.offset else OffsetState.APPLIED, said, reason


def _step(found: Scaling, target: tuple[float, float], dtype: "np.dtype[Any]") -> float:
    """Return what is added to stored values."""
    scale, offset = target
    if not math.isclose(found.scale, scale, rel_tol=1e-9):
        raise _NoStepError(f"its scale is {found.scale:g}, the cube's {scale:g}")
    step = (found.offset - offset) / scale
    if not math.isfinite(step):
        raise _NoStepError(f"its offset is {found.offset:g}, the cube's {offset:g}")
    if abs(step - round(step)) <= _WHOLE:
        return round(step)
    if dtype.kind != "f":
        raise _NoStepError(
            f"its offset is {found.offset:g}, the cube's {offset:g}: {step:g} steps of the scale, and pixels "
            "are whole numbers"
        )
    return step


def _shift_values(stored: Pixels, step: float, nodata: float | None) -> Pixels:
    """Return stored values with a step added to each."""
    if not stored.size:
        return stored
    if stored.dtype.kind == "f":
        shifted = (stored.astype(np.float64) + step).astype(stored.dtype)
    else:
        limits, whole = np.iinfo(stored.dtype), int(step)
        low, high = int(stored.min()) + whole, int(stored.max()) + whole
        if low < limits.min or high > limits.max or abs(whole) > limits.max:
            raise _NoStepError(
                f"with {whole:+} its pixels are {low} to {high}, which {stored.dtype} cannot hold"
            )
        shifted = stored + stored.dtype.type(whole) if whole > 0 else stored - stored.dtype.type(-whole)
    if nodata is not None and (shifted == nodata).any():
        raise _NoStepError(f"with {step:+g} some of its pixels are {nodata:g}, which means no data")
    return shifted
