"""What a sample decides of one slot: its typical header, its work, and what is said of its values."""

import asyncio
import math
import re
from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import NoOverviewError, RequestError, SourceError
from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.core.plan.common_grid import CommonGrid
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.sample_headers import choose_levels, draft_slot, open_sample
from pixel_gather.core.plan.slot_draft import Draft
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.request.request import parse_request
from support.fakes import (
    UTM,
    FakeImage,
    FakeLimiter,
    FakeOpened,
    FakeProjector,
    FakeReader,
    FakeTable,
    table_of,
)
from support.plans import planned

SIDE = 48
PIXELS = np.zeros((2, SIDE, SIDE), "uint16")
NBYTES = PIXELS.nbytes + 512
"""Of a file."""

ALL = {"pixels": [0, 0, SIDE, SIDE]}
COARSE = Transform(20, 0, UTM.c, 0, -20, UTM.f)
BOX = [UTM.c, UTM.f - 480, UTM.c + 480, UTM.f]
RED = "red"
CLASSES = BandMeaning(classes=(BandClass(value=1, name="water", colour=None),))


def like(**header: Any) -> FakeImage:
    """Return an image with another header."""
    return FakeImage(pixels=PIXELS, header=header)


def read_by(reader: FakeReader, *, timeout_s: float = 60.0) -> SourceAccess:
    """Return how a reader's sources are opened."""
    return SourceAccess(reader=reader, projector=FakeProjector(), limiter=FakeLimiter(), timeout_s=timeout_s)


def drafted(*images: FakeImage, table: FakeTable | None = None, **request: Any) -> Draft:
    """Return what is decided of these images: of a plain list, or of the band red of a table."""
    hrefs = [f"s3://b/{n}" for n in range(len(images))]
    given = parse_request({"sources": "list.csv", "window": ALL} | request)
    name = None if table is None else RED
    of_all: Any = table or table_of(*hrefs)
    reader = FakeReader(dict(zip(hrefs, images, strict=True)))
    sample = asyncio.run(open_sample(name, given, table=of_all, access=read_by(reader)))
    return draft_slot(
        sample,
        given,
        given.rule(),
        table=of_all,
        projector=FakeProjector(),
        wants_same_grid=False,
        grid=None,
    )


def table_of_red(n: int, **more: Any) -> FakeTable:
    """Return a table of images of one band."""
    rows = [CubeRow(time_us=None, sources=(Source(href=f"s3://b/{at}", band=RED),)) for at in range(n)]
    return FakeTable(tuple(rows), bands=(RED,), **more)


def planned_of(*images: FakeImage, **request: Any) -> CubePlan:
    """Plan a gather of a list of images."""
    hrefs = [f"s3://b/{n}" for n in range(len(images))]
    return planned(FakeReader(dict(zip(hrefs, images, strict=True))), table_of(*hrefs), **request)


def warped(*images: FakeImage, width: float, resampling: str = "nearest", **more: Any) -> CubePlan:
    """Plan a gather of all that the images show, on a grid in another CRS."""
    return planned_of(
        *images,
        window={"bbox": BOX, "crs": "EPSG:32633"},
        nodata=0,
        grid={"resolution": width, "crs": "EPSG:32633", "resampling": resampling},
        **more,
    )


def test_the_overview_is_to_blame_if_no_source_has_it() -> None:
    """But not if one of them is missing."""
    no_overview, missing = (
        FakeImage(pixels=PIXELS, open_error=kind("no", href="s3://b/0", status=status))
        for kind, status in ((NoOverviewError, Status.UNSUPPORTED), (SourceError, Status.MISSING))
    )
    for images, field in (((no_overview, no_overview), "overview"), ((no_overview, missing), "sources")):
        with pytest.raises(RequestError, match="none of the 2 sources that were tried") as caught:
            drafted(*images)
        assert caught.value.field == field


def test_the_work_is_that_of_the_window_on_each_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """One image has all of it, one a third of its columns, and one nothing."""
    windows: list[Window] = []
    monkeypatch.setattr(FakeOpened, "known_reads", lambda _, window, __: windows.append(window))
    images = [like(), like(transform=UTM.shifted(32, 0)), like(transform=UTM.shifted(9000, 0))]

    draft = drafted(*images, window={"bbox": BOX, "crs": "source"})

    assert draft.mean_nbytes == pytest.approx(NBYTES * (1 + 1 / 3 + 0) / 3)
    assert [(each.width, each.height) for each in windows] == [(SIDE, SIDE), (16, SIDE)]


