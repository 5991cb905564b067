"""Rank scenes in rounds: all at their coarsest level, then only those whose rank is still open, finer."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.order import (
    RankPlace,
    needed_errors,
    places,
    robust_deviation,
    scenes_to_refine,
)
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.features.rank.usable_levels import Level

_HEADER_NBYTES: Final = 4 << 10
"""Least that the first read of a file takes if only full resolution is wanted. It adapts to the files."""

_EXACT: Final = "exact"
"""What kept statistics call full resolution with every pixel."""

_SHRINKS: Final = 4.0
"""An error is at least this part of that of the next coarser level, also where it is mostly of detail."""


class KeptStatistics(Protocol):
    """Statistics of earlier rankings."""

    def get(self, scene: RankScene, *, step: str) -> MeasuredScene | None:
        """Return what was measured of a scene at a step, or None."""

    def put(self, scene: RankScene, *, step: str, measured: MeasuredScene) -> None:
        """Keep what was measured. Drops what is kept of other versions of the scene's files."""


class NothingKept:
    """Keeps no statistics."""

    def get(self, scene: RankScene, *, step: str) -> MeasuredScene | None:
        """Return None."""
        del scene, step
        return None  # mypy wants to see it

    def put(self, scene: RankScene, *, step: str, measured: MeasuredScene) -> None:
        """Do nothing."""


@dataclass(slots=True, kw_only=True)
class RankedScene:
    """One scene of a ranking."""

    scene: RankScene
    status: Status = Status.OK
    reason: str | None = None
    """Why it has no value, or why it was not read finer."""

    measured: MeasuredScene | None = None
    place: RankPlace | None = None
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0
    """Wall time of measuring it, at all levels."""

    was_kept: bool = False
    """Whether all that was needed of it came from an earlier ranking."""

    step: int | None = 0
    """Which of its levels it was measured at, 0 for the coarsest; None for full resolution."""

    is_stuck: bool = False
    """Whether a finer level could not be read."""

    @property
    def value(self) -> float:
        """Its statistic; NaN if it has none."""
        return math.nan if self.measured is None else self.measured.value

    @property
    def error(self) -> float:
        """Its standard error; infinite if unknown."""
        return math.inf if self.measured is None else self.measured.error

    @property
    def is_failed(self) -> bool:
        """Whether it could not be read. A scene outside the area could."""
        return self.status not in (Status.OK, Status.OUTSIDE)

    @property
    def is_known(self) -> bool:
        """Whether its error is known. A level without a value knows none."""
        return math.isfinite(self.error)

    @property
    def is_final(self) -> bool:
        """Whether it cannot be read any finer."""
        return self.measured is None or self.measured.level is None or self.is_stuck

    def fail(self, status: Status, reason: str) -> None:
        """Note that it could not be read. What a coarser level showed of the same files is kept."""
        self.is_stuck = True
        has_value = self.measured is not None and math.isfinite(self.measured.value)
        if has_value and status is not Status.CHANGED:
            self.reason = f"no finer level could be read: {reason}"
        else:
            self.status, self.reason, self.measured = status, reason, None

    def take_kept(self, kept: MeasuredScene, *, step: int | None) -> None:
        """Take what an earlier ranking kept for a step, as if it had been read now."""
        self.was_kept = self.measured is None or self.was_kept
        self.step, self.measured = None if kept.level is None else step, kept


class WantedRead(NamedTuple):
    """A scene that has to be read, and at which of its levels."""

    ranked: RankedScene
    step: int | None
    """0 for its coarsest level; None for full resolution."""


def begun(scenes: Iterable[RankScene]) -> list[RankedScene]:
    """Return scenes of which nothing was read yet. Those that lack a band have their status already."""
    ranked = [RankedScene(scene=scene) for scene in scenes]
    for each in ranked:
        if each.scene.missing is not None:
            each.status, each.reason = Status.ABSENT, each.scene.missing
    return ranked


