"""Gathers in one process: in a notebook, and after a crash."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from geotiff.small_tiffs import geotiff
from pixel_gather import Gathered, Progress, Settings, gather_async, make_plan, verify
from pixel_gather.core.errors import ArrayExistsError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.lists.source_table import SqliteSourceTable
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
REQUEST = {"sources": [str(file) for file in FILES], "window": "centre"}


def test_gather_works_where_a_loop_is_running(tmp_path: Path) -> None:
    """It works inside a running event loop, as in a notebook."""

    async def cell() -> str:
        return gather_undrawn(REQUEST, to=tmp_path / "sync").report.digest

    undrawn = Settings(draws_report=False)

    async def other_cell() -> str:
        return (await gather_async(REQUEST, to=tmp_path / "async", settings=undrawn)).report.digest

    assert asyncio.run(cell()) == asyncio.run(other_cell())


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"window": {"tile": [0, 0]}, "limits": {"usd": 1}},
            "of another request is there (window.tile: 'centre' there, [0, 0] here): choose another place",
        ),
        (
            {"bands": [1], "overview": 0, "nodata": 3, "grid": "same"},
            "nodata: not given there, 3 here; and 1 more): choose another place",
        ),
        (
            {"sources": {"hrefs": [str(FILES[0])]}},
            "): choose another place, or add these sources to that cube by output.append_to (--append-to)",
        ),
    ],
)
def test_a_cube_of_another_request_is_told_by_what_differs(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Other sources of the same pixels can be added to it."""
    gather_undrawn(REQUEST, to=tmp_path / "cube")

    with pytest.raises(ArrayExistsError) as refused:
        gather_undrawn(REQUEST | changes, to=tmp_path / "cube")

    assert str(refused.value).endswith(said)


@pytest.mark.long
@pytest.mark.parametrize("n_done", [1, len(FILES)])
def test_a_gather_that_another_one_completes_meanwhile_ends_with_its_cube(
    tmp_path: Path, n_done: int
) -> None:
    """Two calls of the same gather at the same time both end well, whichever is faster."""
    to = tmp_path / "cube"
    faster: list[Gathered] = []

    def overtake(progress: Progress) -> None:
        if progress.n_done == n_done and not faster:
            faster.append(gather_undrawn(REQUEST, to=to))

    slower = gather_undrawn(REQUEST, to=to, on_progress=overtake)

    assert not faster[0].was_complete
    assert slower.was_complete
    assert slower.report == faster[0].report
    assert verify(to).is_same
    assert not (to / ".gather").exists()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_gather_that_another_one_completes_while_it_is_planned_ends_with_its_cube(
    tmp_path: Path,
    is_begun: bool,  # noqa: FBT001 # a case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has seen a place that was empty, or a gather that was stopped. Then the faster one has finished."""
    to = tmp_path / "cube"
    create = ZarrCube.create
    faster: list[Gathered] = []

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt(progress)

    async def create_late(cube: ZarrCube, plan: CubePlan) -> CubePlan:
        monkeypatch.undo()
        faster.append(await asyncio.to_thread(gather_undrawn, REQUEST, to=to))
        return await create(cube, plan)

    if is_begun:
        with pytest.raises(KeyboardInterrupt):
            gather_undrawn(REQUEST, to=to, on_progress=stop)
    monkeypatch.setattr(ZarrCube, "create", create_late)
    slower = gather_undrawn(REQUEST, to=to)

    assert not faster[0].was_complete
    assert slower.was_complete
    assert slower.report == faster[0].report
    assert verify(to).is_same


@pytest.mark.long
@pytest.mark.parametrize("n_done", [1, 2])
def test_an_append_that_another_one_completes_meanwhile_adds_no_row_twice(
    tmp_path: Path, n_done: int
) -> None:
    """The faster call adds the rows. The slower one says that it added none."""
    to = tmp_path / "cube"
    gather_undrawn(REQUEST | {"sources": REQUEST["sources"][:2]}, to=to)
    append = REQUEST | {"sources": REQUEST["sources"][2:], "output": {"append_to": str(to)}}
    faster: list[Gathered] = []

    def overtake(progress: Progress) -> None:
        if progress.n_done == n_done and not faster:
            faster.append(gather_undrawn(append))

    slower = gather_undrawn(append, on_progress=overtake)

    assert (faster[0].n_appended, slower.n_appended) == (2, 0)
    assert slower.was_complete
    assert slower.report == faster[0].report
    assert verify(to).is_same
    assert slower.open().sizes["source"] == len(FILES)
    assert not list((to / ".gather").rglob("*.msgpack"))


def left_over(cube: Path, claim: str) -> Path:
    """Leave a control file as a process does that is killed before it removes its own."""
    file = cube / ".gather" / claim / "plan.msgpack"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"-")
    return file


