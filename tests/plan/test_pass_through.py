"""Whether tiles can be kept as they are stored, and what a user is told of it."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import COMPLEX_INTEGERS, TileCoding
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.pass_through import check_passes, readers_of
from support.fakes import CODING, FakeImage, FakeReader, FakeTable, header_of, table_of
from support.plans import planned, red_and_nir

A = np.zeros((1, 50, 40), "uint16")
DEFLATED = replace(CODING, compression="deflate")
BY_ZARR = "zarr-python opens it"
BY_IMAGECODECS = "zarr-python with imagecodecs opens it"


def image(**coding: Any) -> FakeImage:
    """Return an image whose tiles are stored in a way."""
    return FakeImage(pixels=A, header={"coding": replace(DEFLATED, **coding)})


def keeping(*images: FakeImage, window: Any = "centre", **request: Any) -> CubePlan:
    """Plan a cube of tiles as they are stored."""
    hrefs = [f"s3://b/{n}" for n, _ in enumerate(images)]
    reader = FakeReader(dict(zip(hrefs, images, strict=True)))
    output = {"codec": "source"} | request.pop("output", {})
    return planned(reader, table_of(*hrefs), window=window, output=output, **request)


def problem_of(window: Window, coding: TileCoding | None, *, like: TileCoding | None = None) -> str | None:
    """Return why a source's tiles cannot be kept."""
    try:
        check_passes(header_of(A, "a", coding=coding), window, like)
    except SourceError as error:
        return None if (error.href, error.status) != ("a", Status.UNLIKE) else error.reason
    return None


FIRST = Window(col_off=0, row_off=0, width=16, height=16)


@pytest.mark.parametrize(
    ("coding", "words"),
    [
        ({}, None),
        ({"is_tiled": False}, "in strips"),
        ({"is_interleaved": True}, "hold several bands"),
        ({"dtype": COMPLEX_INTEGERS}, "complex integers"),
        ({"compression": "jpeg"}, "no Zarr codec decodes its tiles of jpeg"),
        ({"compression": "lzw", "predictor": 2}, None),
    ],
)
def test_tiles_pass_if_a_codec_decodes_them_alone(coding: dict[str, Any], words: str | None) -> None:
    """The reason names the property that is in the way."""
    found = problem_of(FIRST, replace(DEFLATED, **coding))

    assert (found is None) if words is None else (found is not None and words in found)


def test_tiles_that_only_gdal_can_read_do_not_pass() -> None:
    """Nothing is known of how they are stored."""
    assert "only GDAL can read it" in str(problem_of(FIRST, None))


@pytest.mark.parametrize(("col", "row", "passes"), [(16, 32, True), (17, 32, False), (16, 31, False)])
def test_tiles_pass_if_the_window_begins_at_a_corner_of_them(col: int, row: int, *, passes: bool) -> None:
    """It may end anywhere on the raster."""
    found = problem_of(Window(col_off=col, row_off=row, width=5, height=5), DEFLATED)

    assert found == (
        None
        if passes
        else f"the window begins at pixel ({col}, {row}), not at a corner of its tiles of 16 x 16"
    )


def test_window_that_overhangs_does_not_pass() -> None:
    """The source has no tile there."""
    window = Window(col_off=32, row_off=0, width=9, height=16)

    assert problem_of(window, DEFLATED) == "the window lies partly outside it"
    assert problem_of(replace(window, width=8), DEFLATED) is None


def test_tiles_pass_if_they_are_stored_like_those_of_the_array() -> None:
    """The difference comes first, also where other properties are in the way."""
    other = replace(DEFLATED, predictor=2, is_interleaved=True)

    assert problem_of(FIRST, DEFLATED, like=DEFLATED) is None
    assert problem_of(FIRST, other, like=DEFLATED) == "its predictor is horizontal, not none"


@pytest.mark.parametrize(
    ("coding", "expected"),
    [
        ({"compression": "none"}, BY_ZARR),
        ({"compression": "zstd"}, BY_ZARR),
        ({"compression": "deflate"}, BY_ZARR),
        ({"compression": "deflate", "predictor": 2}, BY_IMAGECODECS),
        ({"compression": "lzw"}, BY_IMAGECODECS),
    ],
)
def test_readers_of_kept_tiles_need_imagecodecs_for_predictors_and_rare_codecs(
    coding: dict[str, Any], expected: str
) -> None:
    """zarr-python has the usual codecs by itself."""
    assert readers_of(replace(DEFLATED, **coding)).startswith(expected)


