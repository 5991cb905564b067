"""Status of one source's window: the codes of the cube's ``status`` coordinate."""

from enum import IntEnum


class Status(IntEnum):
    """Status of one window, stored as CF ``flag_values``. Codes may be added, but never change."""

    OK = 0
    """Read completely. The pixels are the source's own."""
    ABSENT = 1
    """The list names no source for this row and measurement."""
    MISSING = 2
    """No object under this href."""
    DENIED = 3
    """The object store refused access."""
    CORRUPT = 4
    """The object is not a raster, or its bytes cannot be decoded."""
    UNLIKE = 5
    """Its dtype or band count does not fit the cube, or its grid where the request asks for one grid."""
    OUTSIDE = 6
    """The window lies completely outside the source."""
    TIMED_OUT = 7
    """No answer within the time limit, after retries."""
    CHANGED = 8
    """The object was replaced while it was being read."""
    UNSUPPORTED = 9
    """A valid file that neither reader can read, or a file over a stated limit."""
    LOST = 10
    """Its worker failed, and the request allowed that loss. Nothing was recorded."""
    UNMASKED = 11
    """It was read, but not the mask that says which of its pixels count. None of them is kept."""

    @property
    def is_failure(self) -> bool:
        """Whether the list names a source but it gave no pixels."""
        return self not in (Status.OK, Status.ABSENT)
