"""Tests finding the band and the scene in hrefs, and the patterns that would tell bands apart."""

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.io.lists.href_band import (
    band_finder,
    note_of_equal_times,
    note_of_names,
    note_of_words,
    pattern_of_bands,
)
from pixel_gather.io.lists.href_time import AUTO

LC08 = "LC08_L2SP_193028_20210704_20210712_02_T1"
SAFE = "S2A_MSIL2A_20210704T101031_N0301_R022_T32TPS_20210704T132601"
RTC = "OPERA_L2_RTC-S1_T124-264305-IW1_20240601T051234Z_20240602T010203Z_S1A_30_v1.0"
DIST = "OPERA_L3_DIST-ALERT-HLS_T10TEM_20230125T190159Z_20230126T010203Z_L8_30_v1"
ECO = "ECOv002_L2T_LSTE_35123_001_33UUU_20240920T123456_0712_01"
GRD = "S1A_IW_GRDH_1SDV_20210704T052613_20210704T052638_038649_048F9A_B8BB"


@pytest.mark.parametrize(
    ("href", "band", "scene"),
    [
        (f"s3://b/{LC08}/{LC08}_SR_B4.TIF", "SR_B4", LC08),
        (f"s3://b/{LC08}/{LC08}_QA_PIXEL.TIF", "QA_PIXEL", LC08),
        (
            "s3://b/LT05_L1TP_193028_19850704_20200918_02_T1_B4.TIF",
            "B4",
            "LT05_L1TP_193028_19850704_20200918_02_T1",
        ),
        (
            "s3://b/LC08_CU_030006_20210704_20210715_02_SR_B4.TIF",
            "SR_B4",
            "LC08_CU_030006_20210704_20210715_02",
        ),
        ("s3://b/LC08_L1TP_013032_20181201_B2.TIF", "B2", "LC08_L1TP_013032_20181201"),
        ("s3://b/S2A_33TWL_20230818_0_L2A__SCL.tif", "SCL", "S2A_33TWL_20230818_0_L2A"),
        ("s3://b/LC81930282021185LGN00_B4.TIF", "B4", "LC81930282021185LGN00"),
        (
            f"s3://b/{SAFE}.SAFE/GRANULE/L2A_T/IMG_DATA/R10m/T32TPS_20210704T101031_B04_10m.jp2",
            "B04_10m",
            SAFE,
        ),
        (
            f"s3://b/{SAFE}.SAFE/GRANULE/L2A_T/IMG_DATA/R20m/T32TPS_20210704T101031_B05_20m.jp2",
            "B05_20m",
            SAFE,
        ),
        ("s3://b/T32TPS_20210704T101031_B04.jp2", "B04", "T32TPS_20210704T101031"),
        ("s3://b/32/T/PS/2021/7/S2B_32TPS_20210704_0_L2A/B04.tif", "B04", "S2B_32TPS_20210704_0_L2A"),
        ("https://h/S2B_T32TPS_20210704T101559_L2A/SCL.tif?sig=a", "SCL", "S2B_T32TPS_20210704T101559_L2A"),
        ("s3://sentinel-s2-l1c/tiles/32/T/PS/2021/7/14/0/B04.jp2", "B04", "tiles_32_T_PS_2021_7_14_0"),
        (
            "s3://sentinel-s2-l2a/tiles/32/T/PS/2021/7/14/0/R20m/B04.jp2",
            "R20m_B04",
            "tiles_32_T_PS_2021_7_14_0",
        ),
        (f"s3://b/GRD/2021/7/4/IW/DV/{GRD}/measurement/iw-vh.tiff", "vh", GRD),
        (
            f"s3://b/{GRD}.SAFE/measurement/s1a-iw-grd-vv-20210704t052613-20210704t052638-038649-048f9a-001.tiff",
            "vv",
            GRD,
        ),
        ("s3://b/HLS.L30.T13TEF.2021185T173512.v2.0.B04.tif", "B04", "HLS.L30.T13TEF.2021185T173512.v2.0"),
        (
            "s3://b/HLS.S30.T13TEF.2021185T173512.v2.0.Fmask.tif",
            "Fmask",
            "HLS.S30.T13TEF.2021185T173512.v2.0",
        ),
        (f"s3://b/{RTC}/{RTC}_VV.tif", "VV", RTC),
        (f"s3://b/{DIST}_VEG-DIST-STATUS.tif", "VEG-DIST-STATUS", DIST),
        (f"s3://b/{ECO}_LST_err.tif", "LST_err", ECO),
    ],
)
def test_auto_knows_bands_and_scenes_of_products(href: str, band: str, scene: str) -> None:
    """All bands of a product have one scene. Those of other resolutions have another name."""
    assert band_finder(AUTO)(href) == (band, scene)


