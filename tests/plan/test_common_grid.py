"""One grid for bands of different resolution: what a plan decides, inherits and refuses."""

from copy import replace
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import BudgetError, RequestError, SourceError
from pixel_gather.core.model.grid_step import GridStep
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.core.plan.common_grid import step_to
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.plan_workload import check_task_fits
from support.fakes import UTM, FakeImage, FakeReader, FakeTable, header_of
from support.plans import planned

FINE = np.zeros((1, 120, 120), "uint16")
BOX = {"bbox": [500_040, 4_599_000, 500_360, 4_599_960], "crs": "source"}


def image(width: float, *, shift: float = 0.0, dtype: str = "uint16", **header: Any) -> FakeImage:
    """Return an image of 1.2 km with pixels of this width."""
    n = round(1200 / width)
    transform = Transform(width, 0.0, UTM.c + shift, 0.0, -width, UTM.f)
    return FakeImage(pixels=np.zeros((1, n, n), dtype), header={"transform": transform} | header)


def scene_of(**images: FakeImage) -> tuple[FakeReader, FakeTable]:
    """Return one scene of these bands."""
    row = CubeRow(
        time_us=None, sources=tuple(Source(href=f"s3://b/{name}", band=name, scene="1") for name in images)
    )
    reader = FakeReader({f"s3://b/{name}": each for name, each in images.items()})
    return reader, FakeTable((row,), bands=tuple(images))


def plan_of(reader: FakeReader, table: FakeTable, **request: Any) -> CubePlan:
    """Plan a gather of a box."""
    return planned(reader, table, **({"window": BOX} | request))


SENTINEL = scene_of(red=image(10), scl=image(20, dtype="uint8"), aot=image(60))


@pytest.mark.parametrize(
    ("resolution", "shape", "steps"),
    [
        (10, (96, 32), ["as it is", "each pixel 2 x 2 times", "each pixel 6 x 6 times"]),
        ("finest", (96, 32), ["as it is", "each pixel 2 x 2 times", "each pixel 6 x 6 times"]),
        ("coarsest", (17, 6), ["average of 6 x 6 pixels", "mode of 3 x 3 pixels", "as it is"]),
        (30, (32, 11), ["average of 3 x 3 pixels", None, "each pixel 2 x 2 times"]),
        (20, (48, 16), ["average of 2 x 2 pixels", "as it is", "each pixel 3 x 3 times"]),
    ],
)
def test_bands_of_different_resolution_share_a_window(
    resolution: Any, shape: tuple[int, int], steps: list[str | None]
) -> None:
    """The plan says what becomes of each band's pixels. 20 m and 30 m have no whole number between them."""
    if None in steps:
        with pytest.raises(
            RequestError, match="s3://b/scl: its pixels are 20 wide: no whole number"
        ) as error:
            plan_of(*SENTINEL, grid={"resolution": resolution})
        assert error.value.field == "grid"
        return
    plan = plan_of(*SENTINEL, grid={"resolution": resolution})

    assert (plan.height, plan.width) == shape
    assert list(plan.steps.values()) == steps
    assert plan.wants_same_grid
    assert plan.to_json()["grid"] == {"resolution": plan.resolution, "bands": plan.steps}
    assert len({(each.window.width, each.window.height) for each in plan.slots}) == 1


def test_without_a_grid_the_refusal_says_how_to_ask_for_one() -> None:
    """That is what users try first."""
    with pytest.raises(RequestError, match=r"gather bands of different resolution by grid: \{resolution: fi"):
        plan_of(*SENTINEL)


@pytest.mark.parametrize(
    ("resampling", "found"),
    [
        (None, ["average", "mode", "average"]),
        ("nearest", ["nearest", "nearest", "nearest"]),
        ("average", ["average", "mode", "average"]),
        ({"red": "mode", "scl": "nearest"}, ["mode", "nearest", "average"]),
    ],
)
def test_classes_are_never_averaged(resampling: Any, found: list[str]) -> None:
    """Neither by default, nor where one word is meant for all bands."""
    plan = plan_of(*SENTINEL, grid={"resolution": "coarsest", "resampling": resampling})

    assert [each.resampling for each in plan.slots] == found


