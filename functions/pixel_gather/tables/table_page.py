"""A table of points or zones as one self-contained HTML page.

It shows which times have how many values, their spread, some features' series, a map of the last values, what
failed and why, and what the requests cost.
"""

import os
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.estimate.pricing import USD_PER_GET
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.shown import linked
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.check_file_name import check_file_name
from pixel_gather.core.request.href_policy import path_here
from pixel_gather.core.time_range import format_moment
from pixel_gather.io.pictures.chart import (
    Chart,
    across,
    line_marks,
    named_with_unit,
    number_ticks,
    path,
    ticks_across,
    whole_ticks,
    with_room,
    with_unit,
)
from pixel_gather.io.pictures.page_style import html_page, write_html
from pixel_gather.io.pictures.stretch import number_in_words, range_in_words, viridis
from pixel_gather.tables.base_table import BaseTable
from pixel_gather.tables.drawn_table import DrawnTable, Floats, read_drawn
from pixel_gather.tables.table_receipt import table_path

_MOST_ON_LINES: Final = 6
_MOST_FAILED: Final = 50
_MOST_FAR: Final = 5
_MAP_WIDTH, _MARGIN = 960, 10
_REACH: Final = 10
"""How far the map reaches beyond the box of the middle half of all features, in lengths.

The length is the longer side of that box, or the median size of a feature if that is larger.
"""

_TURN: Final = 360

_WIDEST: Final = 0.0125
"""Share of the axis that a bar takes at most."""

_COLOURS: Final = ("vermilion", "green", "purple", "brown", "text", "muted")
_REASONS: Final = {
    "nodata": "the image has no data there",
    "masked": "the mask drops the data",
    "outside": "the feature lies on no image",
    "unread": "the feature may lie on an image that could not be read",
    "unmatched": "no image is near in time",
    "empty": "the feature has no coordinates",
    "no_area": "the feature is a point or a line",
}
"""Of lines whose status is all that the table says."""

_STYLE: Final = """
.drawing { height: 12.5rem; }
.map { display: block; width: 100%; max-height: 70vh; border: 1px solid var(--figure-grid); }
.drawing .one { stroke-width: 1.2; } .drawing .line { stroke-width: 2.4; }
.shape { stroke: var(--figure-axis); stroke-width: 1; vector-effect: non-scaling-stroke; }
.none { fill: var(--figure-grid); }
.map circle { r: 6px; }
@media (max-width: 40rem) { .map circle { r: 13px; } }
.wide + .wide { margin-top: 1.5rem; }
td.text { min-width: 12rem; overflow-wrap: anywhere; } figure { margin: 1rem 0 1.5rem; }
"""


