"""Appends over fakes: their result, how they go on after a crash, and what two of them do at once."""

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from copy import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, override

import numpy as np
import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pixel_gather.core.errors import (
    AlreadyCommittedError,
    AppendRunningError,
    ArrayExistsError,
    RequestError,
    StoreError,
)
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.reduced_table import ReducedTable
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.results.contributors import CONTRIBUTORS, unpacked_lines
from pixel_gather.core.stores import Content
from pixel_gather.engine import choose_new_rows, commit_shard, publish_version, row_claim
from pixel_gather.engine.base_cube import Base, find_growing_cube, read_base
from pixel_gather.engine.compact import compact_cube
from pixel_gather.engine.plan_gather import plan_dry, read_found_list
from pixel_gather.features.verify.check_cube import check_cube
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY
from pixel_gather.io.cube.row_table import ROWS_KEY
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, cut, equal_but_for_clocks, rows
from support.fakes import UTM, FakeControl, FakeImage, FakeProjector, FakeTable, access_to
from support.yielding_cube import YieldingCube

N = 14
FAKE_PUT = FakeControl.put
RNG = np.random.default_rng(14)
IMAGES = {f"s3://b/{n}": RNG.integers(0, 999, (1, 20, 20), "uint16") for n in range(N)}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the pause before a worker puts a shard again.

    The fake store counts its ETags from 0 again when a test restores it. So a new object may get the ETag of
    an older one. The sidecar of the older one is in the store already. In that case the worker pauses, as it
    does beside another worker, and puts the shard again.
    """
    monkeypatch.setattr(commit_shard, "_LONGEST_PAUSE_S", 0.0)


SCENE = ListColumn(name="scene", dtype="string", varies_in_row=False)
ASKED: dict[str, Any] = {"window": {"pixels": [2, 3, 8, 6]}, "output": {"append_to": "place"}}


def place(
    chunk_rows: int = 2,
    shard_rows: int = 4,
    *,
    is_sharded: bool = True,
    images: Mapping[str, Any] = IMAGES,
    **request: Any,
) -> GrownPlace:
    """Return an empty place for a cube with small chunks."""
    output = cut(chunk_rows, shard_rows, is_sharded=is_sharded) | request.pop("output", {})
    return GrownPlace(images=images, request={"output": output} | request)


def of_three(**request: Any) -> GrownPlace:
    """Return a place with a cube of three rows."""
    grown = place(**request)
    grown.gather(rows(0, 1, 2))
    return grown


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    cuts=st.sets(st.integers(1, N - 1), min_size=1, max_size=4),
    chunk_rows=st.sampled_from([1, 2, 3]),
    n_chunks=st.integers(1, 3),
    kind=st.sampled_from(
        [
            *((codec, True) for codec in ("blosc-lz4", "blosc-zstd", "zstd", "none")),
            *((codec, False) for codec in ("blosc-lz4", "blosc-zstd", "zstd")),
        ]
    ),
)
def test_appends_equal_one_gather(
    cuts: set[int], chunk_rows: int, n_chunks: int, kind: tuple[str, bool]
) -> None:
    """Pixels, coordinates and digests are those of one gather of all sources."""
    ends = [*sorted(cuts), N]
    shard_rows = chunk_rows * n_chunks
    codec, is_sharded = kind
    rows_of = min(chunk_rows, ends[0]), shard_rows if is_sharded else min(shard_rows, ends[0])
    grown = place(*rows_of, is_sharded=is_sharded, output={"codec": codec})
    whole = place(*rows_of, is_sharded=is_sharded, output={"codec": codec})

    report = grown.gather(rows(*range(ends[0])))
    for start, stop in itertools.pairwise(ends):
        appended = grown.append(rows(*range(start, stop)))
        assert appended is not None
        report = appended
    expected = whole.gather(rows(*range(N)))

    assert equal_but_for_clocks(grown.open(), whole.open())
    assert (report.digest, report.shape) == (expected.digest, expected.shape)
    assert (report.requests, report.status_counts) == (expected.requests, expected.status_counts)
    assert check_cube(grown.store, place="grown").differences == ()
    obstore.delete(grown.store, ROWS_KEY)  # nothing else would excuse a wrong digest of a shard
    assert check_cube(grown.store, place="grown").differences == (f"{ROWS_KEY} is missing",)


def test_sources_that_the_cube_has_are_left_out() -> None:
    """The receipt and the list of versions count them. Nothing is left of a list that the cube has."""
    grown = of_three()

    report = grown.append(rows(1, 2, 3))

    assert report is not None
    assert (report.n_sources, report.shape[0]) == (4, 4)
    (version,) = asyncio.run(find_growing_cube(grown.cube, field="cube")).versions[1:]
    assert (version.number, version.n_rows, version.n_sources, version.n_skipped) == (2, 4, 1, 2)
    receipt = json.loads(asyncio.run(read(grown, "receipt.json")))
    assert [(each["rows"], each["n_skipped"]) for each in receipt["appends"]] == [([3, 4], 2)]
    assert grown.append(rows(0, 3)) is None


def test_files_of_other_programs_among_the_shards_are_left_out() -> None:
    """The Finder of macOS leaves them in folders that somebody has looked into."""
    grown = of_three()
    for key in ("band_1/c/.DS_Store", "band_1/c/0/0/._0"):
        obstore.put(grown.store, key, b"of the Finder")

    assert grown.append(rows(3, 4, 5)) is not None
    assert asyncio.run(compact_cube(grown.cube)).n_shards == 1

    assert grown.open().sizes["time"] == 6
    assert check_cube(grown.store, place="grown").differences == ()


def test_the_same_request_again_appends_nothing() -> None:
    """This holds even if it asks for duplicates: its digest is among the cube's versions."""
    grown = place()
    grown.gather(rows(0, 1))

    assert grown.append(rows(0, 1), duplicates="again") is not None
    assert grown.append(rows(0, 1), duplicates="again") is None
    assert grown.open().sizes["time"] == 4
    with pytest.raises(RequestError, match="the cube already has 1 row of this list, such as s3://b/1"):
        grown.append(rows(1, 5), duplicates="fail")
    assert grown.append(rows(5), duplicates="fail") is not None


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (
            {"window": {"pixels": [0, 0, 3, 3]}},
            "window: the cube has .* pixels; the new rows would have 3 x 3",
        ),
        ({"bands": [1], "nodata": 7}, "nodata: the cube has nodata none; the new rows would have nodata 7"),
        ({"output": {"append_to": "place", "codec": "zstd"}}, "output.codec: the cube has blosc-lz4"),
    ],
)
def test_a_wrong_request_is_refused_though_the_cube_has_all_its_sources(
    wrong: dict[str, Any], match: str
) -> None:
    """The same request with a new source is refused, too."""
    grown = of_three()
    with pytest.raises(RequestError, match=match):
        grown.append(rows(0, 1), **wrong)
    with pytest.raises(RequestError, match=match):
        grown.append(rows(0, 3), **wrong)


