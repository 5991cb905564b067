"""The parts of one object's header that have been fetched so far."""

from dataclasses import dataclass, field
from typing import Final

from pixel_gather.core.errors import PickledError
from pixel_gather.io.geotiff.unsupported import TiffError

_MAX_PARTS: Final = 32
"""More parts than one parse may ask for. Bounds the memory that many windows of one file take."""


class NeedBytes(PickledError):  # noqa: N818 # a question to the caller, not a failure
    """Bytes [start, stop) of the object are needed and have not been fetched. They lie inside the object."""

    def __init__(self, start: int, stop: int) -> None:
        """Name the range."""
        super().__init__(f"bytes {start} to {stop}")
        self.start = start
        self.stop = stop


@dataclass(slots=True)
class HeaderBytes:
    """Ranges of one object. Grows by ``add`` and fetches nothing itself."""

    object_nbytes: int
    seen_stop: int = 0
    """Byte after the last one that was ever viewed."""

    viewed: list[tuple[int, int]] | None = None
    """Every view [start, stop) is added to it. None while nobody wants to know."""

    _parts: list[tuple[int, memoryview]] = field(default_factory=list)

    def add(self, start: int, content: memoryview) -> None:
        """Add bytes that begin at ``start``.

        When there are too many parts, the oldest is dropped, but never the first bytes of the object.
        """
        if len(self._parts) >= _MAX_PARTS:
            del self._parts[1]
        self._parts.append((start, content))

    @property
    def n_parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def spans(self) -> list[tuple[int, int]]:
        """Return each part's bytes [start, stop)."""
        return [(start, start + content.nbytes) for start, content in self._parts]

    def view(self, start: int, stop: int) -> memoryview:
        """Return bytes [start, stop) without copying.

        Raises:
            TiffError: They lie outside the object.
            NeedBytes: No single part holds all of them.
        """
        if not 0 <= start <= stop <= self.object_nbytes:
            raise TiffError("an offset points outside the file")
        self.seen_stop = max(self.seen_stop, stop)
        if self.viewed is not None:
            self.viewed.append((start, stop))
        for part_start, content in self._parts:
            if part_start <= start and stop <= part_start + content.nbytes:
                return content[start - part_start : stop - part_start]
        raise NeedBytes(start, stop)
