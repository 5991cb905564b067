"""Cubes of others: a chunk that unpacks to more than its array says is an error, in little memory."""

import json
import pickle
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import obstore
import pytest

from hostile.memory import peak_rss_mib, reset_peak
from pixel_gather import join, make_virtual, open_cube, open_joined, open_virtual
from pixel_gather.core.errors import StoreError
from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.rows.read_rows import RowColumns
from pixel_gather.io.cube.bounded_codecs import _BLOSC_NBYTES_AT, open_foreign_group, zstd_nbytes
from pixel_gather.io.cube.open_group import finished_group, open_group
from support.report_cubes import MadeCube
from support.viewed_cubes import SIDE, gathered_valley

_BLOCK_NBYTES = 1 << 17
_N_BLOCKS = 1 << 13
"""The bombs unpack to 1 GiB."""

_MOST_GROWTH_MIB = 300


def zstd_bomb(*, says_its_size: bool) -> bytes:
    """Return a frame of blocks that each repeat one byte (RFC 8878, section 3.1.1.2)."""
    size = struct.pack("<Q", _BLOCK_NBYTES * _N_BLOCKS) if says_its_size else b""
    block = (2 | _BLOCK_NBYTES << 3).to_bytes(3, "little") + b"\0"
    last = (3 | _BLOCK_NBYTES << 3).to_bytes(3, "little") + b"\0"
    descriptor = b"\xc0" if says_its_size else b"\0"
    return b"\x28\xb5\x2f\xfd" + descriptor + b"\x38" + size + block * (_N_BLOCKS - 1) + last


@dataclass(frozen=True)
class Case:
    """A changed object of a cube."""

    id: str
    key: str
    content: Callable[[bytes], bytes]


def metadata(**changed: Any) -> Callable[[bytes], bytes]:
    """Return a change of an array's metadata."""
    return lambda content: json.dumps(json.loads(content) | changed).encode()


HUGE = {"name": "regular", "configuration": {"chunk_shape": [1 << 40]}}
OTHER_CODECS = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]
CASES = [
    Case("zstd of numbers", "status/c/0", lambda _: zstd_bomb(says_its_size=True)),
    Case("zstd of texts", "href/c/0", lambda _: zstd_bomb(says_its_size=True)),
    Case("zstd of numbers, as a stream", "status/c/0", lambda _: zstd_bomb(says_its_size=False)),
    Case("zstd of texts, as a stream", "href/c/0", lambda _: zstd_bomb(says_its_size=False)),
    Case("zstd that is cut off", "status/c/0", lambda _: zstd_bomb(says_its_size=True)[:9]),
    Case("no zstd", "status/c/0", lambda _: b"anything"),
    Case(
        "more texts than rows",
        "href/c/0",
        lambda _: bytes(imagecodecs.zstd_encode(struct.pack("<I", 600_000_000))),
    ),
    Case("giant chunks", "status/zarr.json", metadata(chunk_grid=HUGE)),
    Case("a codec that no gather uses", "status/zarr.json", metadata(codecs=OTHER_CODECS)),
]


def test_a_chunk_of_more_texts_than_fit_into_memory_is_refused() -> None:
    """Each takes eight bytes in memory, even if it is empty."""
    store = MadeCube(has_quicklooks=False).stored()
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 26]}}
    content = bytes(obstore.get(store, "href/zarr.json").bytes())
    obstore.put(store, "href/zarr.json", metadata(chunk_grid=grid)(content))

    with pytest.raises(ValueError, match="the chunks of href are larger"):
        open_foreign_group(store)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_cube_of_others_stays_inside_the_memory(case: Case) -> None:
    """Whatever a chunk unpacks to, its reading ends with an error that names the cube."""
    store = MadeCube(has_quicklooks=False).stored()
    obstore.put(store, case.key, case.content(bytes(obstore.get(store, case.key).bytes())))
    reset_peak()
    before_mib = peak_rss_mib("self")

    rows = RowColumns(store, place=case.id)
    with pytest.raises(StoreError, match=case.id):
        rows.columns(("href", "status"), field="where")
    with pytest.raises(StoreError, match="place"):
        read_evidence(store, place="place")
    assert peak_rss_mib("self") - before_mib < _MOST_GROWTH_MIB


