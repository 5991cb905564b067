"""The stated 95 % intervals on files whose overviews mislead: speckle, single bright pixels, gaps, clouds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pixel_gather.features.rank.rank import rank
from rank.rasters import Pixels, make_cog

_SIDE = 512
_METHODS = ("AVERAGE", "CUBIC", "NEAREST")
_STATISTICS: dict[str, Any] = {
    "mean": np.mean,
    "median": np.median,
    "p90": lambda values: np.quantile(values, 0.9),
    "share_above:1000": lambda values: (values > 1000).mean(),
}


class Scene(NamedTuple):
    """One image."""

    pixels: Pixels
    is_data: Pixels


def _noise(rng: np.random.Generator, slope: float) -> Pixels:
    """Return an image with a power spectrum, of mean 0 and standard deviation 1."""
    waves = np.fft.rfft2(rng.standard_normal((_SIDE, _SIDE)))
    k = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.rfftfreq(_SIDE)[None])
    k[0, 0] = 1
    image = np.fft.irfft2(waves * k**-slope, s=(_SIDE, _SIDE))
    return np.asarray((image - image.mean()) / image.std())


def _scenes(rng: np.random.Generator) -> Iterator[Scene]:
    everywhere = np.ones((_SIDE, _SIDE), np.bool_)
    smooth = _noise(rng, 1.2)
    yield Scene((1000 + 200 * smooth).clip(1), everywhere)
    yield Scene(np.exp(6 + 0.8 * _noise(rng, 0.8)).clip(1), everywhere)
    yield Scene(rng.gamma(1, 300, (_SIDE, _SIDE)).clip(1), everywhere)
    yield Scene(np.where(rng.random((_SIDE, _SIDE)) < 0.05, 4000.0, 300 + 40 * smooth).clip(1), everywhere)
    yield Scene(
        np.where(_noise(rng, 1.5) > 0.5, 3000.0, 300.0) + rng.integers(0, 20, (_SIDE, _SIDE)), everywhere
    )
    values = _noise(rng, 1.5)
    is_hole = rng.random((_SIDE, _SIDE)) < np.clip(0.5 - 0.25 * values, 0, 0.95)
    yield Scene((1000 + 200 * values).clip(1), ~is_hole)  # bright pixels are lost less


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Scene]:
    """The files, by each method."""
    folder = tmp_path_factory.mktemp("misleading")
    found = {}
    for seed in range(2):
        for kind, scene in enumerate(_scenes(np.random.default_rng(seed))):
            for method in _METHODS:
                whole = Scene(np.where(scene.is_data, scene.pixels, 0).astype("uint16"), scene.is_data)
                nodata = None if scene.is_data.all() else 0
                path = folder / f"{method}{kind}{seed}.tif"
                found[make_cog(path, whole.pixels, resampling=method, nodata=nodata)] = whole
    return found


@pytest.mark.long
@pytest.mark.parametrize("precision", ["coarse", "2%"])
@pytest.mark.parametrize("text", _STATISTICS)
def test_intervals_hold_where_overviews_mislead(made: dict[Path, Scene], text: str, precision: str) -> None:
    """At least 95 of 100, whatever the overviews were made by, at the coarsest level and by default."""
    rows = {row["id"]: row for row in rank(list(made), by="b1", statistic=text, precision=precision).rows()}
    held = []
    for path, scene in made.items():
        row, exact = rows[path.name], _STATISTICS[text](scene.pixels[scene.is_data].astype(float))
        held.append(row["low"] - 1e-9 * abs(exact) <= exact <= row["high"] + 1e-9 * abs(exact))

    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("method", _METHODS)
def test_intervals_of_what_has_data_hold_at_a_coast(tmp_path: Path, method: str) -> None:
    """Overviews of a file that declares no nodata lose data along every coast, at each level more."""
    exact = {}
    across = np.hypot(*np.meshgrid(np.arange(_SIDE) - 250, np.arange(_SIDE) - 260))
    for radius in (120, 150, 181, 222):
        is_data = across < radius
        pixels = np.where(is_data, np.arange(_SIDE) + 1.0, np.nan).astype("float32")
        path = make_cog(tmp_path / f"{radius}.tif", pixels, resampling=method)
        exact[path.name] = is_data.mean()

    rows = rank({"prefix": f"{tmp_path}/"}, by="b1", precision="coarse").rows()

    assert "full" not in {row["level"] for row in rows}
    for row in rows:
        assert row["valid_low"] <= exact[row["id"]] <= row["valid_high"], row


@pytest.mark.long
@pytest.mark.parametrize("method", _METHODS)
def test_shares_of_single_bright_pixels_are_ranked_in_order(tmp_path: Path, method: str) -> None:
    """Averages hide them."""
    rng = np.random.default_rng(0)
    shares = (0.01, 0.05, 0.09, 0.13)
    for share in shares:
        image = np.where(rng.random((_SIDE, _SIDE)) < share, 4000, 300 + 40 * _noise(rng, 1.2)).clip(1)
        make_cog(tmp_path / f"{share}.tif", image.astype("uint16"), resampling=method)

    found = rank({"prefix": f"{tmp_path}/"}, by="b1", statistic="share_above:2000", precision="coarse").rows()

    assert [row["id"] for row in found] == [f"{share}.tif" for share in reversed(shares)]


@pytest.mark.long
@pytest.mark.parametrize("by", ["ndvi", "red"])
@pytest.mark.parametrize("method", _METHODS)
def test_intervals_hold_below_clouds_of_every_size(tmp_path: Path, method: str, by: str) -> None:
    """Clouds are far brighter than the ground, and most pixels of an overview hold some of both."""
    rng = np.random.default_rng(3)
    lines, exact = ["href,time,band,scene"], {}
    for size in (1.0, 3.0, 12.0):
        for cover in (0.1, 0.5):
            name = f"{size:g} {cover}"
            field = rng.standard_normal((_SIDE, _SIDE)) if size == 1 else _blurred(rng, size)
            is_cloud = field > np.quantile(field, 1 - cover)
            green = _noise(rng, 1.2)
            bands = {"red": 500 - 60 * green, "nir": 3000 + 300 * green}
            stored = {
                band: np.where(is_cloud, 7000, pixels.clip(50)).astype("uint16")
                for band, pixels in bands.items()
            }
            files = stored | {"scl": np.where(is_cloud, 9, 4).astype("uint8")}
            for band, pixels in files.items():
                made_by = "NEAREST" if band == "scl" else method
                make_cog(tmp_path / f"{name} {band}.tif", pixels, resampling=made_by)
                lines.append(f"{tmp_path}/{name} {band}.tif,2024-01-01,{band},{name}")
            red, nir = (stored[band][~is_cloud].astype(float) for band in ("red", "nir"))
            exact[name] = float(((nir - red) / (nir + red)).mean() if by == "ndvi" else red.mean())
    (tmp_path / "list.csv").write_text("\n".join(lines))

    rows = rank(tmp_path / "list.csv", by=by, mask={"band": "scl", "drop": [9]}, precision="coarse").rows()

    assert all(row["low"] <= exact[row["id"]] <= row["high"] for row in rows)


def _blurred(rng: np.random.Generator, size: float) -> Pixels:
    """Return noise whose spots have a size in pixels."""
    waves = np.fft.rfft2(rng.standard_normal((_SIDE, _SIDE)))
    k = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.rfftfreq(_SIDE)[None])
    return np.asarray(np.fft.irfft2(waves * np.exp(-((k * size * 3) ** 2)), s=(_SIDE, _SIDE)))
