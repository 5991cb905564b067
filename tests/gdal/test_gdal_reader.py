"""The fall-back reader gives correct pixels with few requests, and survives any file."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, override

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.enums import ColorInterp

from gdal.images import image, tiff
from gdal.store import MemoryObjects
from geotiff.small_tiffs import LONG, SHORT, STORED_AT, Tags, handwritten
from pixel_gather.core.errors import BusyError, NoOverviewError, SourceError
from pixel_gather.core.model.band_meaning import BandClass
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.task_group import all_of
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.store.fetched import Fetched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

IMAGE: Final = image()
SETTINGS: Final = GdalSettings(max_children=1, timeout_s=10.0)
WINDOW: Final = Window(col_off=30, row_off=40, width=100, height=90)


def _run[T](
    work: Callable[[GdalReader], Awaitable[T]],
    objects: MemoryObjects | None = None,
    *,
    settings: GdalSettings = SETTINGS,
) -> T:
    """Do work with a reader of some objects, or of IMAGE as file:///a. The reader is closed then."""

    async def run() -> T:
        store = objects or MemoryObjects({"file:///a": tiff(IMAGE)})
        async with GdalReader(store, settings=settings) as reader:
            return await work(reader)

    return asyncio.run(run())


def _pids(reader: GdalReader) -> list[int]:
    return [child.process.pid for child in reader._children._idle]


async def _read(
    reader: GdalReader,
    href: str,
    window: Window,
    *,
    cost: Cost | None = None,
    bands: tuple[int, ...] = (1, 2),
) -> np.ndarray[Any, Any]:
    source = await reader.open_(href, overview=None, cost=cost or Cost())
    out = np.full((len(bands), window.height, window.width), 9, source.header.dtype)
    await source.read_into([(out, window)], bands, masked=False)
    return out


def _header(content: bytes, overview: int | None) -> Header:
    async def work(reader: GdalReader) -> Header:
        return (await reader.open_("file:///a", overview=overview, cost=Cost())).header

    return _run(work, MemoryObjects({"file:///a": content}))


async def _status(work: Coroutine[Any, Any, Any]) -> Status:
    return (await _error(work)).status


async def _error(work: Coroutine[Any, Any, Any]) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await work
    return caught.value


@pytest.mark.long
def test_read_into_gives_the_bands_asked_for_in_their_order() -> None:
    """Bands may be requested in any order, and more than once."""
    out = _run(lambda reader: _read(reader, "file:///a", WINDOW, bands=(2, 1, 2)))
    np.testing.assert_array_equal(out, IMAGE[[1, 0, 1], 40:130, 30:130])


@pytest.mark.long
@pytest.mark.parametrize("chunk_nbytes", [1, 64 * 260 * 2, 2**23])
def test_read_into_joins_runs_of_rows_and_leaves_the_overhang(chunk_nbytes: int) -> None:
    """A window that is sent in several runs of rows is complete. Pixels outside the raster are unchanged."""
    window = Window(col_off=-5, row_off=-7, width=300, height=400)

    settings = GdalSettings(max_children=1, chunk_nbytes=chunk_nbytes)

    expected = np.full((2, 400, 300), 9, np.uint16)
    expected[:, 7:307, 5:265] = IMAGE
    out = _run(lambda reader: _read(reader, "file:///a", window), settings=settings)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.long
def test_reader_needs_two_requests_for_a_window_of_many_tiles() -> None:
    """One request reads the header, and one reads all tiles, which are neighbours."""
    objects = MemoryObjects({"file:///a": tiff(IMAGE)})
    cost = Cost()

    _run(lambda reader: _read(reader, "file:///a", WINDOW, cost=cost), objects)
    assert cost.requests == len(objects.ranges) == 2
    assert 0 < cost.header_nbytes < cost.nbytes <= len(objects.contents["file:///a"])
    assert min(cost.open_s, cost.read_s, cost.decode_s) > 0


@pytest.mark.long
def test_reader_keeps_one_child_for_many_files() -> None:
    """A start takes 0.2 s or more, so a child serves one file after another."""
    objects = MemoryObjects({f"file:///{i}": tiff(image(seed=i)) for i in range(4)})

    async def work(reader: GdalReader) -> tuple[set[int], list[np.ndarray[Any, Any]]]:
        sources = [await reader.open_(href, overview=None, cost=Cost()) for href in objects.contents]
        pids = set(_pids(reader))
        outs = []
        for source in reversed(sources):
            outs.append(np.zeros((1, 10, 10), np.uint16))
            window = Window(col_off=0, row_off=0, width=10, height=10)
            await source.read_into([(outs[-1], window)], [2], masked=False)
            pids |= set(_pids(reader))
        return pids, outs

    pids, outs = _run(work, objects)
    assert len(pids) == 1
    for seed, out in zip(reversed(range(4)), outs, strict=True):
        np.testing.assert_array_equal(out[0], image(seed=seed)[1, :10, :10])


