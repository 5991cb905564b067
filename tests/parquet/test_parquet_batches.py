"""Tests reading Parquet in a process of its own: damage ends that process, never ours."""

import asyncio
import gc
import io
import random
import resource
from itertools import product
from pathlib import Path
from typing import Any, Final

import arro3.io
import pytest
from arro3.core import Array, DataType, RecordBatch, fixed_size_list_array
from obstore.store import LocalStore

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.io.cube.row_table import read_table
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.lists.parse_list import read_records
from pixel_gather.io.parquet import parquet_batches as module
from pixel_gather.io.parquet.parquet_batches import ParquetError, parquet_batches

_DAMAGED: Final = Path(__file__).parents[1] / "fuzz" / "corpus" / "list_file"
_FATAL: Final = sorted(path.name for path in _DAMAGED.glob("damaged-*.parquet"))
_N_ROWS: Final = 300
_COMPRESSIONS: Final = ("uncompressed", "snappy", "zstd(3)", "gzip(6)", "lz4_raw", "brotli(3)")
_ENCODINGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"dictionary_enabled": False},
    {"dictionary_enabled": False, "writer_version": "parquet_2_0"},
    {
        "dictionary_enabled": False,
        "column_encoding": {
            "href": "delta_byte_array",
            "text": "delta_length_byte_array",
            "number": "delta_binary_packed",
            "share": "byte_stream_split",
        },
    },
)


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    """A table of each compression and encoding, in row groups."""
    count = range(_N_ROWS)
    columns = {
        "href": Array([f"s3://bucket/{n % 7}/{n}.tif" for n in count], DataType.string()),
        "text": Array([None if n % 7 == 0 else f"v{n % 5}" for n in count], DataType.string()),
        "number": Array([n * n for n in count], DataType.int64()),
        "share": Array([n / 3 for n in count], DataType.float64()),
        "flag": Array([n % 3 == 0 for n in count], DataType.bool()),
        "packed": Array([bytes([n % 251]) * (n % 9) for n in count], DataType.binary()),
        "pair": fixed_size_list_array(Array([n * 1.5 for n in range(2 * _N_ROWS)], DataType.float64()), 2),
    }
    batch = RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    written = []
    for compression, options in product(_COMPRESSIONS, _ENCODINGS):
        file = io.BytesIO()
        arro3.io.write_parquet(
            batch,
            file,
            compression=compression,
            max_row_group_size=120,
            key_value_metadata={"of": "rows"},
            **options,
        )
        written.append(file.getvalue())
    return written


def _fatal(name: str) -> bytes:
    return (_DAMAGED / name).read_bytes()[1:]  # the first byte names the format


def test_batches_are_those_that_arro3_reads(files: list[bytes]) -> None:
    """Values, types, order, sizes and metadata are those of the file."""
    for content in files:
        expected = arro3.io.read_parquet(io.BytesIO(content), batch_size=50)
        schema, batches = parquet_batches(io.BytesIO(content), batch_size=50)

        assert schema == expected.schema
        assert schema.metadata[b"of"] == b"rows"
        assert list(batches) == list(expected)


def test_damaged_pages_are_an_error_or_other_values(files: list[bytes]) -> None:
    """Bits of pages are turned. Parquet has no checksum here, so some damage only changes values."""
    chance = random.Random(20261122)  # noqa: S311 # the same files at every run
    n_refused = 0
    for number in range(200):
        content = bytearray(files[number % len(files)])
        end_of_pages = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        for _ in range(chance.choice((1, 1, 2, 5))):
            content[chance.randrange(4, end_of_pages)] ^= 1 << chance.randrange(8)
        try:
            list(parquet_batches(io.BytesIO(content), batch_size=50)[1])
        except ParquetError:
            n_refused += 1

    assert 20 < n_refused < 200


@pytest.mark.long
@pytest.mark.parametrize("name", _FATAL)
def test_page_that_ends_arro3s_process_is_an_error(name: str, files: list[bytes]) -> None:
    """These bytes ended the whole process. The next file is read all the same."""
    with pytest.raises(ParquetError, match="a page is damaged, or takes too much memory or time"):
        list(parquet_batches(io.BytesIO(_fatal(name)), batch_size=50)[1])

    assert sum(batch.num_rows for batch in parquet_batches(io.BytesIO(files[0]), batch_size=50)[1]) == _N_ROWS


