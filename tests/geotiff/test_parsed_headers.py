"""Headers that were parsed before: the same result for the same bytes, and for no others."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine

from geotiff.small_tiffs import MemoryObject
from pixel_gather.core.model.source import Cost
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.parsed_headers import _join_touching
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import UnsupportedError


def image(
    path: Path, *, left: float = 100.0, scale: float = 2.0, seed: int = 0, overviews: bool = False
) -> bytes:
    """Write a tiled file and return its bytes. With overviews it is not compressed: they come last."""
    rng = np.random.default_rng(seed)
    with rasterio.open(
        path, "w", driver="GTiff", width=64, height=64, count=1, dtype="uint16", crs="EPSG:32633",
        transform=Affine(10, 0, left, 0, -10, 500), tiled=True, blockxsize=16, blockysize=16,
        compress=None if overviews else "deflate", nodata=3,
    ) as file:  # fmt: skip
        file.scales = (scale,)  # before the pixels, or the directory is written again behind them
        file.write(rng.integers(0, 999, (1, 64, 64)).astype("uint16"))
        if overviews:
            file.build_overviews([2])
    return path.read_bytes()


def open_all(*contents: bytes, overview: int | None = None) -> tuple[GeoTiffReader, list[OpenedGeoTiff]]:
    """Open files one after another by one reader."""
    source = MemoryObject(b"")
    reader = GeoTiffReader(source)
    opened = []
    for number, content in enumerate(contents):
        source.content, source.etag = content, f"v{number}"
        opened.append(asyncio.run(reader.open_(f"s3://b/{number}.tif", overview=overview, cost=Cost())))
    return reader, opened


def n_known(reader: GeoTiffReader) -> int:
    """Return how many headers were parsed."""
    return len(reader.parsed_headers._known)


@pytest.mark.parametrize("overview", [None, 0])
def test_files_that_differ_in_their_tiles_are_parsed_once(tmp_path: Path, overview: int | None) -> None:
    """The header of each is its own: href, version, size, offsets."""
    contents = [
        image(tmp_path / f"{seed}.tif", seed=seed, overviews=overview is not None) for seed in range(3)
    ]

    reader, opened = open_all(*contents, overview=overview)
    alone = [open_all(content, overview=overview)[1][0] for content in contents]

    assert n_known(reader) == 1
    for number, (one, other) in enumerate(zip(opened, alone, strict=True)):
        assert (one.header.href, one.header.etag) == (f"s3://b/{number}.tif", f"v{number}")
        assert one.header.nbytes == len(contents[number])
        assert (one.layout, one.ifd.entries, one.first.entries) == (
            other.layout,
            other.ifd.entries,
            other.first.entries,
        )
        assert one.header.coding == other.header.coding
        tag = one.layout.offsets_tag
        assert one.ifd.array(tag, 0, 1) == other.ifd.array(tag, 0, 1)


@pytest.mark.parametrize("change", [{"left": 101.0}, {"scale": 3.0}])
def test_a_file_with_another_value_is_parsed(tmp_path: Path, change: dict[str, float]) -> None:
    """A single byte that matters is enough."""
    same, other = image(tmp_path / "a.tif"), image(tmp_path / "b.tif", **change)  # type: ignore[arg-type] # floats alone

    reader, (first, second, third) = open_all(same, other, same)

    assert n_known(reader) == 2
    assert first.header.transform == third.header.transform
    assert first.header.scales == third.header.scales
    assert (first.header.transform, first.header.scales) != (second.header.transform, second.header.scales)


def test_a_file_that_ends_within_its_header_is_refused(tmp_path: Path) -> None:
    """What is known of another file does not make it whole."""
    content = image(tmp_path / "a.tif")

    with pytest.raises(UnsupportedError):
        open_all(content, content[:200])


def test_few_headers_are_remembered(tmp_path: Path) -> None:
    """The last ones, as a list is mostly sorted by product or place."""
    contents = [image(tmp_path / f"{left}.tif", left=float(left)) for left in range(12)]

    reader, opened = open_all(*contents)

    assert n_known(reader) == 8
    assert [each.header.transform.c for each in opened if each.header.transform] == list(range(12))


def test_the_header_that_was_used_last_is_kept(tmp_path: Path) -> None:
    """Among many, the one that was not used for longest is forgotten."""
    contents = [image(tmp_path / f"{left}.tif", left=float(left)) for left in range(9)]

    reader, _ = open_all(*contents[:8], contents[0], contents[8])

    kept = [known.header_fields["transform"].c for known in reader.parsed_headers._known]
    assert kept == [8, 0, 7, 6, 5, 4, 3, 2]


@pytest.mark.parametrize(
    ("viewed", "joined"),
    [
        ([], []),
        ([(0, 4)], [(0, 4)]),
        ([(4, 8), (0, 4)], [(0, 8)]),
        ([(0, 4), (5, 8)], [(0, 4), (5, 8)]),
        ([(0, 9), (2, 4), (9, 10)], [(0, 10)]),
        ([(3, 4), (0, 1), (1, 2), (7, 9), (7, 8)], [(0, 2), (3, 4), (7, 9)]),
    ],
)
def test_places_that_touch_are_compared_as_one(
    viewed: list[tuple[int, int]], joined: list[tuple[int, int]]
) -> None:
    """Bytes between two places may differ."""
    assert list(_join_touching(viewed)) == joined


def test_overviews_are_remembered_by_themselves(tmp_path: Path) -> None:
    """The header of an overview is not that of the image, though it has the same bytes."""
    source = MemoryObject(image(tmp_path / "a.tif", overviews=True))
    reader = GeoTiffReader(source)

    def width(overview: int | None) -> int:
        return asyncio.run(reader.open_("s3://b/a.tif", overview=overview, cost=Cost())).header.width

    assert [width(each) for each in (None, 0, None, 0)] == [64, 32, 64, 32]
    assert n_known(reader) == 2
