"""GDAL_METADATA: the XML tag that holds each band's scale, offset, unit, colour and classes."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pixel_gather.core.model.band_meaning import MOST_CLASSES, BandClass, kept_unit
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.nodata_tag import NUMBER
from pixel_gather.io.geotiff.unsupported import UnsupportedError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MAX_NBYTES: Final = 1 << 20
_COLOURS: Final = frozenset(
    {
        *("red", "green", "blue", "alpha", "hue", "saturation", "lightness"),
        *("cyan", "magenta", "yellow", "black", "pan", "coastal", "rededge", "nir", "swir"),
    }
)
"""GDAL's colour interpretations in lower case, without palette, grey and undefined."""

_BAND: Final = re.compile(r"[0-9]{1,5}")
_WHOLE: Final = re.compile(r"-?\d{1,10}")
_ENTITIES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
"""GDAL escapes a text before it writes it as XML, which escapes it again."""


def scales_and_offsets(ifd: Ifd, n_bands: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return each band's scale and offset. The defaults are 1.0 and 0.0.

    Raises:
        UnsupportedError: GDAL may read this XML differently, or it has a document type.
        NeedBytes: The text has not been fetched yet.
    """
    scales, offsets = [1.0] * n_bands, [0.0] * n_bands
    for item in _items(ifd, b"scale", b"offset"):
        values = {"scale": scales, "offset": offsets}.get(item.get("role", "").lower())
        if values is None:
            continue
        number, band = (item.text or "").strip(), item.get("sample", "")
        if not NUMBER.fullmatch(number):
            raise UnsupportedError("scale or offset is not a number")
        if not _BAND.fullmatch(band) or int(band) >= n_bands:
            raise UnsupportedError("scale or offset of no band")
        values[int(band)] = float(number)
    return tuple(scales), tuple(offsets)


def mentions_mask(ifd: Ifd) -> bool:
    """Tell whether the XML may declare an alpha band, or one nodata value for all bands together."""
    text = _text(ifd).lower()
    return b"alpha" in text or b"nodata_values" in text


def colours_of_bands(ifd: Ifd) -> dict[int, str | None]:
    """Return the colour of each band that the XML tells one of, from 0; None for grey and undefined.

    A palette is left out, as only the file's table of colours makes one.

    Raises:
        UnsupportedError: As in `scales_and_offsets`.
        NeedBytes: The text has not been fetched yet.
    """
    told = {band: text.strip().lower() for band, text in _told_of_bands(ifd, "colorinterp")}
    return {
        band: colour if colour in _COLOURS else None for band, colour in told.items() if colour != "palette"
    }


def units_of_bands(ifd: Ifd) -> dict[int, str]:
    """Return the unit of each band that the XML tells one of, from 0.

    Raises:
        UnsupportedError: As in `scales_and_offsets`.
        NeedBytes: The text has not been fetched yet.
    """
    return {band: kept_unit(_unescape(text)) for band, text in _told_of_bands(ifd, "unittype")}


def flags_of_bands(ifd: Ifd) -> Mapping[int | None, tuple[BandClass, ...]]:
    """Return the classes of each band, from 0, that items ``flag_values`` and ``flag_meanings`` name.

    These are CF's attributes, which writers such as rioxarray put here. None stands for all bands.

    Raises:
        UnsupportedError: As in `scales_and_offsets`.
        NeedBytes: The text has not been fetched yet.
    """
    said: dict[tuple[str | None, str | None], str] = {
        (item.get("name"), item.get("sample")): _unescape(item.text or "")
        for item in _items(ifd, b"flag_values")
    }
    return {
        None if sample is None else int(sample): _flags(values, said.get(("flag_meanings", sample), ""))
        for (name, sample), values in said.items()
        if name == "flag_values" and (sample is None or sample.isdecimal())
    }


def _flags(values: str, meanings: str) -> tuple[BandClass, ...]:
    numbers = [int(each) for each in _WHOLE.findall(values)]
    names = meanings.split()
    if len(numbers) != len(names) or len(numbers) > MOST_CLASSES:
        return ()
    return tuple(
        BandClass(value=number, name=name.replace("_", " "))
        for number, name in zip(numbers, names, strict=True)
    )


def overview_resampling(ifd: Ifd) -> str | None:
    """Return the method that overviews were made by, in capitals. GDAL names it since version 3.12.

    Raises:
        UnsupportedError: As in `scales_and_offsets`.
        NeedBytes: The text has not been fetched yet.
    """
    items = _items(ifd, b"overview_resampling")
    named = (item.text for item in items if item.get("name") == "OVERVIEW_RESAMPLING")
    return next((each.strip().upper() for each in named if each), None)


def _unescape(text: str) -> str:
    """Return a text as it was before GDAL escaped it.

    Raises:
        UnsupportedError: It has entities that GDAL does not write.
    """
    if "&#" in text:
        raise UnsupportedError("GDAL metadata with numeric character references")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def _text(ifd: Ifd) -> bytes:
    """Return the XML, or empty bytes."""
    return ifd.text(Tag.GDAL_METADATA, most=_MAX_NBYTES) or b""


def _told_of_bands(ifd: Ifd, role: str) -> Iterator[tuple[int, str]]:
    """Yield the band, from 0, and the text of each item of this role."""
    for item in _items(ifd, role.encode()):
        band = item.get("sample", "")
        if item.get("role", "").lower() == role and _BAND.fullmatch(band):
            yield int(band), item.text or ""


def _items(ifd: Ifd, *words: bytes) -> list["Element"]:
    """Return the items of XML without a document type. Empty if no attribute has one of the words as value.

    The words are in lower case. GDAL ignores the case of values.
    """
    text = _text(ifd)
    folded = text.lower()
    if not any(b'"%b"' % word in folded or b"'%b'" % word in folded for word in words):
        return []
    from xml.etree import ElementTree as ET  # noqa: PLC0415 # few files declare a scale

    if b"<!" in text or b"<?" in text:
        raise UnsupportedError("GDAL metadata with a document type")
    try:
        root = ET.fromstring(text)  # noqa: S314 # no DOCTYPE, so no entities; size bounded
    except (ET.ParseError, ValueError) as error:
        raise UnsupportedError("GDAL metadata is not XML") from error
    if root.tag != "GDALMetadata" or not all(map(_is_plain, root)):
        raise UnsupportedError("GDAL metadata of another form")
    return list(root)


def _is_plain(item: "Element") -> bool:
    """Tell whether GDAL reads the item as it stands there.

    GDAL skips items that have no name or have elements inside. It ignores the case of names of attributes.
    """
    is_flat = item.tag == "Item" and not len(item)
    return is_flat and "name" in item.attrib and all(map(str.islower, item.attrib))
