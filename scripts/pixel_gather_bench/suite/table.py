"""The result of a suite: a row for each engine and concurrency, digests and failures. Pure."""

import statistics
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins

from pixel_gather_bench.suite.records import BestBy, Record, best_record, by_configuration


class SuiteRow(Struct, frozen=True, kw_only=True):
    """One configuration. The figures are those of its best run unless they say otherwise."""

    engine: str
    concurrency: str
    """A number, or ``auto``."""

    n_runs: int
    typical_per_s: float
    """At the end of each source, sources done are divided by elapsed time. This is the median of that."""

    median_typical_per_s: float
    """The median over all runs of the configuration."""

    sources_per_s: float
    """Sources read, divided by ``wall_s``."""

    wall_s: float
    median_wall_s: float
    """The median over all runs of the configuration."""

    cpu_s: float
    peak_rss_mib: float
    n_failed: int
    digest: str


class FailureCause(Struct, frozen=True, kw_only=True):
    """Sources that one engine could not read for one reason."""

    engine: str
    status: str
    reason: str
    positions: tuple[int, ...]
    """Places in the list, from 0."""


def suite_rows(records: Sequence[Record], best_by: BestBy) -> list[SuiteRow]:
    """Return a row for each configuration, in the order of the records."""
    return [_row_of(repetitions, best_by) for repetitions in by_configuration(records)]


def group_by_digest(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the runs' names by the digest of their pixels. With more than one digest, pixels differ."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(record.digest, []).append(record.job.name)
    return found


def group_causes(records: Sequence[Record]) -> list[FailureCause]:
    """Return why sources failed, the commonest cause first. Repeated failures of a source count once."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for record in records:
        for failure in record.failures:
            cause = (record.job.configuration.engine, failure.status, failure.reason)
            found.setdefault(cause, set()).add(failure.position)
    causes = [
        FailureCause(engine=engine, status=status, reason=reason, positions=tuple(sorted(positions)))
        for (engine, status, reason), positions in found.items()
    ]
    return sorted(causes, key=lambda each: -len(each.positions))


def suite_to_json(
    records: Sequence[Record], best_by: BestBy, *, folder: str, crashes: Sequence[str]
) -> dict[str, Any]:
    """Return the whole result as plain values. Times are in seconds."""
    return {
        "folder": folder,
        "best_by": best_by,
        "runs": [to_builtins(row) for row in suite_rows(records, best_by)],
        "digests": group_by_digest(records),
        "failures": [to_builtins(cause) for cause in group_causes(records)],
        "crashed": list(crashes),
    }


def _row_of(repetitions: Sequence[Record], best_by: BestBy) -> SuiteRow:
    best = best_record(repetitions, best_by)
    run = best.to_run()
    return SuiteRow(
        engine=best.job.configuration.engine,
        concurrency=best.job.configuration.shown_concurrency,
        n_runs=len(repetitions),
        typical_per_s=run.typical_per_s,
        median_typical_per_s=statistics.median(each.to_run().typical_per_s for each in repetitions),
        sources_per_s=len(run.timings) / best.wall_s if best.wall_s else 0.0,
        wall_s=best.wall_s,
        median_wall_s=statistics.median(each.wall_s for each in repetitions),
        cpu_s=best.cpu_s,
        peak_rss_mib=best.peak_rss_mib,
        n_failed=len(best.failures),
        digest=best.digest,
    )
