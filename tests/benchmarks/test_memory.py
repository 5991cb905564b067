"""A gather's memory does not grow with its list."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.loopback_server import run_server
from benchmarks.workload import default_folder, make_workload

SHARD_ROWS: Final = 64
TILE_MIB: Final = 0.5
SHARD_MIB: Final = SHARD_ROWS * TILE_MIB
MOST_SHARDS: Final = 4
IN_FLIGHT: Final = 64

# a fresh process: VmHWM is then that of this gather, and of Python with all that it imports
GATHER: Final = """\
import json, re, sys
from pathlib import Path
from pixel_gather import Settings, gather

def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

given = json.load(sys.stdin)
import pixel_gather.adapters.cube.zarr_cube, zarr.storage, rasterio.warp  # what plan and finish import
before = peak_mib()
settings = Settings(concurrency=64, draws_report=False)
report = gather(given["request"], to=given["to"], settings=settings).report
print(json.dumps({"base": before, "peak": peak_mib(), "failed": report.n_failed, "shards": report.n_shards}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
@pytest.mark.slow
def test_memory_is_the_shards_in_hand_however_long_the_list(tmp_path: Path) -> None:
    """Sixty-four shards more need no more: four decoded, at most as much encoded, and 64 tiles in flight.

    Runs of the same length differ by two shards, if other work on the machine leaves this process idle.
    They differ by up to 55 MiB more, by which moments meet and what the allocator keeps. Keeping only a
    sixth of what the 64 hold decoded, 2,048 MiB, would be seen.
    """
    names = list(make_workload(default_folder(), n_files=128))
    with run_server(default_folder()) as server:
        hrefs = [f"{server.url}/{lap}/{name}" for lap in range(36) for name in names]
        few, many = (gathered(hrefs[:n], tmp_path / str(n)) for n in (8 * SHARD_ROWS, 72 * SHARD_ROWS))

    assert (few["shards"], many["shards"]) == (8, 72)
    assert few["failed"] == many["failed"] == 0
    in_hand = MOST_SHARDS * 2 * SHARD_MIB + IN_FLIGHT * 2 * TILE_MIB
    assert many["peak"] - many["base"] < 1.7 * in_hand, (
        few,
        many,
    )  # the allocator keeps some of what is freed
    more_rows_mib = (many["shards"] - few["shards"]) * SHARD_MIB
    assert many["peak"] - few["peak"] < 2 * 2 * SHARD_MIB + more_rows_mib / 10, (few, many)


def gathered(hrefs: list[str], folder: Path) -> dict[str, float]:
    """Gather the centre tiles in a fresh process; return its memory before and at its most, in MiB."""
    output = {"layout": {"chunk": [SHARD_ROWS, 128, 128], "shard_rows": SHARD_ROWS}}
    request = {"sources": hrefs, "window": "centre", "output": output}
    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", GATHER],
        input=json.dumps({"request": request, "to": str(folder)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told
