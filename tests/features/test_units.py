"""Units of the sources' values, from the files to the cube and to what is made of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr
from rasterio.transform import from_origin

from pixel_gather import Gathered, export, points, verify, write_table_page, zones
from pixel_gather.core.model.shown import linked
from pixel_gather.core.results.report_content import ArrayScaling
from pixel_gather.tables.base_table import BaseTable
from support.command_line import run
from support.undrawn import gather_undrawn


def _files(folder: Path, units: Sequence[tuple[str, ...]], *, crs: str = "EPSG:4326") -> list[str]:
    """Write one file of two bands for each of ``units``."""
    files = [folder / f"{n}.tif" for n in range(len(units))]
    for file, said in zip(files, units, strict=True):
        options: dict[str, Any] = {"crs": crs, "transform": from_origin(8, 47, 0.1, 0.1)}
        with rasterio.open(file, "w", width=16, height=16, count=2, dtype="int16", **options) as target:
            target.write(np.arange(512, dtype="int16").reshape(2, 16, 16))
            target.units = said
            target.scales, target.offsets = (0.1, 1.0), (-100.0, 0.0)
    return [str(file) for file in files]


def _gathered(folder: Path, *units: tuple[str, ...], crs: str = "EPSG:4326") -> Gathered:
    """Gather the files that `_files` writes."""
    request = {"sources": _files(folder, units, crs=crs), "window": {"pixels": [0, 0, 16, 16]}}
    return gather_undrawn(request, to=folder / "cube.zarr")


def _units(gathered: Gathered) -> list[str | None]:
    group = zarr.open_group(gathered.place, mode="r")
    return [group[name].attrs.get("units") for name in ("band_1", "band_2")]  # type: ignore[misc]


def test_a_cube_has_the_units_of_its_files(tmp_path: Path) -> None:
    """Xarray makes no durations of days."""
    gathered = _gathered(tmp_path, ("\u00b0C", "days"))

    assert _units(gathered) == ["\u00b0C", "day"]
    with xr.open_zarr(gathered.place) as opened:
        assert opened["band_2"].dtype.kind in "if"


@pytest.mark.long
@pytest.mark.parametrize(
    ("crs", "units"),
    [("EPSG:4326+5773", ("", "")), ("EPSG:4326+5773", ("mm", "")), ("EPSG:26910+6360", ("", ""))],
)
def test_heights_have_the_unit_of_their_crs(crs: str, units: tuple[str, ...], tmp_path: Path) -> None:
    """As GDAL has it: metres, or feet."""
    gathered = _gathered(tmp_path, units, crs=crs)

    with rasterio.open(tmp_path / "0.tif") as file:
        assert _units(gathered) == list(file.units)


def test_units_that_differ_are_not_said(tmp_path: Path) -> None:
    """The plan warns. The other band keeps its unit."""
    gathered = _gathered(tmp_path, ("mm", "K"), ("inch", "K"))

    assert _units(gathered) == [None, None]
    assert any("declare different units" in each for each in gathered.report.warnings)


def test_geotiffs_of_a_cube_have_its_units(tmp_path: Path) -> None:
    """Where one looks for them in the sources."""
    gathered = _gathered(tmp_path, ("mm", ""))
    (file,) = export(gathered.place, to=tmp_path / "row.tif")

    with rasterio.open(file) as opened:
        assert opened.units == ("mm", None)
        assert opened.scales == (0.1, 1.0)


def test_numbers_whose_rows_have_scales_of_their_own_have_no_unit(tmp_path: Path) -> None:
    """Neither for readers of CF, nor for what draws pictures. A GeoTIFF has it, beside its scale."""
    files = _files(tmp_path, [("K", ""), ("K", "")])
    with rasterio.open(files[1], "r+") as target:
        target.scales, target.offsets = (0.2, 1.0), (-50.0, 0.0)
    place = tmp_path / "cube.zarr"
    gathered = gather_undrawn({"sources": files[:1], "window": {"pixels": [0, 0, 16, 16]}}, to=place)
    assert _units(gathered) == ["K", None]

    append = {"sources": files, "window": {"pixels": [0, 0, 16, 16]}, "output": {"append_to": place}}
    gathered = gather_undrawn(append)

    assert _units(gathered) == [None, None]
    group = zarr.open_group(place, mode="r")
    assert group["band_1"].attrs["scaled_units"] == "K"
    assert ArrayScaling.of_attributes(group["band_1"].attrs).unit == ""
    for file in export(place, to=tmp_path / "row.tif"):
        with rasterio.open(file) as opened:
            assert opened.units == ("K", None)
    assert verify(place).is_same


_PLACE = (8.75, 46.25)
_SQUARE = {
    "type": "Polygon",
    "coordinates": [[[8.2, 46.2], [9.2, 46.2], [9.2, 46.8], [8.2, 46.8], [8.2, 46.2]]],
}


def _units_of(table: Path) -> dict[str, str]:
    units: dict[str, str] = BaseTable.of_images(table).receipt["units"]
    return units


def test_a_table_of_points_has_the_units_of_physical_values(tmp_path: Path) -> None:
    """Band 1 has a scale: as it is stored it has no unit. An expression has none, nor has a count."""
    files, to = _files(tmp_path, [("mm", "K"), ("mm", "K")]), tmp_path / "t.parquet"
    plot = [{"lon": _PLACE[0], "lat": _PLACE[1]}]

    points(plot, files, to=to)
    assert _units_of(to) == {"b2": "K"}

    dated = {"rows": [{"href": file, "time": f"2024-01-0{n + 1}"} for n, file in enumerate(files)]}
    to = tmp_path / "dated.parquet"
    points(plot, dated, to=to, by="b1,both=b1+b2", square=3)
    assert _units_of(to) == {"b1": "mm"}
    write_table_page(to, tmp_path / "t.html")
    assert "b1 (mm)" in (tmp_path / "t.html").read_text()


def test_statistics_of_zones_have_units_where_they_are_values(tmp_path: Path) -> None:
    """A variance and a count are none."""
    files, to = _files(tmp_path, [("mm", "K")]), tmp_path / "t.parquet"

    zones(_SQUARE, files, to=to, by="b1", statistics="mean,variance,count,p10,frac_4,majority,sum")

    assert _units_of(to) == dict.fromkeys(("mean", "p10", "majority"), "mm")


def test_a_table_says_no_unit_on_which_its_images_differ(tmp_path: Path) -> None:
    """Also if the other one comes later. An append that reads nothing takes none away."""
    files, to = _files(tmp_path, [("mm", "K"), ("inch", "K")]), tmp_path / "t.parquet"
    plot = [{"lon": _PLACE[0], "lat": _PLACE[1]}]

    points(plot, files[:1], to=to, by="b1,b2")
    points(plot, [files[0], str(tmp_path / "gone.tif")], append_to=to, by="b1,b2")
    assert _units_of(to) == {"b1": "mm", "b2": "K"}

    points(plot, files, append_to=to, by="b1,b2")
    assert _units_of(to) == {"b2": "K"}


def test_a_series_has_units_in_the_terminal_and_on_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end of the range, and at each value."""
    files, page = _files(tmp_path, [("mm", "K"), ("mm", "K")]), tmp_path / "series.html"
    (tmp_path / "list.csv").write_text(
        "\n".join(["href,time", f"{files[0]},2024-01-01", f"{files[1]},2024-01-02"])
    )
    sources = ("--point", "8.75,46.25", "--sources", tmp_path / "list.csv")
    code = run("series", *sources, "--by", "b1", "--quiet", "--html", page)

    assert code == 0
    assert " mm, 2 images" in capsys.readouterr().out
    assert "b1 (mm), 2 values of 2 images" in page.read_text()
    assert " mm</title>" in page.read_text()


def test_what_a_browser_can_open_is_a_link() -> None:
    """A bucket is none."""
    assert (
        linked("a<b", "https://host/a?b&c") == '<a href="https://host/a?b&amp;c" rel="noreferrer">a&lt;b</a>'
    )
    assert linked("a<b", "s3://bucket/a") == linked("a<b", None) == "a&lt;b"
