"""Remembers headers that were parsed, for files whose headers hold the same bytes.

The files of one product often differ in their tiles alone. A header is parsed from certain bytes and from
nothing else. If a file has the same bytes in these places, the result is the same. Comparing takes a tenth of
the time of parsing.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import replace
from dataclasses import dataclass, field, fields
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.model.source import Header
from pixel_gather.io.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.io.geotiff.ifd import Ifd
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.tiff_file import TiffFile
from pixel_gather.io.geotiff.unsupported import TiffError

_MOST: Final = 8
"""Headers that are remembered. Each file that is like none of them is compared with all."""

type Parsed = tuple[OpenedGeoTiff, bytes | None]
"""The source, and the digest of its CRS if only GDAL can build the CRS."""


class _Known(Struct, frozen=True):
    overview: int | None
    places: tuple[tuple[int, int, bytes], ...]
    """The bytes [start, stop) that were parsed."""

    parsed: Parsed
    header_fields: Mapping[str, Any]
    """Those that do not differ between its files."""

    def is_of(self, header_bytes: HeaderBytes, overview: int | None) -> bool:
        if overview != self.overview:
            return False
        try:
            return all(header_bytes.view(start, stop) == content for start, stop, content in self.places)
        except (NeedBytes, TiffError):  # parsing tells what is wrong, or what has to be fetched
            return False


@dataclass(slots=True)
class ParsedHeaders:
    """The headers that were parsed last. Belongs to one event loop."""

    _known: list[_Known] = field(default_factory=list)

    def find(self, file: TiffFile, overview: int | None) -> Parsed | None:
        """Return what parsing would return, or None if no header with these bytes is known."""
        for position, known in enumerate(self._known):
            if known.is_of(file.header_bytes, overview):
                if position:
                    self._known.insert(0, self._known.pop(position))
                return _for_file(known, file)
        return None

    def add(self, parsed: Parsed, viewed: Sequence[tuple[int, int]]) -> None:
        """Remember a header.

        ``viewed`` are all places [start, stop) that parsing looked at.
        """
        opened, digest = parsed
        header_bytes = opened.file.header_bytes
        try:
            places = tuple(
                (start, stop, bytes(header_bytes.view(start, stop))) for start, stop in _join_touching(viewed)
            )
        except NeedBytes:  # two neighbouring places were fetched apart
            return
        forgetful = replace(opened, first=_without_bytes(opened.first), ifd=_without_bytes(opened.ifd))
        known = _Known(opened.overview, places, (forgetful, digest), _common_fields(opened.header))
        self._known.insert(0, known)
        del self._known[_MOST:]


def _join_touching(viewed: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places with those joined that touch each other."""
    start = stop = -1
    for each_start, each_stop in sorted(viewed):
        if each_start > stop:
            if start >= 0:
                yield start, stop
            start = each_start
        stop = max(stop, each_stop)
    if start >= 0:
        yield start, stop


def _without_bytes(ifd: Ifd) -> Ifd:
    return replace(ifd, header_bytes=HeaderBytes(0))


def _common_fields(header: Header) -> dict[str, Any]:
    of_file = ("href", "etag", "nbytes")
    return {each.name: getattr(header, each.name) for each in fields(header) if each.name not in of_file}


def _for_file(parsed: _Known, file: TiffFile) -> Parsed:
    """Return what parsing this file would return."""
    known, digest = parsed.parsed

    def of_file(ifd: Ifd) -> Ifd:
        return Ifd(
            entries=ifd.entries,
            next_offset=ifd.next_offset,
            format=ifd.format,
            header_bytes=file.header_bytes,
        )

    header = Header(
        href=file.href, etag=file.etag, nbytes=file.header_bytes.object_nbytes, **parsed.header_fields
    )
    first = of_file(known.first)
    opened = OpenedGeoTiff(
        header=header,
        file=file,
        first=first,
        ifd=first if known.overview is None else of_file(known.ifd),
        layout=known.layout,
        overview=known.overview,
        first_read=known.first_read,
    )
    return opened, digest
