"""Opens GeoTIFFs: one GET of the first bytes, more only where a directory lies beyond them."""

from dataclasses import dataclass, field, replace
from time import perf_counter

from pixel_gather.adapters.geotiff.crs import crs_of
from pixel_gather.adapters.geotiff.fragments import Fragments
from pixel_gather.adapters.geotiff.gdals_crs import GdalsCrs, crs_digest
from pixel_gather.adapters.geotiff.geo_keys import geo_keys_of
from pixel_gather.adapters.geotiff.header import header_of, overviews_of
from pixel_gather.adapters.geotiff.ifd import parse_format, parse_ifd
from pixel_gather.adapters.geotiff.layout import layout_of
from pixel_gather.adapters.geotiff.not_fast import NotFast, UnknownCrsError
from pixel_gather.adapters.geotiff.opened import OpenedGeoTiff
from pixel_gather.adapters.geotiff.placement import has_only_control_points
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.geotiff.tiff_file import Ranges, TiffFile
from pixel_gather.source import Cost


@dataclass(slots=True)
class GeoTiffReader:
    """Reads GeoTIFFs through ranged GETs; a ``ports.SourceReader`` that may also raise NotFast."""

    objects: Ranges
    settings: GeoTiffSettings = field(default_factory=GeoTiffSettings, kw_only=True)
    gdals_crs: GdalsCrs | None = field(default=None, kw_only=True)
    """Names the CRSs that are more than an EPSG code; without it they are NotFast."""

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> OpenedGeoTiff:
        """Read a source's header, in one GET where it lies in the file's first bytes.

        Raises:
            NotFast: GDAL decides.
            SourceError: The object cannot be read.
        """
        opened, digest = await self._parse(href, overview=overview, cost=cost)
        if digest is not None:
            if self.gdals_crs is None:
                raise UnknownCrsError("a CRS that is more than an EPSG code")
            crs = await self.gdals_crs.crs_of(digest, opened.header, overview=overview, cost=cost)
            opened.header = replace(opened.header, crs=crs)
        return opened

    async def _parse(
        self, href: str, *, overview: int | None, cost: Cost
    ) -> tuple[OpenedGeoTiff, bytes | None]:
        started = perf_counter()
        try:
            head = await self.objects.get_range(href, 0, self.settings.head_nbytes, etag=None, cost=cost)
            fragments = Fragments(head.object_nbytes)
            fragments.add(0, head.content)
            file = TiffFile(
                href=href,
                etag=head.etag,
                objects=self.objects,
                settings=self.settings,
                cost=cost,
                fragments=fragments,
            )
            return await file.parsed(lambda: _parse(file, overview))
        finally:
            cost.open_s += perf_counter() - started


def _parse(file: TiffFile, overview: int | None) -> tuple[OpenedGeoTiff, bytes | None]:
    """Parse directories, layout and header; overviews only where one is asked for.

    Returns:
        The source, and the digest of its CRS where only GDAL can name it.
    """
    form = parse_format(file.fragments)
    first = parse_ifd(file.fragments, form, form.first_ifd)
    full = layout_of(first)
    overviews = [] if overview is None else overviews_of(first, full)
    ifd, layout = first, full
    if overview is not None:
        if not 0 <= overview < len(overviews):
            raise NotFast("no such overview")
        ifd, layout = overviews[overview]
    keys = geo_keys_of(first)
    crs, is_known = None, True
    if not has_only_control_points(first):
        try:
            crs = crs_of(keys)
        except UnknownCrsError:
            is_known = False
    header = header_of(
        first,
        full,
        href=file.href,
        etag=file.etag,
        keys=keys,
        crs=crs,
        shown=layout,
        overviews=[each for _, each in overviews],
    )
    opened = OpenedGeoTiff(header=header, file=file, first=first, ifd=ifd, layout=layout)
    return opened, None if is_known else crs_digest(first, header)