@pytest.mark.parametrize(
    "grid", [{"resolution": "coarsest"}, {"resolution": 60, "crs": "EPSG:32633"}], ids=["blocks", "warped"]
)
def test_resampling_of_a_band_that_is_not_there_is_refused(grid: dict[str, Any]) -> None:
    """A misspelt name would leave the band as it is by default."""
    asked = grid | {"resampling": {"red": "nearest", "Blue": "nearest"}}
    window = BOX | {"crs": grid.get("crs", "source")}
    with pytest.raises(RequestError, match=r"^grid.resampling: there is no band Blue; there are re") as error:
        plan_of(*SENTINEL, window=window, grid=asked)
    assert error.value.field == "grid.resampling"

    reader, table = scene_of(red=image(60))
    with pytest.raises(RequestError, match="no column band, so write one word for all"):
        plan_of(reader, replace(table, bands=()), window=window, grid=asked)


@dataclass(frozen=True)
class Refused:
    """A grid that is refused."""

    id: str
    images: dict[str, FakeImage]
    said: str
    grid: Any = "finest"


@pytest.mark.parametrize(
    "case",
    [
        Refused(
            "off the lattice",
            {"red": image(30), "pan": image(15, shift=7.5)},
            "the band pan does not lie on the grid of red: its pixels lie 0.5 of a pixel along x "
            "and 0 along y beside those of the grid, and a gather shifts no pixel",
        ),
        Refused(
            "other zone",
            {"red": image(10), "scl": image(20, crs="EPSG:32634")},
            "the band scl does not lie on the grid of red: it lies in EPSG:32634, the grid in EPSG:32631, "
            "and pixels are not warped",
        ),
        Refused("no georeference", {"red": image(10, transform=None)}, "has no geotransform"),
        Refused(
            "sums overflow",
            {"red": image(10, dtype="int64"), "nir": image(20)},
            "red: pixels of int64 have no exact mean; write mode or nearest",
            grid="coarsest",
        ),
        Refused("far too fine", {"red": image(10)}, "up to 256, makes a pixel of 60000", grid=60_000.0),
        Refused("not whole", {"red": image(10)}, "its pixels are 10 wide", grid=15.0),
    ],
    ids=lambda case: case.id,
)
def test_grid_that_sources_do_not_lie_on_is_refused_by_name(case: Refused) -> None:
    """No pixel is ever shifted in silence."""
    with pytest.raises(RequestError, match=case.said):
        plan_of(*scene_of(**case.images), grid={"resolution": case.grid})


def test_window_of_a_tile_is_that_of_the_band_at_the_resolution() -> None:
    """Tiles of the other bands cover other parts of the map."""
    reader, table = scene_of(scl=image(20, dtype="uint8"), red=image(10))

    plan = plan_of(reader, table, grid={"resolution": 10}, window={"tile": [1, 2]})

    assert {each.window for each in plan.slots} == {Window(col_off=16, row_off=32, width=16, height=16)}
    assert plan.rule.pixels == (16, 32, 16, 16)


def test_neighbouring_tiles_of_one_zone_join_one_lattice() -> None:
    """A scene that begins 60 km to the east covers the same pixels of the map."""
    reader, table = scene_of(red=image(10), scl=image(20))
    reader.images |= {
        "s3://b/red2": image(10, shift=60 * 4),
        "s3://b/scl2": image(20, shift=60 * 4),
        "s3://b/off2": image(10, shift=5),
    }  # type: ignore[operator] # a dict
    second = CubeRow(time_us=None, sources=tuple(Source(href=f"s3://b/{n}2", band=n) for n in ("red", "scl")))
    both = FakeTable((*table.all_rows, second), bands=("red", "scl"))

    plan = plan_of(
        reader, both, grid={"resolution": 10}, window=BOX | {"bbox": [500_300, 4_599_000, 500_500, 4_599_900]}
    )

    assert plan.warnings == ()


def test_samples_that_do_not_fit_are_told_in_one_warning() -> None:
    """By the width of their pixels, and by their place. It says how all of them become one cube."""
    reader, table = scene_of(red=image(10))
    reader.images |= {"s3://b/15": image(15), "s3://b/off": image(10, shift=5)}  # type: ignore[operator] # a dict
    others = (
        CubeRow(time_us=None, sources=(Source(href=f"s3://b/{name}", band="red"),)) for name in ("15", "off")
    )

    plan = plan_of(reader, FakeTable((*table.all_rows, *others), bands=("red",)), grid={"resolution": 10})

    (said,) = plan.warnings
    assert said == (
        "2 of 3 sampled sources of band red lie on another grid, such as s3://b/15: its pixels are 15 wide: "
        "no whole number of them, up to 256, makes a pixel of 10, nor the other way round. Their status will "
        "be unlike. With --grid WIDTH --grid-crs CRS (grid: {crs, resolution}) all are warped onto one grid"
    )


