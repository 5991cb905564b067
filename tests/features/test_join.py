"""Cubes joined by references: the same pixels and rows as in the cubes, with two GETs a cube."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from errno import EXDEV
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

from pixel_gather import (
    ArrayExistsError,
    RequestError,
    StoreError,
    join,
    joined_members,
    joined_versions,
    open_cube,
    open_joined,
    presence,
    replay,
    rows_where,
    verify,
    versions,
)
from pixel_gather.core.results.own_checksum import with_checksum
from pixel_gather.features.join import copied_cube
from pixel_gather.features.join.icechunk_repository import _ROOT_ID, Repository
from pixel_gather.features.join.joined_group import CHUNK_ROWS
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.main import command
from support.images import write_image
from support.joined_cubes import FILES, gather_member
from support.undrawn import gather_undrawn

ROWS = (4, 5, 6)
AXES = {"time", "y", "x"}


@pytest.fixture(scope="module")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three cubes of one place and shards of four rows, and one of another place."""
    folder = tmp_path_factory.mktemp("members")
    found = [folder / f"t{n}.zarr" for n in range(len(ROWS))]
    for n, (n_rows, cube) in enumerate(zip(ROWS, found, strict=True)):
        gather_member(cube, n_rows=n_rows, year=2020 + n, folder=folder)
    gather_member(folder / "other.zarr", n_rows=3, col=16, folder=folder)
    return [*found, folder / "other.zarr"]


@pytest.fixture
def own(cubes: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of the cubes that a test may change. Their shards keep their times."""
    return [Path(shutil.copytree(cube, tmp_path / cube.name)) for cube in cubes]


@pytest.fixture(scope="module")
def joined(cubes: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three cubes: two were joined, the third was added."""
    place = tmp_path_factory.mktemp("joined") / "all.icechunk"
    join(cubes[:2], to=place, keep=["cloud", "sat"])
    join(cubes[2:3], to=place, mode="add")
    return place


def members(cubes: list[Path]) -> list[xr.Dataset]:
    """Open cubes one by one."""
    return [xr.open_zarr(cube) for cube in cubes]


def one_after_the_other(cubes: list[Path]) -> xr.Dataset:
    """Return the rows of cubes as one dataset, with all coordinates."""
    found: xr.Dataset = xr.concat(members(cubes), "time", data_vars="minimal", coords="minimal")
    return found


def check_same_arrays(found: xr.Dataset, expected: xr.Dataset) -> None:
    """Compare all arrays of a dataset with those of one that may have more: values, axes and attributes."""
    own = found.drop_vars(found.variables.keys() - expected.variables.keys())
    xr.testing.assert_identical(own.drop_attrs(deep=False), expected.drop_attrs(deep=False))


def together(cubes: list[Path], name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array of the cubes, one after the other."""
    return np.concatenate([each[name].values for each in members(cubes)])


def gathered(cube: Path, sources: Any) -> Path:
    """Gather 8 x 8 pixels of some images into shards of two rows."""
    layout = {"chunk": [1, 8, 8], "shard_rows": 2}
    request = {"sources": sources, "window": {"pixels": [0, 0, 8, 8]}, "output": {"layout": layout}}
    gather_undrawn(request, to=cube)
    return cube


@pytest.mark.long
def test_joined_cubes_have_the_rows_of_their_members(cubes: list[Path], joined: Path) -> None:
    """Rows that fill up a member's last shard are not seen. Axes and the place on the map are the same."""
    found, whole = open_joined(joined), one_after_the_other(cubes[:3])

    assert dict(found.sizes) == {"time": sum(ROWS), "y": 12, "x": 16}
    names = ("time", "href", "status", "valid_fraction", "cloud", "sat", "x", "y", "spatial_ref")
    assert set(found.coords) == {*names, "member"}
    others = whole.band_1.coords.keys() - names
    xr.testing.assert_identical(found.band_1.drop_vars("member"), whole.band_1.drop_vars(others))
    assert set(found.band_1.encoding["coordinates"].split()) == {*names, "member", "presence"} - AXES
    assert found.member.values.tolist() == [0] * 4 + [1] * 5 + [2] * 6
    own = members(cubes)[0].attrs
    on_map = {name: value for name, value in own.items() if name.startswith(("spatial:", "proj:"))}
    assert on_map.items() <= found.attrs.items()
    assert found.attrs["Conventions"] == "CF-1.11"
    assert found.attrs["pixel_gather_window"] == json.loads(own["pixel_gather"])["footprints"]["window"]


@pytest.mark.long
def test_one_pixel_and_some_rows_are_read_lazily(cubes: list[Path], joined: Path) -> None:
    """Any selection equals that of the members."""
    found = open_joined(joined).band_1

    np.testing.assert_array_equal(found[:, 3, 5].values, together(cubes[:3], "band_1")[:, 3, 5])
    np.testing.assert_array_equal(
        found[[10, 0, 5], 2:9].values, together(cubes[:3], "band_1")[[10, 0, 5], 2:9]
    )


def test_icechunk_and_zarr_read_it_without_pixel_gather(cubes: list[Path], joined: Path) -> None:
    """Padding has presence 0. Nothing but the authorisation has to be said."""
    import icechunk  # noqa: PLC0415 # an extra

    folder = f"file://{cubes[0].parent}/"
    repository = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(joined)),
        authorize_virtual_chunk_access={folder: icechunk.credentials.LocalFileSystemAccess},
    )
    group: Any = zarr.open_group(repository.readonly_session("main").store, path="group_1", mode="r")

    there = group["presence"][:] == 1

    assert there.tolist() == [True] * 9 + [False] * 3 + [True] * 6 + [False] * 2
    assert group["time"].chunks == (CHUNK_ROWS,)
    assert set(group.group_keys()) == {"members", "texts", "local_shards"}
    assert set(group["texts"].group_keys()) == {"sat"}
    assert group["texts/sat/texts"][:].tolist() == ["A", "B", "", "C"]
    digests = [json.loads((cube / "receipt.json").read_text())["digest"] for cube in cubes[:3]]
    assert group["members/digest"][:].tolist() == digests
    assert group["members/first_row"][:].tolist() == [0, 4, 12]
    np.testing.assert_array_equal(group["band_1"][:][there], together(cubes[:3], "band_1"))


