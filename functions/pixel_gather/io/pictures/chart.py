"""A small chart of a page. Its marks are an SVG that is as wide as the reader's window.

The marks lie in a square of 1,000 units, which the page stretches. All text stands beside it as HTML, so it
keeps its size on a telephone.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from math import ceil, floor, log10
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.time_range import format_moment

SIDE: Final = 1000
"""Side of the square in which marks are drawn. y points down."""

_MOST_MARKED: Final = 100
_MOST_POINTS: Final = 400

_STEPS: Final = (1, 2, 5, 10)
_MOST_TIME_TICKS: Final = 6
_MOST_DAYS: Final = 4
"""The longest labels."""

_LABEL: Final = 0.018
"""Share of an axis that a letter takes, in the narrowest chart of a wide page."""

_DIGIT_REM: Final = 0.47
_USUAL: Final = 6
"""Letters for which every chart has room on the left."""

_AT_EDGE: Final = 0.08
"""Labels that lie nearer to an end of the axis are moved inwards."""

_APART: Final = 0.3
"""Two labels at this distance do not touch on a telephone. Of three and more, every other one is left out."""

_MOST_DIGITS: Final = 5
"""Numbers with more digits behind the point have an exponent, if that tells them apart."""

_LONG: Final = 1e9
"""So have those at steps of this size."""

_TIME_STEPS: Final = (
    *(("h", step) for step in (1, 3, 6, 12)),
    *(("D", step) for step in (1, 2, 5, 10)),
    *(("M", step) for step in (1, 2, 3, 6)),
    *(("Y", step) for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
_LENGTHS: Final = {
    "h": np.timedelta64(1, "h"),
    "D": np.timedelta64(1, "D"),
    "M": np.timedelta64(30, "D"),
    "Y": np.timedelta64(365, "D"),
}

_ROOM: Final = 0.06
"""Share of the values' span that is left free below and above them."""

type Numbers = np.ndarray[Any, np.dtype[Any]]

type Tick = tuple[float, str]
"""Place along an axis, 0 to 1, and its label."""


class Chart(Struct, frozen=True, kw_only=True):
    """One chart."""

    title: str
    """Above it. Empty if something else says it there."""

    said: str
    """What it shows, in words, for those who cannot see it."""

    marks: str
    """Content of the ``<svg>``: numbers and names of classes alone."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    """Name of the CSS class, or the colour itself, and text of each colour."""

    note: str = ""
    has_line: bool = False
    """Whether a line leads from value to value, with gaps."""

    has_spread: bool = False
    """Whether a band lies behind that line."""

    def html(self, level: int) -> str:
        """Return the chart, whose title is a heading of this level. `page_style` says how it looks."""
        title = f"<h{level}>{escape(self.title)}</h{level}>" if self.title else ""
        said = f"{self.title}. {self.said}" if self.title else self.said
        rules = "".join(
            f'<span class="y rule" style="bottom: {100 * place:.2f}%"></span>'
            f'<span class="y tick" style="bottom: {100 * place:.2f}%">{escape(label)}</span>'
            for place, label in self.y_ticks
        )
        legend = "".join(
            f'<li><span class="swatch{_look(name)}"></span>{escape(said)}</li>' for name, said in self.legend
        )
        return (
            f'<figure class="chart{" has-y" if self.y_ticks else ""}"{self._room()}>{title}'
            f'<div class="drawing" role="img" aria-label="{escape(said)}">{rules}'
            f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" aria-hidden="true">'
            f"{self.marks}</svg>{self._labels()}</div>"
            f"{f'<ul class="legend">{legend}</ul>' if legend else ''}"
            f"{f'<figcaption>{escape(self.note)}</figcaption>' if self.note else ''}</figure>"
        )

    def _room(self) -> str:
        """Return the style of a chart whose labels on the left are longer than usual."""
        longest = max((len(label) for _, label in self.y_ticks), default=0)
        return f' style="--left: {longest * _DIGIT_REM + 0.4:.1f}rem"' if longest > _USUAL else ""

    def _labels(self) -> str:
        """Return the labels below. Those called spare are not seen on a telephone."""
        ticks = self.x_ticks
        is_roomy = len(ticks) == 2 and ticks[1][0] - ticks[0][0] > _APART  # noqa: PLR2004 # its ends
        found = []
        for index, (place, label) in enumerate(ticks):
            spare = " spare" if index % 2 and not is_roomy else ""
            edge = " at-start" if place < _AT_EDGE else " at-end" if place > 1 - _AT_EDGE else ""
            found.append(
                f'<span class="x tick{spare}{edge}" style="left: {100 * place:.2f}%">{escape(label)}</span>'
            )
        return "".join(found)


def _look(name: str) -> str:
    """Return the end of a swatch's class, or its colour."""
    is_class = name.isalpha()
    return f" {name}" if is_class else f'" style="background: {escape(name)}'


