"""The window that a request wants of every source."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import TileIndex, WindowRule
from pixel_gather.core.request.request_part import Coordinate, Offset, RequestPart, Size, exactly_one
from pixel_gather.core.request.shape_bounds import shape_bounds
from pixel_gather.core.request.wrong_values import show_value

WINDOW_KINDS: Final = ("tile", "pixels", "bbox", "point")

_DEGREES: Final = (None, "EPSG:4326", "OGC:CRS84")
"""CRSs of a window whose numbers are longitude and latitude."""

_MOST_LON: Final = 360
"""Images across 180 degrees go on beyond it."""

_MOST_LAT: Final = 90

_HALF_A_PIXEL: Final = 5
"""Degrees by which a box may reach beyond the Earth: as the edges of a coarse image of all of it do."""


def check_degrees(numbers: Sequence[float], *, otherwise: str, slack: float = 0) -> None:
    """Refuse degrees that no place on Earth has.

    Args:
        numbers: Longitude, latitude, and so on.
        otherwise: What to do if the numbers are other coordinates.
        slack: Degrees by which they may lie beyond the Earth.

    Raises:
        ValueError: It names the number.
    """
    for at, number in enumerate(numbers):
        kind, most = (("longitude", _MOST_LON), ("latitude", _MOST_LAT))[at % 2]
        if abs(number) > most + slack:
            raise ValueError(
                f"the {kind} is {number:.10g}; write degrees from -{most} to {most}, the longitude first. Of "
                f"other coordinates {otherwise}"
            )


def rule_at(longitude: float, latitude: float) -> WindowRule:
    """Return the rule of the pixel that holds a place.

    Raises:
        RequestError: No place on Earth has these degrees.
    """
    try:
        check_degrees((longitude, latitude), otherwise="compute longitude and latitude")
    except ValueError as error:
        raise RequestError(str(error), field="point") from error
    return WindowRule(point=(longitude, latitude), crs="EPSG:4326")


class WindowRequest(RequestPart):
    """The window wanted of every source. Exactly one of tile, pixels, bbox and point."""

    tile: Literal["centre"] | tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = Field(
        None, description="[column, row] of a tile in the source's own tiling, or centre."
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

    @field_validator("tile", mode="before")
    @classmethod
    def _tile_or_centre(cls, given: Any) -> Any:
        """Say both ways to name a tile, where the types would say only one."""
        if given == "center":
            return "centre"
        if given in ("centre", None) or (isinstance(given, list | tuple) and len(given) == 2):  # noqa: PLR2004 # column, row
            return given
        raise ValueError(f"it is {show_value(given)}; write centre or [column, row]")

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, given: Any) -> Any:
        """Accept the plain word centre as the centre tile."""
        if isinstance(given, str) and given not in ("centre", "center"):
            raise ValueError(
                f"it is {given[:60]!r}; write centre, or an object with one of {', '.join(WINDOW_KINDS)}"
            )
        return {"tile": given} if isinstance(given, str) else given

    @model_validator(mode="before")
    @classmethod
    def _refuse_shapes(cls, given: Any) -> Any:
        """Refuse a GeoJSON shape, and say which box is around it."""
        of_bbox = given.get("bbox") if isinstance(given, Mapping) else None
        bounds = shape_bounds(given) or (None if isinstance(of_bbox, list | tuple) else shape_bounds(of_bbox))
        if bounds is None:
            return given
        west, south, east, north = (f"{each:.12g}" for each in bounds)
        crs = "Give crs, too, if these are not degrees of EPSG:4326"
        if (west, south) == (east, north):
            raise ValueError(
                f"a GeoJSON point is no window. Write point: [{west}, {south}] and size: [width, height] in "
                f"pixels. {crs}"
            )
        raise ValueError(
            "a GeoJSON shape is no window, because a window is a rectangle. Write the box around the shape: "
            f"bbox: [{west}, {south}, {east}, {north}]. {crs}. Clip the cube afterwards"
        )

    @model_validator(mode="after")
    def _refuse_places_off_the_earth(self) -> Self:
        """Refuse degrees that no place on Earth has, where they would mean a place outside of every image."""
        if self.crs not in _DEGREES:
            return self
        if self.point is not None:
            check_degrees(self.point, otherwise="give crs, too")
        if self.bbox is not None:
            check_degrees(self.bbox, otherwise="give crs, too", slack=_HALF_A_PIXEL)
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one(self, WINDOW_KINDS)
        if self.point is None and self.size is not None:
            raise ValueError("size is for point only; give point, or leave size out")
        if self.crs is not None and self.bbox is None and self.point is None:
            raise ValueError("crs is for bbox and point only; leave it out")
        if self.bbox is not None:
            west, south, east, north = self.bbox
            if west > 0 > east and south < north and self.crs in _DEGREES:
                raise ValueError(
                    "the bbox crosses 180 degrees, which a window cannot. Gather a cube of each side: "
                    f"[{west:g}, {south:g}, 180, {north:g}] and [-180, {south:g}, {east:g}, {north:g}]. "
                    "If the images go on past 180 degrees, write "
                    f"[{west:g}, {south:g}, {east + 360:g}, {north:g}]"
                )
            if west >= east or south >= north:
                raise ValueError("bbox is [west, south, east, north] with west < east and south < north")
        return self

    def rule(self) -> WindowRule:
        """Return the window as a `WindowRule`, which the steps use."""
        tile = None
        if self.tile is not None and not isinstance(self.tile, str):
            column, row = self.tile
            tile = TileIndex(column=column, row=row)
        on_map = self.bbox is not None or self.point is not None
        return WindowRule(
            tile=tile,
            is_centre=self.tile == "centre",
            pixels=self.pixels,
            bounds=self.bbox,
            point=self.point,
            size=self.size or (1, 1),
            crs=(self.crs or "EPSG:4326") if on_map and self.crs != "source" else None,
        )
