"""Places that are neither text nor a path."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pixel_gather
from pixel_gather import RequestError
from support.command_line import run
from support.joined_cubes import FILES
from support.undrawn import gather_undrawn

_LIST = ["a.tif"]
_REQUEST = {"sources": _LIST, "window": "centre"}
_POINT = [{"lon": 1.0, "lat": 2.0}]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube."""
    place = tmp_path_factory.mktemp("places") / "cube.zarr"
    gather_undrawn({"sources": FILES[:1], "window": {"pixels": [0, 0, 8, 8]}}, to=place)
    return place


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("to", lambda wrong: pixel_gather.gather(_REQUEST, to=wrong)),
        ("to", lambda wrong: pixel_gather.points(_POINT, _LIST, to=wrong)),
        ("to", lambda wrong: pixel_gather.index(_LIST, to=wrong)),
        ("to", lambda wrong: pixel_gather.join(["a.zarr", "b.zarr"], to=wrong)),
        ("to", lambda wrong: pixel_gather.make_virtual(_REQUEST, to=wrong)),
        ("to", lambda wrong: pixel_gather.make_catalog(_LIST, to=wrong, kind="sources")),
        ("to", lambda wrong: pixel_gather.remove_scenes(to=wrong, search={"ids": ["a"]})),
        ("to", lambda wrong: pixel_gather.export("a.zarr", to=wrong)),
        ("to", lambda wrong: pixel_gather.write_table_page("a.parquet", wrong)),
        ("cube", pixel_gather.retry_failed),
        ("cube", pixel_gather.open_cube),
        ("cube", pixel_gather.verify),
        ("cube", pixel_gather.versions),
        ("cube", pixel_gather.open_joined),
        ("cube", pixel_gather.open_chips),
        ("cube", lambda wrong: pixel_gather.open_chips(["a.zarr", wrong])),
        ("cubes", lambda wrong: pixel_gather.join(wrong, to="all")),
        ("cubes", lambda wrong: pixel_gather.join(["a.zarr", wrong], to="all")),
        ("catalog", lambda wrong: pixel_gather.search(catalog=wrong)),
        ("prefix", lambda wrong: list(pixel_gather.ls(wrong))),
        ("table", pixel_gather.verify_table),
        ("table", pixel_gather.open_table),
        ("table", pixel_gather.open_zones),
    ],
)
@pytest.mark.parametrize("wrong", [3, b"bytes"], ids=str)
def test_a_place_of_a_wrong_type_is_refused_by_its_field(
    wrong: Any, field: str, call: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by an error from deep within. Nothing is written."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RequestError, match="write ") as refused:
        call(wrong)

    assert refused.value.field == field
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "call",
    [
        pixel_gather.open_cube,
        pixel_gather.verify,
        pixel_gather.open_joined,
        lambda place: pixel_gather.export(place, to="x.csv"),
    ],
)
def test_a_cube_on_a_web_server_is_opened_by_xarray(call: Callable[[Any], Any]) -> None:
    """The address in the bucket is named, where the host tells it."""
    said = (
        r"it is not read from web servers; write s3://maps/rain\.zarr, or open it by xarray\.open_zarr with"
    )
    with pytest.raises(RequestError, match=said):
        call("https://maps.s3.eu-central-1.amazonaws.com/rain.zarr")
    with pytest.raises(RequestError, match=r"^catalog: it is not read from web servers; write s3://[^,]+$"):
        pixel_gather.search(catalog="https://example.org/catalog.parquet")
    with pytest.raises(RequestError, match=r"^cube: nothing is written to web servers"):
        pixel_gather.compact("https://example.org/rain.zarr")


