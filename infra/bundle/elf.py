"""Removes from shared libraries the sections that the loader does not map. Only debuggers read them.

In wheels they are up to nine tenths of a file. binutils' ``strip`` has to be installed and knows one machine.
The loader needs only the segments that the program headers name. These headers are the same on all machines.
"""

import struct
from copy import replace
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

_MAGIC: Final = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, as both of Lambda's machines are."""

_HEADERS_AT: Final = 32
_N_HEADERS_AT: Final = 56
_N_SECTIONS_AT: Final = 60
"""Offsets in the file's header. The offset of the section headers follows that of the program headers."""

_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_LOAD: Final = 1


class Segment(Struct, frozen=True):
    """One program header: which part of the file is mapped to which address."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    nbytes: int
    memory_nbytes: int
    align: int

    @property
    def is_loaded(self) -> bool:
        """Whether the loader maps this segment. The other segments lie within such ones."""
        return self.kind == _LOAD

    def holds(self, offset: int) -> bool:
        """Return whether a byte of the file belongs to the segment."""
        return self.offset <= offset < self.offset + self.nbytes


def strip(folder: Path) -> None:
    """Strip all libraries in a folder."""
    for path in sorted(folder.rglob("*.so*")):
        content = path.read_bytes()
        if content.startswith(_MAGIC):
            path.write_bytes(without_sections(content))


def segments_of(content: bytes) -> list[Segment]:
    """Return the program headers of a library."""
    (start,) = struct.unpack_from("<Q", content, _HEADERS_AT)
    (n_headers,) = struct.unpack_from("<H", content, _N_HEADERS_AT)
    places = range(start, start + n_headers * _PROGRAM_HEADER.size, _PROGRAM_HEADER.size)
    return [Segment(*_PROGRAM_HEADER.unpack_from(content, place)) for place in places]


def without_sections(content: bytes) -> bytes:
    """Return the library with only its mapped parts, moved together.

    Every mapped byte keeps its address. So the loader sees the same library.
    """
    segments = segments_of(content)
    packed = bytearray()
    shifts = {}
    for load in sorted((part for part in segments if part.is_loaded), key=lambda part: part.offset):
        padding = (load.offset - len(packed)) % max(load.align, 1)  # offset and address have to be congruent
        shifts[load] = len(packed) + padding - load.offset
        packed += bytes(padding) + content[load.offset : load.offset + load.nbytes]

    def moved(offset: int) -> int:
        return offset + next((shift for load, shift in shifts.items() if load.holds(offset)), -offset)

    (headers_at,) = struct.unpack_from("<Q", content, _HEADERS_AT)
    headers_at = moved(headers_at)
    for index, part in enumerate(segments):
        offset = part.offset + shifts[part] if part.is_loaded else moved(part.offset)
        place = headers_at + index * _PROGRAM_HEADER.size
        _PROGRAM_HEADER.pack_into(packed, place, *astuple(replace(part, offset=offset)))
    struct.pack_into("<QQ", packed, _HEADERS_AT, headers_at, 0)
    struct.pack_into("<HH", packed, _N_SECTIONS_AT, 0, 0)
    return bytes(packed)
