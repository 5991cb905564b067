"""Shows in a notebook how far work is."""

import time
from typing import Any, Final

from pixel_gather.core.model.plurals import counted
from pixel_gather.in_process.progress import Progress

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
        f"{progress.fetched_nbytes / 1e6:,.1f} MB, {elapsed_s:,.0f} s"
    )
    ends = f'max="{max(progress.n_sources, 1)}" value="{progress.n_done}"'
    return f'<progress {ends} aria-label="{said}"></progress> {said}'
