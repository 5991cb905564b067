"""Counts the sources of a gather that are done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask


@dataclass(slots=True, kw_only=True)
class Progress:
    """Progress of a gather: numbers of sources and bytes so far."""

    n_sources: int
    n_done: int = 0
    n_failed: int = 0
    fetched_nbytes: int = 0


@dataclass(slots=True, kw_only=True)
class SourceCounter:
    """Counts each source once, though its window may be read in several strips."""

    plan: CubePlan
    on_progress: Callable[[Progress], None]
    progress: Progress
    n_parts: int = 0
    """Number of sources that are done. Each strip of a source counts."""

    failed: set[int] = field(default_factory=set)
    """Positions of the failed sources. Only used if sources are read in several strips."""

    def skip(self, task: ShardTask) -> None:
        """Count a shard that an earlier run has committed. Slots without a source count as well."""
        n_parts = task.n_rows * len(self.plan.slots)
        if self.plan.reduction is not None:  # nobody has counted the sources of these rows
            n_parts = round(task.n_rows * self.progress.n_sources / self.plan.n_rows)
        self._add_parts(n_parts)

    def note(self, row: int, slot: int, outcome: Outcome) -> None:
        """Count a source or one strip of it."""
        self._add_parts(int(outcome.status is not Status.ABSENT))
        if outcome.status.is_failure:
            if self.plan.n_strips == 1:
                self.progress.n_failed += 1
            else:
                self.failed.add(row * len(self.plan.slots) + slot)
                self.progress.n_failed = len(self.failed)
        self.progress.fetched_nbytes += outcome.cost.nbytes
        self.on_progress(self.progress)

    def _add_parts(self, n: int) -> None:
        self.n_parts += n
        self.progress.n_done = min(self.n_parts // self.plan.n_strips, self.progress.n_sources)