def test_a_list_that_the_cube_has_opens_no_header_if_its_request_asks_for_the_same_pixels() -> None:
    """So a schedule that finds nothing new costs no request to the sources."""
    grown = of_three()
    grown.images = {}
    grown.__post_init__()

    assert grown.append(rows(0, 1), limits={"files": 1}) is None
    with pytest.raises(RequestError, match="none of the 2 sources that were tried can be opened"):
        grown.append(rows(0, 1), window={"pixels": [0, 0, 3, 3]})


def test_limits_of_cost_do_not_refuse_a_list_that_the_cube_has() -> None:
    """Nothing is read, also if headers are opened to compare the windows."""
    grown = of_three()

    assert grown.append(rows(0, 1), grid="same", limits={"files": 1, "usd": 0}) is None


def test_scenes_that_the_cube_has_are_left_out() -> None:
    """A scene is known by its id, though its files have moved."""

    def scene(n: int, name: str) -> CubeRow:
        return CubeRow(time_us=None, sources=(Source(href=f"s3://b/{n}", scene=name),))

    def listed(*made: CubeRow) -> FakeTable:
        return FakeTable(made, columns=(SCENE,), digest=f"{len(made)}".ljust(64, "x"))

    grown = place()
    grown.gather(listed(scene(0, "A"), scene(1, "B")))
    grown.append(listed(scene(5, "B"), scene(6, "C"), scene(7, "D")))

    assert grown.open()["scene"].values.tolist() == ["A", "B", "C", "D"]


def test_rows_out_of_order_are_told() -> None:
    """They stay where they were appended."""
    grown = place()
    grown.gather(rows(5, 6))
    assert "comment" not in grown.open().attrs

    grown.append(rows(2))

    assert "not in the order of their times" in grown.open().attrs["comment"]


def test_a_cube_must_be_there_and_complete() -> None:
    """The error names the field."""
    with pytest.raises(RequestError, match=r"output\.append_to: place holds no cube"):
        place().append(rows(1))


