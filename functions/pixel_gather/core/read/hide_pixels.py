"""Hide the pixels of a row that its mask says do not count. Pure."""

from collections.abc import Iterator, Sequence
from copy import replace

import numpy as np

from pixel_gather.core.model.outcome import REPLACED, Outcome, is_replaced, merge_outcomes
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.pixel_mask import Mask, PixelMask
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.read.shard_buffers import Buffer, Pixels
from pixel_gather.core.read.valid_pixels import pack_inside, pixels_inside, valid_pixels


def hide_in_row(
    plan: CubePlan,
    buffers: Sequence[Buffer],
    at: int,
    outcomes: Sequence[Outcome],
    row: CubeRow,
    *,
    is_reduced: bool,
) -> None:
    """Fill the pixels of a row that its mask hides, and count them in the outcome of the mask's source.

    If the mask was not read, no pixel of the row counts. The status of its other sources says so.

    Args:
        plan: The cube. Nothing is done if it has no mask.
        buffers: Of each slot, shape (band, row, y, x).
        at: Which row of them.
        outcomes: Of each slot of the row.
        row: The sources of the row.
        is_reduced: Whether the row is only reduced with others, and not stored. Then integers without nodata
            keep their values, and the outcome says which pixels are hidden.
    """
    mask, slot = plan.mask, plan.mask_slot
    if mask is None or slot is None:
        return
    pixels = [each[:, at] for each in buffers if isinstance(each, np.ndarray)]
    of_mask, band = outcomes[slot], [each.name for each in plan.of_slot(slot)].index(mask.band)
    problem = _problem(mask, of_mask, row)
    if problem is not None:
        for index, (of_slot, outcome) in enumerate(zip(pixels, outcomes, strict=True)):
            if outcome.status is Status.OK and index != slot:
                outcome.status, outcome.reason = Status.UNMASKED, problem
                of_slot[...] = plan.fill_value(index)
        return
    hidden = _hidden(mask, pixels[slot][band], of_mask)
    of_mask.n_masked = int(np.count_nonzero(hidden))
    for index, (of_slot, outcome) in enumerate(zip(pixels, outcomes, strict=True)):
        others = [each for position, each in enumerate(of_slot) if (index, position) != (slot, band)]
        if outcome.status is not Status.OK or not others:
            continue
        if not _covers(of_mask, outcome, hidden.shape):
            outcome.status = Status.UNLIKE
            outcome.reason = f"its mask, {mask.band}, has pixels of another size or place"
            of_slot[...] = plan.fill_value(index)
            continue
        if is_reduced and outcome.nodata is None and others[0].dtype.kind in "iu":
            shown = pixels_inside(outcome, width=hidden.shape[1])
            outcome.inside = pack_inside(~hidden if shown is None else shown & ~hidden, outcome.extent)
        else:
            _fill(plan, index, others, outcome, hidden)


def _fill(plan: CubePlan, slot: int, bands: Sequence[Pixels], outcome: Outcome, hidden: Mask) -> None:
    """Fill the hidden pixels of a source with its nodata, the cube's, or else NaN."""
    if outcome.nodata is None:
        outcome.nodata = plan.nodata(slot)  # hidden pixels hold it, and are not valid
    fill = plan.fill_value(slot) if outcome.nodata is None else outcome.nodata
    for band in bands:
        np.copyto(band, band.dtype.type(fill), where=hidden)


