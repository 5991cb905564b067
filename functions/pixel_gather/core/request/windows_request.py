"""The many windows that a request wants: chips, which a table lists."""

from typing import Final, Self

from pydantic import Field, model_validator

from pixel_gather.core.request.request_error import mistake_in
from pixel_gather.core.request.request_part import RequestPart, Size, may_be_path

MOST_SAMPLE: Final = 10_000_000
"""The table of more chips would take some GB."""


class WindowsRequest(RequestPart):
    """Many windows of one size, one for each line of a table: chips. The cube has an axis of them."""

    table: str = Field(
        min_length=1,
        description="CSV, Parquet, GeoParquet or GeoJSON: a path or an href. Each line is the middle of a "
        "chip: columns lon and lat, x and y, or a geometry, whose box's middle counts. Further columns "
        "become coordinates. With sample or spacing, each line is a polygon that chips are spread over.",
    )
    size: tuple[Size, Size] = Field(description="[width, height] of every chip in pixels.")
    id: str | None = Field(
        None,
        min_length=1,
        description="Column of the chips' ids; id if there is one. Else lines are numbered.",
    )
    x: str | None = Field(
        None, min_length=1, description="Column of longitude or x, if its name does not say."
    )
    y: str | None = Field(None, min_length=1, description="Column of latitude or y.")
    crs: str | None = Field(
        None,
        min_length=1,
        description="CRS of x and y. EPSG:4326 if neither this nor the table says one. With spacing, the CRS "
        "of the lattice, and of the polygons of a CSV.",
    )
    sample: int | None = Field(
        None, ge=1, le=MOST_SAMPLE, description="Draw so many chips at random from the polygons of the table."
    )
    seed: int | None = Field(
        None,
        ge=0,
        lt=2**63,
        description="Of sample; 0 if not given. Equal seeds and tables give equal chips.",
    )
    strata: str | None = Field(
        None,
        min_length=1,
        description="A column of the polygons. Each of its values has the same number of chips of sample.",
    )
    spacing: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Put a chip at each point in the polygons whose coordinates are whole multiples of this, "
        "in units of crs. Chips of 256 pixels of 10 m adjoin with 2560.",
    )

    _table = may_be_path("table")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.sample is not None and self.spacing is not None:
            raise mistake_in("spacing", "give sample or spacing, not both")
        for name in ("seed", "strata") if self.sample is None else ():
            if getattr(self, name) is not None:
                raise mistake_in(name, "use it only with sample")
        return self