def test_list_with_such_a_page_is_a_request_error_that_names_it() -> None:
    """So says the reader of lists."""
    file: Any = io.BufferedReader(io.BytesIO(_fatal(_FATAL[0])))

    with pytest.raises(RequestError, match=r"l\.parquet: this is not Parquet, or is damaged: a page is"):
        list(read_records(file, name="l.parquet").lines)


def test_rows_with_such_a_page_are_a_store_error_that_names_the_cube() -> None:
    """So says the reader of cubes."""
    with pytest.raises(StoreError, match=r"s3://b/cube: its rows\.parquet is damaged"):
        read_table(_fatal(_FATAL[0]), None, place="s3://b/cube")


def test_own_file_that_is_damaged_is_a_store_error_that_names_it(tmp_path: Path) -> None:
    """An append reads the rows of its cube this way."""
    (tmp_path / "rows.parquet").write_bytes(_fatal(_FATAL[0]))

    with pytest.raises(StoreError, match=r"s3://b/cube: rows\.parquet is damaged"):
        asyncio.run(ZarrCube(LocalStore(tmp_path), "s3://b/cube").row_table())


def test_process_is_used_again_after_a_reader_has_stopped_early(files: list[bytes]) -> None:
    """Nothing of the former file is left in it."""
    _, batches = parquet_batches(io.BytesIO(files[0]), batch_size=50)
    first = next(batches)
    del batches
    process = module._idle[-1].process.pid
    schema, others = parquet_batches(io.BytesIO(files[-1]), batch_size=70)

    assert first.num_rows == 50
    assert (schema.names[0], next(others).num_rows) == ("href", 70)
    del others
    assert module._idle[-1].process.pid == process


@pytest.mark.long
def test_process_is_used_again_after_the_garbage_collector_has_dropped_its_reader(files: list[bytes]) -> None:
    """Its socket stays open. A reader is dropped so if an error's traceback holds it in a cycle."""
    _, batches = parquet_batches(io.BytesIO(files[0]), batch_size=50)
    cycle: list[Any] = [batches]
    cycle.append(cycle)
    del batches, cycle
    gc.collect()
    process = module._idle[-1].process.pid

    assert sum(batch.num_rows for batch in parquet_batches(io.BytesIO(files[0]), batch_size=50)[1]) == _N_ROWS
    assert module._idle[-1].process.pid == process


def test_cpu_time_is_limited_for_each_batch_and_not_in_all(files: list[bytes]) -> None:
    """A page that never ends is given up. A process that has read many files goes on."""
    limits = []
    for _ in range(2):
        list(parquet_batches(io.BytesIO(files[0]), batch_size=50)[1])
        child = module._idle[-1].process.pid
        limits.append(resource.prlimit(child, resource.RLIMIT_CPU))
        resource.prlimit(child, resource.RLIMIT_CPU, (100_000, limits[0][1]))  # the next request sets it anew

    assert all(60 <= soft < 100 for soft, _ in limits)
    assert module._idle[-1].process.pid == child


def test_two_files_are_read_at_one_time(files: list[bytes]) -> None:
    """Each has a process of its own."""
    pairs = zip(*(parquet_batches(io.BytesIO(files[n]), batch_size=50)[1] for n in (0, 1)), strict=True)

    assert all(one == other for one, other in pairs)


def test_no_parquet_is_an_error_that_says_so() -> None:
    """The message is arro3's own."""
    with pytest.raises(ParquetError, match="footer"):
        parquet_batches(io.BytesIO(b"PAR1" + bytes(20)), batch_size=50)


def test_error_of_the_file_itself_passes(files: list[bytes]) -> None:
    """A store that fails, or a time limit that has passed, is no damage."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            del size
            raise TimeoutError("too late")

    with pytest.raises(TimeoutError, match="too late"):
        parquet_batches(Broken(files[0]), batch_size=50)


def test_process_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decodes what strangers wrote."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "private")

    child = module._start_child()
    environment = Path(f"/proc/{child.process.pid}/environ").read_bytes()
    child.end()

    assert b"LC_ALL=C.UTF-8" in environment
    assert b"private" not in environment
