"""One look for all figures: a theme's colours, ticks, legends, and files as SVG and PNG. Reproducible.

A figure is drawn once for each theme. In a page, the light one takes the colours of the page.
"""

import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, Final, override

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    ScalarFormatter,
)
from msgspec import Struct
from msgspec.structs import asdict

from pixel_gather.features.report.findings import plain_number
from pixel_gather.features.report.page import Plot
from pixel_gather.io.pictures.theme import DARK, LIGHT, PREFIX, Theme

type AxesGrid = np.ndarray[Any, np.dtype[np.object_]]
type Line = str | tuple[int, tuple[float, ...]]

WIDTH_IN: Final = 10.0
"""Width of a figure in inches. A page shows 96 pixels per inch."""

MARKERS: Final = ("o", "s", "^", "v", "P")
LINES: Final[tuple[Line, ...]] = (
    "solid", (0, (6, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (1, 1)),
)  # fmt: skip
"""Line styles of matplotlib, so that series differ by more than colour."""

TEXT_PT: Final = 9.0
NOTE_PT: Final = 8.0
_PNG_DPI: Final = 192
_LONG_COUNT: Final = 9_999
_MOST_TICKS: Final = 8
_LOG_ROOM: Final = 1.25
_DISTINCT: Final = 1.05
"""Ticks of values whose ratio is less would touch."""

_CLOSE: Final = 1.5
"""Ticks nearer to each other than this factor would overlap."""

_MOST_ERROR: Final = 0.01
"""Of a tick's number, as a share of the distance to the next one."""

_MOST_DIGITS: Final = 16

_NOTE_CHARACTERS: Final = 170
"""Characters in one line of a note under a figure."""

_FOR_ALL_ELEMENTS: Final = re.compile(r"\s*<defs>\s*<style[^>]*>\*\{([^}]*)\}</style>\s*</defs>")


class Drawn(Struct, frozen=True, kw_only=True):
    """A figure that is ready to be written."""

    figure: Figure
    title: str
    """Plain text without names from outside."""

    caption: str
    """What the figure shows and how it was measured. Plain text."""


@contextmanager
def drawn_in(theme: Theme) -> Iterator[None]:
    """Have matplotlib draw and write in the colours of a theme."""
    with mpl.rc_context(_settings(theme)):
        yield


def _settings(theme: Theme) -> dict[Any, Any]:
    return {
        "figure.facecolor": theme.background,
        "figure.edgecolor": "none",
        "axes.facecolor": theme.background,
        "axes.axisbelow": True,
        "axes.edgecolor": theme.axis,
        "axes.grid": True,
        "axes.linewidth": 0.8,
        "axes.labelcolor": theme.muted,
        "axes.labelsize": TEXT_PT,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": theme.text,
        "axes.titlelocation": "left",
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titley": 1.0,
        "figure.titlesize": TEXT_PT,
        "figure.labelsize": NOTE_PT,
        "grid.color": theme.grid,
        "grid.linewidth": 0.8,
        "legend.edgecolor": theme.grid,
        "legend.fancybox": False,
        "legend.fontsize": NOTE_PT,
        "legend.framealpha": 0.9,
        "legend.handlelength": 2.4,
        "legend.labelcolor": theme.text,
        "text.color": theme.text,
        "xtick.color": theme.axis,
        "xtick.labelcolor": theme.muted,
        "xtick.labelsize": TEXT_PT,
        "ytick.color": theme.axis,
        "ytick.labelcolor": theme.muted,
        "ytick.labelsize": TEXT_PT,
        "svg.fonttype": "none",
        "svg.hashsalt": "pixel-gather",
        "font.family": ["sans-serif"],
        # matplotlib measures text with its own DejaVu, at least as wide as a page's fallback fonts
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    }


def new_figure(n_rows: int, n_columns: int, *, height_in: float) -> tuple[Figure, AxesGrid]:
    """Return a figure as wide as a page, and its axes, shape (n_rows, n_columns), which do not overlap."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes: AxesGrid = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, axes


def finish_axes(ax: Axes, *, title: str, x_label: str, y_label: str) -> None:
    """Set titles and labels after drawing. An axis of plain numbers gets ticks such as ``1,200``."""
    ax.set_title(title, loc="left")
    ax.set(xlabel=x_label, ylabel=y_label)
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter) and axis.get_scale() == "linear":
            axis.set_major_formatter(_LinearFormatter())


class _LinearFormatter(FuncFormatter):
    """Writes numbers without an exponent, with as many digits as the distance of the ticks needs."""

    def __init__(self) -> None:
        super().__init__(lambda value, _: plain_number(value))

    @override
    def format_ticks(self, values: Sequence[float]) -> list[str]:
        words = [plain_number(each) for each in values]
        steps = np.diff(np.unique(values))
        error = _MOST_ERROR * steps.min() if len(steps) else np.inf
        for digits in range(4, _MOST_DIGITS):
            if all(
                abs(float(word.replace(",", "")) - each) <= error
                for word, each in zip(words, values, strict=True)
            ):
                break
            words = [f"{each:,.{digits}g}" for each in values]
        return words


_PLAIN: Final = FuncFormatter(lambda value, _: plain_number(value))
"""Of logarithmic axes, whose ticks are far apart as factors."""


def say_not_counted(ax: Axes, theme: Theme) -> None:
    """Say in an empty panel that its bytes were not counted. Not every reader can."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, "not counted", transform=ax.transAxes, ha="center", color=theme.muted)


def whole_ticks(axis: Axis, *, longest: int = 0) -> None:
    """Put ticks at whole numbers only; fewer ticks where the longest number is long."""
    axis.set_major_locator(MaxNLocator(nbins=3 if longest > _LONG_COUNT else 6, integer=True))


def mark_powers(ax: Axes, values: "Sequence[float] | np.ndarray[Any, Any]") -> None:
    """Make the horizontal axis logarithmic, with ticks at powers of two and room at both ends.

    If the values hold fewer than two powers of two, the ticks are at the least and the greatest value. The
    values are 1 or more.
    """
    ax.set_xscale("log", base=2)
    first, last = min(values), max(values)
    powers = 2.0 ** np.arange(np.floor(np.log2(first)), np.ceil(np.log2(last)) + 1)
    if ((powers >= first) & (powers <= last)).sum() <= 1:
        powers = np.array([first, last] if last > _DISTINCT * first else [first])
    _put_log_ticks(ax.xaxis, FixedLocator(list(powers[:: -(-len(powers) // _MOST_TICKS)])))
    ax.set_xlim(first / _LOG_ROOM, last * _LOG_ROOM)


def log_ticks(axis: Axis, values: Sequence[float] | None = None) -> None:
    """Write plain numbers at a logarithmic axis: at these values, unless they touch, or at round ones."""
    kept: list[float] = []
    for value in sorted(set(values or ())):
        if not kept or value > kept[-1] * _CLOSE:
            kept.append(value)
    _put_log_ticks(axis, FixedLocator(kept) if kept else LogLocator(subs=(1, 2, 5)))


def _put_log_ticks(axis: Axis, locator: FixedLocator | LogLocator) -> None:
    axis.set_minor_locator(NullLocator())
    axis.set_major_locator(locator)
    axis.set_major_formatter(_PLAIN)


def legend_below(figure: Figure, handles: Sequence[Artist], *, n_columns: int = 5) -> None:
    """Add one legend for all axes, below them."""
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=min(n_columns, len(handles)),
        fontsize=TEXT_PT,
        frameon=False,
    )


def legend_above(figure: Figure, ax: Axes, *, last: str = "") -> None:
    """Show the labels of one of the axes above all of them. The label ``last`` is put at the end."""
    entries = sorted(zip(*ax.get_legend_handles_labels(), strict=True), key=lambda each: each[1] == last)
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="outside upper center", ncols=len(entries), frameon=False)


def head(figure: Figure, text: str, theme: Theme) -> None:
    """Write above the axes which run they show."""
    figure.suptitle(text, x=0.008, ha="left", color=theme.muted)


def note_below(figure: Figure, text: str, theme: Theme) -> None:
    """Write a few lines under all axes."""
    lines = "\n".join(fill(line, _NOTE_CHARACTERS, break_on_hyphens=False) for line in text.splitlines())
    figure.supxlabel(lines, x=0.01, ha="left", color=theme.muted, linespacing=1.4)


def draw_bars(
    ax: Axes,
    names: Sequence[str],
    values: Sequence[float | None],
    theme: Theme,
    *,
    is_best: Callable[[Sequence[float]], float],
    missing: str,
) -> None:
    """Draw a bar with its number for each value, the best one coloured; ``missing`` where there is none.

    Where values differ by more than a factor of ten, the axis is logarithmic, with dots instead of bars.
    """
    known = [value for value in values if value is not None]
    is_wide = bool(known) and min(known) > 0 and max(known) > _SPREAD * min(known)
    lowest = min(known, default=1.0) / 2 if is_wide else 0.0
    for row, value in enumerate(values):
        if value is None:
            ax.text(lowest, row, f" {missing}", va="center", fontsize=NOTE_PT, color=theme.muted)
            continue
        colour = theme.blue if value == is_best(known) else theme.quiet
        if is_wide:  # a bar's length would say nothing
            ax.plot([lowest, value], [row, row], color=theme.grid, linewidth=2)
            ax.plot(value, row, "o", color=colour, markersize=8)
        else:
            ax.barh(row, value, height=0.62, color=colour)
        ax.text(value, row, f"   {plain_number(float(f'{value:.3g}'))}", va="center", fontsize=NOTE_PT)
    highest = max(known, default=1.0)
    if is_wide:
        ax.set_xscale("log")
        log_ticks(ax.xaxis)
        ax.set_xlim(lowest, highest * (highest / lowest) ** 0.22)
    else:
        ax.set_xlim(0, highest * _ROOM_FOR_NUMBERS or 1)  # also if the clock saw no time pass
        ax.xaxis.set_major_formatter(_PLAIN)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")


_SPREAD: Final = 10
_ROOM_FOR_NUMBERS: Final = 1.35


def draw_star(ax: Axes, x: float, y: float, theme: Theme, *, label: str | None, colour: str) -> None:
    """Mark a default; a large star where it has a label."""
    ax.plot(
        x,
        y,
        label=label,
        color=colour,
        marker="*",
        markersize=10 if label is None else 15,
        markeredgecolor=theme.background,
        linestyle="none",
        zorder=5,
    )


@contextmanager
def _writing(figure: Figure) -> Iterator[None]:
    with drawn_in(LIGHT), warnings.catch_warnings():
        # for names in other scripts, pages find fonts and PNGs show boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        engine = figure.get_layout_engine()
        if engine is not None:  # once: matplotlib would place the axes anew each time that it writes
            engine.execute(figure)
            figure.set_layout_engine(None)
        yield


def to_svg(figure: Figure) -> str:
    """Return a figure as an ``<svg>`` element, without XML declaration, to stand in a page or a file.

    Its ids are like those of no other figure, its style touches nothing beside it, and it refers to nothing
    outside itself.
    """
    written = io.StringIO()
    with _writing(figure):
        # no date and no address, so that equal figures are equal files
        figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    if rule := _FOR_ALL_ELEMENTS.search(svg):  # it would apply to the whole page
        svg = svg.replace(rule[0], "", 1).replace("<svg ", f'<svg style="{rule[1]}" ', 1)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    # hundredths of a point halve the file, and nobody sees the difference
    svg = re.sub(
        r'(?<= )(d|x|y|width|height|transform)="[^"]*"',
        lambda attribute: re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0]),
        svg,
    )
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>f{zlib.crc32(svg.encode()):08x}-", svg)


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG with 192 pixels per inch."""
    written = io.BytesIO()
    with _writing(figure):
        figure.savefig(written, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    return written.getvalue()


def put_in_both_themes(draw: Callable[[Theme], Figure], folder: Path, name: str) -> None:
    """Write ``name.png`` and ``name.svg``. Dark ones are called ``name-dark``."""
    for theme, suffix in ((LIGHT, ""), (DARK, "-dark")):
        with drawn_in(theme):
            put_figure(draw(theme), folder, f"{name}{suffix}")


def put_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write ``name.png`` and ``name.svg``."""
    (folder / f"{name}.png").write_bytes(to_png(figure))
    (folder / f"{name}.svg").write_text(to_svg(figure), encoding="utf-8")


def make_plots(drawn: Mapping[str, Drawn]) -> tuple[Plot, ...]:
    """Return figures of the light theme as parts of a page, in the same order."""
    return tuple(
        Plot(name=name, title=each.title, caption=each.caption, svg=themed_svg(to_svg(each.figure)))
        for name, each in drawn.items()
    )


def themed_svg(svg: str) -> str:
    """Replace the colours of ``LIGHT`` in an SVG by the CSS variables of the page around it."""
    names = {colour: name for name, colour in asdict(LIGHT).items()}
    colours = re.compile(f'(?<=: )({"|".join(names)})(?=[;"])', re.IGNORECASE)
    return colours.sub(lambda colour: f"var({PREFIX}{names[colour[1].lower()]})", svg)