def test_a_sound_cube_is_read_with_bounded_codecs() -> None:
    """The limits refuse nothing that a gather writes."""
    store = MadeCube().stored()

    status: Any = RowColumns(store, place="sound").columns(("status",), field="where")["status"]
    assert status.tolist() == [0] * 10
    with finished_group(store, "place") as group:
        pixels: Any = group["band_1"]
        np.testing.assert_array_equal(pixels[...], MadeCube().pixels(10))
    assert open_group(store) is not None


@pytest.mark.parametrize("name", ["blosc", "numcodecs.zlib"])
def test_other_codecs_are_bounded(name: str) -> None:
    """Blosc says how long it becomes. Deflate is stopped at the chunk's size."""
    store = MadeCube(has_quicklooks=False).stored()
    big = bytes(1 << 24)
    content = imagecodecs.blosc_encode(big, compressor="lz4") if name == "blosc" else zlib.compress(big)
    own = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}
    configuration = own if name == "blosc" else {"level": 1}
    codecs = [{"name": "bytes"}, {"name": name, "configuration": configuration}]
    described = bytes(obstore.get(store, "status/zarr.json").bytes())
    obstore.put(store, "status/zarr.json", metadata(codecs=codecs)(described))
    obstore.put(store, "status/c/0", content)
    status: Any = open_foreign_group(store)["status"]

    if name == "blosc":
        with pytest.raises(ValueError, match="more than its array says"):
            status[...]
    else:
        assert status[...].tolist() == [0] * 10


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (255, 255), (256, 256), (70_000, 70_000)])
def test_zstd_nbytes_is_what_the_frame_says(n: int, expected: int) -> None:
    """Each width of the field is read as the format says."""
    assert zstd_nbytes(bytes(imagecodecs.zstd_encode(bytes(n)))) == expected


@pytest.mark.long
def test_opened_cube_has_bounded_codecs(tmp_path: Path) -> None:
    """Pixels are read when they are used, within their limits. Other processes get zarr-python's codecs."""
    place = gathered_valley(tmp_path, n_rows=1).place
    cube = open_cube(place)
    expected = cube["red"].values
    chunk = next(path for path in Path(place, "red", "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[_BLOSC_NBYTES_AT : _BLOSC_NBYTES_AT + 4] = (1 << 30).to_bytes(4, "little")
    chunk.write_bytes(content)

    assert b"bounded_codecs" not in pickle.dumps(open_cube(place))
    assert expected.any()
    with pytest.raises(ValueError, match="more than its array says"):
        _ = open_cube(place)["red"].values


def test_opened_cube_with_giant_chunks_is_refused(tmp_path: Path) -> None:
    """The error names the cube."""
    place = Path(gathered_valley(tmp_path, n_rows=1).place)
    root = json.loads((place / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"]["status"]["chunk_grid"]["configuration"]["chunk_shape"] = [
        1 << 40,
        4,
    ]
    (place / "zarr.json").write_text(json.dumps(root))

    with pytest.raises(StoreError, match=rf"{place.name}.*the chunks of status are larger"):
        open_cube(place)


@pytest.mark.long
def test_joined_cubes_and_virtual_cubes_have_bounded_codecs(tmp_path: Path) -> None:
    """Their chunks are those of the members, and tiles of the sources."""
    place = gathered_valley(tmp_path, n_rows=1).place
    join([place], to=str(tmp_path / "all.icechunk"))
    request = {"sources": str(tmp_path / "sources.csv"), "window": {"pixels": [0, 0, SIDE, SIDE]}}
    make_virtual(request, to=tmp_path / "virtual.icechunk")

    for opened in (open_joined(tmp_path / "all.icechunk"), open_virtual(tmp_path / "virtual.icechunk")):
        array: Any = opened["red"].variable._data
        while hasattr(array, "array"):
            array = array.array
        assert "Bounded" in repr(array._array._async_array.codec_pipeline)