@pytest.mark.parametrize(
    "href",
    ["s3://b/red.tif", f"s3://b/{LC08}_MTL.txt", "s3://b/prcp-189501.tif", f"s3://b/{SAFE}.SAFE/MSK_20m.jp2"],
)
def test_auto_guesses_no_other_bands(href: str) -> None:
    """A file that names no band has none."""
    assert band_finder(AUTO)(href) is None


def test_a_pattern_says_where_the_band_is() -> None:
    """Files that differ in nothing but the band are one scene; its name is short, and folders count."""
    find = band_finder(r"[_/](red|nir)\.tif")
    hrefs = ("/a/d1_red.tif", "/a/d1_nir.tif", "/b/d1_red.tif", "/c/d2/red.tif", "/c/d2/nir.tif")
    found = [find(href) for href in hrefs]

    assert [each.band for each in found if each] == ["red", "nir", "red", "red", "nir"]
    scenes = [each.scene for each in found if each]
    assert scenes[0] == scenes[1] != scenes[2]
    assert scenes[3] == scenes[4]
    assert [scene[:-9] for scene in scenes] == ["d1", "d1", "d1", "d2", "d2"]


def test_a_pattern_may_name_the_scene() -> None:
    """Its group counts, wherever it stands."""
    assert band_finder(r"(\w+)/(?P<scene>\d+)\.tif")("/a/red/2024.tif") == ("red", "2024")
    assert band_finder(r"(?P<scene>\d+)/x_(?P<band>\w+)")("/2024/x_red.tif") == ("red", "2024")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("_B4", "in parentheses"), ("(a)(b)", "only the band"), ("(a", "not a regular expression")],
)
def test_a_pattern_that_is_wrong_is_refused(pattern: str, said: str) -> None:
    """The error says what to write."""
    with pytest.raises(RequestError, match=said) as caught:
        band_finder(pattern)

    assert caught.value.field == "sources.band"


def test_a_band_that_no_array_can_be_called_is_refused() -> None:
    """The error names the file."""
    with pytest.raises(RequestError, match=r"'time' would collide .*/a/time\.tif"):
        band_finder(r"/(\w+)\.tif")("/a/time.tif")


@pytest.mark.parametrize(
    ("same_time", "pattern"),
    [
        ([["/x/1_red.tif", "/x/1_nir.tif"], ["/x/2_red.tif", "/x/2_nir.tif"]], r"_(red|nir)\."),
        ([["/x/red/1.tif", "/x/nir/1.tif"]], r"/(red|nir)/"),
        ([["/x/a_red_1.tif", "/x/a_nir_1.tif", "/x/b_red_1.tif", "/x/b_nir_1.tif"]], r"_(red|nir)_"),
        ([[f"/x/{LC08}_SR_B4.TIF", f"/x/{LC08}_SR_B5.TIF"]], "auto"),
        ([["/x/1.B02", "/x/1.B03"]], r"\.(B02|B03)$"),
        ([["/x/one_thing.tif", "/x/another.tif"]], None),
        ([[f"/x/{n}.tif" for n in range(50)]], None),
    ],
)
def test_the_pattern_of_bands_is_found_in_names_of_one_time(
    same_time: list[list[str]], pattern: str | None
) -> None:
    """It finds each file's band, and puts bands of a scene together. There is none where nothing does."""
    assert pattern_of_bands(same_time) == pattern


