"""The small files that a deployment gathers to check itself, and what their gather has to give. Pure.

A sample is a GeoTIFF of 64 x 64 pixels in four tiles. Its bytes are made here, so a check needs no file.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

N_SAMPLES: Final = 20
FOLDER: Final = "samples/"
"""Where the control bucket has them."""

PREFIX: Final = "pixel-gather-canary-"
"""The deployment's own checks gather the samples. Names of these gathers, and of their cubes, begin with it.

The cubes expire. No other cube may have such a name.
"""

PIXELS: Final = "c25eed3c25762b5f25bb68021aaec2c8"
"""The digest of all pixels of `request_of`, as a report has it."""

_SIDE: Final = 64
_TILE: Final = 32
_STARTS: Final = tuple((y, x) for y in range(0, _SIDE, _TILE) for x in range(0, _SIDE, _TILE))
_LETTERS: Final = {3: "H", 4: "I", 12: "d"}
"""Field types of TIFF: short, long, double."""


def key_of(index: int) -> str:
    """Return the key of a sample in the control bucket."""
    return f"{FOLDER}{index:02d}.tif"


def sample(index: int) -> bytes:
    """Return the bytes of a sample, counted from 0."""
    content = bytearray(struct.pack("<2sHI", b"II", 42, 0))
    places, sizes = [], []
    for top, left in _STARTS:
        rows = range(top, top + _TILE)
        values = ((index * 251 + y * 67 + x * 3) % 65_536 for y in rows for x in range(left, left + _TILE))
        tile = zlib.compress(b"".join(struct.pack("<H", value) for value in values))
        places.append(len(content))
        sizes.append(len(tile))
        content += tile + bytes(len(tile) % 2)
    tags: dict[int, tuple[int, tuple[float, ...]]] = {
        256: (3, (_SIDE,)),  # width
        257: (3, (_SIDE,)),
        258: (3, (16,)),  # bits
        259: (3, (8,)),  # DEFLATE
        262: (3, (1,)),  # 0 is black
        277: (3, (1,)),  # bands
        322: (3, (_TILE,)),
        323: (3, (_TILE,)),
        324: (4, tuple(places)),
        325: (4, tuple(sizes)),
        339: (3, (1,)),  # unsigned
        33550: (12, (10.0, 10.0, 0.0)),  # metres of a pixel
        33922: (12, (0.0, 0.0, 0.0, 600_000.0, 5_200_000.0, 0.0)),
        34735: (3, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32632)),  # UTM 32 N
    }
    values_at = len(content) + 2 + 12 * len(tags) + 4
    entries, values_of_tags = b"", b""
    for tag, (kind, told) in tags.items():
        packed = struct.pack(f"<{len(told)}{_LETTERS[kind]}", *told)
        entries += struct.pack("<HHI", tag, kind, len(told))
        if len(packed) <= 4:  # noqa: PLR2004 # the room that an entry has
            entries += packed.ljust(4, b"\0")
        else:
            entries += struct.pack("<I", values_at + len(values_of_tags))
            values_of_tags += packed
    struct.pack_into("<I", content, 4, len(content))
    return bytes(content + struct.pack("<H", len(tags)) + entries + bytes(4) + values_of_tags)


def request_of(bucket: str, *, name: str, report: bool) -> Mapping[str, Any]:
    """Return the request that gathers all samples, each in a shard and a worker of its own.

    Args:
        bucket: The control bucket.
        name: Name of the cube. It begins with `PREFIX`.
        report: Whether to draw a report.
    """
    return {
        "sources": {"hrefs": [f"s3://{bucket}/{key_of(index)}" for index in range(N_SAMPLES)]},
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "output": {"name": name, "report": report, "layout": {"chunk": [1, _SIDE, _SIDE], "shard_rows": 1}},
        "limits": {"workers": N_SAMPLES},
    }