def test_a_cube_that_cannot_grow_says_why() -> None:
    """It was made by hand, by an earlier version, or is not complete. Chips and one window do not mix."""
    grown = place()
    grown.gather(rows(0))
    found = asyncio.run(find_growing_cube(grown.cube, field="cube"))
    assert found.template is not None
    untold = replace(found.template, reduce={"by": "day", "statistic": "first"})
    for there, said in (
        (replace(found, template=None), "place is a copy of joined cubes and cannot grow"),
        (replace(found, template=untold), "place was made by an earlier version and does not describe its"),
        (replace(found, template=None, versions=()), "place: the cube is not complete"),
    ):
        cube: Any = SimpleNamespace(place="place", found_among_files=partial(asyncio.sleep, 0, there))
        with pytest.raises(RequestError, match=rf"cube: {said}"):
            asyncio.run(find_growing_cube(cube, field="cube"))

    of_chips = replace(found, origin={"request": {"windows": {}}})
    window, chips = (
        parse_request({"sources": "l.csv", "output": {"append_to": "place"}} | each)
        for each in ({"window": "centre"}, {"windows": {"table": "t.csv", "size": [4, 4]}})
    )
    for request, there, said in (
        (chips, found, r"windows: place has one window and takes no chips"),
        (window, of_chips, r"output\.append_to: place is a cube of chips and cannot grow by other windows"),
        (chips, of_chips, r"output\.append_to: an earlier version gathered the chips of place, and they"),
    ):
        with pytest.raises(RequestError, match=said):
            asyncio.run(read_base(request, None, grown.cube, there))


def test_sources_off_the_grid_are_unlike_and_the_stack_stays_aligned() -> None:
    """The cube keeps its place on the map."""
    off = FakeImage(pixels=IMAGES["s3://b/3"], header={"transform": replace_x(5.0)})
    grown = place(images=IMAGES | {"s3://b/3": off})
    grown.gather(rows(0, 1))

    report = grown.append(rows(2, 4, 3))

    assert report is not None
    assert report.status_counts == {"ok": 4, "unlike": 1}
    assert report.is_aligned
    assert "x" in grown.open().coords


def test_rows_without_a_common_grid_grow_too() -> None:
    """An unaligned stack takes any window of its size. What differs becomes a coordinate."""
    images = {
        href: FakeImage(pixels=pixels, header={"transform": replace_x(n * 7.0), "nodata": n % 2})
        for n, (href, pixels) in enumerate(IMAGES.items())
    }
    grown, whole = place(images=images), place(images=images)
    grown.gather(rows(0, 2))
    grown.append(rows(4, 1, 3))
    whole.gather(rows(0, 2, 4, 1, 3))

    assert equal_but_for_clocks(grown.open(), whole.open())
    assert grown.open()["nodata"].values.tolist() == [0, 0, 0, 1, 1]


def test_a_band_that_came_late_is_appended_with_its_scene() -> None:
    """The row of the scene stays as it is. Once the band is there, the list appends nothing."""

    def scenes(*bands_of: str, bucket: str = "b") -> FakeTable:
        made = tuple(
            CubeRow(
                time_us=None,
                sources=tuple(
                    Source(href=f"s3://{bucket}/{2 * n + at}", band=band, scene=f"S{n}")
                    if band[0] in bands
                    else None
                    for at, band in enumerate(("nir", "red"))
                ),
            )
            for n, bands in enumerate(bands_of)
        )
        digest = "-".join((bucket, *bands_of)).ljust(64, "x")
        return FakeTable(made, bands=("nir", "red"), columns=(SCENE,), digest=digest)

    grown = place()
    grown.gather(scenes("nr", "r", "n"))
    report = grown.append(scenes("nr", "nr", "n"))

    assert report is not None
    assert [each[:72] for each in report.warnings] == [
        "1 scene of the cube lacked a band that the list has, such as s3://b/2. E"
    ]
    cube = grown.open()
    assert cube["scene"].values.tolist() == ["S0", "S1", "S2", "S1"]
    assert cube["href"].values.tolist()[1:] == [
        ["", "s3://b/3"],
        ["s3://b/4", ""],
        ["s3://b/2", "s3://b/3"],
    ]
    assert grown.append(scenes("nr", "nr", "n")) is None
    assert grown.append(scenes("nr", "nr")) is None
    assert grown.append(scenes("nr", "nr", "n", bucket="moved")) is None
    with pytest.raises(RequestError, match="already has 1 row of this list, such as s3://b/1"):
        grown.append(scenes("r"), duplicates="fail")


def test_a_row_is_known_if_the_cube_has_all_of_its_files() -> None:
    """One file that all rows share, such as a height model, does not suffice."""

    def with_heights(*numbers: int) -> FakeTable:
        made = tuple(
            CubeRow(
                time_us=None,
                sources=(Source(href=f"s3://b/{n}", band="red"), Source(href="s3://b/13", band="dem")),
            )
            for n in numbers
        )
        return FakeTable(made, bands=("red", "dem"), digest="-".join(map(str, numbers)).ljust(64, "x"))

    grown = place()
    grown.gather(with_heights(0, 1))

    assert grown.append(with_heights(1, 2)) is not None
    assert grown.open()["href"].values[:, 0].tolist() == [f"s3://b/{n}" for n in range(3)]


