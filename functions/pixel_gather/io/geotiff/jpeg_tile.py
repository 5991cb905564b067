"""Decode JPEG tiles as libtiff does: by the tables of their directory, and to RGB where they hold YCbCr.

Only sequential JPEG of 8 bits is decoded, with all bands in one scan. GDAL has to read the rest.
"""

import struct
from typing import Any, Final

import imagecodecs
import numpy as np
from msgspec import Struct

from pixel_gather.io.geotiff.unsupported import UnsupportedError

MAX_TABLES_NBYTES: Final = 1 << 12
"""More than four tables of each kind take."""

SAMPLINGS: Final = frozenset({(1, 1), (2, 1), (1, 2), (2, 2)})
"""Across and down: how many luma samples share one of chroma."""

MAX_SAMPLES: Final = 4

_START, _END, _START_OF_SCAN = b"\xff\xd8", b"\xff\xd9", 0xDA
_FRAMES: Final = (0xC0, 0xC1)
"""Markers of baseline and of extended sequential frames, with Huffman codes."""

_SKIPPED: Final = frozenset({0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})
"""Markers of tables, restart intervals, comments and applications."""

_MAX_SEGMENTS: Final = 64
_LONGEST_PADDING: Final = 16
_COLOURS: Final = {1: "GRAYSCALE", 3: "RGB", 4: "CMYK"}
"""What libjpeg takes samples for, by their number, so that it converts none. Of two it never converts any."""

_EACH_ITS_OWN: Final = (1, 1)


class JpegCoding(Struct, frozen=True, kw_only=True):
    """What a directory says of its JPEG tiles."""

    tables: bytes
    """Tables that all tiles share, as a JPEG without an image. Empty where tiles have their own."""

    sampling: tuple[int, ...] | None
    """One of `SAMPLINGS` where tiles hold YCbCr, else None."""

    def __post_init__(self) -> None:
        """Refuse what is not decoded here.

        Raises:
            UnsupportedError: The tables are too long, or chroma is sampled in another way.
        """
        if len(self.tables) > MAX_TABLES_NBYTES:
            raise UnsupportedError("JPEG tables that are too long")
        if self.sampling is not None and self.sampling not in SAMPLINGS:
            raise UnsupportedError("chroma that is sampled more coarsely")


def decode_jpeg(content: memoryview, coding: JpegCoding, block: np.ndarray[Any, Any]) -> None:
    """Decode one tile into ``block``, shape (rows, columns, samples) or (rows, columns), dtype uint8.

    Raises:
        UnsupportedError: The tile is of another shape or kind, or does not end.
        RuntimeError: libjpeg cannot decode it.
    """
    n_samples = block.shape[2] if block.ndim > 2 else 1  # noqa: PLR2004 # an axis of samples
    _check_frame(content, coding, (*block.shape[:2], n_samples))
    if not bytes(content[-_LONGEST_PADDING:]).rstrip(b"\0").endswith(_END):
        raise UnsupportedError("a JPEG tile without an end")
    stored, wanted = ("YCBCR", "RGB") if coding.sampling else (_COLOURS.get(n_samples),) * 2
    imagecodecs.jpeg8_decode(
        content,
        tables=coding.tables or None,
        colorspace=stored,
        outcolorspace=wanted,
        out=block,
    )


def _check_frame(content: memoryview, coding: JpegCoding, shape: tuple[int, int, int]) -> None:
    """Refuse a tile whose frame has another shape than (rows, columns, samples), or is coded otherwise.

    libjpeg allocates what the frame claims, and decodes as many scans as there are.
    """
    luma = coding.sampling or _EACH_ITS_OWN
    samplings: list[tuple[int, int]] = []
    at = len(_START)
    try:
        if content[:at] != _START:
            raise UnsupportedError("a tile is no JPEG")
        for _ in range(_MAX_SEGMENTS):
            start, marker, nbytes = struct.unpack_from(">BBH", content, at)
            if start != _END[0]:
                break
            if marker in _FRAMES and not samplings:
                bits, rows, columns, n_samples = struct.unpack_from(">BHHB", content, at + 4)
                if (rows, columns, n_samples) != shape or bits != 8:  # noqa: PLR2004 # all that is decoded here
                    raise UnsupportedError("a JPEG of another shape than its tile")
                factors = (content[at + 11 + 3 * sample] for sample in range(n_samples))
                samplings = [divmod(each, 16) for each in factors]
                if samplings != [luma] + [_EACH_ITS_OWN] * (n_samples - 1):
                    raise UnsupportedError("a JPEG that is sampled otherwise than its directory says")
            elif marker == _START_OF_SCAN and content[at + 4] == len(samplings) > 0:
                return
            elif marker not in _SKIPPED:
                break
            at += 2 + nbytes
    except (struct.error, IndexError) as error:
        raise UnsupportedError("a JPEG tile that is cut off") from error
    raise UnsupportedError("a JPEG of another kind")