def number_ticks(low: float, high: float, *, most: int = 5) -> tuple[Tick, ...]:
    """Return round numbers between two values, with as few digits as tell them apart.

    There are ``most`` and one more, or two where this is a single one.
    """
    if not low < high:
        return ()
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    steps = [each * power for each in (0.2, 0.5, *_STEPS)]
    size = next(n for n, each in enumerate(steps) if each >= rough * 0.999)
    while True:
        step = steps[size]
        first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
        if last > first or not size:
            break
        size -= 1
    digits = max(0, -floor(log10(step) + 1e-9))
    values = [n * step for n in range(first, last + 1)]
    short = [f"{each:.3g}" for each in values]
    if (digits > _MOST_DIGITS and len(set(short)) == len(short)) or step >= _LONG:
        labels = short
    else:
        labels = [f"{each:,.{digits}f}" for each in values]
    return tuple(((each - low) / (high - low), label) for each, label in zip(values, labels, strict=True))


def whole_ticks(low: float, high: float, *, most: int = 5) -> tuple[Tick, ...]:
    """Return whole numbers between two values: of the ticks, or all of them where those have fractions."""
    found = number_ticks(low, high, most=most)
    if any("." in label for _, label in found):
        return tuple(((n - low) / (high - low), f"{n:,}") for n in range(ceil(low), floor(high) + 1))
    return found


def time_ticks(start_us: int, stop_us: int) -> tuple[Tick, ...]:
    """Return beginnings of hours, days, months or years between two times, six at most, and two at least."""
    start, stop = (np.datetime64(int(each), "us") for each in (start_us, stop_us))
    finer: tuple[Tick, ...] = ()
    for unit, step in _TIME_STEPS:
        most = _MOST_DAYS if unit == "D" else _MOST_TIME_TICKS
        length = (stop - start) / _LENGTHS[unit] / step
        if length > 2 * most:
            continue
        found = _time_ticks(start, stop, unit, step)
        if length > most:
            finer = found
        else:
            return found if len(found) > 1 or len(found) >= len(finer) else finer
    return ()


def _time_ticks(start: Any, stop: Any, unit: str, step: int) -> tuple[Tick, ...]:
    """Return the beginnings of units whose labels do not touch."""
    first_us, span = int(start.astype("int64")), max(int((stop - start).astype("int64")), 1)
    found: list[Tick] = []
    kept: list[datetime] = []
    for each in _moments(start, stop, unit, step):
        place = (int(each.astype("int64")) - first_us) / span
        label = _in_words(each.item(), unit)
        if not found or _extent(place, label)[0] > _extent(*found[-1])[1]:
            found.append((place, label))
            kept.append(each.item())
    if unit == "h" and len(kept) > 1 and not any(each.hour for each in kept):  # days, which have a year
        return tuple((place, _in_words(each, "D")) for (place, _), each in zip(found, kept, strict=True))
    return tuple(found)


def _extent(place: float, label: str) -> tuple[float, float]:
    """Return where a label begins and ends, with some room."""
    width = (len(label) + 1) * _LABEL
    left = place if place < _AT_EDGE else place - width if place > 1 - _AT_EDGE else place - width / 2
    return left, left + width


