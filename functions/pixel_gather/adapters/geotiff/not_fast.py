"""Why this path leaves a file to GDAL."""


class NotFast(Exception):  # noqa: N818 # not a failure: the other reader answers
    """This path does not read the file exactly as GDAL would; the other reader decides.

    Pixels that were already written stand for nothing: whoever answers next overwrites them.
    """

    def __init__(self, reason: str) -> None:
        """Say why, in a few words without any value that differs between tiles."""
        super().__init__(reason)
        self.reason = reason


class UnknownCrsError(NotFast):
    """Everything is read here but the CRS, which GDAL has to name."""


class TiffError(NotFast):
    """The file breaks the format, or is odder than this parser takes."""
