"""Whole gathers and appends in virtual time, with faults at random. A seed is a run, and gives it again.

Two users plan, gather and finish the same cube beside each other on one event loop. Before each access to a
store, an actor waits for a random time, so that every order of events can come. An access may fail before or
after it has happened, and may arrive late, when its sender is gone. Some actors fall asleep before an access,
as a laptop does, and go on much later. Workers are killed and started again, sources are replaced and answer
late. In some runs the cube is removed and gathered anew, while workers of the old gather run on and the old
gather is redriven.

In most runs the cube grows then. Twins append the same list, others append another one or compact the cube.
Appends are given up half-way, and others take over. Each append tries rows again that have failed, and users
repeat appends to have them tried. Meanwhile, and when all is committed, executions of every earlier plan are
redriven: their tasks and their finish. Faults end after a while. Then the gather has to become complete, and
every append has to be committed.

In one run of five, executions are cancelled. Their workers end, and their users submit the request again.

In one run of four, each row has a second source, whose values hide pixels of the first one. In three of
eleven, versions of a source have different offsets, and values are harmonised. In two of eleven, windows are
cut into strips, each of which is a task. In one of eleven, each row is the mean of one source or two: it may
only gain sources, and keeps the versions of those that it has. In one of eleven, the cube has chips: windows
of the same two sources, to which further windows are added. In one of eleven, rows are scenes of two bands,
and a list may lack a band that another list has.
"""

import asyncio
import random
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from copy import replace
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import batched
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from faults.simulated_cube import CONTRIBUTORS_KEY, ROWS_KEY, Shard, SimulatedCube
from faults.storm import STARTED_AT, BrokenPromiseError, Storm, StormyControl, first_of
from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.errors import (
    AlreadyCommittedError,
    ArrayExistsError,
    BusyError,
    GatherCancelledError,
    GatherError,
    ShardsMissingError,
    StoreError,
)
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.outcome import strip_digests
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.chip_table import Chips, ChipTable
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.plan import gather_digest, plan_cube
from pixel_gather.core.plan.plan_reduction import reduction_by
from pixel_gather.core.plan.reduced_table import reduced_table
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.read import fill_rows
from pixel_gather.core.read.shard_buffers import Pixels, ShardBuffers
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.receipt import digests_of_shard
from pixel_gather.core.stores import ROOT_KEY, ControlStore
from pixel_gather.engine import (
    compact,
    finish_gather,
    gather_shard,
    plan_append,
    plan_gather,
    row_claim,
    step_files,
)
from pixel_gather.engine.gather_context import GatherContext, GatherStores
from pixel_gather.engine.row_claim import claim_key
from pixel_gather.engine.stop_if_cancelled import check_not_cancelled, unless_cancelled
from support.fakes import (
    UTM,
    FakeImage,
    FakeProjector,
    FakeReader,
    FakeTable,
    access_to,
    context_of,
    table_of,
)
from support.virtual_time import run_virtually

_SIDE: Final = 4
_SHARD_ROWS: Final = 2
_GROWS_FOR_S: Final = 150.0
"""How long faults go on while a cube grows."""

_LONGEST_COMPACTION_S: Final = 4.0
"""A compaction that is given up has ended by then."""

_LAPSES_AFTER_S: Final = 60.0
"""After so long a claim counts as abandoned. The real time is longer, and would only be waited for."""

_LONGEST_RUN_S: Final = 3600.0
_SOURCE_TIMEOUT_S: Final = 2.0
_MOST_TRIES: Final = 5
_HREFS: Final = tuple(f"s3://b/{n}.tif" for n in range(10))
_SECOND_HREFS: Final = tuple(f"s3://b/{n}-second.tif" for n in range(10))
"""Of the masks, or of the second bands of scenes."""

_NUMBERS: Final = {href: number for hrefs in (_HREFS, _SECOND_HREFS) for number, href in enumerate(hrefs)}
_BITS_OF_MASK: Final = 0b11
_N_FIRST: Final = 5
"""Sources of the list that makes the cube."""

_PRODUCTS_RECUR_AFTER: Final = 88
"""Seeds, the least common multiple of what `product_of` divides by."""

_N_IMAGES: Final = 2
"""Sources of a cube of chips."""

_MOST_CHIPS: Final = 10
"""Windows that lie side by side on each of them."""

_GROUPS: Final = (0, 0, 1, 1, 2, 3, 3, 4, 5, 5)
"""Of the sources. No group is in one list and in part in another one."""

_GROUP: Final = ListColumn(name="group", dtype="int64", varies_in_row=False)
_SCENE: Final = ListColumn(name="scene", dtype="string", varies_in_row=False)
_SCENES_OF_LISTS: Final = (((0, 1, 2, 3, 4), (1, 3, 4)), ((1, 5, 6, 7), (5,)), ((1, 3, 5, 7, 8, 9), (7,)))
"""The scenes of each list where bands come late, and those whose second band it lacks. Scene 4 never gets
its own."""

