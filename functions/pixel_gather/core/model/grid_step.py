"""How the pixels of a source become pixels of a grid that all sources of a cube share."""

from typing import Final, Literal

from msgspec import Struct

from pixel_gather.core.model.window import Window

type Resampling = Literal["average", "mode", "nearest", "bilinear", "cubic"]

MOST_TIMES: Final = 256
"""Largest number of a source. Sums of so many pixels of 16 bits, squared, fit 32 bits."""


class GridStep(Struct, frozen=True, kw_only=True):
    """How pixels of a source become pixels of the grid. One of both numbers is 1."""

    times: int = 1
    """Pixels of the grid along one side of a source's pixel."""

    over: int = 1
    """Pixels of the source along one side of a pixel of the grid."""

    @property
    def is_same(self) -> bool:
        """Whether the pixels of the source are those of the grid."""
        return self.times == self.over

    @property
    def share(self) -> float:
        """Pixels of the source for each pixel of the grid."""
        return (self.over / self.times) ** 2

    def on_source(self, window: Window) -> Window:
        """Return the source's pixels under a window of the grid."""
        times, over = self.times, self.over
        col_off, row_off = window.col_off // times * over, window.row_off // times * over
        return Window(
            col_off=col_off,
            row_off=row_off,
            width=-(-window.col_stop // times) * over - col_off,
            height=-(-window.row_stop // times) * over - row_off,
        )

    def in_words(self, resampling: Resampling) -> str:
        """Return what becomes of a source's pixels."""
        if self.is_same:
            return "as it is"
        if self.times > 1:
            return f"each pixel {self.times} x {self.times} times"
        return f"{resampling} of {self.over} x {self.over} pixels"


SAME: Final = GridStep()