@pytest.mark.parametrize("inside", ["band_1", "band_1/c", "zarr.json", "none"])
@pytest.mark.parametrize(
    "call",
    [
        pixel_gather.open_cube,
        pixel_gather.verify,
        pixel_gather.replay,
        pixel_gather.compact,
        pixel_gather.retry_failed,
        pixel_gather.view,
        pixel_gather.open_chips,
        lambda place: pixel_gather.export(place, to="x.csv"),
        lambda place: pixel_gather.presence(place, "time"),
    ],
)
def test_a_path_in_a_cube_is_not_the_cube(call: Callable[[Any], Any], inside: str, cube: Path) -> None:
    """The cube is named. It may have others in its folder, which are opened as any are."""
    what = "is an array in" if inside == "band_1" else "lies in"
    with pytest.raises(
        RequestError, match=rf": {cube / inside} {what} the cube {cube}: name the cube itself"
    ):
        call(cube / inside)


@pytest.mark.parametrize(
    "call",
    [
        lambda to: pixel_gather.gather(_REQUEST, to=to),
        lambda to: pixel_gather.make_virtual(_REQUEST, to=to),
        lambda to: pixel_gather.join(["a.zarr"], to=to),
        lambda to: pixel_gather.join(["a.zarr"], to=to, mode="copy"),
    ],
)
def test_no_cube_is_written_into_the_folder_of_another(call: Callable[[Any], Any], cube: Path) -> None:
    """Its files would be taken for those of the other cube."""
    before = sorted(cube.rglob("*"))
    for inside in ("new.zarr", "band_1/new.zarr"):
        with pytest.raises(
            RequestError, match=rf"^to: {cube / inside} lies in the cube {cube}: choose a place outside of it"
        ):
            call(cube / inside)

    assert sorted(cube.rglob("*")) == before


def test_a_cube_may_lie_in_another_ones_folder(cube: Path, tmp_path: Path) -> None:
    """Nobody should put it there, but it is one."""
    outer = shutil.copytree(cube, tmp_path / "outer.zarr")
    shutil.copytree(cube, outer / "inner.zarr")
    (tmp_path / "zarr.json").write_text('{"attributes": null}')  # of others, above both

    assert pixel_gather.open_cube(outer / "inner.zarr").sizes == pixel_gather.open_cube(cube).sizes


def test_an_array_whose_cube_cannot_be_seen_is_no_cube(cube: Path, tmp_path: Path) -> None:
    """In a bucket nobody looks at the folders above."""
    array = shutil.copytree(cube / "band_1", tmp_path / "band_1")

    for call in (pixel_gather.open_cube, lambda place: pixel_gather.export(place, to=tmp_path / "x.csv")):
        with pytest.raises(pixel_gather.GatherError, match="or name the cube that this is an array of"):
            call(array)


def test_the_command_line_says_so_too(cube: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report finds its cube in a way of its own."""
    for command in (("verify",), ("report", "--to", "report"), ("view", "--no-open"), ("versions",)):
        assert run(command[0], cube / "band_1", *command[1:]) == 2
        assert (
            f"{cube / 'band_1'} is an array in the cube {cube}: name the cube itself"
            in capsys.readouterr().err
        )


def test_one_place_where_several_are_wanted_is_refused(tmp_path: Path) -> None:
    """Its characters are no places."""
    with pytest.raises(RequestError, match="cubes: write a list of places"):
        pixel_gather.join("a.zarr", to=tmp_path / "all")


@pytest.mark.parametrize("open_", [pixel_gather.open_table, pixel_gather.open_zones])
def test_a_table_on_s3_is_copied_first(open_: Callable[[Any], Any]) -> None:
    """The error has the command."""
    said = r"aws s3 cp --recursive s3://cubes/tables/zones-a/v1/ table; then open table/table\.parquet$"

    with pytest.raises(RequestError, match=said) as refused:
        open_("s3://cubes/tables/zones-a/v1/table.parquet")

    assert refused.value.field == "table"


def test_a_cube_is_read_where_nothing_can_be_written(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is mounted to be read."""

    def refuse(**_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)

    assert pixel_gather.versions(cube)
