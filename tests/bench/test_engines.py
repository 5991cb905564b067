"""Both engines on real files over a network: the same pixels, and every source accounted for."""

from collections.abc import Iterator
from copy import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import tifffile

from bench.suites import job_of
from benchmarks.loopback_server import Behaviour, Fault, LoopbackServer, run_server
from pixel_gather import Settings, gather
from pixel_gather.core.model.window import TileIndex
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.suite.job import ENGINES, EngineName, SuiteJob, TileTarget
from pixel_gather_bench.suite.one_run import do
from pixel_gather_bench.suite.records import Record
from pixel_gather_bench.suite.suite import run_job
from support.counted_s3 import s3_with

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.usefixtures("own_environment"),
]

N_FILES = 6
COUNT = count()
TARGET = TileTarget(tile=TileIndex(column=2, row=1), band=1, shape=(64, 32), dtype="uint16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six like images in tiles that are not square, one of another dtype, one that is no image."""
    made = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(7)
    for index in range(N_FILES):
        write(made / f"{index}.tif", rng.integers(0, 9000, (256, 128), dtype=np.uint16))
    write(made / "float.tif", rng.random((256, 128), dtype=np.float32))
    (made / "text.tif").write_text("no image")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[LoopbackServer]:
    """Those files over HTTP."""
    with run_server(folder) as running:
        yield running


def write(path: Path, pixels: np.ndarray[Any, Any]) -> None:
    """Write a tiled, compressed TIFF."""
    tifffile.imwrite(path, pixels, tile=(64, 32), compression="zlib", predictor=True, metadata=None)


def job(engine: EngineName, server: LoopbackServer, *names: str) -> SuiteJob:
    """Return a job over files of the server, two at a time."""
    addresses = f"{server.url}/{next(COUNT)}"  # new ones: GDAL remembers what it has seen
    hrefs = tuple(f"{addresses}/{name}" for name in names)
    return replace(job_of(engine, 2), hrefs=hrefs, target=TARGET)


def names_of_all() -> list[str]:
    """Return the names of the like files."""
    return [f"{index}.tif" for index in range(N_FILES)]


def test_both_engines_read_the_pixels_that_a_cube_holds(
    server: LoopbackServer, folder: Path, tmp_path: Path
) -> None:
    """Equal digests, equal pixels: of both engines, and of a gather of the same list and window."""
    server.behave(Behaviour())
    records = [do(replace(job(name, server, *names_of_all()), keep_in=str(tmp_path))) for name in ENGINES]
    request = {"sources": [str(folder / name) for name in names_of_all()], "window": {"tile": [2, 1]}}

    gathered = gather(request, to=tmp_path / "cube.zarr", settings=Settings(draws_report=False))

    assert {record.digest for record in records} == {gathered.report.digest}
    (kept,) = tmp_path.glob("*.npy")
    assert kept.stem == gathered.report.digest
    expected = [tifffile.imread(folder / name)[64:128, 64:96] for name in names_of_all()]
    assert np.array_equal(np.load(kept), np.stack(expected))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_source_is_timed_and_weighed(engine: EngineName, server: LoopbackServer) -> None:
    """Opening and reading lie between start and end, and bytes are those of the tile as stored."""
    server.behave(Behaviour())
    record = do(job(engine, server, *names_of_all()))

    columns = record.columns
    assert record.failures == ()
    assert 0 < max(columns.end_s) <= record.wall_s
    for start, end, open_s, read_s in zip(
        columns.start_s, columns.end_s, columns.open_s, columns.read_s, strict=True
    ):
        assert start >= 0
        assert open_s > 0
        assert read_s > 0
        assert open_s + read_s <= end - start
    assert set(columns.lane) <= {0, 1}
    assert record.to_run().timings.most_in_flight <= 2
    assert record.cpu_s > 0
    assert record.peak_rss_mib > 10
    assert all(0 < nbytes <= 64 * 32 * 2 + 100 for nbytes in columns.nbytes)


def test_both_engines_weigh_tiles_alike(server: LoopbackServer) -> None:
    """MiB/s of one engine can be laid beside those of the other."""
    server.behave(Behaviour())
    fast, rasterio = (do(job(engine, server, *names_of_all())) for engine in ENGINES)

    assert fast.columns.nbytes == rasterio.columns.nbytes


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_that_fails_is_recorded_and_costs_no_other(
    engine: EngineName, server: LoopbackServer
) -> None:
    """Missing, refused, unlike or no image at all: the run goes on, and the pixels agree with the other's."""
    it = job(engine, server, "0.tif", "missing.tif", "float.tif", "text.tif", "4.tif", "5.tif")
    refused = urlsplit(it.hrefs[4]).path
    server.behave(Behaviour(faults={refused: Fault(times=1000, status=403)}))

    record = do(it)

    assert [failure.position for failure in record.failures] == [1, 2, 3, 4]
    by_position = {failure.position: failure for failure in record.failures}
    assert by_position[2].status == "unlike"
    assert by_position[2].reason == "it is float32, the others uint16"
    assert not any(server.url in failure.reason for failure in record.failures), "one cause for all files"
    assert len(record.to_run().timings) == 2
    assert record.digest == DIGESTS.setdefault("with failures", record.digest)


DIGESTS: dict[str, str] = {}
"""Of the first engine that read the same."""


def test_warm_up_reads_the_last_source_once_more(server: LoopbackServer) -> None:
    """It is read before the clock starts, and is no line of the record."""
    n_gets = []
    for warm_up in (False, True):
        server.behave(Behaviour())
        record = do(replace(job("fast", server, "0.tif", "1.tif"), warm_up=warm_up))
        n_gets.append(sum("/1.tif" in request.path for request in server.log().requests))
        assert record.n_sources == 2

    assert n_gets == [2, 4]


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_fresh_process_does_the_same(engine: EngineName, server: LoopbackServer) -> None:
    """What the suite starts is what is tested above."""
    server.behave(Behaviour())
    record: Record = run_job(job(engine, server, *names_of_all()))

    assert record.failures == ()
    assert record.job.hrefs == ()
    assert record.digest == do(job(engine, server, *names_of_all())).digest
    assert ("GDAL_DISABLE_READDIR_ON_OPEN" in record.gdal) == (engine == "rasterio")


@pytest.mark.long
def test_both_engines_read_from_s3_by_the_same_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint, Region and credentials reach GDAL as they reach our own client."""
    hrefs = ("s3://bench/some where/0.tif", "s3://bench/some where/1.tif")
    with s3_with("bench") as s3, monkeypatch.context() as patched:
        patched.delenv("AWS_REGION")
        for name in ("0.tif", "1.tif"):
            s3.client.upload_file(str(folder / name), "bench", f"some where/{name}")
        stores = StoreSettings(endpoint=s3.endpoint, region="us-east-1", requester_pays=True)

        records = [
            run_job(replace(job_of(engine, 2), hrefs=hrefs, target=TARGET, stores=stores))
            for engine in ENGINES
        ]

    assert [record.failures for record in records] == [(), ()]
    assert records[0].digest == records[1].digest