@pytest.mark.parametrize("mode", ["new", "add", "copy"])
def test_no_cube_is_joined_into_its_own_folder(cubes: list[Path], mode: Any) -> None:
    """The cube would have files that no gather has written."""
    for to in (cubes[1] / "all.icechunk", cubes[1] / "red" / "all.icechunk"):
        with pytest.raises(RequestError, match=f"^to: {to} lies in the cube {cubes[1]}: choose"):
            join(cubes[:2], to=to, mode=mode)
        assert not to.exists()


@pytest.mark.long
def test_rows_of_several_scalings_keep_their_own(tmp_path: Path) -> None:
    """Without it, nobody knew what their pixels mean. Cubes of one scaling get none, and no other's group."""

    def scaled(name: str, *offsets: float) -> Path:
        hrefs = [
            write_image(tmp_path / f"{name}{n}.tif", np.full((8, 8), 7, "u2"), scaling=(0.5, offset))
            for n, offset in enumerate(offsets)
        ]
        return gathered(tmp_path / name, hrefs)

    raw, mixed, more = scaled("raw", 0, 0), scaled("mixed", 0, -1), scaled("more", 3, 2)
    join([raw, mixed], to=tmp_path / "all")
    join([more], to=tmp_path / "all", mode="add")
    own = open_joined(tmp_path / "all", group="group_2")

    assert own.add_offset.values.tolist() == [0, -1, 3, 2]
    assert own.scale_factor.values.tolist() == [0.5] * 4
    assert "add_offset" not in open_joined(tmp_path / "all", group="group_1")


@pytest.mark.long
def test_a_group_without_scalings_takes_no_rows_that_have_their_own(tmp_path: Path) -> None:
    """Such rows begin a group of their own, if nothing else differs."""
    plain, other, scaled = (
        write_image(tmp_path / f"{name}.tif", np.full((8, 8), 7, "u2"), scaling=scaling)
        for name, scaling in (("plain", None), ("other", None), ("scaled", (2, 5)))
    )
    for cube, hrefs in (("one", [plain, other]), ("two", [plain, scaled]), ("three", [scaled, plain])):
        gathered(tmp_path / cube, hrefs)
    join([tmp_path / "one"], to=tmp_path / "all")
    join([tmp_path / "two"], to=tmp_path / "all", mode="add")
    join([tmp_path / "one", tmp_path / "three"], to=tmp_path / "both")

    assert open_joined(tmp_path / "all", group="group_1").sizes["source"] == 2
    assert open_joined(tmp_path / "all", group="group_2").add_offset.values.tolist() == [0, 5]
    assert open_joined(tmp_path / "both").add_offset.values.tolist() == [0, 0, 5, 0]


@pytest.mark.parametrize("keep", ["cloud", 7])
def test_names_to_keep_are_a_list(cubes: list[Path], tmp_path: Path, keep: Any) -> None:
    """A text would be taken for a list of letters."""
    with pytest.raises(RequestError, match=f"keep: it is {keep!r}; write a list of texts"):
        join(cubes[:1], to=tmp_path / "one.icechunk", keep=keep)


