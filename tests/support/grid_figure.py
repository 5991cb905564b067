"""Makes docs/figures/grid.png: a scene's own pixels beside those of a cube with one grid and a mask.

``PYTHONPATH=tests uv run python -m support.grid_figure``. The scene is made up, the cube is gathered.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from support.images import write_image
from support.undrawn import gather_undrawn

type Pixels = np.ndarray[Any, np.dtype[Any]]

_FIGURE: Final = Path(__file__).parents[2] / "docs" / "figures" / "grid.png"
_SIDE: Final = 24
"""Pixels of 10 m along a side."""

_CLASSES: Final = {3: ("cloud shadow", "#2f2f2f"), 4: ("vegetation", "#4f9d4f"), 9: ("cloud", "#c9ccd1")}


def grid_picture(folder: Path) -> Figure:
    """Gather a scene of two resolutions, and draw what becomes of its pixels."""
    scl = np.full((_SIDE // 2, _SIDE // 2), 4, dtype="uint8")
    scl[2:5, 3:7], scl[6:8, 6:10] = 9, 3
    y, x = np.mgrid[0:_SIDE, 0:_SIDE]
    ground = 1200 + 500 * np.sin(x / 3.1) * np.cos(y / 4.3)
    light = np.select([scl == 9, scl == 3], [2200, -500]).repeat(2, axis=0).repeat(2, axis=1)
    red = (ground + light + np.random.default_rng(1).normal(0, 60, ground.shape)).astype("uint16")
    rows = [
        {"href": write_image(folder / f"{name}.tif", pixels, size=width), "band": name, "scene": "one"}
        for name, pixels, width in (("red", red, 10), ("scl", scl, 20))
    ]
    request = {
        "sources": {"rows": rows},
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "grid": {"resolution": "finest"},
        "mask": {"band": "scl", "drop": [3, 9], "dilate": 1},
    }
    gather_undrawn(request, to=folder / "cube")
    cube = xr.open_zarr(folder / "cube", mask_and_scale=False).isel(source=0)
    return _drawn(red, scl, cube["red"].values, cube["scl"].values)


def _drawn(red: Pixels, scl: Pixels, on_grid: Pixels, classes: Pixels) -> Figure:
    """Draw both files, and both bands of the cube."""
    colours = ListedColormap([colour for _, colour in _CLASSES.values()])
    of_classes = {"cmap": colours, "norm": BoundaryNorm([0, 3.5, 5, 10], len(_CLASSES))}
    amounts = {"cmap": "cividis", "vmin": 300, "vmax": 3800}
    figure = Figure(figsize=(10.2, 3.3), dpi=110, facecolor="white", layout="constrained")
    panels = (
        ("red, a file of 10 m", red, amounts),
        ("scl, a file of 20 m", scl, of_classes),
        ("scl in the cube: 2 x 2 times", classes, of_classes),
        ("red in the cube: clouds are missing", np.ma.masked_equal(on_grid, 0), amounts),
    )
    for axes, (title, pixels, look) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.imshow(pixels, interpolation="nearest", **look)
        n = len(pixels)
        axes.set_xticks(np.arange(n + 1) - 0.5, labels=[])
        axes.set_yticks(np.arange(n + 1) - 0.5, labels=[])
        axes.tick_params(length=0)
        axes.grid(color="#00000030", linewidth=0.5)
        axes.set_title(title, fontsize=9.5)
    named = [
        figure.axes[1].plot([], [], "s", color=colour, label=name)[0] for name, colour in _CLASSES.values()
    ]
    figure.legend(handles=named, loc="outside lower center", ncols=len(named), frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        grid_picture(Path(made)).savefig(_FIGURE)
    sys.stdout.write(f"{_FIGURE.name}: {_FIGURE.stat().st_size:,} bytes\n")
