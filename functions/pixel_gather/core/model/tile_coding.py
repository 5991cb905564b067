"""How the tiles of a source are stored: what a reader of their bytes has to know."""

from typing import Final, NamedTuple

from msgspec import Struct

AS_STORED: Final = "source"
"""The request's codec that stores tiles as they are in the sources."""

COMPLEX_INTEGERS: Final = "complex integers"
"""A dtype of TIFF that NumPy and Zarr lack."""

NO_PREDICTOR, HORIZONTAL, FLOATING_POINT = 1, 2, 3
"""Predictors by their TIFF codes."""

_SAID: Final[dict[str, tuple[str, dict[object, str]]]] = {
    "dtype": ("its dtype is", {}),
    "is_tiled": ("it is stored in", {True: "tiles", False: "strips"}),
    "tile_width": ("the width of its tiles is", {}),
    "tile_height": ("the height of its tiles is", {}),
    "compression": ("its compression is", {}),
    "predictor": (
        "its predictor is",
        {NO_PREDICTOR: "none", HORIZONTAL: "horizontal", FLOATING_POINT: "for floats"},
    ),
    "byte_order": ("its byte order is", {"<": "little-endian", ">": "big-endian"}),
    "is_interleaved": ("its bands are", {True: "interleaved", False: "in tiles of their own"}),
}
"""For each property, how a sentence about it begins, and the words for its values."""


class TileRange(NamedTuple):
    """Which bytes of an object are one stored tile."""

    start: int
    """First byte."""

    nbytes: int


class TileCoding(Struct, frozen=True, kw_only=True):
    """The properties that all sources must share if their tiles are to be chunks of one array."""

    dtype: str
    is_tiled: bool
    tile_width: int
    tile_height: int
    compression: str
    """Name in lower case, such as ``deflate``; ``none`` without compression."""

    predictor: int
    byte_order: str
    """``<`` or ``>``. Always ``<`` if a number has one byte."""

    is_interleaved: bool
    """Whether a tile holds the pixels of several bands."""

    def difference(self, other: "TileCoding") -> str | None:
        """Return in words the first property in which another source differs, or None."""
        if self == other:
            return None
        for name in self.__struct_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                begin, words = _SAID[name]
                return f"{begin} {words.get(theirs, theirs)}, not {words.get(ours, ours)}"
        return None
