"""Defines the colours of pages and figures, light and dark. A page takes the theme of its reader.

The hues are those of Okabe and Ito. They were made darker or lighter. Each line now has a contrast of 3:1 to
its background. Any two differ for readers without red, green or blue cones. Text is always in ``text`` or
``muted``, which have a contrast of 4.5:1.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

PREFIX: Final = "--figure-"


class Theme(Struct, frozen=True, kw_only=True):
    """One set of colours, each ``#rrggbb`` in lower case and unlike the others."""

    background: str
    text: str
    muted: str
    """Secondary text: names of axes, ticks, notes."""

    axis: str
    """Lines of the axes."""

    grid: str
    quiet: str
    """Runs that were not chosen."""

    blue: str
    vermilion: str
    green: str
    purple: str
    brown: str
    published: str
    """Results published in 2018."""

    @property
    def series(self) -> tuple[str, ...]:
        """Colours of the series in order. `MARKERS` and `LINES` have the same order."""
        return self.blue, self.vermilion, self.green, self.purple, self.brown


LIGHT: Final = Theme(
    background="#ffffff",
    text="#1f2328",
    muted="#59636e",
    axis="#7d8690",
    grid="#e4e7eb",
    quiet="#8c959f",
    blue="#0072b2",
    vermilion="#d55e00",
    green="#009e73",
    purple="#a03d80",
    brown="#5c4200",
    published="#24292f",
)
DARK: Final = Theme(
    background="#15191e",
    text="#e6edf3",
    muted="#a3adb8",
    axis="#7b858f",
    grid="#2a313a",
    quiet="#6e7781",
    blue="#56b4e9",
    vermilion="#e69f00",
    green="#009e74",
    purple="#cc79a7",
    brown="#f0e442",
    published="#f6f8fa",
)


def css_variables(theme: Theme) -> str:
    """Return the CSS declarations of the colours of a theme."""
    return "\n".join(f"{PREFIX}{name}: {colour};" for name, colour in asdict(theme).items())
