"""Gathers with a header index: half the requests, the same cube, and never pixels of two versions."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
import xarray as xr

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from pixel_gather import index
from pixel_gather.core.errors import RequestError
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.header_index import read_index
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from support.undrawn import gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
HEADERS = "headers.parquet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files that a test may change."""
    return Path(shutil.copytree(SERIES, tmp_path / "files"))


@pytest.fixture
def server(folder: Path) -> Iterator[LoopbackServer]:
    """The files over HTTP."""
    with run_server(folder) as running:
        running.behave(Behaviour())
        yield running


def request_of(server: LoopbackServer, **changes: Any) -> dict[str, Any]:
    """Return a request for the centre tile of all files."""
    return {"sources": [f"{server.url}/{file.name}" for file in FILES], "window": "centre"} | changes


def n_gets(server: LoopbackServer) -> int:
    """Return the number of GETs of sources since the last call."""
    n = sum(each.method == "GET" and ".tif" in each.path for each in server.log().requests)
    server.behave(Behaviour())
    return n


@pytest.mark.long
def test_gather_takes_two_requests_a_tile_and_with_its_index_one(
    server: LoopbackServer, tmp_path: Path
) -> None:
    """The plan still opens a sample of the sources."""
    sample = min(len(FILES), 16)
    cold = gather_undrawn(request_of(server), to=tmp_path / "cold")
    cold_gets = n_gets(server)
    warm = gather_undrawn(request_of(server, index=str(tmp_path / "cold" / HEADERS)), to=tmp_path / "warm")

    assert cold.report.requests == 2 * len(FILES)
    assert cold_gets == 2 * len(FILES) + sample
    assert warm.report.requests == len(FILES)
    assert n_gets(server) == len(FILES) + sample
    assert (warm.report.n_known, warm.report.n_stale, warm.report.n_unfit) == (len(FILES), 0, 0)
    assert warm.report.digest == cold.report.digest
    xr.testing.assert_equal(_pixels(tmp_path / "warm"), _pixels(tmp_path / "cold"))


def _pixels(cube: Path) -> xr.Dataset:
    """Return a cube without the values that differ between two gathers of it."""
    names = ("start", "end", "open", "read", "decode", "bytes", "header_bytes", "requests", "retries")
    opened: xr.Dataset = xr.open_zarr(cube)
    return opened.drop_vars(names)


@pytest.mark.long
def test_index_of_a_list_serves_as_well_as_one_of_a_gather(server: LoopbackServer, tmp_path: Path) -> None:
    """Making an index reads no pixel. The index works for any window."""
    hrefs = request_of(server)["sources"]
    made = index(hrefs, to=tmp_path / "i.parquet")
    of_index = n_gets(server)
    window = {"pixels": [3, 5, 40, 30]}
    cold = gather_undrawn(request_of(server, window=window), to=tmp_path / "cold")
    warm = gather_undrawn(
        request_of(server, window=window, index=str(tmp_path / "i.parquet")), to=tmp_path / "warm"
    )

    assert (made.n_indexed, made.n_failed, made.requests) == (len(FILES), 0, len(FILES))
    assert of_index == len(FILES)
    assert warm.report.n_known == len(FILES)
    assert warm.report.requests == cold.report.requests - len(FILES)
    assert warm.report.digest == cold.report.digest


@pytest.mark.long
def test_a_gather_with_an_index_is_the_same_gather(server: LoopbackServer, tmp_path: Path) -> None:
    """With an index the request has the same digest, so it finds the complete cube."""
    to = tmp_path / "cube"
    gather_undrawn(request_of(server), to=to)

    assert gather_undrawn(request_of(server, index=str(to / HEADERS)), to=to).was_complete


