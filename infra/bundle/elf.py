"""Shared libraries without what only debuggers read: sections that the loader does not map.

In wheels they are up to nine tenths of a file. A linker's ``strip`` knows one machine, or has to be
installed; the loader itself needs no more than the program headers say, and they look alike everywhere.
"""

import struct
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, as both of Lambda's machines are."""

_HEADERS_AT: Final = 32
_N_HEADERS_AT: Final = 56
_N_SECTIONS_AT: Final = 60
"""Places in the file's header; that of the sections follows that of the program headers."""

_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_LOAD: Final = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """One program header: what of the file goes where in memory."""

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
        """Whether it is mapped by itself; the others lie within such ones."""
        return self.kind == _LOAD

    def holds(self, offset: int) -> bool:
        """Tell whether a byte of the file belongs to it."""
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
    """Return the library with its mapped parts moved together and all else gone.

    Every mapped byte keeps its address: to the loader it is the same library.
    """
    segments = segments_of(content)
    packed = bytearray()
    shifts = {}
    for load in sorted((part for part in segments if part.is_loaded), key=lambda part: part.offset):
        padding = (load.offset - len(packed)) % max(load.align, 1)  # keeps it congruent to its address
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
