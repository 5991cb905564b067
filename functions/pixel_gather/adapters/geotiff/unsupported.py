"""Why this path leaves a file to GDAL."""


class UnsupportedError(Exception):
    """This path does not read the file exactly as GDAL would; the other reader decides. Not a failure.

    Pixels that were already written stand for nothing: whoever answers next overwrites them.
    """

    def __init__(self, reason: str) -> None:
        """Say why, in a few words without any value that differs between tiles."""
        super().__init__(reason)
        self.reason = reason


class UnknownCrsError(UnsupportedError):
    """Everything is read here but the CRS, which GDAL has to name."""


class DamagedTileError(UnsupportedError):
    """A tile's bytes are damaged, whether or not GDAL has the codec to see that."""


class TiffError(UnsupportedError):
    """The file breaks the format, or is odder than this parser takes."""