@pytest.mark.long
def test_control_files_that_a_killed_process_has_left_are_cleared_by_the_next_command(tmp_path: Path) -> None:
    """Those of an append that may be at work stay, until its version is there."""
    to = tmp_path / "cube"
    gather_undrawn(REQUEST | {"sources": REQUEST["sources"][:2]}, to=to)
    first = left_over(to, "20240101T000000.000000Z")
    second = left_over(to, "00002-20240101T000000.000000Z")
    gather_undrawn(REQUEST | {"sources": REQUEST["sources"][:2]}, to=to)
    assert (first.exists(), second.exists()) == (False, True)

    append = REQUEST | {"sources": REQUEST["sources"][2:], "output": {"append_to": str(to)}}
    gather_undrawn(append)
    assert not (to / ".gather").exists()

    left_over(to, "00002-20240101T000000.000000Z")
    assert gather_undrawn(append).n_appended == 0
    assert not (to / ".gather").exists()


def test_what_commits_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, a loss of power may leave an empty file where a cube's metadata were."""
    synced: list[tuple[str, int]] = []
    renamed: list[tuple[bool, str]] = []
    fsync, replace = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), os.fstat(descriptor).st_size))

    def note_rename(source: Path, target: Path) -> Path:
        renamed.append(((str(source), source.stat().st_size) in synced, str(target)))
        return replace(source, target)

    to = tmp_path / "cube"
    gather_undrawn(REQUEST | {"sources": REQUEST["sources"][:2]}, to=to)
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    gather_undrawn(REQUEST | {"sources": REQUEST["sources"][2:], "output": {"append_to": str(to)}})

    assert renamed
    assert set(renamed) == {(True, str(to / "zarr.json"))}
    assert synced[-1][0] == str(to)


def test_make_plan_prices_what_gather_then_does(tmp_path: Path) -> None:
    """The plan has the same shape and number of requests as the gather."""
    plan = make_plan(REQUEST)
    report = gather_undrawn(REQUEST, to=tmp_path / "cube").report

    assert plan.shape == report.shape
    assert plan.estimate.n_gets == report.requests


@pytest.mark.parametrize(
    ("options", "n_gets"),
    [
        ({"compress": "deflate"}, 1 + 2),
        ({}, 1 + 4),
        ({"compress": "deflate", "interleave": "band"}, 1 + 4),
        ({"compress": "deflate", "blockxsize": 128, "blockysize": 128}, 1 + 6),
    ],
)
def test_make_plan_counts_the_requests_that_the_gather_sends(
    tmp_path: Path, options: dict[str, Any], n_gets: int
) -> None:
    """Tiles whose bytes lie close together come in one: those of a row, unless rows are left out between."""
    tiles = {"tiled": True, "blockxsize": 512, "blockysize": 512, "interleave": "pixel"}
    image = np.random.default_rng(0).integers(0, 60_000, (2, 1024, 1536), dtype="uint16")
    geotiff(tmp_path / "a.tif", image, **tiles | options)
    request = {"sources": [str(tmp_path / "a.tif")], "window": {"pixels": [300, 300, 600, 600]}}

    planned = make_plan(request).estimate
    cube = gather_undrawn(request, to=tmp_path / "cube").open()

    assert planned.n_gets == cube.requests.sum() == n_gets
    assert planned.fetched_nbytes == cube.bytes.sum()


def test_progress_counts_every_source(tmp_path: Path) -> None:
    """Progress reaches the number of sources, with failures."""
    seen: list[tuple[int, int]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.n_done, progress.n_failed))

    request = {"sources": [*REQUEST["sources"], "gone.tif"], "window": "centre"}
    gather_undrawn(request, to=tmp_path / "cube", on_progress=note)

    assert seen[-1] == (len(FILES) + 1, 1)
    assert seen == sorted(seen)


def test_progress_counts_a_source_once_though_its_window_is_cut_into_strips(tmp_path: Path) -> None:
    """A missing file fails in every strip but counts once."""
    seen: list[tuple[int, int]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.n_done, progress.n_failed))

    request = {
        "sources": [*REQUEST["sources"], "gone.tif"],
        "window": {"pixels": [0, 0, 360, 180]},
        "output": {"layout": {"chunk": [1, 45, 360]}},
    }
    settings = Settings(max_task_nbytes=70_000, draws_report=False)
    report = gather_undrawn(request, to=tmp_path / "cube", settings=settings, on_progress=note).report

    assert report.n_shards == 4 * (len(FILES) + 1)
    assert seen[-1] == (len(FILES) + 1, 1)
    assert seen == sorted(seen)


