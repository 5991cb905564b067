"""Every page that Pixel Gather makes, in one table: what `test_all_pages_in_browser` looks at."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from obstore.store import LocalStore

from features.test_chips import chips_at, listed, three_images
from pixel_gather import gather, join, make_virtual, points, write_table_page, zones
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.report.report_files import make_comparison_files, report_files_of
from pixel_gather.features.series.series_page import write_page
from pixel_gather.features.view.view import serving_cube
from pixel_gather_cli.main import main
from rank.rasters import landscape, make_cog
from support.browser import CHARTED, LOADED, Page
from support.geojson import collection, feature, polygon
from support.image_cubes import failing_cube, scene_class_cube
from support.local_server import in_thread
from support.viewed_cubes import (
    gathered_clear,
    gathered_cover,
    gathered_months,
    gathered_scenes,
    gathered_valley,
    gathered_warm,
)

GONE: Final = "S2B_MSIL2A_20240601T101109_R022_T32TPS_20240601T121533"
_CRS: Final = "EPSG:32633"
_SERIES: Final = [
    {
        "time": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(12 * n),
        "scene": GONE.replace("0601", f"01{n:02}"),
        "href": f"https://host/{n}.tif" if n % 2 else f"s3://bucket/{n}.tif",
        "valid": n != 3,
        "status": "missing" if n == 3 else "ok",
        "reason": "no such object" if n == 3 else None,
        "height": None if n == 3 else 0.5 + 0.04 * n,
    }
    for n in range(9)
]


def _report(gathered: Any, *, viewer: str | None = "view.html") -> str:
    page = Path(gathered.place) / "report.html"
    evidence = read_evidence(LocalStore(gathered.place), place=gathered.place)
    page.write_bytes(report_files_of(evidence, viewer=viewer)["report.html"])
    return page.as_uri()


def _comparison(folder: Path) -> str:
    cubes = [failing_cube(folder), scene_class_cube(folder)]
    evidences = [read_evidence(LocalStore(each.place), place=each.place) for each in cubes]
    files = make_comparison_files(
        [each.run for each in evidences],
        plots=(),
        evidences=evidences,
        title="two cubes",
        with_published=False,
    )
    (folder / "compared.html").write_bytes(files["report.html"])
    return (folder / "compared.html").as_uri()


def _chips(folder: Path) -> str:
    table, _ = chips_at(folder)
    files = three_images(folder)
    files["2024-04-01"] = folder / "gone.tif"
    request = {"sources": listed(folder, files), "windows": {"table": table, "size": (40, 24)}}
    return _report(gather(request, to=folder / "chips.zarr"), viewer=None)


def _images(folder: Path) -> dict[str, Any]:
    rows = [
        {"href": str(make_cog(folder / f"{n}.tif", landscape(n))), "time": f"2024-06-0{n + 1}"}
        for n in range(4)
    ]
    return {"rows": [*rows, {"href": str(folder / f"{GONE}.tif"), "time": "2024-06-09", "scene": GONE}]}


def _table_of_points(folder: Path) -> str:
    plots = [{"id": f"plot {n}", "x": 500_100.0 + 90.0 * n, "y": 4_999_500.0 - 40.0 * n} for n in range(8)]
    points(plots, _images(folder), to=folder / "plots.parquet", id="id", crs=_CRS)
    write_table_page(folder / "plots.parquet", folder / "plots.html")
    return (folder / "plots.html").as_uri()


def _table_of_zones(folder: Path) -> str:
    fields = [
        feature(polygon(*((500_100 + 1000 * n + x, 4_999_100 + y) for x, y in corners)), name=f"field {n}")
        for n, corners in enumerate(
            [((0, 0), (800, 100), (700, 800), (0, 0)), ((0, 0), (900, 0), (900, 700), (100, 600), (0, 0))]
        )
    ]
    zones(collection(fields), _images(folder), to=folder / "fields.parquet", id="name", crs=_CRS)
    write_table_page(folder / "fields.parquet", folder / "fields.html")
    return (folder / "fields.html").as_uri()


def _series(folder: Path) -> str:
    write_page(_SERIES, folder / "series.html", title="Height at 11.35, 46.5", units={"height": "m"})
    return (folder / "series.html").as_uri()


def _ranking(folder: Path) -> str:
    lines = ["href,time,band,scene"]
    for n in range(2):
        for band, level in (("B4", 1500), ("B5", 2000 + 500 * n)):
            make_cog(folder / f"{band}_{n}.tif", landscape(n, side=256, level=level))
            lines.append(f"{folder}/{band}_{n}.tif,2024-01-0{n + 1},{band},s{n}")
    lines += [f"{folder}/none_{band}.tif,2024-02-01,{band},lost" for band in ("B4", "B5")]
    return _sheet(folder, lines, "--by", "ndvi", "--bands", "red=B4,nir=B5")


def _ranking_of_classes(folder: Path) -> str:
    lines = ["href,time,band,scene"]
    for n in range(2):
        pixels = np.full((256, 256), 4, "uint8")
        pixels[: 64 * (n + 1)] = 9
        make_cog(folder / f"scl_{n}.tif", pixels)
        lines.append(f"{folder}/scl_{n}.tif,2024-01-0{n + 1},scl,s{n}")
    return _sheet(folder, lines, "--by", "scl", "--statistic", "share_above:7")


def _ranking_of_products(folder: Path) -> str:
    lines = ["href,time,band,scene"]
    for n in range(2):
        for band in ("B4", "B5"):
            make_cog(folder / f"{band}_{n}.tif", landscape(n + len(band), side=256))
            lines.append(
                f"{folder}/{band}_{n}.tif,2024-01-0{n + 1},{band},LC08_L1TP_013032_2018071{n}-564b1c64"
            )
    return _sheet(folder, lines, "--by", "(nir-red)/(nir+red+10000)", "--bands", "red=B4,nir=B5")


def _sheet(folder: Path, lines: list[str], *arguments: str) -> str:
    (folder / "list.csv").write_text("\n".join(lines))
    with pytest.raises(SystemExit):
        main(["rank", str(folder / "list.csv"), *arguments, "--html", str(folder / "sheet.html")])
    return (folder / "sheet.html").as_uri()


def _virtual(folder: Path) -> str:
    gathered_valley(folder, n_rows=9)
    request = {"sources": str(folder / "sources.csv"), "window": {"pixels": [0, 0, 192, 192]}}
    make_virtual(request, to=folder / "virtual.icechunk")
    return str(folder / "virtual.icechunk")


def _joined(folder: Path) -> str:
    for name in ("a", "b"):
        (folder / name).mkdir()
        gathered_valley(folder / name, n_rows=2, draws_report=name == "a")
    join([str(folder / name / "valley.zarr") for name in ("a", "b")], to=str(folder / "both.icechunk"))
    return str(folder / "both.icechunk")


FILES: Final[Mapping[str, Callable[[Path], str]]] = {
    "report of colours": lambda folder: _report(gathered_valley(folder, n_rows=9)),
    "report of failures": lambda folder: _report(failing_cube(folder)),
    "report of classes": lambda folder: _report(scene_class_cube(folder)),
    "report of land cover": lambda folder: _report(gathered_cover(folder)),
    "report with a mask": lambda folder: _report(gathered_clear(folder)),
    "report with units": lambda folder: _report(gathered_warm(folder)),
    "report of scenes": lambda folder: _report(gathered_scenes(folder)),
    "report of months": lambda folder: _report(gathered_months(folder)),
    "report of chips": _chips,
    "comparison": _comparison,
    "table of points": _table_of_points,
    "table of zones": _table_of_zones,
    "series": _series,
    "ranking": _ranking,
    "ranking of classes": _ranking_of_classes,
    "ranking of products": _ranking_of_products,
}
"""Pages that are files, and who writes each into a folder and returns its address."""

VIEWED: Final[Mapping[str, tuple[Callable[[Path], str], str]]] = {
    "viewer of colours": (lambda folder: gathered_valley(folder, n_rows=9).place, "row=5&part=50,100,1,1"),
    "viewer of an index": (
        lambda folder: gathered_scenes(folder).place,
        "row=5&show=(B08 - B04) / (B08 %2B B04)&map=greens&part=50,90,20,20",
    ),
    "viewer of scene classes": (
        lambda folder: gathered_scenes(folder).place,
        "row=1&show=SCL&part=20,20,60,60",
    ),
    "viewer of a failed row": (lambda folder: gathered_valley(folder, n_rows=9).place, "row=7&show=nir"),
    "viewer of months": (lambda folder: gathered_months(folder).place, "row=3&part=50,100,1,1"),
    "viewer of units": (lambda folder: gathered_warm(folder).place, "row=1&show=lst&part=50,90,1,1"),
    "viewer of two dates": (
        lambda folder: gathered_valley(folder, n_rows=9).place,
        "row=3&rgb=red,green,blue&compare=6",
    ),
    "viewer of a virtual cube": (_virtual, "row=5&part=50,100,1,1"),
    "viewer of joined cubes": (_joined, "row=3&part=50,100,1,1"),
}
"""Cubes, and the views of them in the viewer."""

SIZES: Final = ((390, 844), (768, 1024), (1440, 900))
"""Windows of a telephone, a tablet and a notebook computer."""


@dataclass
class Pages:
    """All pages. Each is made when it is asked for first."""

    folder: Path
    stack: ExitStack
    addresses: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the pages."""
        yield from (*FILES, *VIEWED)

    def show(self, name: str, page: Page) -> None:
        """Open a page in a tab, and wait until all of it is drawn."""
        if name in FILES:
            page.open_(self._address(name), until=LOADED)
            return
        page.open_(self._address(name))
        if "part=" in self._address(name):
            page.wait(CHARTED)

    def _address(self, name: str) -> str:
        if name not in self.addresses:
            folder = self.folder / name
            folder.mkdir()
            if name in FILES:
                self.addresses[name] = FILES[name](folder)
            else:
                make, view = VIEWED[name]
                self.addresses[name] = f"{self._served(make(folder))}#{view}"
        return self.addresses[name]

    def _served(self, cube: str) -> str:
        server = self.stack.enter_context(serving_cube(cube))
        self.stack.enter_context(in_thread(server))
        return server.url


@contextmanager
def opened_pages(folder: Path) -> Iterator[Pages]:
    """Yield all pages, made below an empty folder. Their servers end with the context."""
    with ExitStack() as stack:
        yield Pages(folder, stack)
