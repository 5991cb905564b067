"""What the stored values of an array mean, by CF's attributes."""

from typing import Any

from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.results.report_content import Scaling


def read_scaling(array: Any) -> Scaling:
    """Return what an array's attributes say of its values. Attributes of other types do not count."""
    told = dict(array.attrs)
    scale, offset, unit = (told.get(name) for name in ("scale_factor", "add_offset", "units"))
    return Scaling(
        scale=float(scale) if isinstance(scale, int | float) and scale else 1.0,
        offset=float(offset) if isinstance(offset, int | float) else 0.0,
        unit=unit if isinstance(unit, str) and unit != "1" else "",
    )


def meaning_of(array: Any) -> BandMeaning:
    """Return what an array's attributes say of its classes, and of its colour."""
    return BandMeaning.of_attributes(array.attrs)
