"""How the images of a table are read."""

from msgspec import Struct

from pixel_gather.core.ports import LevelReader, SourceLimiter
from pixel_gather.io.crs import RasterioProjector


class ImageAccess(Struct, frozen=True, kw_only=True):
    """What opens the images of one list."""

    bands: tuple[str, ...]
    """The list's."""

    reader: LevelReader
    limiter: SourceLimiter
    projector: RasterioProjector
    timeout_s: float
