"""Counts the sources of a gather that are done, and shows it in a notebook."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.plurals import counted, size
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


_EVERY_S: Final = 0.25
"""A notebook draws no more often."""


class NotebookProgress:
    """Shows in a notebook how far a gather is: a bar below the cell, renewed four times a second.

    Pass an instance as ``on_progress``, one for each call: ``gather(..., on_progress=NotebookProgress())``.
    IPython is needed, which every notebook has.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        self._handle: Any = None
        self._began = time.monotonic()
        self._shown = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show the numbers, unless others have just been shown. The last ones always are."""
        now = time.monotonic()
        is_last = progress.n_done >= progress.n_sources
        if self._handle is not None and not is_last and now - self._shown < _EVERY_S:
            return
        from IPython.display import HTML, display  # noqa: PLC0415 # of the notebook

        self._shown = now
        html: Any = HTML(_bar(progress, now - self._began))
        if self._handle is None:
            self._handle = display(html, display_id=True)
        else:
            self._handle.update(html)


def _bar(progress: Progress, elapsed_s: float) -> str:
    failed = f", {progress.n_failed:,} failed" if progress.n_failed else ""
    said = (
        f"{progress.n_done:,} of {counted(progress.n_sources, 'source')}{failed}, "
        f"{size(progress.fetched_nbytes)}, {elapsed_s:,.0f} s"
    )
    ends = f'max="{max(progress.n_sources, 1)}" value="{progress.n_done}"'
    return f'<progress {ends} aria-label="{said}"></progress> {said}'