class Rounds(Struct, frozen=True):
    """Decides what is read next. Statistics that are kept are taken, and not read."""

    request: RankingRequest
    kept: KeptStatistics

    def choose_reads(self, ranked: Sequence[RankedScene]) -> list[WantedRead]:
        """Let scenes take what is kept. Return what the next round reads; nothing if all is decided."""
        while found := self._next(ranked):
            unknown = []
            for each in found:
                if (kept := self._find_kept(each)) is None:
                    unknown.append(each)
                else:
                    each.ranked.take_kept(kept, step=each.step)
            if unknown:
                return unknown
        return []

    def keep(self, ranked: RankedScene) -> None:
        """Keep what a scene showed at the level that it was read at."""
        if ranked.measured is None or ranked.is_stuck:
            return
        self.kept.put(ranked.scene, step=self._name_of(ranked.step), measured=ranked.measured)
        if ranked.step is not None and ranked.measured.level is None:
            self.kept.put(ranked.scene, step=self._name_of(None), measured=ranked.measured)

    def sort(self, ranked: Sequence[RankedScene]) -> list[RankedScene]:
        """Return all scenes in their order, those without a value last."""
        self._place(ranked)
        for each in ranked:
            if each.measured is not None and each.is_final and not each.measured.n_pixels:
                that = "" if self.request.mask is None else " that the mask keeps"
                each.reason = f"no pixel of the area has data{that}"
        return sorted(ranked, key=_in_order)

    def _next(self, ranked: Sequence[RankedScene]) -> list[WantedRead]:
        first_step = 0 if self.request.precision.kind in ("bound", "coarse") else None
        unread = [
            WantedRead(each, first_step)
            for each in ranked
            if each.measured is None and each.status is Status.OK
        ]
        return unread or self._within_budget(self._to_refine(ranked), ranked)

    def _to_refine(self, ranked: Sequence[RankedScene]) -> list[WantedRead]:
        """Return the scenes to be read at a finer level; those that nothing is known of come first."""
        self._place(ranked)
        unknown = [
            WantedRead(each, self._step_of_unknown(each))
            for each in ranked
            if not each.is_final and not each.is_known
        ]
        if unknown or self.request.precision.kind != "bound":
            return unknown
        bound = self._error_bound(ranked)
        values, errors = [each.value for each in ranked], [each.error for each in ranked]
        needed = needed_errors(values, errors, bound=bound)
        found = scenes_to_refine([each.place for each in ranked], errors, top=self.request.top, bound=bound)
        return [
            WantedRead(ranked[at], _step_for(ranked[at], needed[at]))
            for at in found
            if not ranked[at].is_final
        ]

    def _step_of_unknown(self, ranked: RankedScene) -> int:
        """Return the step after a level that tells nothing: finer ones help only against mixed pixels."""
        helps = self.request.mask is not None or self.request.precision.kind == "coarse"
        return _next_step(ranked) if helps else len(_levels(ranked)) - 1

    def _error_bound(self, ranked: Sequence[RankedScene]) -> float:
        """Return the standard error that is small enough."""
        precision = self.request.precision
        return precision.bound * (
            robust_deviation([each.value for each in ranked]) if precision.is_relative else 1.0
        )

    def _within_budget(self, wanted: list[WantedRead], ranked: Sequence[RankedScene]) -> list[WantedRead]:
        """Return as much of a round as costs, with all before it, no more than full resolution of all.

        The best places come first. A scene that takes more than what is left is left out, and those after it
        may be read. Scenes of which nothing is known yet are read in any case.
        """
        if self.request.precision.kind != "bound":
            return wanted
        left = sum(_full_nbytes(each) - each.cost.nbytes for each in ranked)
        allowed = []
        for each in sorted(wanted, key=lambda each: each.ranked.place.low if each.ranked.place else 0):
            assert each.ranked.measured is not None and each.step is not None  # noqa: S101, PT018 # it was read
            nbytes = each.ranked.measured.level_nbytes[each.step]
            if nbytes <= left or not each.ranked.is_known:
                allowed.append(each)
                left -= nbytes
        return allowed

    def notes(self, ranked: Sequence[RankedScene]) -> list[str]:
        """Return what readers of a decided ranking should know about its ranks."""
        notes = [] if self.request.area is None else [*self.request.area.notes]
        n_open = len(self._to_refine(ranked))
        if not n_open:
            return notes
        could = f"{counted(n_open, 'scene')} could be read finer"
        return [
            *notes,
            f"{could}, but in all that would cost more than precision: exact, which decides all ranks",
        ]

    def _place(self, ranked: Sequence[RankedScene]) -> None:
        descending = self.request.order == "desc"
        found = places(
            [each.value for each in ranked], [each.error for each in ranked], descending=descending
        )
        for each, place in zip(ranked, found, strict=True):
            each.place = place

    def _find_kept(self, wanted: WantedRead) -> MeasuredScene | None:
        """Return a scene's kept statistics, or None if there are none that fit.

        Statistics of the wanted level come first, then exact ones. So a repeated ranking has the same values.
        They do not fit if the scene was read at another level, of another version of its files. Another
        ranking may have stored statistics of an older version in the meantime.
        """
        ranked, step = wanted
        at_level = self.kept.get(ranked.scene, step=self._name_of(step))
        kept = at_level or self.kept.get(ranked.scene, step=_EXACT)
        is_of_others = kept and ranked.measured is not None and ranked.measured.etags != kept.etags
        return None if is_of_others else kept

    def _name_of(self, step: int | None) -> str:
        """Return what kept statistics call a step."""
        if step is not None:
            return f"step {step}"
        return _EXACT if self.request.precision.step == 1 else f"every {self.request.precision.step}"


def _levels(ranked: RankedScene) -> tuple[Level, ...]:
    assert ranked.measured is not None  # noqa: S101 # of the caller: it was read
    return ranked.measured.levels


def _next_step(ranked: RankedScene) -> int:
    """Return the step after that of a scene."""
    assert ranked.measured is not None  # noqa: S101 # as above
    return _levels(ranked).index(ranked.measured.level) + 1


def _full_nbytes(ranked: RankedScene) -> float:
    """Return what a scene takes that is only read at full resolution, its headers included."""
    headers = min(ranked.cost.header_nbytes, _HEADER_NBYTES * len(ranked.scene.hrefs))
    return headers + (0.0 if ranked.measured is None else ranked.measured.level_nbytes[-1])


def _step_for(ranked: RankedScene, needed: float) -> int:
    """Return the coarsest step at which a scene's error may be as small as needed, else the last one."""
    last, step, error = len(_levels(ranked)) - 1, _next_step(ranked), ranked.error / _SHRINKS
    while step < last and error > needed:
        step, error = step + 1, error / _SHRINKS
    return step


def _in_order(ranked: RankedScene) -> tuple[int, int]:
    if ranked.place is not None:
        return 0, ranked.place.rank
    return (1, 0) if ranked.measured is not None else (2, 0)
