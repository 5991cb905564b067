"""The page of a series in a headless Chromium: at three widths, in both themes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pixel_gather.features.series.page import write_page
from support.browser import LOADED, Page, needs_browser, opened_browser, violations

pytestmark = [pytest.mark.slow, needs_browser]

FAILED = 3
ROWS = [
    {
        "time": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(12 * n),
        "scene": f"S2B_MSIL2A_202401{n:02}T101109_R022_T32TPS_20240101T121533",
        "href": f"s3://bucket/{n}.tif",
        "valid": n != FAILED,
        "status": "missing" if n == FAILED else "ok",
        "reason": "no such object" if n == FAILED else None,
        "ndvi": None if n == FAILED else 0.5 + 0.04 * n,
    }
    for n in range(9)
]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return one tab for all tests."""
    with opened_browser() as opened:
        yield opened


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_series_fits_its_window_and_is_accessible(
    page: Page, width: int, *, is_dark: bool, tmp_path: Path
) -> None:
    """The chart is in sight, nothing is cut off on the right, and axe finds nothing."""
    write_page(ROWS, tmp_path / "series.html", title="NDVI at 11.35, 46.5")
    page.look(width=width, height=900, is_dark=is_dark)
    page.open_((tmp_path / "series.html").as_uri(), until=LOADED)
    left, top, right, bottom = page.run(
        "(({ left, top, right, bottom }) => [left, top, right, bottom])"
        "(document.querySelector('figure svg').getBoundingClientRect())"
    )

    assert page.run("document.documentElement.scrollWidth") <= width
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= 900
    assert page.run("document.querySelectorAll('.value').length") == 8
    assert violations(page) == []
