"""One version of one object: what is fetched for a parser, and when it is given up."""

import asyncio
from collections.abc import Callable

import pytest

from geotiff.small_tiffs import HREF, MemoryObject
from pixel_gather.core.model.source import Cost
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.header_bytes import HeaderBytes
from pixel_gather.io.geotiff.tiff_file import TiffFile
from pixel_gather.io.geotiff.unsupported import UnsupportedError

NBYTES = 100_000


def file_of(
    *, href: str = HREF, etag: str | None = "v1", settings: GeoTiffSettings | None = None
) -> tuple[TiffFile, MemoryObject]:
    """Return a file of which nothing has been fetched, and its object."""
    stored = MemoryObject(bytes(NBYTES))
    settings = settings or GeoTiffSettings(head_nbytes=10_000)
    file = TiffFile(
        href=href, etag=etag, objects=stored, settings=settings, cost=Cost(),
        header_bytes=HeaderBytes(NBYTES), is_seen=False,
    )  # fmt: skip
    return file, stored


def looks_at(file: TiffFile, *places: tuple[int, int]) -> Callable[[], str]:
    """Return a parser that looks at these places [start, stop), one after the other."""

    def parse() -> str:
        for start, stop in places:
            file.header_bytes.view(start, stop)
        return "parsed"

    return parse


@pytest.mark.parametrize(
    ("wanted", "fetched"),
    [
        ((50_000, 50_100), (45_904, 55_904)),
        ((50_000, 70_000), (45_904, 70_000)),
        ((100, 200), (0, 10_000)),
        ((99_000, 99_001), (94_904, 100_000)),
    ],
)
def test_more_is_fetched_than_is_wanted(wanted: tuple[int, int], fetched: tuple[int, int]) -> None:
    """4 KiB before it and as much as a first read, inside of the object: most likely that is needed next."""
    file, stored = file_of()

    assert asyncio.run(file.parse(looks_at(file, wanted))) == "parsed"
    assert stored.ranges == [fetched]
    assert file.is_seen


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_header_in_too_many_places_is_left_to_gdal(most: int) -> None:
    """The settings say how many reads are made before that."""
    places = [(n * 20_000, n * 20_000 + 1) for n in range(1, 5)]
    settings = GeoTiffSettings(head_nbytes=100, max_header_reads=most)
    file, stored = file_of(settings=settings)
    assert asyncio.run(file.parse(looks_at(file, *places[:most]))) == "parsed"
    assert len(stored.ranges) == most

    file, stored = file_of(settings=settings)
    with pytest.raises(UnsupportedError, match="too many places"):
        asyncio.run(file.parse(looks_at(file, *places[: most + 1])))
    assert len(stored.ranges) == most


def test_a_long_header_is_left_to_gdal() -> None:
    """Of the longest that is allowed, all is fetched. Of a longer one, nothing."""
    settings = GeoTiffSettings(head_nbytes=100, max_header_nbytes=5000)
    file, stored = file_of(settings=settings)
    assert asyncio.run(file.parse(looks_at(file, (10, 5010)))) == "parsed"

    file, stored = file_of(settings=settings)
    with pytest.raises(UnsupportedError, match="size limit"):
        asyncio.run(file.parse(looks_at(file, (10, 5011))))
    assert stored.ranges == []


@pytest.mark.parametrize(
    ("href", "etag", "is_pinned"),
    [(HREF, "v1", True), (HREF, None, False), ("file:///a.tif", "v1", False), ("https://a.b/c", "v1", True)],
)
def test_only_named_versions_of_remote_objects_are_pinned(
    href: str, etag: str | None, *, is_pinned: bool
) -> None:
    """A local file may be written while it is read."""
    assert file_of(href=href, etag=etag)[0].is_pinned is is_pinned
