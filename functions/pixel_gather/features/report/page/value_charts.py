"""Draws the values of each measurement: their histogram, and their mean with its spread along the cube."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import MAX_EXACT
from pixel_gather.core.results.report_content import (
    MOST_DRAWN,
    ArrayScaling,
    Coverage,
    Evidence,
    Look,
    Series,
)
from pixel_gather.features.report.page.coverage_charts import share_in_words
from pixel_gather.io.pictures.chart import (
    SIDE,
    Chart,
    dot_marks,
    drawn_in_words,
    line_marks,
    number_ticks,
    path,
    runs,
    time_ticks,
    whole_ticks,
)
from pixel_gather.io.pictures.classes import PixelClass, count_classes, legend_of
from pixel_gather.io.pictures.stretch import number_in_words, range_in_words

_N_BINS: Final = 48
_ENDS: Final = (0.5, 99.5)
_SPREAD: Final = (10, 90)
_ROOM: Final = 0.06
_LEAST_ROOM: Final = 1e-12
"""Share of a large number that its neighbours of float64 are nearer than."""

_MOST_NAMED_ROWS: Final = 4
_CLASSES: Final = "classes"

type Numbers = np.ndarray[Any, np.dtype[Any]]


class ValuesView(Struct, frozen=True, kw_only=True):
    """The values of one measurement."""

    name: str
    unit: str
    histogram: Chart | None
    through: Chart | None
    said: str = ""
    """The values in words, if they are too few for a chart, and what no chart can show."""


def values_of(evidence: Evidence) -> tuple[ValuesView, ...]:
    """Return the charts of measurements that have pictures or statistics, or their means in words.

    Only the first `MOST_DRAWN` measurements are looked at.
    """
    series = {each.measurement: each for each in evidence.series}
    looks = {each.measurement: each for each in evidence.looks}
    found = []
    for name in evidence.report.measurements[:MOST_DRAWN]:
        look, its = looks.get(name), series.get(name)
        scaling = ArrayScaling() if look is None else look.scaling
        classes = () if look is None else _classes_of(look)
        if look is not None and classes:
            found.append(_values_of_classes(look, classes))
            continue
        histogram = None if look is None else _histogram(look)
        through = None if its is None else _through(its, evidence.coverage, look, scaling)
        said = "" if histogram or through or its is None else _mean_in_words(_scale_values(its.mean, scaling))
        if its is not None and its.n_infinite:
            rows = counted(its.n_infinite, "row")
            said = f"{said} The mean of {rows} is infinite, and is not drawn: a pixel is infinite.".strip()
        if histogram or through or said:
            unit = scaling.unit or ("raw values" if scaling == ArrayScaling() else "scaled values")
            found.append(ValuesView(name=name, unit=unit, histogram=histogram, through=through, said=said))
    return tuple(found)


def note_of(values: Sequence[ValuesView], *, n_measurements: int, of_first: bool) -> str:
    """Return what the charts of a page are of, in words; nothing about charts that it does not have.

    Args:
        values: The charts.
        n_measurements: Measurements of the cube.
        of_first: Whether only the rows of the cube's first gather have quicklooks.
    """
    charts = [each.through for each in values if each.through]
    whose = ", which are of the first gather" if of_first else ""
    most = f"the first {MOST_DRAWN} of {n_measurements:,} measurements"
    notes = {
        f"Charts are of {most}, because one page cannot hold so many.": n_measurements > MOST_DRAWN,
        f"Histograms are of the quicklooks' pixels{whose}.": any(each.histogram for each in values),
        "Behind each mean lies the middle 80 % of its quicklook's pixels.": any(
            each.has_spread for each in charts
        ),
        "Rows that were not read are gaps.": any(each.has_line for each in charts),
    }
    return " ".join(note for note, holds in notes.items() if holds)


def _mean_in_words(mean: Numbers) -> str:
    known = mean[np.isfinite(mean)]
    if not len(known):
        return ""
    low, high = range_in_words(float(known.min()), float(known.max()))
    return f"Mean {low}." if len(known) == 1 else f"Means from {low} to {high}."


def _classes_of(look: Look) -> tuple[PixelClass, ...]:
    quicklooks = look.quicklooks
    found = count_classes(look.measurement, quicklooks.pixels, quicklooks.is_valid, meaning=look.meaning)
    return legend_of(found)


def _values_of_classes(look: Look, classes: tuple[PixelClass, ...]) -> ValuesView:
    """Return the share of each class in all pixels, and in each quicklook."""
    said = f"most pixels are {classes[0].name} ({share_in_words(classes[0].share)})"
    width = SIDE / len(classes)
    bars = "".join(
        f'<path class="share" style="fill: {each.colour}" d="M{(n + 0.1) * width:.1f} {SIDE}'
        f'v{-each.share / classes[0].share * SIDE:.1f}h{0.8 * width:.1f}V{SIDE}z"/>'
        for n, each in enumerate(classes)
    )
    shares = Chart(
        title="Shares",
        said=f"Shares of the classes of {look.measurement}: {said}",
        marks=bars,
        x_ticks=(),
        legend=tuple((each.colour, f"{each.name}: {share_in_words(each.share)}") for each in classes),
        note=f"{said[0].upper()}{said[1:]}.",
    )
    return ValuesView(
        name=look.measurement, unit=_CLASSES, histogram=shares, through=_shares_through(look, classes)
    )


def _shares_through(look: Look, classes: tuple[PixelClass, ...]) -> Chart | None:
    """Return one bar for each quicklook, in order, divided by the shares of its classes."""
    quicklooks = look.quicklooks
    n = len(quicklooks.rows)
    if n < 2:  # noqa: PLR2004 # one is in the sheet
        return None
    below = np.zeros(n)
    n_valid = quicklooks.is_valid.sum(axis=(1, 2))
    marks = []
    for each in classes:
        of_class = (quicklooks.pixels == each.value) & quicklooks.is_valid if each.value is not None else None
        counts = n_valid * (1 - below) if of_class is None else of_class.sum(axis=(1, 2))
        share = np.divide(counts, n_valid, out=np.zeros(n), where=n_valid > 0)
        bars = "".join(
            f"M{(at + 0.06) / n * SIDE:.1f} {(1 - below[at]) * SIDE:.1f}v{-share[at] * SIDE:.1f}"
            f"h{0.88 / n * SIDE:.1f}v{share[at] * SIDE:.1f}z"
            for at in np.flatnonzero(share > 0)
        )
        marks.append(f'<path class="share" style="fill: {each.colour}" d="{bars}"/>')
        below = below + share
    at = np.unique(np.linspace(0, n - 1, min(n, _MOST_NAMED_ROWS)).round().astype("int64"))
    return Chart(
        title="Shares in each window",
        said=f"Shares of the classes of {look.measurement} in each of {n} windows",
        marks="".join(marks),
        x_ticks=tuple(((index + 0.5) / n, look.frames[index].label[:10]) for index in at.tolist()),
        y_ticks=((0.0, "0%"), (0.5, "50%"), (1.0, "100%")),
    )


def _histogram(look: Look) -> Chart | None:
    quicklooks = look.quicklooks
    values = _scale_values(quicklooks.pixels[quicklooks.is_valid], look.scaling)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = (float(each) for each in np.percentile(values, _ENDS))
    if not low < high:
        low, high = float(values.min()), float(values.max())
    if not low < high:
        low, high = low - _room_beside(low), high + _room_beside(high)
    if not np.isfinite(high - low):
        return None
    counts, _ = np.histogram(values, _edges(low, high, is_whole=quicklooks.pixels.dtype.kind in "iub"))
    tallest = max(int(counts.max()), 1)
    width = SIDE / len(counts)
    bars = "".join(
        f"M{n * width:.1f} {SIDE}v{-count / tallest * SIDE:.1f}h{width:.1f}V{SIDE}z"
        for n, count in enumerate(counts.tolist())
        if count
    )
    median = float(np.median(values))
    half = (
        f"half of them from {number_in_words(float(np.percentile(values, 25)))} "
        f"to {number_in_words(float(np.percentile(values, 75)))}"
    )
    return Chart(
        title="Values",
        said=f"Histogram of {look.measurement}: median {number_in_words(median)}, {half}",
        marks=f'<path class="valid" d="{bars}"/>',
        x_ticks=number_ticks(low, high, most=4),
        note=f"Median {number_in_words(median)}, {half}.",
    )


def _room_beside(value: float) -> float:
    """Return how far a chart of one value reaches to each side of it."""
    return max(0.5, abs(value) * _LEAST_ROOM)


def _edges(low: float, high: float, *, is_whole: bool) -> Numbers:
    """Return the edges of bins. For whole numbers, each bin has equally many of them."""
    if not is_whole or high - low > 20 * _N_BINS or max(-low, high) > MAX_EXACT:
        return np.linspace(low, high, _N_BINS + 1)
    width = max(1.0, np.ceil((high - low + 1) / _N_BINS))
    first = np.floor(low) - 0.5
    return np.arange(first, high + width + 0.5, width)


def _through(series: Series, coverage: Coverage, look: Look | None, scaling: ArrayScaling) -> Chart | None:
    """Return the means along the cube, and behind them the middle eight tenths of each quicklook's pixels."""
    mean = _scale_values(series.mean, scaling)
    if np.isfinite(mean).sum() < 2:  # noqa: PLR2004 # a line has two ends
        return None
    at = coverage.at.astype("float64")
    start, stop = float(at[0]), float(at[-1])
    if start == stop:
        return None
    x = (at - start) / (stop - start)
    spread = _spread(look, coverage, scaling)
    known = np.concatenate([mean[np.isfinite(mean)], spread[np.isfinite(spread)]])
    low, high = float(known.min()), float(known.max())
    room = (high - low) * _ROOM or _room_beside(low)
    low, high = low - room, high + room
    if not np.isfinite(high - low):
        return None

    def up(values: Numbers) -> Numbers:
        return (values - low) / (high - low)

    # a row of a long cube may have no quicklook, which is no gap
    in_band = np.isfinite(spread[0]) | ~np.isfinite(mean)
    has_line = not (at[1:] == at[:-1]).any()  # of several places: it would lead from one to the next
    has_spread = bool(has_line and np.isfinite(spread).any())
    if has_line:
        marks = [_band(x[in_band], up(spread[:, in_band])), *line_marks(x, up(mean))]
    else:
        marks = [dot_marks(x, up(mean))]
    several = "" if has_line else "Rows of one time are dots above each other."
    what = "time" if coverage.has_time else "the rows"
    ends = range_in_words(float(np.nanmin(mean)), float(np.nanmax(mean)))
    return Chart(
        title=f"Mean through {what}",
        said=f"Mean of {series.measurement} through {what}, from {ends[0]} to {ends[1]}",
        marks="".join(marks),
        x_ticks=time_ticks(int(start), int(stop)) if coverage.has_time else whole_ticks(start, stop),
        y_ticks=number_ticks(low, high, most=3),
        note=" ".join(filter(None, (several, drawn_in_words(len(x), "mean")))),
        has_line=has_line,
        has_spread=has_spread,
    )


