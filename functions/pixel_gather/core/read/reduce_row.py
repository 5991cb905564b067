"""Reduce the scenes of a group to one row of the cube. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import Cost, CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.plan.cube_plan import CHOSEN, CubePlan
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import pixels_inside, valid_pixels

_HALF: Final = 0.5
_BLOCK_NBYTES: Final = 1 << 18
"""Pixels that are sorted together, so that they stay in a core's cache."""


def refuse_other_numbers(plan: CubePlan, outcomes: Sequence[Outcome]) -> None:
    """Give the status unlike to the sources of a scene whose numbers mean something else than the cube's.

    Args:
        plan: That of the scenes; see `CubePlan.of_scenes`.
        outcomes: Of each slot of the scene. Their pixels are not used then.
    """
    assert plan.reduction is not None  # noqa: S101 # the caller's
    of_scenes, chosen = plan.of_scenes, plan.reduction.statistic in CHOSEN
    for slot, outcome in enumerate(outcomes):
        if outcome.status is not Status.OK or slot == of_scenes.mask_slot:
            continue
        ours = of_scenes.nodata(slot)
        if outcome.scaling is not None:
            outcome.status = Status.UNLIKE
            outcome.reason = (
                "its scale or offset is another one than the cube's: write values: scaled"
                if plan.values == "raw"
                else f"its offset is undecided: {next(iter(outcome.offset_reasons), 'nobody says it')}"
            )
        elif chosen and ours is not None and outcome.nodata != ours and ours == ours:  # noqa: PLR0124
            outcome.status = Status.UNLIKE
            outcome.reason = (
                f"it declares no nodata, and the cube's is {ours:g}. If its pixels of {ours:g} are missing, "
                f"write nodata: {ours:g}. If not, write values: scaled"
                if outcome.nodata is None
                else f"its nodata is {outcome.nodata:g}, the cube's {ours:g}: write values: scaled"
            )


class Scenes(Struct, frozen=True):
    """The scenes of one row."""

    start: int
    """Where they begin in the arrays of values."""

    outcomes: Sequence[Sequence[Outcome]]
    """Of each scene, one for each slot."""

    members: Sequence[CubeRow]


def reduce_lines(
    plan: CubePlan,
    values: Sequence[Pixels],
    rows: Sequence[Pixels],
    scenes: Scenes,
    at: int,
    lines: slice,
) -> Pixels:
    """Fill some lines of a row of the cube. Lines do not depend on each other.

    Args:
        plan: The cube.
        values: Of each slot of the scenes, shape (band, scene, y, x).
        rows: Of each slot of the cube, shape (band, row, y, x).
        scenes: Those of the row.
        at: The row, among ``rows``.
        lines: Which lines.

    Returns:
        How many pixels each scene gave to each measurement: shape (measurement, scene).
    """
    assert plan.reduction is not None  # noqa: S101 # the caller's
    n = len(scenes.outcomes)
    counts = np.zeros((len(plan.measurements), n), dtype=np.int64)
    out_of = [band for slot in rows for band in slot]
    for index, measurement in enumerate(plan.measurements):
        slot, band = _place(plan, measurement.name)
        stack = values[slot][band, scenes.start : scenes.start + n, lines]
        of_slot = [outcome[slot] for outcome in scenes.outcomes]
        used = [number for number, outcome in enumerate(of_slot) if outcome.status is Status.OK]

        def valid(number: int, stack: Pixels = stack, of_slot: Sequence[Outcome] = of_slot) -> Mask:
            return _valid(stack[number], of_slot[number], lines)

        out = out_of[index][at, lines]
        out[...] = measurement.fill_value
        counts[index, used] = _REDUCE.get(plan.reduction.statistic, _percentile)(
            stack, used, valid, out, plan.reduction.statistic
        )
    return counts


def _place(plan: CubePlan, name: str) -> tuple[int, int]:
    """Return slot and position of a measurement among those of the scenes."""
    of_scenes = plan.of_scenes
    slot = next(each.slot for each in of_scenes.measurements if each.name == name)
    return slot, [each.name for each in of_scenes.of_slot(slot)].index(name)


