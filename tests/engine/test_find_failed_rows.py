"""Rows whose sources could not be read are tried again by later appends, in their own places."""

import asyncio
from copy import replace
from types import SimpleNamespace
from typing import Any, override

import numpy as np
import obstore
import pytest
import xarray as xr
import zarr
from zarr.storage import ObjectStore

from pixel_gather.core.errors import AppendRunningError, ArrayExistsError, StoreError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.plan_again import Again
from pixel_gather.core.stores import ROOT_KEY, Content
from pixel_gather.engine import row_claim
from pixel_gather.engine.compact import compact_cube
from pixel_gather.engine.find_failed_rows import MOST_TRIES, FailedRows, chooses_same_pixels
from pixel_gather.engine.withdraw_tries import withdraw_tries
from pixel_gather.features.verify.check_cube import check_cube
from pixel_gather.io.cube import grown_shard
from pixel_gather.io.cube.grown_shard import read_index
from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table
from pixel_gather.io.cube.shard_codec import EMPTY
from pixel_gather.io.cube.version_store import VersionStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, cut, read_failed, rows
from support.fakes import UTM, FakeControl, FakeTable

N = 12
RNG = np.random.default_rng(29)
IMAGES = {f"s3://b/{n}": RNG.integers(1, 999, (1, 20, 20), "uint16") for n in range(N)}
WINDOW = np.s_[3:9, 2:10]
OTHER_WINDOW = {"window": {"point": [UTM[2] + 60, UTM[5] - 60], "crs": "EPSG:32631", "size": [8, 6]}}
"""The same pixels in other words: a request for them does not try the rows of others again."""


def place(*missing: int, chunk_rows: int = 2, shard_rows: int = 4, **request: Any) -> GrownPlace:
    """Return an empty place, and a world in which some images are missing."""
    layout = {"chunk": [chunk_rows, 4, 4], "shard_rows": shard_rows}
    images = {href: each for href, each in IMAGES.items() if int(href[7:]) not in missing}
    return GrownPlace(images=images, request={"output": {"layout": layout}} | request)


def come_back(grown: GrownPlace, *numbers: int) -> None:
    """Let images be there from now on."""
    images: Any = grown.reader.images
    images.update({f"s3://b/{n}": IMAGES[f"s3://b/{n}"] for n in numbers})


def statuses(grown: GrownPlace) -> list[int]:
    """Return the status of each row."""
    found: list[int] = grown.values("status")[0].tolist()
    return found


def tries(grown: GrownPlace) -> list[int]:
    """Return how often the source of each row was tried."""
    (batch,) = read_row_table(grown.contents()["rows.parquet"], ["tries"])[1]
    found: list[int] = batch["tries"].tolist()
    return found


def back_again() -> GrownPlace:
    """Return a cube of three rows. The source of the second failed, and can be read now."""
    grown = place(1)
    grown.gather(rows(0, 1, 2))
    come_back(grown, 1)
    return grown


def check_rows(grown: GrownPlace, *numbers: int, missing: tuple[int, ...] = ()) -> None:
    """Check pixels, statistics and ETags of all rows."""
    opened = grown.open()
    for at, number in enumerate(numbers):
        expected = IMAGES[f"s3://b/{number}"][0][WINDOW] * (number not in missing)
        assert np.array_equal(opened["band_1"].values[at], expected), number
        assert opened["href"].values[at] == f"s3://b/{number}"
        if number not in missing:
            assert opened["max"].values[at] == expected.max()
            assert opened["etag"].values[at]
    assert check_cube(grown.store, place="grown").differences == ()
    copy = grown.copy()
    obstore.delete(copy.store, ROWS_KEY)  # nothing else would excuse a wrong digest of a shard
    assert check_cube(copy.store, place="grown").differences == (f"{ROWS_KEY} is missing",)


