"""Draws what became of the sources along the cube: read with valid pixels, without, or failed and how."""

from typing import Any, Final

import numpy as np

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report_content import Coverage
from pixel_gather.io.pictures.chart import (
    SIDE,
    Chart,
    drawn_in_words,
    line_marks,
    time_ticks,
    whole_ticks,
)

_MOST_BARS: Final = 60
_BINS: Final = (
    *(("h", step) for step in (1, 6)),
    *(("D", step) for step in (1, 7)),
    *(("M", step) for step in (1, 3)),
    *(("Y", step) for step in (1, 5, 10, 50, 100, 500)),
)
_NAMES: Final = {"h": "hour", "D": "day", "M": "month", "Y": "year"}
_CLASSES: Final = {
    Status.MISSING: "missing",
    Status.CORRUPT: "corrupt",
    Status.UNLIKE: "unlike",
    Status.ABSENT: "absent",
}
"""Classes of frequent failures. All others share one."""

type Numbers = np.ndarray[Any, np.dtype[Any]]


def coverage_chart(coverage: Coverage) -> Chart | None:
    """Return bars along the cube, each as high as its number of sources; None for a cube of one row."""
    if len(coverage.at) < 2:  # noqa: PLR2004 # one row is said in words
        return None
    bins, edges, each = _bin_rows(coverage)
    n_bins = len(edges) - 1
    layers = _layers(coverage, bins, n_bins)
    heights = np.sum([counts for _, _, counts in layers], axis=0)
    tallest = float(heights.max())
    below = np.zeros(n_bins)
    marks = []
    widths = (edges[1:] - edges[:-1]) / (edges[-1] - edges[0])
    lefts = (edges[:-1] - edges[0]) / (edges[-1] - edges[0])
    gap = 0.12 / n_bins
    for name, _, counts in layers:
        bars = [
            f"M{(lefts[n] + gap) * SIDE:.1f} {(1 - below[n] / tallest) * SIDE:.1f}"
            f"h{max(widths[n] - 2 * gap, gap) * SIDE:.1f}v{-counts[n] / tallest * SIDE:.1f}"
            f"h{-max(widths[n] - 2 * gap, gap) * SIDE:.1f}z"
            for n in np.flatnonzero(counts > 0)
        ]
        marks.append(f'<path class="{name}" d="{"".join(bars)}"/>')
        below += counts
    x_ticks = (
        time_ticks(int(edges[0]), int(edges[-1]))
        if coverage.has_time
        else whole_ticks(float(edges[0]) - 0.5, float(edges[-1]) - 0.5)  # a row's number is below its middle
    )
    what = "image" if tallest <= 1 else "images"
    return Chart(
        title="Coverage through time" if coverage.has_time else "Coverage along the rows",
        said=f"{what} in each {each}: " + "; ".join(f"{said}" for _, said, _ in layers),
        marks="".join(marks),
        x_ticks=x_ticks,
        y_ticks=whole_ticks(0, tallest, most=3),
        legend=tuple((name, said) for name, said, _ in layers),
        note=f"One bar for each {each}, as high as its number of images.",
    )


def masked_chart(coverage: Coverage) -> Chart | None:
    """Return the share of hidden pixels along the cube; None without a mask, or for rows of one time."""
    share, at = coverage.masked_share, coverage.at
    if share is None or np.isfinite(share).sum() < 2 or at[0] == at[-1]:  # noqa: PLR2004 # a line has two ends
        return None
    start, stop = int(at[0]), int(at[-1])
    what = "time" if coverage.has_time else "the rows"
    low, high = (share_in_words(float(each)) for each in (np.nanmin(share), np.nanmax(share)))
    return Chart(
        title=f"Hidden by the mask through {what}",
        said=f"Share of the window's pixels that the mask hides through {what}, from {low} to {high}",
        marks="".join(line_marks((at - start) / (stop - start), share)),
        x_ticks=time_ticks(start, stop) if coverage.has_time else whole_ticks(start, stop),
        y_ticks=((0.0, "0%"), (0.5, "50%"), (1.0, "100%")),
        note=" ".join(filter(None, (f"From {low} to {high} of the window.", drawn_in_words(len(at), "row")))),
    )


def _layers(coverage: Coverage, bins: Numbers, n_bins: int) -> list[tuple[str, str, Numbers]]:
    """Return class, words and counts by bin of each part of the bars, from the bottom."""

    def summed(weights: Numbers) -> Numbers:
        return np.bincount(bins, weights=weights.sum(axis=1), minlength=n_bins)

    was_read = coverage.status == Status.OK
    share = np.where(was_read, coverage.valid_share, 0.0)
    n_read = int(was_read.sum())
    layers: list[tuple[str, str, Numbers]] = []
    if np.isnan(share).any():  # a gather that decodes nothing knows no shares
        layers.append(("valid", f"{n_read:,} read", summed(was_read.astype("float64"))))
    elif n_read:
        mean = float(share.sum()) / n_read
        layers.append(
            ("valid", f"{n_read:,} read, {share_in_words(mean)} of the pixels are valid", summed(share))
        )
        if mean < 1:
            layers.append(("invalid", "no data", summed(was_read - share)))
    others: list[tuple[str, int, Numbers]] = []
    for status in Status:
        has = coverage.status == status
        if status is Status.OK or not has.any():
            continue
        n = int(has.sum())
        if status in _CLASSES:
            said = "without a source" if status is Status.ABSENT else status_in_words(status)
            layers.append((_CLASSES[status], f"{n:,} {said}", summed(has.astype("float64"))))
        else:
            others.append((status_in_words(status), n, summed(has.astype("float64"))))
    if others:
        said = ", ".join(f"{n:,} {name}" for name, n, _ in others)
        layers.append(("otherwise", said, np.sum([counts for *_, counts in others], axis=0)))
    return layers


def _bin_rows(coverage: Coverage) -> tuple[Numbers, Numbers, str]:
    """Return the bin of each row, the edges of all bins, and what one bin is."""
    at = coverage.at
    if not coverage.has_time:
        return _binned_rows(at)
    times = at.astype("datetime64[us]")
    is_daily = len(np.unique(times.astype("datetime64[D]"))) == len(np.unique(times))
    for unit, step in _BINS[2 if is_daily else 0 :]:
        numbers = times.astype(f"datetime64[{unit}]").astype("int64") // step
        if numbers[-1] - numbers[0] < _MOST_BARS:
            break
    bins = numbers - numbers[0]
    edges = ((np.arange(bins[-1] + 2) + numbers[0]) * step).astype(f"datetime64[{unit}]")
    each = {7: "week"}.get(step, _NAMES[unit]) if step in (1, 7) else counted(step, _NAMES[unit])
    return bins, edges.astype("datetime64[us]").astype("int64").astype("float64"), each


def _binned_rows(rows: Numbers) -> tuple[Numbers, Numbers, str]:
    n_rows = int(rows[-1]) + 1
    width = -(-n_rows // _MOST_BARS)
    edges = np.append(np.arange(0, n_rows, width), n_rows).astype("float64")
    return rows // width, edges, "row" if width == 1 else f"{width:,} rows"


def share_in_words(share: float) -> str:
    """Return a share in percent. Only nothing is 0 %, and only all is 100 %."""
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(max(share, 0.001), 0.999):.1%}"


def status_in_words(status: Status) -> str:
    """Return a status as one says it of a source: ``timed out``."""
    return status.name.lower().replace("_", " ")
