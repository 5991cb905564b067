"""A gather's memory does not grow with its list."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.loopback_server import Behaviour, run_server
from benchmarks.workload import make_workload

N_FILES: Final = 128
TILE_MIB: Final = 0.5
IN_FLIGHT: Final = 64

# a fresh process: VmHWM is then that of this gather, and of Python with all that it imports
GATHER: Final = """\
import json, re, sys
from pathlib import Path
from pixel_gather import Settings, gather

def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

given = json.load(sys.stdin)
import pixel_gather.io.cube.zarr_cube, zarr.storage, rasterio.warp  # what plan and finish import
before = peak_mib()
settings = Settings(concurrency=64, draws_report=False)
report = gather(given["request"], to=given["to"], settings=settings).report
print(json.dumps({"base": before, "peak": peak_mib(), "failed": report.n_failed, "shards": report.n_shards}))
"""

LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the files that are served, 64 MB."""
    folder = tmp_path_factory.mktemp("workload")
    make_workload(folder, n_files=N_FILES)
    return folder


@LINUX
@pytest.mark.long
def test_memory_is_the_shards_in_hand_however_long_the_list(workload: Path, tmp_path: Path) -> None:
    """Fourteen shards more need no more: two decoded, at most as much encoded, and 64 tiles in flight.

    Shards of 44 MiB are large: never more than two of them are in flight. Runs of the same length differ by
    up to 55 MiB, by which moments meet and what the allocator keeps. Keeping only a seventh of what the 14
    hold decoded, 616 MiB, would be seen.
    """
    shard_rows = 88
    with run_server(workload) as server:
        few, many = (
            gathered(server.url, workload, tmp_path / str(n), n_shards=n, shard_rows=shard_rows)
            for n in (4, 18)
        )

    assert (few["shards"], many["shards"]) == (4, 18)
    assert few["failed"] == many["failed"] == 0
    assert many["peak"] - many["base"] < most_mib(2, shard_rows=shard_rows), (few, many)
    more_rows_mib = (many["shards"] - few["shards"]) * shard_rows * TILE_MIB
    assert many["peak"] - few["peak"] < more_rows_mib / 7, (few, many)


@LINUX
@pytest.mark.long
def test_memory_is_at_most_four_shards_far_from_the_store(workload: Path, tmp_path: Path) -> None:
    """Four shards of 32 MiB are in flight while the threads that decode wait."""
    with run_server(workload) as server:
        server.behave(Behaviour(ttfb_s=0.1))
        far = gathered(server.url, workload, tmp_path / "far", n_shards=12, shard_rows=64)

    assert (far["shards"], far["failed"]) == (12, 0)
    assert far["peak"] - far["base"] < most_mib(4, shard_rows=64), far


def most_mib(n_shards: int, *, shard_rows: int) -> float:
    """Return what shards in hand may take. The allocator keeps some of what is freed."""
    return 1.7 * (n_shards * 2 * shard_rows * TILE_MIB + IN_FLIGHT * 2 * TILE_MIB)


def gathered(url: str, workload: Path, to: Path, *, n_shards: int, shard_rows: int) -> dict[str, float]:
    """Gather the centre tiles in a fresh process; return its memory before and at its most, in MiB."""
    names = sorted(path.name for path in workload.glob("*.tif"))
    hrefs = [f"{url}/{n // len(names)}/{names[n % len(names)]}" for n in range(n_shards * shard_rows)]
    output = {"layout": {"chunk": [shard_rows, 128, 128], "shard_rows": shard_rows}}
    request = {"sources": hrefs, "window": "centre", "output": output}
    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", GATHER],
        input=json.dumps({"request": request, "to": str(to)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told
