"""CRSs that only GDAL can build: GDAL gives the CRS, the fast path gives everything else."""

import asyncio
from collections.abc import Coroutine
from copy import replace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS
from rasterio.transform import from_origin

from geotiff.small_tiffs import ASCII, DOUBLE, SHORT, ExtraTag, Tags, geotiff, ifd_of, noise, pixels, tiff
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.gdals_crs import GdalsCrs, crs_digest
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from support.in_loop import in_loop

SINUSOIDAL: Final = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"
IMAGE: Final = noise((2, 40, 48), "int16")


@dataclass
class _Asked:
    """GDAL's reader, which records the files that it was asked about."""

    gdal: GdalReader
    hrefs: list[str] = field(default_factory=list)

    async def read_header(self, href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
        self.hrefs.append(href)
        return (await self.gdal.open_(href, overview=overview, etag=etag, cost=cost)).header


def _open(*paths: Path, overview: int | None = None) -> tuple[list[OpenedGeoTiff], list[Header], list[str]]:
    """Open files concurrently. Return them, GDAL's headers, and the hrefs that GDAL was asked about."""

    async def work() -> tuple[list[OpenedGeoTiff], list[Header], list[str]]:
        objects = Objects(StoreSettings())
        async with GdalReader(objects, settings=GdalSettings(max_children=1)) as gdal:
            asked = _Asked(gdal)
            reader = GeoTiffReader(objects, gdals_crs=GdalsCrs(asked.read_header))
            hrefs = [f"file://{path}" for path in paths]
            opened = await asyncio.gather(
                *(reader.open_(href, overview=overview, cost=Cost()) for href in hrefs)
            )
            told = [await gdal.open_(href, overview=overview, cost=Cost()) for href in hrefs]
        return opened, [each.header for each in told], asked.hrefs

    return asyncio.run(work())


@dataclass(frozen=True)
class Case:
    """A CRS that is more than an EPSG code, or is stored in an unusual way."""

    id: str
    crs: str
    options: dict[str, str] = field(default_factory=dict)
    point: bool = False


CASES: Final = [
    Case("sinusoidal", SINUSOIDAL),
    Case("sinusoidal, pixel is point", SINUSOIDAL, point=True),
    Case("compound", "EPSG:32633+5773", {"GEOTIFF_VERSION": "1.1"}),
    Case("compound of GeoTIFF 1.0", "EPSG:32633+5773", {"GEOTIFF_VERSION": "1.0"}),
    Case("in feet", "EPSG:2225"),
    Case("ESRI's spelling", "ESRI:102039", {"GEOTIFF_KEYS_FLAVOR": "ESRI_PE"}),
    Case("another datum's Lambert", "+proj=lcc +lat_1=30 +lat_2=60 +lat_0=40 +lon_0=9 +ellps=bessel"),
]


def _write(path: Path, case: Case, *, west: float = 5e5) -> None:
    with rasterio.open(
        path, "w", driver="GTiff", width=48, height=40, count=2, dtype="int16", nodata=-1, crs=case.crs,
        transform=from_origin(west, 4e6, 463.3127, 463.3127), tiled=True, blockxsize=16, blockysize=16,
        **case.options,
    ) as target:  # fmt: skip
        target.write(IMAGE)
        if case.point:
            target.update_tags(AREA_OR_POINT="Point")


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_header_is_gdals_in_every_field(tmp_path: Path, case: Case) -> None:
    """The CRS is GDAL's. All other fields and the pixels are the fast path's."""
    _write(tmp_path / "a.tif", case)

    (opened,), (told,), _ = _open(tmp_path / "a.tif")

    assert opened.header == told
    with rasterio.open(tmp_path / "a.tif") as expected:
        assert CRS.from_user_input(opened.header.crs) == expected.crs
        assert opened.header.transform == expected.transform[:6]
    np.testing.assert_array_equal(pixels(opened), IMAGE)


@pytest.mark.long
def test_header_of_an_overview_is_gdals_too(tmp_path: Path) -> None:
    """GDAL gives an overview the CRS and scales of the full image."""
    _write(tmp_path / "a.tif", CASES[0])
    with rasterio.open(tmp_path / "a.tif", "r+") as target:
        target.scales, target.offsets = (0.1, 0.2), (1.0, 2.0)
        target.build_overviews([2])

    (opened,), (told,), asked = _open(tmp_path / "a.tif", overview=0)

    assert opened.header == replace(told, is_tiled=True)
    assert (opened.header.width, opened.header.scales, len(asked)) == (24, (0.1, 0.2), 1)


@pytest.mark.long
def test_gdal_is_asked_once_for_many_files_of_one_crs(tmp_path: Path) -> None:
    """Files of one product share their GeoKeys, so GDAL is asked once. Another CRS needs another question."""
    paths = [tmp_path / f"{i}.tif" for i in range(12)]
    for i, path in enumerate(paths):
        _write(path, CASES[4] if i == 7 else CASES[0], west=i * 1e5)

    opened, told, asked = _open(*paths)

    assert [each.header for each in opened] == told
    assert len(asked) == 2
    assert f"file://{paths[7]}" in asked


SCALE, TIEPOINT = (33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, (0, 0, 0, 1e5, 2e6, 0.0), True)


def _keys(*values: int) -> ExtraTag:
    return (34735, "H", len(values), values, True)


@pytest.mark.long
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(_keys(1, 1, 0, 1, 1024, 0, 1, 1), id="only the type of model"),
        pytest.param(_keys(1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 26591, 0, 0, 0, 0), id="a line of zeros"),
        pytest.param(_keys(1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32633, 0, 0, 0, 0), id="plain, with zeros"),
        pytest.param(_keys(1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32633, 7, 9), id="plain, with half a line"),
        pytest.param(
            _keys(1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32633, 1, 2, 3, 4), id="plain, with rubbish"
        ),
        pytest.param(_keys(1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32799), id="no such code"),
    ],
)
def test_odd_keys_give_gdals_header(tmp_path: Path, keys: ExtraTag) -> None:
    """Values after the list of keys are ignored. Keys without meaning give no CRS, or one without a name."""
    tiff(tmp_path / "a.tif", np.zeros((16, 16), "u1"), SCALE, TIEPOINT, keys)

    (opened,), (told,), _ = _open(tmp_path / "a.tif")

    assert opened.header == told


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "nodata"), [("u8", 2**64 - 1), ("u8", 2**60 + 1), ("i8", -(2**60) - 1)])
def test_a_nodata_that_rasterio_rounds_stays_exact(tmp_path: Path, dtype: str, nodata: int) -> None:
    """Rasterio has a float64, or None for the largest integer. That is no other header."""
    keys, text = _keys(1, 1, 0, 1, 1024, 0, 1, 1), str(nodata)
    words = (42113, "s", len(text) + 1, text, True)
    tiff(tmp_path / "a.tif", np.zeros((16, 16), dtype), SCALE, TIEPOINT, keys, words)

    (opened,), (told,), _ = _open(tmp_path / "a.tif")

    assert opened.header.nodata == nodata
    assert told.nodata != nodata


