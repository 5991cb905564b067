"""What became of one source's window: the codes stored in the cube's ``status``."""

from enum import IntEnum


class Status(IntEnum):
    """Outcome of one window, stored as CF ``flag_values``; codes are added to, never renumbered."""

    OK = 0
    """Read whole; the pixels are the source's own."""
    ABSENT = 1
    """The list names no source for this row and measurement."""
    MISSING = 2
    """No object under this href."""
    DENIED = 3
    """The object store refused access."""
    CORRUPT = 4
    """The object is not a raster, or its bytes cannot be decoded."""
    UNLIKE = 5
    """Another dtype, band count or (where the request asks for one grid) grid than the cube's."""
    OUTSIDE = 6
    """The window lies wholly outside the source."""
    TIMED_OUT = 7
    """No answer within the time limit, after retries."""
    CHANGED = 8
    """The object was replaced while it was being read."""
    UNSUPPORTED = 9
    """A sound file that neither reader can read, or one over a stated limit."""
    LOST = 10
    """Never recorded: the worker that had it failed, and the request allowed as much."""

    @property
    def is_failure(self) -> bool:
        """Whether a source was named and yet gave no pixels."""
        return self not in (Status.OK, Status.ABSENT)
