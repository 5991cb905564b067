"""Prepares the texts and images of one gather for the page's template."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.estimate.pricing import PRICES_OF
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.read.quicklook import SHORTEST_SIDE
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.report_content import Evidence
from pixel_gather.features.report.page.coverage_charts import coverage_chart, masked_chart
from pixel_gather.features.report.page.grid_words import crs_in_words, pixel_in_words
from pixel_gather.features.report.page.sentence import sentence_of
from pixel_gather.features.report.page.value_charts import ValuesView, note_of, values_of
from pixel_gather.features.report.page.window_views import LookView, left_out, views_of
from pixel_gather.io.pictures.chart import Chart

_NUMBERS: Final = re.compile(r"\[\n[-\d.,eE\s]+\]")
_LONGEST_REQUEST: Final = 64 * 1024
_KEPT_HREFS: Final = 20
_MOST_NAMED: Final = 6


class GatherView(Struct, frozen=True, kw_only=True):
    """One gather. The template escapes every text; only images and charts are inserted unchanged."""

    evidence: Evidence
    made: str
    sentence: str
    facts: tuple[tuple[str, str, str], ...]
    """What one asks first: name, answer, and a note, which may be empty."""

    coverage: Chart | None
    masked: Chart | None
    values: tuple[ValuesView, ...]
    values_note: str
    """What the charts of values are of."""

    looks: tuple[LookView, ...]
    looks_left_out: tuple[str, ...]
    """Measurements that a page has no room for."""

    no_pictures: str
    """Why a cube has no looks, in words."""

    slowest_kind: str
    """What the slowest are: ``source``, or ``row`` if each is reduced of several sources."""

    costs: tuple[tuple[str, str], ...]
    usd: str
    cost_basis: str
    request: str
    """JSON."""

    is_request_cut: bool


def view_of(evidence: Evidence, *, with_film: bool) -> GatherView:
    """Return one gather's view. Pages of several gathers have no film and no charts of values."""
    report = evidence.report
    request, is_cut = _request_in_words(evidence.request)
    values = values_of(evidence) if with_film else ()
    period = (evidence.request.get("reduce") or {}).get("by")
    dearest_first = sorted(evidence.cost.usd_by_service.items(), key=lambda item: -item[1])
    return GatherView(
        evidence=evidence,
        made=f"{evidence.planned_at[:19].replace('T', ' ')} UTC by Pixel Gather {evidence.version}",
        sentence=sentence_of(report, evidence.coverage, period=period),
        facts=tuple(_facts(evidence)),
        coverage=coverage_chart(evidence.coverage_of_scenes or evidence.coverage),
        masked=masked_chart(evidence.coverage),
        values=values,
        values_note=note_of(
            values,
            n_measurements=len(report.measurements),
            of_first=evidence.n_pictured < report.shape[0],
        ),
        looks=views_of(
            evidence.looks, n_rows=report.shape[0], n_pictured=evidence.n_pictured, with_film=with_film
        ),
        no_pictures=_why_no_pictures(report),
        looks_left_out=left_out(evidence.looks) if with_film else (),
        slowest_kind="row" if period else "source",
        costs=tuple((_SERVICES.get(name, name), _usd(usd)) for name, usd in dearest_first),
        usd=_usd(evidence.cost.usd),
        cost_basis=_ON_AWS if evidence.cost.was_on_aws else _IN_PROCESS,
        request=request,
        is_request_cut=is_cut,
    )


def _why_no_pictures(report: Report) -> str:
    if not report.n_read:
        return "none was read"
    _, height, width = report.shape
    return (
        f"a side has fewer than {SHORTEST_SIDE} pixels"
        if min(height, width) < SHORTEST_SIDE
        else "the cube has no quicklooks"
    )


def _facts(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    report, where = evidence.report, evidence.where
    _, height, width = report.shape
    yield (
        "window",
        f"{width:,} x {height:,} pixels",
        "" if report.is_aligned or not report.n_read else "each image has its own grid",
    )
    if report.n_read:
        yield "CRS", *crs_in_words(where)
    if where.transform is not None:
        yield "pixel size", *pixel_in_words(where, where.transform, evidence.footprints)
    named = dict(zip(report.measurements, report.dtypes, strict=True))
    shown = list(named)[:_MOST_NAMED]
    more = f" and {len(named) - len(shown)} more" if len(named) > len(shown) else ""
    yield (
        counted(len(named), "measurement"),
        ", ".join(shown) + more,
        ", ".join(dict.fromkeys(named.values())),
    )
    if evidence.waited:
        n = len(evidence.waited)
        of_all = f" in {n:,} gathers, the last one {_seconds(evidence.waited[-1])}" if n > 1 else ""
        yield "time", _seconds(sum(evidence.waited)), f"from the plan to the complete cube{of_all}"
    note = "on AWS, at list prices" if evidence.cost.was_on_aws else "if it ran on AWS, at list prices"
    yield "cost", _usd(evidence.cost.usd), note


def _request_in_words(request: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a request as JSON, and whether hrefs were left out because there are too many."""
    text = _indent_json(request)
    sources = request.get("sources")
    hrefs = sources.get("hrefs") if isinstance(sources, Mapping) else sources
    if len(text) <= _LONGEST_REQUEST or not isinstance(hrefs, list):
        return text, False
    kept = [str(href) for href in hrefs[:_KEPT_HREFS]]
    short = {**request, "sources": {"hrefs": [*kept, f"and {len(hrefs) - len(kept):,} more"]}}
    return _indent_json(short), True


def _indent_json(request: Mapping[str, Any]) -> str:
    """Return a request as JSON whose lists of numbers have one line."""
    text = json.dumps(request, indent=2, ensure_ascii=False)
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text)


def _usd(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}" if usd >= 0.0001 or not usd else f"${usd:.1g}"  # noqa: PLR2004 # a hundredth of a cent


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds < 100 else f"{seconds:,.0f} s"  # noqa: PLR2004 # digits that one reads


_SERVICES: Final = {"s3": "S3 requests", "lambda": "Lambda", "step_functions": "Step Functions"}
_ON_AWS: Final = (
    f"Computed from the report's counts at list prices ({PRICES_OF}), without storage and transfer. "
    "Not a bill."
)
_IN_PROCESS: Final = (
    "The gather ran in process. AWS bills only requests to its buckets, if there were any. On AWS the same "
    f"gather would cost this, computed from the report's counts at list prices ({PRICES_OF}), without "
    "storage and transfer."
)
