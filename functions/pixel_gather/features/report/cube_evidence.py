"""Reads the evidence for a report from a finished cube. A million rows take some 250 MB of memory."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import NOT_OF_A_CUBE, StoreError, why_no_cube
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.footprints import Footprints
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import steps_in_words
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.results.cost import usd_by_service as priced
from pixel_gather.core.results.report import Report, conditions_of, machine_of
from pixel_gather.core.results.report_content import (
    Coverage,
    Evidence,
    GatherPrice,
    Place,
    name_of,
    north_in_words,
    slowest_first,
    window_in_words,
)
from pixel_gather.core.results.row_coordinates import NO_TIME, Values
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.core.stores import NOT_COMPLETE
from pixel_gather.features.report.cube_footprints import read_footprints
from pixel_gather.features.report.cube_pictures import looks_in
from pixel_gather.features.report.cube_sources import MOST_SOURCES, CubeSources, read_sources
from pixel_gather.features.report.page.grid_words import with_unit_of
from pixel_gather.io.cube.open_group import read_root
from pixel_gather.io.cube.row_table import read_contributors
from pixel_gather.io.cube.row_view import as_rows, stored_array
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.cube.written_report import REPORT_KEY
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place

if TYPE_CHECKING:  # as in cube_sources
    import zarr

_N_SLOWEST: Final = 10


def read_evidence(store: Store, *, place: str, usd_by_service: Mapping[str, float] | None = None) -> Evidence:
    """Read a finished cube. Blocks; zarr-python and obstore do the reading.

    Args:
        store: At the cube's root.
        place: The location as users write it, for messages and the page.
        usd_by_service: What the gather cost on AWS. None if the cube's ``report.json`` says it, or if the
            gather ran in process.

    Raises:
        StoreError: There is no finished cube, it cannot be read, or a gather would not have written it so.
    """
    try:
        return _read_cube(store, place, usd_by_service)
    except StoreError:
        raise
    except (BaseError, OSError) as error:
        raise StoreError(f"{place}: the cube cannot be read: {said_of_place(error)}") from error
    except Exception as error:  # zarr-python, NumPy and codecs raise many types for broken input
        raise StoreError(
            f"{place}: the cube is not as a gather leaves it ({said_of_place(error)}); gather it anew"
        ) from error


def _read_cube(store: Store, place: str, usd_by_service: Mapping[str, float] | None) -> Evidence:
    attributes = _attributes(store, place)
    gather = gather_of(attributes)
    report = msgspec.convert(gather["report"], Report)
    request: dict[str, Any] = msgspec.convert(gather["request"], dict[str, Any])
    json.dumps([request, report.to_json()], allow_nan=False)  # report.json will hold them
    if report.n_sources > MOST_SOURCES:
        raise StoreError(
            f"{place}: its {report.n_sources:,} sources are more than the {MOST_SOURCES:,} of a page"
        )
    group = _open_group(store)
    array: Any = group[report.measurements[0]]
    shards = array.shards or array.chunks
    reduce = request.get("reduce") or {}
    sources = read_sources(
        group,
        n_rows=array.shape[0],
        rows_per_shard=shards[0],
        measurements=report.measurements,
        period=reduce.get("by"),
    )
    contributors = read_contributors(store) if reduce else {}
    masks = (request.get("mask") or {}).get("band")
    where = _place(group, attributes, sources)
    n_pictured = _n_first_rows(gather) or array.shape[0]
    slowest = sources.places[slowest_first(sources.total_s[sources.places], _N_SLOWEST)]
    return Evidence(
        place=place,
        name=name_of(place),
        report=report,
        run=_make_run(
            report,
            _timings_of_scenes(contributors) if reduce else sources.timings(),
            name=name_of(place),
            window=window_in_words(request.get("window")),
        ),
        request=request,
        planned_at=str(gather["planned_at"]),
        version=str(gather["version"]),
        facts=_facts(report, array, attributes),
        looks=looks_in(store, group, sources, report.measurements, place, n_pictured=n_pictured),
        n_pictured=n_pictured,
        series=sources.series,
        coverage=sources.coverage,
        coverage_of_scenes=_coverage_of_scenes(contributors, array.shape[-2:], mask=masks),
        where=where,
        waited=_seconds_waited(gather, _appends(store)),
        slowest=sources.describe(slowest),
        cost=_cost(store, report, usd_by_service),
        grid_and_mask=tuple(_grid_and_mask(gather, sources, crs=where.crs)),
        north=north_in_words(where.transform) if where.is_shared and where.transform else "",
        footprints=msgspec.convert(gather.get("footprints"), Footprints | None),
        source_footprints=read_footprints(store, without=sources.failed_hrefs())
        if gather.get("footprints")
        else None,
    )


def _attributes(store: Store, place: str) -> dict[str, Any]:
    """Return the attributes of a finished cube, or raise an error that says what is there instead."""
    content, _ = read_root(store, place)
    try:
        attributes: dict[str, Any] = content["attributes"]
        gather = gather_of(attributes)
        if not (attributes["complete"] and gather["report"]):
            raise StoreError(f"{place}: {NOT_COMPLETE}")
    except NOT_OF_A_CUBE as error:
        raise StoreError(f"{place}: {why_no_cube(error)}") from error
    return attributes


def _open_group(store: Store) -> "zarr.Group":
    from pixel_gather.io.cube.bounded_codecs import open_foreign_group  # noqa: PLC0415 # takes 0.3 s

    return as_rows(open_foreign_group(store))


def _coverage_of_scenes(
    told: Mapping[str, Values], size: tuple[int, int], *, mask: str | None
) -> Coverage | None:
    """Return what became of each source by its time. Shares are of the pixels that it gave to its row."""
    times = told.get("time", np.array([NO_TIME]))
    if (times == NO_TIME).any():
        return None
    order = np.argsort(times, kind="stable")
    status = np.array([Status[each.upper()] for each in told["status"]])
    gives = (status == Status.OK) & (told["band"] != mask)
    share = np.where(gives, told["pixels"] / math.prod(size), np.nan)
    return Coverage(
        rows=told["row"][order],
        at=times[order],
        has_time=True,
        status=status[order].reshape(-1, 1),
        valid_share=share[order].reshape(-1, 1),
    )


def _timings_of_scenes(told: Mapping[str, Values]) -> Timings:
    """Return the timings of the sources that rows were reduced of."""
    was_read = told["status"] == "ok"
    return Timings(
        start_s=told["start"][was_read],
        end_s=told["end"][was_read],
        open_s=told["open"][was_read],
        read_s=told["reading"][was_read],
        nbytes=(told["bytes"] - told["header_bytes"])[was_read],
        shard=told["row"][was_read],
    )


def _make_run(report: Report, timings: Timings, *, name: str, window: str) -> Run:
    return Run(
        name=name,
        engine="fast",
        concurrency=report.concurrency,
        digest=report.digest,
        window=window,
        shape=(report.shape[1], report.shape[2]),
        dtype=", ".join(dict.fromkeys(report.dtypes)),
        bands=report.bands,
        n_sources=report.n_sources,
        n_failed=report.n_failed,
        timings=timings,
        is_cube=True,
        machine=machine_of(report),
        conditions="; ".join(f"{name} {said}" for name, said in conditions_of(report)),
        peak_rss_mib=report.peak_rss_mib or None,
    )


def _facts(report: Report, array: Any, attributes: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    named = zip(report.measurements, report.dtypes, strict=True)
    crs = attributes.get("proj:code") or ("in WKT" if "proj:wkt2" in attributes else "")
    grid = "all rows share one grid" if report.is_aligned else "rows have grids of their own"
    grid = grid if report.n_read else "no row was read"
    box = ", ".join(f"{edge:.10g}" for edge in attributes.get("spatial:bbox", ()))
    array = stored_array(array)  # of chips, not of rows
    shards = array.shards or array.chunks
    facts = {
        "shape": f"{_by(report.shape_of_arrays)} ({', '.join(array.metadata.dimension_names or ())})",
        "measurements": ", ".join(f"{name} ({dtype})" for name, dtype in named),
        "chunks": f"{_by(array.chunks)}, in {counted(report.n_shards, 'shard')} of {_by(shards)}",
        "tiles of the first source": _by(report.tile),
        "grid": ", ".join(filter(None, (grid, f"CRS {crs}" if crs else "", f"box {box}" if box else ""))),
    }
    return tuple(facts.items())


def _place(group: "zarr.Group", attributes: Mapping[str, Any], sources: CubeSources) -> Place:
    """Return the grid that all rows share, or that of the first row that was read."""
    crs = attributes.get("proj:code") or attributes.get("proj:wkt2") or ""
    transform = msgspec.convert(attributes.get("spatial:transform"), tuple[float, ...] | None)
    if transform is not None:
        return Place(crs=str(crs), transform=Transform(*transform), is_shared=True)
    if not len(sources.places):
        return Place(crs=str(crs), transform=None, is_shared=False)
    row, slot = divmod(int(sources.places[0]), sources.n_abreast)
    codes: Any = group["crs"]
    grids: Any = group["transform"]
    code, grid = (
        array[row] if array.ndim == n else array[row, slot] for array, n in ((codes, 1), (grids, 2))
    )
    its = tuple(float(each) for each in np.ravel(grid))
    return Place(
        crs=str(crs or code),
        transform=Transform(*its) if np.isfinite(its).all() else None,
        is_shared=False,
        is_crs_shared=bool(crs),
    )


def _n_first_rows(gather: Mapping[str, Any]) -> int | None:
    """Return how many rows the first gather has made; None if the cube does not say."""
    versions = gather.get("versions", ())
    return next(
        (int(each["n_rows"]) for each in versions if each.get("number") == 1 and "n_rows" in each), None
    )


def _seconds_waited(gather: Mapping[str, Any], appends: Mapping[int, str]) -> tuple[float, ...]:
    """Return the seconds from the plan to the version, of the first gather and of each append that tells.

    Args:
        gather: The group's record.
        appends: When each append was planned, by the number of its version.
    """
    try:
        began = {1: gather["planned_at"]} | dict(appends)
        ended = {each["number"]: each["committed_at"] for each in gather["versions"]}
        if 1 not in ended:
            return ()
        return tuple(
            max((datetime.fromisoformat(ended[n]) - datetime.fromisoformat(began[n])).total_seconds(), 0.0)
            for n in sorted(began.keys() & ended.keys())
        )
    except (KeyError, TypeError, ValueError):
        return ()


def _appends(store: Store) -> dict[int, str]:
    """Return when each append was planned, by the number of its version; none if there is no receipt."""
    try:
        return {each.version: each.planned_at for each in read_receipt(store, "").appends}
    except StoreError:
        return {}


_VALUES: Final = {
    "harmonised": "all rows have the cube's scale and offset, unless offset_state says undecided",
    "scaled": "scale and offset of each source are applied, and what is missing is NaN",
}
"""What became of pixels that are not raw."""


def _grid_and_mask(gather: Mapping[str, Any], sources: CubeSources, *, crs: str) -> Iterator[tuple[str, str]]:
    template = CubeTemplate.from_json(gather["template"]) if "template" in gather else None
    if template is not None and template.resolution is not None:
        steps = ", ".join(f"{name} {step}" for name, step in steps_in_words(template.slots).items())
        yield "Grid", f"pixels of {with_unit_of(f'{template.resolution:.8g}', crs)}: {steps}"
    if template is not None and template.values in _VALUES:
        yield "Values", _VALUES[template.values]
    if template is not None and template.reduce is not None:
        ordered = f" in the order of {by}" if (by := template.reduce.get("order")) else ""
        of_each = f"{template.reduce['statistic']}{ordered} of the scenes of each {template.reduce['by']}"
        yield "Rows", f"{of_each}; contributors.parquet tells of each source"
    share = sources.coverage.masked_share
    if template is not None and template.mask is not None:
        known = np.array([]) if share is None else share[np.isfinite(share)]
        of_all = (
            f": {100 * known.mean():.1f}% of the pixels of {counted(len(known), 'row')}" if len(known) else ""
        )
        yield "Mask", f"pixels are {template.mask.in_words()}{of_all}"


def _by(lengths: Sequence[int]) -> str:
    return " x ".join(f"{length:,}" for length in lengths)


def _cost(store: Store, report: Report, usd_by_service: Mapping[str, float] | None) -> GatherPrice:
    known = usd_by_service or _told_before(store)
    if known is not None:
        return GatherPrice(usd_by_service=known, was_on_aws=True)
    as_on_aws = priced(
        report, worker_memory_mib=WorkerPool().worker_memory_mib, max_workers=max(report.n_shards, 1)
    )
    return GatherPrice(usd_by_service=as_on_aws, was_on_aws=False)


def _told_before(store: Store) -> Mapping[str, float] | None:
    """Return the cost on AWS from the ``report.json`` in the cube; None if it has none."""
    try:
        told = json.loads(bytes(obstore.get(store, REPORT_KEY).bytes()))["usd_by_service"]
        usd_by_service = {str(name): float(usd) for name, usd in told.items()} if told else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    is_price = usd_by_service is not None and all(map(math.isfinite, usd_by_service.values()))
    return usd_by_service if is_price else None
