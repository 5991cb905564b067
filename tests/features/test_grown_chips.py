"""Chips that are added to a cube of chips."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from features.test_chips import (
    CRS,
    N_CHIPS,
    NORTH,
    SIZE,
    WEST,
    by_rasterio,
    chips_at,
    image,
    listed,
    raw,
    three_images,
)
from pixel_gather import (
    Gathered,
    Settings,
    compact,
    gather,
    open_chips,
    open_cube,
    retry_failed,
    verify,
    versions,
)
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.results import row_coordinates
from pixel_gather.features.gather.gathered import what_was_added
from pixel_gather.features.rows.rows import rows_where
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import read_failed
from support.command_line import run

COLUMNS = {"href": ["red", "clouds"], "etag": ["", "now"]}
FOUR_IN_A_TASK = Settings(draws_report=False, max_task_nbytes=4 * 3 * 24 * 40 * 2 * 2)


def tables(folder: Path, *stops: int) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """Write tables with the first chips, up to each number. Return them and all points."""
    whole, points = chips_at(folder)
    lines = Path(whole).read_text(encoding="utf-8").splitlines()
    for stop in stops:
        (folder / f"chips{stop}.csv").write_text("\n".join(lines[: stop + 1]), encoding="utf-8")
    return [str(folder / f"chips{stop}.csv") for stop in stops], points


def grown(sources: Any, table: str, place: Path, **request: Any) -> Gathered:
    """Add the chips of a table to a cube."""
    windows = {"table": table, "size": SIZE}
    request = {"sources": sources, "windows": windows, "output": {"append_to": str(place)}, **request}
    return gather(request, settings=FOUR_IN_A_TASK)


def first(sources: Any, table: str, place: Path) -> Gathered:
    """Gather the chips of a table as a new cube."""
    request = {"sources": sources, "windows": {"table": table, "size": SIZE}}
    return gather(request, to=place, settings=FOUR_IN_A_TASK)


def test_chips_are_added_to_a_cube(tmp_path: Path) -> None:
    """Each chip is that of rasterio and has its columns, and the former version is as it was."""
    files = three_images(tmp_path)
    sources = listed(tmp_path, files)
    (few, most, every), points = tables(tmp_path, 6, 9, N_CHIPS)
    first(sources, few, tmp_path / "cube")
    before = open_cube(tmp_path / "cube").load()
    grown(sources, most, tmp_path / "cube")
    done = grown(sources, every, tmp_path / "cube")
    whole = raw(first(sources, every, tmp_path / "whole"))
    cube = raw(done)

    assert done.n_appended == 2 * 3
    assert what_was_added(done) == (2, "chip")
    assert dict(cube.sizes) == dict(whole.sizes)
    assert sorted(cube["chip"].values.tolist()) == sorted(points)
    for name, (lon, lat) in points.items():
        one, other = cube.sel(chip=name), whole.sel(chip=name)
        for at, file in enumerate(files.values()):
            np.testing.assert_array_equal(
                np.stack([one["band_1"][at], one["band_2"][at]]), by_rasterio(file, lon, lat)
            )
        for same in ("status", "lon", "lat", "label", "weight", "transform", "crs", "valid_fraction", "href"):
            np.testing.assert_array_equal(one[same], other[same], err_msg=same)
    assert [each.n_rows for each in versions(tmp_path / "cube")] == [6 * 3, 9 * 3, N_CHIPS * 3]
    xr.testing.assert_identical(open_cube(tmp_path / "cube", version=1).load(), before)
    assert verify(tmp_path / "cube").is_same
    assert sum(done.report.status_counts.values()) == N_CHIPS * 3
    assert rows_where(tmp_path / "cube", "label=a").size == 3 * (N_CHIPS + 1) // 2
    chips = open_chips(tmp_path / "cube")
    read = {str(chip["chip"]): chip["pixels"] for chip in map(chips.__getitem__, range(len(chips)))}
    for name in points:
        np.testing.assert_array_equal(read[name][0], cube.sel(chip=name)["band_1"])


def test_chips_that_the_cube_has_are_left_out(tmp_path: Path) -> None:
    """The same table again adds nothing. It may be refused instead."""
    sources = listed(tmp_path, three_images(tmp_path))
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    first(sources, few, tmp_path / "cube")
    again = grown(sources, few, tmp_path / "cube")

    assert again.was_complete
    assert len(versions(tmp_path / "cube")) == 1
    with pytest.raises(RequestError, match="duplicates: the cube already has 6 chips of this table"):
        grown(sources, every, tmp_path / "cube", duplicates="fail")
    with pytest.raises(RequestError, match="duplicates: the cube has each chip once"):
        grown(sources, every, tmp_path / "cube", duplicates="again")


@pytest.mark.long
def test_chips_without_ids_get_the_next_numbers(tmp_path: Path) -> None:
    """A chip at the place of one that is there is that one."""
    sources = listed(tmp_path, three_images(tmp_path))
    (few, every), points = tables(tmp_path, 6, N_CHIPS)
    for table in (few, every):
        lines = [line.partition(",")[2] for line in Path(table).read_text(encoding="utf-8").splitlines()]
        Path(table).write_text("\n".join(lines), encoding="utf-8")
    first(sources, few, tmp_path / "cube")
    cube = raw(grown(sources, every, tmp_path / "cube"))

    assert sorted(cube["chip"].values.tolist()) == list(range(1, N_CHIPS + 1))
    places = zip(cube["lon"].values.tolist(), cube["lat"].values.tolist(), strict=True)
    assert sorted(places) == sorted(points.values())


@pytest.mark.long
def test_a_grown_cube_is_that_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--append-to`` with ``--windows`` adds chips. ``plan`` says what is added."""
    sources = listed(tmp_path, three_images(tmp_path))
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    options = ("--sources", sources, "--size", "40,24", "--no-report")
    assert run("run", *options, "--windows", few, "--to", tmp_path / "cube") == 0
    capsys.readouterr()

    assert run("plan", *options, "--windows", every, "--append-to", tmp_path / "cube") == 0
    assert "11 x 3 x 24 x 40 (chip, time, y, x), 5 new chips, " in capsys.readouterr().out
    assert run("run", *options, "--windows", every, "--append-to", tmp_path / "cube") == 0
    assert f"{tmp_path / 'cube'} has 5 chips more\n" in capsys.readouterr().out
    assert run("versions", tmp_path / "cube") == 0
    assert capsys.readouterr().err == "each chip has 3 rows, one for each image\n"
    assert open_cube(tmp_path / "cube").sizes["chip"] == N_CHIPS
    capsys.readouterr()
    for name in ("plan", "run"):
        assert run(name, *options, "--windows", few, "--append-to", tmp_path / "cube") == 0
        said = capsys.readouterr().out.splitlines()[0]
        assert said.endswith("cube has all of these chips already: nothing to append")


