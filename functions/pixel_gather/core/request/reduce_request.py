"""Which rows of a list become one, and how."""

import re
from typing import Any, Final

from pydantic import Field, field_validator, model_validator

from pixel_gather.core.request.request_part import RequestPart

_KNOWN: Final = "median, mean, min, max, count, a percentile such as p90, first or last"
_STATISTIC: Final = r"^(median|mean|min|max|count|first|last|p[1-9][0-9]?)$"


class ReduceRequest(RequestPart):
    """Reduce the scenes of each month, day or other group to one row of the cube."""

    by: str = Field(
        min_length=1,
        max_length=200,
        description="day, month or year (of UTC), solar-day (by the sun at the middle of the window), or a "
        "column of the list. Scenes with the same one become one row.",
    )
    statistic: str = Field(
        json_schema_extra={"pattern": _STATISTIC},
        description="median, mean, min, max, count, or a percentile such as p90, of the pixels that are not "
        "missing; or a mosaic: first or last, the pixel of the first or last scene in order that has one.",
    )
    order: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Of first and last: the column of the list that orders the scenes of a group, the least "
        "first, or after a minus the most first: -cloud_free. Equal ones by href. By time if not given.",
    )

    def told(self) -> dict[str, str]:
        """Return the fields that are given."""
        return self.model_dump(exclude_none=True)

    @field_validator("statistic")
    @classmethod
    def _refuse_unknown_statistics(cls, given: str) -> str:
        if re.match(_STATISTIC, given) is None:
            raise ValueError(f"it is {given!r}; write {_KNOWN}")
        return given

    @model_validator(mode="after")
    def _order_is_of_mosaics(self) -> Any:
        if self.order is not None and self.statistic not in ("first", "last"):
            raise ValueError("order is for the statistics first and last; leave it out")
        return self
