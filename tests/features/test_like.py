"""Gathers onto the grid of a cube or a file: every pixel lies where it does there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from features.test_warp import REQUEST, check_equals_gdal, files_of_all
from pixel_gather import gather, make_plan
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request
from support.command_line import run
from support.counted_s3 import s3_with
from support.projections import warped_by_gdal, write_projected
from support.undrawn import gather_undrawn, opened


@pytest.mark.long
@pytest.mark.parametrize("kind", ["warped", "window", "grid"])
def test_a_cube_lies_on_the_pixels_of_another(tmp_path: Path, kind: str) -> None:
    """Coordinates and place are equal, whatever cube it is."""
    files = files_of_all(tmp_path)
    first: dict[str, Any] = {
        "warped": REQUEST | {"grid": {"crs": "EPSG:3035", "resolution": 13, "anchor": [3.25, 7.5]}},
        "window": {"window": {"pixels": [31, 17, 90, 70]}},
        "grid": {"window": {"pixels": [5, 6, 40, 30]}, "grid": {"resolution": 20}},
    }[kind]
    gather_undrawn(first | {"sources": [files[1]]}, to=tmp_path / "there")
    there = opened(tmp_path / "there")

    grid = {"like": str(tmp_path / "there"), "resampling": "bilinear"}
    gathered = gather_undrawn({"sources": {"hrefs": files}, "grid": grid}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    for name in ("x", "y"):
        np.testing.assert_array_equal(cube[name].values, there[name].values)
    crs = "EPSG:3035" if kind == "warped" else "EPSG:32633"
    assert gathered.report.n_failed == 0
    check_equals_gdal(tmp_path / "cube", files, crs, resampling="bilinear")


@pytest.mark.long
def test_a_cube_lies_on_the_pixels_of_a_file(tmp_path: Path) -> None:
    """All of its pixels; those of the file itself stay as they are."""
    files = files_of_all(tmp_path)
    own = write_projected(tmp_path, "EPSG:4326", seed=9, n=120)

    gather_undrawn({"sources": [*files, str(own)], "grid": {"like": str(own)}}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")["band_1"].values
    with rasterio.open(own) as source:
        np.testing.assert_array_equal(cube[-1], source.read(1))
        affine, crs = source.transform, "EPSG:4326"
    for row, file in enumerate(files):
        np.testing.assert_array_equal(cube[row], warped_by_gdal(file, crs, affine, (120, 120)))


def test_the_command_line_fills_it_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So the request that is sent or stored has the exact box."""
    own = str(write_projected(tmp_path, "EPSG:32633", seed=9, n=64))
    (tmp_path / "list.txt").write_text(own)
    asked = ["plan", "--sources", str(tmp_path / "list.txt"), "--like", own]

    assert run(*asked, "--resampling", "bilinear") == 0
    assert "1 x 64 x 64" in (out := capsys.readouterr().out)
    assert "warped by bilinear" in out
    assert run(*asked, "--grid", "10") == 2
    assert "leave --grid and --grid-crs out" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("kind", ["a file", "a cube"])
def test_the_place_is_read_as_the_options_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """It may lie in a store of another address than AWS's, as the sources do."""
    own = write_projected(tmp_path, "EPSG:32633", seed=9, n=64)
    (tmp_path / "list.txt").write_text(str(own))
    with s3_with("bucket") as server:
        server.client.upload_file(str(own), "bucket", "own.tif")
        if kind == "a cube":
            gather_undrawn({"sources": [own], "window": {"pixels": [0, 0, 32, 32]}}, to=tmp_path / "own")
            server.upload(tmp_path / "own", "bucket", "own")
        like = "s3://bucket/own.tif" if kind == "a file" else "s3://bucket/own"
        asked = ["plan", "--sources", str(tmp_path / "list.txt"), "--like", like]

        assert run(*asked, "--endpoint", server.endpoint) == 0, capsys.readouterr().err

    assert ("1 x 64 x 64" if kind == "a file" else "1 x 32 x 32") in capsys.readouterr().out


@pytest.mark.parametrize("given", ["list.csv", ["a.tif"], None])
def test_what_is_no_request_is_refused_in_words(given: Any, tmp_path: Path) -> None:
    """Its grid is looked for before it is checked."""
    said = r"^request: it must be an object .* such as {sources: list.csv, window: centre}$"
    with pytest.raises(RequestError, match=said):
        make_plan(given)
    with pytest.raises(RequestError, match=said):
        gather(given, to=tmp_path / "cube")


def test_refused_in_words(tmp_path: Path) -> None:
    """A place without one grid, another grid beside it, and a request that nobody has filled in."""
    files = files_of_all(tmp_path)
    request: dict[str, Any] = {"sources": {"hrefs": files}, "window": {"pixels": [0, 0, 20, 20]}}
    gather_undrawn(request, to=tmp_path / "own")
    for like, more, message in (
        (tmp_path / "own", {}, "do not share one grid"),
        (files[0], {"resolution": 10}, "like gives the whole grid; leave resolution out"),
        (tmp_path / "nowhere.tif", {}, "cannot be opened|no such"),
    ):
        with pytest.raises(RequestError, match=message):
            make_plan({"sources": files, "grid": {"like": str(like)} | more})
    with pytest.raises(RequestError, match="leave window out"):
        gather(request | {"grid": {"like": files[0]}}, to=tmp_path / "cube")
    with pytest.raises(RequestError, match="like is read by the command line and by Python alone"):
        parse_request({"sources": files, "grid": {"like": files[0]}})
