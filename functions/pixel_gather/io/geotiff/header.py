"""Build the header of a GeoTIFF from its tags."""

from collections.abc import Sequence
from copy import replace

from pixel_gather.core.model.source import Header
from pixel_gather.io.geotiff.band_meanings import meanings_of
from pixel_gather.io.geotiff.gdal_metadata import scales_and_offsets
from pixel_gather.io.geotiff.geo_keys import GeoKeys
from pixel_gather.io.geotiff.ifd import Ifd, Tag, following_ifds
from pixel_gather.io.geotiff.layout import TileLayout, parse_layout
from pixel_gather.io.geotiff.nodata_tag import parse_nodata
from pixel_gather.io.geotiff.transform import parse_transform
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_REDUCED, _MASK = 1, 4


def find_overviews(first: Ifd, full: TileLayout) -> list[tuple[Ifd, TileLayout]]:
    """Return the overviews of the first image in file order, as GDAL does.

    Raises:
        UnsupportedError: The chain of directories is broken, or an overview is larger than the one before.
            Or the image has directories of its own, which GDAL takes for overviews, too.
        NeedBytes: A directory has not been fetched yet.
    """
    if Tag.SUB_IFDS in first.entries:
        raise UnsupportedError("directories below the first one")
    found: list[tuple[Ifd, TileLayout]] = []
    last = full
    for ifd in following_ifds(first):
        if ifd.integer(Tag.NEW_SUBFILE_TYPE, 0) & (_REDUCED | _MASK) != _REDUCED:
            continue
        layout = parse_layout(ifd)
        is_smaller = layout.width <= last.width and layout.height <= last.height
        if not is_smaller or (layout.n_bands, layout.dtype) != (full.n_bands, full.dtype):
            raise UnsupportedError("overviews of other kinds or sizes")
        found.append((ifd, layout))
        last = layout
    return found


def reduced_header(full: Header, layout: TileLayout) -> Header:
    """Return the header of one overview of an image whose header is known."""
    scaled = full.transform and full.transform.scaled(full.width / layout.width, full.height / layout.height)
    return replace(
        full,
        width=layout.width,
        height=layout.height,
        transform=scaled,
        tile_width=layout.tile_width,
        tile_height=layout.block_height,
        is_tiled=layout.is_tiled,
        coding=layout.coding,
    )


def has_mask(first: Ifd) -> bool:
    """Tell whether any directory of the file is a mask, or may be: those below the first one are not read."""
    return Tag.SUB_IFDS in first.entries or any(
        ifd.integer(Tag.NEW_SUBFILE_TYPE, 0) & _MASK for ifd in following_ifds(first)
    )


def build_header(
    ifd: Ifd,
    layout: TileLayout,
    *,
    href: str,
    etag: str | None,
    keys: GeoKeys,
    crs: str | None,
    overviews: Sequence[TileLayout],
) -> Header:
    """Build the header of the full image. The first directory alone is georeferenced.

    Raises:
        UnsupportedError: Only GDAL can tell what the tags mean.
        NeedBytes: Values have not been fetched yet.
    """
    transform = parse_transform(ifd, keys)
    scales, offsets = scales_and_offsets(ifd, layout.n_bands)
    return Header(
        href=href,
        etag=etag,
        nbytes=ifd.header_bytes.object_nbytes,
        driver="GTiff",
        width=layout.width,
        height=layout.height,
        n_bands=layout.n_bands,
        dtype=layout.dtype_name,
        nodata=parse_nodata(ifd, layout.dtype),
        scales=scales,
        offsets=offsets,
        transform=transform,
        crs=crs,
        tile_width=layout.tile_width,
        tile_height=layout.block_height,
        is_tiled=layout.is_tiled,
        overviews=tuple((each.width, each.height) for each in overviews),
        meanings=meanings_of(ifd, layout.n_bands),
        coding=layout.coding,
    )