def _spread(look: Look | None, coverage: Coverage, scaling: ArrayScaling) -> Numbers:
    """Return percentiles 10 and 90 of the pixels of each row that has a quicklook, shape (2, row)."""
    found = np.full((2, len(coverage.rows)), np.nan)
    if look is None:
        return found
    place = {int(row): index for index, row in enumerate(coverage.rows)}
    quicklooks = look.quicklooks
    for row, pixels, is_valid in zip(quicklooks.rows, quicklooks.pixels, quicklooks.is_valid, strict=True):
        values = pixels[is_valid]
        if len(values) and int(row) in place:
            found[:, place[int(row)]] = np.percentile(_scale_values(values, scaling), _SPREAD)
    return found


def _band(x: Numbers, spread: Numbers) -> str:
    """Return the area between two curves. A row that stands alone has a line."""
    drawn = []
    for start, stop in runs(np.isfinite(spread).all(axis=0)):
        low = list(zip(x[start:stop], spread[0, start:stop], strict=True))
        high = list(zip(x[start:stop], spread[1, start:stop], strict=True))
        drawn.append(path([*low, *reversed(high)]) + "Z")
    return f'<path class="spread" d="{"".join(drawn)}"/>'


def _scale_values(values: Numbers, scaling: ArrayScaling) -> Numbers:
    reals = np.abs(values) if values.dtype.kind == "c" else values
    return np.asarray(reals, dtype="float64") * scaling.scale + scaling.offset