def test_no_warning_says_that_a_source_cannot_be_opened_once_all_are_read() -> None:
    """While one of several still fails, the warning of the first gather stays."""
    grown = place(1, 3)
    reports = [grown.gather(rows(0, 1, 2, 3))]
    for number in (1, 3):
        come_back(grown, number)
        report = grown.append(rows(0, 1, 2, 3))
        assert report is not None
        reports.append(report)

    assert [sum("cannot be opened" in each for each in report.warnings) for report in reports] == [1, 1, 0]
    assert statuses(grown) == [0, 0, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("codec", ["blosc-lz4", "zstd", "none", "blosc-lz4 alone", "zstd alone"])
@pytest.mark.parametrize(("chunk_rows", "shard_rows"), [(1, 1), (2, 4), (3, 6), (8, 8)])
def test_append_puts_what_has_come_back_in_its_own_row(chunk_rows: int, shard_rows: int, codec: str) -> None:
    """An append reads failed sources again, and puts pixels, status and statistics in their rows."""
    codec, _, alone = codec.partition(" ")  # a chunk is alone in its object
    output = cut(chunk_rows, shard_rows, is_sharded=not alone) | {"codec": codec}
    grown = place(1, 4, 6, output=output)
    grown.gather(rows(*range(7)))
    assert statuses(grown) == [0, 2, 0, 0, 2, 0, 2]

    come_back(grown, 1, 6)
    report = grown.append(rows(7, 8))

    assert report is not None
    assert statuses(grown) == [0, 0, 0, 0, 2, 0, 0, 0, 0]
    assert report.status_counts == {"ok": 8, "missing": 1}
    assert (report.n_sources, report.n_recovered) == (9, 2)
    check_rows(grown, *range(9), missing=(4,))


@pytest.mark.parametrize("most_pixels", [1, 2 * 2 * 16, 2**22])
def test_rows_that_come_back_together_are_put_however_many_are_in_memory(
    monkeypatch: pytest.MonkeyPatch, most_pixels: int
) -> None:
    """Chunks side by side are encoded some at a time, and others alone."""
    monkeypatch.setattr(grown_shard, "_MOST_MIXED_PIXELS", most_pixels)
    missing = (1, 2, 3, 4, 5, 8, 9)
    grown = place(*missing, chunk_rows=2, shard_rows=12)
    grown.gather(rows(*range(11)))
    come_back(grown, *missing)

    grown.append(rows(11))

    assert statuses(grown) == [0] * 12
    check_rows(grown, *range(12))


def test_the_same_list_again_is_a_new_try() -> None:
    """The same request with the same list tries failed sources again, as a version without new rows."""
    grown = place(1)
    grown.gather(rows(0, 1, 2))
    grown.append(rows(0, 1, 2, 3))
    assert statuses(grown) == [0, 2, 0, 0]

    grown.append(rows(0, 1, 2, 3))
    come_back(grown, 1)
    report = grown.append(rows(0, 1, 2, 3))

    assert report is not None
    assert statuses(grown) == [0, 0, 0, 0]
    check_rows(grown, 0, 1, 2, 3)
    assert grown.append(rows(0, 1, 2, 3)) is None
    versions = asyncio.run(grown.cube.found()).versions  # type: ignore[union-attr] # it is there
    assert [(each.kind, each.n_retried, each.n_recovered) for each in versions] == [
        ("gather", 0, 0),
        ("append", 1, 0),
        ("retry", 1, 0),
        ("retry", 1, 1),
    ]
    assert [each.n_failed for each in versions] == [1, 0, 0, 0]


@pytest.mark.parametrize("new", [(3, 4), ()], ids=["rows as well", "tries alone"])
def test_each_task_of_an_append_is_counted_once(new: tuple[int, ...]) -> None:
    """Also one that tries a row again and adds others behind it."""
    grown = place(1)
    before = grown.gather(rows(0, 1, 2))
    come_back(grown, 1)

    plan, tasks = grown.filled(rows(0, 1, 2, *new))
    report = asyncio.run(grown.finished(plan, tasks))

    assert sum(report.machines.values()) - sum(before.machines.values()) == len(tasks)
    check_rows(grown, 0, 1, 2, *new)


def test_rows_of_a_request_for_other_pixels_are_left_to_it() -> None:
    """Its window is said in another way. Nobody can tell whether it is the same in every source."""
    grown = back_again()

    plan, tasks = grown.filled(rows(3), **OTHER_WINDOW)
    asyncio.run(grown.finished(plan, tasks))

    assert plan.append.again == ()
    assert statuses(grown) == [0, 2, 0, 0]
    grown.append(rows(4))
    check_rows(grown, 0, 1, 2, 3, 4)


def test_tries_are_bounded() -> None:
    """A source that stays missing is tried so often and no more."""
    grown = place(1)
    grown.gather(rows(0, 1, 2))

    n_versions = 1
    while grown.append(rows(0, 1, 2)) is not None:
        n_versions += 1

    assert n_versions == MOST_TRIES
    come_back(grown, 1)
    assert grown.append(rows(3)) is not None
    assert statuses(grown) == [0, 2, 0, 0]
    assert grown.append(rows(3), failed_rows="retry_all") is not None
    assert statuses(grown) == [0, 0, 0, 0]


def test_failed_rows_can_be_kept() -> None:
    """A request may leave failed rows alone."""
    grown = back_again()

    grown.append(rows(3), failed_rows="keep")

    assert statuses(grown) == [0, 2, 0, 0]
    assert grown.append(rows(3), failed_rows="keep") is None


def test_what_no_other_try_mends_is_left_alone() -> None:
    """A source outside the window, or unlike the cube, is tried again only if asked for."""
    grown = place()
    images: Any = grown.reader.images
    images["s3://b/1"] = np.ones((1, 20, 20), "float32")
    grown.gather(rows(0, 1, 2))
    images["s3://b/1"] = IMAGES["s3://b/1"]

    assert grown.append(rows(0, 1, 2)) is None
    assert grown.append(rows(0, 1, 2), failed_rows="retry_all") is not None
    assert statuses(grown) == [0, 0, 0]


def rows_of_two_bands(*, lacking: int | None = None) -> FakeTable:
    """Return a list of three rows, which have images 0 to 2 as band a and 5 to 7 as band b.

    One row may lack band b.
    """
    made = tuple(
        CubeRow(
            time_us=None,
            sources=(
                Source(href=f"s3://b/{n}", band="a"),
                None if n == lacking else Source(href=f"s3://b/{n + 5}", band="b"),
            ),
        )
        for n in range(3)
    )
    return FakeTable(made, bands=("a", "b"), digest="two".ljust(64, "x"))


def test_only_the_failed_source_of_a_row_is_read() -> None:
    """A row's other bands keep their pixels, also if their sources have been replaced since."""
    table = rows_of_two_bands()
    grown = place(6)
    grown.gather(table)
    before = grown.open()["a"].values
    images: Any = grown.reader.images
    for n in range(5):
        images[f"s3://b/{n}"] = RNG.integers(1, 999, (1, 20, 20), "uint16")
    come_back(grown, 6)
    grown.reader.opened.clear()

    grown.append(table)

    opened = grown.open()
    assert np.array_equal(opened["a"].values, before)
    assert np.array_equal(opened["b"].values[1], IMAGES["s3://b/6"][0][WINDOW])
    assert (opened["status"].values == 0).all()
    assert set(grown.reader.opened) == {"s3://b/6"}
    assert check_cube(grown.store, place="grown").differences == ()


@pytest.mark.parametrize("bands", [(), ("a", "b")])
def test_a_source_that_is_read_again_has_the_scale_of_the_list(bands: tuple[str, ...]) -> None:
    """The cube keeps the scale of the list: one for each band, if the bands of a row differ."""
    numbers = [[n, n + 5][: len(bands) or 1] for n in range(3)]
    claims = [("scale", 0.5), ("offset", 10.0), ("offset_claimed", None)]
    table = FakeTable(
        tuple(
            CubeRow(
                time_us=None,
                sources=tuple(
                    Source(
                        href=f"s3://b/{n}",
                        band=band,
                        columns={name: value and value * (n + 1) for name, value in claims} | {"note": "x"},
                    )
                    for n, band in zip(of_row, bands or (None,), strict=True)
                ),
            )
            for of_row in numbers
        ),
        bands=bands,
        columns=(
            *(ListColumn(name=name, dtype="float64", varies_in_row=bool(bands)) for name, _ in claims),
            ListColumn(name="note", dtype="string", varies_in_row=False),
        ),
        digest="scaled".ljust(64, "x"),
    )
    grown = place(numbers[1][-1], values="scaled")
    grown.gather(table)
    come_back(grown, numbers[1][-1])

    grown.append(table)

    opened = grown.open()
    for at, of_row in enumerate(numbers):
        for n, name in zip(of_row, bands or ("band_1",), strict=True):
            expected = IMAGES[f"s3://b/{n}"][0][WINDOW] * 0.5 * (n + 1) + 10 * (n + 1)
            np.testing.assert_array_equal(opened[name].values[at], expected.astype("float32"))


def test_former_versions_see_nothing_but_failed_rows_become_read() -> None:
    """A former version has the same rows; one that had failed has its pixels and its status now."""
    grown = place(1, 3)
    grown.gather(rows(0, 1, 2, 3))
    former = grown.contents()[ROOT_KEY]
    come_back(grown, 1)

    grown.append(rows(4))

    store = VersionStore(ObjectStore(grown.store, read_only=True), former)
    opened = xr.open_zarr(store, chunks=None)
    assert opened["status"].values.tolist() == [0, 0, 0, 2]
    assert np.array_equal(opened["band_1"].values, grown.open()["band_1"].values[:4])


def test_a_reader_with_the_former_index_finds_its_chunks() -> None:
    """The new object begins with all bytes of the former one."""
    grown = place(1)
    grown.gather(rows(0, 1, 2, 3, 4))
    before = {key: each for key, each in grown.contents().items() if key.startswith("band_1/c/")}
    come_back(grown, 1)

    grown.append(rows(0, 1, 2, 3, 4))

    after = grown.contents()
    assert all(after[key].startswith(content) for key, content in before.items())
    assert after["band_1/c/1/0/0"] == before["band_1/c/1/0/0"]


def test_compaction_removes_the_chunks_that_were_written_again() -> None:
    """The space of replaced chunks is given back, also in shards that no append has continued."""
    grown = place(1)
    grown.gather(rows(*range(8)))
    come_back(grown, 1)
    grown.append(rows(*range(8)))

    compacted = asyncio.run(compact_cube(grown.cube))

    assert (compacted.n_shards, compacted.freed_nbytes > 0) == (1, True)
    check_rows(grown, *range(8))


def test_a_row_that_fails_again_tells_its_last_reason() -> None:
    """The last try counts, and how often it was tried."""
    grown = place(1)
    grown.gather(rows(0, 1, 2))
    first = grown.open()["requests"].values[1]

    grown.append(rows(3))

    assert statuses(grown) == [0, 2, 0, 0]
    assert grown.open()["requests"].values[1] == first
    assert tries(grown) == [1, 2, 1, 1]


def test_a_row_that_is_left_alone_tells_what_it_told() -> None:
    """Also why it could not be read, though another row is tried again."""
    grown = place(1)
    images: Any = grown.reader.images
    images["s3://b/2"] = np.ones((1, 20, 20), "float32")
    grown.gather(rows(0, 1, 2))
    (before,) = read_row_table(grown.contents()[ROWS_KEY])[1]
    come_back(grown, 1)

    grown.append(rows(3))

    (after,) = read_row_table(grown.contents()[ROWS_KEY])[1]
    assert statuses(grown)[:2] == [0, 0]
    assert before["failure"][2]
    for name, values in before.items():
        np.testing.assert_array_equal(after[name][[0, 2]], values[[0, 2]], err_msg=name)


def test_two_finishes_of_a_try_put_the_same_files() -> None:
    """One may begin when the other has put its table, and has not committed it."""
    grown = back_again()

    planned = grown.filled(rows(3))
    root = grown.contents()[ROOT_KEY]
    asyncio.run(grown.finished(*planned))
    first = grown.contents()["rows.parquet"]
    obstore.put(grown.store, ROOT_KEY, root)  # as before the commit
    asyncio.run(grown.finished(*planned))

    assert grown.contents()["rows.parquet"] == first
    assert tries(grown) == [1, 2, 1, 1]


def test_a_lost_try_is_a_lost_row() -> None:
    """A row whose try was lost to a failing worker may hold pixels, so it is lost, and tried again."""
    grown = back_again()
    planned = asyncio.run(grown.begun(rows(3)))
    asyncio.run(grown.finished(*planned, max_lost_share=1.0))
    assert statuses(grown) == [0, 10, 0, 10]
    report = grown.append(rows(3))

    assert report is not None
    assert statuses(grown) == [0, 0, 0, 0]
    assert report.n_lost_shards == 0
    assert np.array_equal(grown.open()["band_1"].values[1], IMAGES["s3://b/1"][0][WINDOW])


def test_a_lost_try_leaves_the_other_bands_of_its_row() -> None:
    """What the finish puts in place of the lost try has no pixels, and these bands were read before."""
    table = rows_of_two_bands()
    grown = place(6)
    grown.gather(table)
    before = grown.values("a", "b")

    planned = asyncio.run(grown.begun(table))
    asyncio.run(grown.finished(*planned, max_lost_share=1.0))

    assert np.array_equal(grown.values("a", "b"), before)
    assert grown.values("status")[0].tolist() == [[0, 0], [0, 10], [0, 0]]
    assert check_cube(grown.store, place="grown").differences == ()


def test_a_late_worker_of_a_try_changes_nothing() -> None:
    """Work for a committed try is done already."""
    grown = back_again()
    plan, tasks = grown.filled(rows(3))
    asyncio.run(grown.finished(plan, tasks))
    before = grown.contents()

    asyncio.run(grown.finished(replace(plan), tasks))

    assert grown.contents() == before


def test_runs_of_one_append_that_try_other_rows_share_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lists of rows differ. A worker of one that read the list of the other would mix up rows."""
    grown = back_again()
    first = asyncio.run(grown.planned(rows(3)))
    assert first is not None
    written = dict(grown.control.files)
    grown.control.files.clear()  # it has not written them yet

    with pytest.raises(AppendRunningError, match="another append is at work"):
        grown.append(rows(3), failed_rows="keep")
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    second = asyncio.run(grown.planned(rows(3), failed_rows="keep"))

    assert second is not None
    assert second[0].claim != first[0].claim
    grown.control.files.update(written)
    with pytest.raises(ArrayExistsError):
        asyncio.run(grown.fill(*first))
    asyncio.run(grown.fill(*second))
    asyncio.run(grown.finished(*second))
    check_rows(grown, 0, 1, 2, 3, missing=(1,))


def test_the_work_of_a_try_is_estimated_by_the_sources_that_were_read() -> None:
    """How many bytes of their pixels and of their headers were received. Nothing is read of failed ones."""
    grown = place(1, 3)
    grown.gather(rows(0, 1, 2, 3))
    nbytes, of_headers = np.array([1000, 70, 3000, 7]), np.array([100, 70, 500, 7])

    failed = asyncio.run(read_failed(grown, bytes=nbytes, header_bytes=of_headers))
    none_read = asyncio.run(read_failed(grown, status=np.full(4, Status.MISSING, "uint8")))
    one = np.array([Status.OK, *[Status.MISSING] * 3], "uint8")
    one_read = asyncio.run(read_failed(grown, status=one, bytes=nbytes, header_bytes=of_headers))

    assert failed.size == Again(n_sources=2, n_by_bucket={"b": 2}, mean_nbytes=1700, mean_open_nbytes=300)
    assert none_read.size == Again(n_sources=4, n_by_bucket={"b": 4}, mean_nbytes=0, mean_open_nbytes=0)
    assert one_read.size == Again(n_sources=3, n_by_bucket={"b": 3}, mean_nbytes=900, mean_open_nbytes=100)


def test_rows_that_no_version_has_and_sources_that_no_list_names_are_not_tried() -> None:
    """The table of an append that was not committed has more rows than the cube."""
    grown = place(1, 2)
    grown.gather(rows(0, 1, 2))
    template = asyncio.run(read_failed(grown)).template
    (batch,) = read_row_table(grown.contents()["rows.parquet"])[1]

    failed = FailedRows(template=template, n_rows=5, asks_for_all=False)
    list(failed.watch(iter([batch, batch])))
    unnamed = asyncio.run(read_failed(grown, href=np.array(["s3://b/0", "", "file:///2"], object)))

    assert sorted(failed.rows) == [1, 2, 4]
    assert sorted(unnamed.rows) == [2]
    assert unnamed.size.n_by_bucket == {}


def test_a_row_is_as_often_tried_as_its_failed_sources() -> None:
    """The others are not read again, however often they were tried."""
    grown = place(6)
    grown.gather(rows_of_two_bands())

    failed = asyncio.run(read_failed(grown, tries=np.array([[1, 1], [4, 2], [1, 1]])))
    often = asyncio.run(read_failed(grown, tries=np.array([[1, 1], [1, MOST_TRIES], [1, 1]])))

    assert failed.n_tries == {1: 2}
    assert [each and each.href for each in failed.rows[1].sources] == [None, "s3://b/6"]
    assert often.rows == {}


@pytest.mark.parametrize(
    "name", ["window", "bands", "overview", "masked", "nodata", "grid", "mask", "values", "output"]
)
def test_requests_choose_the_same_pixels_if_nothing_of_them_differs(name: str) -> None:
    """Where and how a cube is stored does not matter."""
    one: dict[str, Any] = {"window": 1, "output": 1}

    assert chooses_same_pixels(one, dict(one)) is True
    assert chooses_same_pixels(one | {name: 1}, one | {name: 2}) is (name == "output")


@pytest.mark.parametrize(
    ("given", "is_inherited"),
    [
        ({"nodata": 0}, True),
        ({"mask": {"band": "scl", "drop": [3]}}, True),
        ({"values": "scaled"}, True),
        ({"grid": {"resolution": 20.0}}, True),
        ({"grid": "same"}, False),
        ({"masked": True}, False),
        ({"overview": 1}, False),
    ],
    ids=str,
)
def test_a_field_that_an_append_leaves_out_is_that_of_the_cube(
    given: dict[str, Any], *, is_inherited: bool
) -> None:
    """So it reads failed rows of the request that named the field. Others have a default of their own."""
    assert chooses_same_pixels({"window": 1}, {"window": 1} | given) is is_inherited
    assert chooses_same_pixels({"window": 1} | given, {"window": 1}) is is_inherited


def test_rows_are_left_to_the_request_that_has_added_them() -> None:
    """Its fields choose the pixels, and its sources say who signs their addresses."""
    grown = place(0, 1, 2, 3)
    grown.gather(rows(0, 1, 2, 3, 4))
    signed = {"window": 1, "sources": {"sign": "earthdata"}}
    receipt: Any = SimpleNamespace(
        request={"window": 1},
        appends=[
            SimpleNamespace(rows=(1, 2), request={"window": 2}),
            SimpleNamespace(rows=(2, 3), request=signed),
            SimpleNamespace(rows=(3, 4), request={"window": 1}),
        ],
    )

    def left(request: dict[str, Any], *, settles: bool) -> dict[int, bool]:
        failed = asyncio.run(read_failed(grown))
        failed.leave_to_others(request, receipt, settles=settles)
        return {row: each.sources != (None,) for row, each in failed.rows.items()}

    assert left({"window": 1}, settles=False) == {0: True, 3: True}
    assert left(signed, settles=False) == {2: True}
    assert left({"window": 2}, settles=True) == {0: False, 1: True, 2: False, 3: False}


BEGUN = (
    "version 2 was begun and is not committed: an append or a compaction was stopped before its commit, "
    "or is at work; run it again"
)


def test_values_of_a_failed_row_are_damage_unless_somebody_tries_it_again() -> None:
    """Those of other rows always are, also if the list names no source there."""
    grown = place(6)
    grown.gather(rows_of_two_bands(lacking=2))
    group: Any = zarr.open_group(ObjectStore(grown.store), mode="r+")
    group["requests"][1] = 99
    assert check_cube(grown.store, place="grown").differences == (
        "requests has other values than rows.parquet",
    )

    obstore.put(grown.store, row_claim.claim_key(2), b"{}")
    group["retries"][1] = 99
    assert check_cube(grown.store, place="grown").differences == (BEGUN,)
    group["requests"][2] = 99
    said = "requests has other values than rows.parquet"
    assert check_cube(grown.store, place="grown").differences == (said, BEGUN)


def test_pixels_of_a_failed_source_are_no_damage_and_others_are() -> None:
    """A try may have put them that was given up. The row's other band was read; another row has only that."""
    grown = place(6)
    grown.gather(rows_of_two_bands(lacking=2))
    group: Any = zarr.open_group(ObjectStore(grown.store), mode="r+")
    group["b"][1] = 5
    assert check_cube(grown.store, place="grown").differences == ()

    for band, row in (("b", 2), ("a", 1)):
        before = group[band][row]
        group[band][row] = 5
        said = f"{band}/c/0/0/0 has other pixels than the receipt says"
        assert check_cube(grown.store, place="grown").differences == (said,)
        group[band][row] = before


class StoppedCube(ZarrCube, frozen=True, kw_only=True):
    """A cube whose finish is stopped when all coordinates are put, and nothing else."""

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        if key.endswith(f"/{ROOT_KEY}"):
            raise StoreError("stopped")
        return await ZarrCube.put_object(self, key, content, replaces=replaces)


def stop(grown: GrownPlace, table: FakeTable, **request: Any) -> None:
    """Begin an append that is stopped then."""
    grown.watch = lambda store: StoppedCube(store=store, place="place")
    with pytest.raises(StoreError, match="stopped"):
        grown.append(table, **request)
    grown.watch = lambda store: ZarrCube(store, "place")


def test_a_try_that_takes_over_names_no_chunks_of_the_former_ones_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else they would be pixels of later rows, if the worker of those was lost."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(4)

    def chunks_of_new_rows() -> np.ndarray[Any, np.dtype[Any]]:
        return read_index(grown.contents()["band_1/c/1/0/0"], (2, 2, 2))[1, ..., 0]

    grown.gather(rows(*range(6)))
    stop(grown, rows(6, 7))
    assert (chunks_of_new_rows() != EMPTY).all()

    come_back(grown, 4)
    grown.append(rows(*range(6)))

    assert (chunks_of_new_rows() == EMPTY).all()
    check_rows(grown, *range(6))


@pytest.mark.parametrize("n_rows", [3, 5])
def test_a_try_that_takes_over_withdraws_what_the_former_one_told(
    monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    """A row that says ok keeps its pixels. So it says that it failed before it gets other pixels or none."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(1)
    grown.gather(rows(*range(n_rows)))
    come_back(grown, 1)
    stop(grown, rows(8))
    assert statuses(grown)[1] == 0

    images: Any = grown.reader.images
    del images["s3://b/1"]
    planned = asyncio.run(grown.planned(rows(9)))

    assert planned is not None
    assert statuses(grown) == [0, 2, *[0] * (n_rows - 2)]
    asyncio.run(grown.fill(*planned))
    assert statuses(grown) == [0, 2, *[0] * (n_rows - 2)]
    asyncio.run(grown.finished(*planned))
    check_rows(grown, *range(n_rows), 9, missing=(1,))


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"failed_rows": "retry"}, Status.MISSING),
        ({"failed_rows": "keep"}, Status.MISSING),
        (OTHER_WINDOW, Status.UNLIKE),
    ],
    ids=["retry", "keep", "other window"],
)
def test_a_try_that_takes_over_withdraws_also_what_it_would_not_try(
    monkeypatch: pytest.MonkeyPatch, wish: dict[str, Any], status: Status
) -> None:
    """The former one was to try all failed rows again. If this one may not read a row, it stays as it was."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place()
    images: Any = grown.reader.images
    images["s3://b/1"] = IMAGES["s3://b/1"].astype("float32")
    grown.gather(rows(0, 1, 2))
    come_back(grown, 1)
    stop(grown, rows(8), failed_rows="retry_all")
    assert statuses(grown) == [0, 0, 0]

    del images["s3://b/1"]
    planned = asyncio.run(grown.begun(rows(9), **wish))

    assert statuses(grown) == [0, Status.UNLIKE, 0]
    asyncio.run(grown.fill(*planned))
    asyncio.run(grown.finished(*planned))
    assert statuses(grown) == [0, status, 0, 0]
    assert check_cube(grown.store, place="grown").differences == ()


def test_a_late_planner_withdraws_nothing() -> None:
    """When its twin has planned, rows that say ok are those of the twin's finish."""
    grown = back_again()
    plan, tasks = grown.filled(rows(3))
    grown.watch = lambda store: StoppedCube(store=store, place="place")
    with pytest.raises(StoreError, match="stopped"):
        asyncio.run(grown.finished(plan, tasks))

    asyncio.run(withdraw_tries(grown.cube, plan, grown.control.below(plan.claim)))

    assert statuses(grown) == [0, 0, 0]


def test_a_late_planner_of_a_committed_version_withdraws_nothing() -> None:
    """The control files are gone, and so is its right to the version."""
    grown = back_again()
    planned = grown.filled(rows(3))
    asyncio.run(grown.finished(*planned))
    before = grown.contents()

    with pytest.raises(AppendRunningError, match="committed meanwhile"):
        asyncio.run(withdraw_tries(grown.cube, planned[0], FakeControl()))

    assert grown.contents() == before
