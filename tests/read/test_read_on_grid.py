"""Sources whose pixels are not those of the cube's grid, read into a shard."""

from typing import Any

import numpy as np

from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform
from support.fakes import UTM, FakeImage, FakeReader, table_of
from support.plans import planned
from support.read_rows import read_rows

BOX = {"bbox": [UTM.c + 40, UTM.f - 200, UTM.c + 160, UTM.f - 40], "crs": "source"}


def image(width: float, seed: int, **more: Any) -> FakeImage:
    """Return an image of 240 m with pixels of this width."""
    n = round(240 / width)
    pixels = np.random.default_rng(seed).integers(1, 999, (1, n, n), "uint16")
    transform = Transform(width, 0.0, UTM.c, 0.0, -width, UTM.f)
    return FakeImage(pixels=pixels, header={"transform": transform, "nodata": 0}, **more)


def test_each_source_gets_its_own_whole_number() -> None:
    """Sources of 20 m and of 10 m share a band of 10 m, and are placed and told on its grid."""
    reader = FakeReader({"a": image(20, 1), "b": image(10, 2)})
    plan = planned(reader, table_of("a", "b"), window=BOX, grid={"resolution": 10})

    pixels, outcomes = read_rows(plan, reader, "a", "b")

    coarse, fine = (reader.images[name].pixels[0] for name in "ab")  # type: ignore[union-attr] # both are images
    np.testing.assert_array_equal(pixels[0], coarse.repeat(2, axis=0).repeat(2, axis=1)[4:20, 4:16])
    np.testing.assert_array_equal(pixels[1], fine[4:20, 4:16])
    assert {each.transform for each in outcomes} == {Transform(10, 0, UTM.c + 40, 0, -10, UTM.f - 40)}
    assert {each.extent for each in outcomes} == {(0, 0, 12, 16)}


def test_source_that_is_finer_than_all_of_the_sample_is_unlike() -> None:
    """The plan has no memory for it."""
    reader = FakeReader({"a": image(20, 1)})
    plan = planned(reader, table_of("a"), window=BOX, grid={"resolution": 40})
    finer = FakeReader({"a": image(10, 1)})

    pixels, (outcome,) = read_rows(plan, finer, "a")

    assert outcome.status is Status.UNLIKE
    assert outcome.reason == (
        "4 x 4 of its pixels make one of the grid, more than the 2 x 2 of the sources that were sampled"
    )
    assert not pixels.any()
    assert not finer.windows


def test_pixels_that_a_source_hides_itself_are_missing_on_the_grid() -> None:
    """They do not count in a mean, and are repeated as missing ones."""
    hidden = np.zeros((24, 24), dtype=bool)
    hidden[4:8, 4:8] = hidden[9, 9] = True
    reader = FakeReader({"a": image(10, 1, hidden=hidden)})
    shown = np.where(hidden, 0, reader.images["a"].pixels[0].astype("int64"))  # type: ignore[union-attr] # an image

    for resolution in (20, 5):
        plan = planned(reader, table_of("a"), window=BOX, grid={"resolution": resolution}, masked=True)
        pixels, _ = read_rows(plan, reader, "a")
        if resolution == 5:
            expected = shown.repeat(2, axis=0).repeat(2, axis=1)[8:40, 8:32]
        else:
            blocks = shown.reshape(12, 2, 12, 2)
            n = (blocks != 0).sum(axis=(1, 3))
            expected = ((2 * blocks.sum(axis=(1, 3)) + n) // np.maximum(2 * n, 1))[2:10, 2:8]
        np.testing.assert_array_equal(pixels[0], expected)