def _valid(part: Pixels, outcome: Outcome, lines: slice) -> Mask:
    """Return which pixels of some lines of a scene hold a value."""
    x_start, y_start, x_stop, y_stop = outcome.extent
    found = valid_pixels(part, outcome.nodata)
    is_valid = np.ones(part.shape, dtype=bool) if found is None else found
    is_valid[: max(y_start - lines.start, 0)] = False
    is_valid[max(y_stop - lines.start, 0) :] = False
    is_valid[:, :x_start] = False
    is_valid[:, x_stop:] = False
    if (inside := pixels_inside(outcome, width=part.shape[1], lines=lines)) is not None:
        is_valid &= inside
    return is_valid


type _Validity = Callable[[int], Mask]
type _Reduce = Callable[[Pixels, Sequence[int], _Validity, Pixels, str], list[int]]


def _mosaic(stack: Pixels, used: Sequence[int], valid: _Validity, out: Pixels, statistic: str) -> list[int]:
    """Take each pixel from the first scene that has one, or from the last."""
    missing = np.ones(out.shape, dtype=bool)
    counts = dict.fromkeys(used, 0)
    for number in used if statistic == "first" else reversed(used):
        taken = valid(number) & missing
        np.copyto(out, stack[number], where=taken)
        missing &= ~taken
        counts[number] = int(np.count_nonzero(taken))
    return list(counts.values())


def _extreme(stack: Pixels, used: Sequence[int], valid: _Validity, out: Pixels, statistic: str) -> list[int]:
    choose = np.minimum if statistic == "min" else np.maximum
    seen = np.zeros(out.shape, dtype=bool)
    counts = []
    for number in used:
        is_valid = valid(number)
        choose(out, stack[number], out=out, where=is_valid & seen)
        np.copyto(out, stack[number], where=is_valid & ~seen)
        seen |= is_valid
        counts.append(int(np.count_nonzero(is_valid)))
    return counts


def _mean(stack: Pixels, used: Sequence[int], valid: _Validity, out: Pixels, _: str) -> list[int]:
    """Sum in float64, scene by scene, and round once."""
    total, n = np.zeros(out.shape), np.zeros(out.shape, dtype=np.int64)
    counts = []
    with np.errstate(invalid="ignore", over="ignore"):
        for number in used:
            is_valid = valid(number)
            np.add(total, stack[number], out=total, where=is_valid)
            n += is_valid
            counts.append(int(np.count_nonzero(is_valid)))
        np.divide(total, n, out=total, where=n > 0)
        np.copyto(out, total, where=n > 0, casting="same_kind")
    return counts


def _count(_stack: Pixels, used: Sequence[int], valid: _Validity, out: Pixels, _: str) -> list[int]:
    counts = []
    for number in used:
        is_valid = valid(number)
        out += is_valid
        counts.append(int(np.count_nonzero(is_valid)))
    return counts


