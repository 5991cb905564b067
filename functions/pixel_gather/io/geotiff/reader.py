"""Open GeoTIFFs with one GET of the first bytes. More GETs follow only where the header is longer."""

from dataclasses import dataclass, field
from time import perf_counter

from pixel_gather.core.model.source import Cost
from pixel_gather.io.geotiff.gdals_crs import GdalsCrs, crs_digest
from pixel_gather.io.geotiff.geo_keys import has_heights, parse_crs, parse_geo_keys
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.header import build_header, find_overviews, reduced_header
from pixel_gather.io.geotiff.header_bytes import HeaderBytes
from pixel_gather.io.geotiff.header_read_size import FirstRead
from pixel_gather.io.geotiff.ifd import parse_format, parse_ifd
from pixel_gather.io.geotiff.layout import parse_layout
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.packed_header import Restored, unpack
from pixel_gather.io.geotiff.parsed_headers import Parsed, ParsedHeaders
from pixel_gather.io.geotiff.shared_tiles import SharedTiles
from pixel_gather.io.geotiff.tiff_file import TiffFile
from pixel_gather.io.geotiff.transform import has_only_control_points
from pixel_gather.io.geotiff.unsupported import UnknownCrsError, UnsupportedError
from pixel_gather.io.store.fetched import Ranges


@dataclass(slots=True)
class GeoTiffReader:
    """Reads GeoTIFFs by ranged GETs: a ``ports.SourceReader`` that may also raise UnsupportedError."""

    objects: Ranges
    settings: GeoTiffSettings = field(default_factory=GeoTiffSettings, kw_only=True)
    gdals_crs: GdalsCrs | None = field(default=None, kw_only=True)
    """Asks GDAL for CRSs that are more than an EPSG code. Without it they raise UnsupportedError."""

    first_read: FirstRead = field(init=False)
    parsed_headers: ParsedHeaders = field(default_factory=ParsedHeaders, init=False)
    tiles: SharedTiles | None = field(default=None, init=False)
    """Tiles that windows of the same version share, if the settings say so."""

    def __post_init__(self) -> None:
        """Start with the first read of the settings, and no tile."""
        self.first_read = FirstRead(self.settings.head_nbytes, is_fixed=not self.settings.learns_head)
        if self.settings.shared_nbytes:
            self.tiles = SharedTiles(self.settings.shared_nbytes)

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> OpenedGeoTiff:
        """Read a source's header: one GET where it lies in the first bytes of the file.

        With a valid packed header (``known``) of this overview nothing is read. If the object has been
        replaced since, the first read of pixels fails with status CHANGED.

        Raises:
            UnsupportedError: GDAL has to open it.
            SourceError: The object cannot be read.
        """
        if packed_header is not None:
            restored = unpack(packed_header, href=href, overview=overview)
            if restored is not None:
                return self._open_restored(restored, packed_header, overview=overview, cost=cost)
        opened, digest = await self._parse(href, overview=overview, cost=cost)
        if digest is not None:
            if self.gdals_crs is None:
                raise UnknownCrsError("a CRS that is more than an EPSG code")
            opened.header = await self.gdals_crs.complete(digest, opened.header, overview=overview, cost=cost)
        return opened

    def _open_restored(
        self, restored: Restored, packed_header: bytes, *, overview: int | None, cost: Cost
    ) -> OpenedGeoTiff:
        header, header_bytes = restored.header, restored.ifd.header_bytes
        return OpenedGeoTiff(
            header=header,
            file=self._file(header.href, header.etag, header_bytes, cost, is_seen=False),
            first=restored.first,
            ifd=restored.ifd,
            layout=restored.layout,
            overview=overview,
            first_read=self.first_read,
            is_masked=restored.is_masked,
            packed=packed_header,
            n_packed_parts=header_bytes.n_parts,
        )

    def _file(
        self, href: str, etag: str | None, header_bytes: HeaderBytes, cost: Cost, *, is_seen: bool
    ) -> TiffFile:
        """Return a file. Without an ETag it shares no tiles: two reads may see different versions."""
        return TiffFile(
            href=href,
            etag=etag,
            objects=self.objects,
            settings=self.settings,
            cost=cost,
            header_bytes=header_bytes,
            is_seen=is_seen,
            tiles=None if etag is None else self.tiles,
        )

    async def _parse(
        self, href: str, *, overview: int | None, cost: Cost
    ) -> tuple[OpenedGeoTiff, bytes | None]:
        started, nbytes_before = perf_counter(), cost.nbytes
        try:
            head = await self.objects.get_range(href, 0, self.first_read.nbytes, etag=None, cost=cost)
            header_bytes = HeaderBytes(head.object_nbytes)
            header_bytes.add(0, head.content)
            file = self._file(href, head.etag, header_bytes, cost, is_seen=True)
            known = self.parsed_headers.find(file, overview)
            if known is not None:
                return known
            try:
                return await file.parse(lambda: self._parse_anew(file, overview))
            except UnsupportedError as left:
                left.head = head
                raise
        finally:
            cost.open_s += perf_counter() - started
            cost.header_nbytes += cost.nbytes - nbytes_before

    def _parse_anew(self, file: TiffFile, overview: int | None) -> Parsed:
        viewed: list[tuple[int, int]] = []
        file.header_bytes.viewed = viewed
        parsed = _parse(file, overview, self.first_read)
        file.header_bytes.viewed = None
        self.parsed_headers.add(parsed, viewed)
        return parsed


def _parse(file: TiffFile, overview: int | None, first_read: FirstRead) -> tuple[OpenedGeoTiff, bytes | None]:
    """Parse directories, layout and header. Overviews are parsed only where one is requested.

    Returns:
        The source, and the digest of its CRS if only GDAL can build the CRS.
    """
    tiff_format = parse_format(file.header_bytes)
    first = parse_ifd(file.header_bytes, tiff_format, tiff_format.first_ifd)
    full = parse_layout(first)
    overviews = [] if overview is None else find_overviews(first, full)
    ifd, layout = first, full
    if overview is not None:
        if not 0 <= overview < len(overviews):
            raise UnsupportedError("no such overview")
        ifd, layout = overviews[overview]
    keys = parse_geo_keys(first)
    crs, is_known = None, True
    if not has_only_control_points(first):
        try:
            crs = parse_crs(keys)
        except UnknownCrsError:
            is_known = False
    elif has_heights(keys):
        raise UnsupportedError("control points, and GeoKeys of heights, whose unit GDAL gives to bands")
    header = build_header(
        first,
        full,
        href=file.href,
        etag=file.etag,
        keys=keys,
        crs=crs,
        overviews=[each for _, each in overviews],
    )
    if overview is not None:
        header = reduced_header(header, layout)
    opened = OpenedGeoTiff(
        header=header,
        file=file,
        first=first,
        ifd=ifd,
        layout=layout,
        overview=overview,
        first_read=first_read,
    )
    return opened, None if is_known else crs_digest(first, header)