@pytest.mark.long
def test_reader_reads_concurrently_within_its_children() -> None:
    """Sixteen concurrent reads over two children give correct pixels."""
    objects = MemoryObjects({f"file:///{i}": tiff(image(seed=i)) for i in range(16)})

    async def work(reader: GdalReader) -> tuple[int, list[np.ndarray[Any, Any]]]:
        outs = await asyncio.gather(*(_read(reader, href, WINDOW) for href in objects.contents))
        return len(_pids(reader)), outs

    n_children, outs = _run(work, objects, settings=GdalSettings(max_children=2))
    assert n_children == 2
    for seed, out in enumerate(outs):
        np.testing.assert_array_equal(out, image(seed=seed)[:, 40:130, 30:130])


@pytest.mark.long
def test_reader_ends_a_hung_child_and_goes_on_with_a_new_one() -> None:
    """A file that makes GDAL hang gets a time-out. The next source is read as usual."""
    objects = MemoryObjects({"file:///a": tiff(IMAGE), "file:///b": tiff(IMAGE)})

    async def work(reader: GdalReader) -> tuple[Status, np.ndarray[Any, Any], int]:
        source = await reader.open_("file:///a", overview=None, cost=Cost())
        (pid,) = _pids(reader)
        os.kill(pid, signal.SIGSTOP)
        out = np.zeros((2, 90, 100), np.uint16)
        status = await _status(source.read_into([(out, WINDOW)], [1, 2], masked=False))
        return status, await _read(reader, "file:///b", WINDOW), pid

    status, pixels, pid = _run(work, objects, settings=GdalSettings(max_children=1, timeout_s=1.5))
    assert status is Status.TIMED_OUT
    np.testing.assert_array_equal(pixels, IMAGE[:, 40:130, 30:130])
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.long
def test_reader_outlives_the_death_of_a_child() -> None:
    """A child that was killed between two files is replaced."""

    async def work(reader: GdalReader) -> np.ndarray[Any, Any]:
        await _read(reader, "file:///a", WINDOW)
        (child,) = reader._children._idle
        child.process.kill()
        await child.process.wait()
        return await _read(reader, "file:///a", WINDOW)

    np.testing.assert_array_equal(_run(work), IMAGE[:, 40:130, 30:130])


def test_reader_refuses_a_block_that_does_not_fit_the_childs_memory() -> None:
    """A tile of 400 MB in a file of a few hundred bytes is over the limit, not decoded."""
    sparse = {"tiled": True, "blockxsize": 20000, "blockysize": 20000, "SPARSE_OK": True}
    bomb = tiff(None, count=1, height=20000, width=20000, dtype="uint8", **sparse)

    settings = GdalSettings(max_children=1, child_memory_mib=128)
    objects = MemoryObjects({"file:///a": bomb})
    status = _run(
        lambda reader: _status(_read(reader, "file:///a", WINDOW, bands=(1,))), objects, settings=settings
    )
    assert status is Status.UNSUPPORTED


@pytest.mark.long
def test_reader_passes_on_the_stores_failure() -> None:
    """The error of the object store is reported, not GDAL's error about missing bytes."""
    objects = MemoryObjects({"file:///a": tiff(IMAGE)}, fails_after=1)

    async def work(reader: GdalReader) -> tuple[Status, Status, np.ndarray[Any, Any]]:
        denied = await _status(_read(reader, "file:///a", WINDOW))
        missing = await _status(_read(reader, "file:///b", WINDOW))
        objects.fails_after = None
        return denied, missing, await _read(reader, "file:///a", WINDOW)

    denied, missing, pixels = _run(work, objects)
    assert (denied, missing) == (Status.DENIED, Status.MISSING)
    np.testing.assert_array_equal(pixels, IMAGE[:, 40:130, 30:130])