@pytest.mark.long
def test_what_cannot_be_added_is_refused(tmp_path: Path) -> None:
    """Other images, other places of an id, other columns, and one window: each in its words."""
    files = three_images(tmp_path)
    sources = listed(tmp_path, files)
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    cube = tmp_path / "cube"
    first(sources, few, cube)

    def refused(match: str, *, changed: Any = sources, table: str = every, **request: Any) -> None:
        with pytest.raises(RequestError, match=match):
            grown(changed, table, cube, **request)

    some = dict(list(files.items())[:2])
    refused("sources: the cube has 3 images, and the list 2. Only chips", changed=listed(tmp_path, some))
    later = {**some, "2024-05-01": files["2024-03-01"], "2024-06-01": files["2024-01-01"]}
    refused(
        "Only chips of the same images can be added: give the list of the first gather",
        changed=listed(tmp_path, later),
    )
    sources = listed(tmp_path, files)
    table = Path(every).read_text(encoding="utf-8")
    header, line, *_ = table.splitlines()
    name, lon, lat, *labels = line.split(",")
    moved = tmp_path / "moved.csv"
    moved.write_text("\n".join([header, ",".join([name, lon, str(float(lat) + 1e-3), *labels])]))
    refused("windows.table: the cube has chip c0 at longitude", table=str(moved))
    moved.write_text("id,lon,lat\nnew,11.3,46.5")
    refused(r"chips of the cube have the columns label \(string\), weight \(int64\)", table=str(moved))
    moved.write_text("id,lon,lat\n7,11.3,46.5")
    refused(
        "ids of chips are string in the cube, and int64 in this table: call the column of ids id",
        table=str(moved),
    )
    smaller = "windows.size: the cube has chips of 40 x 24 pixels; the new ones would have 20 x 24"
    for any_table in (few, every):  # also one whose chips are all in the cube
        refused(smaller, windows={"table": any_table, "size": [20, 24]})
    assert len(versions(cube)) == 1