def test_gather_raises_what_it_promises_where_the_cube_cannot_be_written(tmp_path: Path) -> None:
    """The error is a StoreError that names the location, not a group. After a repair the run resumes."""
    to = tmp_path / "cube"
    gather_undrawn(REQUEST, to=to)
    root = json.loads((to / "zarr.json").read_text())
    shutil.rmtree(to)
    (to / "band_1").mkdir(parents=True)
    (to / "band_1" / "c").write_text("in the way")

    def claimed() -> None:
        root["attributes"]["complete"] = False
        (to / "zarr.json").write_text(json.dumps(root))

    claimed()
    with pytest.raises(StoreError, match=f"^{re.escape(str(to))} could not be read: "):
        gather_undrawn(REQUEST, to=to)

    (to / "band_1" / "c").unlink()
    assert gather_undrawn(REQUEST, to=to).report.status_counts == {"ok": len(FILES)}


def test_an_interrupt_ends_reading_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread stops at the next line, so the process can end. No file is left."""
    (tmp_path / "list.txt").write_text("\n".join(f"/nowhere/{n}.tif" for n in range(500_000)))
    begins = threading.Event()
    ends: list[type[BaseException]] = []

    def load(*arguments: Any, **options: Any) -> SqliteSourceTable:
        begins.set()
        try:
            return SqliteSourceTable(*arguments, **options)
        except BaseException as error:
            ends.append(type(error))
            raise

    monkeypatch.setattr("pixel_gather.in_process.job.SqliteSourceTable", load)

    async def cancelled() -> None:
        work = asyncio.ensure_future(
            gather_async({"sources": str(tmp_path / "list.txt"), "window": "centre"}, to=tmp_path / "cube")
        )
        await asyncio.to_thread(begins.wait)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())

    assert ends == [InterruptedError]
    assert not (tmp_path / "cube").exists()


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """The files over HTTP, 40 ms away."""
    with run_server(SERIES) as running:
        running.behave(Behaviour(ttfb_s=0.04))
        yield running


def test_a_killed_run_goes_on_and_ends_with_the_same_pixels(server: LoopbackServer, tmp_path: Path) -> None:
    """Committed shards are not read again."""
    hrefs = [f"{server.url}/{number}/{file.name}" for number in range(12) for file in FILES]
    request = {
        "sources": hrefs,
        "window": {"pixels": [0, 0, 64, 64]},
        "output": {"layout": {"chunk": [4, 64, 64], "shard_rows": 4}},
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "pixel_gather_cli", "run", str(file), "--to", str(killed)]
    run = subprocess.Popen([*command, "--concurrency", "2", "--quiet"], stdout=subprocess.PIPE)  # noqa: S603 # ours
    while len(list(killed.glob(".gather/*/shards/*.msgpack"))) < 3:
        assert run.poll() is None, "ended before it could be killed"
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.communicate()

    assert not xr.open_zarr(killed, consolidated=False).attrs["complete"]
    before = server.log()
    continued = gather_undrawn(request, to=killed)
    asked = {each.path for each in server.log().requests[len(before.requests) :]}
    uninterrupted = gather_undrawn(request, to=whole)

    assert continued.report.digest == uninterrupted.report.digest
    assert len(asked) <= len(hrefs) - 3 * 4
    assert continued.report.status_counts == {"ok": len(hrefs)}
    assert not (killed / ".gather").exists()


def test_rows_with_another_scaling_stay_raw_and_say_so(tmp_path: Path) -> None:
    """No attribute fits all rows, so none is set. The values per row are coordinates."""
    for number, offset in enumerate((0.0, -1000.0)):
        with rasterio.open(
            tmp_path / f"{number}.tif", "w", driver="GTiff", width=8, height=8, count=1, dtype="uint16"
        ) as dataset:
            dataset.write(np.full((1, 8, 8), 1100, "uint16"))
            dataset.scales, dataset.offsets = (0.0001,), (offset,)
    both = [str(tmp_path / f"{number}.tif") for number in range(2)]

    mixed = gather_undrawn({"sources": both, "window": "centre"}, to=tmp_path / "mixed")
    alike = gather_undrawn({"sources": both[1:], "window": "centre"}, to=tmp_path / "alike")

    raw, scaled = xr.open_zarr(mixed.place), xr.open_zarr(alike.place)
    assert (raw.band_1.values == 1100).all()
    assert raw.add_offset.values.tolist() == [0.0, -1000.0]
    assert raw.scale_factor.values.tolist() == [0.0001, 0.0001]
    assert any("different scales or offsets" in each for each in mixed.report.warnings)
    np.testing.assert_allclose(scaled.band_1.values, 1100 * 0.0001 - 1000)