@pytest.mark.long
def test_an_object_that_was_replaced_is_read_anew(
    server: LoopbackServer, folder: Path, tmp_path: Path
) -> None:
    """Pixels, header and the next index are of the current version. The report counts stale entries."""
    gather_undrawn(request_of(server), to=tmp_path / "cold")
    replaced = folder / FILES[1].name
    with rasterio.open(replaced) as dataset:
        profile, pixels = dataset.profile, dataset.read() + 1
    replaced.unlink()
    with rasterio.open(replaced, "w", **profile | {"compress": "deflate"}) as dataset:
        dataset.write(pixels)
    old = str(tmp_path / "cold" / HEADERS)
    fresh = gather_undrawn(request_of(server), to=tmp_path / "fresh")
    n_gets(server)

    warm = gather_undrawn(request_of(server, index=old), to=tmp_path / "warm")
    again = gather_undrawn(request_of(server, index=str(tmp_path / "warm" / HEADERS)), to=tmp_path / "again")

    assert (warm.report.n_known, warm.report.n_stale) == (len(FILES) - 1, 1)
    assert "1 of its entries were stale" in warm.report.to_text()
    assert warm.report.digest == fresh.report.digest
    xr.testing.assert_equal(_pixels(tmp_path / "warm"), _pixels(tmp_path / "fresh"))
    assert (again.report.n_known, again.report.n_stale) == (len(FILES), 0)
    assert again.report.digest == fresh.report.digest


@pytest.mark.long
def test_an_object_that_was_removed_is_missing(server: LoopbackServer, folder: Path, tmp_path: Path) -> None:
    """A deleted source fails, even if the index has its header."""
    gather_undrawn(request_of(server), to=tmp_path / "cold")
    (folder / FILES[2].name).unlink()

    warm = gather_undrawn(request_of(server, index=str(tmp_path / "cold" / HEADERS)), to=tmp_path / "warm")

    assert warm.report.status_counts == {"ok": len(FILES) - 1, "missing": 1}


def test_local_files_have_an_index_too(folder: Path, tmp_path: Path) -> None:
    """A file with a new modification time is read again."""
    request: dict[str, Any] = {"sources": [str(folder / file.name) for file in FILES], "window": "centre"}
    cold = gather_undrawn(request, to=tmp_path / "cold")
    os.utime(folder / FILES[0].name)

    warm = gather_undrawn(request | {"index": str(tmp_path / "cold" / HEADERS)}, to=tmp_path / "warm")

    assert warm.report.digest == cold.report.digest
    assert (warm.report.n_known, warm.report.n_stale) == (len(FILES) - 1, 1)


def test_a_wrong_index_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    """Users of an index expect half the requests."""
    request = {"sources": [str(folder / FILES[0].name)], "window": "centre"}

    for wrong in (str(tmp_path / "gone.parquet"), str(folder / FILES[0].name)):
        with pytest.raises(RequestError, match="index"):
            gather_undrawn(request | {"index": wrong}, to=tmp_path / "cube")
    assert not list((tmp_path / "cube").glob("*")) if (tmp_path / "cube").exists() else True


@pytest.mark.long
def test_index_tells_what_failed_and_leaves_out_what_gdal_reads(folder: Path, tmp_path: Path) -> None:
    """A text file is not a raster. A JPEG 2000 is one, but only GDAL reads its header."""
    (folder / "text.tif").write_text("not a raster")
    with rasterio.open(
        folder / "a.jp2", "w", driver="JP2OpenJPEG", width=16, height=16, count=1, dtype="uint8"
    ) as dataset:
        dataset.write(np.zeros((1, 16, 16), "uint8"))
    names = (FILES[0].name, "text.tif", "a.jp2", "gone.tif")

    made = index([str(folder / name) for name in names], to=tmp_path / "i.parquet")

    assert (made.n_sources, made.n_indexed, made.n_failed) == (4, 1, 2)
    assert made.status_counts == {"ok": 2, "corrupt": 1, "missing": 1}
    assert [href.rpartition("/")[2] for href, _ in made.failed] == ["text.tif", "gone.tif"]
    entries = list(
        read_index(f"file://{tmp_path}/i.parquet", objects=Objects(StoreSettings()), overview=None)
    )
    assert [href.rpartition("/")[2] for href, _ in entries] == [FILES[0].name]


