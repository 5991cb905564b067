"""Chips that are added to a cube of chips."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from features.test_chips import N_CHIPS, SIZE, by_rasterio, chips_at, listed, raw, three_images
from pixel_gather import Gathered, Settings, gather, open_chips, open_cube, verify, versions
from pixel_gather.core.errors import RequestError
from pixel_gather.features.rows.rows import rows_where
from support.command_line import run

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


def test_a_grown_cube_is_that_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--append-to`` with ``--windows`` adds chips. ``plan`` says what is added."""
    sources = listed(tmp_path, three_images(tmp_path))
    (few, every), _ = tables(tmp_path, 6, N_CHIPS)
    options = ("--sources", sources, "--size", "40,24", "--no-report")
    assert run("run", *options, "--windows", few, "--to", tmp_path / "cube") == 0
    capsys.readouterr()

    assert run("plan", *options, "--windows", every, "--append-to", tmp_path / "cube") == 0
    assert "11 x 3 x 24 x 40 (chip, time, y, x)" in capsys.readouterr().out
    assert run("run", *options, "--windows", every, "--append-to", tmp_path / "cube") == 0
    assert open_cube(tmp_path / "cube").sizes["chip"] == N_CHIPS


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
    refused("ids of chips are string in the cube, and int64 in this table", table=str(moved))
    refused("failed_rows: chips are not tried again", failed_rows="retry_all")
    refused("the cube has 40 x 24 pixels", windows={"table": every, "size": [20, 24]})
    assert len(versions(cube)) == 1


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


def test_many_chips_are_added_to_few(tmp_path: Path) -> None:
    """Coordinates keep the chunks of the first gather, however many rows are written together."""
    sources = listed(tmp_path, three_images(tmp_path))
    points = [f"{n},{11.3 + n * 1e-6!r},46.5,{n % 5}" for n in range(1600)]
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

    assert cube["chip"].values.tolist() == list(range(1600))
    assert cube["label"].values.tolist() == [n % 5 for n in range(1600)]
    np.testing.assert_allclose(cube["lon"].values, 11.3 + np.arange(1600) * 1e-6, rtol=0, atol=1e-9)
    assert not np.isnan(cube["transform"].values[:, :2]).any()