@pytest.mark.parametrize("bands", [(), ("nir", "red")])
def test_a_table_that_is_longer_than_the_cube_is_read(bands: tuple[str, ...]) -> None:
    """It is that of an append that was not committed. Whole batches of it are beyond the cube's rows."""
    n_slots = max(len(bands), 1)
    shape = (2,) if not bands else (2, n_slots)
    batch = {
        "href": np.array([f"s3://b/{n}" for n in range(2 * n_slots)], object).reshape(shape),
        "scene": np.array(["S0", "S1"], object),
    }
    beyond = {
        "href": np.array([f"s3://c/{n}" for n in range(2 * n_slots)], object).reshape(shape),
        "scene": np.array(["S2", "S3"], object),
    }
    base = SimpleNamespace(
        template=SimpleNamespace(columns=(SCENE,)), append=SimpleNamespace(first_row=1), rows=[batch, beyond]
    )

    hrefs, known = choose_new_rows._read_known(base)  # type: ignore[arg-type] # what it needs of it

    assert hrefs == set(batch["href"][:1].ravel().tolist())
    assert known == {"S0": frozenset()}


@pytest.mark.parametrize("by", ["day", "area"])
def test_groups_beyond_the_rows_of_the_cube_are_gathered(by: str) -> None:
    """The table of an append that was not committed has them. Those of the cube stay as they are."""
    day_us = 86_400_000_000

    def table(*names: str) -> TableView:
        scenes = (
            CubeRow(
                time_us=int(each[1]) * day_us, sources=(None, Source(href=each, columns={"area": each[0]}))
            )
            for each in names
        )
        columns = (ListColumn(name="area", dtype="string", varies_in_row=False),)
        whole = FakeTable(tuple(scenes), bands=("nir", "red"), has_time=True, columns=columns)
        return TableView(table=whole, bands=whole.bands, slot_order=(0, 1), kept=range(whole.n_rows))

    def chosen(*names: str) -> list[Any]:
        batches = [
            {
                "href": np.array(["", ""], object),
                "time": np.array([int(each[1]) * day_us for each in some]),
                "area": np.array([each[0] for each in some], object),
                CONTRIBUTORS: unpacked_lines(np.array([json.dumps([{"href": each}]) for each in some])),
            }
            for some in (("a0", "b1"), ("c2", "d3"))
        ]
        base = Base(
            template=SimpleNamespace(has_time=by == "day"),  # type: ignore[arg-type] # all that is needed
            append=Append(version=2, first_row=1),
            rows=iter(batches),
        )
        reduce = {"by": by, "statistic": "mean"}
        request = parse_request(
            {"sources": "l", "window": "centre", "reduce": reduce, "output": {"append_to": "place"}}
        )
        found = choose_new_rows.choose_rows(request, table(*names), base, FakeProjector())
        assert isinstance(found, ReducedTable)
        return [*found.groups]

    groups = {name: int(name[1]) * day_us if by == "day" else name[0] for name in ("b1", "c2", "d3", "e4")}
    assert chosen("a0", *groups) == [*groups.values()]
    row = "day 1970-01-01" if by == "day" else "area a"
    other = "x0" if by == "day" else "a5"
    with pytest.raises(RequestError, match=f"has the row {row}, .* lacks 1 scene of it, such as {other}"):
        chosen("a0", other, "b1")


@pytest.mark.parametrize("n_first", [2, 3])
def test_several_measurements_grow_together(n_first: int) -> None:
    """A list with bands adds a scene to every array, though one of them lacks a band."""

    def scenes(*numbers: int) -> FakeTable:
        made = tuple(
            CubeRow(
                time_us=None,
                sources=tuple(
                    None
                    if (n, band) == (n_first, "red")
                    else Source(href=f"s3://b/{2 * n + at}", band=band, scene=f"S{n}")
                    for at, band in enumerate(("red", "nir"))
                ),
            )
            for n in numbers
        )
        digest = "-".join(map(str, numbers)).ljust(64, "x")
        return FakeTable(made, bands=("red", "nir"), columns=(SCENE,), digest=digest)

    grown, whole = (place(output={"expected_rows": 5}) for _ in range(2))
    grown.gather(scenes(*range(n_first)))
    report = grown.append(scenes(*range(n_first, 5)))
    expected = whole.gather(scenes(*range(5)))

    assert equal_but_for_clocks(grown.open(), whole.open())
    assert report is not None
    assert report.digest == expected.digest


type State = tuple[dict[str, bytes], dict[str, bytes]]
"""All objects of the store of a cube, and of its control files."""


