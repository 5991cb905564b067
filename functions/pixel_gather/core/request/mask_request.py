"""Which pixels a request hides, by the values of one band."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from pixel_gather.core.errors import RequestError
from pixel_gather.core.pixel_mask import MOST_DILATED, PixelMask
from pixel_gather.core.request.request_part import RequestPart

type Bit = Annotated[int, Field(ge=0, le=63)]


class MaskRequest(RequestPart):
    """Pixels that do not count, such as clouds, by one band of the cube. They are missing in the others."""

    band: str = Field(min_length=1, description="Name of the band in the cube, such as scl.")
    drop: tuple[int, ...] | None = Field(
        None, min_length=1, description="Its values that hide a pixel, such as [3, 8, 9, 10]."
    )
    bits: tuple[Bit, ...] | dict[str, Bit] | None = Field(
        None, min_length=1, description="Instead: its bits, from 0, such as {cloud: 3, shadow: 4}."
    )
    dilate: int = Field(
        0,
        ge=0,
        le=MOST_DILATED,
        description="Pixels of the cube around each of these that are hidden, too, along both axes.",
    )

    @model_validator(mode="after")
    def _refuse_what_is_no_rule(self) -> Self:
        try:
            self.mask()
        except RequestError as error:
            raise ValueError(error.message) from error
        return self

    def mask(self) -> PixelMask:
        """Return the rule, which the steps use."""
        return PixelMask.of(self.model_dump(exclude_none=True), may_dilate=True)
