"""Writes a libexpat in which every parse fails, so that GDAL can be loaded where there is no libexpat.

rasterio's wheels need the system's ``libexpat.so.1``. Lambda's Python has none, so ``import rasterio`` fails
there, though not in AWS's container images (https://github.com/developmentseed/eoapi-cdk/pull/182). GDAL's
drivers for KML, GPX and similar formats use it. GTiff, JP2OpenJPEG and PROJ do not, and ``io/gdal``
allows no other driver.
"""

import re
import struct
from pathlib import Path
from typing import Final

_SONAME: Final = b"libexpat.so.1"
_WANTED: Final = re.compile(rb"XML_[A-Z][A-Za-z_]+(?=\0)")
"""Finds the names of expat's functions in GDAL. Other strings that match do no harm."""

_MACHINES: Final = {
    "aarch64": (183, b"\x00\x00\x80\xd2\xc0\x03\x5f\xd6"),  # mov x0, #0; ret
    "x86_64": (62, b"\x31\xc0\xc3\x90\x90\x90\x90\x90"),  # xor eax, eax; ret
}
"""ELF's number of the machine, and the code of a function that returns 0, which means failure."""

_PAGE: Final = 0x10000
_HEADER: Final = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_ENTRY: Final = struct.Struct("<QQ")

_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_END_TAG, _HASH_TAG, _STRINGS_TAG, _SYMBOLS_TAG, _STRINGS_NBYTES_TAG, _SYMBOL_NBYTES_TAG, _SONAME_TAG = (
    0, 4, 5, 6, 10, 11, 14,
)  # fmt: skip
_GLOBAL_FUNCTION: Final = 0x12


def add_expat(folder: Path, *, machine: str) -> None:
    """Write the library beside a bundle's GDAL, where GDAL looks first. Do nothing without GDAL."""
    for gdal in folder.glob("rasterio.libs/libgdal*"):
        names = sorted(set(_WANTED.findall(gdal.read_bytes())))
        gdal.with_name(_SONAME.decode()).write_bytes(library(names, machine=machine))


def library(names: list[bytes], *, machine: str) -> bytes:
    """Return a shared library whose functions all return 0. For expat, this means that parsing failed."""
    # The names, and a symbol for each. All of them are the same few bytes of code.
    number, code = _MACHINES[machine]
    strings, symbols, places = b"\0" + _SONAME + b"\0", _SYMBOL.pack(0, 0, 0, 0, 0, 0), []
    for name in names:
        places.append(len(strings))
        strings += name + b"\0"
    n_symbols = 1 + len(names)
    code_at = _HEADER.size + 4 * _PROGRAM_HEADER.size
    symbols += b"".join(_SYMBOL.pack(place, _GLOBAL_FUNCTION, 0, 1, code_at, len(code)) for place in places)
    # One bucket holds all symbols: the loader compares the names, one after the other.
    chain = [*range(2, n_symbols), 0] if names else []
    hashes = struct.pack(f"<{4 + len(chain)}I", 1, n_symbols, min(1, len(names)), 0, *chain)
    # Where does each part lie in the file?
    symbols_at = code_at + len(code)
    strings_at = symbols_at + len(symbols)
    hashes_at = strings_at + len(strings) + -(strings_at + len(strings)) % 8
    dynamic_at = hashes_at + len(hashes) + -(hashes_at + len(hashes)) % 8
    dynamic = b"".join(
        _ENTRY.pack(tag, value)
        for tag, value in (
            (_SONAME_TAG, 1),
            (_HASH_TAG, hashes_at),
            (_STRINGS_TAG, strings_at),
            (_SYMBOLS_TAG, symbols_at),
            (_STRINGS_NBYTES_TAG, len(strings)),
            (_SYMBOL_NBYTES_TAG, _SYMBOL.size),
            (_END_TAG, 0),
        )
    )
    # the loader writes into the dynamic section, so this needs a writable page
    mapped_at = dynamic_at + _PAGE
    headers = (
        (_LOAD, _READ | _EXECUTE, 0, 0, dynamic_at, _PAGE),
        (_LOAD, _READ | _WRITE, dynamic_at, mapped_at, len(dynamic), _PAGE),
        (_DYNAMIC, _READ | _WRITE, dynamic_at, mapped_at, len(dynamic), 8),
        (_STACK, _READ | _WRITE, 0, 0, 0, 16),
    )
    head = _HEADER.pack(
        b"\x7fELF", 2, 1, 1, 0, 3, number, 1, 0, _HEADER.size, 0, 0,
        _HEADER.size, _PROGRAM_HEADER.size, len(headers), 0, 0, 0,
    )  # fmt: skip
    head += b"".join(
        _PROGRAM_HEADER.pack(kind, flags, offset, address, address, nbytes, nbytes, align)
        for kind, flags, offset, address, nbytes, align in headers
    )
    content = head + code + symbols + strings
    content = content.ljust(hashes_at, b"\0") + hashes
    return content.ljust(dynamic_at, b"\0") + dynamic