def test_a_plan_that_keeps_tiles_says_who_can_read_them_and_what_is_not_known() -> None:
    """Its chunks are the tiles."""
    plan = keeping(image(predictor=2), image(predictor=2))

    assert plan.passes_through
    assert plan.layout.chunk == (1, 16, 16)
    assert plan.slots[0].coding == replace(DEFLATED, predictor=2)
    assert plan.warnings[0].startswith(
        "the cube keeps the sources' tiles (deflate with predictor 2): zarr-python with imagecodecs"
    )
    assert plan.warnings[1] == (
        "no pixel is decoded: min, max, mean and valid_fraction are NaN, and there are no quicklooks. "
        "Digests are of the compressed bytes. Damaged tiles are not noticed"
    )
    assert plan.to_json()["layout"]["codec"] == "source"
    [decoding] = [each for each in plan.estimate.figures if each.what == "seconds of store"]
    assert "tiles are stored as they are" in decoding.rests_on[0]


def test_a_plan_that_decodes_says_nothing_of_tiles() -> None:
    """It does not keep how they are stored, either."""
    plan = planned(FakeReader({"a": image()}), table_of("a"))

    assert (plan.warnings, plan.slots[0].coding, plan.passes_through) == ((), None, False)


def test_a_plan_refuses_sources_whose_tiles_differ() -> None:
    """It names the source, and has no window to offer."""
    with pytest.raises(RequestError) as caught:
        keeping(image(), image(), image(compression="zstd"))

    assert caught.value.field == "output.codec"
    assert str(caught.value).endswith(
        "tiles cannot be kept as they are (codec source). s3://b/2: its compression is zstd, not deflate. "
        "Gather with another codec, or choose another window or list"
    )


@pytest.mark.parametrize(
    ("pixels", "offered"),
    [((3, 20, 5, 5), "0,16,16,16"), ((16, 5, 17, 20), "16,0,32,32"), ((7, 0, 9, 16), "0,0,16,16")],
)
def test_a_plan_offers_the_whole_tiles_around_the_window(pixels: tuple[int, ...], offered: str) -> None:
    """The window does not begin at a corner of tiles."""
    with pytest.raises(RequestError, match=rf"the tiles around this window are --pixels {offered}$"):
        keeping(image(), window={"pixels": list(pixels)})


def test_a_plan_offers_no_tiles_of_strips() -> None:
    """There are none."""
    with pytest.raises(
        RequestError, match=r"in strips, not in tiles\. Gather with another codec, .* or list$"
    ):
        keeping(image(is_tiled=False), window={"pixels": [3, 3, 5, 5]})


def test_a_plan_that_keeps_tiles_takes_no_other_chunks() -> None:
    """The chunks are given."""
    with pytest.raises(RequestError, match="leave layout out") as caught:
        keeping(image(), output={"layout": "slice"})

    assert caught.value.field == "output.layout"


def test_a_plan_refuses_bands_whose_tiles_have_different_sizes() -> None:
    """A cube has one size of chunks."""
    row = red_and_nir("a", "b")
    wide = FakeImage(pixels=A, header={"tile_width": 20, "coding": replace(DEFLATED, tile_width=20)})
    reader = FakeReader({"a": image(), "b": wide})

    with pytest.raises(RequestError, match="only if all have one size, and those of the bands differ"):
        planned(
            reader,
            FakeTable((row,), bands=("red", "nir")),
            window={"pixels": [0, 0, 16, 16]},
            output={"codec": "source"},
        )


@pytest.mark.parametrize(
    ("predictor", "needed"),
    [(1, "zarr-python with icechunk opens"), (2, "with icechunk and imagecodecs opens")],
)
def test_a_cube_by_reference_says_so(predictor: int, needed: str) -> None:
    """It needs Icechunk, and its digests are of versions."""
    plan = keeping(image(predictor=predictor), by_reference=True)

    assert plan.warnings[0].startswith("the cube refers to the sources' tiles (deflate")
    assert needed in plan.warnings[0]
    assert "Digests are of ETags and positions of tiles" in plan.warnings[1]
