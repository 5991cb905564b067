"""The stated 95 % intervals on real files: their own overviews, whole and in boxes, by several statistics."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import rasterio

from pixel_gather.features.rank.sampling_error import _SAFETY, INTERVAL, LevelSample, Resampling, estimate
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression

type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]

_HERE = Path(__file__).parents[1] / "data"
_CLASSES = ("MSK_", "SCL", "QC", "LC_", "_LW", "QUALIT", "Snow_Cover")
_N_BOXES = 4
_N_SPLITS = 200
_STEPS = (4, 10)
"""Every so many pixels are a sample, as overviews by nearest neighbour are."""

_FACTORS = np.arange(0.25, 10, 0.25)
_AIM = 0.97
"""Share of intervals that the factor is chosen to hold: more than 0.95, as other files differ."""


def _statistics(valid: Grid) -> list[Statistic]:
    names = ("mean", "median", "p10", "p90", f"share_above:{np.median(valid)}")
    return [Statistic.parse(name) for name in names]


class Case(NamedTuple):
    """One area of one level."""

    exact: dict[Statistic, float]
    """Of all valid pixels of full resolution in the area."""

    level: Grid
    weights: Grid
    factor: float
    resampling: Resampling


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
        exact = {statistic: statistic.of(valid) for statistic in _statistics(valid)}
        for level in levels:
            across, down = width / level.shape[1], height / level.shape[0]
            weights = np.outer(
                _overlap(level.shape[0], row / down, (row + box_height) / down),
                _overlap(level.shape[1], col / across, (col + box_width) / across),
            )
            rows, cols = (np.flatnonzero(weights.any(axis=axis)) for axis in (1, 0))
            part = np.s_[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
            yield Case(exact, level[part], weights[part], across, "unknown")
        for step in _STEPS:
            sample = area[step // 2 :: step, step // 2 :: step]
            yield Case(exact, sample, np.ones(sample.shape), step, "nearest")


def _shares(path: Path, rng: np.random.Generator) -> Iterator[float]:
    """Yield of every case and statistic how far the exact value is, as a share of half the interval.

    At most 1 where the interval holds it. Levels that tell nothing are left out.
    """
    band = Expression.parse("b1")
    for case in _cases(path, rng):
        sample = LevelSample(
            bands={"b1": case.level}, weights=case.weights, resampling=case.resampling, factor=case.factor
        )
        for statistic, exact in case.exact.items():
            found = estimate(sample, band, statistic)
            if found.n_pixels and np.isfinite(found.error):
                distance = max(abs(found.value - exact) - 1e-9 * max(abs(exact), 1), 0.0)
                half = INTERVAL * found.error
                yield distance / half if half else (np.inf if distance else 0.0)


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


@pytest.mark.long
def test_intervals_hold_on_the_files_of_the_repository() -> None:
    """At least 95 of 100: means of overviews that say nothing of themselves, and all of single pixels."""
    rng = np.random.default_rng(7)
    series = sorted((_HERE / "series/files").glob("stactools-n*/*.tif"))[:4]
    shares = [each for path in [*_files(_HERE)[:8], *series] for each in _shares(path, rng)]

    assert len(shares) > 200
    assert np.mean(np.array(shares) <= 1) >= 0.95


@pytest.mark.long
@pytest.mark.full_data
@pytest.mark.slow
@pytest.mark.skipif("PIXEL_GATHER_DATA" not in os.environ, reason="needs the folder of real files")
def test_intervals_hold_on_all_real_files() -> None:
    """As above, over every file with overviews.

    The factor of the error was chosen on these files. So it is also chosen on half of them and tested on
    the other half, for many halves.
    """
    folder = Path(os.environ["PIXEL_GATHER_DATA"])
    rng = np.random.default_rng(0)
    files = {path: np.array(list(_shares(path, rng))) for path in _files(folder)}
    sources: dict[str, list[Grid]] = {}
    for path, shares in files.items():
        sources.setdefault(path.parent.name, []).append(shares)
    held = np.concatenate(list(files.values())) <= 1

    print(f"\n{held.mean():.4f} of {held.size:,} intervals hold")  # noqa: T201 # for docs/rank.md
    assert held.mean() >= 0.95
    for name, parts in (
        ("files", list(files.values())),
        ("sources", [np.concatenate(each) for each in sources.values()]),
    ):
        found = np.array([_held_out(parts, rng) for _ in range(_N_SPLITS)])
        print(f"of other {name}: {found.mean():.4f}, {np.mean(found >= 0.95):.2f} of splits")  # noqa: T201 # as above
        assert found.mean() >= 0.95


def _held_out(parts: list[Grid], rng: np.random.Generator) -> float:
    """Choose a factor on a random half of the parts. Return how many intervals of the other half it holds."""
    order = rng.permutation(len(parts))
    chosen_on, others = (
        np.concatenate([parts[at] for at in half]) * _SAFETY for half in np.array_split(order, 2)
    )
    factor = next(each for each in _FACTORS if np.mean(chosen_on <= each) >= _AIM)
    return float(np.mean(others <= factor))
