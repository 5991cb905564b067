"""The shared libraries of the Lambda packages: reduced ones, and the replacement of expat."""

import ctypes
import platform
import sys
from pathlib import Path
from typing import Final

import pytest
import rasterio.crs

from infra.bundle.bundle import bundle
from infra.bundle.elf import segments_of, without_sections
from infra.bundle.expat import library

HERE: Final = platform.machine()

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the packages run on Linux only")


@linux_only
def test_without_sections_keeps_every_mapped_byte() -> None:
    """Every byte that the loader maps stays at its address."""
    content = Path(rasterio.crs.__file__).read_bytes()

    packed = without_sections(content)

    assert len(packed) < len(content)
    before, after = mapped(content), mapped(packed)
    n_headers = 64 + 56 * len(segments_of(content))
    assert before.keys() == after.keys()
    for address, (held, flags) in before.items():
        start = n_headers if address == 0 else 0
        assert after[address] == (after[address][0][:start] + held[start:], flags)


@linux_only
@pytest.mark.long
@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_bundles_libraries_keep_what_the_loader_demands(machine: str) -> None:
    """File positions are congruent to addresses, and all referenced parts are mapped."""
    for path in bundle("plan", machine=machine, is_emulated=False).rglob("*.so*"):
        content = path.read_bytes()
        segments = segments_of(content)
        loads = [part for part in segments if part.is_loaded]

        assert all((part.offset - part.address) % part.align == 0 for part in loads), path
        assert all(part.offset + part.nbytes <= len(content) for part in segments), path
        for part in segments:
            inside = [load for load in loads if part.nbytes and load.holds(part.offset)]
            assert not part.nbytes or inside[0].address - inside[0].offset == part.address - part.offset, path


@linux_only
def test_expat_has_the_wanted_functions_and_they_say_failed(tmp_path: Path) -> None:
    """GDAL finds all functions. Creating a parser fails."""
    stub = tmp_path / "libexpat.so.1"
    stub.write_bytes(library([b"XML_Parse", b"XML_ParserCreate_MM"], machine=HERE))

    loaded = ctypes.CDLL(str(stub))

    assert loaded.XML_ParserCreate_MM(None, None, None) == 0
    assert loaded.XML_Parse(None, b"<a/>", 4, 1) == 0
    with pytest.raises(AttributeError):
        _ = loaded.XML_ParserFree


def test_expat_is_the_same_library_on_both_machines() -> None:
    """Only the machine's number and the code that returns 0 differ."""
    ours, other = (library([b"XML_Parse"], machine=machine) for machine in ("x86_64", "aarch64"))

    differing = [place for place, (a, b) in enumerate(zip(ours, other, strict=True)) if a != b]
    code_at = 64 + 4 * 56
    assert {place for place in differing if not code_at <= place < code_at + 8} == {18}


def mapped(content: bytes) -> dict[int, tuple[bytes, int]]:
    """Return the bytes and permissions that the loader maps, by address."""
    return {
        part.address: (content[part.offset : part.offset + part.nbytes], part.flags)
        for part in segments_of(content)
        if part.is_loaded
    }