def test_a_table_says_what_a_band_means_that_it_names() -> None:
    """Not what several bands of its files mean."""
    table = table_of_red(1, band_meanings={RED: BandMeaning(unit="m")})

    assert drafted(like(), table=table).claimed.unit == "m"
    assert drafted(like(), table=table, bands=[1, 2]).claimed.unit == ""
    assert drafted(like()).claimed.unit == ""


def test_a_unit_is_that_of_all_images() -> None:
    """Of the bands that are read."""
    metres, feet = (like(meanings=(BandMeaning(unit=unit), BandMeaning(unit="K"))) for unit in ("m", "ft"))

    assert drafted(metres, metres).has_one_unit
    assert not drafted(metres, feet).has_one_unit
    assert drafted(metres, feet, bands=[2]).has_one_unit


@pytest.mark.parametrize(("values", "n_warnings"), [("raw", 1), ("scaled", 0), ("harmonised", 0)])
def test_a_claimed_scale_is_told_where_it_is_not_applied(values: str, n_warnings: int) -> None:
    """The cube keeps stored values, and says that a catalog has another scale."""
    source = Source(href="s3://b/0", band=RED, columns={"scale_claimed": 0.5})
    table = FakeTable((CubeRow(time_us=None, sources=(source,)),), bands=(RED,))

    draft = drafted(FakeImage(pixels=PIXELS[:1]), table=table, values=values)

    assert sum("claims another scale than the file's" in said for said in draft.warnings) == n_warnings


@pytest.mark.parametrize(
    ("n_scaled", "becomes"),
    [(1, "2 of 3 .*: their numbers stay as they are"), (2, "1 of 3 .*: their status will be unlike")],
)
def test_scaled_values_beside_stored_ones_are_told(n_scaled: int, becomes: str) -> None:
    """If nobody says what the numbers of some sources mean. Without such sources, nothing is told."""
    scaled = like(scales=(0.5,) * 2, offsets=(1.0,) * 2)
    images = [scaled] * n_scaled + [like()] * (3 - n_scaled)

    (said,) = (each for each in drafted(*images, values="scaled").warnings if "neither scale" in each)

    assert re.search(becomes, said)
    for others in ([scaled] * 3, [like()] * 3):
        assert not any("neither scale" in each for each in drafted(*others, values="scaled").warnings)


def test_what_is_no_scale_or_no_offset_does_not_count() -> None:
    """A scale of 0 would make all values the same, and an offset without end none."""
    scales = [(0.0, 5.0), (0.0, 5.0), (2.0, 7.0), (2.0, -math.inf), (2.0, 3.0)]
    images = [like(scales=(scale,) * 2, offsets=(offset,) * 2) for scale, offset in scales]

    assert drafted(*images, values="harmonised").scalings == ((2.0, 3.0),) * 2


def test_the_finest_source_decides_how_pixels_get_onto_the_grid() -> None:
    """So there is room for as many of them as any source has."""
    fine = Transform(5, 0, UTM.c, 0, -5, UTM.f)
    images = [like(), like(transform=fine), like()]

    box = [UTM.c, UTM.f - 200, UTM.c + 200, UTM.f]
    blocks = planned_of(*images, window={"bbox": box, "crs": "source"}, grid={"resolution": 10})
    warps = warped(*images, width=20)

    assert list(blocks.steps.values()) == ["average of 2 x 2 pixels"]
    (slot,) = warps.slots
    assert slot.own is not None
    assert slot.own.transform == fine
    assert [grid.transform for grid in warps.sampled_grids] == [UTM, fine]


def test_what_a_warp_reads_are_pixels_of_the_source() -> None:
    """A grid with larger pixels takes as many bytes of it, and a mean of bad sums is refused on any grid."""
    coarse = {"window": {"bbox": BOX, "crs": "source"}, "grid": {"resolution": 40}}
    plans = [*(warped(like(), width=width) for width in (10, 40)), planned_of(like(), **coarse)]

    assert [plan.estimate.fetched_nbytes for plan in plans] == [512 + NBYTES] * 3
    large = FakeImage(pixels=PIXELS.astype("int64"))
    with pytest.raises(RequestError, match=r"pixels of int64 have no exact mean; write nearest$"):
        warped(large, width=10, resampling="bilinear")


@pytest.mark.parametrize(
    ("header", "overview", "says"),
    [
        ({"overviews": ((24, 24), (12, 12))}, None, "or a number from 0, the largest; it has 2"),
        ({}, None, "or a number from 0, the largest; its files may have some"),
        ({}, "auto", "No overview fits: its files have none, or all are coarser than the grid"),
        ({"meanings": (CLASSES,) * 2}, "auto", "No overview fits that keeps its values, which are classes"),
    ],
)
def test_a_grid_that_takes_few_pixels_says_what_would_read_less(
    header: dict[str, Any], overview: str | None, says: str
) -> None:
    """What the files have, or why it does not fit."""
    (said,) = warped(like(**header), width=80, overview=overview).warnings

    assert said.startswith("nearest takes few of the pixels: they are 8.0 times as fine as those of the grid")
    assert said.endswith(says)


