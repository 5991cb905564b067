"""How the pictures of an export look."""

from typing import Final

from msgspec import Struct

from pixel_gather.core.area import check_pair
from pixel_gather.core.errors import RequestError

FRAMES_PER_SECOND: Final = 4
_MOST_FRAMES_PER_SECOND: Final = 60  # what screens show


class PictureStyle(Struct, frozen=True, kw_only=True):
    """How `export` draws animations and sheets. Nothing of it changes other formats."""

    stretch: tuple[float, float] | None = None
    """Values of black and white. None: percentiles 2 to 98 of up to 64 rows, without clouds in colour and in
    whole numbers. If given, classes are drawn as quantities."""

    colormap: str | None = None
    """A colour map of matplotlib for one measurement, such as ``viridis``. None: greys. If given, classes are
    drawn as quantities."""

    frames_per_second: float = FRAMES_PER_SECOND
    """Of animations; more than 0, at most 60."""

    is_dark: bool = False
    """Whether captions are light on a dark ground."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.stretch is not None:
            low, high = check_pair(self.stretch, field="stretch", names="black, white")
            if not low < high:
                raise RequestError(f"black ({low:g}) must be less than white ({high:g})", field="stretch")
        if not 0 < self.frames_per_second <= _MOST_FRAMES_PER_SECOND:
            raise RequestError(
                f"it is {self.frames_per_second:g}; write a number above 0, up to {_MOST_FRAMES_PER_SECOND}",
                field="frames_per_second",
            )