@pytest.mark.long
def test_reader_never_mixes_two_versions() -> None:
    """An object replaced between header and pixels is changed."""
    objects = MemoryObjects({"file:///a": tiff(IMAGE)})

    async def work(reader: GdalReader) -> Status:
        source = await reader.open_("file:///a", overview=None, cost=Cost())
        objects.etags["file:///a"] = '"2"'
        out = np.zeros((2, 90, 100), np.uint16)
        return await _status(source.read_into([(out, WINDOW)], [1, 2], masked=False))

    assert _run(work, objects) is Status.CHANGED


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"<VRTDataset rasterXSize='1' rasterYSize='1'/>", Status.UNSUPPORTED),
        (b"\n <VRTDataset/>", Status.UNSUPPORTED),
        (b"\x89HDF\r\n\x1a\n", Status.UNSUPPORTED),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", Status.CORRUPT),
        (b"II*\0", Status.CORRUPT),
        (b"", Status.CORRUPT),
    ],
)
def test_open_refuses_what_is_no_raster_by_its_content(content: bytes, status: Status) -> None:
    """Only content that begins as TIFF or JPEG 2000 ever reaches GDAL."""
    objects = MemoryObjects({"file:///a.tif": content})
    refused = _run(lambda reader: _status(reader.open_("file:///a.tif", overview=None, cost=Cost())), objects)
    assert refused is status


def _strips(offsets: list[int]) -> bytes:
    """Return a TIFF of strips of one row. One without an offset has no size, unless none has an offset."""
    counts = [64 if offset or not any(offsets) else 0 for offset in offsets]
    tags: Tags = {
        256: (SHORT, [64]),
        257: (LONG, [len(offsets)]),
        258: (SHORT, [8]),
        259: (SHORT, [1]),
        262: (SHORT, [1]),
        273: (LONG, offsets),
        277: (SHORT, [1]),
        278: (SHORT, [1]),
        279: (LONG, counts),
    }
    return handwritten(tags, stored=bytes(range(64)))


def test_reader_refuses_blocks_that_the_header_does_not_place() -> None:
    """GDAL would read zeros, or the header's bytes. A block that is not stored is zero."""
    whole = _strips([STORED_AT] * 8 + [0])
    cut = whole[: -4 * 9 - 4]
    files = {"file:///whole": whole, "file:///cut": cut, "file:///unplaced": _strips([0] * 9)}
    refused = [
        (href, Window(col_off=0, row_off=7, width=64, height=height))
        for href in ("file:///cut", "file:///unplaced")
        for height in (1, 2)
    ]

    async def work(reader: GdalReader) -> tuple[np.ndarray[Any, Any], list[str]]:
        read = await _read(reader, "file:///whole", refused[1][1], bands=(1,))
        reasons = []
        for href, window in refused:
            with pytest.raises(SourceError) as caught:
                await _read(reader, href, window, bands=(1,))
            reasons.append(f"{caught.value.status.name}: {caught.value.reason}")
        return read, reasons

    read, reasons = _run(work, MemoryObjects(files))

    np.testing.assert_array_equal(read, [[range(64), [0] * 64]])
    cut_off = "CORRUPT: its header is damaged or cut off: it does not say where each tile lies"
    assert reasons == [cut_off] * 4


@pytest.mark.long
def test_reader_refuses_a_band_and_an_overview_that_are_not_there() -> None:
    """The error says which bands and overviews the source has."""

    async def work(reader: GdalReader) -> tuple[Status, SourceError]:
        return (
            await _status(_read(reader, "file:///a", WINDOW, bands=(1, 3))),
            await _error(reader.open_("file:///a", overview=0, cost=Cost())),
        )

    status, error = _run(work)
    assert status is Status.UNLIKE
    assert isinstance(error, NoOverviewError)
    assert error.status is Status.UNSUPPORTED


@pytest.mark.long
def test_header_of_an_overview_has_the_full_images_scales(tmp_path: Path) -> None:
    """GDAL reports no scales for an overview. Those of the full image hold."""
    path = tmp_path / "a.tif"
    path.write_bytes(tiff(IMAGE))
    with rasterio.open(path, "r+") as target:
        target.scales, target.offsets = (0.1, 0.2), (5.0, 6.0)
        target.build_overviews([2])
    header = _header(path.read_bytes(), overview=0)
    assert (header.width, header.scales, header.offsets) == (130, (0.1, 0.2), (5.0, 6.0))


