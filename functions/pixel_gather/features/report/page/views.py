"""Prepares the texts and images of one gather for the page's template."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pixel_gather.core.estimate.pricing import PRICES_OF
from pixel_gather.core.results.evidence import Evidence, SourceRow
from pixel_gather.core.results.report import Cause
from pixel_gather.features.report.page.window_views import LookView, left_out, views_of

_LONGEST_REQUEST: Final = 64 * 1024
_KEPT_HREFS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherView:
    """One gather. The template escapes every text; only images are inserted unchanged."""

    name: str
    place: str
    made: str
    headlines: tuple[tuple[str, str], ...]
    """A number and its meaning."""

    facts: tuple[tuple[str, str], ...]
    looks: tuple[LookView, ...]
    looks_left_out: tuple[str, ...]
    """Measurements that a page has no room for."""

    north: str
    """Where north is in the windows, if it is not above."""

    causes: tuple[Cause, ...]
    n_failed: int
    warnings: tuple[str, ...]
    slowest: tuple[SourceRow, ...]
    costs: tuple[tuple[str, str], ...]
    usd: str
    cost_basis: str
    request: str
    """JSON."""

    is_request_cut: bool


def view_of(evidence: Evidence, *, with_film: bool) -> GatherView:
    """Return one gather's view. Pages of several gathers have no film."""
    report = evidence.report
    request, is_cut = _request_in_words(evidence.request)
    return GatherView(
        name=evidence.name,
        place=evidence.place,
        made=f"{evidence.planned_at[:19].replace('T', ' ')} UTC by Pixel Gather {evidence.version}",
        headlines=_headlines(evidence),
        facts=evidence.facts,
        looks=views_of(evidence.looks, with_film=with_film),
        looks_left_out=left_out(evidence.looks) if with_film else (),
        north=evidence.north,
        causes=report.causes,
        n_failed=report.n_failed,
        warnings=report.warnings,
        slowest=evidence.slowest,
        costs=tuple((_SERVICES.get(name, name), _usd(usd)) for name, usd in _dearest_first(evidence)),
        usd=_usd(evidence.cost.usd),
        cost_basis=_ON_AWS if evidence.cost.was_on_aws else _IN_PROCESS,
        request=request,
        is_request_cut=is_cut,
    )


def _headlines(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    report, run = evidence.report, evidence.run
    n_read = report.status_counts.get("ok", 0)
    cost = "on AWS" if evidence.cost.was_on_aws else "if it ran on AWS"
    return (
        (f"{n_read:,}", f"of {report.n_sources:,} sources read"),
        (f"{report.n_failed:,}", "failed"),
        (_seconds(run.timings.wall_s), "to read them all"),
        (f"{run.typical_per_s:,.1f}", "sources a second, median"),
        (f"{report.total_s.median * 1000:,.1f} ms", "for one source, median"),
        (_nbytes(run.data_nbytes), "of pixels read, as stored"),
        (_usd(evidence.cost.usd), cost),
    )


def _request_in_words(request: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a request as JSON, and whether hrefs were left out because there are too many."""
    text = json.dumps(request, indent=2, ensure_ascii=False)
    sources = request.get("sources")
    hrefs = sources.get("hrefs") if isinstance(sources, Mapping) else sources
    if len(text) <= _LONGEST_REQUEST or not isinstance(hrefs, list):
        return text, False
    kept = [str(href) for href in hrefs[:_KEPT_HREFS]]
    short = {**request, "sources": {"hrefs": [*kept, f"and {len(hrefs) - len(kept):,} more"]}}
    return json.dumps(short, indent=2, ensure_ascii=False), True


def _dearest_first(evidence: Evidence) -> list[tuple[str, float]]:
    return sorted(evidence.cost.usd_by_service.items(), key=lambda item: -item[1])


def _usd(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}" if usd >= 0.0001 or not usd else f"${usd:.1g}"  # noqa: PLR2004 # a hundredth of a cent


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds < 100 else f"{seconds:,.0f} s"  # noqa: PLR2004 # digits that one reads


def _nbytes(nbytes: int) -> str:
    for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if nbytes >= size:
            return f"{nbytes / size:,.1f} {unit}"
    return f"{nbytes:,} bytes"


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
