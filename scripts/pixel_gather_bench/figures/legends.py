"""What the figures of all benchmarks share: legend, note, logarithmic ticks, files in both themes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from pixel_gather.features.report.findings import plain_number
from pixel_gather.io.pictures.theme import DARK, LIGHT, Theme
from pixel_gather_bench.figures.axes import NOTE_PT
from pixel_gather_bench.figures.files import put_figure

_CLOSE: Final = 1.5
"""Ticks nearer to each other than this factor would overlap."""

_NOTE_CHARACTERS: Final = 170
"""Characters in one line of a note under a figure."""


def put_in_both_themes(draw: Callable[[Theme], Figure], folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg`` and return them. Dark ones are called ``name-dark``."""
    return [*put_figure(draw(LIGHT), folder, name), *put_figure(draw(DARK), folder, f"{name}-dark")]


def legend_above(figure: Figure, ax: Axes, theme: Theme, *, last: str = "") -> None:
    """Show the labels of one of the axes above all of them. The label ``last`` is put at the end."""
    entries = sorted(zip(*ax.get_legend_handles_labels(), strict=True), key=lambda each: each[1] == last)
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=len(entries),
        fontsize=NOTE_PT,
        labelcolor=theme.text,
        frameon=False,
        handlelength=2.6,
    )


def note_below(figure: Figure, text: str, theme: Theme) -> None:
    """Write a few lines under all axes."""
    lines = "\n".join(fill(line, _NOTE_CHARACTERS, break_on_hyphens=False) for line in text.splitlines())
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=NOTE_PT, color=theme.muted, linespacing=1.4)


def log_ticks(axis: Axis, values: Sequence[float], *, only_these: bool = False) -> None:
    """Write plain numbers at a logarithmic axis.

    Args:
        axis: Its scale is logarithmic.
        values: What is drawn along it.
        only_these: Have ticks at those values, as far as they do not overlap, rather than at round numbers.
    """
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_major_locator(FixedLocator(_apart(values)) if only_these else LogLocator(subs=(1, 2, 5)))


def _apart(values: Sequence[float]) -> list[float]:
    kept: list[float] = []
    for value in sorted(set(values)):
        if not kept or value > kept[-1] * _CLOSE:
            kept.append(value)
    return kept