def test_members_may_lie_in_the_home_of_the_user(
    own: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every other place may. In Python no shell writes out ``~/``."""
    monkeypatch.setenv("HOME", str(tmp_path))

    made = join([f"~/{own[0].name}", "~/t1*"], to="~/two.icechunk")

    assert made.n_members == 2
    read = [each / name for each in own[:2] for name in ("zarr.json", "rows.parquet")]
    assert made.fetched_nbytes == sum(each.stat().st_size for each in read)
    assert made.place == str(tmp_path / "two.icechunk")


@pytest.mark.long
def test_versions_are_opened_by_number_id_and_time(joined: Path) -> None:
    """The first version has the first two cubes."""
    second, first = joined_versions(joined)

    assert (first.number, second.number) == (1, 2)
    assert (first.message, second.message) == ("join 2 cubes", "add 1 cube")
    assert second.added == {"members": 1, "rows": 6}
    elsewhere = first.at.astimezone(timezone(timedelta(hours=5)))
    for version in (1, "1", first.id, first.at, first.at.isoformat(), elsewhere):
        assert open_joined(joined, version).sizes["time"] == 9
    for version in (datetime.now(UTC), f"{second.at:%Y-%m-%d}"):
        assert open_joined(joined, version).sizes["time"] == 15
    for version in (3, "x", first.at - timedelta(days=1)):
        with pytest.raises(RequestError, match=r"no version .* there are 1 to 2"):
            open_joined(joined, version)


@pytest.mark.long
def test_cubes_of_another_place_become_a_group_of_their_own(cubes: list[Path], tmp_path: Path) -> None:
    """All groups are one version. A further cube is added to the group that it fits."""
    found = join([cubes[0], cubes[3], cubes[1]], to=tmp_path / "all")
    join([cubes[2]], to=tmp_path / "all", mode="add")

    assert found.groups == ("group_1", "group_2")
    assert found.version == 1
    with pytest.raises(RequestError, match=r"group: cubes of several kinds .* name one of group_1, group_2"):
        open_joined(tmp_path / "all")
    first, second = (open_joined(tmp_path / "all", group=name) for name in found.groups)
    np.testing.assert_array_equal(first.band_1.values, together(cubes[:3], "band_1"))
    np.testing.assert_array_equal(second.band_1.values, together(cubes[3:], "band_1"))
    assert second.x.values[0] == first.x.values[0] + 16
    with pytest.raises(RequestError, match="no group 'c'; there are group_1, group_2"):
        open_joined(tmp_path / "all", group="c")


@pytest.mark.long
def test_cubes_of_any_place_can_share_an_array(cubes: list[Path], tmp_path: Path) -> None:
    """Such an array has no place on the map."""
    join(cubes[:3], to=tmp_path / "all", any_grid=True, keep=["transform"])
    found = join(cubes[3:], to=tmp_path / "all", mode="add")

    whole = open_joined(tmp_path / "all")

    assert found.groups == ("group_1",)
    np.testing.assert_array_equal(whole.band_1.values, together(cubes, "band_1"))
    np.testing.assert_array_equal(whole.transform.values, together(cubes, "transform"))
    assert {"x", "y", "spatial_ref"}.isdisjoint(whole.variables)
    assert "spatial:transform" not in whole.attrs
    assert "pixel_gather_window" not in whole.attrs
    assert "grid_mapping" not in whole.band_1.encoding

    join(cubes, to=tmp_path / "copy.zarr", mode="copy", any_grid=True)
    copy = xr.open_zarr(tmp_path / "copy.zarr")
    np.testing.assert_array_equal(copy.band_1.values[copy.presence.values == 1], together(cubes, "band_1"))
    assert {"x", "y", "spatial_ref"}.isdisjoint(copy.variables)
    assert "spatial:transform" not in copy.attrs


@pytest.mark.long
def test_rows_of_joined_cubes_are_found_by_any_coordinate(cubes: list[Path], joined: Path) -> None:
    """Those of the array, those of the members' tables, and the member itself."""
    whole = open_joined(joined)

    assert (
        rows_where(joined, "cloud > 10").tolist()
        == np.flatnonzero(together(cubes[:3], "cloud") > 10).tolist()
    )
    assert rows_where(joined, "sat == 'B' and time >= 2021-01-01").tolist() == [5, 7, 9, 11, 13]
    assert rows_where(joined, f"member == '{cubes[2]}'").tolist() == [9, 10, 11, 12, 13, 14]
    assert rows_where(joined, "cloud > 10", version=1).tolist() == [2, 3, 6, 7, 8]
    assert whole.isel(time=rows_where(joined, "sat == 'B'")).cloud.values.tolist() == [
        10,
        30,
        10,
        30,
        0,
        20,
        40,
    ]
    assert rows_where(joined, "sat in (B, C) and requests > 0").tolist() == [1, 3, 5, 7, *range(9, 15)]
    with pytest.raises(RequestError, match="where: the rows have no coordinate 'nosuch'"):
        rows_where(joined, "nosuch > 1")


@pytest.mark.long
def test_presence_has_positions_of_the_open_dataset(joined: Path, cubes: list[Path]) -> None:
    """The order of the names is that of the axes. A space after a comma does not matter."""
    found, turned = presence(joined, "month, member"), presence(joined, "member,month")

    np.testing.assert_array_equal(found.grid, turned.grid.T)
    assert found.labels[1].tolist() == [str(cube) for cube in cubes[:3]]
    whole = open_joined(joined)
    for place in np.argwhere(found.grid == 1):
        (row,) = found.rows(*place)
        assert whole.time.values[row].astype("datetime64[M]") == found.labels[0][place[0]]
        assert whole.member.values[row] == place[1]
    assert found.n_left_out == 0
    assert int(found.grid.sum()) == sum(ROWS)


def test_solar_days_are_those_of_the_suns_time(cubes: list[Path], joined: Path) -> None:
    """The window lies at 172 degrees west, where it is still the day before."""
    solar, utc = presence(joined, "solar-day"), presence(joined, "day")

    assert (solar.labels[0] == utc.labels[0] - np.timedelta64(1, "D")).all()
    np.testing.assert_array_equal(solar.grid, utc.grid)
    assert (presence(cubes[0], "solar-day").labels[0][0], presence(cubes[0], "day").labels[0][0]) == (
        np.datetime64("2019-12-31"),
        np.datetime64("2020-01-01"),
    )


def test_duckdb_reads_the_tables_of_the_members(joined: Path) -> None:
    """They are the joined rows with all their coordinates."""
    tables = [each.rows_table for each in joined_members(joined)]

    (counted,) = duckdb.execute("SELECT count(*), sum(cloud) FROM read_parquet(?)", [tables]).fetchall()

    assert counted == (sum(ROWS), open_joined(joined).cloud.values.sum())


def _no_table(cube: Path) -> None:
    (cube / "rows.parquet").unlink()


def _damaged_table(cube: Path) -> None:
    (cube / "rows.parquet").write_bytes(b"PAR1" + bytes(50) + b"PAR1")


def _change_root(cube: Path, change: Callable[[Any], None]) -> None:
    """Change the metadata of a cube."""
    content = json.loads((cube / "zarr.json").read_text())
    change(content)
    (cube / "zarr.json").write_text(json.dumps(content))


def _incomplete(cube: Path) -> None:
    _change_root(cube, lambda content: content["attributes"].update(complete=0))


def _no_gather(cube: Path) -> None:
    (cube / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')


def _grown(cube: Path) -> None:
    def grow(content: Any) -> None:
        content["consolidated_metadata"]["metadata"]["band_1"]["shape"][0] += 1

    _change_root(cube, grow)


def _changed_shard(cube: Path) -> None:
    shard = cube / "band_1/c/1/0/0"
    shard.write_bytes(shard.read_bytes())
    os.utime(shard, (1_000_000_000, 1_000_000_000))


def _lost_shard(cube: Path) -> None:
    (cube / "band_1/c/0/0/0").unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_no_table, "it has no rows.parquet, so it cannot be joined"),
        (_damaged_table, "its rows.parquet is damaged"),
        (_incomplete, "this cube is not complete: run its request again"),
        (_no_gather, "a Zarr that no gather made is there"),
        (_grown, "zarr.json and rows.parquet are of different versions"),
        (_changed_shard, "it has changed since it was finished, or it is a copy: band_1/c/1/0/0"),
        (_lost_shard, "it has changed: band_1/c/0/0/0 is missing"),
        (shutil.rmtree, "no cube is there"),
    ],
)
def test_a_cube_that_does_not_hold_is_refused_by_name(
    own: list[Path], tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    """The error says its path. Nothing is written."""
    change(own[1])

    with pytest.raises(StoreError, match=rf"^{own[1]}: .*{said}"):
        join(own[:3], to=tmp_path / "all")

    assert not (tmp_path / "all").exists()


@pytest.mark.long
@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("time", [1_000_000_000, 2_000_000_000])
def test_a_member_that_changes_later_is_named_when_it_is_read(
    own: list[Path], tmp_path: Path, time: int, *, is_added: bool
) -> None:
    """Older or younger files count as changed. Other members can still be read.

    Joining again takes the member as it is.
    """
    if is_added:
        join(own[:1], to=tmp_path / "all")
        join(own[1:2], to=tmp_path / "all", mode="add")
    else:
        join(own[:2], to=tmp_path / "all")
    shard = own[1] / "band_1/c/0/0/0"
    os.utime(shard, (time, time))

    found = open_joined(tmp_path / "all").band_1
    assert found[:4].values.shape == (4, 12, 16)
    with pytest.raises(StoreError, match=rf"{shard}: this shard has changed .* --replace"):
        found[4:5].load()
    first = own[0] / "band_1/c/0/0/0"
    os.utime(first, (time, time))
    with pytest.raises(StoreError, match=rf"{first}: this shard has changed"):
        open_joined(tmp_path / "all").band_1[:1].load()
    with pytest.raises(StoreError, match=r"t[01].zarr: it has changed"):
        join(own[:2], to=tmp_path / "all", mode="replace")
    join(own[:2], to=tmp_path / "all", mode="replace", list_shards=True)

    np.testing.assert_array_equal(open_joined(tmp_path / "all").band_1.values, together(own[:2], "band_1"))
    assert len(joined_versions(tmp_path / "all")) == 2 + is_added


@pytest.mark.long
def test_cubes_of_another_folder_are_added_to_an_empty_repository_and_to_a_full_one(
    cubes: list[Path], own: list[Path], tmp_path: Path
) -> None:
    """All folders may be read then. A join that was stopped before its first version leaves an empty one."""
    place = tmp_path / "all"
    Repository.create(f"file://{place}", str(place), StoreSettings(), folders=["file:///elsewhere/"])
    assert not Repository.is_used(f"file://{place}", str(place), StoreSettings())

    join(cubes[:1], to=place)
    join(own[1:2], to=place, mode="add")

    assert Repository.is_used(f"file://{place}", str(place), StoreSettings())
    np.testing.assert_array_equal(open_joined(place).band_1.values, together(cubes[:2], "band_1"))


@pytest.mark.long
def test_a_copy_counts_the_sources_of_all_versions_of_its_members(own: list[Path], tmp_path: Path) -> None:
    """A compaction reads none."""
    root = own[0] / "zarr.json"
    content = json.loads(root.read_text())
    gather = json.loads(content["attributes"]["pixel_gather"])
    (first,) = gather["versions"]
    second = first | {"number": 2, "kind": "append", "n_sources": 3, "n_failed": 2}
    gather["versions"] += [second, second | {"number": 3, "kind": "compact"}]
    content["attributes"]["pixel_gather"] = json.dumps(gather)
    root.write_text(json.dumps(content))

    join(own[:2], to=tmp_path / "copy.zarr", mode="copy")

    (version,) = versions(tmp_path / "copy.zarr")
    assert (version.n_rows, version.n_sources, version.n_failed, version.n_skipped) == (9, 4 + 3 + 5, 2, 0)


@pytest.mark.long
def test_cubes_of_several_bands_keep_them_all(tmp_path: Path) -> None:
    """A row of theirs has a file for each band. Both ways of joining tell the names of the bands.

    Cubes without times may be added: they become a group of their own.
    """
    for cube in "ab":
        rows = [
            {
                "href": write_image(tmp_path / f"{cube}{n}{band}.tif", np.full((8, 8), n, "u2")),
                "scene": n,
                "band": band,
                "time": f"202{n}-01-01",
            }
            for n in range(2)
            for band in ("red", "nir")
        ]
        gathered(tmp_path / f"{cube}.zarr", {"rows": rows})
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    join(places, to=tmp_path / "all")
    join(places, to=tmp_path / "copy.zarr", mode="copy")

    copy, found = xr.open_zarr(tmp_path / "copy.zarr"), open_joined(tmp_path / "all")
    check_same_arrays(copy, one_after_the_other(places))
    check_same_arrays(copy, found)
    assert found.measurement.values.tolist() == ["red", "nir"]

    plain = gathered(tmp_path / "plain.zarr", [str(tmp_path / "a0red.tif")])
    join([plain], to=tmp_path / "all", mode="add")
    assert "time" not in open_joined(tmp_path / "all", group="group_2").variables


@pytest.mark.long
def test_a_join_resumes_after_a_kill_while_its_repository_was_created(
    cubes: list[Path], tmp_path: Path
) -> None:
    """Icechunk puts the parts of an empty repository one after another. Other files are not touched."""
    join(cubes[:1], to=tmp_path / "whole")
    for parts in (("snapshots",), ("snapshots", "transactions")):
        place = tmp_path / parts[-1]
        for part in parts:
            (place / part).mkdir(parents=True)
            shutil.copy(tmp_path / "whole" / part / _ROOT_ID, place / part)
        assert join(cubes[:1], to=place).version == 1
        np.testing.assert_array_equal(open_joined(place).band_1.values, together(cubes[:1], "band_1"))

    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(ArrayExistsError, match="it is not empty"):
        join(cubes[:1], to=tmp_path / "foreign")
    assert [each.name for each in (tmp_path / "foreign").iterdir()] == ["notes.txt"]


@pytest.mark.long
@pytest.mark.parametrize("is_added", [False, True])
def test_cubes_of_another_kind_may_lack_a_kept_column(
    cubes: list[Path], tmp_path: Path, *, is_added: bool
) -> None:
    """Before, no cube could be joined: the message said that no member had the column."""
    request = {"sources": [str(FILES[0])], "window": {"pixels": [0, 0, 5, 5]}}
    gather_undrawn(request, to=tmp_path / "bare.zarr")
    others = [tmp_path / "bare.zarr"]

    join(cubes[:1] if is_added else [*cubes[:1], *others], to=tmp_path / "all", keep=["cloud"])
    if is_added:
        join(others, to=tmp_path / "all", mode="add")

    one, other = (open_joined(tmp_path / "all", group=f"group_{number}") for number in (1, 2))
    assert one.cloud.values[:2].tolist() == [0, 10]
    assert "cloud" not in other.variables


def test_a_cube_that_is_added_may_lack_kept_columns(cubes: list[Path], tmp_path: Path) -> None:
    """Its rows have no value there, as if all cubes were joined at once."""
    bare = tmp_path / "bare.zarr"
    gather_member(bare, n_rows=3, year=2023, folder=tmp_path, lacks=("cloud", "sat"))
    join([cubes[0], bare], to=tmp_path / "at_once", keep=["cloud", "sat"])
    join(cubes[:1], to=tmp_path / "added", keep=["cloud", "sat"])

    join([bare], to=tmp_path / "added", mode="add")

    added, at_once = open_joined(tmp_path / "added"), open_joined(tmp_path / "at_once")
    xr.testing.assert_identical(added.cloud, at_once.cloud)
    assert added.sat.values.tolist() == [*"ABAB", "", "", ""]
    assert np.isnan(added.cloud.values[4:]).all()


def test_wrong_wishes_are_refused(cubes: list[Path], joined: Path, tmp_path: Path) -> None:
    """Each message says what to do. Nothing is changed."""
    with pytest.raises(ArrayExistsError, match=r"mode add \(--add\) adds to them, mode replace \(--rep"):
        join(cubes[:1], to=joined)
    with pytest.raises(RequestError, match=rf"^cubes: {cubes[0]} is joined there already"):
        join(cubes[:1], to=joined, mode="add")
    with pytest.raises(RequestError, match="add: cubes are added as the first ones"):
        join(cubes[3:], to=joined, mode="add", keep=["sat"])
    with pytest.raises(RequestError, match=r"leave out any_grid and keep \(--any-grid, --keep\), or join"):
        join(cubes[3:], to=joined, mode="add", any_grid=True)
    with pytest.raises(StoreError, match=r"zarr\.json: no cube is there; name the folder"):
        join([cubes[0] / "zarr.json"], to=tmp_path / "all")
    with pytest.raises(RequestError, match="named twice"):
        join([cubes[0], cubes[0]], to=tmp_path / "all")
    with pytest.raises(RequestError, match="names nothing"):
        join([tmp_path / "*.zarr"], to=tmp_path / "all")
    with pytest.raises(RequestError, match="keep: no member's rows have a column 'nosuch'"):
        join(cubes[:1], to=tmp_path / "new", keep=["nosuch"])
    assert not (tmp_path / "new").exists()
    assert join(cubes[:1], to=tmp_path / "new").version == 1
    with pytest.raises(StoreError, match="no joined cubes are there"):
        join(cubes[:1], to=tmp_path / "none", mode="add")
    with pytest.raises(StoreError, match="no joined cubes are there"):
        open_joined(cubes[0])
    with pytest.raises(RequestError, match="group: it is for joined cubes"):
        rows_where(cubes[0], "cloud > 1", group="group_1")
    assert joined_versions(joined)[0].number == 2


@pytest.mark.long
def test_copies_make_a_plain_cube(cubes: list[Path], tmp_path: Path) -> None:
    """It needs neither the members nor icechunk. Padding has presence 0 and the status of no row."""
    found = join(cubes[:3], to=tmp_path / "copy.zarr", mode="copy")
    copy = xr.open_zarr(tmp_path / "copy.zarr")
    there = copy.presence.values == 1

    assert found.version is None
    assert there.tolist() == [True] * 9 + [False] * 3 + [True] * 6
    for name in ("band_1", "href", "cloud", "sat", "mean", "transform", "time"):
        np.testing.assert_array_equal(copy[name].values[there], together(cubes[:3], name), err_msg=name)
    assert copy.status.values[~there].tolist() == [255] * 3
    assert np.isnat(copy.time.values[~there]).all()
    assert rows_where(tmp_path / "copy.zarr", "sat == 'B'").tolist() == [1, 3, 5, 7, 12, 14, 16]
    assert rows_where(tmp_path / "copy.zarr", "cloud < 10").tolist() == [0, 4, 12]  # padding has 0
    assert presence(tmp_path / "copy.zarr", "sat").n_left_out == 3
    with pytest.raises(ArrayExistsError, match="a cube is there"):
        join(cubes[:3], to=tmp_path / "copy.zarr", mode="copy")


def test_a_copy_goes_on_only_with_the_same_members_and_grid(
    cubes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a copy for any grid went on with one that has x and y, and left these in it."""
    copy = tmp_path / "copy.zarr"

    async def stopped(*_given: object, **_more: object) -> None:
        raise StoreError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(copied_cube, "_copy_shards", stopped)
        with pytest.raises(StoreError, match="stopped"):
            join(cubes[:2], to=copy, mode="copy")
    for members, any_grid in ((cubes[:2], True), (cubes[1::-1], False), (cubes[:3], False)):
        with pytest.raises(ArrayExistsError, match="a cube is there: choose another place"):
            join(members, to=copy, mode="copy", any_grid=any_grid)

    assert join(cubes[:2], to=copy, mode="copy").n_rows == sum(ROWS[:2])


@pytest.mark.parametrize("content", ["{", "[]", '{"zarr_format": 3, "node_type": "array"}', "[" * 200_000])
def test_a_copy_replaces_nothing_else(cubes: list[Path], tmp_path: Path, content: str) -> None:
    """Whatever a program has written there, damaged or not."""
    (tmp_path / "zarr.json").write_text(content)

    with pytest.raises(ArrayExistsError, match="a cube is there: choose another place"):
        join(cubes[:1], to=tmp_path, mode="copy")

    assert [each.name for each in tmp_path.iterdir()] == ["zarr.json"]


@pytest.mark.long
def test_copies_of_whole_shards_need_no_padding(cubes: list[Path], tmp_path: Path) -> None:
    """Only the last cube may have a shard that is not full."""
    join([cubes[0], cubes[1]], to=tmp_path / "copy.zarr", mode="copy")

    copy = xr.open_zarr(tmp_path / "copy.zarr")

    assert "presence" not in copy
    check_same_arrays(copy, one_after_the_other(cubes[:2]))
    beside = set(members(cubes)[0].band_1.encoding["coordinates"].split())
    assert (
        beside | {"member"} <= set(copy.band_1.encoding["coordinates"].split()) == copy.coords.keys() - AXES
    )
    assert copy.attrs["spatial:transform"] == members(cubes)[0].attrs["spatial:transform"]


@pytest.mark.parametrize("own", [{"values": "scaled"}, {"reduce": {"by": "month", "statistic": "mean"}}])
def test_a_copy_keeps_what_its_rows_are(tmp_path: Path, own: dict[str, Any]) -> None:
    """So it makes one array with its like, as its members do."""
    sources = {"rows": [{"href": str(FILES[0]), "time": "2020-01-01"}]}
    cube, copy = tmp_path / "cube.zarr", tmp_path / "copy.zarr"
    gather_undrawn({"sources": sources, "window": {"pixels": [0, 0, 16, 12]}} | own, to=cube)

    join([cube], to=copy, mode="copy")

    assert join([cube, copy], to=tmp_path / "all").groups == ("group_1",)


def test_shards_are_copied_where_the_disk_cannot_link(
    cubes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place may lie on another disk."""

    def refuse(_source: Path, _target: Path) -> None:
        raise OSError(EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)

    join(cubes[:1], to=tmp_path / "copy.zarr", mode="copy")

    assert verify(tmp_path / "copy.zarr").is_same


def test_a_shard_that_changes_while_it_is_copied_is_named(
    own: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is not complete then."""
    shard = own[1] / "band_1/c/1/0/0"
    link = os.link

    def replace_and_link(source: Path, target: Path) -> None:
        if Path(source) == shard:
            content = shard.read_bytes()
            shard.unlink()
            shard.write_bytes(content + b" ")
        link(source, target)

    monkeypatch.setattr(os, "link", replace_and_link)

    with pytest.raises(StoreError, match=r"t1\.zarr: it has changed .*: band_1/c/1/0/0"):
        join(own[:3], to=tmp_path / "copy.zarr", mode="copy")

    assert not zarr.open_group(tmp_path / "copy.zarr", mode="r").attrs["complete"]


@pytest.mark.long
def test_a_copy_is_verified_and_joined_like_any_cube(cubes: list[Path], tmp_path: Path) -> None:
    """It has a table of its rows and a receipt. Joins and digests leave out its padding."""
    copy, more = tmp_path / "copy.zarr", tmp_path / "more.zarr"
    join(cubes[:3], to=copy, mode="copy")
    join([copy, cubes[0]], to=more, mode="copy")
    found = join([copy, cubes[0]], to=tmp_path / "all")
    whole = open_joined(tmp_path / "all")

    for each, n_shards in ((copy, 5), (more, 6)):
        verified = verify(each)
        assert (verified.differences, verified.n_compared, verified.n_files) == ((), n_shards, 1)
    assert found.n_rows == sum(ROWS) + ROWS[0]
    for name in ("band_1", "href", "status"):
        np.testing.assert_array_equal(
            whole[name].values, together([*cubes[:3], cubes[0]], name), err_msg=name
        )
    assert xr.open_zarr(more).presence.values.tolist() == [*[1] * 9, *[0] * 3, *[1] * 6, *[0] * 2, *[1] * 4]
    in_both = rows_where(tmp_path / "all", "mean > -1e9 and sat == 'A'")  # `mean` is in the tables alone
    assert in_both.tolist() == [0, 2, 4, 6, 8, 15, 17]
    by_member = presence(tmp_path / "all", "member")
    second = by_member.labels[0].tolist().index(str(cubes[0]))
    assert by_member.rows(second).tolist() == [15, 16, 17, 18]


@pytest.mark.long
def test_verify_names_what_differs_in_a_copy(own: list[Path], tmp_path: Path) -> None:
    """Other pixels in a shard with padding, another table, another record of all pixels."""
    copy = tmp_path / "copy.zarr"
    join(own[:3], to=copy, mode="copy")
    array: Any = zarr.open_array(copy / "band_1", mode="r+")
    array[9:12] = 7  # padding, which does not count
    assert verify(copy).is_same
    with (copy / "rows.parquet").open("ab") as table:
        table.write(b" ")
    assert [each.split(" ")[0] for each in verify(copy).differences] == ["rows.parquet"]
    array[8] = 7
    root = copy / "zarr.json"
    root.write_text(root.read_text().replace(r"\"pixels\": \"", r"\"pixels\": \"0"))

    differences = verify(copy).differences

    assert [each.split(" ")[0] for each in differences] == ["the", "band_1/c/2/0/0", "rows.parquet"]
    assert differences[0] == "the report in zarr.json has another digest of all pixels"
    assert differences[1] == "band_1/c/2/0/0 has other pixels than the receipt says"


def test_duckdb_reads_the_table_of_a_copy(
    cubes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all columns of the members' tables, however many of its rows are written at a time."""
    monkeypatch.setattr(copied_cube, "CHUNK_ROWS", 8)
    join(cubes[:3], to=tmp_path / "copy.zarr", mode="copy")
    table = str(tmp_path / "copy.zarr/rows.parquet")

    counted = duckdb.execute(
        "SELECT sat, count(*) FROM read_parquet(?) WHERE presence = 1 GROUP BY sat ORDER BY sat",
        [table],
    ).fetchall()

    assert counted == [("A", 5), ("B", 7), ("C", 3)]


def test_a_copy_is_neither_replayed_nor_appended_to(cubes: list[Path], tmp_path: Path) -> None:
    """The messages say what to do."""
    join(cubes[:2], to=tmp_path / "copy.zarr", mode="copy")

    with pytest.raises(RequestError, match=r"is a copy of joined cubes.*replay its members"):
        replay(tmp_path / "copy.zarr")
    request = {"sources": [str(FILES[0])], "window": {"pixels": [0, 0, 16, 12]}}
    with pytest.raises(RequestError, match=r"output.append_to: .*append to its members"):
        gather_undrawn(request | {"output": {"append_to": str(tmp_path / "copy.zarr")}})
    (version,) = versions(tmp_path / "copy.zarr")
    assert (version.kind, version.n_rows, version.n_sources) == ("copy", 9, 9)
    assert open_cube(tmp_path / "copy.zarr", version=1).sizes["time"] == 9


@pytest.mark.parametrize("change", [{"digest": "0" * 32}, {"shape": [3, 12, 16]}])
def test_a_member_with_another_receipt_is_not_copied(
    own: list[Path], tmp_path: Path, change: dict[str, Any]
) -> None:
    """A copy would say that its pixels are others."""
    receipt = own[0] / "receipt.json"
    receipt.write_text(json.dumps(with_checksum(json.loads(receipt.read_text()) | change)))

    with pytest.raises(StoreError, match=r"t0.zarr: it has changed since its receipt.json was written"):
        join(own[:2], to=tmp_path / "copy.zarr", mode="copy")


def test_a_copy_is_one_array(cubes: list[Path], tmp_path: Path) -> None:
    """Cubes of several kinds are refused, and the difference is named."""
    with pytest.raises(RequestError, match=r"other.zarr has another grid than .*t0.zarr"):
        join(cubes, to=tmp_path / "copy.zarr", mode="copy")
    with pytest.raises(RequestError, match="keep: it is not for copies"):
        join(cubes[:1], to=tmp_path / "copy.zarr", mode="copy", keep=["sat"])
    with pytest.raises(RequestError, match="mode: it is 'move'; write new, add, replace or copy"):
        join(cubes[:1], to=tmp_path / "copy.zarr", mode="move")  # type: ignore[arg-type]
    assert not (tmp_path / "copy.zarr").exists()


@pytest.mark.long
def test_a_copy_that_was_stopped_is_continued(own: list[Path], tmp_path: Path) -> None:
    """A cube without its last object says that it is not complete. Its members have to be the same still."""
    cubes = own
    join(cubes[:2], to=tmp_path / "copy.zarr", mode="copy")
    root = tmp_path / "copy.zarr/zarr.json"
    _incomplete(root.parent)
    (tmp_path / "copy.zarr/band_1/c/0/0/0").unlink()

    with pytest.raises(ArrayExistsError):
        join(cubes[:3], to=tmp_path / "copy.zarr", mode="copy")
    join(cubes[:2], to=tmp_path / "copy.zarr", mode="copy")

    np.testing.assert_array_equal(xr.open_zarr(root.parent).band_1.values, together(cubes[:2], "band_1"))
    _incomplete(root.parent)
    os.utime(cubes[0] / "zarr.json")
    with pytest.raises(ArrayExistsError):
        join(cubes[:2], to=tmp_path / "copy.zarr", mode="copy")


def test_the_command_versions_lists_what_was_joined(joined: Path) -> None:
    """The first version first, as of cubes."""
    shown = CliRunner().invoke(command, ["versions", str(joined)], catch_exceptions=False)
    told = CliRunner().invoke(command, ["versions", str(joined), "--json"], catch_exceptions=False)

    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["version", "1", "2"]
    assert "+9  join 2 cubes" in shown.stdout
    assert [each["added"]["members"] for each in json.loads(told.stdout)] == [2, 1]


@pytest.mark.long
def test_the_command_joins_and_says_what_it_read(cubes: list[Path], tmp_path: Path) -> None:
    """Patterns are cubes in the order of their names."""
    pattern, to = str(cubes[0].parent / "t*.zarr"), str(tmp_path / "all")

    ended = CliRunner().invoke(command, ["join", pattern, "--to", to], catch_exceptions=False)
    shown = CliRunner().invoke(command, ["presence", to, "--by", "member"], catch_exceptions=False)

    assert ended.stdout.startswith(
        f"3 cubes with 15 rows joined in {to}: 5 shards, 6 requests to the cubes, "
    )
    assert ended.stdout.endswith("no pixel; version 1\n")
    assert shown.stdout.splitlines() == [f"{cube} 1" for cube in cubes[:3]]
