"""Why the fast path leaves a file to GDAL."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixel_gather.io.store.fetched import Fetched


class UnsupportedError(Exception):
    """This path cannot read the file exactly as GDAL would, so GDAL reads it. Not a failure.

    Pixels that were already written mean nothing. The next reader overwrites them.
    """

    head: "Fetched | None" = None
    """First bytes of the file, if they were fetched to open it."""

    def __init__(self, reason: str) -> None:
        """Say why, in a few words. They contain no value that differs between tiles."""
        super().__init__(reason)
        self.reason = reason


class UnknownCrsError(UnsupportedError):
    """This path can read everything but the CRS. GDAL has to name it."""


class DamagedTileError(UnsupportedError):
    """A tile's bytes are damaged. GDAL may lack the codec to notice."""


class TiffError(UnsupportedError):
    """The file breaks the TIFF format, or is too unusual for this parser."""
