"""The header index is written and read back; other files are refused."""

import asyncio
import io
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest
import rasterio
from arro3.core import Array, DataType, Table
from arro3.io import read_parquet, write_parquet
from obstore.store import LocalStore

from geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.source import Cost
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.header_index import Entry, read_index, store_index, write_index
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def packed_header_of(path: Path, *, overview: int | None = None) -> bytes:
    """Return a packed header of a small file."""
    image = noise((2, 40, 48), "int16")
    content = geotiff(path, image, tiled=True, blockxsize=16, blockysize=16, nodata=-1, crs="EPSG:32631")
    if overview is not None:
        with rasterio.open(path, "r+") as dataset:
            dataset.build_overviews([2])
        content = path.read_bytes()
    reader = GeoTiffReader(MemoryObject(content))
    packed_header = asyncio.run(reader.open_(HREF, overview=overview, cost=Cost())).packed_header
    assert packed_header is not None
    return packed_header


def written(*entries: Entry, to: Path) -> str:
    """Write an index and return its href."""
    with to.open("wb") as file:
        write_index(iter([entries]), file)
    return f"file://{to}"


def read(href: str, *, overview: int | None = None) -> list[Entry]:
    """Return an index's entries."""
    return list(read_index(href, objects=Objects(StoreSettings()), overview=overview))


def test_index_gives_back_what_was_written(tmp_path: Path) -> None:
    """Entries keep their order, however many are written at a time."""
    packed_header = packed_header_of(tmp_path / "a.tif")
    entries = [(f"s3://bucket/{i}.tif", packed_header) for i in range(1000)]

    assert read(written(*entries, to=tmp_path / "i.parquet")) == entries


def test_index_tells_people_what_it_holds(tmp_path: Path) -> None:
    """Any Parquet tool can show the readable columns."""
    href = written(("s3://bucket/a.tif", packed_header_of(tmp_path / "a.tif")), to=tmp_path / "i.parquet")

    table = read_parquet(href.removeprefix("file://")).read_all()
    told = {name: table[name][0].as_py() for name in table.schema.names}
    assert told.pop("packed")
    assert told.pop("nbytes") > 1000
    assert told.pop("transform") == pytest.approx([np.nan] * 6, nan_ok=True)
    assert told == {
        "href": "s3://bucket/a.tif",
        "etag": "v1",
        "overview": None,
        "width": 48,
        "height": 40,
        "tile_width": 16,
        "tile_height": 16,
        "n_bands": 2,
        "dtype": "int16",
        "nodata": -1.0,
        "crs": "EPSG:32631",
        "n_tiles": 9,
        "n_known_tiles": 9,
    }


def test_index_is_read_for_one_overview(tmp_path: Path) -> None:
    """One file may hold entries of several overviews."""
    full, half = packed_header_of(tmp_path / "a.tif"), packed_header_of(tmp_path / "b.tif", overview=0)
    href = written(("a", full), ("a", half), to=tmp_path / "i.parquet")

    assert read(href) == [("a", full)]
    assert read(href, overview=0) == [("a", half)]
    assert read(href, overview=1) == []


def test_rubbish_is_not_written(tmp_path: Path) -> None:
    """Damaged packed headers are left out."""
    packed_header = packed_header_of(tmp_path / "a.tif")

    assert read(written(("a", b"rubbish"), ("b", packed_header), to=tmp_path / "i.parquet")) == [
        ("b", packed_header)
    ]


def _parquet(path: Path, **columns: Array) -> Path:
    write_parquet(Table.from_pydict(dict(columns)), path)
    return path


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"href": Array(["a"], DataType.string())}, "no column 'overview'"),
        (
            {
                "href": Array([1], DataType.int64()),
                "overview": Array([1], DataType.int64()),
                "packed": Array([b"x"], DataType.binary()),
            },
            "no column 'href'",
        ),
        (
            {
                "href": Array(["a"], DataType.string()),
                "overview": Array([1], DataType.int64()),
                "packed": Array(["x"], DataType.string()),
            },
            "no column 'packed'",
        ),
        (
            {
                "href": Array(["a"], DataType.string()),
                "overview": Array([1], DataType.int64()),
                "packed": Array([b"x" * (30 << 20)], DataType.binary()),
            },
            "too long",
        ),
    ],
)
def test_other_parquet_is_refused(tmp_path: Path, columns: dict[str, Array], says: str) -> None:
    """The error says how to make an index."""
    path = _parquet(tmp_path / "i.parquet", **columns)

    with pytest.raises(RequestError, match=says) as caught:
        read(f"file://{path}")
    assert caught.value.field == "index"


