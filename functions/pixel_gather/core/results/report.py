"""The report of a gather: what was gathered, what failed, and what it cost.

The first lines of `Report.to_text` come from `report.run_table`. They are those of the published report that
this tool is compared with.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import msgspec
import numpy as np
import xxhash
from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from pixel_gather.core.model.outcome import Lookup, Outcome, ShardResult, strip_digests
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import claims_offsets, is_below_claim
from pixel_gather.core.model.shown import first_few, shown, shown_href
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import (
    APART,
    CANNOT_BE_OPENED,
    ON_ANOTHER_GRID,
    OVERHANG_IS_NODATA,
    OVERHANG_IS_ZERO,
    PARTLY_OUTSIDE,
    WARP_THEM,
    CubePlan,
)
from pixel_gather.core.plan.warning_kinds import PixelWarning
from pixel_gather.core.results.run_table import LABEL_WIDTH, table_rows
from pixel_gather.core.results.timed_run import RunColumn
from pixel_gather.core.results.timings import Timings, TimingSummary

_MOST_CAUSES: Final = 100
_MOST_HREFS: Final = 20
"""Most hrefs that the report lists for one cause. The cube's ``status`` and ``href`` have all of them."""

_STATUS_NAMES: Final = {each: each.name.lower() for each in Status}
_SHOWN_HREFS: Final = 3

_SHOWN_MACHINES: Final = 3

_OF_ALL_ROWS: Final = (
    "sources declare different",
    PARTLY_OUTSIDE,
    "were lost to workers",
    "than the catalog's offset",
    "on no image",
    ON_ANOTHER_GRID,
    "no valid pixel",
)
"""Parts of the warnings that `Tally.report` makes anew after an append."""

_ELSEWHERE: Final = frozenset({Status.OUTSIDE, Status.ABSENT})
"""Statuses of images that a chip does not lie on."""


class Cause(Struct, frozen=True, kw_only=True):
    """Sources that failed for the same reason."""

    status: str
    reason: str
    n_sources: int
    hrefs: tuple[str, ...]
    """The first twenty hrefs."""