@check_arguments
def write_table_page(table: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
    """Write the page of a table that `points` or `zones` has written.

    Args:
        table: The Parquet file, with the two others beside it.
        to: The page, a local file. It is replaced.

    Raises:
        RequestError: As `pixel_gather.open_table`, or ``to`` is on S3 or the name of another kind of file.
        StoreError: The table cannot be read, or the page not be written.
    """
    page = path_here(to, "to", said="the page is")
    check_file_name(page.name, what="the page", kind="HTML", field="to")
    write_html(table_page(table_path(table)), page)


def table_page(table: Path) -> str:
    """Return the page; see `write_table_page`."""
    base = BaseTable.open_(table, with_features=True)
    drawn = read_drawn(table, base)
    receipt = base.receipt
    title = f"{table.stem}: {counted(receipt['lines'], 'line')}"
    units = receipt.get("units", {})
    charts = "".join(_series(drawn, name, units.get(name, "")) for name in drawn.names)
    n_requests = sum(each.n_requests for each in base.records)
    nbytes = sum(each.nbytes for each in base.records)
    statuses = ", ".join(f"{n:,} {name}" for name, n in receipt["statuses"].items())
    drawn_of = "" if drawn.step == 1 else f" Drawn is one feature in {drawn.step:,}."
    content = (
        f"<p>{counted(receipt['n_features'], 'feature')} on {counted(receipt['n_images'], 'image')}: "
        f"{escape(statuses)}.{drawn_of}</p>\n"
        f"<h2>Coverage in time</h2>{_coverage(drawn)}"
        f"<h2>Series</h2>{charts}"
        f"<h2>Last values</h2>{_map(drawn, units.get(drawn.names[0], ''))}"
        f"<h2>What has no value</h2>{_describe_failures(drawn, base)}"
        f"<h2>Price</h2><p>The images took {counted(n_requests, 'request')} and {size(nbytes)}. "
        f"On S3, in the Region of the images, such requests cost ${n_requests * USD_PER_GET:.6f}.</p>\n"
    )
    return html_page(content, title=title, style=_STYLE)


def _coverage(drawn: DrawnTable) -> str:
    """Return a bar for each time: how many features have a value."""
    if not len(drawn.times):
        return "<p>No line has a time.</p>"
    has_value = np.any([np.isfinite(each) for each in drawn.values.values()], axis=0)
    times = np.unique(drawn.times)
    at = np.searchsorted(times, drawn.times)
    n = len(drawn.ids)
    pairs = np.unique((at * n + drawn.feature)[has_value])
    counts = np.bincount(pairs // n, minlength=len(times))
    width = min(_WIDEST, 0.8 / len(times))
    bars = []
    for x, count, time in zip(across(times), counts.tolist(), times, strict=True):
        left, right = x * (1 - width), x * (1 - width) + width
        bar = path([(left, 0), (left, count / n), (right, count / n), (right, 0)])
        title = f"{format_moment(int(time))}: {count:,} of {n:,}"
        bars.append(f'<path class="valid" d="{bar}Z"><title>{title}</title></path>')
    fewest, most = int(counts.min()), int(counts.max())
    have = f"{fewest:,} to {most:,}" if fewest < most else f"{most:,}"
    said = f"{counted(len(times), 'time')}, with values of {have} of {counted(n, 'feature')}"
    chart = Chart(
        title="",
        said=said,
        marks="".join(bars),
        x_ticks=ticks_across(times),
        y_ticks=whole_ticks(0, n, most=4),
        note=f"{said}.",
    )
    return f"{chart.html(3)}\n"


def _series(drawn: DrawnTable, name: str, unit: str) -> str:
    """Return the spread of one value over all features, and the lines of some of them."""
    values = drawn.values[name]
    known = np.isfinite(values)
    if not known.any():
        return f"<p>{escape(name)} has no value with a time.</p>"
    order = np.argsort(drawn.times[known], kind="stable")
    times, of_time = drawn.times[known][order], values[known][order]
    unique, starts = np.unique(times, return_index=True)
    parts = np.split(of_time, starts[1:])
    low, middle, high = (np.array([np.quantile(each, q) for each in parts]) for q in (0.1, 0.5, 0.9))
    chosen = _chosen(drawn, known)
    shown = known & np.isin(drawn.feature, chosen)
    least = min(float(low.min()), float(values[shown].min()))
    most = max(float(high.max()), float(values[shown].max()))
    bottom, top = with_room(least, most)

    def up(each: Floats) -> Floats:
        return (each - bottom) / (top - bottom)

    xs = across(unique)
    edge = [*zip(xs, up(high), strict=True), *reversed(list(zip(xs, up(low), strict=True)))]
    marks = [f'<path class="spread" d="{path(edge)}Z"/>', line_marks(xs, up(middle))[0]]
    legend = [("valid", "all features")]
    whole = dict(zip(unique.tolist(), xs.tolist(), strict=True))
    for number, feature in enumerate(chosen):
        own = np.flatnonzero(known & (drawn.feature == feature))
        own = own[np.argsort(drawn.times[own], kind="stable")]
        at = [whole[each] for each in drawn.times[own].tolist()]
        points = list(zip(at, up(values[own]).tolist(), strict=True))
        colour = f"var(--figure-{_COLOURS[number % len(_COLOURS)]})"
        dots = "".join(f"{path([each])}h0" for each in points)
        marks.append(f'<path class="one" style="stroke: {colour}" d="{path(points)}"/>')
        marks.append(f'<path class="dots" style="stroke: {colour}" d="{dots}"/>')
        legend.append((colour, str(drawn.ids[feature])))
    ends = dict.fromkeys(range_in_words(float(of_time.min()), float(of_time.max())))
    said = f"{name}, {with_unit(' to '.join(ends), unit)}"
    chart = Chart(
        title=named_with_unit(name, unit),
        said=said,
        marks="".join(marks),
        x_ticks=ticks_across(unique),
        y_ticks=number_ticks(bottom, top, most=4),
        legend=tuple(legend),
        note=f"{said}. Drawn are the median of all features with their 10 % to 90 %, "
        f"and {counted(len(chosen), 'feature')} of them.",
    )
    return f"{chart.html(3)}\n"


def _chosen(drawn: DrawnTable, known: np.ndarray[Any, Any]) -> list[int]:
    """Return the features whose lines are drawn: spread evenly over those with a value."""
    counts = np.bincount(drawn.feature[known], minlength=len(drawn.ids))
    some = np.flatnonzero(counts)
    at = np.unique(np.linspace(0, len(some) - 1, _MOST_ON_LINES).round().astype(int))
    return [int(each) for each in some[at]]


def _points(xs: Floats, ys: Floats) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))


