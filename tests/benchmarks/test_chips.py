"""The benchmark of chips: its script and its gather make the same cube, and its ratios are of one round."""

from pathlib import Path

import numpy as np
import zarr

from benchmarks.bench_chips import Job, gathered, rounds, scripted, table
from benchmarks.loopback_server import run_server


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


def test_ratios_are_those_of_one_round() -> None:
    """A slow round slows both, and every second round goes backwards."""
    order: list[str] = []
    seen = rounds({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    made = {"a": [(1.0, 1.0), (10.0, 1.0), (1.0, 1.0)], "b": [(3.0, 1.0), (30.0, 1.0), (2.0, 1.0)]}

    assert "".join(order) == "baabba"
    assert [len(taken) for taken in seen.values()] == [2, 2]
    lines = list(table(made, "a", "job"))
    assert lines[0] == "| job | s | CPU s | x time of a |"
    assert lines[3] == "| b | 3.00 [2.00..30.00] | 1.00 [1.00..1.00] | 3.00 [2.00..3.00] |"
