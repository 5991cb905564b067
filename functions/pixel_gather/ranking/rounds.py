"""Rank scenes in rounds: all at their coarsest level, then only those whose rank is still open, finer."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pixel_gather.model.source import Cost
from pixel_gather.model.status import Status
from pixel_gather.ranking.measure import Measured
from pixel_gather.ranking.order import Place, places, undecided
from pixel_gather.ranking.ranking_request import RankingRequest
from pixel_gather.ranking.scenes import RankScene


class KeptStatistics(Protocol):
    """Statistics of earlier rankings."""

    def get(self, scene: RankScene, *, step: str) -> Measured | None:
        """Return what was measured of a scene at a step, or None."""

    def put(self, scene: RankScene, *, step: str, measured: Measured) -> None:
        """Keep what was measured. Drops what is kept of other versions of the scene's files."""


class NothingKept:
    """Keeps no statistics."""

    def get(self, scene: RankScene, *, step: str) -> Measured | None:
        """Return None."""
        del scene, step
        return None  # mypy wants to see it

    def put(self, scene: RankScene, *, step: str, measured: Measured) -> None:
        """Do nothing."""


@dataclass(slots=True, kw_only=True)
class RankedScene:
    """One scene of a ranking."""

    scene: RankScene
    status: Status = Status.OK
    reason: str | None = None
    """Why it has no value."""

    measured: Measured | None = None
    place: Place | None = None
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0
    """Wall time of measuring it, at all levels."""

    was_kept: bool = False
    """Whether all that was needed of it came from an earlier ranking."""

    step: int | None = 0
    """Which of its levels it was measured at, 0 for the coarsest; None for full resolution."""

    @property
    def value(self) -> float:
        """Its statistic; NaN if it has none."""
        return math.nan if self.measured is None else self.measured.value

    @property
    def error(self) -> float:
        """Its standard error; infinite if unknown."""
        return math.inf if self.measured is None else self.measured.error

    @property
    def is_final(self) -> bool:
        """Whether it cannot be read any finer."""
        return self.measured is None or self.measured.level is None


class Wanted(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Rounds:
    """Decides what is read next. Statistics that are kept are taken, and not read."""

    request: RankingRequest
    kept: KeptStatistics

    def wanted(self, ranked: Sequence[RankedScene]) -> list[Wanted]:
        """Return what the next round has to read; nothing if the ranking is decided."""
        while found := self._next(ranked):
            unknown = [each for each in found if not self._is_kept(each)]
            if unknown:
                return unknown
        return []

    def keep(self, ranked: RankedScene) -> None:
        """Keep what a scene showed at the level that it was read at."""
        if ranked.measured is None:
            return
        self.kept.put(ranked.scene, step=self._name_of(ranked.step), measured=ranked.measured)
        if ranked.step is not None and ranked.measured.level is None:
            self.kept.put(ranked.scene, step=self._name_of(None), measured=ranked.measured)

    def ordered(self, ranked: Sequence[RankedScene]) -> list[RankedScene]:
        """Return all scenes in their order, those without a value last."""
        self._place(ranked)
        for each in ranked:
            if each.measured is not None and each.is_final and not each.measured.n_pixels:
                each.reason = "no pixel of the area has data that the mask keeps"
        return sorted(ranked, key=_in_order)

    def _next(self, ranked: Sequence[RankedScene]) -> list[Wanted]:
        first_step = 0 if self.request.precision.kind in ("bound", "coarse") else None
        unread = [
            Wanted(each, first_step) for each in ranked if each.measured is None and each.status is Status.OK
        ]
        return unread or [Wanted(each, _finer(each)) for each in self._to_refine(ranked)]

    def _to_refine(self, ranked: Sequence[RankedScene]) -> list[RankedScene]:
        """Return the scenes to be read at their next level; those that nothing is known of come first."""
        self._place(ranked)
        precision = self.request.precision
        if precision.kind != "bound":
            return []
        unknown = [
            each
            for each in ranked
            if not each.is_final and not (math.isfinite(each.error) and math.isfinite(each.value))
        ]
        if unknown:
            return unknown
        errors = [each.error for each in ranked]
        found = undecided(
            [each.place for each in ranked], errors, top=self.request.top, bound=precision.bound
        )
        return [ranked[at] for at in found if not ranked[at].is_final]

    def _place(self, ranked: Sequence[RankedScene]) -> None:
        descending = self.request.order == "desc"
        found = places(
            [each.value for each in ranked], [each.error for each in ranked], descending=descending
        )
        for each, place in zip(ranked, found, strict=True):
            each.place = place

    def _is_kept(self, wanted: Wanted) -> bool:
        """Take what is kept of a scene at a level. Return whether there is something."""
        ranked, step = wanted
        kept = self.kept.get(ranked.scene, step=self._name_of(step))
        if kept is None:
            return False
        ranked.was_kept = ranked.measured is None or ranked.was_kept
        ranked.step, ranked.measured = step, kept
        return True

    def _name_of(self, step: int | None) -> str:
        """Return what kept statistics call a step."""
        if step is not None:
            return f"step {step}"
        return "exact" if self.request.precision.step == 1 else f"every {self.request.precision.step}"


def _finer(ranked: RankedScene) -> int:
    """Return the step after that of a scene."""
    assert ranked.step is not None  # noqa: S101 # at full resolution there is nothing finer
    return ranked.step + 1


def _in_order(ranked: RankedScene) -> tuple[int, int]:
    if ranked.place is not None:
        return 0, ranked.place.rank
    return (1, 0) if ranked.measured is not None else (2, 0)
