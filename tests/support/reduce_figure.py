"""Makes docs/figures/reduce.png: scenes with clouds, and what a month's median and mosaic make of them.

``PYTHONPATH=tests uv run python -m support.reduce_figure``. The scenes are made up, the cubes are gathered.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from support.images import write_image
from support.undrawn import gather_undrawn

type Pixels = np.ndarray[Any, np.dtype[Any]]

_FIGURE: Final = Path(__file__).parents[2] / "docs" / "figures" / "reduce.png"
_SIDE: Final = 96
_SCENES: Final = 7
_SHOWN: Final = 3


def reduce_picture(folder: Path) -> Figure:
    """Gather a month of scenes as they are, as a median and as a mosaic, and draw them."""
    random = np.random.default_rng(4)
    y, x = np.mgrid[0:_SIDE, 0:_SIDE]
    ground = 1500 + 600 * np.sin(x / 11 + np.cos(y / 17)) + 300 * ((x // 12 + y // 16) % 3)
    rows = []
    for at in range(_SCENES):
        fog = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.rfftfreq(_SIDE)[None, :]).clip(1 / _SIDE)
        shape = (_SIDE, _SIDE // 2 + 1)
        clouds = np.fft.irfft2(np.exp(2j * np.pi * random.random(shape)) / fog**1.6, s=ground.shape)
        is_cloud = clouds > np.quantile(clouds, 0.45 + 0.06 * at)
        haze = random.normal(0, 90, ground.shape) + 120 * random.random()
        red = np.where(is_cloud, 3900, ground + haze).astype("uint16")
        told = {"scene": f"s{at}", "time": f"2024-06-{1 + 4 * at:02}", "cloud": float(is_cloud.mean())}
        rows.append({"href": write_image(folder / f"red-{at}.tif", red), "band": "red"} | told)
        classes = np.where(is_cloud, 9, 4).astype("uint8")
        rows.append({"href": write_image(folder / f"scl-{at}.tif", classes), "band": "scl"} | told)
    request = {
        "sources": {"rows": rows},
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "mask": {"band": "scl", "drop": [9], "dilate": 1},
    }
    reductions: dict[str, Any] = {
        "whole": {},
        "median": {"reduce": {"by": "month", "statistic": "median"}},
        "mosaic": {"reduce": {"by": "month", "statistic": "first", "order": "cloud"}},
        "count": {"reduce": {"by": "month", "statistic": "count"}},
    }
    found = {}
    for name, reduce in reductions.items():
        gather_undrawn(request | reduce, to=folder / name)
        found[name] = xr.open_zarr(folder / name)["red"].values
    return _drawn(found)


def _drawn(found: dict[str, Pixels]) -> Figure:
    """Draw some scenes below their mask, and the rows that all of them become."""
    amounts = {"cmap": "cividis", "vmin": 700, "vmax": 3100}
    figure = Figure(figsize=(10.2, 2.5), dpi=110, facecolor="white", layout="constrained")
    panels = [
        *((f"scene {at + 1} of {_SCENES}", found["whole"][at], amounts) for at in range(_SHOWN)),
        ("median", found["median"][0], amounts),
        ("first, by cloud", found["mosaic"][0], amounts),
        ("count", found["count"][0], {"cmap": "Greys_r", "vmin": 0, "vmax": _SCENES}),
    ]
    for axes, (title, pixels, look) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.set_facecolor("#e4e6ea")
        axes.imshow(np.ma.masked_invalid(pixels), interpolation="nearest", **look)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(title, fontsize=9.5)
    return figure


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        reduce_picture(Path(made)).savefig(_FIGURE)
    sys.stdout.write(f"{_FIGURE.name}: {_FIGURE.stat().st_size:,} bytes\n")