def _moments(start: Any, stop: Any, unit: str, step: int) -> list[Any]:
    """Return the beginnings of units between two times whose number is a multiple of the step."""
    after = stop.astype(f"datetime64[{unit}]") + np.array(1, f"timedelta64[{unit}]")
    every = np.arange(start.astype(f"datetime64[{unit}]"), after)
    number = every.astype("int64")
    if unit == "Y":
        number += 1970
    elif unit == "D":
        number = (every - every.astype("datetime64[M]")).astype("int64")
        number = np.where((step > 1) & (number > 27), -1, number)  # noqa: PLR2004 # no 31st beside the 1st
    kept = every[number % step == 0].astype("datetime64[us]")
    return [each for each in kept if start <= each <= stop]


def _in_words(moment: datetime, unit: str) -> str:
    words = {"Y": f"{moment:%Y}", "M": f"{moment:%b %Y}", "D": f"{moment.day} {moment:%b %Y}"}
    return words.get(unit, f"{moment.day} {moment:%b %H:%M}")


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the path through some points, in shares of the square. y points up."""
    return "M" + "L".join(f"{x * SIDE:.1f} {(1 - y) * SIDE:.1f}" for x, y in points)


def runs(is_known: "np.ndarray[Any, np.dtype[np.bool_]]") -> Iterator[tuple[int, int]]:
    """Yield start and stop of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_known, [False]]).astype("int8")))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def across(times_us: Numbers) -> Numbers:
    """Return where times lie along the axis, in shares of the square. A single time lies in the middle."""
    first, last = int(times_us.min()), int(times_us.max())
    found: Numbers = (times_us - first) / (last - first) if last > first else np.full(len(times_us), 0.5)
    return found


def ticks_across(times_us: Numbers) -> tuple[Tick, ...]:
    """Return the ticks of an axis of these times; the day of a single time."""
    first, last = int(times_us.min()), int(times_us.max())
    return time_ticks(first, last) if last > first else ((0.5, format_moment(first)[:10]),)


def with_room(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis: with a little room below and above the values, also if they are equal."""
    room = (high - low) * _ROOM or abs(high) * _ROOM or 0.5
    return low - room, high + room


def line_marks(x: Numbers, y: Numbers) -> list[str]:
    """Return a line through values that are finite, and dots on few of them or on those that stand alone.

    Args:
        x: Places along the axis, in shares of the square.
        y: Heights, in the same; NaN where the line breaks.
    """
    every = _every(len(x))
    shown_x, shown_y = x[::every], y[::every]
    is_known = np.isfinite(shown_y)
    lines = "".join(
        path(list(zip(shown_x[start:stop], shown_y[start:stop], strict=True)))
        for start, stop in runs(is_known)
    )
    alone = [start for start, stop in runs(is_known) if stop - start == 1]
    dotted = np.flatnonzero(is_known) if is_known.sum() <= _MOST_MARKED else np.array(alone, dtype="int64")
    dots = "".join(f"{path([(shown_x[n], shown_y[n])])}h0" for n in dotted)
    return [f'<path class="line" d="{lines}"/>', f'<path class="dots" d="{dots}"/>']


def dot_marks(x: Numbers, y: Numbers) -> str:
    """Return a dot on each value that is finite, or on as few of them as `line_marks` draws."""
    every = _every(len(x))
    points = zip(x[::every], y[::every], strict=True)
    dots = "".join(f"{path([point])}h0" for point in points if np.isfinite(point[1]))
    return f'<path class="dots" d="{dots}"/>'


def with_unit(value: str, unit: str) -> str:
    """Return a value and its unit; the value alone if the unit is empty."""
    return f"{value} {unit}".rstrip()


def named_with_unit(name: str, unit: str) -> str:
    """Return a name and its unit in brackets; the name alone if the unit is empty."""
    return f"{name} ({unit})" if unit else name


def drawn_in_words(n: int, name: str) -> str:
    """Return how many of ``n`` values `line_marks` draws; empty if it draws all."""
    every = _every(n)
    return "" if every == 1 else f"One {name} in {every:,} is drawn."


def _every(n: int) -> int:
    return -(-n // _MOST_POINTS)
