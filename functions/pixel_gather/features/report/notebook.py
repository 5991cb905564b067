"""Shows a finished gather in a notebook: its first picture and what it took."""

import logging
from collections.abc import Callable, Iterator, Sequence
from html import escape
from shlex import quote
from typing import Any, Final

from pixel_gather.core.model.shown import facts_table
from pixel_gather.core.results.report import Report
from pixel_gather.io.store.object_store import Store

_log: Final = logging.getLogger(__name__)

_SIDE: Final = "width: 16rem; image-rendering: pixelated; border: 1px solid #8888"


def notebook_html(open_store: Callable[[], Store], report: Report, *, place: str, page: str | None) -> str:
    """Return a picture and a table. There is no picture where quicklooks or Pillow are missing.

    Opening the store may fail.
    """
    return (
        '<div style="display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start">'
        f"{_picture(open_store, report.measurements)}{facts_table(_facts(report, place, page))}</div>"
    )


def _facts(report: Report, place: str, page: str | None) -> Iterator[tuple[str, str]]:
    n_rows, height, width = report.shape
    yield "cube", place
    yield "shape", f"{n_rows:,} rows of {height:,} x {width:,} pixels"
    named = zip(report.measurements, report.dtypes, strict=True)
    yield "measurements", ", ".join(f"{name} ({dtype})" for name, dtype in named)
    yield "sources read", f"{report.n_read:,} of {report.n_sources:,}"
    yield "failed", f"{report.n_failed:,}"
    yield "wall time", f"{report.wall_s:,.2f} s"
    if page is not None:
        yield "report", page
    yield "all pixels", f".view(), or in a terminal: pixel-gather view {quote(place)}"


def _picture(open_store: Callable[[], Store], measurements: Sequence[str]) -> str:
    """Return the first window as an image, in colours where measurements are red, green and blue.

    It is a comfort, so no failure is raised: the cube may have been moved since, or its store may be away.
    """
    try:
        return _draw_pictures(open_store(), measurements)
    except Exception:  # noqa: BLE001 # see above
        _log.debug("the first picture could not be drawn", exc_info=True)
        return ""


def _draw_pictures(store: Store, measurements: Sequence[str]) -> str:
    from pixel_gather.core.model.band_meaning import BandMeaning  # noqa: PLC0415
    from pixel_gather.features.report.cube_pictures import quicklooks_in  # noqa: PLC0415
    from pixel_gather.features.report.first_picture import bands_of_first_picture, first_picture_of  # noqa: PLC0415
    from pixel_gather.io.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # 0.3 s, as the rest
    from pixel_gather.io.cube.row_view import as_rows  # noqa: PLC0415 # zarr
    from pixel_gather.io.pictures.pictures import picture_uri  # noqa: PLC0415

    group = as_rows(open_foreign_group(store))
    arrays: dict[str, Any] = {name: group[name] for name in measurements}
    meanings = {name: BandMeaning.of_attributes(each.attrs) for name, each in arrays.items()}
    names = bands_of_first_picture(meanings)
    is_abreast = getattr(group["status"], "ndim", 1) > 1
    slots = {name: measurements.index(name) if is_abreast else 0 for name in names}
    found = first_picture_of(
        quicklooks_in(store, group, slots),
        meaning=meanings[names[0]],
        chunk_rows=arrays[names[0]].chunks[0],
    )
    if found is None:
        return ""
    said = escape(f"{', '.join(names)}, row {found.row:,}")
    image = f'<img src="{picture_uri(found.image, is_lossless=True)}" alt="{said}" style="{_SIDE}">'
    return f'<figure style="margin: 0">{image}<figcaption>{said}</figcaption></figure>'
