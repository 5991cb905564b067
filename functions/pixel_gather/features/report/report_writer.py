"""Writes the pages of a finished cube: ``view.html``, which shows its pixels, and the report.

Reading and drawing need packages that take half a second to import and that few Lambda packages hold. They
are imported only when a report is written.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from pixel_gather.core.errors import DAMAGED_JSON, GatherError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.results.own_checksum import file_with_checksum
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.written_report import (
    PAGE_KEY,
    PREVIEW_KEY,
    REPORT_KEY,
    TEXT_KEY,
    VIEW_KEY,
    WrittenReport,
    look_for_report,
    view_page,
)
from pixel_gather.io.cube.zarr_metadata import is_of_chips
from pixel_gather.io.store.object_store import Store

_CONTENT_TYPES: Final = {
    REPORT_KEY: "application/json",
    TEXT_KEY: "text/plain; charset=utf-8",
    PAGE_KEY: "text/html; charset=utf-8",
    VIEW_KEY: "text/html; charset=utf-8",
    PREVIEW_KEY: "image/webp",
}


class Log(Protocol):
    """Takes the message when a report could not be written."""

    def warning(self, msg: str, *args: object) -> None:
        """Log a sentence."""

    def exception(self, msg: str, *args: object) -> None:
        """Log a sentence and the current exception."""


async def write_report(
    store: Store, *, place: str, usd_by_service: dict[str, float] | None, log: Log, draws: bool = True
) -> WrittenReport:
    """Try to write ``view.html`` and the report of a complete cube, and return which report files exist then.

    A failure is logged, not raised: the cube is complete without its report. The next caller who asks for the
    same gather tries again. A gather in process has no dollars. If nothing is drawn, only ``view.html`` is
    written. The log takes the message of a failure.
    """
    try:
        viewer = await _find_viewer(store)
        if viewer is not None:
            await _put(store, viewer, view_page())  # before the report, which links to it
        if draws:
            check_extra("report", "report pages", packages=("jinja2", "PIL"))
            await write_report_files(store, place=place, usd_by_service=usd_by_service, viewer=viewer)
    except (GatherError, BaseError, OSError) as error:  # for example a store that refuses to write
        said = str(error).partition("\n")[0]
        log.warning("the report of %s could not be written: %s; the cube is complete", place, said)
    except Exception:  # a defect in drawing must not fail a gather whose pixels are stored
        log.exception("the report of %s could not be drawn; the cube is complete", place)
    return await look_for_report(store)


async def _find_viewer(store: Store) -> str | None:
    """Return the page that shows the pixels; None for chips, which it does not know."""
    try:
        root = json.loads(bytes(await (await obstore.get_async(store, ROOT_KEY)).bytes_async()))
    except (FileNotFoundError, *DAMAGED_JSON):
        return VIEW_KEY
    return None if is_of_chips(root) else VIEW_KEY


async def write_report_files(
    store: Store,
    *,
    place: str,
    usd_by_service: Mapping[str, float] | None = None,
    viewer: str | None = VIEW_KEY,
) -> None:
    """Read a finished cube and put its report beside its arrays. Safe to repeat.

    Raises:
        StoreError: The cube cannot be read.
    """
    files = await asyncio.to_thread(_drawn_files, store, place, usd_by_service, viewer)
    for name, content in files.items():
        await _put(store, name, content)


def _drawn_files(
    store: Store, place: str, usd_by_service: Mapping[str, float] | None, viewer: str | None
) -> dict[str, bytes]:
    from pixel_gather.features.report.cube_evidence import read_evidence  # noqa: PLC0415 # see the module
    from pixel_gather.features.report.first_picture import preview_file  # noqa: PLC0415 # as above
    from pixel_gather.features.report.report_files import report_files_of  # noqa: PLC0415 # as above

    evidence = read_evidence(store, place=place, usd_by_service=usd_by_service)
    preview = preview_file(evidence.looks, evidence.report.measurements)
    first = {} if preview is None else {PREVIEW_KEY: preview}
    return first | report_files_of(evidence, viewer=viewer)


async def _put(store: Store, name: str, content: bytes) -> None:
    """Put a file with its checksum and its content type, which a browser needs.

    Local files have no content type.
    """
    types: Any = None if isinstance(store, LocalStore) else {"Content-Type": _CONTENT_TYPES[name]}
    content = file_with_checksum(name, content)
    await obstore.put_async(store, name, content, attributes=types, use_multipart=False)
