"""What one scene showed at one level: its value, the error of that, and how much of the area it has."""

from msgspec import Struct

from pixel_gather.features.rank.area_share import Counted
from pixel_gather.features.rank.sampling_error import ErrorEstimate
from pixel_gather.features.rank.usable_levels import Level


class MeasuredLevel(Struct, frozen=True):
    """What the pixels of one level showed."""

    estimate: ErrorEstimate
    valid: Counted
    """Pixels of full resolution with data in the area."""

    clear: Counted
    n_area: float
    """Those of the area on the image."""

    factor: float = 1.0
    remarks: str | None = None


class MeasuredScene(Struct, frozen=True, kw_only=True):
    """What one scene showed at one level."""

    value: float
    """NaN if no pixel counts."""

    error: float
    """Standard error: 0 at full resolution, infinite if the level cannot tell."""

    level: Level
    n_pixels: int
    """Pixels that count."""

    valid: float
    """Share of the area with data, 0 to 1."""

    clear: float
    """Share of the area with data that the mask keeps; ``valid`` without a mask."""

    valid_range: tuple[float, float]
    """95 % interval of ``valid``."""

    clear_range: tuple[float, float]

    remarks: str | None
    """What the error relies on that the file does not say, and what was ignored of its metadata."""

    etags: tuple[str | None, ...]
    """Versions of the scene's files, in the order of `RankScene.hrefs`."""

    levels: tuple[Level, ...]
    """The levels that the scene may be read at, coarsest first."""

    level_nbytes: tuple[float, ...]
    """Bytes of each of them, with all bands and the mask."""

    factor: float = 1.0
    """Pixels of full resolution along one side of a pixel that was read."""
