"""What becomes of the bands of scenes that are reduced to one row."""

from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.cube_plan import Measurement, SourceSlot, StoredValues
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.plan_reduction import reduced_measurements
from pixel_gather.core.request.request import parse_request
from support.fakes import header_of

GRID = Grid.of(header_of(np.zeros((1, 50, 40), "uint16"), "a"))
WINDOW = Window(col_off=0, row_off=0, width=8, height=8)
CLASSES = BandMeaning(classes=(BandClass(value=1, name="water", colour=None),))


def slot(*bands: int, dtype: str = "uint16") -> SourceSlot:
    """Return a slot that reads some bands of its sources."""
    return SourceSlot(name=None, dtype=dtype, bands=bands, grid=GRID, window=WINDOW)


def measured(name: str = "red", *, at: int = 0, dtype: str = "uint16", **changes: Any) -> Measurement:
    """Return a measurement of the scenes."""
    given = {"nodata": 0, "scale": 0.5, "offset": 3.0} | changes
    return Measurement(name=name, slot=at, dtype=dtype, **given)


def reduced(
    statistic: str,
    *scenes: Measurement,
    slots: tuple[SourceSlot, ...] = (),
    n_scenes: int = 9,
    **request: Any,
) -> tuple[tuple[SourceSlot, ...], tuple[Measurement, ...]]:
    """Return slots and measurements of the cube."""
    asked = {"sources": "l.csv", "window": "centre", "reduce": {"by": "month", "statistic": statistic}}
    slots = slots or (slot(1, dtype=scenes[0].dtype),)
    return reduced_measurements(parse_request(asked | request), slots, scenes, n_scenes=n_scenes)


@pytest.mark.parametrize(
    ("statistic", "dtype", "expected"),
    [
        ("median", "uint8", "float32"),
        ("mean", "int16", "float32"),
        ("mean", "float32", "float32"),
        ("median", "int32", "float64"),  # float32 cannot hold all of its values
        ("mean", "uint64", "float64"),
        ("mean", "float64", "float64"),
    ],
)
def test_statistics_that_no_pixel_has_are_as_exact_as_the_pixels(
    statistic: str, dtype: str, expected: str
) -> None:
    """They have no nodata, but NaN. Scale and offset stay."""
    (kept,), (made,) = reduced(statistic, measured(dtype=dtype))

    assert made == measured(dtype=expected, nodata=None)
    assert kept.dtype == expected


@pytest.mark.parametrize("statistic", ["first", "last", "min", "max"])
def test_statistics_that_are_pixels_stay_as_the_pixels_are(statistic: str) -> None:
    """So do classes. Scaled values are stored as such."""
    stored = StoredValues(nodata=0, scale=0.5, offset=3.0)
    pixels = measured(meaning=CLASSES)
    scaled = measured(dtype="float32", nodata=None, stored=stored)

    assert reduced(statistic, pixels)[1] == (pixels,)
    assert reduced(statistic, scaled)[1] == (replace(scaled, stored=None),)
    assert reduced("mean", scaled)[1] == (replace(scaled, stored=None),)


@pytest.mark.parametrize(("n_scenes", "dtype"), [(65_535, "uint16"), (65_536, "uint32")])
def test_counts_are_as_large_as_there_are_scenes(n_scenes: int, dtype: str) -> None:
    """They are amounts: without nodata, scale, offset and classes."""
    (_,), (made,) = reduced("count", measured(meaning=CLASSES), n_scenes=n_scenes)

    assert made == measured(dtype=dtype, nodata=None, scale=1.0, offset=0.0, meaning=BandMeaning(unit="1"))


@pytest.mark.parametrize("statistic", ["first", "mean", "count"])
def test_a_cube_has_all_bands_of_its_scenes_but_the_mask(statistic: str) -> None:
    """A slot with the mask alone goes. One with other bands, too, keeps these."""
    slots = (slot(1), slot(1, 2, 4))
    scenes = [measured(name, at=at) for name, at in (("a", 0), ("b", 1), ("c", 1), ("d", 1))]

    of_c = reduced(statistic, *scenes, slots=slots, mask={"band": "c", "drop": [3]})
    of_a = reduced(statistic, *scenes, slots=slots, mask={"band": "a", "drop": [3]})

    assert [each.bands for each in of_c[0]] == [(1,), (1, 4)]
    assert [(each.name, each.slot) for each in of_c[1]] == [("a", 0), ("b", 1), ("d", 1)]
    assert [each.bands for each in of_a[0]] == [(1, 2, 4)]
    assert [(each.name, each.slot) for each in of_a[1]] == [("b", 0), ("c", 0), ("d", 0)]


@pytest.mark.parametrize(
    ("statistic", "scene", "request_", "said"),
    [
        ("mean", {"meaning": CLASSES}, {}, "red holds classes, which have no mean: leave it out"),
        (
            "first",
            {"nodata": None},
            {},
            "where no scene has a pixel, a row needs nodata, and .* of red declare",
        ),
        (
            "mean",
            {"dtype": "complex64"},
            {},
            "red is complex64, and no mean is made of them: write count, first",
        ),
        (
            "max",
            {"dtype": "complex64"},
            {},
            "red is complex64, and complex numbers have no order: write count",
        ),
        (
            "first",
            {},
            {"mask": {"band": "red", "drop": [3]}},
            "^mask.band: the mask is the only band: name an",
        ),
    ],
)
def test_what_has_no_such_statistic_is_refused(
    statistic: str, scene: dict[str, Any], request_: dict[str, Any], said: str
) -> None:
    """The error names the band, and what to write."""
    with pytest.raises(RequestError, match=said):
        reduced(statistic, measured(**scene), **request_)


@pytest.mark.parametrize(
    ("statistic", "scene"),
    [("first", {"dtype": "complex64", "nodata": None}), ("max", {"dtype": "float32", "nodata": None})],
)
def test_pixels_that_can_be_nan_need_no_nodata(statistic: str, scene: dict[str, Any]) -> None:
    """It is what a row holds where no scene has a pixel."""
    assert reduced(statistic, measured(**scene))[1] == (measured(**scene),)
