"""Gathers that hide pixels by a band: cubes equal rasterio's arrays under scipy's dilation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from scipy import ndimage

from pixel_gather import Settings, make_plan, replay, verify
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.status import Status
from support.images import write_image
from support.resolutions import NORTH, WEST, scenes, write_band
from support.undrawn import gather_undrawn, opened

type Pixels = np.ndarray[Any, np.dtype[Any]]

BOX = (WEST + 400, NORTH - 1840, WEST + 1680, NORTH - 560)
DROP = [3, 8]
BANDS = {"red": 10, "scl": 20}
REQUEST: dict[str, Any] = {
    "window": {"bbox": BOX, "crs": "source"},
    "grid": {"resolution": "finest"},
    "mask": {"band": "scl", "drop": DROP},
}


def bands_of(rows: list[dict[str, Any]], scene: str) -> dict[str, Pixels]:
    """Return the window of each band of a scene on the grid of 10 m, as rasterio reads it."""
    found = {}
    for row in rows:
        if row["scene"] == scene:
            with rasterio.open(row["href"]) as source:
                pixels = source.read(1)
            times = BANDS[row["band"]] // 10
            found[row["band"]] = pixels.repeat(times, axis=0).repeat(times, axis=1)[56:184, 40:168]
    return found


def hidden(scl: Pixels, dilate: int) -> Pixels:
    """Return which pixels are hidden: the classes, what is around them, and what has no class."""
    structure = np.ones((2 * dilate + 1, 2 * dilate + 1))
    found: Pixels = ndimage.binary_dilation(np.isin(scl, DROP), structure) | (scl == 0)
    return found


@pytest.mark.parametrize("layout", ["balanced", {"chunk": [1, 16, 16], "shard_rows": 1}])
@pytest.mark.parametrize("dilate", [0, 3])
def test_hidden_pixels_are_missing(tmp_path: Path, dilate: int, layout: Any) -> None:
    """Bit for bit, in every layout. The mask itself stays, and its share is told for each row."""
    sources = scenes(tmp_path, 3, BANDS)
    request = REQUEST | {
        "sources": sources,
        "mask": {"band": "scl", "drop": DROP, "dilate": dilate},
        "output": {"layout": layout},
    }

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.n_failed == 0
    for at in range(3):
        bands = bands_of(sources["rows"], f"s{at}")
        away = hidden(bands["scl"], dilate)
        np.testing.assert_array_equal(cube["scl"].values[at], bands["scl"])
        np.testing.assert_array_equal(cube["red"].values[at], np.where(away, 0, bands["red"]))
        assert cube["masked"].values[at] == away.mean()
        shown = np.where(away, 0, bands["red"])
        assert cube["valid_fraction"].values[at, 0] == np.float32((shown != 0).mean())
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 6}


def test_bits_hide_pixels(tmp_path: Path) -> None:
    """A band of flags, and floats without nodata, whose hidden pixels are NaN."""
    flags = np.arange(64 * 64, dtype="uint16").reshape(64, 64)
    values = np.random.default_rng(1).random((64, 64), dtype="float32")
    rows = [
        {"href": write_image(tmp_path / f"{name}.tif", pixels, nodata=None), "band": name, "scene": "a"}
        for name, pixels in (("qa_pixel", flags), ("lst", values))
    ]
    mask = {"band": "qa_pixel", "bits": {"cloud": 3, "shadow": 4}}
    request = {"sources": {"rows": rows}, "window": {"pixels": [0, 0, 64, 64]}, "mask": mask}

    gather_undrawn(request, to=tmp_path / "cube")

    away = (flags & 0b11000) != 0
    np.testing.assert_array_equal(opened(tmp_path / "cube")["lst"][0], np.where(away, np.nan, values))
    assert opened(tmp_path / "cube")["masked"].values == [away.mean()]


@pytest.mark.long
def test_strips_hide_the_same_pixels(tmp_path: Path) -> None:
    """The share is that of the whole window. Dilation across strips is refused in words."""
    small = {"layout": {"chunk": [1, 8, 32]}}
    request = REQUEST | {"sources": scenes(tmp_path, 2, BANDS), "output": small}
    narrow = Settings(max_task_nbytes=20_000)
    gather_undrawn(request, to=tmp_path / "whole")
    assert make_plan(request, settings=narrow).n_strips > 2

    gather_undrawn(request, to=tmp_path / "strips", settings=narrow)

    whole, strips = opened(tmp_path / "whole"), opened(tmp_path / "strips")
    for name in ("red", "scl", "masked"):
        np.testing.assert_array_equal(whole[name], strips[name])
    with pytest.raises(RequestError, match="strips, and a mask is not dilated across them") as error:
        make_plan(request | {"mask": REQUEST["mask"] | {"dilate": 1}}, settings=narrow)
    assert error.value.field == "mask.dilate"


def test_a_row_without_its_mask_is_never_shown(tmp_path: Path) -> None:
    """Where the mask is not read, or the list has none, no pixel counts, and the status says so."""
    sources = scenes(tmp_path, 3, BANDS)
    rows = [each for each in sources["rows"] if (each["scene"], each["band"]) != ("s1", "scl")]
    Path(next(each["href"] for each in rows if each["scene"] == "s0" and each["band"] == "scl")).unlink()

    gathered = gather_undrawn(REQUEST | {"sources": {"rows": rows}}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert cube["status"].values.tolist() == [
        [Status.UNMASKED, Status.MISSING],
        [Status.UNMASKED, Status.ABSENT],
        [Status.OK, Status.OK],
    ]
    assert not cube["red"].values[:2].any()
    assert np.isnan(cube["masked"].values).tolist() == [True, True, False]
    assert gathered.report.status_counts == {"unmasked": 2, "missing": 1, "absent": 1, "ok": 2}
    assert {each.reason for each in gathered.report.causes if each.status == "unmasked"} == {
        "its mask, scl, is missing: no such object",
        "the list names no source of its mask, scl",
    }
    again = gather_undrawn(REQUEST | {"sources": {"rows": rows}, "output": {"append_to": tmp_path / "cube"}})
    assert (again.n_retried, again.n_recovered) == (3, 0)
    assert again.report.causes == gathered.report.causes
    assert verify(tmp_path / "cube").is_same


def lose(sources: dict[str, Any], band: str) -> tuple[Path, Path]:
    """Move a file of the first scene away. Return where it was, and where it is."""
    file = Path(
        next(each["href"] for each in sources["rows"] if each["scene"] == "s0" and each["band"] == band)
    )
    return file, file.rename(file.with_suffix(".away"))


@pytest.mark.long
@pytest.mark.parametrize("band", ["red", "scl"])
def test_failed_rows_are_tried_again_with_their_mask(tmp_path: Path, band: str) -> None:
    """A second try stores what a first one would have, whichever band had failed."""
    sources = scenes(tmp_path, 2, BANDS)
    request = REQUEST | {"sources": sources, "mask": {"band": "scl", "drop": DROP, "dilate": 2}}
    gather_undrawn(request, to=tmp_path / "whole")
    file, away = lose(sources, band)
    gather_undrawn(request, to=tmp_path / "cube")
    failed = {"red": [Status.MISSING, Status.OK], "scl": [Status.UNMASKED, Status.MISSING]}[band]
    assert opened(tmp_path / "cube")["status"].values.tolist() == [failed, [0, 0]]

    away.rename(file)
    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    whole, cube = opened(tmp_path / "whole"), opened(tmp_path / "cube")
    assert not cube["status"].values.any()
    for name in ("red", "scl", "masked", "valid_fraction"):
        np.testing.assert_array_equal(whole[name], cube[name])
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
def test_a_mask_that_was_replaced_since_hides_nothing_but_the_row(tmp_path: Path) -> None:
    """The other bands of the row were hidden by the former version. The committed mask stays."""
    sources = scenes(tmp_path, 2, BANDS)
    request = REQUEST | {"sources": sources}
    file, away = lose(sources, "red")
    gather_undrawn(request, to=tmp_path / "cube")
    before = opened(tmp_path / "cube")["scl"].values
    mask = Path(
        next(each["href"] for each in sources["rows"] if each["scene"] == "s0" and each["band"] == "scl")
    )
    write_band(tmp_path, "scl", 20, seed=77).replace(mask)
    away.rename(file)

    gather_undrawn(request | {"output": {"append_to": str(tmp_path / "cube")}})

    cube = opened(tmp_path / "cube")
    assert cube["status"].values.tolist() == [[Status.UNMASKED, Status.OK], [0, 0]]
    assert not cube["red"].values[0].any()
    np.testing.assert_array_equal(cube["scl"], before)
    assert verify(tmp_path / "cube").is_same


@pytest.mark.long
def test_rows_that_are_added_get_the_cubes_mask(tmp_path: Path) -> None:
    """Also if their request says nothing of it. Another mask is refused, with both."""
    sources = scenes(tmp_path, 4, BANDS)
    first, later = (
        {"rows": [each for each in sources["rows"] if (each["scene"] < "s2") is early]}
        for early in (True, False)
    )
    gather_undrawn(REQUEST | {"sources": sources}, to=tmp_path / "whole")
    gather_undrawn(REQUEST | {"sources": first}, to=tmp_path / "cube")
    append = {"window": REQUEST["window"], "sources": later, "output": {"append_to": str(tmp_path / "cube")}}
    with pytest.raises(RequestError) as error:
        gather_undrawn(append | {"mask": {"band": "scl", "drop": [3], "dilate": 1}})
    assert str(error.value) == (
        "mask: the cube has pixels hidden where scl has the values 3, 8; the new rows would have pixels "
        "hidden where scl has the value 3, and 1 pixel around"
    )

    assert gather_undrawn(append).n_appended == 2

    whole, cube = opened(tmp_path / "whole"), opened(tmp_path / "cube")
    for name in ("red", "scl", "masked"):
        np.testing.assert_array_equal(whole[name], cube[name])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"mask": {"band": "fmask", "drop": [1]}},
            "mask.band: the cube has no band fmask; it has red, scl. Name it",
        ),
        (
            {"mask": {"band": "scl", "drop": [1], "bits": [1]}},
            "mask: give either drop, the values that hide a pixel, or bits, counted from 0",
        ),
        ({"mask": {"band": "scl", "drop": [1], "dilate": 99}}, "mask.dilate: it is 99; the most is 64"),
        (
            {"grid": "any", "window": {"pixels": [0, 0, 9, 9]}, "output": {"codec": "source"}},
            "leave mask out",
        ),
    ],
)
def test_wrong_masks_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """Before a pixel is read."""
    with pytest.raises(RequestError, match=said):
        make_plan(REQUEST | {"sources": scenes(tmp_path, 1, BANDS)} | change)


def test_hidden_pixels_need_a_value(tmp_path: Path) -> None:
    """Integers without nodata have none; floats are no mask."""
    sources = scenes(tmp_path, 1, BANDS)
    with rasterio.open(sources["rows"][0]["href"], "r+") as target:
        target.nodata = None
    with pytest.raises(
        RequestError, match="hidden pixels need a nodata value, and the sources of red declare none"
    ):
        make_plan(REQUEST | {"sources": sources})
    assert make_plan(REQUEST | {"sources": sources, "nodata": 0}).mask is not None


@pytest.mark.parametrize("masked", [True, False])
def test_an_append_by_other_masks_of_the_files_is_warned_of(tmp_path: Path, *, masked: bool) -> None:
    """Rows of one cube would differ in what they hide."""
    listed = [write_image(tmp_path / f"{n}.tif", np.full((32, 32), 7, "uint8")) for n in range(3)]
    request = {"window": {"pixels": [0, 0, 8, 8]}}
    gather_undrawn(request | {"sources": listed[:1], "masked": masked}, to=tmp_path / "cube")
    append = request | {"output": {"append_to": tmp_path / "cube"}}

    alike = gather_undrawn(append | {"sources": listed[1:2], "masked": masked})
    other = gather_undrawn(append | {"sources": listed[2:], "masked": not masked})

    (warning,) = [each for each in other.report.warnings if "own mask" in each]
    assert f"give masked: {str(masked).lower()} to read all rows alike" in warning
    assert warning.startswith("the cube's first rows hide") is masked
    assert not [each for each in alike.report.warnings if "own mask" in each]