class Report(TimingSummary, frozen=True, kw_only=True):
    """Report of a gather. Times in seconds, sizes in bytes."""

    digest: str
    """Digest of all pixels of all measurements: equal digests mean equal pixels.

    It does not depend on the number of rows in a shard. If windows are read in strips, it depends on the
    strips' height.
    """

    measurements: tuple[str, ...]
    shape: tuple[int, int, int]
    dtypes: tuple[str, ...]
    bands: tuple[int, ...]
    tile: tuple[int, int]
    """(height, width) of the typical source's tiles in pixels."""

    is_aligned: bool
    nodata_differs: bool
    """Whether rows have different nodata values. They are then in the coordinate ``nodata``."""

    scaling_differs: bool
    """Whether rows have different scales or offsets. They are then coordinates, not attributes."""

    n_sources: int
    status_counts: dict[str, int]
    causes: tuple[Cause, ...]
    warnings: tuple[str, ...]
    concurrency: int
    """Most sources read at one time by all workers together, computed from their starts and ends."""

    fetched_nbytes: int
    requests: int
    retries: int
    stored_nbytes: int
    write_s: float
    """Time to store, summed over shards."""

    worker_s: float
    """Time to read, measure, compress and store, summed over shards: the billed time without starts."""

    n_shards: int
    n_lost_shards: int
    """Shards that no worker committed. The request's ``limits.failed_shards`` allowed them."""

    peak_rss_mib: float
    n_known: int = 0
    """Sources whose header came from a header index and was valid. It was not read."""

    n_stale: int = 0
    """Sources that were replaced after the index was made. Their headers were read again."""

    n_unfit: int = 0
    """Sources whose index entry could not be used: broken, for another overview, or not verifiable."""

    shares_crs: bool = False
    """Whether all rows have one CRS, also where their grids differ."""

    n_overhanging: int = 0
    """Sources that were read but do not contain the whole window. The rest was filled."""

    machines: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of shards by description of the machine that read them."""

    schemes: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of sources by scheme of their href: ``s3``, ``https``, ``http`` or ``file``."""

    measure_s: float = 0.0
    """Time between reading and storing, summed over shards: statistics, digests and compression of
    the last rows."""

    n_recovered: int = 0
    """Sources that could not be read at first, and that a later append has read."""

    is_in_time_order: bool = True
    """Whether no row is earlier than the row before it. True without times. Appends may change it."""

    worker_memory_mib: int = 0
    """Memory of each worker, as planned for AWS."""

    tasks_per_child: int = 0
    """Most shards that one child of the map fills, as planned for AWS."""

    most_workers: int = 0
    """Most workers at one time, as planned for AWS."""

    is_inline: bool = False
    """Whether the map had no Map Run, as planned for AWS."""

    transfer_usd_per_byte: float = 0.0
    """Planned price of transfer between Regions, divided by all bytes."""

    images_per_chip: int | None = None
    """Of a cube of chips: rows of each chip."""

    bands_are_axis: bool = False
    """Whether one array has all measurements."""

    def __repr__(self) -> str:
        statuses = ", ".join(f"{n:,} {name}" for name, n in self.status_counts.items())
        return shown(
            f"Report: {counted(self.n_sources, 'source')} ({statuses}) in {first_few(self.measurements)}",
            [
                f"{counted(self.requests, 'request')}, {self.fetched_nbytes:,} bytes, {self.wall_s:.1f} s",
                *(f"warning: {each}" for each in self.warnings),
            ],
        )

    @property
    def shape_of_arrays(self) -> tuple[int, ...]:
        """Shape of every array of pixels: (row, y, x), (row, band, y, x), or of chips (chip, image, y, x)."""
        rows, *others = self.shape
        if self.bands_are_axis:
            return rows, len(self.measurements), *others
        n = self.images_per_chip
        return self.shape if n is None else (rows // n, n, *others)

    @property
    def n_read(self) -> int:
        """Sources that gave pixels."""
        return self.status_counts.get("ok", 0)

    @property
    def n_failed(self) -> int:
        """Sources of the list that gave no pixels."""
        return _count_failed(self.status_counts)

    @property
    def sources_per_s(self) -> float:
        """Sources divided by wall time."""
        return self.n_sources / self.wall_s if self.wall_s else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with derived ones."""
        derived = {"n_failed": self.n_failed, "sources_per_s": self.sources_per_s}
        return {**to_builtins(self), **derived}

    def to_text(self) -> str:
        """Return the report as text, one figure per line."""
        table = [f"{row.label:<{LABEL_WIDTH}} {row.cells[0]}" for row in table_rows([column_of_report(self)])]
        return "\n".join([*table, *own_lines(self)])


def column_of_report(report: Report) -> RunColumn:
    """Return the gather's column in the table of runs."""
    rows, height, width = report.shape
    grid = "on one grid" if report.is_aligned else "not on one grid: each row has its own transform"
    of_what = f"{counted(rows, 'row')}, {grid}"
    if report.images_per_chip is not None:
        n_chips, n_images, _, _ = report.shape_of_arrays
        of_what = f"{counted(n_chips, 'chip')} in {counted(n_images, 'image')}"
    return RunColumn(
        name="",
        times=report,
        window=f"{height} x {width} pixels of {of_what}",
        bands=report.bands,
        shape=(height, width),
        dtype=", ".join(dict.fromkeys(report.dtypes)),
        concurrency=report.concurrency,
        digest=report.digest,
        n_read=report.n_read,
        n_sources=report.n_sources,
        open_share=report.open_share,
        mib_per_s=report.data_nbytes / 2**20 / report.wall_s if report.wall_s else None,
        peak_rss_mib=report.peak_rss_mib,
        n_failed=report.n_failed,
        machine=machine_of(report),
    )


def own_lines(report: Report) -> list[str]:
    """Return the lines below the table of runs, which only a gather's report has."""
    named = (f"{name} ({dtype})" for name, dtype in zip(report.measurements, report.dtypes, strict=True))
    figures = {
        "measurements": ", ".join(named),
        "tiles": f"{report.tile[0]} x {report.tile[1]}",
        "bytes received": f"{report.fetched_nbytes:,} in {counted(report.requests, 'request')}",
        "retries": f"{report.retries:,}",
        "bytes stored": f"{report.stored_nbytes:,}",
    }
    figures |= dict(conditions_of(report))
    lines = [f"{name:<{LABEL_WIDTH}} {figure}" for name, figure in figures.items()]
    lines += failure_lines(report)
    return lines + [f"{'warning':<{LABEL_WIDTH}} {each}" for each in report.warnings]


def failure_lines(report: Report) -> list[str]:
    """Return the lines that say why sources failed, each with some of their hrefs."""
    lines = []
    for cause in report.causes:
        lines.append(f"  {cause.status:<11} {cause.n_sources:>8,}  {cause.reason}")
        lines += [f"{'':<24} {shown_href(href)}" for href in cause.hrefs[:_SHOWN_HREFS]]
    return lines


def machine_of(report: Report) -> str:
    """Return the description of the gather's machines; empty if unknown."""
    return _count_in_words(report.machines, "shards")


def conditions_of(report: Report) -> tuple[tuple[str, str], ...]:
    """Return the conditions of a gather's speed besides its machine, by name."""
    n_by_store = Counter[str]()
    for name, n in report.schemes.items():
        n_by_store[_STORES.get(name, name)] += n
    conditions = {
        "sources on": _count_in_words(n_by_store, "sources"),
        "headers": "read anew from every source",
    }
    if report.n_known or report.n_stale or report.n_unfit:
        conditions["headers"] = (
            f"{counted(report.n_known, 'source')} opened by an index; {report.n_stale:,} of its entries "
            f"were stale, {report.n_unfit:,} of no use"
        )
    return tuple((name, said) for name, said in conditions.items() if said)


_STORES: Final = {
    "s3": "S3",
    "gs": "Google Cloud Storage",
    "az": "Azure",
    "abfs": "Azure",
    "https": "HTTPS",
    "http": "HTTP",
    "file": "this machine's disk",
}


def _count_in_words(counts: Mapping[str, int], noun: str) -> str:
    """Return the names in words, the most frequent first, with counts if there are several."""
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    if len(ordered) == 1:
        return ordered[0][0]
    said = [f"{name} ({count:,} {noun})" for name, count in ordered[:_SHOWN_MACHINES]]
    return "; ".join(said) + (f"; and {len(ordered) - len(said):,} more" if len(ordered) > len(said) else "")


def _doubles() -> "array[float]":
    """Return an empty array of doubles: 8 bytes per number, a quarter of a list's memory."""
    return array("d")


@dataclass(slots=True, kw_only=True)
class Tally:
    """Adds up outcomes in the order of the rows, and the results of shards."""

    plan: CubePlan
    status_counts: Counter[str] = field(default_factory=Counter)
    is_aligned: bool = True
    shares_crs: bool = True
    nodata_differs: bool = False
    scaling_differs: bool = False
    n_overhanging: int = 0
    n_filled_with_zero: int = 0
    """The part of ``n_overhanging`` with integer pixels and no nodata value."""

    n_nowhere: int = 0
    """Chips that lie on no image."""

    _n_elsewhere: int = 0
    """Images, so far, that the last chip lies outside."""

    _has_data: dict[int, bool] = field(default_factory=dict)
    """By the position of each measurement that was read: whether any of its pixels is valid."""

    n_recovered: int = 0
    is_in_time_order: bool = True
    _last_time_us: int | None = None
    _earlier: Report | None = None
    """Report of the cube before an append."""

    _since_s: float = 0.0
    """When the append of the rows that are added now began, by the clock of the report."""

    n_below_claim: int = 0
    """Sources whose claimed offset may be in the pixels already; see `is_below_claim`."""

    n_apart: int = 0
    """Sources on another grid, where that is refused."""

    stored_nbytes: int = 0
    write_s: float = 0.0
    measure_s: float = 0.0
    worker_s: float = 0.0
    n_shards: int = 0
    n_lost_shards: int = 0
    _n_rows: int = 0
    _with_lost_rows: set[tuple[int, int]] = field(default_factory=set)
    """Places of the shards that have lost rows, along the rows and along y."""

    peak_rss_mib: float = 0.0
    lookups: Counter[Lookup] = field(default_factory=Counter)
    requests: int = 0
    retries: int = 0
    fetched_nbytes: int = 0
    machines: Counter[str] = field(default_factory=Counter)
    schemes: Counter[str] = field(default_factory=Counter)
    _causes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _cause_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _starts: "array[float]" = field(default_factory=_doubles)
    _ends: "array[float]" = field(default_factory=_doubles)
    _opens: "array[float]" = field(default_factory=_doubles)
    _reads: "array[float]" = field(default_factory=_doubles)
    _bytes: "array[float]" = field(default_factory=_doubles)
    _hashers: list[xxhash.xxh3_128] = field(init=False)
    # Kept here because the plan computes it again at each call. Every row is compared with it.
    _crs: str | None = field(init=False)
    _claims_offsets: bool = field(init=False)
    _nodata: Sequence[float | int | None] = field(init=False)
    _fill_values: Sequence[float | int] = field(init=False)

    def __post_init__(self) -> None:
        """Start one hash per measurement."""
        plan, slots = self.plan, range(len(self.plan.slots))
        self._hashers = [xxhash.xxh3_128() for _ in plan.measurements]
        self._crs = plan.placement.crs
        self._claims_offsets = claims_offsets(plan.columns)
        self._nodata = [plan.nodata(slot) for slot in slots]
        self._fill_values = [plan.fill_value(slot) for slot in slots]

    def go_on_from(self, earlier: Report) -> None:
        """Begin with what is known of a cube before an append, apart from its rows, which are added next."""
        self.is_aligned, self.shares_crs = earlier.is_aligned, earlier.shares_crs
        self.nodata_differs, self.scaling_differs = earlier.nodata_differs, earlier.scaling_differs
        self.stored_nbytes, self.write_s = earlier.stored_nbytes, earlier.write_s
        self.measure_s, self.worker_s = earlier.measure_s, earlier.worker_s
        self.n_shards, self.n_lost_shards = earlier.n_shards, earlier.n_lost_shards
        self.peak_rss_mib = earlier.peak_rss_mib
        self.machines.update(earlier.machines)
        known = {Lookup.USED: earlier.n_known, Lookup.STALE: earlier.n_stale, Lookup.UNFIT: earlier.n_unfit}
        self.lookups.update(known)
        self._earlier = earlier

    def begin_append(self) -> None:
        """Let the clock of the next rows begin where the last ones ended. Each append has its own clock."""
        self._since_s = max(self._ends, default=0.0)

    def add_row(self, row: CubeRow, outcomes: Sequence[Outcome]) -> None:
        """Add one row of the cube."""
        if self.plan.has_time and row.time_us is not None and row.chip is None:
            if self._last_time_us is not None and row.time_us < self._last_time_us:
                self.is_in_time_order = False
            self._last_time_us = row.time_us
        digests = [band.digest for outcome in outcomes for band in outcome.bands]
        for hasher, digest in zip(self._hashers, digests, strict=True):
            hasher.update(digest.encode())
        for of_scene, of_each in zip(row.members or (row,), outcomes[0].members or (outcomes,), strict=True):
            self._add_sources(of_scene, of_each)
        if self.plan.chips is not None:
            self._count_chip(outcomes, n_images=self.plan.chips.n_images)
        self._note_data(outcomes)
        self._n_rows += 1

    def _note_data(self, outcomes: Sequence[Outcome]) -> None:
        """Note which measurements have valid pixels. Pixels that were not looked at count as valid."""
        n = 0
        for outcome in outcomes:
            if outcome.status is Status.OK:
                for place, band in enumerate(outcome.bands, start=n):
                    self._has_data[place] = self._has_data.get(place, False) or band.n_valid != 0
            n += len(outcome.bands)

    def _count_chip(self, outcomes: Sequence[Outcome], *, n_images: int) -> None:
        """Count a chip after the last of its rows, which follow one another, if it lies on no image."""
        if self._n_rows % n_images == 0:
            self._n_elsewhere = 0
        self._n_elsewhere += all(each.status in _ELSEWHERE for each in outcomes)
        self.n_nowhere += self._n_elsewhere == n_images

    def _add_sources(self, row: CubeRow, outcomes: Sequence[Outcome]) -> None:
        for slot, (source, outcome) in enumerate(zip(row.sources, outcomes, strict=True)):
            self.status_counts[_STATUS_NAMES[outcome.status]] += 1
            self.lookups[outcome.lookup] += 1
            if source is not None:
                self.schemes[source.href.partition("://")[0]] += 1
            cost = outcome.cost
            self.requests += cost.requests
            self.retries += cost.retries
            self.fetched_nbytes += cost.nbytes
            if self._claims_offsets:
                self.n_below_claim += any(is_below_claim(source, band) for band in outcome.bands)
            if outcome.status is Status.LOST:
                place = self._n_rows // self.plan.layout.shard[0]
                of_strips = strip_digests(outcome.bands[0].digest)
                self._with_lost_rows.update((place, at) for at, told in enumerate(of_strips) if not told)
            if outcome.status is Status.OK:
                self.n_recovered += outcome.tries > 1
                self._add_read(outcome, slot)
            elif source is not None and outcome.status.is_failure:
                self._add_failure(source.href, outcome)

    def add_shard(self, result: ShardResult) -> None:
        """Add the result of one task."""
        self.stored_nbytes += result.stored_nbytes
        self.write_s += result.write_s
        self.measure_s += result.measure_s
        self.worker_s += result.worker_s
        self.n_shards += 1
        if result.machine:
            self.machines[result.machine] += 1
        self.peak_rss_mib = max(self.peak_rss_mib, result.peak_rss_mib)

    def add_lost_shard(self) -> None:
        """Count a task that was given up. Its rows are added as outcomes with status lost."""
        self.n_shards += 1
        self.n_lost_shards += 1

    def _add_read(self, outcome: Outcome, slot: int) -> None:
        self._starts.append(self._since_s + outcome.start_s)
        self._ends.append(self._since_s + outcome.end_s)
        self._opens.append(outcome.cost.open_s)
        self._reads.append(outcome.reading_s)
        self._bytes.append(outcome.cost.data_nbytes)
        self.is_aligned = self.is_aligned and outcome.is_aligned
        self.shares_crs = self.shares_crs and outcome.crs == self._crs
        if self.plan.reduction is not None:  # what differs between scenes is not told of rows
            return
        ours = self._nodata[slot]
        both_nan = outcome.nodata != outcome.nodata and ours != ours  # noqa: PLR0124 # true of NaN alone
        self.nodata_differs = self.nodata_differs or not (outcome.nodata == ours or both_nan)
        self.scaling_differs = self.scaling_differs or outcome.scaling is not None
        if outcome.extent != (0, 0, self.plan.width, self.plan.height):
            self.n_overhanging += 1
            fill = self._fill_values[slot]
            is_marked = outcome.nodata is not None or ours is not None or fill != fill  # noqa: PLR0124 # as above
            self.n_filled_with_zero += not is_marked

    def _add_failure(self, href: str, outcome: Outcome) -> None:
        self.n_apart += outcome.reason == APART
        cause = (outcome.status.name.lower(), outcome.reason or "")
        if cause not in self._causes and len(self._causes) >= _MOST_CAUSES:
            cause = (cause[0], "for other reasons")
        self._cause_counts[cause] += 1
        hrefs = self._causes.setdefault(cause, [])
        if len(hrefs) < _MOST_HREFS:
            hrefs.append(href)

    def report(self) -> Report:
        """Return the report of everything added so far."""
        plan = self.plan
        grid = plan.slots[0].grid
        timings = self._timings()
        if self._earlier is not None:  # what was lost may have been read since
            self.n_lost_shards = len(self._with_lost_rows)
        return Report(
            **asdict(timings.summary()),
            digest=xxhash.xxh3_128_hexdigest("".join(each.hexdigest() for each in self._hashers).encode()),
            measurements=tuple(each.name for each in plan.measurements),
            shape=plan.shape,
            dtypes=tuple(each.dtype for each in plan.measurements),
            bands=tuple(dict.fromkeys(band for slot in plan.slots for band in slot.bands)),
            images_per_chip=None if plan.chips is None else plan.chips.n_images,
            bands_are_axis=plan.bands_are_axis,
            tile=(grid.tile_height, grid.tile_width),
            is_aligned=self.is_aligned and len(timings) > 0,
            n_overhanging=self.n_overhanging,
            shares_crs=self.shares_crs and len(timings) > 0 and plan.placement.crs is not None,
            nodata_differs=self.nodata_differs,
            scaling_differs=self.scaling_differs,
            n_recovered=self.n_recovered,
            is_in_time_order=self.is_in_time_order,
            n_sources=plan.n_sources + (self._earlier.n_sources if self._earlier is not None else 0),
            status_counts=dict(self.status_counts),
            causes=tuple(
                Cause(status=cause[0], reason=cause[1], n_sources=count, hrefs=tuple(self._causes[cause]))
                for cause, count in self._cause_counts.most_common()
            ),
            warnings=tuple(self._warnings(n_read=len(timings))),
            concurrency=timings.most_in_flight,
            fetched_nbytes=self.fetched_nbytes,
            requests=self.requests,
            retries=self.retries,
            stored_nbytes=self.stored_nbytes,
            write_s=self.write_s,
            measure_s=self.measure_s,
            worker_s=self.worker_s,
            n_shards=self.n_shards if self._earlier is None else prod(plan.layout.n_shards(plan.shape)),
            n_lost_shards=self.n_lost_shards,
            peak_rss_mib=self.peak_rss_mib,
            n_known=self.lookups[Lookup.USED],
            n_stale=self.lookups[Lookup.STALE],
            n_unfit=self.lookups[Lookup.UNFIT],
            machines=dict(self.machines),
            schemes=dict(self.schemes),
            worker_memory_mib=plan.estimate.worker_memory_mib,
            tasks_per_child=plan.estimate.tasks_per_child,
            most_workers=plan.estimate.most_workers,
            is_inline=plan.runs_inline,
            transfer_usd_per_byte=plan.estimate.transfer_usd_per_byte,
        )

    def _warnings(self, *, n_read: int) -> list[str]:
        """Return the warnings of the plan, with what all rows have shown. The gravest come first."""
        plan = self.plan
        warnings = list(plan.warnings)
        if self._earlier is not None:
            said = (each for each in self._earlier.warnings if not any(part in each for part in _OF_ALL_ROWS))
            warnings = list(dict.fromkeys([*said, *warnings]))
        if not _count_failed(self.status_counts):  # what the sample could not open was read after all
            warnings = [each for each in warnings if CANNOT_BE_OPENED not in each]
        # What may have spoiled most of the cube goes to the front.
        front = self._without_data()
        if self.n_nowhere:
            n_chips = plan.shape[0] // (1 if plan.chips is None else plan.chips.n_images)
            lie = "lies" if self.n_nowhere == 1 else "lie"
            which = f"{self.n_nowhere:,} of {counted(n_chips, 'chip')} {lie} on no image"
            hint = ": check their CRS (--crs), and that longitude comes first"
            front.append(which + (hint if self.n_nowhere == n_chips else ""))
        if self.n_apart > 1:  # this replaces the warning that the sample gave
            warnings = [each for each in warnings if ON_ANOTHER_GRID not in each]
            n_sources = sum(self.status_counts.values()) - self.status_counts["absent"]
            front.append(
                f"{self.n_apart:,} of {n_sources:,} sources {ON_ANOTHER_GRID}, so their status is unlike"
                + (WARP_THEM if self._earlier is None else "")
            )
        # The rest follows those of the plan, but for what pixels may mean.
        rest: list[str] = []
        if self.nodata_differs:
            rest.append("sources declare different nodata values: see the coordinate nodata")
        if self.n_overhanging:
            # This replaces the warning that the sample gave.
            warnings = [each for each in warnings if not each.startswith(PARTLY_OUTSIDE)]
            which = f"{PARTLY_OUTSIDE} {self.n_overhanging:,} of {n_read:,} sources that were read"
            rest.append(
                PixelWarning(f"{which}: {OVERHANG_IS_ZERO}")
                if self.n_filled_with_zero
                else f"{which}: {OVERHANG_IS_NODATA}"
            )
        if self.n_lost_shards:
            rest.append(
                f"{self.n_lost_shards:,} of {self.n_shards:,} shards were lost to workers that failed: their "
                "sources are lost in status"
            )
        if self.n_below_claim:
            rest.append(
                PixelWarning(
                    f"{counted(self.n_below_claim, 'source')} with pixels darker than the catalog's offset "
                    "allows. The offset may be in the pixels already: then do not apply it again. See the "
                    "coordinate below_claim"
                )
            )
        if self.scaling_differs:
            rest.append(
                PixelWarning(
                    "the scale or offset of some sources is undecided: their pixels are as they were stored, "
                    "see the coordinates offset_state and offset_reason"
                    if plan.values == "harmonised"
                    else "sources declare different scales or offsets: pixels are raw, see the coordinates "
                    "scale_factor and add_offset"
                )
            )
        of_pixels = [str(each) for each in rest if isinstance(each, PixelWarning)]
        return [*front, *of_pixels, *warnings, *(each for each in rest if not isinstance(each, PixelWarning))]

    def _without_data(self) -> list[str]:
        """Return the warning about measurements that were read and have no valid pixel."""
        names = [
            self.plan.measurements[n].name for n, has_data in sorted(self._has_data.items()) if not has_data
        ]
        if not names:
            return []
        have = "has" if len(names) == 1 else "have"
        return [f"{first_few(names)} {have} no valid pixel: all that was read is nodata, NaN or masked"]

    def _timings(self) -> Timings:
        return Timings(
            start_s=np.asarray(self._starts),
            end_s=np.asarray(self._ends),
            open_s=np.asarray(self._opens),
            read_s=np.asarray(self._reads),
            nbytes=np.asarray(self._bytes).astype("int64"),
            shard=np.zeros(len(self._starts), dtype="int64"),
        )


def _count_failed(counts: Mapping[str, int]) -> int:
    """Return how many sources gave no pixels, from the numbers of sources by status."""
    return sum(count for name, count in counts.items() if Status[name.upper()].is_failure)