def merge_strips(
    plan: CubePlan, strips: Sequence[Sequence[Outcome]], row: CubeRow, *, y_starts: Sequence[int]
) -> list[Outcome]:
    """Return the outcomes of a row whose window was read in several strips.

    A mask may have been replaced between two strips. Then no pixel of the row counts, as if the mask had not
    been read. The same holds for a row that was reduced from several scenes, if one of them was replaced.

    Args:
        plan: The cube.
        strips: Of each strip, from top to bottom, an outcome for each slot.
        row: The sources of the row.
        y_starts: First line of each strip in the whole window.
    """
    parts = [list(each) for each in zip(*strips, strict=True)]
    outcomes = [merge_outcomes(each, y_starts=y_starts) for each in parts]
    mask, slot = plan.mask, plan.mask_slot
    status, problem = Status.UNMASKED, None
    if mask is not None and slot is not None:
        problem = _problem(mask, outcomes[slot], row)
    elif any(is_replaced(of_source) for of_source in _strips_of_members(parts[0])):
        status, problem = Status.CHANGED, f"one of its sources was {REPLACED}"
    if problem is None:
        return outcomes
    for index, (first, *others) in enumerate(parts):
        if outcomes[index].status is Status.OK and index != slot:
            first = replace(first, status=status, reason=problem)  # noqa: PLW2901 # it fails first
            outcomes[index] = merge_outcomes([first, *others], y_starts=y_starts)
    return outcomes


def _strips_of_members(of_row: Sequence[Outcome]) -> Iterator[tuple[Outcome, ...]]:
    """Yield the strips' outcomes of each source of a row that was reduced."""
    for of_scene in zip(*(strip.members for strip in of_row), strict=True):
        yield from zip(*of_scene, strict=True)


def _problem(mask: PixelMask, of_mask: Outcome, row: CubeRow) -> str | None:
    """Return why a row has no mask, in words; None if it has one."""
    if of_mask.status is Status.ABSENT:
        if row.chip is not None:
            return (
                f"its mask, {mask.band}, is absent: the list names no file, or the file ends before the chip"
            )
        return f"the list names no source of its mask, {mask.band}"
    if of_mask.status is not Status.OK:
        return f"its mask, {mask.band}, is {of_mask.status.name.lower()}: {of_mask.reason}"
    if row.mask_etag is not None and row.mask_etag != of_mask.etag:
        return f"its mask, {mask.band}, was replaced since the other bands of the row were read"
    return None


def _covers(of_mask: Outcome, outcome: Outcome, shape: tuple[int, ...]) -> bool:
    """Return whether a mask has the same pixels as another source of its row."""
    height, width = shape
    ours, theirs = outcome.transform, of_mask.transform
    if ours == theirs and outcome.crs == of_mask.crs:
        return True
    if ours is None or theirs is None or outcome.crs != of_mask.crs:
        return False
    return ours.aligns_with(theirs, width=width, height=height)


def _hidden(mask: PixelMask, stored: Pixels, of_mask: Outcome) -> Mask:
    """Return which pixels a mask hides: what it drops, and where it has no value itself."""
    hidden = dilate(mask.drops(stored), mask.dilate)
    is_valid = valid_pixels(stored, of_mask.nodata)
    if is_valid is not None:
        hidden |= ~is_valid
    x_start, y_start, x_stop, y_stop = of_mask.extent
    if of_mask.extent != (0, 0, stored.shape[1], stored.shape[0]):
        inside = np.zeros(stored.shape, dtype=bool)
        inside[y_start:y_stop, x_start:x_stop] = True
        hidden |= ~inside
    if (there := pixels_inside(of_mask, width=stored.shape[1])) is not None:
        hidden |= ~there
    return hidden


def dilate(dropped: Mask, by: int) -> Mask:
    """Return dropped pixels with those around them: for each a square of ``2 * by + 1`` pixels.

    Args:
        dropped: Shape (y, x). What lies beyond its edges is not known, and drops nothing.
        by: How many pixels to every side.
    """
    if not by:
        return dropped
    # Lines end in zeros, so all of them are shifted at once. Each step doubles how far it looks.
    height, width = dropped.shape
    line = width + 2 * by
    padded = np.zeros((height + 2 * by, line), dtype=np.uint8)
    padded[by : by + height, by : by + width] = dropped
    flat = padded.reshape(-1)
    for unit in (1, line):
        seen = 1
        while seen < 2 * by + 1:
            step = min(seen, 2 * by + 1 - seen)
            np.bitwise_or(flat[: -step * unit], flat[step * unit :], out=flat[: -step * unit])
            seen += step
    return padded[:height, :width].view(np.bool_)