@pytest.mark.parametrize("content", [b"", b"href\na.tif\n", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is no Parquet is a RequestError, not an internal error."""
    path = tmp_path / "i.parquet"
    path.write_bytes(content)

    with pytest.raises(RequestError, match="index"):
        read(f"file://{path}")


def test_what_is_no_parquet_at_all_never_comes_to_its_reader(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Other files are refused before arro3 reads them. It would print a panic's trace."""
    path = tmp_path / "list.csv"
    path.write_text("href\na.tif\n")

    with pytest.raises(RequestError, match=r"no header index; make one with"):
        read(f"file://{path}")
    assert capfd.readouterr().err == ""


def test_a_damaged_index_is_told_of_without_the_words_of_rust(tmp_path: Path) -> None:
    """The message says what is wrong with the file, without Rust's error text."""
    path = tmp_path / "i.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR2")

    with pytest.raises(RequestError, match=r"^index: the index is damaged: Invalid Parquet file"):
        read(f"file://{path}")


def test_a_missing_index_is_a_wrong_request(tmp_path: Path) -> None:
    """The gather does not run without the index, because its user expects the lower cost."""
    with pytest.raises(RequestError, match="index"):
        read(f"file://{tmp_path}/gone.parquet")


def test_nulls_are_passed_over(tmp_path: Path) -> None:
    """Rows with nulls are ignored. Other tools may have written the file."""
    path = _parquet(
        tmp_path / "i.parquet",
        href=Array([None, "a", "b"], DataType.string()),
        overview=Array([None, None, None], DataType.int64()),
        packed=Array([b"x", None, b"y"], DataType.binary()),
    )

    assert read(f"file://{path}") == [("b", b"y")]


async def _each(*batches: Sequence[Entry], then: Exception | None = None) -> AsyncIterator[Sequence[Entry]]:
    for batch in batches:
        await asyncio.sleep(0)
        yield batch
    if then is not None:
        raise then


def test_index_is_stored_as_its_entries_come(tmp_path: Path) -> None:
    """Entries are stored in batches, and their number is returned."""
    packed_header = packed_header_of(tmp_path / "a.tif")
    entries = _each([("a", packed_header)], [("b", packed_header), ("c", packed_header)])

    assert asyncio.run(store_index(entries, LocalStore(tmp_path), "i.parquet")) == 3
    assert [href for href, _ in read(f"file://{tmp_path}/i.parquet")] == ["a", "b", "c"]


def test_an_index_of_nothing_is_not_written(tmp_path: Path) -> None:
    """Without entries no file is written."""
    assert asyncio.run(store_index(_each(), LocalStore(tmp_path), "i.parquet")) == 0
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_entries_comes_through_and_leaves_no_file(tmp_path: Path) -> None:
    """The original error is raised, not one of Parquet."""
    packed_header = packed_header_of(tmp_path / "a.tif")
    entries = _each([("a", packed_header)], then=StoreError("refused"))

    with pytest.raises(StoreError, match="refused"):
        asyncio.run(store_index(entries, LocalStore(tmp_path), "i.parquet"))
    assert not (tmp_path / "i.parquet").exists()


@pytest.mark.parametrize("n_batches", [1, 3])
def test_a_cancelled_index_leaves_what_was_there(tmp_path: Path, n_batches: int) -> None:
    """A cancelled write keeps the earlier index. The source of entries can be closed at once."""
    packed_header = packed_header_of(tmp_path / "a.tif")
    store = LocalStore(tmp_path)
    closed = []

    async def entries() -> AsyncGenerator[Sequence[Entry]]:
        try:
            for _ in range(n_batches):
                yield [("new", packed_header)]
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            closed.append(True)

    async def interrupted() -> None:
        await store_index(_each([("old", packed_header)]), store, "i.parquet")
        async with aclosing(entries()) as each:
            storing = asyncio.create_task(store_index(each, store, "i.parquet"))
            await asyncio.sleep(0.2)
            storing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await storing

    asyncio.run(interrupted())

    assert closed == [True]
    assert [href for href, _ in read(f"file://{tmp_path}/i.parquet")] == ["old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tif", "i.parquet"]


@pytest.mark.long
def test_memory_holds_a_group_of_rows(tmp_path: Path) -> None:
    """Memory holds one group of rows while an index is written."""
    packed_header = packed_header_of(tmp_path / "a.tif")
    peaks = []
    for n in (20_000, 60_000):
        sink = io.BytesIO()
        tracemalloc.start()
        write_index(([(f"s3://b/{i}", packed_header)] for i in range(n)), sink)
        peaks.append(tracemalloc.get_traced_memory()[1] - len(sink.getvalue()))
        tracemalloc.stop()

    assert peaks[1] < peaks[0] + (2 << 20)