def _map(drawn: DrawnTable, unit: str) -> str:
    """Return the features, each in the colour of its last value."""
    import shapely  # noqa: PLC0415 # as above

    there = np.array([each is not None and not each.is_empty for each in drawn.shapes])
    if not there.any():
        return "<p>No feature has a place.</p>"
    shapes = drawn.shapes.copy()
    if drawn.is_geographic:
        shapes[there] = _east_of_each_other(shapes[there])
    far = np.zeros(len(there), bool)
    far[there] = _lie_far(shapely.bounds(shapes[there]))
    there &= ~far
    last, times = _last(drawn, drawn.values[drawn.names[0]])
    has_value = there & np.isfinite(last)
    known = last[has_value]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    west, south, east, north = shapely.total_bounds(shapes[there])
    squeeze = np.cos(np.radians((south + north) / 2)) if drawn.is_geographic else 1.0
    across, up = (east - west) * squeeze, north - south
    longest = max(across, up * 1.2)
    scale = (_MAP_WIDTH - 4 * _MARGIN) / longest if longest else 0.0
    width = max(across * scale, 8 * _MARGIN) + 4 * _MARGIN if longest else _MAP_WIDTH
    height = max(up * scale, 8 * _MARGIN) + 4 * _MARGIN
    left, top = (width - across * scale) / 2, (height - up * scale) / 2
    marks = []
    for shape, value, index in zip(shapes[there], last[there], np.flatnonzero(there), strict=True):
        share = 0.5 if high == low else (value - low) / (high - low)
        fill = "" if not np.isfinite(value) else f' fill="#{viridis(share).tobytes().hex()}"'
        look = "shape" if fill else "shape none"
        said = with_unit(number_in_words(value), unit) if fill else "no value"
        title = f"<title>{escape(str(drawn.ids[index]))}: {said}</title>"
        rings = [
            _points(
                left + (ring[:, 0] - west) * squeeze * scale,
                top + (north - ring[:, 1]) * scale,
            )
            for ring in _rings(shape, up / 500)
        ]
        if shape.geom_type in {"Point", "MultiPoint"}:
            marks += [
                f'<circle class="{look}"{fill} cx="{x}" cy="{y}">{title}</circle>'
                for x, y in (each.split(",") for ring in rings for each in ring.split())
            ]
        else:
            outline = "".join(f"M{ring.replace(' ', 'L')}Z" for ring in rings)
            marks.append(f'<path class="{look}" fill-rule="evenodd"{fill} d="{outline}">{title}</path>')
    name, (lowest, highest) = drawn.names[0], range_in_words(low, high)
    highest = escape(with_unit(highest, unit))
    colours = (
        f'{lowest}<span class="bar viridis" role="img" aria-label="Colour bar from {lowest} to {highest}">'
        f"</span>{highest}"
    )
    bar = (
        f'<div class="scale"><span class="limits">{escape(name)} {colours if low < high else highest}</span>'
        f'<span class="note">{_days_in_words(times[has_value])}; grey: no value</span></div>'
        if len(known)
        else "<p>No feature has a value with a time.</p>"
    )
    said = f"{counted(len(marks), 'shape')}, coloured by the last value of {name}"
    place = (
        f"longitude {west:.4f} to {east - _TURN * (east > _TURN / 2):.4f}, latitude {south:.4f} to "
        f"{north:.4f}"
        if drawn.is_geographic
        else f"x {west:,.0f} to {east:,.0f}, y {south:,.0f} to {north:,.0f} in the CRS of the features"
    )
    return (
        f'<figure>{bar}<svg class="map" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(said)}">{"".join(marks)}</svg>'
        f"<figcaption>North is above: {place}.{_far_in_words(drawn, far)}</figcaption></figure>\n"
    )