def states_of_an_append(grown: GrownPlace, table: FakeTable, monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """Append, and return what was stored before each PUT that changes something. Other steps only read."""
    states: list[State] = []

    def note(store: Any) -> None:
        if store in (grown.store, grown.control) and (now := state_of(grown)) not in states[-1:]:
            states.append(now)

    def watched(put: Callable[..., Any]) -> Callable[..., Any]:
        def noted(store: Any, *arguments: Any, **named: Any) -> Any:
            note(store)
            return put(store, *arguments, **named)

        return noted

    def put_control(store: FakeControl, key: str, content: bytes) -> Any:
        note(grown.control)
        return FAKE_PUT(store, key, content)

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", watched(obstore.put))
        patch.setattr(obstore, "put_async", watched(obstore.put_async))
        patch.setattr(FakeControl, "put", put_control)
        patch.setattr(publish_version, "_AT_ONCE", 1)  # each PUT has its own state, however slow it is
        assert grown.append(table) is not None
    return states


def puts_of_pixels(states: list[State], *, every: int = 1000) -> list[State]:
    """Leave out most states between the first and the last coordinates: putting those knows of no shards."""
    old = states[0][0]["bytes/c/0"]
    first = next(n for n, (objects, _) in enumerate(states) if objects["bytes/c/0"] != old)
    return states[:first] + states[first:-4:every] + states[-4:]


BEGUN = (
    "version 2 was begun and is not committed: an append or a compaction was stopped before its commit, "
    "or is at work; run it again"
)


@pytest.mark.long
@pytest.mark.parametrize("is_sharded", [True, False])
def test_an_append_that_was_killed_anywhere_leaves_the_old_version_and_goes_on(
    *, is_sharded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed before each of its PUTs in turn. A process that starts anew knows only what is stored."""
    base = place(2, 4 if is_sharded else 2, is_sharded=is_sharded)
    base.gather(rows(0, 1, 2))
    whole = base.copy()
    old = base.digest()
    states = states_of_an_append(whole, rows(3, 4), monkeypatch)
    new = whole.digest()
    assert len(states) >= 50

    for n, state in enumerate(states if is_sharded else puts_of_pixels(states)):
        grown = GrownPlace(images=base.images, request=base.request)
        restore(grown, state)
        assert grown.digest() == old, n
        assert set(check_cube(grown.store, place="grown").differences) <= {BEGUN}, n
        assert grown.append(rows(3, 4)) is not None, n
        assert grown.digest() == new, n
        if n % 10 == 0:
            assert check_cube(grown.store, place="grown").differences == ()


@pytest.mark.long
def test_a_compaction_after_a_killed_append_is_right_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused if the files beside the arrays are the append's. The append can then go on."""
    base = of_three()
    whole = base.copy()
    states = states_of_an_append(whole, rows(3, 4), monkeypatch)
    new = whole.digest()
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)

    n_refused = 0
    for n, state in enumerate(puts_of_pixels(states, every=4)):
        grown = GrownPlace(images=base.images, request=base.request)
        restore(grown, state)
        said = ""
        try:
            asyncio.run(compact_cube(grown.cube))
        except AppendRunningError as error:
            said = str(error)
        n_refused += bool(said)
        assert said == "" or "run the append again first" in said, n
        assert set(check_cube(grown.store, place="grown").differences) <= ({BEGUN} if said else set()), n
        assert grown.append(rows(3, 4)) is not None, n
        assert check_cube(grown.store, place="grown").differences == (), n
        assert grown.digest() == new, n
    assert 2 < n_refused < len(states) / 2


def tried_again(
    monkeypatch: pytest.MonkeyPatch, *, is_sharded: bool = True
) -> tuple[GrownPlace, list[State]]:
    """Return a place, and what is stored before each PUT of an append that reads a failed row again."""
    first = {href: image for href, image in IMAGES.items() if href != "s3://b/1"}
    base = GrownPlace(images=first, request=place(2, 4, is_sharded=is_sharded).request)
    base.gather(rows(*range(6)))
    whole = base.copy()
    images: Any = whole.reader.images
    images["s3://b/1"] = IMAGES["s3://b/1"]
    return base, states_of_an_append(whole, rows(6), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("is_sharded", [True, False])
def test_tries_that_were_killed_anywhere_go_on(*, is_sharded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that had failed may hold its pixels before they are committed. All others stay as they are."""
    base, states = tried_again(monkeypatch, is_sharded=is_sharded)
    pixels, status = base.values("band_1", "status")
    assert status.tolist() == [0, 2, 0, 0, 0, 0]
    others = [0, 2, 3, 4, 5]

    for n, state in enumerate(states if is_sharded else puts_of_pixels(states)):
        grown = GrownPlace(images=IMAGES, request=base.request)
        restore(grown, state)
        begun, status = grown.values("band_1", "status")
        assert np.array_equal(begun[others], pixels[others]), n
        assert status[others].tolist() == [0] * 5, n
        assert set(check_cube(grown.store, place="grown").differences) <= {BEGUN}, n
        assert grown.append(rows(6)) is not None, n
        assert grown.values("status")[0].tolist() == [0] * 7, n
        if n % 6 == 0:
            assert check_cube(grown.store, place="grown").differences == (), n


@pytest.mark.long
@pytest.mark.parametrize("failed_rows", ["retry", "keep"])
def test_tries_that_were_abandoned_leave_no_row_half_read(
    monkeypatch: pytest.MonkeyPatch, failed_rows: str
) -> None:
    """Whoever takes over writes all failed rows anew, also if it would keep them, and if they fail again."""
    base, states = tried_again(monkeypatch)
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", -1.0)

    for n, state in enumerate(states[::4]):
        grown = GrownPlace(images=base.images, request=base.request)  # the source has vanished again
        restore(grown, state)
        assert grown.append(rows(7), failed_rows=failed_rows) is not None, n
        opened = grown.open()
        is_read = bool(opened["status"].values[1] == 0)
        assert bool(opened["band_1"].values[1].any()) == is_read, n
        assert opened["etag"].values[1] == ('"1"' if is_read else ""), n
        assert check_cube(grown.store, place="grown").differences == (), n


def test_what_a_stopped_append_has_put_does_not_hide_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its commit, an append has replaced files beside the arrays. A damaged one is still told."""
    base = of_three()
    whole = base.copy()
    *_, stopped = states_of_an_append(whole, rows(3, 4), monkeypatch)
    grown = GrownPlace(images=base.images, request=base.request)
    restore(grown, stopped)
    table = bytearray(obstore.get(grown.store, "rows.parquet").bytes())
    table[len(table) // 3] ^= 1
    obstore.put(grown.store, "rows.parquet", bytes(table))
    found = check_cube(grown.store, place="grown").differences

    assert found == (BEGUN, "rows.parquet has another content than the receipt says")


def test_another_append_takes_over_what_was_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The former owner finds that out before it changes anything, however late it wakes up."""
    grown = of_three()
    late = grown.filled(rows(3, 4))
    with pytest.raises(AppendRunningError, match="another append is at work"):
        grown.append(rows(5, 6, 7))

    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    assert grown.append(rows(5, 6, 7)) is not None

    digest, before = grown.digest(), state_of(grown)
    with pytest.raises(ArrayExistsError, match="another append"):
        asyncio.run(grown.finished(*late))
    assert grown.digest() == digest
    assert state_of(grown) == before
    assert check_cube(grown.store, place="grown").differences == ()
    assert grown.append(rows(3, 4)) is not None
    assert [int(each) for each in grown.open()["time"].values.astype("datetime64[s]").astype(int)] == [
        *(0, 1, 2),
        *(5, 6, 7),
        *(3, 4),
    ]


@pytest.mark.parametrize(
    ("chunk_rows", "is_sharded", "first"), [(1, True, 3), (2, True, 3), (4, False, 3), (2, True, 4)]
)
def test_lost_rows_hold_no_pixels_of_an_append_that_was_given_up(
    monkeypatch: pytest.MonkeyPatch, chunk_rows: int, first: int, *, is_sharded: bool
) -> None:
    """Its pixels are of other sources. A late worker finds that the shard was given up."""
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    grown = place(chunk_rows, 4, is_sharded=is_sharded)
    grown.gather(rows(*range(first)))
    grown.filled(rows(first, first + 1))
    plan, tasks = asyncio.run(grown.begun(rows(*range(first + 2, N))))
    asyncio.run(grown.fill(plan, [task for task in tasks if task.row_start > first]))

    asyncio.run(grown.finished(plan, tasks, max_lost_share=1.0))
    asyncio.run(grown.shard(tasks[0], plan))  # late

    opened, n_lost = grown.open(), tasks[0].n_rows
    statuses = opened["status"].values.tolist()
    assert statuses == [0] * first + [10] * n_lost + [0] * (len(statuses) - first - n_lost)
    assert not opened["band_1"].values[first : first + n_lost].any()
    assert opened["band_1"].values[:first].any(axis=(1, 2)).all()
    assert check_cube(grown.store, place="grown").differences == ()


class LateCube(ZarrCube, frozen=True, kw_only=True):
    """A cube whose PUTs of pixels arrive late."""

    meanwhile: Callable[[], Awaitable[None]]

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        if "/c/" in key:
            await self.meanwhile()
        return await ZarrCube.put_object(self, key, content, replaces=replaces)


def test_a_late_worker_of_an_append_changes_no_committed_rows() -> None:
    """Its source was another version. Its PUT arrives when another worker's rows are part of the cube."""
    grown, other = of_three(), place(images={href: pixels + 1 for href, pixels in IMAGES.items()})
    other.store, other.control = grown.store, grown.control
    plan, (task,) = asyncio.run(grown.begun(rows(3)))
    has_run = False

    async def finish_first() -> None:
        nonlocal has_run
        if not has_run:
            has_run = True
            await other.shard(task, plan)
            await other.finished(plan, (task,))

    grown.watch = lambda store: LateCube(store, "place", meanwhile=finish_first)
    with pytest.raises(AlreadyCommittedError):
        asyncio.run(grown.shard(task, plan))

    grown.watch = lambda store: ZarrCube(store, "place")
    np.testing.assert_array_equal(grown.open()["band_1"][3], IMAGES["s3://b/3"][0, 3:9, 2:10] + 1)
    np.testing.assert_array_equal(grown.open()["band_1"][2], IMAGES["s3://b/2"][0, 3:9, 2:10])
    assert check_cube(grown.store, place="grown").differences == ()


def test_an_append_leaves_the_pictures_of_the_first_gather() -> None:
    """Its task has rows with the numbers of rows that the cube has."""
    output = cut(2, 16) | {"expected_rows": 16}
    grown = place(output=output, window={"pixels": [2, 3, 8, 8]})
    grown.gather(rows(0, 1))
    pictures = grown.contents()[QUICKLOOKS_KEY]

    grown.append(rows(*range(2, N)))

    assert grown.contents()[QUICKLOOKS_KEY] == pictures


@pytest.mark.parametrize(
    ("first", "asked", "said"),
    [
        ({"layout": "balanced"}, {"layout": "series"}, "layout: the cube has the layout balanced; the new"),
        ({"layout": "slice"}, {"layout": "balanced"}, "layout: the cube has the layout slice; the new rows"),
        (cut(2, 16), {"layout": "slice"}, "layout: the cube has chunks of 2 x 4 x 4; .* slice: leave"),
        ({}, {"expected_rows": 1000}, "expected_rows: .* its first rows; .* planned for 1,000: leave it out"),
        ({"expected_rows": 9}, {"expected_rows": 8}, "expected_rows: the cube has shards planned for 9 rows"),
    ],
)
def test_an_append_cannot_choose_other_shards(
    first: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    """Shards never change. The choice of the first gather may be named again, or left out.

    It may be larger than the shards: a cube of two rows has no shards of 16.
    """
    grown = place(output=first)
    grown.gather(rows(0, 1))

    for numbers in ((2, 3), (0, 1)):
        with pytest.raises(RequestError, match=rf"^output\.{said}"):
            grown.append(rows(*numbers), output={"append_to": "place"} | asked)
    for named, number in (({}, 2), (first, 3)):
        assert grown.append(rows(number), output={"append_to": "place"} | named) is not None


@pytest.mark.parametrize("seed", range(6))
def test_two_appends_at_once_lose_nothing(seed: int) -> None:
    """Each waits where the other is at work. A random one of them goes on after each operation."""
    grown = of_three()
    choose = random.Random(seed)  # noqa: S311 # no secret

    async def one(*numbers: int) -> None:
        while True:
            for _ in range(choose.randrange(4)):
                await asyncio.sleep(0)
            try:
                await grown.appended(rows(*numbers))
            except AppendRunningError:
                await asyncio.sleep(0.001)
            else:
                return

    async def both() -> None:
        await asyncio.gather(one(3, 4), one(5, 6, 7))

    grown.watch = lambda store: YieldingCube(store, "place")
    asyncio.run(both())

    times = grown.open()["time"].values.astype("datetime64[s]").astype(int).tolist()
    assert times in ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 5, 6, 7, 3, 4])
    for row, n in enumerate(times):
        np.testing.assert_array_equal(grown.open()["band_1"][row], IMAGES[f"s3://b/{n}"][0, 3:9, 2:10])
    assert check_cube(grown.store, place="grown").differences == ()


def test_an_append_that_goes_on_reads_the_list_that_it_has_found() -> None:
    """It does not search again. Another request does, and so does one whose append is committed."""
    grown = place()
    grown.gather(rows(0, 1))
    searched: dict[str, Any] = {"sources": {"catalog": {"file": "s3://c/x.parquet", "assets": ["red"]}}}
    table = replace(rows(2, 3), found=b"the scenes")

    def found(**request: Any) -> bytes | None:
        asked = parse_request(ASKED | searched | request)
        return asyncio.run(read_found_list(asked, grown.context()))

    assert found() is None
    unasked: Any = None
    assert asyncio.run(read_found_list(parse_request(ASKED | {"sources": "l"}), unasked)) is None
    plan = asyncio.run(grown.planned(table, **searched))
    assert plan is not None

    assert found() == b"the scenes"
    assert found(sources="list") is None
    assert found(nodata=7) is None
    assert grown.append(table, **searched) is not None
    assert found() is None
    (told,) = json.loads(grown.contents()["receipt.json"])["appends"]
    assert grown.contents()[told["found_list"]] == b"the scenes"


def test_an_append_that_loses_its_claim_before_its_finish_writes_nothing() -> None:
    """Not even a file that nobody would find."""
    grown = of_three()
    planned = grown.filled(rows(5, 6))
    obstore.delete(grown.store, "versions/00002.claim")
    before = state_of(grown)

    with pytest.raises(ArrayExistsError, match="another append has taken over"):
        asyncio.run(grown.finished(*planned))

    assert state_of(grown) == before


def test_clock_of_an_append_begins_where_the_rows_before_it_end() -> None:
    """So the report of a grown cube shows its gathers one after another."""
    grown = of_three()
    grown.append(rows(3, 4))
    report = grown.append(rows(5))

    ends, starts = (grown.open()[name].values for name in ("end", "start"))
    assert report is not None
    assert report.wall_s == pytest.approx(
        ends[:3].max() + ends[3:5].max() + ends[5:].max() - starts[:3].min(), rel=1e-3
    )


def test_finish_of_a_committed_append_returns_its_report() -> None:
    """A second try writes nothing."""
    grown = of_three()
    planned = grown.filled(rows(3))
    report = asyncio.run(grown.finished(*planned))
    before = state_of(grown)

    assert asyncio.run(grown.finished(*planned)) == report
    assert state_of(grown) == before


def test_a_dry_append_claims_and_writes_nothing() -> None:
    """It only says what would be."""
    grown = of_three()
    before = state_of(grown)

    plan = asyncio.run(
        plan_dry(
            parse_request(ASKED | {"sources": "l"}),
            table=rows(2, 3, 4),
            sources=access_to(grown.reader),
            workers=WorkerPool(max_task_nbytes=2**24),
            cube=grown.cube,
        )
    )

    assert (plan.append.version, plan.first_row, plan.n_rows, plan.append.n_skipped) == (2, 3, 5, 1)
    assert plan.append.tails == ("band_1/c/0/0/0",)
    assert plan.append.chunk_rows == 1024
    assert [each.number for each in plan.append.versions] == [1]
    assert state_of(grown) == before


def test_a_dry_append_of_what_is_committed_says_that_there_is_nothing_to_append() -> None:
    """Also where the request asks for its sources once more."""
    grown = of_three()
    given = ASKED | {"sources": "list"}
    again = given | {"duplicates": "again"}
    assert grown.append(rows(3), duplicates="again") is not None

    for request, table in ((again, rows(3)), (given, rows(0, 1))):
        planning = plan_dry(
            parse_request(request),
            table=table,
            sources=access_to(grown.reader),
            workers=WorkerPool(),
            cube=grown.cube,
        )
        with pytest.raises(RequestError, match="there is nothing to append"):
            asyncio.run(planning)


def test_an_append_puts_no_shard_in_place_of_one_that_is_lost() -> None:
    """The rows before its own would become fill."""
    grown = of_three()
    plan, (task,) = asyncio.run(grown.begun(rows(3)))
    obstore.delete(grown.store, "band_1/c/0/0/0")

    with pytest.raises(StoreError, match="place: band_1/c/0/0/0 is missing"):
        asyncio.run(grown.shard(task, plan))

    assert "band_1/c/0/0/0" not in grown.contents()


def test_an_append_behind_full_shards_continues_none() -> None:
    """Its rows are in shards of their own."""
    grown = place(2, 4)
    grown.gather(rows(0, 1, 2, 3))

    plan, _ = asyncio.run(grown.begun(rows(4)))

    assert plan.append.tails == ()


async def read(grown: GrownPlace, key: str) -> bytes:
    """Return an object of the cube."""
    there = await grown.cube.read_object(key)
    assert there is not None
    return there.content


def state_of(grown: GrownPlace) -> State:
    """Return everything that is stored."""
    return grown.contents(), dict(grown.control.files)


def restore(grown: GrownPlace, state: State) -> None:
    """Store everything again."""
    objects, files = state
    for path, content in objects.items():
        obstore.put(grown.store, path, content)
    grown.control.files.update(files)


def replace_x(east: float) -> Transform:
    """Return the usual transform, moved to the east."""
    return UTM._replace(c=UTM.c + east)