@pytest.mark.long
def test_a_stopped_append_of_chips_goes_on(tmp_path: Path) -> None:
    """The next call reads what the first one has not written. The cube is as if nothing had happened."""
    sources = listed(tmp_path, three_images(tmp_path))
    (few, every), _ = tables(tmp_path, 2, N_CHIPS)
    first(sources, few, tmp_path / "cube")
    first(sources, few, tmp_path / "other")

    class Stopped(Exception):  # noqa: N818 # no error
        pass

    def stop(progress: Any) -> None:
        if progress.n_done > 14:
            raise Stopped

    windows = {"table": every, "size": SIZE}
    request = {"sources": sources, "windows": windows, "output": {"append_to": str(tmp_path / "cube")}}
    with pytest.raises(BaseException):  # noqa: B017, PT011 # perhaps in a group
        gather(request, settings=FOUR_IN_A_TASK, on_progress=stop)
    done = grown(sources, every, tmp_path / "cube")

    assert len(versions(tmp_path / "cube")) == 2
    assert done.report.digest == grown(sources, every, tmp_path / "other").report.digest
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
def test_many_chips_are_added_to_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinates keep the chunks of the first gather, however many rows are written together."""
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 256)
    sources = listed(tmp_path, three_images(tmp_path))
    points = [f"{n},{11.3 + n * 1e-6!r},46.5,{n % 5}" for n in range(120)]
    for name, lines in (("few", points[:7]), ("every", points)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,lon,lat,label", *lines]))
    request = {"sources": sources, "windows": {"table": str(tmp_path / "few.csv"), "size": [2, 2]}}
    gather(request, to=tmp_path / "cube", settings=Settings(draws_report=False))
    more = {"table": str(tmp_path / "every.csv"), "size": [2, 2]}
    done = gather(
        {"sources": sources, "windows": more, "output": {"append_to": str(tmp_path / "cube")}},
        settings=Settings(draws_report=False),
    )
    cube = raw(done).sortby("chip")

    assert cube["chip"].values.tolist() == list(range(120))
    assert cube["label"].values.tolist() == [n % 5 for n in range(120)]
    np.testing.assert_allclose(cube["lon"].values, 11.3 + np.arange(120) * 1e-6, rtol=0, atol=1e-9)
    assert not np.isnan(cube["transform"].values[:, :2]).any()


def hide(file: Path) -> Path:
    """Take a file away. Return where it is now."""
    return file.rename(file.with_suffix(".hidden"))


def check_same(cube: Path, whole: Path) -> None:
    """Check that a cube has the pixels of another one, and what is told of its sources."""
    one, other = (xr.open_zarr(each, mask_and_scale=False, decode_times=False) for each in (cube, whole))
    assert one["chip"].values.tolist() == other["chip"].values.tolist()
    for same in ("band_1", "band_2", "status", "transform", "crs", "etag", "max", "valid_fraction"):
        np.testing.assert_array_equal(one[same], other[same], err_msg=same)
    assert verify(cube).is_same


@pytest.mark.long
def test_failed_chips_are_tried_again_by_an_append(tmp_path: Path) -> None:
    """Chips of an image that was missing get its pixels, beside new chips. Other images are not opened."""
    files = three_images(tmp_path)
    sources = listed(tmp_path, files)
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    hidden = hide(files["2024-02-01"])
    first(sources, few, tmp_path / "cube")
    before = raw(first(sources, few, tmp_path / "other"))
    assert (before["status"].isel(time=1) == Status.MISSING).all()
    hidden.rename(files["2024-02-01"])
    done = grown(sources, every, tmp_path / "cube")

    grown(sources, every, tmp_path / "other", failed_rows="keep")
    assert (done.n_appended, done.n_retried, done.n_recovered) == (5 * 3, 6, 6)
    assert done.report.n_failed == 0
    assert (raw(done)["status"] != Status.MISSING).all()
    retried = retry_failed(tmp_path / "other", settings=FOUR_IN_A_TASK)
    assert retried is not None
    assert (retried.n_appended, retried.n_retried, retried.n_recovered) == (0, 6, 6)
    check_same(tmp_path / "other", tmp_path / "cube")
    cube, (_, points) = raw(done), tables(tmp_path)
    for name, (lon, lat) in points.items():
        cell = cube.sel(chip=name).isel(time=1)
        expected = by_rasterio(files["2024-02-01"], lon, lat)
        np.testing.assert_array_equal(np.stack([cell["band_1"], cell["band_2"]]), expected)
    assert [each.kind for each in versions(tmp_path / "other")] == ["gather", "append", "retry"]
    assert dict(open_cube(tmp_path / "cube", version=1).sizes)["chip"] == 6


@pytest.mark.long
def test_failed_chips_are_tried_again_without_their_table(tmp_path: Path) -> None:
    """The cube knows each middle to the last bit: here they lie on corners of pixels, in the images' CRS."""
    files = {"2024-01-01": image(tmp_path / "a.tif", seed=1), "2024-02-01": image(tmp_path / "b.tif", seed=2)}
    table = tmp_path / "corners.csv"
    points = [f"{n},{WEST + 10 * n},{NORTH - 10 * n},{'ab'[n % 2]}" for n in range(3, 190, 11)]
    table.write_text("\n".join(["id,x,y,label", *points]))
    request = {
        "sources": listed(tmp_path, files),
        "windows": {"table": str(table), "size": [10, 10], "crs": CRS},
    }
    gather(request, to=tmp_path / "whole", settings=FOUR_IN_A_TASK)
    hidden = hide(files["2024-02-01"])
    gather(request, to=tmp_path / "cube", settings=FOUR_IN_A_TASK)
    table.unlink()
    assert retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK) is not None
    hidden.rename(files["2024-02-01"])

    done = retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK)

    assert done is not None
    assert done.report.n_failed == 0
    check_same(tmp_path / "cube", tmp_path / "whole")
    assert retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK) is None


