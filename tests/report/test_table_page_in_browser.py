"""The page of a table in a headless Chromium: at three widths, in both themes."""

from collections.abc import Iterator

import pytest

from pixel_gather import points, write_table_page
from rank.rasters import landscape, make_cog
from support.browser import LOADED, Page, needs_browser, opened_browser, violations

pytestmark = [pytest.mark.slow, needs_browser]

GONE = "S2B_MSIL2A_20240601T101109_R022_T32TPS_20240601T121533"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of two images and a missing one."""
    folder = tmp_path_factory.mktemp("table")
    rows = [
        {"href": str(make_cog(folder / f"{n}.tif", landscape(n))), "time": f"2024-06-0{n + 1}"}
        for n in range(2)
    ]
    rows.append({"href": str(folder / f"{GONE}.tif"), "time": "2024-06-09", "scene": GONE})
    plots = [{"id": f"plot {n}", "x": 500_100.0 + 90.0 * n, "y": 4_999_500.0 - 40.0 * n} for n in range(8)]
    points(plots, {"rows": rows}, to=folder / "plots.parquet", id="id", crs="EPSG:32633")
    write_table_page(folder / "plots.parquet", folder / "plots.html")
    return (folder / "plots.html").as_uri()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return one tab for all tests."""
    with opened_browser() as opened:
        yield opened


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_the_page_of_a_table_fits_its_window_and_is_accessible(
    page: Page, width: int, *, is_dark: bool, address: str
) -> None:
    """Charts are as high on a telephone, no short word is broken, and axe finds nothing."""
    page.look(width=width, height=900, is_dark=is_dark)
    page.open_(address, until=LOADED)
    heights = page.run(
        "[...document.querySelectorAll('.chart')].map(it => it.getBoundingClientRect().height)"
    )
    lines = page.run(
        "[...document.querySelectorAll('td:not(.text)')].map(it => it.getClientRects()[0].height"
        " - parseFloat(getComputedStyle(it).paddingTop) * 2 > 2 * parseFloat(getComputedStyle(it).lineHeight)"
        " && (() => { const range = document.createRange(); range.selectNodeContents(it);"
        " return range.getClientRects().length > 1; })())"
    )

    assert page.run("document.documentElement.scrollWidth") <= width
    assert heights == [200, 200]
    assert lines
    assert not any(lines)
    assert violations(page) == []
