"""A row that is reduced of several scenes never loses one that it has, whatever became of tries before."""

import asyncio
import json
from copy import replace
from typing import Any, override

import numpy as np
import pytest

from pixel_gather.core.errors import AppendRunningError, ShardsMissingError, StoreError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.plan_again import Again
from pixel_gather.core.results.contributors import CONTRIBUTORS
from pixel_gather.core.stores import RECEIPT_KEY, Content
from pixel_gather.engine import row_claim
from pixel_gather.engine.compact import compact_cube
from pixel_gather.engine.find_failed_rows import MOST_TRIES, FailedRows
from pixel_gather.features.verify.check_cube import check_cube
from pixel_gather.io.cube.row_table import CONTRIBUTORS_KEY, ROWS_KEY, read_row_table
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, read_failed
from support.fakes import FakeImage, FakeTable

RNG = np.random.default_rng(52)
PIXELS = {f"s3://b/{n}": RNG.integers(1, 999, (2, 20, 20), "uint16") for n in range(8)}
IMAGES = {href: FakeImage(pixels=each, header={"etag": f'"{href}"'}) for href, each in PIXELS.items()}
GROUP = ListColumn(name="group", dtype="int64", varies_in_row=False)
WINDOW = np.s_[:, 3:9, 2:10]
LAYOUTS = [(1, 1), (1, 4), (2, 4)]


