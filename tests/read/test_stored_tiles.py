"""Tiles as they are stored, and references to them, in place of pixels."""

import asyncio

import numpy as np
import pytest
import xxhash

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.read.stored_tiles import StoredTiles, digest_of_tiles
from pixel_gather.features.virtual.referred_tiles import ReferredTiles
from support.fakes import FakeImage, FakeReader

A = np.arange(2 * 4 * 4, dtype="uint16").reshape(2, 4, 4)
WINDOW = Window(col_off=0, row_off=0, width=4, height=4)
READ, FAILED = Outcome(status=Status.OK), Outcome(status=Status.MISSING)


def filled[Tiles: StoredTiles](tiles: Tiles, href: str = "s3://b/a", etag: str | None = '"1"') -> Tiles:
    """Fill the second row with both bands of a source, the second band first."""

    async def fill() -> None:
        reader = FakeReader({href: FakeImage(pixels=A, header={"etag": etag})})
        opened = await reader.open_(href, overview=None, cost=Cost())
        found = await tiles.rows[1].fill(opened, WINDOW, (2, 1))
        assert [len(band) for band in found] == [1, 1]

    asyncio.run(fill())
    return tiles


def test_each_band_has_the_tiles_of_its_rows() -> None:
    """A row that was not read has none, and nor has one that cannot be used."""
    tiles = filled(StoredTiles(3, n_bands=2))
    first, second = tiles

    assert len(first) == 3
    assert [[bytes(tile or b"") for tile in band.of_row(1)] for band in (first, second)] == [
        [A[1].tobytes()],
        [A[0].tobytes()],
    ]
    assert first.of_row(0) == ()
    tiles.rows[1].clear()
    assert first.of_row(1) == ()


def test_how_many_pixels_of_kept_tiles_are_valid_is_not_known() -> None:
    """Of a failed source it is: none. The digest is of the compressed bytes."""
    tiles = filled(StoredTiles(2, n_bands=2))

    assert [each.n_valid for each in tiles.measure(1, READ)] == [None, None]
    assert [each.n_valid for each in tiles.measure(0, FAILED)] == [0, 0]
    assert [each.digest for each in tiles.measure(1, READ)] == [
        xxhash.xxh3_128_hexdigest(A[band].tobytes()) for band in (1, 0)
    ]


def test_digest_of_tiles_is_of_those_that_are_stored() -> None:
    """Their order counts."""
    assert digest_of_tiles([b"ab", None, b"c"]) == xxhash.xxh3_128_hexdigest(b"abc")
    assert digest_of_tiles([b"c", b"ab"]) != digest_of_tiles([b"ab", b"c"])


def test_a_reference_is_of_one_version_of_an_object() -> None:
    """It has the place of each tile in it, by band. Rows that cannot be used are left out."""
    tiles = filled(ReferredTiles(3, n_bands=2))

    [(place, row, ranges)] = tiles.of_band(0)
    assert (place, row.href, row.etag) == (1, "s3://b/a", '"1"')
    assert [tuple(each) for each in ranges if each] == [(32, 32)]
    [(_, _, ranges)] = tiles.of_band(1)
    assert [tuple(each) for each in ranges if each] == [(0, 32)]
    tiles.rows[1].clear()
    assert list(tiles.of_band(0)) == []
    assert tiles.rows[1].ranges == []


def test_digest_of_a_reference_is_of_version_and_places() -> None:
    """Another version of the object has another digest, and so has another tile of it."""
    first, again = (filled(ReferredTiles(2, n_bands=2)).measure(1, READ) for _ in range(2))
    newer = filled(ReferredTiles(2, n_bands=2), etag='"2"').measure(1, READ)
    failed = ReferredTiles(2, n_bands=2).measure(0, FAILED)

    assert [each.digest for each in first] == [each.digest for each in again]
    digests = [each.digest for each in (*first, *newer)]
    assert len(set(digests)) == 4
    assert all(len(each) == 32 for each in digests)
    assert [each.n_valid for each in first] == [None, None]
    assert [each.n_valid for each in failed] == [0, 0]
    assert failed[0].digest == failed[1].digest


@pytest.mark.parametrize("href", ["s3://b/a", "file:///a.tif"])
def test_objects_and_files_can_be_referred_to(href: str) -> None:
    """A store that has no versions is referred to without one."""
    assert filled(ReferredTiles(2, n_bands=2), href, etag=None).rows[1].etag == ""


def test_files_on_the_web_cannot_be_referred_to() -> None:
    """A virtual cube could not notice that one has changed."""
    with pytest.raises(SourceError, match="copy the file to S3") as caught:
        filled(ReferredTiles(2, n_bands=2), "https://h/a.tif")

    assert caught.value.status is Status.UNSUPPORTED


def test_references_take_no_requests_for_tiles() -> None:
    """Tiles do."""
    assert StoredTiles.reads_tiles
    assert not ReferredTiles.reads_tiles