def test_a_task_has_room_for_the_pixels_of_the_sources() -> None:
    """36 pixels of a source make one of the grid, and all of them are held."""
    rows = tuple(CubeRow(time_us=None, sources=(Source(href=f"s3://b/{n}", band="red"),)) for n in range(500))
    reader = FakeReader(dict.fromkeys((f"s3://b/{n}" for n in range(500)), image(10)))
    table = FakeTable(rows, bands=("red",))
    fine, coarse = (
        plan_of(reader, table, grid={"resolution": each}, window=BOX, max_task_nbytes=2**20)
        for each in (10, 60)
    )
    own = fine.layout.shard[0] * fine.height * fine.width * 2
    of_coarse = coarse.layout.shard[0] * coarse.height * coarse.width * 2 * 37

    assert own <= 2**20
    assert of_coarse <= 2**20
    with pytest.raises(BudgetError, match="workers with more memory"):
        check_task_fits(CubeTemplate.of(coarse, is_aligned=True), of_coarse - 1)
    check_task_fits(CubeTemplate.of(coarse, is_aligned=True), of_coarse + 2**14)


def appended(template: CubeTemplate, reader: FakeReader, table: FakeTable, **request: Any) -> CubePlan:
    """Plan rows that are added to a cube."""
    return plan_of(reader, table, template=template, output={"append_to": "cube"}, **request)


def test_rows_that_are_added_get_the_cubes_grid() -> None:
    """Also if their request says nothing of it."""
    first = plan_of(*SENTINEL, grid={"resolution": "coarsest", "resampling": {"red": "nearest"}})
    template = CubeTemplate.from_json(CubeTemplate.of(first, is_aligned=True).to_json())

    plan = appended(template, *SENTINEL)

    assert plan.resolution == 60
    assert plan.slots == first.slots
    assert plan.rule == first.rule


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"resolution": 20}, "the cube has pixels of 60; the new rows would have pixels of 20"),
        ({"resolution": "finest"}, "the cube has pixels of 60; the new rows would have pixels of 10"),
        ({"resolution": 60}, "the cube has nearest of red; the new rows would have average"),
    ],
)
def test_rows_of_another_grid_are_refused(grid: dict[str, Any], said: str) -> None:
    """Both values are named."""
    first = plan_of(*SENTINEL, grid={"resolution": "coarsest", "resampling": {"red": "nearest"}})

    with pytest.raises(RequestError, match=said):
        appended(CubeTemplate.of(first, is_aligned=True), *SENTINEL, grid=grid)


def test_a_grid_is_refused_for_a_cube_without() -> None:
    """Its rows have the pixels of their sources."""
    reader, table = scene_of(red=image(10))
    template = CubeTemplate.of(plan_of(reader, table), is_aligned=True)

    with pytest.raises(
        RequestError, match="the cube has no common grid; the new rows would have pixels of 10"
    ):
        appended(template, reader, table, grid={"resolution": 10})


def test_template_of_earlier_cubes_is_read() -> None:
    """They have no word of a grid."""
    template = CubeTemplate.of(plan_of(*scene_of(red=image(10))), is_aligned=True)
    told = template.to_json()
    del told["resolution"]
    for slot in told["slots"]:
        del slot["step"], slot["resampling"]

    assert CubeTemplate.from_json(told) == template


def test_step_allows_for_rounding_of_widths() -> None:
    """Degrees are rarely exact."""
    third = 1 / 3600
    header = header_of(FINE, "a", transform=Transform(third / 3 + 1e-12, 0, 0, 0, -third / 3, 0))

    assert step_to(header, third) == GridStep(over=3)
    assert step_to(replace(header, transform=Transform(third * 2, 0, 0, 0, -third, 0)), third) == GridStep(
        times=2
    )
    with pytest.raises(SourceError):
        step_to(header, third * 1.002)
