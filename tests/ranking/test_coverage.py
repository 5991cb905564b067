"""The stated 95 % intervals on real files: their own overviews, whole and in boxes, by several statistics."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import rasterio

from pixel_gather.ranking.expression import Expression
from pixel_gather.ranking.sampling_error import INTERVAL, LevelSample, estimate
from pixel_gather.ranking.statistic import Statistic

type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]

_HERE = Path(__file__).parents[1] / "data"
_CLASSES = ("MSK_", "SCL", "QC", "LC_", "_LW", "QUALIT", "Snow_Cover")
_N_BOXES = 4
_STATISTICS = ("mean", "median", "p10", "p90", "share")


class Case(NamedTuple):
    """One area of one level."""

    full: Grid
    """Full resolution in the area, valid pixels only."""

    level: Grid
    weights: Grid
    factor: float


def _read(path: Path, overview: int | None) -> Grid:
    options = {} if overview is None else {"overview_level": overview}
    with rasterio.open(path, **options) as dataset:
        return np.asarray(dataset.read(1, masked=True).astype("float64").filled(np.nan))


def _overlap(n: int, start: float, stop: float) -> Grid:
    at = np.arange(n)
    return np.asarray(np.clip(np.minimum(at + 1, stop) - np.maximum(at, start), 0, 1))


def _boxes(width: int, height: int, rng: np.random.Generator) -> Iterator[tuple[int, int, int, int]]:
    yield 0, 0, width, height
    for _ in range(_N_BOXES):
        box_width, box_height = (int(side * rng.uniform(0.2, 0.8)) for side in (width, height))
        yield (
            int(rng.integers(0, width - box_width + 1)),
            int(rng.integers(0, height - box_height + 1)),
            box_width,
            box_height,
        )


def _cases(path: Path, rng: np.random.Generator) -> Iterator[Case]:
    with rasterio.open(path) as dataset:
        n_overviews = len(dataset.overviews(1))
    full = _read(path, None)
    height, width = full.shape
    levels = [_read(path, n) for n in range(n_overviews)]
    for col, row, box_width, box_height in _boxes(width, height, rng):
        area = full[row : row + box_height, col : col + box_width]
        valid = area[np.isfinite(area)]
        if valid.size < 100:
            continue
        for level in levels:
            across, down = width / level.shape[1], height / level.shape[0]
            weights = np.outer(
                _overlap(level.shape[0], row / down, (row + box_height) / down),
                _overlap(level.shape[1], col / across, (col + box_width) / across),
            )
            rows, cols = (np.flatnonzero(weights.any(axis=axis)) for axis in (1, 0))
            part = np.s_[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
            yield Case(valid, level[part], weights[part], across)


def _held(path: Path, rng: np.random.Generator) -> Iterator[bool]:
    """Yield of every case and statistic whether the interval holds the exact value."""
    band = Expression.parse("b1")
    for case in _cases(path, rng):
        sample = LevelSample(
            bands={"b1": case.level}, weights=case.weights, resampling="unknown", factor=case.factor
        )
        for name in _STATISTICS:
            text = f"share_above:{np.median(case.full)}" if name == "share" else name
            statistic = Statistic.parse(text)
            found, exact = estimate(sample, band, statistic), statistic.of(case.full)
            if found.n_pixels:
                yield abs(found.value - exact) <= INTERVAL * found.error + 1e-9 * max(abs(exact), 1)


def _files(folder: Path) -> list[Path]:
    with (folder / "catalog.csv").open() as file:
        return [
            folder / row["file"]
            for row in csv.DictReader(file)
            if row["overviews"] not in ("", "0", "[]")
            and 10_000 <= int(row["width"]) * int(row["height"]) < 30_000_000
            and not row["dtype"].startswith("complex")
            and not any(word in row["file"] for word in _CLASSES)
        ]


@pytest.mark.slow
def test_intervals_hold_on_the_files_of_the_repository() -> None:
    """At least 95 of 100, at levels of which nobody says how they were made."""
    rng = np.random.default_rng(7)
    series = sorted((_HERE / "series/files").glob("stactools-n*/*.tif"))[:4]
    held = [each for path in [*_files(_HERE)[:8], *series] for each in _held(path, rng)]

    assert len(held) > 200
    assert np.mean(held) >= 0.95


@pytest.mark.full_data
@pytest.mark.slow
@pytest.mark.skipif("PIXEL_GATHER_DATA" not in os.environ, reason="needs the folder of real files")
def test_intervals_hold_on_all_real_files() -> None:
    """As above, over every file with overviews."""
    folder = Path(os.environ["PIXEL_GATHER_DATA"])
    rng = np.random.default_rng(0)
    held = [each for path in _files(folder) for each in _held(path, rng)]

    print(f"\n{np.mean(held):.4f} of {len(held):,} intervals hold")  # noqa: T201 # for docs/rank.md
    assert np.mean(held) >= 0.95