def scenes(*numbers: int, group: int | None = None) -> FakeTable:
    """Return a list of images by their number. Two at a time are a group, if all are not one."""
    groups = [n // 2 if group is None else group for n in numbers]
    rows = [
        CubeRow(time_us=None, sources=(Source(href=f"s3://b/{n}", columns={GROUP.name: of_image}),))
        for n, of_image in zip(numbers, groups, strict=True)
    ]
    return FakeTable(rows, columns=(GROUP,), digest="-".join(map(str, numbers)).ljust(64, "x"))


def place(
    chunk_rows: int,
    shard_rows: int,
    *,
    is_sharded: bool = True,
    codec: str = "blosc-lz4",
    missing: str = "1",
) -> GrownPlace:
    """Return a place with a cube of two means that lack sources. The first one's second source comes then."""
    chunk = [chunk_rows, 4, 4] if is_sharded else [shard_rows, 6, 8]  # no strips
    layout = {"chunk": chunk} | ({"shard_rows": shard_rows} if is_sharded else {})
    request = {
        "reduce": {"by": GROUP.name, "statistic": "mean"},
        "output": {"layout": layout, "sharding": is_sharded, "codec": codec},
    }
    grown = GrownPlace(
        images={href: each for href, each in IMAGES.items() if href[-1] not in missing}, request=request
    )
    grown.gather(scenes(0, 1, 2, 3))
    images: Any = grown.reader.images
    images["s3://b/1"] = IMAGES["s3://b/1"]
    return grown


def let_go(grown: GrownPlace, fate: str) -> None:
    """Take the source away that the first row has, or give it other pixels."""
    images: Any = grown.reader.images
    if fate == "gone":
        del images["s3://b/0"]
    else:
        images["s3://b/0"] = FakeImage(pixels=PIXELS["s3://b/7"], header={"etag": '"other"'})


def come_back(grown: GrownPlace) -> None:
    """Let it be there as it was."""
    images: Any = grown.reader.images
    images["s3://b/0"] = IMAGES["s3://b/0"]


def stop_compaction(grown: GrownPlace) -> None:
    """Stop a compaction before it writes the table of rows."""
    grown.watch = lambda store: StoppedCube(store=store, place="place", stops_at=ROWS_KEY)
    with pytest.raises(StoreError, match="stopped"):
        asyncio.run(compact_cube(grown.cube))
    grown.watch = lambda store: ZarrCube(store, "place")


def check(grown: GrownPlace, *rows: tuple[int, ...]) -> None:
    """Check that rows are the means of some images, and that the table of sources tells of these."""
    found = np.stack(grown.values("band_1", "band_2"), axis=1)
    for row, numbers in zip(found, rows, strict=True):
        mean = np.mean([PIXELS[f"s3://b/{n}"][WINDOW] for n in numbers], axis=0)
        assert np.array_equal(row, mean.astype("float32")), numbers
    (lines,) = read_row_table(grown.contents()[CONTRIBUTORS_KEY])[1]
    used = lines["status"] == "ok"
    assert lines["etag"][used].tolist() == [f'"s3://b/{n}"' for row in rows for n in row]
    assert lines["row"][used].tolist() == [at for at, row in enumerate(rows) for _ in row]
    assert json.loads(grown.contents()[RECEIPT_KEY])["sources"] == CONTRIBUTORS_KEY
    assert check_cube(grown.store, place="grown").differences == ()


def test_groups_of_scenes_that_have_times_are_known_again() -> None:
    """The groups have none, so neither has the cube."""

    def timed(*numbers: int) -> FakeTable:
        table = scenes(*numbers)
        of_time = [replace(row, time_us=at) for at, row in enumerate(table.all_rows)]
        return replace(table, all_rows=of_time, has_time=True)

    grown = GrownPlace(images=IMAGES, request={"reduce": {"by": GROUP.name, "statistic": "mean"}})
    grown.gather(timed(0, 1, 2, 3))

    assert grown.append(timed(0, 1)) is None


@pytest.mark.parametrize(("max_task_nbytes", "n_strips"), [(2**20, 1), (600, 2)])
def test_rows_in_strips_are_not_reduced_anew(max_task_nbytes: int, n_strips: int) -> None:
    """Each strip would decide by itself whether to take the source that can be read again."""
    layout = {"chunk": [1, 3, 8], "shard_rows": 1}
    request = {"reduce": {"by": GROUP.name, "statistic": "mean"}, "output": {"layout": layout}}
    images = {href: each for href, each in IMAGES.items() if href[-1] != "1"}
    grown = GrownPlace(images=images, request=request, max_task_nbytes=max_task_nbytes)
    grown.gather(scenes(0, 1, 2, 3))
    images["s3://b/1"] = IMAGES["s3://b/1"]
    failed = asyncio.run(read_failed(grown))

    assert failed.template.n_strips == n_strips
    assert sorted(failed.rows) == ([0] if n_strips == 1 else [])


@pytest.mark.long
@pytest.mark.parametrize("fate", ["gone", "replaced"])
@pytest.mark.parametrize(("chunk_rows", "shard_rows"), LAYOUTS)
def test_a_row_keeps_its_sources_after_a_try_that_was_given_up(
    monkeypatch: pytest.MonkeyPatch, chunk_rows: int, shard_rows: int, fate: str
) -> None:
    """That try has put a row of more sources. The next append can read none of the row's own."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(chunk_rows, shard_rows)
    given_up = asyncio.run(grown.planned(scenes(4)))
    assert given_up is not None
    asyncio.run(grown.fill(*given_up))
    let_go(grown, fate)

    grown.append(scenes(6))

    check(grown, (0,), (2, 3), (6,))
    come_back(grown)
    grown.append(scenes(4))
    check(grown, (0, 1), (2, 3), (6,), (4,))


@pytest.mark.long
@pytest.mark.parametrize("fate", ["gone", "replaced"])
@pytest.mark.parametrize(("chunk_rows", "shard_rows"), LAYOUTS)
def test_a_row_keeps_its_sources_after_a_worker_that_was_stopped(
    chunk_rows: int, shard_rows: int, fate: str
) -> None:
    """It has put the row of more sources, and no sidecar. The next worker cannot read the row's own."""
    grown = place(chunk_rows, shard_rows)
    planned = asyncio.run(grown.begun(scenes(4)))
    before = set(grown.control.files)
    asyncio.run(grown.fill(*planned))
    for sidecar in set(grown.control.files) - before:
        del grown.control.files[sidecar]
    let_go(grown, fate)

    asyncio.run(grown.fill(*planned))
    asyncio.run(grown.finished(*planned))

    check(grown, (0,), (2, 3), (4,))


def test_a_task_that_makes_rows_anew_is_not_lost() -> None:
    """It may have put the row of more sources, and nobody would know of which."""
    grown = place(1, 1)
    plan, tasks = asyncio.run(grown.planned(scenes(4))) or (None, ())
    assert plan is not None
    new = [task for task in tasks if not task.again]
    assert len(new) == 1
    with pytest.raises(ShardsMissingError, match="shard 0 has rows of the cube that are reduced anew"):
        asyncio.run(grown.finished(plan, tasks, max_lost_share=1.0))
    asyncio.run(grown.fill(plan, [task for task in tasks if task.again]))
    asyncio.run(grown.finished(plan, tasks, max_lost_share=1.0))
    assert grown.open()["status"].values.ravel().tolist()[:2] == [0, 0]


def test_rows_of_another_request_are_settled_by_it_alone() -> None:
    """Nobody else knows how they are reduced. The message says what to do."""
    grown = place(1, 4)
    receipt = asyncio.run(grown.cube.receipt())

    def leave(request: dict[str, Any], *, settles: bool) -> list[int]:
        failed = asyncio.run(read_failed(grown))
        failed.leave_to_others(request, receipt, settles=settles)
        return list(failed.rows)

    assert leave(dict(receipt.request), settles=True) == [0]
    assert leave({"window": "centre"}, settles=False) == []
    with pytest.raises(AppendRunningError, match="with the request that first added these rows"):
        leave({"window": "centre"}, settles=True)


def test_a_row_is_made_anew_while_a_source_of_it_may_come_back() -> None:
    """So often and no more, and only among the cube's rows. What its other sources take is estimated, too."""
    grown = place(1, 4)
    (batch,) = read_row_table(grown.contents()[ROWS_KEY])[1]
    lines = [json.loads(each) for each in batch[CONTRIBUTORS]]

    def column(**changes: Any) -> np.ndarray[Any, Any]:
        found = np.empty(len(lines), object)
        found[:] = [[line | (changes if line["status"] != "ok" else {}) for line in each] for each in lines]
        return found

    def n_tries(**changes: Any) -> dict[int, int]:
        told: dict[str, Any] = {CONTRIBUTORS: column(**changes)}
        return asyncio.run(read_failed(grown, **told)).n_tries

    assert n_tries() == {0: 1}
    assert n_tries(tries=MOST_TRIES - 1) == {0: MOST_TRIES - 1}
    assert n_tries(tries=MOST_TRIES) == n_tries(status="unlike") == {}
    failed = asyncio.run(read_failed(grown))
    assert failed.size == Again(n_sources=2, n_by_bucket={"b": 2}, mean_nbytes=192, mean_open_nbytes=512)
    append = failed.added_to(Append(version=2, first_row=2), stored=["band_1/c/0/0/0", "band_1/c/9/0/0"])
    assert (append.again, append.n_tries, append.n_again, append.n_beside) == ((0,), (1,), 1, 1)
    assert (append.scenes_again, append.tails) == ((2,), ("band_1/c/0/0/0",))
    further = FailedRows(template=failed.template, n_rows=2, asks_for_all=False)
    list(further.watch(iter([dict(batch) | {CONTRIBUTORS: column()}] * 2)))
    assert list(further.rows) == [0]


def test_objects_that_are_one_chunk_are_not_tried() -> None:
    """Their former pixels would be gone."""
    grown = place(1, 1, is_sharded=False)
    grown.append(scenes(4))
    check(grown, (0,), (2, 3), (4,))
    assert grown.append(scenes(4)) is None


class StoppedCube(ZarrCube, frozen=True, kw_only=True):
    """A cube whose writer is stopped before a file is put."""

    stops_at: str

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        if key == self.stops_at:
            raise StoreError("stopped")
        return await ZarrCube.put_object(self, key, content, replaces=replaces)


def test_a_row_keeps_its_sources_after_a_compaction_that_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table tells the sizes of objects that are shorter now. A try was given up, too."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(1, 4)
    let_go(grown, "gone")
    grown.append(scenes(6))  # the row is tried again, and stays
    stop_compaction(grown)
    come_back(grown)
    for _ in range(2):  # twice: another worker puts its object behind
        given_up = asyncio.run(grown.planned(scenes(4)))
        assert given_up is not None
        before = set(grown.control.files)
        asyncio.run(grown.fill(*given_up))
        for sidecar in set(grown.control.files) - before:
            del grown.control.files[sidecar]
    let_go(grown, "gone")

    grown.append(scenes(5))

    check(grown, (0,), (2, 3), (6,), (5,))


@pytest.mark.long
@pytest.mark.parametrize("n_gained", [1, 2], ids=["same size", "shorter"])
def test_a_row_keeps_its_sources_though_sizes_tell_nothing(
    monkeypatch: pytest.MonkeyPatch, n_gained: int
) -> None:
    """A compaction was stopped, then a try was given up. Its object is as large as the table tells, or less.

    Without compression this needs no chance: the size depends only on how often the row was put.
    """
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    layout = {"chunk": [1, 4, 4], "shard_rows": 1}
    request = {
        "reduce": {"by": GROUP.name, "statistic": "mean"},
        "output": {"layout": layout, "codec": "none"},
    }
    late = range(1, n_gained + 2)  # sources of the first row, which come one after the other
    grown = GrownPlace(
        images={href: each for n, (href, each) in enumerate(IMAGES.items()) if n not in late}, request=request
    )
    images: Any = grown.reader.images
    grown.gather(scenes(0, *late, group=0))
    for n in late[:-1]:
        images[f"s3://b/{n}"] = IMAGES[f"s3://b/{n}"]
        grown.append(scenes(7 - n, group=n))
    key = "band_1/c/0/0/0"
    size = len(grown.contents()[key])
    stop_compaction(grown)
    images[f"s3://b/{late[-1]}"] = IMAGES[f"s3://b/{late[-1]}"]
    given_up = asyncio.run(grown.planned(scenes(4, group=4)))
    assert given_up is not None
    asyncio.run(grown.fill(*given_up))
    assert len(grown.contents()[key]) <= size + 1
    let_go(grown, "gone")

    grown.append(scenes(7, group=7))

    check(grown, (0, *late[:-1]), *((7 - n,) for n in late[:-1]), (7,))


@pytest.mark.parametrize("is_given_up", [True, False])
def test_no_try_after_a_stopped_compaction_makes_an_object_of_the_committed_size(
    monkeypatch: pytest.MonkeyPatch,
    is_given_up: bool,  # noqa: FBT001 # pytest passes by name
) -> None:
    """Without a codec, the compaction frees as many bytes as the try adds. The size tells both apart."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(1, 4, codec="none", missing="13")
    grown.append(scenes(4))  # the first row gains its second source
    stop_compaction(grown)
    images: Any = grown.reader.images
    images["s3://b/3"] = IMAGES["s3://b/3"]
    planned = asyncio.run(grown.begun(scenes(0, 1, 2, 3)))
    asyncio.run(grown.fill(*planned))
    if not is_given_up:
        asyncio.run(grown.finished(*planned))
    del images["s3://b/2"]

    grown.append(scenes(6))

    check(grown, (0, 1), (2,) if is_given_up else (2, 3), (4,), (6,))


def test_sources_of_one_row_that_come_back_one_after_the_other_are_counted_once() -> None:
    """The second try reads the first of them again, too, which was recovered before."""
    grown = place(1, 4)
    images: Any = grown.reader.images
    for href in ("s3://b/4", "s3://b/5"):
        del images[href]
    grown.append(scenes(4, 5, 6))
    recovered = []
    for href in ("s3://b/4", "s3://b/5"):
        images[href] = IMAGES[href]
        report = grown.append(scenes(4, 5, 6))
        assert report is not None
        recovered.append(report.n_recovered)
    assert recovered == [2, 3]  # with that of the first row
    check(grown, (0, 1), (2, 3), (4, 5), (6,))


@pytest.mark.long
@pytest.mark.parametrize("fate", ["gone", "replaced", "there"])
@pytest.mark.parametrize("stops_at", [ROWS_KEY, CONTRIBUTORS_KEY])
def test_a_row_keeps_its_sources_after_a_finish_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch, stops_at: str, fate: str
) -> None:
    """One of the two tables tells of more sources, the other does not. An append reads that of rows alone."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(1, 4)
    grown.watch = lambda store: StoppedCube(store=store, place="place", stops_at=stops_at)
    with pytest.raises(StoreError, match="stopped"):
        grown.append(scenes(4))
    grown.watch = lambda store: ZarrCube(store, "place")
    if fate != "there":
        let_go(grown, fate)

    grown.append(scenes(6))

    is_told = stops_at == CONTRIBUTORS_KEY  # by the table of rows, which counts
    check(grown, (0, 1) if is_told or fate == "there" else (0,), (2, 3), (6,))
