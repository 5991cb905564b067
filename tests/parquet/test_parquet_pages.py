"""Tests measuring the memory of Parquet pages before they are unpacked."""

import io
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arro3.core import Array, DataType, Table
from arro3.io import write_parquet

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import IN_PROCESS
from pixel_gather.io.header_index import read_index
from pixel_gather.io.lists.parse_list import read_records
from pixel_gather.io.lists.source_list import open_source_list
from pixel_gather.io.parquet.parquet_pages import unpacked_nbytes
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import no_deadline
from pixel_gather.io.store.store_settings import StoreSettings

MIB = 1 << 20


def parquet(values: list[str], *, dictionary: bool = False, name: str = "href") -> bytes:
    """Return a Parquet file of one column of text, whose pages are as long as its row group."""
    file = io.BytesIO()
    write_parquet(
        Table.from_pydict({name: Array(values, DataType.utf8())}),
        file,
        compression="zstd(3)",
        dictionary_enabled=dictionary,
        data_page_size_limit=1 << 30,
        dictionary_page_size_limit=1 << 30,
        write_batch_size=1,
    )
    return file.getvalue()


def nbytes_of(content: bytes) -> int:
    """Return the memory that the file's pages need."""
    return unpacked_nbytes(io.BufferedReader(io.BytesIO(content)), check=no_deadline)


@pytest.mark.parametrize("dictionary", [False, True])
def test_pages_are_measured_without_being_unpacked(*, dictionary: bool) -> None:
    """Four texts of a MiB take 4 MiB, as a page or a dictionary, in a file of some hundred bytes."""
    content = parquet([letter * MIB for letter in "abcd"], dictionary=dictionary)

    assert len(content) < 64 << 10  # the smallest and largest texts stand in its headers, cut short
    assert 4 * MIB < nbytes_of(content) < 5 * MIB


def test_pages_of_many_row_groups_are_not_added_up() -> None:
    """Only the pages of one row group are in memory at one time."""
    file = io.BytesIO()
    table = Table.from_pydict(
        {"href": Array([f"s3://bucket/{i}.tif" for i in range(10_000)], DataType.utf8())}
    )
    write_parquet(table, file, max_row_group_size=100, compression="uncompressed")

    assert nbytes_of(file.getvalue()) < len(file.getvalue()) / 20


@pytest.mark.long
def test_a_group_without_rows_has_no_pages(tmp_path: Path) -> None:
    """Pyarrow writes 0 as the place of its data, and an empty dictionary."""
    rows = pa.table({"href": ["a.tif", "b.tif"]})
    with pq.ParquetWriter(tmp_path / "list.parquet", rows.schema) as writer:
        for some in (rows[:0], rows, rows[:0]):
            writer.write_table(some)

    file = (tmp_path / "list.parquet").open("rb")
    hrefs = [record["href"] for _, record in read_records(file, name="list.parquet").lines]

    assert hrefs == ["a.tif", "b.tif"]


@pytest.mark.long
def test_list_that_unpacks_to_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    """A file of some KB must not take the planner's whole memory."""
    path = tmp_path / "l.parquet"
    path.write_bytes(parquet(["s3://bucket/" + "x" * (8 * MIB)] * 40))
    assert path.stat().st_size < MIB

    tracemalloc.start()
    opened = open_source_list(
        str(path), list_policy=IN_PROCESS, policy=IN_PROCESS, objects=Objects(StoreSettings())
    )
    with pytest.raises(RequestError, match=r"l\.parquet: its pages take 33\d MB of memory at one time"):
        list(opened.sources)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 16 * MIB


@pytest.mark.long
def test_index_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """A header index is refused as well, because it is untrusted Parquet."""
    path = tmp_path / "i.parquet"
    path.write_bytes(parquet(["x" * (8 * MIB)] * 40))

    with pytest.raises(RequestError, match="index: its pages take"):
        list(read_index(f"file://{path}", objects=Objects(StoreSettings()), overview=None))


@pytest.mark.parametrize("cut", range(4, 60, 3))
def test_headers_that_make_no_sense_are_a_sentence(tmp_path: Path, cut: int) -> None:
    """For any damaged footer, the error says that the list is damaged."""
    content = bytearray(parquet(["s3://bucket/a.tif"]))
    content[-8 - cut] ^= 0xFF
    path = tmp_path / "l.parquet"
    path.write_bytes(content)
    opened = open_source_list(
        str(path), list_policy=IN_PROCESS, policy=IN_PROCESS, objects=Objects(StoreSettings())
    )

    try:
        found = [each.href for each in opened.sources]
    except RequestError as error:
        assert "this is not Parquet, or is damaged" in str(error)  # noqa: PT017 # some bytes say nothing
    else:
        assert found == ["s3://bucket/a.tif"]