def test_a_source_in_a_crs_that_proj_does_not_know_is_told() -> None:
    """The others are warped. If there is no other, the grid is to blame, or the window."""
    projector = FakeProjector(unknown=frozenset({"EPSG:9"}))
    nowhere, far = like(crs="EPSG:9"), like(transform=UTM.shifted(9000, 0))
    missing = FakeImage(pixels=PIXELS, open_error=SourceError("no", href="s3://b/2", status=Status.MISSING))

    said = warped(like(), nowhere, missing, width=10, projector=projector).warnings

    assert any("1 of 3 sampled" in each and "no way to EPSG:9" in each for each in said), said
    for image, field in ((nowhere, "grid"), (far, "window")):
        with pytest.raises(RequestError) as caught:
            warped(image, width=10, projector=projector)
        assert caught.value.field == field


def test_a_sample_is_seen_at_the_overview_that_fits_unless_it_has_a_mask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mean of classes is no class. What cannot be looked up stays in its place as an error."""

    class Level(FakeOpened):
        async def overviews(self) -> list[FakeOpened]:
            if self.header.href.endswith("1"):
                raise SourceError("torn", href=self.header.href, status=Status.CORRUPT)
            half = replace(self.header, width=SIDE // 2, height=SIDE // 2, transform=COARSE)
            return [replace(self, header=half)]

    monkeypatch.setattr("support.fakes.FakeOpened", Level)
    table, request = table_of_red(3), parse_request({"sources": "list.csv", "window": ALL})
    reader = FakeReader({f"s3://b/{n}": like() for n in range(3)})
    sample = asyncio.run(open_sample(RED, request, table=table, access=read_by(reader)))
    grid = CommonGrid(resolution=20, resampling={RED: "average"})

    fitting, of_mask = (
        asyncio.run(choose_levels(sample, grid, mask=mask, projector=FakeProjector()))
        for mask in ("scl", RED)
    )

    assert (fitting.levels, [header.width for header in fitting.headers]) == ((0, 0), [SIDE // 2] * 2)
    assert [isinstance(each, SourceError) for each in fitting.opened] == [False, True, False]
    assert (of_mask.levels, of_mask.opened) == ((None,) * 3, sample.opened)


def test_a_header_is_waited_for_as_long_as_is_said() -> None:
    """A plan goes on by the others. If there is none, the reason says how long was waited."""

    class Slow(FakeReader):
        async def open_(self, href: str, **options: Any) -> Any:
            if href.endswith("1"):
                await asyncio.sleep(60)
            return await super().open_(href, **options)

    request = parse_request({"sources": "list.csv", "window": ALL})
    access = read_by(Slow({f"s3://b/{n}": like() for n in range(2)}), timeout_s=0.05)
    sample = asyncio.run(open_sample(None, request, table=table_of("s3://b/0", "s3://b/1"), access=access))

    assert len(sample.headers) == 1
    with pytest.raises(RequestError, match=r"cannot be opened: s3://b/1: not opened within 0\.05 s"):
        asyncio.run(open_sample(None, request, table=table_of("s3://b/1"), access=access))


def test_the_overview_of_a_slot_is_that_of_most_sources() -> None:
    """The first one may have others."""
    table, request = table_of_red(3), parse_request({"sources": "list.csv", "window": ALL})
    reader = FakeReader({f"s3://b/{n}": like() for n in range(3)})
    sample = asyncio.run(open_sample(RED, request, table=table, access=read_by(reader)))

    draft = draft_slot(
        replace(sample, levels=(0, 1, 1)),
        request,
        request.rule(),
        table=table,
        projector=FakeProjector(),
        wants_same_grid=False,
        grid=None,
    )

    assert draft.slot.overview == 1


@pytest.mark.parametrize(("mask", "is_mixed"), [(None, True), ("scl", True), (RED, False)])
def test_scenes_of_another_scale_are_not_reduced_with_the_others(mask: str | None, *, is_mixed: bool) -> None:
    """A mask is no part of any statistic, so it loses none of its sources."""
    more: dict[str, Any] = {} if mask is None else {"mask": {"band": mask, "drop": [3]}}
    images = [like(), like(), like(scales=(2.0, 2.0))]

    draft = drafted(
        *images, table=table_of_red(3), bands=[1], reduce={"by": "day", "statistic": "mean"}, **more
    )

    assert any("raw pixels are not mixed" in said for said in draft.warnings) == is_mixed