@pytest.mark.parametrize("name", ["names", "./names", "image", "rows.parquet", "folder", "folder/"])
def test_index_replaces_no_other_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Lists and sources are never overwritten. A folder is refused before anything is opened."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    Path("names").write_text(f"{folder / FILES[0].name}\n")
    shutil.copy(FILES[0], "image")
    pq.write_table(pa.table({"href": ["a"], "overview": [0]}), "rows.parquet")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    with pytest.raises(RequestError, match=r"^to: "):
        index("names", to=name, on_progress=lambda _: pytest.fail("a source was opened"))

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_name_of_another_format_is_refused(folder: Path, tmp_path: Path) -> None:
    """An index is Parquet, which nobody would look for in a CSV file."""
    with pytest.raises(RequestError, match=r"^to: a header index is a Parquet file; write headers\.parquet$"):
        index([str(folder / FILES[0].name)], to=tmp_path / "headers.csv")

    assert [*tmp_path.iterdir()] == [folder]


def test_index_replaces_an_earlier_one(folder: Path, tmp_path: Path) -> None:
    """An earlier index is replaced."""
    to = tmp_path / "i.parquet"
    index([str(folder / FILES[0].name)], to=to)

    made = index([str(folder / each.name) for each in FILES], to=to)

    entries = read_index(f"file://{to}", objects=Objects(StoreSettings()), overview=None)
    assert len(list(entries)) == made.n_indexed == len(FILES)


@pytest.mark.parametrize("number", [0, -1, "8", 1.5])
def test_settings_with_which_nothing_would_be_read_are_refused(number: Any) -> None:
    """They are refused at once. Otherwise the gather would wait for ever."""
    with pytest.raises(RequestError, match=r"^settings\.concurrency: "):
        Settings(concurrency=number)
    with pytest.raises(RequestError, match=r"^settings\.header_nbytes: "):
        Settings(header_nbytes=number)


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Settings(source_timeout_s=-1), "settings.source_timeout_s"),
        (lambda: Settings(max_task_nbytes=0), "settings.max_task_nbytes"),
        (lambda: Settings(shared_tiles_nbytes=-1), "settings.shared_tiles_nbytes"),
        (lambda: StoreSettings(request_timeout_s=-30.0), "stores.request_timeout_s"),
        (lambda: StoreSettings(write_timeout_s=0), "stores.write_timeout_s"),
        (lambda: StoreSettings(stall_timeout_s=float("nan")), "stores.stall_timeout_s"),
        (lambda: StoreSettings(max_retries=-1), "stores.max_retries"),
    ],
)
def test_settings_below_their_least_are_refused(made: Callable[[], object], field: str) -> None:
    """With a negative time limit every source failed, and the message blamed the store."""
    with pytest.raises(RequestError, match=rf"^{field}: it is .*, not a number (above|from) 0$"):
        made()


@pytest.mark.long
def test_first_read_stays_as_the_user_says(server: LoopbackServer, tmp_path: Path) -> None:
    """A given size is used exactly. Without one, it adapts to the files."""
    gather_undrawn(
        request_of(server), to=tmp_path / "cube", settings=Settings(header_nbytes=5000, draws_report=False)
    )

    ranges = {
        each.range for each in server.log().requests if each.range and each.range.startswith("bytes=0-")
    }
    assert ranges == {"bytes=0-4999"}


def test_index_has_the_name_that_it_was_given(tmp_path: Path) -> None:
    """A file with spaces, umlauts or per cent in its name lies where the user looks for it."""
    place = tmp_path / "köpfe 100%.parquet"

    made = index([str(file) for file in FILES], to=place)

    assert made.place == str(place)
    assert [file.name for file in tmp_path.iterdir()] == [place.name]
    cube = gather_undrawn(
        {"sources": [str(file) for file in FILES], "window": "centre", "index": str(place)},
        to=tmp_path / "cube.zarr",
    )
    assert cube.report.status_counts == {"ok": len(FILES)}
