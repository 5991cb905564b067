"""Renders the page: one HTML file that needs no other files."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.results.report_content import Evidence
from pixel_gather.core.results.run_table import COLUMNS_ABREAST, TableRow, summary_rows, table_rows
from pixel_gather.core.results.timed_run import RunColumn
from pixel_gather.features.report.page.place_map import MapView, map_of, map_of_cubes
from pixel_gather.features.report.page.sentence import happened_in_words
from pixel_gather.features.report.page.views import view_of
from pixel_gather.io.pictures.page_style import page_style
from pixel_gather.version import __version__

_FOLDER: Final = Path(__file__).parent / "templates"
_MOST_SHEETS: Final = 12
"""Most contact sheets in one comparison, and most cubes on its map."""


class Plot(Struct, frozen=True, kw_only=True):
    """One figure of a page."""

    name: str
    title: str
    caption: str
    svg: str
    """An ``<svg>`` element in the page's colours. Its text is escaped."""


def page_of(
    evidence: Evidence,
    *,
    columns: Sequence[RunColumn],
    plots: Sequence[Plot] = (),
    findings: Sequence[str],
    viewer: str | None = None,
) -> str:
    """Return the page of one gather.

    The first column is that of the gather. The viewer is the page beside it that shows the cube's pixels.
    """
    return _render(
        title=evidence.name,
        columns=columns,
        plots=plots,
        findings=findings,
        gathers=[view_of(evidence, with_film=True)],
        is_one=True,
        n_left_out=0,
        viewer=viewer,
        map=_map(evidence),
    )


def _map(evidence: Evidence) -> MapView | None:
    if evidence.footprints is None:
        return None
    report = evidence.report
    return map_of(
        evidence.footprints,
        evidence.source_footprints,
        is_aligned=report.is_aligned or not report.n_read,
        n_sources=report.n_sources,
    )


def comparison_of(
    evidences: Sequence[Evidence],
    *,
    title: str,
    columns: Sequence[RunColumn],
    plots: Sequence[Plot] = (),
    findings: Sequence[str],
) -> str:
    """Return the page of several runs side by side.

    Of those that made cubes, the first twelve are shown: their contact sheet, or why they have none. The map
    has the first twelve with a place on the Earth.
    """
    placed = [(each.footprints, each.source_footprints) for each in evidences if each.footprints is not None]
    return _render(
        title=title,
        columns=columns,
        plots=plots,
        findings=findings,
        gathers=[view_of(each, with_film=False) for each in evidences[:_MOST_SHEETS]],
        is_one=False,
        n_left_out=max(len(evidences) - _MOST_SHEETS, 0),
        viewer=None,
        map=map_of_cubes(placed[:_MOST_SHEETS]) if placed else None,
    )


def _render(*, title: str, columns: Sequence[RunColumn], **content: Any) -> str:
    summary = summary_rows(columns) if len(columns) > COLUMNS_ABREAST else None
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            title=title,
            summary=summary,
            tables=_tables(columns),
            style=Markup(page_style() + (_FOLDER / "page.css").read_text(encoding="utf-8")),  # noqa: S704 # our own files
            script=Markup(script),  # noqa: S704 # our own file
            script_hash=_hash_of(script),
            version=__version__,
            **content,
        )
    )


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"shown_href": shown_href, "happened": happened_in_words}
    return templates


def _hash_of(script: str) -> str:
    """Return the hash by which the content security policy allows the page's script."""
    return f"sha256-{base64.standard_b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _tables(columns: Sequence[RunColumn]) -> list[dict[str, Any]]:
    """Return all columns, divided into tables that fit the page's width."""
    rows = table_rows(columns)
    starts = range(0, len(columns), COLUMNS_ABREAST)
    return [
        {
            "heads": [column.name for column in columns[start : start + COLUMNS_ABREAST]],
            "rows": [_group_parts(row, start) for row in rows],
        }
        for start in starts
    ]


def _group_parts(row: TableRow, start: int) -> dict[str, Any]:
    """Return a row for the template, which indents parts of the line above."""
    cells = row.cells[start : start + COLUMNS_ABREAST]
    return {"label": row.label.strip(), "is_part": row.label.startswith(" "), "cells": cells}