_NO_SHARD: Final = Shard({})
_BLANKS: Final = {n_strips: np.zeros((_SIDE // n_strips, _SIDE), "uint16") for n_strips in (1, 2)}
"""Pixels of a strip that is not there, by the number of strips of a window."""

_WORKERS: Final = WorkerPool(max_task_nbytes=2**20)
_decode_plan: Final = lru_cache(256)(step_files.decode_plan)


@dataclass(frozen=True, eq=False)
class Product:
    """What the sources of a run are. What is made once for each is found by the object."""

    n_bands: int = 1
    """Of each source. A task has an object for each band, so two bands can come apart."""

    has_mask: bool = False
    """Whether each row has a second source, whose values hide pixels of the first one."""

    has_axis: bool = False
    """Whether one array has all bands, so that a task has one object."""

    is_harmonised: bool = False
    """Whether versions of a source have different offsets, which are added to the pixels."""

    n_strips: int = 1
    """Into so many a window is cut. Each is in a task of its own."""

    is_reduced: bool = False
    """Whether a row is the mean of one source or two."""

    has_chips: bool = False
    """Whether the rows are windows of the same two sources."""

    has_late_bands: bool = False
    """Whether a row is a scene of two bands, the second of which may come later."""

    @property
    def n_slots(self) -> int:
        """Sources of a row that is not reduced."""
        return 1 + (self.has_mask or self.has_late_bands)

    @property
    def hrefs(self) -> tuple[str, ...]:
        """Addresses of all sources."""
        if self.has_chips:
            return _HREFS[:_N_IMAGES]
        return _HREFS + _SECOND_HREFS if self.n_slots == 2 else _HREFS

    @property
    def width(self) -> int:
        """Of the sources, in pixels."""
        return _SIDE * _MOST_CHIPS if self.has_chips else _SIDE

    @property
    def tables(self) -> tuple["Table", "Table", "Table"]:
        """The list that makes the cube, and those of the appends. One row is in both of these.

        So the later append leaves it out.
        """
        digests = [name.ljust(64, "x") for name in ("first", "second", "third")]
        spans = ((0, _N_FIRST), (5, 8), (7, 10))
        first, second, third = (
            _table_of_scenes(*_SCENES_OF_LISTS[n], digest=digest)
            if self.has_late_bands
            else self._table(*spans[n], digest=digest)
            for n, digest in enumerate(digests)
        )
        return first, second, third

    def _table(self, first: int, stop: int, *, digest: str) -> "Table":
        """Return the list of some rows, or of some chips."""
        if self.has_chips:
            return ChipTable(
                table=table_of(*self.hrefs, digest="images".ljust(64, "x")), chips=_chips(first, stop)
            )
        if self.is_reduced:
            scenes = [
                CubeRow(time_us=None, sources=(Source(href=href, columns={_GROUP.name: _group_of(href)}),))
                for href in _HREFS[first:stop]
            ]
            return FakeTable(scenes, columns=(_GROUP,), digest=digest)
        if not self.has_mask:
            return table_of(*_HREFS[first:stop], digest=digest)
        pairs = zip(_HREFS[first:stop], _SECOND_HREFS[first:stop], strict=True)
        rows = [
            CubeRow(time_us=None, sources=(Source(href=red, band="red"), Source(href=mask, band="scl")))
            for red, mask in pairs
        ]
        return FakeTable(rows, bands=("red", "scl"), digest=digest)

    def request(self, output: Mapping[str, Any]) -> GatherRequest:
        """Return a request for the same pixels."""
        masks = {"nodata": 0, "mask": {"band": "scl", "bits": [0, 1]}} if self.has_mask else {}
        window: dict[str, Any] = {"window": {"pixels": [0, 0, _SIDE, _SIDE]}}
        if self.has_chips:
            window = {"windows": {"table": "chips.csv", "size": [_SIDE, _SIDE]}}
        output = {**output, "bands": "axis" if self.has_axis else "arrays"}
        values = "harmonised" if self.is_harmonised else "raw"
        reduced = {"reduce": {"by": _GROUP.name, "statistic": "mean"}} if self.is_reduced else {}
        return parse_request(
            {"sources": "list", **window, "values": values, "output": output, **masks, **reduced}
        )

    def offset(self, href: str, version: int) -> int:
        """Return the offset that a version of a source declares. Masks have none."""
        return version % 3 * 10 if self.is_harmonised and href not in _SECOND_HREFS else 0


type Table = FakeTable | ChipTable


def _chips(first: int, stop: int) -> Chips:
    """Return some of the windows that lie side by side."""
    numbers = np.arange(first, stop)
    (width, _, west), (_, height, north) = np.reshape(UTM, (2, 3))
    return Chips(
        ids=numbers.tolist(),
        xs=west + width * _SIDE * (numbers + 0.5),
        ys=np.full(len(numbers), north + height * _SIDE / 2),
        crs="EPSG:32631",
        lons=numbers / 10.0,
        lats=np.zeros(len(numbers)),
        size=(_SIDE, _SIDE),
        kinds=(),
        columns={},
    )


def _table_of_scenes(scenes: Sequence[int], lacking: Sequence[int], *, digest: str) -> FakeTable:
    """Return a list of scenes, some of which lack their second band."""
    rows = [
        CubeRow(
            time_us=None,
            sources=(
                Source(href=_HREFS[n], band="red", scene=str(n)),
                None if n in lacking else Source(href=_SECOND_HREFS[n], band="nir", scene=str(n)),
            ),
        )
        for n in scenes
    ]
    return FakeTable(rows, bands=("red", "nir"), columns=(_SCENE,), digest=digest)


def _group_of(href: str) -> int:
    return _GROUPS[_NUMBERS[href]]


_one_of: Final = cache(Product)


@cache
def product_of(seed: int) -> Product:
    """Return what the sources of some runs are."""
    is_reduced, has_chips, has_late_bands = (seed % 11 == each for each in (9, 4, 7))
    is_plain = not is_reduced and not has_chips
    return _one_of(
        n_bands=1 if has_late_bands else 1 + seed % 2,
        has_mask=seed % 4 == 2 and is_plain and not has_late_bands,
        has_axis=seed % 8 in (5, 6) and is_plain,  # of bands of one file, and of files of their own
        is_harmonised=seed % 11 < 3,
        n_strips=2 if seed % 11 in (5, 6) else 1,
        is_reduced=is_reduced,
        has_chips=has_chips,
        has_late_bands=has_late_bands,
    )


@dataclass(frozen=True)
class Submitted:
    """What users submit in a run."""

    first: GatherRequest
    table: Table
    appends: Mapping[str, GatherRequest]
    """By what becomes of failed rows."""

    appended: tuple[Table, Table]
    """The lists of the appends."""


@cache
def submitted(product: Product) -> Submitted:
    """Return what users submit."""
    layout = {"chunk": [1, _SIDE // product.n_strips, _SIDE], "shard_rows": _SHARD_ROWS}
    output = {} if product.has_chips else {"layout": layout}
    append = product.request({"append_to": "memory"})
    first, second, third = product.tables
    return Submitted(
        first=product.request(output),
        table=first,
        appends={
            failed_rows: append.model_copy(update={"failed_rows": failed_rows})
            for failed_rows in ("retry", "retry_all", "keep")
        },
        appended=(second, third),
    )


@dataclass
class World(Storm):
    """One run: its chance, its stores, and the versions of its sources."""

    product: Product = field(init=False)
    files: dict[str, bytes] = field(default_factory=dict)
    cube: SimulatedCube = field(init=False)
    control: "StormyControl" = field(init=False)
    reader: FakeReader = field(init=False)
    n_versions: Counter[str] = field(default_factory=Counter)
    """Of each source."""

    loses: bool = field(init=False)
    """Whether users complete the cube without the shards whose workers fail."""

    cancels: bool = field(init=False)
    """Whether executions are cancelled."""

    executions: list[int] = field(default_factory=list)
    """What users have submitted, in order."""

    cancelled: set[int] = field(default_factory=set)
    """Executions that have a marker."""

    n_broken_off: int = 0
    """Workers that have found the marker of their execution."""

    planned: list[tuple[CubePlan, tuple[ShardTask, ...]]] = field(default_factory=list)
    """What planners have returned."""

    n_committed: int = 0
    """Versions that the cube has."""

    n_recovered: int = 0
    """Rows that have changed because they were tried again."""

    committed: tuple["Row", ...] = ()
    """Rows of the last version: what is told of the sources of each."""

    compared: dict[tuple[Any, ...], list[Pixels]] = field(default_factory=dict)
    """Rows all of whose sources were read and have their pixels, by what is told of them and by the arrays
    that hold these pixels, which never change."""

    is_complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the first version is there."""

    def __post_init__(self) -> None:
        """Make the first version of each source."""
        super().__post_init__()
        self.product = product_of(self.seed % _PRODUCTS_RECUR_AFTER)
        self.loses = self.seed % 10 == 7  # one run of ten
        self.cancels = self.seed % 5 == 3  # one run of five
        self.cube = SimulatedCube(
            access=self.access, now=self.now, on_commit=lambda: check_commit(self), splits=self.loses
        )
        self.control = StormyControl(storm=self, files=self.files)
        self.reader = FakeReader({})
        for href in self.product.hrefs:
            self.replace_source(href)

    def replace_source(self, href: str) -> None:
        """Give a source other pixels, another ETag and another delay."""
        version = self.n_versions[href]
        self.n_versions[href] += 1
        delay_s = 0.0 if self.has_calmed or self.chance.random() < 0.7 else self.chance.random() * 4
        images: Any = self.reader.images
        image = _image_of(self.product, href, version)
        images[href] = replace(image, delay_s=delay_s) if delay_s else image


@cache
def _image_of(product: Product, href: str, version: int) -> FakeImage:
    """Return a version of a source, with its header."""
    offsets = (float(product.offset(href, version)),) * product.n_bands
    header = {"etag": f'"{version}"', "offsets": offsets}
    image = FakeImage(pixels=_pixels_of(href, version, product.n_bands, product.width), header=header)
    image.header_at(href)
    return image


@cache
def _pixels_of(href: str, version: int, n_bands: int, width: int = _SIDE) -> Pixels:
    """Return the pixels of a version of a source, shape (band, y, x). No two versions are the same."""
    level = _NUMBERS[href] * 1000 + version * 21 + 1  # an odd step: each mask hides other pixels
    one = np.arange(level, level + _SIDE * width, dtype="uint16").reshape(1, _SIDE, width)
    return np.concatenate([one + 7 * band for band in range(n_bands)])


def check_commit(world: World) -> None:
    """Compare a version with its sources, and with the version before it.

    Raises:
        BrokenPromiseError: A row is wrong, or a former version has lost or changed one.
    """
    n_versions = len(_versions(world))
    if world.product.is_reduced and n_versions == world.n_committed:
        return  # a fence, while a try of rows that count as read may be put
    before, rows = world.committed, _rows_of(world)
    if len(rows) < len(before) or not all(map(_may_become, before, rows)):
        raise BrokenPromiseError("rows of a former version have changed, or are lost")
    if n_versions > world.n_committed:  # and not a fence
        world.n_recovered += sum(was != row for was, row in zip(before, rows, strict=False))
        world.committed, world.n_committed = rows, n_versions
        _check_receipt(world)
    world.is_complete.set()
    check_promise(world)


def _check_receipt(world: World) -> None:
    """Compare the receipt and the counts of versions with the table of rows.

    Raises:
        BrokenPromiseError: They differ.
    """
    root, receipt = world.cube.content_now(ROOT_KEY), world.cube.content_now("receipt.json")
    digests = world.cube.content_now(ROWS_KEY)["pixel_digest"].reshape(
        -1, len(plan_of(world.product).measurements)
    )
    digests = digests[: root.versions[-1].n_rows]  # an append that was given up may have left more
    shard_rows = root.plan.layout.shard[0]
    n_places = -(-len(digests) // shard_rows)
    places = [(place, strip) for place in range(n_places) for strip in range(world.product.n_strips)]
    for place, strip in places:
        rows = digests[place * shard_rows : (place + 1) * shard_rows]
        of_strip = [[strip_digests(each)[strip] for each in row] for row in rows]
        for key, digest in digests_of_shard(root.plan, place, of_strip, strip=strip).items():
            if receipt.shards[key] != digest:
                told = [(each.kind, each.n_rows, each.n_retried) for each in root.versions]
                raise BrokenPromiseError(f"the receipt has another digest of {key}: {told}")
    counts = [(each.n_failed, each.n_retried, each.n_recovered) for each in root.versions]
    n_failed = sum(failed - recovered for failed, _, recovered in counts)
    told = sum(n for name, n in root.report["status_counts"].items() if Status[name.upper()].is_failure)
    if n_failed != told or min(map(min, counts)) < 0:
        raise BrokenPromiseError(f"{told} sources have failed, and the versions tell of {counts}")


@dataclass(frozen=True, slots=True)
class Told:
    """What the coordinates tell of a source."""

    href: str
    status: tuple[int, ...]
    """Of each band."""

    etag: str
    greatest: tuple[float | None, ...]
    """Value of each band."""

    chip: int = 0
    """Which window of the source."""

    @property
    def is_read(self) -> bool:
        """Whether its pixels are there."""
        return set(self.status) == {Status.OK}


type Row = tuple[Told, ...]
"""Its sources. Of a row that was reduced: the row itself, and each source of its mean."""


def _may_become(before: Row, after: Row) -> bool:
    """Return whether a row may become another one: sources that had failed were tried again."""
    if before[0].href == "":  # it was reduced
        return before == after or set(before[1:]) < set(after[1:])
    return all(
        was == told or ((was.href, was.chip) == (told.href, told.chip) and not was.is_read)
        for was, told in zip(before, after, strict=True)
    )


def check_promise(world: World) -> None:
    """Compare a cube with its sources: each row has the pixels of its source, or says why not.

    Raises:
        BrokenPromiseError: It differs.
    """
    root = world.cube.content_now(ROOT_KEY)
    rows = _rows_of(world)
    if len(rows) != root.versions[-1].n_rows:
        raise BrokenPromiseError(
            f"{counted(root.versions[-1].n_rows, 'row')} are committed, and {len(rows)} have coordinates"
        )
    is_quiet = rows == world.committed  # or a try is being published
    if not all(map(_may_become, world.committed, rows)):
        raise BrokenPromiseError("the coordinates of committed rows have changed")
    if world.cube.content_now(f"arrays/{ROOT_KEY}") < len(rows):
        raise BrokenPromiseError("an array is shorter than the version")
    table = world.cube.content_now(ROWS_KEY)["href"][: len(rows)]
    if len(table) < len(rows):
        raise BrokenPromiseError("the table has fewer rows than are committed")
    hrefs = table.reshape(len(rows), -1).tolist()
    if hrefs != [[told.href for told in row[: world.product.n_slots]] for row in rows]:
        raise BrokenPromiseError("the table has other rows than the coordinates")
    windows = [(told.href, told.chip) for row in rows for told in row if world.product.has_chips]
    if len(set(windows)) < len(windows):
        raise BrokenPromiseError("a window of a source is there twice")
    if world.product.has_late_bands:
        _check_scenes(world, [{told.href for told in row} - {""} for row in rows])
    if world.cube.content_now("receipt.json").version < root.versions[-1].number:
        raise BrokenPromiseError("the receipt is that of an older version")
    count_read = _count_reduced if world.product.is_reduced else _count_read
    n_ok = sum(count_read(world, number, row) for number, row in enumerate(rows))
    told_ok = root.report["status_counts"].get("ok", 0)
    if told_ok != n_ok and (is_quiet or told_ok > n_ok):
        raise BrokenPromiseError(f"the report tells of {told_ok} that are ok, the rows of {n_ok}")


def _check_scenes(world: World, rows: Sequence[set[str]]) -> None:
    """Check that each row adds a band to its scene, and that committed lists miss no band.

    Raises:
        BrokenPromiseError: A scene was added once too often, or a band was not.
    """
    there: set[str] = set()
    for number, hrefs in enumerate(rows):
        if hrefs <= there:
            raise BrokenPromiseError(f"row {number} has no band that its scene lacked")
        there |= hrefs
    asked, versions = submitted(world.product), _versions(world)
    for table in asked.appended:
        wanted = {
            each.href for row in table.rows(0, table.n_rows) for each in row.sources if each is not None
        }
        if _digest_of(asked.appends["retry"], table) in versions and not wanted <= there:
            raise BrokenPromiseError(f"bands of an appended list are missing: {sorted(wanted - there)}")


def _rows_of(world: World) -> tuple[Row, ...]:
    """Return what is told of the sources of all rows, as far as there are coordinates.

    Raises:
        BrokenPromiseError: A coordinate lacks rows that another one has.
    """
    n_rows = world.cube.content_now(ROOT_KEY).versions[-1].n_rows
    chunks = [world.cube.content_now(f"{name}/c/0") or {} for name in ("others", "status", "etag", "max")]
    values = {name: each for chunk in chunks for name, each in chunk.items()}
    columns = [values[name][:n_rows] for name in ("href", "status", "etag", "max")]
    if len({len(each) for each in columns}) > 1:
        raise BrokenPromiseError("one coordinate has fewer rows than another")
    n_slots = world.product.n_slots
    n_told = len(columns[0]) * n_slots  # fewer than the version has, if a defect has lost some
    chips = values["chip"][:n_rows].tolist() if world.product.has_chips else [0] * n_told
    of_sources = [each.reshape(len(each) * n_slots, -1).tolist() for each in columns]
    told = [
        Told(href, tuple(status), etag, tuple(None if value != value else value for value in greatest), chip)  # noqa: PLR0124 # NaN
        for (href,), status, (etag,), greatest, chip in zip(*of_sources, chips, strict=True)
    ]
    if world.product.is_reduced:
        return tuple((each, *_used(world, row)) for row, each in enumerate(told))
    return tuple(batched(told, n_slots, strict=True))


def _used(world: World, row: int) -> list[Told]:
    """Return the sources of a row's mean, as the table of sources tells of them."""
    lines = world.cube.content_now(CONTRIBUTORS_KEY)
    of_row = np.flatnonzero((lines["row"] == row) & (lines["status"] == "ok"))
    return [
        Told(href, (Status.OK,), etag, ())
        for href, etag in zip(lines["href"][of_row], lines["etag"][of_row], strict=True)
    ]


def _count_read(world: World, number: int, row: Row) -> int:
    """Return how many sources of a row were read. Each has its pixels.

    Raises:
        BrokenPromiseError: A row has other pixels than it says.
    """
    parts = _parts_of(world, number)
    compared = (row, *map(id, parts))
    if compared in world.compared:
        return len(row)
    n_measurements = len(plan_of(world.product).measurements)
    pixels = np.concatenate(list(map(np.stack, batched(parts, n_measurements, strict=True))), axis=1)
    if world.product.has_mask and row[0].is_read and not row[-1].is_read:
        raise BrokenPromiseError(f"row {number} is ok, and its mask was not read")
    for slot, (told, found) in enumerate(zip(row, np.split(pixels, world.product.n_slots), strict=True)):
        which = f"source {slot} of row {number}"
        if told.is_read:
            if not told.etag:
                raise BrokenPromiseError(f"{which} is ok, and does not tell its version")
            stored = _shown(world, row) if slot == 0 else _stored(world, told)
            if not np.array_equal(found, stored):
                raise BrokenPromiseError(f"{which} is ok, and has other pixels than its version")
            if list(told.greatest) != stored.max(axis=(1, 2)).tolist():
                raise BrokenPromiseError(f"{which} has the statistics of other pixels")
        else:
            _check_unread(world, number, slot, told, found)
    n_read = sum(told.is_read for told in row)
    if n_read == len(row):
        world.compared[compared] = parts
    return n_read


def _count_reduced(world: World, number: int, row: Row) -> int:
    """Return how many sources of a reduced row were read. Its pixels are their mean.

    Raises:
        BrokenPromiseError: A row has other pixels than it says.
    """
    (told, *used), lines = row, world.cube.content_now(CONTRIBUTORS_KEY)
    which, hrefs = f"reduced row {number}", lines["href"][lines["row"] == number].tolist()
    if hrefs != [each for each in _HREFS if hrefs and _group_of(each) == _group_of(hrefs[0])]:
        raise BrokenPromiseError(f"{which} tells of other sources: {hrefs}")
    if told.is_read != bool(used):
        raise BrokenPromiseError(
            f"{which} has the status {set(told.status)}, and {len(used)} sources were read"
        )
    if used:
        mean = np.mean([_stored(world, each) for each in used], axis=0).astype("float32")
        if not np.array_equal(np.stack(_parts_of(world, number)), mean):
            raise BrokenPromiseError(f"{which} has not the mean of its sources")
        if list(told.greatest) != mean.max(axis=(1, 2)).tolist():
            raise BrokenPromiseError(f"{which} has the statistics of other pixels")
    return len(used)


def _check_unread(world: World, number: int, slot: int, told: Told, found: Pixels) -> None:
    """Check that nothing is there of a source that was not read.

    Raises:
        BrokenPromiseError: There is something.
    """
    which = f"source {slot} of row {number}"
    if set(told.status) == {Status.LOST}:
        was = world.committed[number] if number < len(world.committed) else None
        is_committed = was is not None and told == was[slot]
        if is_committed and (told.etag or any(each is not None for each in told.greatest)):
            raise BrokenPromiseError(f"{which} is lost, and tells of its source")
    is_tried = any(number in _again(plan) for plan, _ in world.planned)
    if world.product.n_strips == 1 and found.any() and not is_tried:
        raise BrokenPromiseError(f"{which} has the status {set(told.status)}, and pixels")


def _parts_of(world: World, number: int) -> list[Pixels]:
    """Return the pixels of a row: those of each measurement in the first strip, then in the next."""
    plan, n_strips = plan_of(world.product), world.product.n_strips
    place, within = divmod(number, plan.layout.shard[0])
    return [
        (world.cube.content_now(key) or _NO_SHARD).rows.get((within, band), _BLANKS[n_strips])
        for strip in range(n_strips)
        for key, array in zip(plan.object_keys(place, strip), plan.arrays, strict=True)
        for band in range(len(array.measurements))
    ]


def _stored(world: World, told: Told) -> Pixels:
    """Return the pixels of a version of a source, shape (band, y, x)."""
    version = int(told.etag.strip('"'))
    offset = np.uint16(world.product.offset(told.href, version))
    pixels = _pixels_of(told.href, version, world.product.n_bands, world.product.width)
    return pixels[..., told.chip * _SIDE : (told.chip + 1) * _SIDE] + offset


def _shown(world: World, row: Row) -> Pixels:
    """Return the pixels of a row's first source, without those that the row's mask hides."""
    stored = _stored(world, row[0])
    return np.where(_stored(world, row[1]) & _BITS_OF_MASK, 0, stored) if world.product.has_mask else stored


def _again(plan: CubePlan) -> tuple[int, ...]:
    """Return the rows that a plan tries again. They may hold pixels while they count as failed."""
    return plan.append.again


@dataclass
class Run:
    """The actors of one run."""

    world: World
    execution: int = 0
    """The last one that was begun."""

    def _begin(self) -> None:
        """Begin an execution: a new one for each time that a request is submitted."""
        self.execution = len(self.world.executions)
        self.world.executions.append(self.execution)

    async def is_cancelled(self, execution: int) -> bool:
        """Look for the marker of an execution."""
        world = self.world
        if not world.cancels:
            return False

        def look() -> bool:
            return execution in world.cancelled

        return await world.access(look)

    async def gather(self) -> None:
        """Plan, gather all shards and finish, as a state machine does. Repeat each step until it is done."""
        self._begin()
        asked = submitted(self.world.product)
        planned = await self._until_done(lambda: self._plan(asked.first, asked.table))
        if planned is not None:
            await self._work(*planned)

    async def append(self, table: Table, failed_rows: str = "retry") -> None:
        """Add rows in the same way. Some appends are given up half-way."""
        self._begin()
        request = submitted(self.world.product).appends[failed_rows]
        planned = await self._until_done(lambda: self._plan(request, table))
        if planned is None or self._chance() < 0.1:
            return
        await self._work(*planned)

    async def compact(self) -> None:
        """Give back the space of continued shards. Some compactions are given up half-way."""
        if self._chance() < 0.4:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.world.chance.random() * _LONGEST_COMPACTION_S):
                    await compact.compact_cube(self.world.cube)
            return
        await self._until_done(lambda: compact.compact_cube(self.world.cube))

    async def _work(self, plan: CubePlan, tasks: Sequence[ShardTask]) -> None:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(self._fill(plan, task))
        most_lost = 1.0 if self.world.loses else 0.0
        await self._until_done(lambda: self.finish(plan, tasks, max_lost_share=most_lost))
        if self.world.seed % 3 == 0:  # as a gather in process does
            await self._until_done(self.world.control.below(plan.claim).clear)

    async def _fill(self, plan: CubePlan, task: ShardTask) -> None:
        """Start workers for a task until one has committed it. Some are killed, some run twice."""
        while True:
            if self.world.loses and self._chance() < 0.4:  # the state machine has given it up
                return
            workers = [
                asyncio.create_task(self.worker(plan, task)) for _ in range(1 + (self._chance() < 0.2))
            ]
            if self._chance() < 0.15:  # a time-out or a lost machine
                await asyncio.sleep(self.world.chance.random() * 5)
                workers[0].cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
            for each in ended:
                if isinstance(each, AlreadyCommittedError):
                    return
                if isinstance(each, ArrayExistsError | BrokenPromiseError | GatherCancelledError):
                    raise each
                if isinstance(each, Exception) and not isinstance(each, GatherError):
                    raise BrokenPromiseError(f"no Retry names {type(each).__name__}") from each
            if any(not isinstance(each, BaseException) for each in ended):
                return

    def _chance(self) -> float:
        return 1.0 if self.world.has_calmed else self.world.chance.random()

    async def _until_done[T](self, step: Callable[[], Awaitable[T]]) -> T:
        """Try a step again while stores fail, at most five times. Sometimes it is killed on its way."""
        for _ in range(_MOST_TRIES):
            with suppress(StoreError, BusyError, TimeoutError):
                limit_s = self.world.chance.random() * 10 if self._chance() < 0.15 else None
                async with asyncio.timeout(limit_s):
                    return await step()
            await asyncio.sleep(self.world.chance.random())
        raise StoreError("the step failed again and again")

    async def _plan(self, request: GatherRequest, table: Table) -> plan_gather.Planned | None:
        world = self.world
        planned = await plan_gather.plan_gather(
            request,
            table=table,
            context=self._context(world.control),
            workers=_WORKERS,
            describes_crs=False,  # the plan is described already
        )
        if planned is not None:
            world.planned.append(planned)
        return planned

    def _context(self, control: ControlStore) -> GatherContext:
        """Return what the steps share, with a worker's own limit of sources."""
        sources = access_to(self.world.reader, timeout_s=_SOURCE_TIMEOUT_S)
        return context_of(self.world.cube, control, sources)

    async def worker(self, plan: CubePlan, task: ShardTask) -> None:
        """Look for the cube, and fill a shard of it, as `gather_shards` does."""
        execution = self.execution  # its user may have begun another one when this worker wakes up
        was_cancelled = execution in self.world.cancelled
        check_uncommitted(await self.world.cube.found_among_files(), plan)
        try:
            await unless_cancelled(self.shard(plan, task), partial(self.is_cancelled, execution))
        except GatherCancelledError:
            self.world.n_broken_off += 1
            raise
        if was_cancelled:
            raise BrokenPromiseError("a worker of a cancelled execution has gone on")

    async def shard(self, plan: CubePlan, task: ShardTask) -> None:
        """Fill a shard without a first look, as a worker that has slept since."""
        context = self._context(self.world.control.below(plan.claim))
        await gather_shard.gather_shard(task, plan=plan, context=context, buffers=ShardBuffers(plan))

    async def finish(
        self, plan: CubePlan, tasks: Sequence[ShardTask], *, max_lost_share: float = 0.0
    ) -> None:
        """Complete the cube."""
        await check_not_cancelled(partial(self.is_cancelled, self.execution))
        stores = GatherStores(cube=self.world.cube, control=self.world.control.below(plan.claim))
        await finish_gather.finish_gather(
            plan=plan, tasks=tasks, stores=stores, max_lost_share=max_lost_share
        )


async def _user(run: Run) -> None:
    """Submit the request until the cube is complete, as a user does who repeats the command."""
    world = run.world
    while not _versions(world):
        try:
            await run.gather()
        except* (ArrayExistsError, StoreError, BusyError, GatherCancelledError):
            await asyncio.sleep(world.chance.random())


async def _appender(run: Run, table: Table) -> None:
    """Submit an append until its rows are there."""
    world, digest = run.world, _digest_of(submitted(run.world.product).appends["retry"], table)
    while digest not in _versions(world):
        try:
            await run.append(table)
        except* (ArrayExistsError, StoreError, BusyError, GatherCancelledError, ShardsMissingError):
            await asyncio.sleep(world.chance.random() * _LAPSES_AFTER_S)


async def _retrier(run: Run) -> None:
    """Repeat appends, so that rows that have failed are tried again."""
    chance = run.world.chance
    for _ in range(2):
        await asyncio.sleep(chance.random() * _GROWS_FOR_S)
        table = chance.choice(submitted(run.world.product).appended)
        with suppress(GatherError):
            try:
                await run.append(table, chance.choice(["retry", "retry", "retry_all", "keep"]))
            except* GatherError as group:
                raise StoreError("the append failed") from group


def _versions(world: World) -> list[str]:
    """Return the digests of the versions that the cube has."""
    root = world.cube.content_now(ROOT_KEY)
    return [] if root is None else [each.digest for each in root.versions]


async def _compactor(run: Run) -> None:
    """Compact the cube now and then. Another one may do so at the same time."""
    for _ in range(2):
        await asyncio.sleep(run.world.chance.random() * _GROWS_FOR_S)
        with suppress(GatherError):
            await run.compact()


async def _redriver(run: Run) -> None:
    """Redrive executions of any earlier plan, whatever has been committed since."""
    for _ in range(3):
        await asyncio.sleep(run.world.chance.random() * _GROWS_FOR_S)
        await _redriven(run, *run.world.chance.choice(run.world.planned))


async def _canceller(world: World) -> None:
    """Cancel executions until the faults end, some of which have ended long ago."""
    while world.cancels:
        await asyncio.sleep(world.chance.random() * 20)
        if world.has_calmed or not world.executions:
            continue
        execution = world.chance.choice(world.executions)

        def mark(execution: int = execution) -> None:
            world.cancelled.add(execution)

        with suppress(StoreError):
            await world.access(mark)


async def _vandal(world: World) -> None:
    """Replace sources until the faults end."""
    while True:
        await asyncio.sleep(world.chance.random() * 5)
        if not world.has_calmed:
            world.replace_source(world.chance.choice(world.product.hrefs))


async def _until(works: Sequence[Coroutine[Any, Any, None]], until_s: float = _LONGEST_RUN_S) -> None:
    """Let actors work until all of them are done, or until they are stopped."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(until_s), asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except TimeoutError as error:
        if loop.time() >= _LONGEST_RUN_S:
            raise BrokenPromiseError("the gather did not end") from error


async def _gathered_by_two(world: World, *, until_s: float = _LONGEST_RUN_S, grows: bool = False) -> None:
    """Let two users work until the cube is complete, or until they are stopped. It may grow meanwhile."""
    growing = [_grown(world)] if grows else []
    await _until([*(_user(Run(world)) for _ in range(2)), *growing], until_s)


async def _grown(world: World) -> None:
    """Let a complete cube grow while faults go on, and executions of former plans come back.

    One of those who have gathered it may still be at work.
    """
    await world.is_complete.wait()
    chance, run = world.chance.random, Run(world)
    world.calms_at_s = asyncio.get_running_loop().time() + _GROWS_FOR_S
    appenders = [
        _appender(run, table)
        for table in submitted(world.product).appended
        for _ in range(1 + (chance() < 0.5))
    ]
    compactors = [_compactor(run) for _ in range(2 * (chance() < 0.5))]
    retriers = [_retrier(run) for _ in range(2 * (chance() < 0.5))]
    await _until([*appenders, *compactors, *retriers, *(_redriver(run) for _ in range(2))])


async def _remove_and_gather_anew(world: World) -> None:
    """Remove the cube while workers run on, gather it anew, and redrive the old gather meanwhile.

    Its finish is waited for, as docs/faults.md tells to.
    """
    await world.all_arrived()
    late = Run(world)
    old = world.planned[-1] if world.planned else None
    redriven = [] if old is None else [_redriven_later(late, *old)]
    workers = [] if old is None else [late.shard(old[0], task) for task in old[1]]

    async def remove() -> None:
        await asyncio.sleep(world.chance.random() * 3)
        world.cube.remove()
        world.committed, world.n_committed = (), 0
        world.is_complete.clear()
        await _gathered_by_two(world)

    await asyncio.gather(remove(), _all_ended([*workers, *redriven]))


async def _redriven_later(run: Run, plan: CubePlan, tasks: Sequence[ShardTask]) -> None:
    """Redrive a gather from the console, some time after its cube was removed."""
    await asyncio.sleep(5 + run.world.chance.random() * 30)
    await _redriven(run, plan, tasks)


async def _redriven(run: Run, plan: CubePlan, tasks: Sequence[ShardTask]) -> None:
    """Run all tasks of an execution again, and its finish."""
    most_lost = 1.0 if run.world.loses else 0.0  # the request says it, so it is that of the first run
    await _all_ended([run.shard(plan, task) for task in tasks])
    await _all_ended([run.finish(plan, tasks, max_lost_share=most_lost)])


async def _all_ended(works: Sequence[Awaitable[None]]) -> None:
    """Run all. An old gather may fail in any way that is foreseen."""
    for each in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(each, BaseException) and not isinstance(each, GatherError):
            raise each


def simulate(seed: int) -> World:
    """Run one gather by two users, and check the promise.

    Raises:
        BrokenPromiseError: A finished cube was wrong, or the gather did not end.
    """
    world = World(seed)

    async def everything() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of actors that were stopped
        others = [asyncio.create_task(_vandal(world)), asyncio.create_task(_canceller(world))]
        try:
            if world.chance.random() < 0.4:  # of the runs
                await _gathered_by_two(world, until_s=world.chance.random() * 30)
                await _remove_and_gather_anew(world)
            grows = world.chance.random() < 0.7
            await _gathered_by_two(world, grows=grows)
            await world.all_arrived()
        finally:
            for each in others:
                each.cancel()

    random.seed(seed)  # the pauses of the program
    try:
        with _of_this_run(world.product):
            run_virtually(everything())
    except* BrokenPromiseError as group:
        raise BrokenPromiseError(f"seed {seed}: {first_of(group)}") from group
    if world.broken is not None:
        raise BrokenPromiseError(f"seed {seed}: {world.broken}") from world.broken
    if not (world.product.is_reduced and claim_key(len(_versions(world)) + 1) in world.cube.objects):
        check_promise(world)  # no try of rows that count as read was given up
    return world


async def _on_the_loop[T](work: Callable[[], T], *, goes_first: bool = False) -> T:
    """Measure and compress on the event loop, so that a seed is always the same run."""
    del goes_first  # nothing waits
    return work()


async def _here[T](work: Callable[..., T], *arguments: Any) -> T:
    """Do on the event loop what would be done in a thread."""
    return work(*arguments)


@cache
def plan_of(product: Product, *, version: int = 0) -> CubePlan:
    """Return the plan of every run with such sources, but for its time. It waits for no store."""
    images = {href: _pixels_of(href, version, product.n_bands, product.width) for href in product.hrefs}
    asked = submitted(product)
    is_cut = product.n_strips > 1 or product.has_chips
    workers = WorkerPool(max_task_nbytes=_nbytes_of_task(product)) if is_cut else _WORKERS
    plan = run_virtually(
        plan_cube(
            asked.first,
            table=reduced_table(asked.first, asked.table, FakeProjector()),
            sources=access_to(FakeReader(images)),
            workers=workers,
            now=STARTED_AT,
        )
    )
    return plan_gather.describe_place(plan, FakeProjector())


def _nbytes_of_task(product: Product) -> int:
    """Return the size of a task, so that a whole window does not fit, or three chips."""
    n_measurements = product.n_bands * product.n_slots
    n_rows = 2 * _N_IMAGES if product.has_chips else _SHARD_ROWS
    return n_rows * (_SIDE // product.n_strips) * _SIDE * n_measurements * np.dtype("uint16").itemsize


_digests: Final[dict[tuple[int, str], str]] = {}


def _digest_of(request: GatherRequest, table: SourceTable) -> str:
    """Return the digest of a gather. There are few requests, and they live as long as all runs."""
    key = (id(request), table.digest)
    if key not in _digests:
        _digests[key] = gather_digest(request, table)
    return _digests[key]


@contextmanager
def _of_this_run(product: Product) -> Iterator[None]:
    """Make plans at virtual times, which name their claims. Do once what is the same in all runs."""
    clock = SimpleNamespace(time=lambda: STARTED_AT + asyncio.get_running_loop().time())
    plan = plan_of(product)

    async def planned(
        request: GatherRequest, *, table: SourceTable, now: float, append: Append, **_: Any
    ) -> CubePlan:
        if append.is_first:
            return replace(plan, planned_at=now)
        return replace(
            plan,
            digest=_digest_of(request, table),
            planned_at=now,
            n_sources=table.n_sources,
            n_rows=append.first_row + table.n_rows,
            append=append,
            reduction=reduction_by(CubeTemplate.of(plan, is_aligned=True), append, table),
        )

    def planned_again(_: GatherRequest, *, digest: str, now: float, append: Append, **__: Any) -> CubePlan:
        return replace(
            plan,
            digest=digest,
            planned_at=now,
            n_sources=0,
            n_rows=append.first_row,
            append=append,
            reduction=reduction_by(CubeTemplate.of(plan, is_aligned=True), append, None),
        )

    with (
        patch.object(plan_gather, "time", clock),
        patch.object(plan_append, "time", clock),
        patch.object(compact, "time", clock),
        patch.object(row_claim, "time", clock),
        patch.object(row_claim, "LAPSES_AFTER_S", _LAPSES_AFTER_S),
        patch.object(row_claim, "_RENEWED_AFTER_S", _LAPSES_AFTER_S / 6),
        patch.object(plan_append, "plan_cube", planned),
        patch.object(plan_append, "plan_again", planned_again),
        patch.object(plan_gather, "gather_digest", _digest_of),
        patch.object(plan_gather, "decode_plan", _decode_plan),
        patch.object(gather_shard, "peak_rss_mib", float),
        patch.object(fill_rows, "in_thread", _on_the_loop),
        patch.object(asyncio, "to_thread", _here),
    ):
        yield
