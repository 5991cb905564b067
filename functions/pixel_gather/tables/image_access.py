"""How the images of a table are read."""

from dataclasses import dataclass

from pixel_gather.core.ports import LevelReader, SourceLimiter
from pixel_gather.io.crs import RasterioProjector


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAccess:
    """What opens the images of one list."""

    bands: tuple[str, ...]
    """The list's."""

    reader: LevelReader
    limiter: SourceLimiter
    projector: RasterioProjector
    timeout_s: float
