"""Shows a finished gather in a notebook: its first picture and what it took."""

import logging
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from pixel_gather.core.model.band_meaning import BandMeaning, true_colour
from pixel_gather.core.results.report import Report
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:
    from pixel_gather.io.pictures.pictures import Channel, Rgba

_log: Final = logging.getLogger(__name__)

_LEFT: Final = 'style="text-align: left"'
_SIDE: Final = "width: 16rem; image-rendering: pixelated; border: 1px solid #8888"


def notebook_html(open_store: Callable[[], Store], report: Report, *, place: str, page: str | None) -> str:
    """Return a picture and a table. There is no picture where quicklooks or Pillow are missing.

    Args:
        open_store: Opens the store at the cube's root. May fail.
        report: Report of the gather.
        place: The cube, as the user wrote it.
        page: Its report; None if there is none.
    """
    rows = "".join(
        f"<tr><th {_LEFT}>{escape(name)}</th><td {_LEFT}>{escape(value)}</td></tr>"
        for name, value in _facts(report, place, page)
    )
    return (
        '<div style="display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start">'
        f"{_picture(open_store, report.measurements)}<table>{rows}</table></div>"
    )


def _facts(report: Report, place: str, page: str | None) -> Iterator[tuple[str, str]]:
    n_rows, height, width = report.shape
    yield "cube", place
    yield "shape", f"{n_rows:,} rows of {height:,} x {width:,} pixels"
    named = zip(report.measurements, report.dtypes, strict=True)
    yield "measurements", ", ".join(f"{name} ({dtype})" for name, dtype in named)
    yield "sources read", f"{report.status_counts.get('ok', 0):,} of {report.n_sources:,}"
    yield "failed", f"{report.n_failed:,}"
    yield "wall time", f"{report.wall_s:,.2f} s"
    if page is not None:
        yield "report", page
    yield "all pixels", f".view(), or in a terminal: pixel-gather view {place}"


def _picture(open_store: Callable[[], Store], measurements: Sequence[str]) -> str:
    """Return the first window as an image, in colours where measurements are red, green and blue.

    It is a comfort, so no failure is raised: the cube may have been moved since, or its store may be away.
    """
    try:
        return _drawn(open_store(), measurements)
    except Exception:  # noqa: BLE001 # see above
        _log.debug("the first picture could not be drawn", exc_info=True)
        return ""


def _drawn(store: Store, measurements: Sequence[str]) -> str:
    from pixel_gather.features.report.cube_pictures import quicklooks_in  # noqa: PLC0415
    from pixel_gather.io.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # 0.3 s, as the rest
    from pixel_gather.io.cube.scaling import meaning_of  # noqa: PLC0415
    from pixel_gather.io.pictures.pictures import Channel, picture_uri  # noqa: PLC0415

    group = open_foreign_group(store)
    meanings = {name: meaning_of(group[name]) for name in measurements}
    names = true_colour(meanings) or tuple(measurements[:1])
    is_abreast = getattr(group["status"], "ndim", 1) > 1
    slots = {name: measurements.index(name) if is_abreast else 0 for name in names}
    found = quicklooks_in(store, group, slots)
    rows = set.intersection(*({int(row) for row in each.rows} for each in found)) if found else set()
    if not rows:
        return ""
    at = [each.rows.tolist().index(min(rows)) for each in found]
    channels = [
        Channel(pixels=each.pixels[index], is_valid=each.is_valid[index])
        for each, index in zip(found, at, strict=True)
    ]
    uri = picture_uri(_painted(names, channels, meanings[names[0]]), is_lossless=True)
    said = escape(f"{', '.join(names)}, row {min(rows):,}")
    image = f'<img src="{uri}" alt="{said}" style="{_SIDE}">'
    return f'<figure style="margin: 0">{image}<figcaption>{said}</figcaption></figure>'


def _painted(names: Sequence[str], channels: "Sequence[Channel]", meaning: BandMeaning) -> "Rgba":
    from pixel_gather.io.pictures.classes import classes_of, painted_classes  # noqa: PLC0415
    from pixel_gather.io.pictures.pictures import painted  # noqa: PLC0415
    from pixel_gather.io.pictures.stretch import common_stretches  # noqa: PLC0415

    if len(channels) == 1:
        (channel,) = channels
        if classes := classes_of(names[0], channel.pixels, channel.is_valid, meaning=meaning):
            return painted_classes(channel.pixels, channel.is_valid, classes)
    stretches = common_stretches([each.pixels for each in channels], [each.is_valid for each in channels])
    return painted(channels, stretches)
