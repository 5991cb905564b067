"""Tells which report files lie beside a cube's arrays. Imports nothing that draws."""

import asyncio
from pathlib import Path
from typing import Final

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.io.store.object_store import Store

REPORT_KEY: Final = "report.json"
TEXT_KEY: Final = "report.txt"
PAGE_KEY: Final = "report.html"
VIEW_KEY: Final = "view.html"
PREVIEW_KEY: Final = "preview.webp"
"""The picture that ``view.html`` shows until it has read the cube."""

PAGE_KEYS: Final = (VIEW_KEY, PREVIEW_KEY, PAGE_KEY, TEXT_KEY, REPORT_KEY)
"""What is written beside a cube after it is complete. Each has a checksum of its own."""


class WrittenReport(Struct, frozen=True, kw_only=True):
    """Which of a cube's report files exist."""

    has_figures: bool
    """``report.json``, for programs."""

    has_page: bool
    """``report.html``, for people."""


async def look_for_report(store: Store) -> WrittenReport:
    """Look which report files exist. A file counts as missing if the store does not answer."""
    has_figures, has_page = await asyncio.gather(_exists(store, REPORT_KEY), _exists(store, PAGE_KEY))
    return WrittenReport(has_figures=has_figures, has_page=has_page)


async def _exists(store: Store, key: str) -> bool:
    try:
        await obstore.head_async(store, key)
    except (BaseError, OSError):
        return False
    return True


BUILT_PAGE: Final = Path(__file__).parent / "view.html"
"""``scripts/viewer`` has its source. ``scripts/build_viewer.py`` builds it. docs/view.md describes it."""


def view_page() -> bytes:
    """Return ``view.html``, which is the same for every cube, and reads it by range requests."""
    return BUILT_PAGE.read_bytes()