def _percentile(
    stack: Pixels, used: Sequence[int], valid: _Validity, out: Pixels, statistic: str
) -> list[int]:
    """Sort the values of each pixel, and take what lies at a share of them, by lines between neighbours."""
    if not used:
        return []
    is_median = statistic == "median"
    share = _HALF if is_median else int(statistic[1:]) / 100
    n, (height, width) = len(used), out.shape
    is_valid = np.stack([valid(number) for number in used])
    counts = np.count_nonzero(is_valid.reshape(n, -1), axis=1).tolist()
    last = np.nan if stack.dtype.kind == "f" else np.iinfo(stack.dtype).max  # it is sorted behind the values
    step = max(_BLOCK_NBYTES // (n * width * stack.dtype.itemsize), 1)
    for top in range(0, height, step):
        block = slice(top, min(top + step, height))
        there = is_valid[:, block].reshape(n, -1)
        lined_up = np.where(there, stack[used, block].reshape(n, -1), last).T.copy()
        lined_up.sort(axis=1)
        n_valid = np.count_nonzero(there, axis=0)
        at = np.maximum(n_valid - 1, 0) * share
        low = at.astype(np.int64)
        pixels = np.arange(len(low))
        lower = lined_up[pixels, low].astype(np.float64)
        upper = lined_up[pixels, np.minimum(low + 1, np.maximum(n_valid - 1, 0))].astype(np.float64)
        found = _middle(lower, upper, at - low) if is_median else _between(lower, upper, at - low)
        found[n_valid == 0] = np.nan
        with np.errstate(over="ignore"):
            out[block] = found.reshape(out[block].shape)
    return list(counts)


def _middle(lower: Pixels, upper: Pixels, share: Pixels) -> Pixels:
    """Return the mean of two numbers, or the first if the share is 0, as NumPy's ``median`` does it."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(share == 0, lower, (lower + upper) / 2)


def _between(lower: Pixels, upper: Pixels, share: Pixels) -> Pixels:
    """Return what lies between two numbers, as NumPy's method ``linear`` does it. Infinite ones stay so."""
    with np.errstate(invalid="ignore"):
        step = upper - lower
        found = np.where(share >= _HALF, upper - step * (1 - share), lower + step * share)
    return np.where(lower == upper, lower, found)


_REDUCE: Final[dict[str, _Reduce]] = {
    "first": _mosaic,
    "last": _mosaic,
    "min": _extreme,
    "max": _extreme,
    "mean": _mean,
    "count": _count,
}


def may_replace(row: CubeRow, outcomes: Sequence[Sequence[Outcome]]) -> bool:
    """Return whether a row that is reduced anew may replace the one that is there: it has what that one had.

    Args:
        row: With its scenes, which say what was read before.
        outcomes: Of each scene, one for each slot.
    """
    before = [
        (etag, outcome)
        for scene, of_scene in zip(row.members, outcomes, strict=True)
        for etag, outcome in zip(scene.etags, of_scene, strict=False)
    ]
    stays = all(
        outcome.status is Status.OK and (outcome.etag or "") == etag
        for etag, outcome in before
        if etag is not None
    )
    gains = any(etag is None and outcome.status is Status.OK for etag, outcome in before)
    return stays and (gains or not before)


def outcomes_of_row(plan: CubePlan, scenes: Scenes, counts: Pixels, *, height: int) -> list[Outcome]:
    """Return the outcomes of a row, one for each slot of the cube, from those of its scenes.

    A row is read if one of its sources was. What became of each is told in the first outcome.

    Args:
        plan: The cube.
        scenes: Those of the row.
        counts: From `reduce_lines`, summed over all lines.
        height: Number of these lines.
    """
    of_scenes, found = plan.of_scenes, []
    names = [each.name for each in of_scenes.slots]
    for slot, own in enumerate(plan.slots):
        of_slot = [outcomes[names.index(own.name)] for outcomes in scenes.outcomes]
        found.append(_outcome_of(plan, slot, of_slot, scenes, names.index(own.name), height))
    everything = [outcome for outcomes in scenes.outcomes for outcome in outcomes]
    found[0].cost = Cost.of_parts(outcome.cost for outcome in everything)
    found[0].members = [list(outcomes) for outcomes in scenes.outcomes]
    for outcome in everything:
        outcome.bands, outcome.inside = [BandStats()], None
    for index in reversed(range(len(plan.measurements))):  # the first band of a file counts
        slot, _ = _place(plan, plan.measurements[index].name)
        for number, outcomes in enumerate(scenes.outcomes):
            outcomes[slot].bands[0].n_valid = int(counts[index, number])
    return found


def _outcome_of(
    plan: CubePlan, slot: int, of_slot: Sequence[Outcome], scenes: Scenes, scene_slot: int, height: int
) -> Outcome:
    used = [each for each in of_slot if each.status is Status.OK]
    failed = [number for number, each in enumerate(of_slot) if each.status.is_failure]
    status, reason = Status.OK if used else Status.ABSENT, None
    if failed:
        first = of_slot[failed[0]]
        source = scenes.members[failed[0]].sources[scene_slot]
        status = status if used else first.status
        href = "" if source is None else f" {shown_href(source.href)}"
        reason = (
            f"{len(failed):,} of {len(of_slot):,} sources failed; the first,{href}, is "
            f"{first.status.name.lower()}: {first.reason}"
        )
    return Outcome(
        status=status,
        reason=reason,
        transform=plan.placement.transform,
        crs=plan.placement.crs,
        nodata=plan.nodata(slot),
        extent=(0, 0, plan.width, height),
        is_aligned=True,
        start_s=min((each.start_s for each in of_slot), default=0.0),
        end_s=max((each.end_s for each in of_slot), default=0.0),
        n_used=len(used),
        n_failed=len(failed),
    )