@pytest.mark.long
@pytest.mark.parametrize(
    ("citation", "metres"),
    [
        pytest.param("LUnits = feet", 0.3048006096, id="feet"),
        pytest.param("PCS Name = Oregon|LUnits = Meter", 1.0, id="metres, and a name"),
        pytest.param(
            "IMAGINE GeoTIFF Support\n$Revision$\nProjection Name = Oregon\nUnits = international_feet",
            0.3048,
            id="ERDAS Imagine",
        ),
    ],
)
def test_units_in_a_citation_are_gdals(tmp_path: Path, citation: str, metres: float) -> None:
    """GDAL prefers them to the unit of the EPSG code, which is the metre here."""
    text = f"{citation}|"
    keys = _keys(1, 1, 0, 3, 1024, 0, 1, 1, 1026, 34737, len(text), 0, 3072, 0, 1, 2838)
    image = np.zeros((16, 16), "u1")
    tiff(tmp_path / "a.tif", image, SCALE, TIEPOINT, keys, (34737, "s", len(text) + 1, text, True))

    (opened,), (told,), _ = _open(tmp_path / "a.tif")

    assert opened.header == told
    crs = CRS.from_user_input(opened.header.crs)
    assert crs.linear_units_factor[1] == pytest.approx(metres)
    with rasterio.open(tmp_path / "a.tif") as expected:
        assert crs == expected.crs


@pytest.mark.long
def test_files_of_other_heights_are_asked_for_by_themselves(tmp_path: Path) -> None:
    """Under a vertical CRS GDAL takes a band's scale from the pixel scale. So GDAL reads each such file."""
    keys = _keys(1, 1, 1, 4, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633, 4096, 0, 1, 5773)
    for name, height in (("flat", 0.0), ("high", 2.0)):
        scale = (33550, "d", 3, (10.0, 10.0, height), True)
        tiff(tmp_path / f"{name}.tif", np.zeros((16, 16), "u1"), scale, TIEPOINT, keys)

    (flat,), (told,), _ = _open(tmp_path / "flat.tif")
    assert flat.header == told

    with pytest.raises(UnsupportedError, match="differently"):
        _open(tmp_path / "flat.tif", tmp_path / "high.tif")


