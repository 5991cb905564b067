"""Gathers of other values than raw ones: original and processed scenes of one place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixel_gather import Settings, join, make_plan, replay, verify
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.scaling import OffsetState
from pixel_gather.core.model.status import Status
from support.images import write_image
from support.undrawn import gather_undrawn, opened

type Pixels = np.ndarray[Any, np.dtype[Any]]

SIDE = 64
REQUEST: dict[str, Any] = {"window": {"pixels": [0, 0, SIDE, SIDE]}, "values": "harmonised"}
CLAIM = {"scale_claimed": 0.0001, "offset_claimed": -0.1}
APPLIED, NOT_APPLIED, UNDECIDED = OffsetState


def reflectances() -> Pixels:
    """Return a place as its processed scene has it: dark pixels, and some without data."""
    random = np.random.default_rng(3)
    pixels = random.integers(1, 9000, (SIDE, SIDE), dtype="uint16")
    pixels[random.random((SIDE, SIDE)) < 0.1] = 0
    return pixels


def write(
    folder: Path, name: str, pixels: Pixels, *, declares: tuple[float, float] = (1.0, 0.0), nodata: Any = 0
) -> str:
    """Write a scene of the place."""
    return write_image(folder / f"{name}.tif", pixels, scaling=declares, nodata=nodata)


def original(pixels: Pixels) -> Pixels:
    """Return a scene from before the offset was applied."""
    found: Pixels = np.where(pixels == 0, 0, pixels + 1000).astype(pixels.dtype)
    return found


@pytest.mark.long
def test_original_and_processed_scenes_become_equal(tmp_path: Path) -> None:
    """As in earth-search issues 66 and 71: both claim the offset, and one of them has it already."""
    processed = reflectances()
    bright = np.where(processed == 0, 0, processed // 4 + 5000).astype("uint16")
    rows = [
        {"href": write(tmp_path, "original", original(processed), declares=(0.0001, -0.1))},
        {"href": write(tmp_path, "processed", processed)} | CLAIM,
        {"href": write(tmp_path, "claimed", original(processed))} | CLAIM,
        {"href": write(tmp_path, "bright", bright)} | CLAIM,
        {"href": write(tmp_path, "without", processed), "scale_claimed": 0.0001},
        {"href": write(tmp_path, "silent", processed)},
    ]

    gathered = gather_undrawn(REQUEST | {"sources": {"rows": rows}}, to=tmp_path / "cube")

    cube, wanted = opened(tmp_path / "cube"), original(processed)
    assert gathered.report.n_failed == 0
    expected = [wanted, wanted, wanted, bright, wanted, processed]
    np.testing.assert_array_equal(cube["band_1"].values, np.stack(expected))
    darkest = processed[processed > 0].min()
    states = [NOT_APPLIED, APPLIED, UNDECIDED, UNDECIDED, APPLIED, UNDECIDED]
    assert cube["offset_state"].values.tolist() == states
    assert cube["offset_state"].attrs["flag_meanings"] == "applied not_applied undecided"
    assert cube["offset_reason"].values.tolist() == [
        "the file declares a scale of 0.0001 and an offset of -0.1",
        f"the darkest pixel, {darkest}, denies the claimed offset of -0.1; +1000 was added to its pixels",
        "the list claims an offset of -0.1, and no pixel is dark enough to tell",
        "the list claims an offset of -0.1, and no pixel is dark enough to tell",
        "the list says a scale of 0.0001 and an offset of 0; +1000 was added to its pixels",
        "neither the file nor the list says a scale or an offset",
    ]
    np.testing.assert_array_equal(cube["add_offset"], [-0.1, -0.1, 0, 0, -0.1, 0])
    np.testing.assert_array_equal(cube["scale_factor"], [0.0001, 0.0001, 1, 1, 0.0001, 1])
    assert cube["min"].values[1] == wanted[wanted > 0].min()
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 6}


@pytest.mark.long
def test_later_rows_and_second_tries_are_harmonised_as_the_first(tmp_path: Path) -> None:
    """The cube keeps the offset. A second try heeds what the list claimed."""
    processed = reflectances()
    rows: list[dict[str, Any]] = [
        {"href": write(tmp_path, "original", original(processed), declares=(0.0001, -0.1))} | CLAIM,
        {"href": write(tmp_path, "processed", processed)} | CLAIM,
    ]
    request = REQUEST | {"sources": {"rows": rows}}
    away = Path(rows[1]["href"]).rename(tmp_path / "away")
    gather_undrawn(request, to=tmp_path / "cube")
    assert opened(tmp_path / "cube")["offset_state"].values.tolist() == [NOT_APPLIED, 255]
    later = {"href": write(tmp_path, "later", processed)} | CLAIM
    away.rename(rows[1]["href"])

    more = {"sources": {"rows": [later]}, "output": {"append_to": str(tmp_path / "cube")}}
    gather_undrawn(REQUEST | more)

    cube = opened(tmp_path / "cube")
    np.testing.assert_array_equal(cube["band_1"].values, np.stack([original(processed)] * 3))
    assert cube["offset_state"].values.tolist() == [NOT_APPLIED, APPLIED, APPLIED]
    assert cube["band_1"].attrs["add_offset"] == -0.1
    assert replay(tmp_path / "cube").counts == {"same": 3}
    with pytest.raises(RequestError, match="the cube has harmonised values; the new rows") as no:
        gather_undrawn(request | more | {"values": "raw"})
    assert no.value.field == "values"


@pytest.mark.long
@pytest.mark.parametrize(
    ("pixel", "declares", "reason"),
    [
        (65_000, (0.0001, 0.0), "with +1000 its pixels are 65000 to 66000, which uint16 cannot hold"),
        (5, (0.0001, 0.00005), "its offset is 5e-05, the cube's -0.1: 1000.5 steps of the scale"),
        (5, (0.001, 0.0), "its scale is 0.001, the cube's 0.0001"),
        (5, (0.0001, -0.1005), "some of its pixels are 0, which means no data"),
        (3, (0.0001, -0.1005), "with -5 its pixels are -2 to -2, which uint16 cannot hold"),
    ],
)
def test_what_has_no_whole_step_is_unlike(
    tmp_path: Path, pixel: int, declares: tuple[float, float], reason: str
) -> None:
    """Never clamped, never wrapped."""
    first = write(tmp_path, "first", original(reflectances()), declares=(0.0001, -0.1))
    gather_undrawn(REQUEST | {"sources": {"rows": [{"href": first}]}}, to=tmp_path / "cube")
    other = np.full((SIDE, SIDE), pixel, dtype="uint16")
    if "65000" in reason:
        other[0, 0] = 64_000
    href = write(tmp_path, "other", other, declares=declares)

    more = {"sources": {"rows": [{"href": href}]}, "output": {"append_to": str(tmp_path / "cube")}}
    gathered = gather_undrawn(REQUEST | more)

    cube = opened(tmp_path / "cube")
    assert cube["status"].values.tolist() == [Status.OK, Status.UNLIKE]
    assert reason in gathered.report.causes[0].reason
    assert not cube["band_1"].values[1].any()
    assert cube["offset_state"].values[1] == 255


def test_floats_get_a_step_that_is_not_whole(tmp_path: Path) -> None:
    """And NaN stays NaN."""
    values = reflectances().astype("float32") / 8
    values[0] = np.nan
    rows = [
        {"href": write(tmp_path, "one", values, declares=(0.5, -1.0), nodata=None)},
        {"href": write(tmp_path, "other", values, declares=(0.5, -0.75), nodata=None)},
    ]

    gather_undrawn(REQUEST | {"sources": {"rows": rows}}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    np.testing.assert_array_equal(cube["band_1"].values, np.stack([values, values + np.float32(0.5)]))
    assert cube["band_1"].attrs["add_offset"] == -1.0


@pytest.mark.long
def test_bands_are_harmonised_before_they_are_masked(tmp_path: Path) -> None:
    """A band is judged by all of its pixels, also by those that the mask hides. The mask stays as it is."""
    processed, classes = reflectances(), np.random.default_rng(4).integers(1, 5, (SIDE, SIDE), dtype="uint16")
    classes[processed == processed[processed > 0].min()] = 3  # hides the pixel that denies the claim
    red: list[dict[str, Any]] = [
        {"time": "2024-01-01", "scale": 0.0001, "offset": -0.1}
        | {"href": write(tmp_path, "original", original(processed), nodata=None)},
        {"time": "2024-02-01"} | CLAIM | {"href": write(tmp_path, "processed", processed, nodata=None)},
    ]
    scl = [
        each
        | {"href": write(tmp_path, f"scl-{each['time']}", classes, nodata=None)}  # catalogs claim it of all
        for each in red
    ]
    rows = [each | {"band": "red"} for each in red] + [each | {"band": "scl"} for each in scl]
    request = REQUEST | {"nodata": 0, "mask": {"band": "scl", "drop": [3]}, "sources": {"rows": rows}}

    gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    shown = np.where(classes == 3, 0, original(processed))
    np.testing.assert_array_equal(cube["red"].values, np.stack([shown] * 2))
    np.testing.assert_array_equal(cube["scl"].values, np.stack([classes] * 2))
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 4}


def physical(pixels: Pixels) -> Pixels:
    """Return what an original scene stands for, as NumPy computes it in float64."""
    values = np.where(pixels == 0, np.nan, pixels.astype("float64") * 0.0001 + -0.1)
    return values.astype("float32")


@pytest.mark.long
def test_scaled_pixels_are_what_those_of_each_source_stand_for(tmp_path: Path) -> None:
    """By its own scale and offset, with NaN for what is missing. What is undecided is not guessed."""
    processed = reflectances()
    rows = [
        {"href": write(tmp_path, "original", original(processed), declares=(0.0001, -0.1))},
        {"href": write(tmp_path, "processed", processed)} | CLAIM,
        {"href": write(tmp_path, "claimed", original(processed))} | CLAIM,
        {"href": write(tmp_path, "other", processed, declares=(0.5, 3.0))},
        {"href": write(tmp_path, "silent", processed)},
        {"href": write(tmp_path, "known", original(processed)), "scale": 0.0001, "offset": -0.1},
    ]
    request = REQUEST | {"values": "scaled", "sources": {"rows": rows}}
    planned = make_plan(request)

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    assert planned.to_json()["values"] == "scaled"
    cube = opened(tmp_path / "cube")
    assert cube["band_1"].dtype == "float32"
    assert not {"scale_factor", "add_offset", "_FillValue"} & cube["band_1"].attrs.keys()
    of_processed = np.where(processed == 0, np.nan, processed * 0.0001).astype("float32")
    of_other = np.where(processed == 0, np.nan, processed * 0.5 + 3).astype("float32")
    no = np.full_like(of_other, np.nan)
    expected = [physical(original(processed)), of_processed, no, of_other, no, physical(original(processed))]
    np.testing.assert_array_equal(cube["band_1"].values, np.stack(expected))
    assert cube["status"].values.tolist() == [0, 0, Status.UNLIKE, 0, Status.UNLIKE, 0]
    states = [NOT_APPLIED, APPLIED, 255, NOT_APPLIED, 255, NOT_APPLIED]
    assert cube["offset_state"].values.tolist() == states
    tell = "if you know it, give the list columns scale and offset"
    assert {each.reason for each in gathered.report.causes} == {
        f"the list claims an offset of -0.1, and no pixel is dark enough to tell: {tell}",
        f"neither the file nor the list says a scale or an offset: {tell}",
    }
    assert cube["valid_fraction"].values[0] == np.isfinite(expected[0]).mean()
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 6}


@pytest.mark.long
@pytest.mark.parametrize("values", ["harmonised", "scaled"])
def test_complex_numbers_have_raw_values_alone(tmp_path: Path, values: str) -> None:
    """Half of each number would be lost. Beside real numbers, a complex source is unlike the cube."""
    real, pixels = reflectances().astype("float32"), reflectances().astype("complex64") * (1 + 2j)
    number = write(tmp_path, "complex", pixels, nodata=None)

    with pytest.raises(RequestError, match="band_1 is complex64, and complex numbers stay raw"):
        make_plan(REQUEST | {"values": values, "sources": [number]})
    mixed = [{"href": write(tmp_path, "real", real), "scale": 2, "offset": 1}, {"href": number}]
    gathered = gather_undrawn(REQUEST | {"values": values, "sources": {"rows": mixed}}, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    assert gathered.report.n_failed == 1
    assert cube["status"].values.tolist() == [Status.OK, Status.UNLIKE]
    assert np.isfinite(cube["band_1"].values[0]).any()
    missing = np.nan if values == "scaled" else cube["band_1"].attrs["_FillValue"]
    np.testing.assert_array_equal(cube["band_1"].values[1], np.full((SIDE, SIDE), missing))


@pytest.mark.long
def test_scaled_cubes_grow_hide_clouds_and_keep_classes(tmp_path: Path) -> None:
    """Masked pixels and those outside of a source are NaN; the mask keeps its dtype."""
    processed, classes = reflectances(), np.random.default_rng(4).integers(1, 5, (SIDE, SIDE), dtype="uint8")
    rows: list[dict[str, Any]] = []
    for n in (0, 1):
        time = {"time": f"2024-0{n + 1}-01"}
        href = write(tmp_path, f"red-{n}", original(processed), declares=(0.0001, -0.1), nodata=None)
        rows.append({"href": href, "band": "red"} | time)
        rows.append({"href": write(tmp_path, f"scl-{n}", classes, nodata=None), "band": "scl"} | time)
    request = REQUEST | {"values": "scaled", "nodata": 0, "mask": {"band": "scl", "drop": [3]}}
    request["window"] = {"pixels": [0, 8, SIDE, SIDE]}  # 8 lines lie outside
    gather_undrawn(request | {"sources": {"rows": rows[:2]}}, to=tmp_path / "cube")

    more = {"sources": {"rows": rows[2:]}, "output": {"append_to": str(tmp_path / "cube")}}
    gather_undrawn(request | more)

    cube = opened(tmp_path / "cube")
    shown = np.where(classes == 3, np.nan, physical(original(processed))).astype("float32")
    inside = np.vstack([shown[8:], np.full((8, SIDE), np.nan, "float32")])
    np.testing.assert_array_equal(cube["red"].values, np.stack([inside] * 2))
    assert cube["scl"].dtype == "uint8"
    np.testing.assert_array_equal(cube["scl"].values[:, :-8], np.stack([classes[8:]] * 2))
    assert verify(tmp_path / "cube").is_same
    assert replay(tmp_path / "cube").counts == {"same": 4}
    with pytest.raises(RequestError, match="the cube has scaled values; the new rows"):
        gather_undrawn(request | more | {"values": "harmonised", "duplicates": "again"})


@pytest.mark.long
def test_cubes_of_other_values_are_not_copied_into_one(tmp_path: Path) -> None:
    """Though their dtype, scale and offset may be equal."""
    pixels = reflectances().astype("float32")
    rows = [{"href": write(tmp_path, "one", pixels, nodata=None)}]
    for values in ("raw", "harmonised", "scaled"):
        gather_undrawn(REQUEST | {"values": values, "sources": {"rows": rows}}, to=tmp_path / values)
    for one, other in (("raw", "harmonised"), ("raw", "scaled"), ("harmonised", "scaled")):
        with pytest.raises(RequestError, match="values"):
            join([tmp_path / one, tmp_path / other], to=tmp_path / "copy", mode="copy")


def test_a_mask_in_the_file_of_other_bands_is_refused(tmp_path: Path) -> None:
    """Its numbers are classes, and one array of memory holds the bands of a file."""
    write(tmp_path, "two", np.stack([reflectances()] * 2))
    request = REQUEST | {"sources": [str(tmp_path / "two.tif")], "mask": {"band": "band_2", "drop": [3]}}
    for values in ("harmonised", "scaled"):
        with pytest.raises(
            RequestError, match="band_2 holds classes or is the mask, and its files hold other"
        ):
            make_plan(request | {"values": values})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"output": {"codec": "source"}}, "codec source keeps tiles as they are, so values stay raw"),
        (
            {"window": None, "windows": {"table": "x.csv", "size": [8, 8]}, "grid": "same"},
            "windows does not go with grid",
        ),
    ],
)
def test_refused_in_words(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    """What cannot have other values than the files."""
    href = write(tmp_path, "one", reflectances())
    with pytest.raises(RequestError, match=message):
        make_plan(REQUEST | {"sources": {"rows": [{"href": href}]}} | more)


def test_strips_are_refused(tmp_path: Path) -> None:
    """Each would have another darkest pixel."""
    href = write(tmp_path, "one", reflectances())
    request = REQUEST | {"sources": {"rows": [{"href": href}]}, "output": {"layout": {"chunk": [1, 8, 64]}}}
    with pytest.raises(RequestError, match="the darkest pixel is one of all"):
        make_plan(request, settings=Settings(max_task_nbytes=2000))