def test_a_pattern_that_does_not_fit_all_files_is_not_told() -> None:
    """It would be refused: a list has bands in all lines, or in none."""
    same_time = [["/x/1_red.tif", "/x/1_nir.tif"]]

    assert pattern_of_bands(same_time, ["/x/1_red.tif", "/x/2_red.tif"]) == r"_(red|nir)\."
    assert pattern_of_bands(same_time, ["/x/1_red.tif", "/x/2.tif"]) is None


def test_names_of_several_bands_are_told() -> None:
    """One band, and names of no product, are not."""
    told = note_of_names([f"/x/{LC08}_SR_B{n}.TIF" for n in range(1, 8)])

    assert told is not None
    assert "several bands (SR_B1, SR_B2, SR_B3, SR_B4, ...)" in told
    assert "run) auto" in told
    assert note_of_names([f"/x/{LC08}_SR_B4.TIF"]) is None
    assert note_of_names(["/x/red.tif", "/x/nir.tif"]) is None


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["red.tif", "nir.tif"], r"/(red|nir)\."),
        (["a_red.tif", "a_nir.tif", "b_red.tif"], r"_(red|nir)\."),
        (["L8-B1-VA.tiff", "L8-B10-VA.tiff", "L8-BQA-VA.tiff"], r"\-(B1|B10|BQA)\-"),
        (["B8A/7.tif", "B08/7.tif"], r"/(B8A|B08)/"),
    ],
)
def test_names_of_bands_are_told_where_no_time_is_known(names: list[str], pattern: str) -> None:
    """The remark has the pattern that tells them apart."""
    told = note_of_words([f"/x/{name}" for name in names])

    assert told is not None
    assert f"run) '{pattern}'" in told


@pytest.mark.parametrize(
    "names",
    [
        ["red.tif"],
        ["a_1.tif", "a_2.tif"],
        ["red.tif", "mask.tif"],
        ["a_red.tif", "b_red.tif"],
        ["a.tif", "b_nir.tif"],
    ],
)
def test_other_words_are_no_bands(names: list[str]) -> None:
    """A wrong remark would be read by everybody who has tiles or dates."""
    assert note_of_words([f"/x/{name}" for name in names]) is None


@pytest.mark.parametrize(
    ("hrefs", "shown"),
    [
        (
            ["s3://a/x/1.tif", "s3://a/x/2.tif"],
            "s3://a/x/1.tif and 2.tif. Each is a row, or a scene, by itself. ",
        ),
        (["s3://a/x/nir/1.tif", "s3://a/x/not/2.tif"], ": s3://a/x/nir/1.tif and not/2.tif. "),
        (["s3://a/1.tif", "s3://b/1.tif"], ": s3://a/1.tif and s3://b/1.tif. "),
        (["file:///x/1.tif", "file:///y/1.tif"], ": file:///x/1.tif and file:///y/1.tif. "),
    ],
)
def test_files_of_one_time_are_named_in_few_words(hrefs: list[str], shown: str) -> None:
    """The second one without the folders of the first."""
    told = note_of_equal_times(2, 5, [hrefs])

    assert told.startswith("2 of 5 files have the time of another: ")
    assert shown in told


def test_rows_of_one_time_may_be_bands_that_no_scene_joins() -> None:
    """Their names differ in more than the band, so the remark says how they become one row."""
    told = note_of_equal_times(2, 5, [["s3://a/x_B04_10m.tif", "s3://a/x_SCL_20m.tif"]], has_bands=True)

    assert told.startswith("2 of 5 rows have the time of another: s3://a/x_B04_10m.tif and x_SCL_20m.tif. ")
    assert "a group (?P<scene>...) in the pattern of bands" in told