@pytest.mark.long
@pytest.mark.parametrize("overview", [None, 0])
def test_header_says_what_bands_mean(overview: int | None, tmp_path: Path) -> None:
    """Colours, and those of a palette, also in overviews. What says nothing is left out."""
    path = tmp_path / "a.tif"
    header = _header_of(path, tiff(IMAGE.astype("uint8")[:1], photometric="palette"), overview)
    assert header.meanings[0].colour == "palette"
    assert header.meanings[0].classes == (BandClass(value=20, colour="#ffbb22"),)
    assert _header_of(path, tiff(IMAGE), overview).meanings == ()
    assert _header_of(path, tiff(IMAGE.astype("uint16")[:1], photometric="palette"), overview).meanings == ()
    rgb = _header_of(path, tiff(image(bands=3), photometric="rgb"), overview).meanings
    assert [each.colour for each in rgb] == ["red", "green", "blue"]
    heights = _header_of(path, tiff(IMAGE), overview, unit="mm").meanings
    assert {each.unit for each in heights} == {"mm"}


@pytest.mark.long
def test_a_broken_geokey_keeps_no_file_from_being_read(tmp_path: Path) -> None:
    """GDAL reports the key, and opens the file. Rasterio raises that error when it is asked for colours."""
    points = [value for col, row in ((0, 0), (16, 0), (0, 16)) for value in (col, row, 0.0, col, row, 0.0)]
    keys = (1, 1, 0, 1, 1026, 34737, 4, 0)  # a citation in a text that is absent
    tags = [(33922, "d", len(points), tuple(points), True), (34735, "H", len(keys), keys, True)]
    zeros = np.zeros((1, 16, 16), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", zeros, extratags=tags, photometric="minisblack", metadata=None)

    assert _header((tmp_path / "a.tif").read_bytes(), overview=None).crs is None


def _header_of(path: Path, content: bytes, overview: int | None, *, unit: str = "") -> Header:
    """Return the header of an image, to which a palette is given if it wants one."""
    path.write_bytes(content)
    with rasterio.open(path, "r+") as target:
        if target.colorinterp == (ColorInterp.palette,):
            target.write_colormap(1, {20: (255, 187, 34, 255)})
        target.units = [unit] * target.count
        target.build_overviews([2])
    return _header(path.read_bytes(), overview)


@pytest.mark.long
@pytest.mark.parametrize(("text", "expected"), [("0.5", None), ("256", None), ("nan", None), ("7.0", 7)])
def test_header_has_only_a_nodata_that_the_dtype_can_hold(
    tmp_path: Path, text: str, expected: int | None
) -> None:
    """A nodata of 0.5 is ignored for uint8."""
    zeros = np.zeros((1, 16, 16), np.uint8)
    tags = [(42113, "s", 0, text, True)]
    tifffile.imwrite(tmp_path / "a.tif", zeros, extratags=tags, photometric="minisblack", metadata=None)

    assert _header((tmp_path / "a.tif").read_bytes(), overview=None).nodata == expected


@pytest.mark.long
def test_child_has_no_credentials_and_can_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's environment has no credentials, and it cannot open any file."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-gdal")
    monkeypatch.setenv("GDAL_HTTP_PROXY", "http://127.0.0.1:9")

    async def work(reader: GdalReader) -> tuple[bytes, str, int]:
        await _read(reader, "file:///a", WINDOW)
        (pid,) = _pids(reader)
        child = Path(f"/proc/{pid}")
        n_open = len(list((child / "fd").iterdir()))
        return (child / "environ").read_bytes(), (child / "limits").read_text(), n_open

    environment, limits, n_open = _run(work)
    files = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    assert b"not-for-gdal" not in environment
    assert b"GDAL_HTTP_PROXY" not in environment
    assert files.split()[3] == str(n_open)


@pytest.mark.long
def test_aclose_leaves_nothing_behind() -> None:
    """Its processes are gone when the reader is closed."""

    async def work(reader: GdalReader) -> list[int]:
        await _read(reader, "file:///a", WINDOW)
        return _pids(reader)

    (pid,) = _run(work)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.long
def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """The child ends when its channel to the parent is closed."""
    (tmp_path / "a.tif").write_bytes(tiff(IMAGE))
    code = f"""
import asyncio, os, signal
from pixel_gather.core.task_group import all_of
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.core.model.source import Cost, Header

async def main():
    reader = GdalReader(Objects(StoreSettings()), settings=GdalSettings(max_children=1))
    await reader.open_("file://{tmp_path}/a.tif", overview=None, cost=Cost())
    print(reader._children._idle[0].process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 # our own code
    child = Path(f"/proc/{int(told.stdout)}")
    deadline = time.monotonic() + 5
    while child.exists() and "Z" not in child.joinpath("stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not child.exists() or " Z " in child.joinpath("stat").read_text()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/nowhere/python", r"GDAL's process did not start \(.*No such file.*\): run again"),
        (shutil.which("false"), r"did not start \(exit code 1\): run again"),
    ],
    ids=["none", "ends"],
)
def test_a_child_that_does_not_start_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    """It is not the fault of the file. The error is a BusyError, which says to run again."""
    monkeypatch.setattr(sys, "executable", program)

    with pytest.raises(BusyError, match=said):
        _run(lambda reader: _read(reader, "file:///a", WINDOW))


def test_a_child_that_starts_too_slowly_is_worth_another_try() -> None:
    """On a busy machine the start times out, and the process is ended."""
    with pytest.raises(BusyError, match=r"not ready within 0\.001 s"):
        _run(
            lambda reader: _read(reader, "file:///a", WINDOW),
            settings=GdalSettings(start_timeout_s=0.001),
        )


@pytest.mark.long
def test_opening_counts_once() -> None:
    """The time to fetch and parse the header counts as opening, not as reading."""
    cost = Cost()

    _run(lambda reader: reader.open_("file:///a", overview=None, cost=cost))

    assert cost.open_s > 0
    assert (cost.read_s, cost.decode_s) == (0, 0)


def test_what_a_mask_has_hidden_stays_known_while_other_reads_go_on(tmp_path: Path) -> None:
    """A read without a mask, which begins before somebody asks, does not make hidden pixels data."""
    profile = {"width": 64, "height": 64, "count": 1, "dtype": "uint8"}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", **profile) as target,
    ):
        target.write(np.full((1, 64, 64), 5, "uint8"))
        target.write_mask(np.zeros((64, 64), "uint8"))
    window = Window(col_off=0, row_off=0, width=64, height=64)
    hidden, other = np.zeros((2, 1, 64, 64), "uint8")
    objects = MemoryObjects({"s3://b/a.tif": (tmp_path / "a.tif").read_bytes()})

    async def run(reader: GdalReader) -> bool:
        source = await reader.open_("s3://b/a.tif", overview=None, cost=Cost())
        await source.read_into([(hidden, window)], [1], masked=True)
        await source.read_into([(other, window)], [1], masked=False)
        return source.hides_pixels

    assert _run(run, objects)
    assert (hidden == 0).all()
    assert (other == 5).all()


class SlowObjects(MemoryObjects):
    """A store whose answers come at different times, so that reads overtake each other."""

    @override
    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        await asyncio.sleep(0.002 * (len(self.ranges) % 4))
        return await super().get_range(href, start, stop, etag=etag, cost=cost)


def test_reads_of_one_source_leave_each_other_their_bytes() -> None:
    """Tables read many windows of an image at one time. A read that ends drops only what it has fetched."""
    pixels = np.random.default_rng(7).integers(0, 60_000, (1, 512, 512), "uint16")
    windows = [Window(col_off=64 * at % 512, row_off=64 * (at // 8), width=64, height=64) for at in range(64)]

    async def work(reader: GdalReader) -> None:
        source = await reader.open_("file:///a", overview=None, cost=Cost())

        async def one(window: Window) -> None:
            out = np.zeros((1, 64, 64), "uint16")
            await source.read_into([(out, window)], (1,), masked=False)
            rows, cols = slice(window.row_off, window.row_stop), slice(window.col_off, window.col_stop)
            np.testing.assert_array_equal(out, pixels[:, rows, cols])

        for _ in range(3):
            await all_of(map(one, windows))

    settings = GdalSettings(max_children=3)
    _run(work, SlowObjects({"file:///a": tiff(pixels)}), settings=settings)


def test_a_header_of_many_blocks_is_there_for_the_first_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some formats are read in large parts when they are opened. Many sources are open at one time."""
    monkeypatch.setattr("pixel_gather.io.gdal.pinned_object._MOST_KEPT", 8)
    objects = MemoryObjects({"file:///a": tiff(IMAGE)})
    n_blocks = []

    async def work(reader: GdalReader) -> None:
        source = await reader.open_("file:///a", overview=None, cost=Cost())
        n_blocks.append(len(source.pinned.blocks))
        out = np.zeros((2, WINDOW.height, WINDOW.width), "uint16")
        await source.read_into([(out, WINDOW)], (1, 2), masked=False)
        n_blocks.append(len(source.pinned.blocks))
        np.testing.assert_array_equal(out, IMAGE[:, 40:130, 30:130])

    _run(work, objects, settings=GdalSettings(max_children=1, block_nbytes=16, first_read_nbytes=32))

    fetched = sorted(objects.ranges)
    assert (n_blocks[0] > 8, n_blocks[1]) == (True, 0)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(fetched))
