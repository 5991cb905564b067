"""Tests finding the time of observation in hrefs."""

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.time_range import format_moment
from pixel_gather.io.lists.href_time import AUTO, guess_pattern, time_finder


def found(pattern: str, href: str) -> str | None:
    """Return the time that a pattern finds, in ISO 8601."""
    time_us = time_finder(pattern)(href)
    return None if time_us is None else format_moment(time_us)


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("s3://b/LC08_L2SP_193028_20210704_20210712_02_T1_SR_B4.TIF", "2021-07-04T00:00:00Z"),
        ("s3://b/LT05_L1TP_193028_19850704_20200918_02_T1_B4.TIF", "1985-07-04T00:00:00Z"),
        ("s3://b/LC08_CU_030006_20210704_20210715_02_SR_B4.TIF", "2021-07-04T00:00:00Z"),
        ("s3://b/LC81930282021185LGN00_B4.TIF", "2021-07-04T00:00:00Z"),
        ("s3://b/S2A_MSIL2A_20210704T101031_N0301_R022_T32TPS_20210704T132601.tif", "2021-07-04T10:10:31Z"),
        ("s3://b/T32TPS_20210704T101031_B04_10m.jp2", "2021-07-04T10:10:31Z"),
        ("s3://b/32/T/PS/2021/7/S2B_32TPS_20210704_0_L2A/B04.tif", "2021-07-04T00:00:00Z"),
        ("s3://sentinel-s2-l2a/tiles/32/T/PS/2021/7/14/0/B04.jp2", "2021-07-14T00:00:00Z"),
        ("s3://b/MOD13Q1.A2020366.h18v04.061.2021202231848_NDVI.tif", "2020-12-31T00:00:00Z"),
        ("s3://b/MYD09.A2021185.1035.061.tif", "2021-07-04T10:35:00Z"),
        ("s3://b/VNP09GA.A2021185.h18v04.001.tif", "2021-07-04T00:00:00Z"),
        ("s3://b/HLS.L30.T13TEF.2021185T173512.v2.0.B04.tif", "2021-07-04T17:35:12Z"),
        ("s3://b/S1A_IW_GRDH_1SDV_20210704T052613_20210704T052638.tif", "2021-07-04T05:26:13Z"),
        (
            "s3://b/OPERA_L2_RTC-S1_T124-264305-IW1_20240601T051234Z_20240602T010203Z_S1A_30_v1.0_VV.tif",
            "2024-06-01T05:12:34Z",
        ),
        (
            "s3://b/ECOv002_L2T_LSTE_35123_001_33UUU_20240920T123456_0712_01_LST.tif",
            "2024-09-20T12:34:56Z",
        ),
        ("s3://b/EMIT_L2A_RFL_001_20240601T101010_2415307_001.tif", "2024-06-01T10:10:10Z"),
        ("s3://b/20240601_101010_12_2414_3B_AnalyticMS_SR.tif", "2024-06-01T10:10:10Z"),
        ("s3://b/20240601_101010_ssc1_u0001_analytic.tif", "2024-06-01T10:10:10Z"),
        ("s3://b/m_4207101_ne_19_060_20210901_20220101.tif", "2021-09-01T00:00:00Z"),
        ("s3://b/m_4207101_ne_19_h_20160708.tif", "2016-07-08T00:00:00Z"),
        ("s3://b/LC08_L2SP_193028_20210230_20210712_02_T1_SR_B4.TIF", None),
        ("s3://b/MOD13Q1.A2021366.h18v04.061.tif", None),
        ("s3://b/MOD13Q1.A2021000.h18v04.061.tif", None),
        ("s3://b/20210704/scene_20210704.tif", None),
        ("s3://b/20210704_101010.tif", None),
        ("s3://b/nclimgrid-prcp-189501.tif", None),
    ],
)
def test_auto_knows_the_usual_names_and_guesses_no_others(href: str, expected: str | None) -> None:
    """The day of observation is found, not that of processing. Other digits are no time."""
    assert found(AUTO, href) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("prcp-%Y%m", "1895-02-01T00:00:00Z"),
        ("/%Y/", "1901-01-01T00:00:00Z"),
        (r"t%Y-%m-%d[ T]%H:%M", "1902-03-04T05:06:00Z"),
        ("x%Y%j", "1903-02-01T00:00:00Z"),
        ("100%%_%Y", "1904-01-01T00:00:00Z"),
        ("nothing%Y", None),
    ],
)
def test_pattern_says_where_the_time_stands(pattern: str, expected: str | None) -> None:
    """Missing parts default to the first month, day, hour and so on."""
    href = "s3://b/1901/prcp-189502_t1902-03-04T05:06_x1903032_100%_1904.tif"

    assert found(pattern, href) == expected


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("%m%d", "no %Y"),
        ("%Y%d", "%d but no %m"),
        ("%Y%M", "%M but no %H"),
        ("%Y%j%m", "both %j"),
        ("%Y_%Y", "%Y twice"),
        ("%Y%b", "it has %b; write %Y, %m"),
        ("%Y%", "it has %; write %Y, %m"),
        ("(%Y", "not a regular expression"),
    ],
)
def test_pattern_that_is_wrong_is_refused(pattern: str, says: str) -> None:
    """The error says what to write."""
    with pytest.raises(RequestError, match=says) as caught:
        time_finder(pattern)

    assert caught.value.field == "sources.time"


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["scene_000_20240101.tif", "scene_001_20240202.tif"], r"_%Y%m%d\."),
        (["20240101_a.tif", "20240202.tif"], "/%Y%m%d"),
        (["a_20240101_b.tif", "a-20240202_b.tif"], "%Y%m%d_"),
        (["x.20240101T101112Z.tif"], r"\.%Y%m%dT%H%M%SZ"),
        (["a_12024010134.tif"], None),  # digits beside it
        (["a_20241301.tif"], None),  # no month
        (["a_10240101.tif"], None),  # no likely year
        (["a_20240101.tif", "b.tif"], None),
        (["20240101/a.tif"], None),  # a folder
        (["rain%_2024-01-15.tif"], r"_%Y-%m-%d\."),
        (["50%2024_01.tif"], r"%%%Y_%m\."),
    ],
)
def test_a_pattern_is_guessed_from_all_names(names: list[str], pattern: str | None) -> None:
    """It finds a time in each of them."""
    hrefs = [f"s3://bucket/2019/{name}" for name in names]

    guessed = guess_pattern(hrefs)

    assert guessed == pattern
    assert pattern is None or None not in map(time_finder(pattern), hrefs)
