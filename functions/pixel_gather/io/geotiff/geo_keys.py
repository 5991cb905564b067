"""The GeoKey directory: integers, doubles and texts, stored in three tags."""

from typing import Final

from pixel_gather.io.geotiff.ifd import Ifd
from pixel_gather.io.geotiff.tags import Tag
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_MAX_KEYS: Final = 256
_MAX_DOUBLES: Final = 1024
"""libgeotiff's own limit."""
_MAX_TEXT_NBYTES: Final = 1 << 16
_PER_KEY: Final = 4
_SHORT: Final = 3
_REVISIONS: Final = ((1, 1, 0), (1, 1, 1))

type GeoKeys = dict[int, int | tuple[float, ...] | str]


def parse_geo_keys(ifd: Ifd) -> GeoKeys:
    """Return the GeoKeys, or an empty dictionary.

    Raises:
        UnsupportedError: libgeotiff may read the list differently, or not at all.
        NeedBytes: Values have not been fetched yet.
    """
    entry = ifd.entries.get(Tag.GEO_KEY_DIRECTORY)
    if entry is None:
        return {}
    values = ifd.integers(Tag.GEO_KEY_DIRECTORY, most=_PER_KEY * (_MAX_KEYS + 1)) or ()
    is_whole = len(values) >= _PER_KEY and len(values) >= _PER_KEY * (values[3] + 1)
    if entry.kind != _SHORT or not is_whole or values[:3] not in _REVISIONS:
        raise UnsupportedError("the list of GeoKeys is broken")
    doubles = ifd.doubles(Tag.GEO_DOUBLE_PARAMS, most=_MAX_DOUBLES) or ()
    text = (ifd.text(Tag.GEO_ASCII_PARAMS, most=_MAX_TEXT_NBYTES) or b"").decode("latin-1")
    keys: GeoKeys = {}
    last = 0
    stop = _PER_KEY * (values[3] + 1)  # some writers leave a line of zeros after the list
    for first in range(_PER_KEY, stop, _PER_KEY):
        key, location, count, value = values[first : first + _PER_KEY]
        if key <= last:
            raise UnsupportedError("GeoKeys are out of order")
        keys[key] = (
            value if location == 0 and count == 1 else _read_stored_key(location, value, count, doubles, text)
        )
        last = key
    return keys


def _read_stored_key(
    location: int, index: int, count: int, doubles: tuple[float, ...], text: str
) -> tuple[float, ...] | str:
    """Return a value that is stored in another tag."""
    values = {Tag.GEO_DOUBLE_PARAMS: doubles, Tag.GEO_ASCII_PARAMS: text}.get(location, ())  # type: ignore[call-overload] # an int is as good as the Tag of its value
    if index + count > len(values):
        raise UnsupportedError("a GeoKey's value is missing")
    stored: tuple[float, ...] | str = values[index : index + count]
    return stored
