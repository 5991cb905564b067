"""The benchmark of chips: its script and its gather make the same cube."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from benchmarks.bench_chips import Job, gathered, scripted
from benchmarks.loopback_server import run_server


@pytest.mark.long
def test_both_make_the_same_cube(tmp_path: Path) -> None:
    """Else their times could not be compared."""
    (tmp_path / "images").mkdir()
    job = Job(folder=tmp_path / "images", n_images=2, side=600, n_chips=20, size=32)
    job.write()
    with run_server(job.folder) as server:
        gathered(job, server.url, tmp_path / "ours", codec="blosc-lz4")
        scripted(job, server.url, tmp_path / "theirs", n_threads=2)
    ours, ids, theirs = (
        np.asarray(zarr.open_array(tmp_path / name, mode="r")[...])
        for name in ("ours/band_1", "ours/chip", "theirs")
    )

    assert ours.min() > 0
    np.testing.assert_array_equal(ours[np.argsort(ids)], theirs)
