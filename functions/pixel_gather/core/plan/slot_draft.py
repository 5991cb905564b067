"""What a sample of its sources tells of one slot. Pure."""

from copy import replace

from msgspec import Struct

from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.source import Header
from pixel_gather.core.plan.cube_plan import SourceSlot
from pixel_gather.core.plan.locate_window import Grid


class Draft(Struct, frozen=True, kw_only=True):
    """Result of sampling one slot: its typical header, and the average cost of its sources."""

    slot: SourceSlot
    header: Header
    """The typical one."""

    nodata: float | int | None
    """The most frequent nodata value of the sample, or else the request's."""

    grids: tuple[Grid, ...]
    """The different grids of the sample."""

    largest: tuple[int, int]
    """(width, height) of the sampled source that has the most pixels."""

    mean_gets: float
    """Requests that read the pixels of a source, as `mean_nbytes`."""

    mean_nbytes: float
    """Bytes that are read for the pixels of a source's window, or with chips, for all pixels of a source."""

    mean_open_nbytes: float
    warnings: tuple[str, ...]
    scalings: tuple[tuple[float, float], ...]
    """(scale, offset) that each band of the slot gets where values are harmonised. Where they are scaled,
    what a band is expected to have."""

    claimed: BandMeaning = NO_MEANING
    """What a catalog says of a slot with one band."""

    has_one_unit: bool = True
    """Whether the sample agrees on the unit of each band. If not, the cube says none."""

    def meaning(self, band: int) -> BandMeaning:
        """Return what the file and the catalog say of a band, from 1."""
        said = self.header.meaning(band).with_claims(self.claimed)
        return said if self.has_one_unit else replace(said, unit="")