@dataclass
class _Gdal:
    """Returns one header, or fails the first time."""

    told: Header
    failures: list[SourceError] = field(default_factory=list)
    n_asked: int = 0

    async def read_header(self, href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
        del href, overview, etag, cost
        self.n_asked += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return self.told


HEADER: Final = Header(
    href="file:///a", etag='"1"', nbytes=10, driver="GTiff", width=4, height=4, n_bands=1, dtype="float32",
    nodata=float("nan"), scales=(1.0,), offsets=(0.0,), transform=None, crs=None, tile_width=4,
    tile_height=4, is_tiled=True,
)  # fmt: skip


def _ask(answers: GdalsCrs, *digests: bytes) -> list[str | BaseException | None]:
    """Return the CRS of each header as GDAL completes it, or the error."""

    async def work() -> list[str | BaseException | None]:
        asking: list[Coroutine[Any, Any, Header]] = [
            answers.complete(digest, HEADER, overview=None, cost=Cost()) for digest in digests
        ]
        told = await asyncio.gather(*asking, return_exceptions=True)
        return [each.crs if isinstance(each, Header) else each for each in told]

    return asyncio.run(work())


def test_crs_of_leaves_all_to_gdal_where_it_reads_the_header_otherwise() -> None:
    """GDAL's answer holds for every file with the digest. It is not asked again."""
    gdal = _Gdal(replace(HEADER, crs="WKT", nodata=0.0))

    answers = _ask(GdalsCrs(gdal.read_header), b"a", b"a", b"a")

    assert [type(answer) for answer in answers] == [UnsupportedError] * 3
    assert gdal.n_asked == 1


def test_crs_of_asks_of_the_next_file_where_gdal_cannot_open_the_first() -> None:
    """One bad source costs only its own row."""
    failure = SourceError("denied", href="file:///a", status=Status.DENIED)
    gdal = _Gdal(replace(HEADER, crs="WKT", nodata=float("nan"), is_tiled=False), [failure])

    answers = _ask(GdalsCrs(gdal.read_header), b"a", b"a", b"a")

    assert answers == [failure, "WKT", "WKT"]
    assert gdal.n_asked == 2


def test_crs_of_keeps_a_bounded_number_of_answers() -> None:
    """A list of files with many different CRSs does not fill the memory."""
    gdal = _Gdal(replace(HEADER, crs="WKT"))
    answers = GdalsCrs(gdal.read_header)

    _ask(answers, *(str(i).encode() for i in range(3000)))

    assert gdal.n_asked == 3000
    assert len(answers._answers) <= 1024


def test_geokeys_are_not_fast_without_anyone_to_ask(tmp_path: Path) -> None:
    """Without GDAL the fast path raises UnsupportedError for such a CRS."""
    geotiff(tmp_path / "a.tif", IMAGE, crs=SINUSOIDAL, transform=from_origin(0, 0, 10, 10))
    reader = GeoTiffReader(Objects(StoreSettings()))

    with pytest.raises(UnsupportedError, match="more than an EPSG code"):
        asyncio.run(reader.open_(f"file://{tmp_path / 'a.tif'}", overview=None, cost=Cost()))


@in_loop
async def test_crs_of_adds_the_time_that_it_waited() -> None:
    """Waiting for another file's answer is a part of opening."""
    gdal = _Gdal(replace(HEADER, crs="WKT"))
    cost = Cost(open_s=1.0)

    await GdalsCrs(gdal.read_header).complete(b"a", HEADER, overview=None, cost=cost)

    assert 1.0 < cost.open_s < 60


def test_crs_digest_is_that_of_all_that_gdal_looks_at() -> None:
    """Keys, their numbers and texts, heights, scales, offsets and units may each change the result."""
    tags: Tags = {
        34735: (SHORT, (1, 1, 0, 1, 1024, 0, 1, 1)),
        34736: (DOUBLE, (1.0,)),
        34737: (ASCII, b"a\0"),
        33550: (DOUBLE, (1.0, 2.0, 0.0)),
    }
    others: list[Tags] = [
        {34735: (SHORT, (1, 1, 0, 1, 1024, 0, 1, 2))},
        {34736: (DOUBLE, (2.0,))},
        {34737: (ASCII, b"b\0")},
        {33550: (DOUBLE, (1.0, 2.0, 1.0))},
    ]

    digests = {crs_digest(ifd_of({**tags, **each}), HEADER) for each in ({}, *others)}
    digests |= {crs_digest(ifd_of(tags, byte_order=">"), HEADER)}
    digests |= {crs_digest(ifd_of(tags), replace(HEADER, scales=(7.0,)))}
    digests |= {crs_digest(ifd_of(tags), replace(HEADER, offsets=(7.0,)))}
    digests |= {crs_digest(ifd_of(tags), replace(HEADER, meanings=(BandMeaning(unit="mm"),)))}

    assert len(digests) == 9
    elsewhere: Tags = {33550: (DOUBLE, (5.0, 7.0, 0.0))}
    assert crs_digest(ifd_of({**tags, **elsewhere}), replace(HEADER, width=9)) in digests
