"""Whole tables of a deployment in virtual time, with random faults. The same seed gives the same run.

What users, steps, workers and stores do is in `faults.simulated_rounds`. Several users ask for tables of the
same points, or of the same zones. Images cannot be read for a while, or can be read only in part.

In one run of three, all users make the same table. In the others, they append lists that overlap to one
table, again and again, and old versions are removed. In half of the runs, executions are stopped once or
twice. Then 15 days or a month may go by, and somebody may remove all tables. In one run of four, some
requests have a limit of dollars that is too low, and some append other values to the same table.

Each version must hold what its images held, and keep what an earlier version had read. What was read before a
removal must not come back. A table has the values of one request. A table that is
reported as done must have all its images. An image that a worker has read must not be reported as unread. In
the end the faults stop, and then every table must be made.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, override
from unittest.mock import patch

import msgspec

from faults.simulated_images import (
    POINTS,
    ZONES,
    Pairs,
    SimulatedKind,
    href_of,
    lines_of,
    number_of,
    rows_of,
)
from faults.simulated_rounds import (
    ALL_LISTED,
    LISTS,
    LONGEST_TASK_S,
    RoundsRun,
    RoundsWorld,
    SimulatedDeployment,
    clock_of,
    opened_lists,
    run_seed,
)
from faults.storm import BrokenPromiseError
from handlers.deployment.report_spending import Spending
from handlers.tables import committed_tables, feature_steps, feature_table, image_worker
from handlers.tables.feature_steps import FeatureSteps
from handlers.tables.image_worker import ImageWorker
from pixel_gather.core.errors import BudgetError, RequestError, SourceError, StoreError
from pixel_gather.core.model.source import Cost, CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.features.versions import compact_table
from pixel_gather.tables import feature_rounds
from pixel_gather.tables.base_table import MOST_TRIES, BaseTable
from pixel_gather.tables.features import Features, Integers
from pixel_gather.tables.image_work import key_of
from pixel_gather.tables.map_tasks import MapTask
from pixel_gather.tables.open_scene import ImagePlan
from pixel_gather.tables.part_folder import ImageRecord, Measured
from pixel_gather.tables.table_values import Values

_FILES: Final = {
    "table": "",
    "features_table": ".features",
    "images_table": ".images",
    "pieces_table": ".pieces",
}
"""Fields of a result, and what is added to the name of the table."""


@dataclass(frozen=True, slots=True)
class Version:
    """What the files of one version of a table say."""

    records: Mapping[str, ImageRecord]
    """By key."""

    read: Pairs

    by: str
    """The only value of its request."""

    shown: Collection[tuple[str, int]]
    """Those of ``read`` that went into a line. A zone has one line for each pass, so some go into none."""


@dataclass
class World(RoundsWorld):
    """One run: its stores, its images and its tables."""

    told: dict[str, Version] = field(default_factory=dict)
    """The last version of each table."""

    read: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """Keys of images that workers have read, by table and round."""

    removed_at: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """The version of each image when a table was removed, by table."""

    features: Features | None = None
    """Of all tables, as they are measured."""

    is_read: float = field(init=False)
    """Share of the features that can be read on an image, while there are faults."""

    asks_unlike: bool = field(init=False)
    """Whether some requests have a limit of dollars that is too low, or append other values to the table."""

    def __post_init__(self) -> None:
        """Open the stores."""
        super().__post_init__()
        self.asks_unlike = self.more.random() < 1 / 4
        self.is_read = 0.6 if self.seed % 7 > 3 else 0.95

    @property
    def kind(self) -> SimulatedKind:
        """What all tables are of."""
        return ZONES if self.seed // 8 % 2 else POINTS

    @property
    def appends(self) -> bool:
        """Whether users append to one table."""
        return self.seed % 3 > 0

    @override
    def look_at(self, parts: Sequence[str], content: bytes) -> None:
        match parts:
            case ["cubes", "out", "tables", name, "result.json"]:
                check_result(self, name, json.loads(content))
            case ["control", "tables", name, "rounds", number, "measured", _, _]:
                records = msgspec.convert(msgspec.msgpack.decode(content)[0], list[ImageRecord])
                read = {each.key for each in records if each.status == "ok"}
                self.read.setdefault(name, {}).setdefault(int(number), set()).update(read)
            case ["control", "tables", _, "rounds", _, "state"]:
                state = msgspec.msgpack.decode(content, type=feature_rounds.FeatureState)
                self.check_tasks("/".join(parts[:-1]), state.tasks)

    def _note_of(self, name: str) -> str:
        """Return the key of the note that the table was made that is there."""
        result = json.loads(self.files[f"{self.results.folder}{name}/result.json"])
        return f"control/tables/{name}/made/{result['removals']}"

    @override
    def note_removal(self) -> Sequence[str]:
        names = list(self.told)
        self.told.clear()
        next_versions = {href_of(n): self.n_versions[href_of(n)] + 1 for n in ALL_LISTED}
        # A call that was killed between a table and its note: nothing tells of the removal (decision 62).
        noted = [name for name in names if self._note_of(name) in self.files]
        self.removed_at |= dict.fromkeys(noted, next_versions)
        return names


@dataclass
class SimulatedWork:
    """Measures images: an `ImageWork`."""

    world: World

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the values."""
        return self.world.kind.columns

    async def measure(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> Measured:
        """Return the lines of an image as it is now. Perhaps some of its features cannot be read."""
        assert members is None
        world, href = self.world, _href_in(row)
        cost.requests += 1
        version, chance = world.n_versions[href], world.chance.random
        await asyncio.sleep(chance() * (2 if chance() < 0.9 or world.has_calmed else 90))
        if world.has_calmed:
            is_read = [True] * world.kind.n_features
        elif chance() < 0.15:
            raise SourceError("it did not answer", href=href, status=Status.TIMED_OUT)
        else:
            is_read = [chance() < world.is_read for _ in range(world.kind.n_features)]
        return world.kind.measured(number_of(href), version, is_read)

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take. Some say more than others, and some cannot be opened now."""
        del row, members, cost
        await asyncio.sleep(self.world.chance.random())
        if not self.world.has_calmed and self.world.chance.random() < 0.1:
            raise SourceError("it did not answer", href="", status=Status.TIMED_OUT)
        n = self.world.chance.randint(1, 6)
        return ImagePlan(n_lines=n, n_tiles=1, n_requests=1, nbytes=1, decoded_nbytes=1)


def _href_in(row: CubeRow) -> str:
    (source,) = row.sources
    assert source is not None
    return source.href


def check_result(world: World, name: str, result: Mapping[str, Any]) -> None:
    """Check a version of a table when it is committed.

    Raises:
        BrokenPromiseError: It is wrong, or it lacks what a former version had.
    """
    if result["name"] != name:
        raise BrokenPromiseError(f"{name} has the result of {result['name']}")
    with TemporaryDirectory() as folder:
        table = _copied(world, name, result, Path(folder))
        version = _version_of(world, table)
    before = world.told.get(name)
    removed_at = world.removed_at.get(name, {})
    if any(
        int(each.etags[0] or 0) < removed_at.get(each.scene, 0)
        for each in version.records.values()
        if each.status == "ok"
    ):
        raise BrokenPromiseError(f"{name} was removed, and has what was read before")
    if before is not None:
        if not world.appends:
            raise BrokenPromiseError(f"{name} was written twice")
        _check_kept(before, version)
        if before == version:
            raise BrokenPromiseError(f"{name} was written again, and nothing is new")
    n_failed = sum(each.status != "ok" for each in version.records.values())
    told = result["scenes"], result["failed"], result["lines"]
    if told != (len(version.records), n_failed, table.receipt["lines"]):
        raise BrokenPromiseError(f"{name} tells of {told}")
    world.told[name] = version


def _copied(world: World, name: str, result: Mapping[str, Any], folder: Path) -> BaseTable:
    """Copy the files of a version to the disk, and open it."""
    path = folder / "table.parquet"
    for key, beside in _FILES.items():
        content = world.files.get(result[key].removeprefix("s3://")) if key in result else None
        if content is not None:
            path.with_name(f"table{beside}.parquet").write_bytes(content)
        elif key != "pieces_table" or key in result:
            raise BrokenPromiseError(f"{name} has no {key}")
    try:
        return BaseTable.open_(path)
    except StoreError as error:
        raise BrokenPromiseError(f"{name}: {error}") from error


def _version_of(world: World, table: BaseTable) -> Version:
    """Return what a table holds, and compare it with its images."""
    assert world.features is not None
    records = {each.key: each for each in table.records}
    if len(records) < len(table.records):
        raise BrokenPromiseError("an image is there twice")
    lines = lines_of(table.path)
    read = world.kind.pairs(lines, table.records, world.features)
    for record in table.records:
        n_read = sum(key == record.key for key, _ in read)
        if record.status == "ok" and n_read + record.n_unread != record.n_lines:
            raise BrokenPromiseError(
                f"{record.scene} has {n_read} of {record.n_lines} lines, and tells of {record.n_unread}"
            )
    keys = {each.hrefs[0]: each.key for each in table.records}
    shown = {
        (keys[href], line["id"])
        for line in lines
        for href in f"{line['href'] or ''} {line.get('other_hrefs') or ''}".split()
    }
    (by,) = table.receipt["request"]["values"]
    return Version(records, read, by, read.keys() & shown)


def _check_kept(before: Version, after: Version) -> None:
    """Check that nothing that was read is lost, and that no value changes but of an image made whole."""
    if before.by != after.by:
        raise BrokenPromiseError(f"{after.by} was appended to a table of {before.by}")
    if missing := before.records.keys() - after.records.keys():
        raise BrokenPromiseError(f"{len(missing)} images of a former version are missing")
    for pair, value in before.read.items():
        was, now = before.records[pair[0]], after.records[pair[0]]
        if pair in before.shown and pair not in after.read:
            raise BrokenPromiseError(f"a value of {was.scene} is lost")
        if after.read.get(pair, value) != value and not (now.is_whole and not was.is_whole):
            raise BrokenPromiseError(f"a value of {was.scene} has changed")


@dataclass
class Run(RoundsRun):
    """The actors of one run."""

    world: World

    @property
    def steps(self) -> FeatureSteps:
        """The function that plans, as a fresh process."""
        return FeatureSteps(SimulatedDeployment(self.world))  # type: ignore[arg-type] # what tables use

    @override
    async def begin(self, given: Any, execution: str) -> dict[str, Any]:
        try:
            return await self.steps.begin(given, execution=execution, left_s=900.0)
        except (BudgetError, RequestError) as error:
            raise StoreError("it is refused") from error

    @override
    async def decide(self, name: str, number: int, execution: str) -> dict[str, Any]:
        there = _keys_read(self.world, name, number)
        try:
            verdict = await self.steps.after(name, number, execution=execution)
        except RequestError as error:
            if not self.world.asks_unlike:
                raise
            raise StoreError("it is refused") from error
        if verdict["verdict"] == "complete" and verdict["result"]["job"] == execution:
            records = self.world.told[verdict["result"]["name"]].records
            if lost := [records[key].scene for key in there if records[key].status != "ok"]:
                raise BrokenPromiseError(f"{lost} were read, and are told to be unread")
        return verdict

    @override
    async def execution(self, name: str, number: int) -> None:
        images = LISTS[number % len(LISTS)] if self.world.appends else ALL_LISTED
        kind = self.world.kind
        given: dict[str, Any] = {**kind.request, "sources": [href_of(n) for n in images]}
        if self.world.appends:
            given["append_to"] = kind.appended
            if kind.appended in self.world.told and self.world.has_calmed:
                given["by"] = self.world.told[kind.appended].by
        if self.world.asks_unlike and not self.world.has_calmed:
            is_low, is_other = (self.world.more.random() < share for share in (0.1, 0.3))
            given |= {"limits": {"usd": 1e-9}} if is_low else {}
            given |= {"by": "red * 2"} if is_other and self.world.appends else {}
        self.check_done(await self.make(given, name), images)

    @override
    async def worker(self, gather: str, task: MapTask) -> None:
        name, _, number = gather.rpartition("/")
        worker = ImageWorker(SimulatedDeployment(self.world))  # type: ignore[arg-type] # what tables use
        await worker.measure(name, int(number), task, longest_s=LONGEST_TASK_S, spent=Spending())

    def check_done(self, verdict: Mapping[str, Any], images: range) -> None:
        """Check that a table that is told to be complete has all images.

        Raises:
            BrokenPromiseError: It lacks some.
        """
        table = verdict["result"]["name"]
        there = self.world.told.get(table)
        keys = {key_of(row): row for row in rows_of(images)}
        missing = keys if there is None else keys.keys() - there.records.keys()
        if missing:
            raise BrokenPromiseError(f"{table} is told to be done, and lacks {len(missing)} images")

    @override
    async def disturb(self) -> None:
        if self.chance() < 0.2 and self.world.appends:
            with suppress(StoreError):
                files = self.world.results.below(self.world.kind.appended)
                await compact_table._compact(files, "table")  # type: ignore[arg-type] # as above
        else:
            await super().disturb()


def _keys_read(world: World, table: str, number: int) -> set[str]:
    """Return the keys of images that workers have read, in a round and those that belong to it."""

    def first_round(at: int) -> Any:
        content = world.files.get(f"control/tables/{table}/rounds/{at}/state")
        return None if content is None else msgspec.msgpack.decode(content)["first"]

    first = first_round(number)
    of_rounds = world.read.get(table, {}).items()
    return set[str]().union(
        *(keys for at, keys in of_rounds if first is not None and first_round(at) == first)
    )


async def _everything(world: World) -> None:
    run = Run(world)
    await run.through_faults(n_before_removal=2)
    for at in range(MOST_TRIES + 1 if world.appends else 1):
        await run.execute_at_last(f"last-{at}", 2)
    await world.all_arrived()
    table = world.told[world.kind.appended] if world.appends else next(iter(world.told.values()))
    for record in table.records.values() if world.appends else ():
        if not record.is_whole and record.tries < MOST_TRIES:
            raise BrokenPromiseError(f"{record.scene} was never read again")


def simulate(seed: int) -> World:
    """Make tables by several users, and check the promise.

    Raises:
        BrokenPromiseError: A table was wrong, or did not end.
    """
    world = World(seed)
    run_seed(world, lambda: _everything(world), _patches(world))
    return world


def _patches(world: World) -> list[Any]:
    """Let the program use the stores, the images and the time of a run."""

    @asynccontextmanager
    async def open_reader(*_: Any) -> AsyncIterator[None]:
        yield None

    @contextmanager
    def opened(_kind: Any, features: Features, _values: Values, _access: Any) -> Iterator[SimulatedWork]:
        assert len(features) == world.kind.n_features
        world.features = features
        yield SimulatedWork(world)

    async def copied(_tables: Any, href: str, to: Path) -> None:
        content = await world.access(lambda: world.files.get(href.removeprefix("s3://")))
        if content is None:
            raise StoreError(f"{href} is missing")
        to.write_bytes(content)  # noqa: ASYNC240 # on the loop, so that a seed is always the same run

    return [
        patch.object(feature_table, "open_table", opened_lists(world)),
        patch.object(feature_table, "open_reader", open_reader),
        patch.object(image_worker, "open_reader", open_reader),
        patch.object(world.kind.kind, "open_work", opened),
        patch.object(committed_tables.CommittedTables, "_copy", copied),
        patch.object(feature_steps, "_LINES_PER_TASK", 5),
        *clock_of(world, feature_steps, feature_rounds),
    ]
