"""Where a cube lies on the Earth: the rings of its window and of its sources."""

from msgspec import Struct

type Ring = tuple[tuple[float, float], ...]
"""The corners of an area, as longitude and latitude in degrees. The first is not repeated at the end.

Longitudes go on beyond 180 where the area crosses that meridian.
"""


class Footprints(Struct, frozen=True, kw_only=True):
    """The window, and some of the sources that it was read from."""

    window: Ring
    sources: tuple[Ring, ...]
    """Each ring once, also if many sources share it."""

    def __post_init__(self) -> None:
        """Refuse rings that enclose no area or lie nowhere."""
        rings = (self.window, *self.sources)
        if not all(len(ring) > 2 and all(map(_is_place, ring)) for ring in rings):  # noqa: PLR2004 # a triangle
            raise ValueError("a footprint is no ring of longitudes and latitudes")


class SourceFootprints(Struct, frozen=True, kw_only=True):
    """Where all sources lie whose header is known."""

    rings: tuple[Ring, ...]
    """Each ring once, also if many sources share it."""

    n_sources: int
    """Sources that lie in these rings."""

    n_different: int
    """Different footprints. More than ``rings`` if one ring stands for its neighbours."""

    cell_degrees: float | None = None
    """One ring stands for all whose middles lie in a cell of this side; None if all are there."""


def _is_place(point: tuple[float, float]) -> bool:
    return -180 <= point[0] <= 540 and -90 <= point[1] <= 90  # noqa: PLR2004 # degrees
