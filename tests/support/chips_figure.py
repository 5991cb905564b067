"""Makes docs/figures/chips.png: how the model of docs/chips.md learns, and some of its chips.

``PYTHONPATH=tests uv run python -m support.chips_figure``. It runs the command and the code of that page.
"""

import contextlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from pixel_gather import open_chips
from support.command_line import run

_PROJECT: Final = Path(__file__).parents[2]
_PAGE: Final = _PROJECT / "docs" / "chips.md"
_FIGURE: Final = _PROJECT / "docs" / "figures" / "chips.png"
_EXAMPLE: Final = re.compile(
    r"^## A first model$.*?^```sh\npixel-gather (.*?)^```.*?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_SHOWN: Final = 6


def train_example(folder: Path) -> dict[str, Any]:
    """Run the example of the page in a folder, and return what its code has defined."""
    found = _EXAMPLE.search(_PAGE.read_text(encoding="utf-8"))
    assert found is not None, "the page has no example"
    command, code = found.groups()
    (folder / "tests").symlink_to(_PROJECT / "tests")
    defined: dict[str, Any] = {}
    with contextlib.chdir(folder):
        assert run(*command.split(), "--quiet") == 0
        exec(compile(code, str(_PAGE), "exec"), defined)  # noqa: S102 # our own page
    return defined


def chips_picture(folder: Path) -> Figure:
    """Train the model, and draw its accuracy beside chips of both labels."""
    trained = train_example(folder)
    figure = Figure(figsize=(9.2, 2.9), dpi=110, facecolor="white", layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.35, 1])
    left, right = halves
    axes = left.subplots()
    epochs = np.arange(len(trained["curve"]))
    for name, values, color in zip(
        ("known places", "held-out places"),
        np.array(trained["curve"]).T,
        ("#8a94a6", "#0b6e99"),
        strict=True,
    ):
        axes.plot(epochs, values * 100, color=color, label=name, linewidth=2)
    is_cloud = trained["held_out"][1]
    most = max(is_cloud.mean(), 1 - is_cloud.mean()) * 100
    axes.axhline(most, color="#b0472f", linestyle=":", label="always the commoner label")
    axes.set_xlabel("epoch")
    axes.set_ylabel("right labels, %")
    axes.set_xticks(epochs[::5])
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    chips = open_chips(folder / "greenland.zarr", measurements=["blue"])
    rows = right.subplots(2, _SHOWN)
    for label, row in zip(("cloud", "snow"), rows, strict=True):
        some = chips.where(label=label)
        for at, panel in enumerate(row):
            pixels = some[at * (len(some) // _SHOWN)]["pixels"][0, 0]
            panel.imshow(pixels, cmap="Greys_r", vmin=37_000, vmax=47_000, interpolation="nearest")
            panel.set_xticks([])
            panel.set_yticks([])
        row[0].set_ylabel(label)
    return figure


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        chips_picture(Path(made)).savefig(_FIGURE)
    sys.stdout.write(f"{_FIGURE.name}: {_FIGURE.stat().st_size:,} bytes\n")
