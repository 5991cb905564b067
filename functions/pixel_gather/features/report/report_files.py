"""Makes the report's files for programs, terminals and browsers. Does no I/O."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from pixel_gather.core.results.report import own_lines
from pixel_gather.core.results.report_content import Evidence
from pixel_gather.core.results.run_table import LABEL_WIDTH, run_columns, table_as_text
from pixel_gather.core.results.timed_run import Run, RunColumn
from pixel_gather.features.report.findings import state_findings
from pixel_gather.features.report.page import Plot, comparison_of, page_of
from pixel_gather.io.cube.written_report import PAGE_KEY, REPORT_KEY, TEXT_KEY


def report_files_of(
    evidence: Evidence,
    *,
    plots: Sequence[Plot] = (),
    with_published: bool = False,
    viewer: str | None = None,
) -> dict[str, bytes]:
    """Return the report of one gather: ``report.json``, ``report.txt`` and ``report.html``.

    The viewer is the page beside the report that shows the cube's pixels.
    """
    columns = run_columns([evidence.run], with_published=with_published)
    findings = state_findings([evidence.run], with_published=with_published)
    values = {"findings": findings, "table": [_column_to_json(each) for each in columns]}
    return {
        REPORT_KEY: _encode_json(evidence_to_json(evidence) | values),
        TEXT_KEY: _encode_text(
            _for_terminals(f"{report_to_text(evidence, columns)}\n{_list_findings(findings)}")
        ),
        PAGE_KEY: _encode_text(
            page_of(evidence, columns=columns, plots=plots, findings=findings, viewer=viewer)
        ),
    }


def make_comparison_files(
    runs: Sequence[Run],
    *,
    plots: Sequence[Plot],
    evidences: Sequence[Evidence] = (),
    title: str,
    with_published: bool,
) -> dict[str, bytes]:
    """Return the report of several runs side by side, under the same names.

    The runs are in the order of the columns. The windows of those that made cubes are shown.
    """
    columns = run_columns(runs, with_published=with_published)
    gathers = [evidence_to_json(each) for each in evidences]
    findings = state_findings(runs, with_published=with_published)
    page = comparison_of(evidences, title=title, columns=columns, plots=plots, findings=findings)
    values = {
        "findings": findings,
        "table": [_column_to_json(each) for each in columns],
        "gathers": gathers,
    }
    return {
        REPORT_KEY: _encode_json(values),
        TEXT_KEY: _encode_text(_for_terminals(f"{table_as_text(columns)}\n{_list_findings(findings)}")),
        PAGE_KEY: _encode_text(page),
    }


def report_to_text(evidence: Evidence, columns: Sequence[RunColumn]) -> str:
    """Return the text report of one gather: the table, then lines about the gather."""
    where = f"{'cube':<{LABEL_WIDTH}} {evidence.place}"
    return "\n".join([table_as_text(columns), *own_lines(evidence.report), where])


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return the content of ``report.json``. Times are in seconds, sizes in bytes."""
    cost = evidence.cost
    known = dict(cost.usd_by_service) if cost.was_on_aws else None
    return {
        "gather": evidence.name,
        "cube": evidence.place,
        **evidence.report.to_json(),
        "planned_at": evidence.planned_at,
        "usd": cost.usd if cost.was_on_aws else None,
        "usd_by_service": known,
        "usd_on_aws": cost.usd,
        "request": dict(evidence.request),
    }


def _column_to_json(column: RunColumn) -> dict[str, Any]:
    """Return a run's figures under one level of names. What is not known is null."""
    told = to_builtins(column)
    told |= told.pop("times")
    return {name: None if value in ("", ()) else value for name, value in told.items()}


def _list_findings(findings: Sequence[str]) -> str:
    return "".join(f"\n- {each}" for each in findings) + ("\n" if findings else "")


def _encode_text(content: str) -> bytes:
    """Encode text as UTF-8. Lone surrogates, which JSON and file names may hold, become ``?``."""
    return content.encode(errors="replace")


def _for_terminals(content: str) -> str:
    """Replace control characters, which hrefs may hold and which would steer a terminal."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in content)


def _encode_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=2, allow_nan=False).encode()
