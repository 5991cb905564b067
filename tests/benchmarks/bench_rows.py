"""Measures questions about a million rows of one cube: CPU of the first one, and of the same one again.

``PYTHONPATH=tests uv run python -m benchmarks.bench_rows`` writes a cube of a million rows
without pixels. Each question is asked by a process of its own, three times.
"""

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from obstore.store import LocalStore

from pixel_gather import presence, rows_where
from pixel_gather.core.results.row_coordinates import CHUNK_ROWS
from pixel_gather.io.cube.array_chunks import put_array
from pixel_gather_bench.experiment import markdown

N_ROWS: Final = 1_000_000
QUESTIONS: Final[dict[str, Callable[[Path], object]]] = {
    "rows_where: cloud_cover < 20 and platform == 'S2A'": partial(
        rows_where, where="cloud_cover < 20 and platform == 'S2A'"
    ),
    "rows_where: tile == 'T0003' and time >= 2020-01-01": partial(
        rows_where, where="tile == 'T0003' and time >= 2020-01-01"
    ),
    "presence: day": partial(presence, by="day"),
    "presence: month,tile": partial(presence, by="month,tile"),
}


def make_cube(folder: Path) -> Path:
    """Write a cube that has coordinates alone: five of them, two of text."""
    cube = folder / "million.zarr"
    cube.mkdir()
    store, rng = LocalStore(cube), np.random.default_rng(0)
    tiles = np.array([f"T{n:04d}" for n in range(500)], dtype=object)
    ten_years_us = 315_576_000_000_000
    columns: dict[str, tuple[Any, Any]] = {
        "status": (rng.integers(0, 2, N_ROWS).astype("uint8"), 255),
        "time": (np.sort(rng.integers(1_420_070_400_000_000, ten_years_us * 5, N_ROWS)), -(2**63)),
        "cloud_cover": (rng.uniform(0, 100, N_ROWS), float("nan")),
        "platform": (np.array(["S2A", "S2B", "S2C"], dtype=object)[rng.integers(0, 3, N_ROWS)], ""),
        "tile": (tiles[rng.integers(0, len(tiles), N_ROWS)], ""),
    }
    arrays = {}
    for name, (values, fill) in columns.items():
        put_array(store, name, values, chunks=(CHUNK_ROWS,), fill_value=fill, dims=("time",), attributes={})
        arrays[name] = json.loads((cube / name / "zarr.json").read_text())
    root = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"complete": 1, "pixel_gather": "{}"},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": arrays},
    }
    (cube / "zarr.json").write_text(json.dumps(root))
    return cube


def cpu_of(question: str, cube: Path) -> list[float]:
    """Return the CPU seconds of a question that is asked three times. Imports do not count."""
    import zarr  # noqa: F401, PLC0415 # its import would count for the first one

    found = []
    for _ in range(3):
        since = time.process_time()
        QUESTIONS[question](cube)
        found.append(time.process_time() - since)
    return found


@click.command()
def main() -> None:
    """Print the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes,
    ):
        cube = make_cube(Path(folder))
        rows = []
        for question in QUESTIONS:
            seconds = processes.apply(cpu_of, (question, cube))
            rows.append((question, *(f"{each:.3f}" for each in seconds)))
    click.echo("\n".join(markdown([("question", "first, CPU s", "second", "third"), *rows])))


if __name__ == "__main__":
    main()
