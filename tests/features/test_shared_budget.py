"""Processes on one machine keep together to what a host allows."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml

from faults.chaos import made_sources
from support.local_server import Answer, Asked, ranged, serving

PER_S = 20.0
N_FILES = 24


@pytest.mark.long
def test_processes_that_gather_from_one_host_share_its_requests(tmp_path: Path) -> None:
    """Each of three alone would send all that the host allows."""
    files = {path.partition("/")[2]: content for path, content in made_sources(N_FILES).items()}
    asked_s: list[float] = []

    def answer(asked: Asked) -> Answer:
        asked_s.append(time.monotonic())
        return ranged(files[asked.path.lstrip("/")], asked)

    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    with serving(answer) as server:
        request = {
            "sources": [f"{server.root}/{name}" for name in files],
            "window": {"pixels": [0, 0, 64, 64]},
            "limits": {"requests_per_s": {server.root: PER_S}},
            "output": {"report": False},
        }
        (tmp_path / "request.yaml").write_text(yaml.safe_dump(request))
        command = [sys.executable, "-m", "pixel_gather_cli", "run", str(tmp_path / "request.yaml")]
        running = [
            subprocess.Popen([*command, "--to", str(tmp_path / f"{n}.zarr")], env=environment)  # noqa: S603 # our own words
            for n in range(3)
        ]
        assert [each.wait(200) for each in running] == [0, 0, 0]

    assert len(asked_s) >= 3 * 2 * N_FILES
    assert len(asked_s) / (max(asked_s) - min(asked_s)) <= 1.15 * PER_S
    for n in range(3):
        cube = xr.open_zarr(tmp_path / f"{n}.zarr", chunks=None)
        assert np.array_equal(cube["status"].values, np.zeros(N_FILES))
