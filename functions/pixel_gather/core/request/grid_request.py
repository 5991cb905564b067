"""The grid that a request wants for all of its sources."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pixel_gather.core.model.band_names import is_of_classes
from pixel_gather.core.model.grid_step import Resampling
from pixel_gather.core.request.request_part import RequestPart


class GridRequest(RequestPart):
    """One grid for all sources, in the CRS that they share. Nothing is warped, and no pixel is shifted."""

    resolution: Literal["finest", "coarsest"] | Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="Width of the cube's pixels in units of the CRS, or that of the finest or the coarsest "
        "sources. Coarser pixels are repeated, finer ones become one by resampling."
    )
    resampling: Resampling | dict[str, Resampling] | None = Field(
        None,
        description="How whole blocks of finer pixels become one: for all bands, or by name. If not given: "
        "average. Bands of classes, such as scl, are never averaged: they get mode. average: the mean of the "
        "pixels that are not missing. mode: the most frequent value, the least of several. nearest: the "
        "pixel right below the middle.",
    )

    @field_validator("resampling")
    @classmethod
    def _classes_have_no_mean(cls, given: Any) -> Any:
        for band, resampling in given.items() if isinstance(given, dict) else ():
            if resampling == "average" and is_of_classes(band):
                raise ValueError(f"{band} holds classes, which have no mean: write mode or nearest")
        return given

    def resampling_of(self, band: str | None) -> Resampling:
        """Return how pixels of a band's sources become one, where that is needed."""
        named = self.resampling
        asked = named.get(band or "") if isinstance(named, dict) else named
        is_wrong = asked in (None, "average") and band is not None and is_of_classes(band)
        return "mode" if is_wrong else asked or "average"