@pytest.mark.long
def test_chips_of_an_earlier_version_are_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their middles are known in degrees alone. Chips that are added later can be tried again."""
    files = three_images(tmp_path)
    sources = listed(tmp_path, files)
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    hidden = hide(files["2024-02-01"])
    with monkeypatch.context() as earlier:
        earlier.setattr(row_coordinates, "_exact_middles", lambda _: {})
        first(sources, few, tmp_path / "cube")
    grown(sources, every, tmp_path / "cube")
    hidden.rename(files["2024-02-01"])
    done = retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK)

    assert done is not None
    assert (done.n_retried, done.n_recovered) == (5, 5)
    status = raw(done)["status"].isel(time=1).values
    assert (status[:6] == Status.MISSING).all()
    assert (status[6:] != Status.MISSING).all()
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
@pytest.mark.parametrize("which", ["the mask", "what it hides"])
def test_chips_are_tried_again_with_their_mask(tmp_path: Path, which: str) -> None:
    """Either may have been missing. The other one is read beside it, and nothing of it is stored anew."""
    red, later = (image(tmp_path / f"{name}.tif", seed=at) for at, name in enumerate("ab"))
    clouds, missing = (image(tmp_path / f"clouds-{name}.tif", seed=5 + at) for at, name in enumerate("ab"))
    lines = [f"{red},2024-01-01,red", f"{clouds},2024-01-01,clouds"]
    lines += [f"{later},2024-02-01,red", f"{missing},2024-02-01,clouds"]
    (tmp_path / "l.csv").write_text("\n".join(["href,time,band", *lines]), encoding="utf-8")
    request = {
        "sources": str(tmp_path / "l.csv"),
        "bands": [1],
        "windows": {"table": chips_at(tmp_path)[0], "size": SIZE},
        "mask": {"band": "clouds", "drop": list(range(1, 900)), "dilate": 1},
    }
    gather(request, to=tmp_path / "whole", settings=FOUR_IN_A_TASK)
    gone = missing if which == "the mask" else later
    hidden = hide(gone)
    before = raw(gather(request, to=tmp_path / "cube", settings=FOUR_IN_A_TASK))
    told = [Status.UNMASKED, Status.MISSING] if gone == missing else [Status.MISSING, Status.OK]
    assert (before["status"].isel(time=1) == told).all(axis=1).any()
    hidden.rename(gone)
    done = retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK)

    assert done is not None
    assert done.report.n_failed == 0
    one, other = (raw(done), xr.open_zarr(tmp_path / "whole", mask_and_scale=False, decode_times=False))
    for same in ("red", "clouds", "status", "masked", "etag"):
        np.testing.assert_array_equal(one[same], other[same], err_msg=same)
    assert verify(tmp_path / "cube").is_same


def test_chips_are_one_row_of_the_list_only_if_they_are_tried_alike(tmp_path: Path) -> None:
    """Of one image, by the same sources, and with the same version of its mask."""
    red, clouds = (image(tmp_path / f"{name}.tif", seed=at) for at, name in enumerate("ab"))
    (tmp_path / "l.csv").write_text(
        f"href,time,band\n{red},2024-01-01,red\n{clouds},2024-01-01,clouds", encoding="utf-8"
    )
    request = {
        "sources": str(tmp_path / "l.csv"),
        "bands": [1],
        "windows": {"table": chips_at(tmp_path)[0], "size": SIZE},
        "mask": {"band": "clouds", "drop": [1]},
    }
    gather(request, to=tmp_path / "cube", settings=FOUR_IN_A_TASK)
    cube: Any = SimpleNamespace(cube=ZarrCube(*open_existing(tmp_path / "cube", None)))
    told = {name: np.array([each] * N_CHIPS, object) for name, each in COLUMNS.items()}
    told["status"] = np.array([[Status.MISSING, Status.OK]] * N_CHIPS)
    told["href"][2, 0] = "other"
    told["status"][3] = Status.UNMASKED, Status.MISSING
    told["etag"][4, 1] = "later"
    told["status"][6] = Status.OK, Status.MISSING

    failed = asyncio.run(read_failed(cube, asked=request, **told))

    tried = [failed.rows[at] for at in range(N_CHIPS)]
    assert len({id(each) for each in tried}) == 5
    assert tried[0] is tried[1] is tried[5]
    assert [each and each.href for each in tried[2].sources] == ["other", None]
    assert [each and each.href for each in tried[3].sources] == ["red", "clouds"]
    assert [each and each.href for each in tried[6].sources] == [None, "clouds"]
    assert [each.mask_etag for each in tried[2:6]] == ["now", None, "later", "now"]


@pytest.mark.long
def test_a_cube_of_chips_that_has_grown_is_compacted(tmp_path: Path) -> None:
    """What appends and tries have put behind former chunks goes, and the chips stay."""
    files = three_images(tmp_path)
    sources, ((few, every), _) = listed(tmp_path, files), tables(tmp_path, 6, N_CHIPS)
    hidden = hide(files["2024-02-01"])
    first(sources, few, tmp_path / "cube")
    hidden.rename(files["2024-02-01"])
    before = raw(grown(sources, every, tmp_path / "cube")).load()
    compacted = compact(tmp_path / "cube")

    assert compacted.n_shards == 2 * 2  # of each band: one was continued, and both were tried again
    assert compacted.freed_nbytes > 0
    after = xr.open_zarr(tmp_path / "cube", mask_and_scale=False, decode_times=False)
    xr.testing.assert_identical(after.load().drop_attrs(), before.drop_attrs())
    assert verify(tmp_path / "cube").is_same


def test_a_shard_that_was_removed_is_not_replaced_by_a_try(tmp_path: Path) -> None:
    """The new object would have the chips that are tried again alone."""
    files = three_images(tmp_path)
    hidden = hide(files["2024-02-01"])
    first(listed(tmp_path, files), tables(tmp_path, 6)[0][0], tmp_path / "cube")
    hidden.rename(files["2024-02-01"])
    (tmp_path / "cube/band_1/c/0/0/0/0").unlink()

    with pytest.raises(StoreError, match="band_1/c/0/0/0/0 is missing"):
        retry_failed(tmp_path / "cube", settings=FOUR_IN_A_TASK)

    assert not (tmp_path / "cube/band_1/c/0/0/0/0").exists()
