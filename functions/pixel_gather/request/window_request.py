"""The window that a request wants of every source."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from pixel_gather.model.window import WindowRule
from pixel_gather.request.request_part import Coordinate, Offset, RequestPart, Size, exactly_one

WINDOW_KINDS: Final = ("tile", "pixels", "bbox", "point")


class WindowRequest(RequestPart):
    """The window wanted of every source. Exactly one of tile, pixels, bbox and point."""

    tile: Literal["centre"] | tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = Field(
        None, description="[row, column] of a tile in the source's own tiling, or centre."
    )
    pixels: tuple[Offset, Offset, Size, Size] | None = Field(
        None, description="[col_off, row_off, width, height]."
    )
    bbox: tuple[Coordinate, Coordinate, Coordinate, Coordinate] | None = Field(
        None, description="[west, south, east, north] in crs. Every pixel that it touches is read."
    )
    point: tuple[Coordinate, Coordinate] | None = Field(
        None, description="[x, y] in crs. The pixel that contains it is the window's centre."
    )
    size: tuple[Size, Size] | None = Field(None, description="[width, height] in pixels, around point.")
    crs: str | None = Field(
        None,
        min_length=1,
        description="CRS of bbox and point; EPSG:4326 (longitude, latitude) if not given; "
        "'source' for each source's own.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, given: Any) -> Any:
        """Accept the plain word centre as the centre tile."""
        if isinstance(given, str) and given not in ("centre", "center"):
            raise ValueError(
                f"it is {given[:60]!r}; write centre, or an object with one of {', '.join(WINDOW_KINDS)}"
            )
        return {"tile": "centre"} if given in ("centre", "center") else given

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one(self, WINDOW_KINDS)
        if self.point is None and self.size is not None:
            raise ValueError("size goes with point")
        if self.crs is not None and self.bbox is None and self.point is None:
            raise ValueError("crs goes with bbox or point")
        if self.bbox is not None:
            west, south, east, north = self.bbox
            if west > 0 > east and south < north and self.crs in (None, "EPSG:4326"):
                raise ValueError(
                    "a gather's bbox may not cross 180 degrees: gather both sides, each into its own cube: "
                    f"[{west:g}, {south:g}, 180, {north:g}] and [-180, {south:g}, {east:g}, {north:g}]"
                )
            if west >= east or south >= north:
                raise ValueError("bbox is [west, south, east, north] with west < east and south < north")
        return self

    def rule(self) -> WindowRule:
        """Return the window as a `WindowRule`, which the steps use."""
        is_centre = self.tile == "centre"
        on_map = self.bbox is not None or self.point is not None
        return WindowRule(
            tile=None if isinstance(self.tile, str) else self.tile,
            is_centre=is_centre,
            pixels=self.pixels,
            bounds=self.bbox,
            point=self.point,
            size=self.size or (1, 1),
            crs=(self.crs or "EPSG:4326") if on_map and self.crs != "source" else None,
        )
