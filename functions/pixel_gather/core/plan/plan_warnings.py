"""What a plan warns about: the list, the prices of the Region, and where the sources lie. Pure.

Warnings about the sources themselves are those of `pixel_gather.core.plan.sample_warnings`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.pricing import PRICES_OF, SAME_PRICES
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import NO_INTEGER
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.reduced_table import ReducedTable
from pixel_gather.core.ports import SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest


_LIKE_TIME: Final = frozenset({"time", "datetime", "date"})
"""Names of columns in lower case that may hold times."""

_N_LOOKED_AT: Final = 16
"""Sources that are looked at to learn in which cloud they lie."""


def warnings_of_plan(
    request: "GatherRequest",
    table: SourceTable,
    template: CubeTemplate | None,
    *,
    append: Append,
    estimate: Estimate,
    workers: WorkerPool,
) -> Iterator[str]:
    """Yield what users should know before they start.

    Args:
        request: The checked request.
        table: The list.
        template: What the cube inherits.
        append: Where the rows go.
        estimate: Of the plan.
        workers: Those of the estimate.
    """
    yield from _warnings_of_times(request, table, template)
    yield from _warnings_of_list(table)
    yield from _warnings_of_columns(template, table)
    yield from _warnings_of_masked(request, append)
    yield from _warnings_of_index(request, table)
    yield from _warnings_of_transfer(table, estimate, workers)
    yield from _warnings_of_prices(workers)
    yield from _warnings_of_cloud(table)


def _warnings_of_times(
    request: "GatherRequest", table: SourceTable, template: CubeTemplate | None
) -> Iterator[str]:
    """Warn about rows without a time, because of which a new cube has no time axis."""
    if request.sources.time is not None and not table.has_time and request.reduce is None:
        yield "sources.time finds no time in some hrefs: the cube's first axis is source, not time"
    elif template is None and (n := table.n_timeless):
        verb = "has" if n == 1 else "have"
        yield (
            f"{n:,} of {table.n_rows:,} rows {verb} no time: the cube's first axis is source, not time. Give "
            "every row a time, or leave these rows out"
        )
    elif template is None and not table.has_time and request.reduce is None:
        other = next((each.name for each in table.columns if each.name.lower() in _LIKE_TIME), None)
        if other is not None:
            yield (
                f"the list has no column time, so the cube's first axis is source. If the column {other} is "
                "the time of the images, name it time"
            )


def _warnings_of_list(table: SourceTable) -> Iterator[str]:
    """Warn about the list's notes, names of columns and repeated sources."""
    yield from table.notes
    spaced = [each.name for each in table.columns if len(each.name.split()) > 1]
    if spaced:
        yield (
            f"the name of column {spaced[0]!r} has a space: xarray opens it as a variable, not as a "
            "coordinate, and conditions cannot name it. Write _ instead"
        )
    n = table.n_repeated
    if not n:
        return
    verb = "repeats" if n == 1 else "repeat"
    again = (
        "read again and counts twice in the result: leave such lines out"
        if isinstance(table, ReducedTable)
        else "read and stored again"
    )
    yield f"{n:,} of {table.n_sources:,} lines {verb} an earlier source, which is {again}"


def _warnings_of_columns(template: CubeTemplate | None, table: SourceTable) -> Iterator[str]:
    """Warn about columns of the cube that the list does not have."""
    missing = () if template is None else template.columns_missing_in(table.columns)
    if missing:
        yield f"the list lacks columns of the cube: the new rows have no value of {', '.join(missing)}"
    new = () if template is None else [each for each in template.columns if each.name in missing]
    for each in new:
        if not each.has_gaps and each.dtype == "bool":
            yield f"so xarray opens the column {each.name} as numbers: 1 is true, 0 is false, NaN is missing"
        elif not each.has_gaps and each.dtype == "int64":
            missing_is = f"{NO_INTEGER} is missing" if each.is_large else "NaN is missing"
            opened = "as int64, as float64 cannot hold its values" if each.is_large else "as float64"
            yield f"so xarray opens the column {each.name} {opened}: {missing_is}"


def _warnings_of_masked(request: "GatherRequest", append: Append) -> Iterator[str]:
    """Warn about rows that hide the pixels of their own masks, where others of the cube do not."""
    if append.is_first:
        return
    first = bool(append.origin.get("request", {}).get("masked"))
    if first != request.masked:
        hide, show = ("the cube's first rows", "these") if first else ("these rows", "the cube's first ones")
        yield (
            f"{hide} hide the pixels that a source's own mask or alpha band hides, and {show} do not: give "
            f"masked: {str(first).lower()} to read all rows alike"
        )


def _warnings_of_index(request: "GatherRequest", table: SourceTable) -> Iterator[str]:
    """Warn about a header index that has no entry for these sources."""
    if request.index is not None and not table.n_known:
        yield (
            "the header index has no entry for these sources: it was made for other files or another "
            "overview, so every header is read"
        )


def _warnings_of_transfer(table: SourceTable, estimate: Estimate, deployment: WorkerPool) -> Iterator[str]:
    """Warn about buckets in another Region than the workers, also if their owner pays for the transfer."""
    for bucket, n_sources in table.n_by_bucket.items():
        if (far := deployment.far_buckets.get(bucket)) is None:
            continue
        verb = "lies" if n_sources == 1 else "lie"
        paid = (
            f"transfer is charged and in the price (${estimate.usd_by_service['transfer']:,.2f} in all)"
            if far.is_charged
            else "its owner pays for transfer, and each request takes longer"
        )
        yield (
            f"{counted(n_sources, 'source')} {verb} in the bucket {bucket} in {far.region}, but the workers "
            f"run in {deployment.region}: {paid}; a deployment in {far.region} would avoid this"
        )


def _warnings_of_prices(deployment: WorkerPool) -> Iterator[str]:
    """Warn about a Region whose prices are not known."""
    if deployment.region is not None and deployment.region not in SAME_PRICES:
        yield (
            f"the dollars are by the prices of {PRICES_OF}: those of {deployment.region} may be higher, so "
            "set limits.usd with a margin"
        )


def _warnings_of_cloud(table: SourceTable) -> Iterator[str]:
    """Warn about sources that lie with Google or Azure, by a sample of them."""
    hrefs = [each.href for each in table.spread(_N_LOOKED_AT, band=None)]
    far = next((href for href in hrefs if href.startswith(("gs://", "az://", "abfs://"))), None)
    if far is not None:
        yield (
            f"sources such as {far[:200]} lie in another cloud: gather them in process, as workers on AWS "
            "do not read them. What that cloud charges for requests and transfer is not known here"
        )
