"""Real Sentinel-2 scenes: bands of 10, 20 and 60 m on one grid, clouds hidden, medians, and offsets."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio
import xarray as xr

from parity.truth import full_data
from support.undrawn import gather_undrawn

type Pixels = np.ndarray[Any, np.dtype[Any]]

_FULL: Final = full_data()
pytestmark = [
    pytest.mark.full_data,
    pytest.mark.slow,
    pytest.mark.skipif(_FULL is None, reason="the folder of real files is not there"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

_FOLDER: Final = (_FULL or Path()) / "files/mapchete-eo"
_BANDS: Final = {"B02": 10, "B08": 10, "B05": 20, "B11": 20, "B01": 60, "B09": 60}
_DATES: Final = {
    "20230810": "S2B",
    "20230813": "S2B",
    "20230815": "S2A",
    "20230818": "S2A",
    "20230820": "S2B",
}
_CLOUDS: Final = [3, 8, 9, 10]
_WINDOW: Final = (400, 300, 200, 180)
"""Of the scenes of 2023, which have no place on the map: first column, first row, width and height."""


def read(file: Path, window: tuple[int, int, int, int] | None = None) -> Pixels:
    """Return pixels as rasterio reads them."""
    with rasterio.open(file) as opened:
        found: Pixels = opened.read(1, window=None if window is None else rasterio.windows.Window(*window))
        return found


def opened(place: Path) -> xr.Dataset:
    """Open a cube as it is stored."""
    cube: xr.Dataset = xr.open_zarr(place, mask_and_scale=False).load()
    return cube


@pytest.mark.long
def test_bands_of_three_resolutions_lie_on_one_grid(tmp_path: Path) -> None:
    """They are repeated as NumPy repeats them. The window begins within a pixel of 20 m and of 60 m."""
    files = {band: _FOLDER / f"T33SVB_20181229T095411_{band}_{side}m.jp2" for band, side in _BANDS.items()}
    rows = [
        {"href": str(file), "band": band, "scene": "T33SVB", "time": "2018-12-29T09:54:11Z"}
        for band, file in files.items()
    ]
    west, south, east, north = 419_290, 4_159_990, 420_390, 4_161_170
    request = {
        "sources": {"rows": rows},
        "window": {"bbox": [west, south, east, north], "crs": "source"},
        "grid": {"resolution": "finest"},
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.status_counts == {"ok": len(_BANDS)}
    for band, file in files.items():
        with rasterio.open(file) as source:
            left, top = round(west - source.transform.c) // 10, round(source.transform.f - north) // 10
            times = _BANDS[band] // 10
            repeated = source.read(1).repeat(times, axis=0).repeat(times, axis=1)
        wanted = repeated[top : top + (north - south) // 10, left : left + (east - west) // 10]
        assert wanted.any()
        np.testing.assert_array_equal(cube[band].values[0], wanted)


def scenes() -> dict[str, Any]:
    """Return the scenes of five dates: blue, and the classes that say where clouds are."""
    rows = [
        {
            "href": str(_FOLDER / f"{platform}_33TWL_{date}_0_L2A__{file}.tif"),
            "band": band,
            "scene": date,
            "time": f"{date[:4]}-{date[4:6]}-{date[6:]}",
        }
        for date, platform in _DATES.items()
        for band, file in (("blue", "B02"), ("scl", "SCL"))
    ]
    return {"rows": rows}


def clear_pixels() -> Pixels:
    """Return the blue of all dates, shape (date, y, x), with NaN for clouds and for what has no data."""
    of_dates = []
    for date, platform in _DATES.items():
        blue, scl = (
            read(_FOLDER / f"{platform}_33TWL_{date}_0_L2A__{band}.tif", _WINDOW) for band in ("B02", "SCL")
        )
        of_dates.append(np.where((blue == 0) | (scl == 0) | np.isin(scl, _CLOUDS), np.nan, blue))
    return np.stack(of_dates)


REQUEST: Final[dict[str, Any]] = {
    "window": {"pixels": list(_WINDOW)},
    "nodata": 0,
    "mask": {"band": "scl", "drop": [0, *_CLOUDS]},
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:Mean of empty slice")
@pytest.mark.parametrize(
    ("statistic", "of"),
    [("median", np.nanmedian), ("mean", np.nanmean), ("max", np.nanmax), ("first", None)],
)
def test_reductions_of_clear_pixels_are_numpys(tmp_path: Path, statistic: str, of: Any) -> None:
    """Of a window that is partly cloudy on each date, and wholly clear on none."""
    request = REQUEST | {"sources": scenes(), "reduce": {"by": "month", "statistic": statistic}}
    gather_undrawn(request, to=tmp_path / "cube")

    pixels = clear_pixels()
    hidden = np.isnan(pixels).mean(axis=(1, 2))
    assert 0 < hidden.max() < 1
    if of is None:  # the first date that is clear there
        is_clear = ~np.isnan(pixels)
        wanted = np.take_along_axis(pixels, is_clear.argmax(axis=0)[None], axis=0)[0]
    else:
        wanted = of(pixels, axis=0)
    found = opened(tmp_path / "cube")["blue"].values[0]
    if found.dtype.kind == "u":
        wanted = np.nan_to_num(wanted)
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))


@pytest.mark.long
def test_scenes_with_and_without_their_offset_become_equal(tmp_path: Path) -> None:
    """The files have the offset applied. Originals are made of them: ESA has added 1000 since 2022."""
    rows, wanted = [], []
    for date, platform in _DATES.items():
        file = _FOLDER / f"{platform}_33TWL_{date}_0_L2A__B02.tif"
        blue = read(file)
        original = np.where(blue == 0, 0, np.minimum(blue, 64_000) + 1000).astype("uint16")
        made = tmp_path / f"{date}.tif"
        with rasterio.open(
            made, "w", "GTiff", blue.shape[1], blue.shape[0], 1, dtype="uint16", tiled=True
        ) as target:
            target.write(original, 1)
            target.scales, target.offsets = (0.0001,), (-0.1,)
        claim = {"scale_claimed": 0.0001, "offset_claimed": -0.1}
        time = f"{date[:4]}-{date[4:6]}-{date[6:]}"
        rows += [{"href": str(href), "time": time} | claim for href in (made, file)]
        col, row, width, height = _WINDOW
        wanted.append(original[row : row + height, col : col + width])
    request = {
        "sources": {"rows": rows},
        "window": REQUEST["window"],
        "nodata": 0,
        "values": "harmonised",
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.n_failed == 0
    states = cube["offset_state"].values.reshape(-1, 2)
    meanings = cube["offset_state"].attrs["flag_meanings"].split()
    assert {meanings[each] for each in states[:, 0]} == {"not_applied"}
    for at, state in enumerate(states[:, 1]):
        original_too, processed = cube["band_1"].values[2 * at : 2 * at + 2]
        np.testing.assert_array_equal(original_too, wanted[at])
        if meanings[state] == "applied":
            np.testing.assert_array_equal(processed, wanted[at])
        else:  # no pixel of the window is dark enough to deny the claim: nothing is guessed
            assert meanings[state] == "undecided"
            np.testing.assert_array_equal(processed, np.where(wanted[at] == 0, 0, wanted[at] - 1000))
    assert "applied" in {meanings[each] for each in states[:, 1]}