def _east_of_each_other(shapes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return shapes on both sides of the antimeridian as neighbours: those in the west move by a turn."""
    import shapely  # noqa: PLC0415 # as above

    ends = shapely.bounds(shapes)[:, [0, 2]]
    in_west = ends[:, 1] < 0
    if np.ptp(ends + _TURN * in_west[:, None]) >= np.ptp(ends):
        return shapes
    moved: np.ndarray[Any, Any] = shapes.copy()
    moved[in_west] = shapely.transform(shapes[in_west], lambda each: each + np.array([_TURN, 0]))
    return moved


def _lie_far(bounds: Floats) -> np.ndarray[Any, Any]:
    """Return which features lie so far from the middle half of all that a map would show a dot of these."""
    middles = (bounds[:, :2] + bounds[:, 2:]) / 2
    low, high = np.quantile(middles, (0.25, 0.75), axis=0)
    usual = np.median(bounds[:, 2:] - bounds[:, :2], axis=0)
    reach = _REACH * max((high - low).max(), usual.max())
    apart = np.maximum(low - middles, middles - high).max(axis=1)
    far: np.ndarray[Any, Any] = (apart > reach) & (reach > 0)
    return far


def _far_in_words(drawn: DrawnTable, far: np.ndarray[Any, Any]) -> str:
    """Return how many features the map leaves out, and the first of them; empty if it shows all."""
    n = int(far.sum())
    if not n:
        return ""
    names = [str(drawn.ids[index]) for index in np.flatnonzero(far)[:_MOST_FAR]]
    more = [f"{n - len(names):,} more"] if n > len(names) else []
    return f" {counted(n, 'feature')} far from the others left out: {escape(', '.join([*names, *more]))}."


def _days_in_words(times: np.ndarray[Any, Any]) -> str:
    days = (format_moment(int(each))[:10] for each in (times.min(), times.max()))
    return " to ".join(dict.fromkeys(days))


def _last(drawn: DrawnTable, values: Floats) -> tuple[Floats, np.ndarray[Any, Any]]:
    """Return the last value of each feature, NaN if it has none, and its time, 0 if it has none."""
    found: Floats = np.full(len(drawn.ids), np.nan)
    times = np.zeros(len(drawn.ids), drawn.times.dtype)
    known = np.flatnonzero(np.isfinite(values))
    known = known[np.argsort(drawn.times[known], kind="stable")]
    found[drawn.feature[known]] = values[known]
    times[drawn.feature[known]] = drawn.times[known]
    return found, times


def _rings(shape: Any, tolerance: float) -> list[Floats]:
    import shapely  # noqa: PLC0415 # as above

    simple = shape.simplify(tolerance / 4)
    parts = shapely.get_parts(simple)
    if parts[0].geom_type != "Polygon":
        return [np.asarray(shapely.get_coordinates(each)) for each in parts]
    return [np.asarray(ring.coords)[:, :2] for each in parts for ring in (each.exterior, *each.interiors)]


def _describe_failures(drawn: DrawnTable, base: BaseTable) -> str:
    """Return the lines without a value by their reason, and the images that could not be read."""
    lines = [
        f'<tr><td>{escape(status)}</td><td class="n">{n:,}</td><td class="text">'
        f"{escape(reason or _REASONS.get(status, ''))}</td></tr>"
        for (status, reason), n in drawn.failed.most_common(_MOST_FAILED)
    ]
    images = [each for each in base.records if each.status != "ok"]
    rows = [
        f'<tr><td class="text">{linked(each.scene, next(iter(each.hrefs), None))}</td>'
        f'<td>{each.status}</td><td class="text">{escape(each.reason or "")}</td>'
        f'<td class="n">{each.tries}</td></tr>'
        for each in images[:_MOST_FAILED]
    ]
    left = len(images) - len(rows)
    return (
        (_table("Lines", ("status", "lines", "reason"), lines) if lines else "<p>Each line has a value.</p>")
        + (_table("Images", ("image that was not read", "status", "reason", "tries"), rows) if rows else "")
        + (f"<p>{left:,} more.</p>" if left else "")
    )


def _table(label: str, head: tuple[str, ...], rows: list[str]) -> str:
    titles = "".join(f"<th{' class=n' if each in {'lines', 'tries'} else ''}>{each}</th>" for each in head)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label} without a value"><table>'
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>\n"
    )
