"""The grid that a request wants for all of its sources."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from pixel_gather.core.model.band_names import is_of_classes
from pixel_gather.core.model.grid_step import Resampling
from pixel_gather.core.model.window import Transform, WindowRule
from pixel_gather.core.request.request_part import Coordinate, RequestPart, Size

_OF_WARP: Final = ("nearest", "bilinear", "cubic")
"""How pixels of another CRS become those of a grid."""

_OF_BLOCKS: Final = ("average", "mode", "nearest")
"""How whole blocks of pixels become one."""

_OF_CLASSES: Final[dict[Resampling, Resampling]] = {
    "average": "mode",
    "bilinear": "nearest",
    "cubic": "nearest",
}
"""What classes, which have no mean, get instead of one."""

type Width = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class GridRequest(RequestPart):
    """One grid for all sources: pixels of one width in their own CRS, or a grid in a CRS that is named."""

    resolution: Literal["finest", "coarsest"] | Width | None = Field(
        None,
        description="Width of the cube's pixels in units of the CRS. Without crs also that of the finest or "
        "the coarsest sources: then coarser pixels are repeated, and finer ones become one by resampling.",
    )
    crs: str | None = Field(
        None,
        min_length=1,
        description="CRS of the cube, such as EPSG:3035, or utm for the zone of the window's middle. Sources "
        "in any CRS are warped onto it.",
    )
    anchor: Literal["edge", "center"] | tuple[Coordinate, Coordinate] | None = Field(
        None,
        description="Where the pixels of resolution lie in crs: edges (edge, the default) or middles "
        "(center) at whole multiples of it, or a corner of pixels [x, y].",
    )
    transform: tuple[Coordinate, Coordinate, Coordinate, Coordinate, Coordinate, Coordinate] | None = Field(
        None,
        description="Instead of resolution, with shape and crs, and without a window: the exact box, as "
        "[a, b, c, d, e, f] of x = a * column + b * row + c and y = d * column + e * row + f.",
    )
    shape: tuple[Size, Size] | None = Field(None, description="[height, width] of the box in pixels.")
    like: str | None = Field(
        None,
        min_length=1,
        description="Instead of all others: a cube or a GeoTIFF whose pixels these are. The command line and "
        "Python read it, and fill in crs, shape and transform.",
    )
    resampling: Resampling | dict[str, Resampling] | None = Field(
        None,
        description="How pixels become one: for all bands, or by name. With crs: nearest, the pixel below "
        "the middle (the default); bilinear, the weighted mean of the four around the middle; or cubic, "
        "the weighted mean of the 4 x 4 around it. Classes, such as scl, always get nearest. Without crs: "
        "how whole blocks of finer pixels become one, average if not given. Bands of classes are never "
        "averaged: they get mode. average: the mean of the pixels that are not missing. mode: the most "
        "frequent value, the least of several. nearest: the pixel right below the middle.",
    )

    @field_validator("resampling")
    @classmethod
    def _classes_have_no_mean(cls, given: Any) -> Any:
        for band, resampling in given.items() if isinstance(given, dict) else ():
            if resampling in _OF_CLASSES and is_of_classes(band):
                others = "mode or nearest" if resampling == "average" else "nearest"
                raise ValueError(f"{band} holds classes, which have no mean: write {others}")
        return given

    @model_validator(mode="after")
    def _refuse_other_than_one_size(self) -> Self:
        if self.like is not None:
            raise ValueError(
                "like is read by the command line and by Python alone; write crs, shape and transform"
            )
        if (self.transform is None) != (self.shape is None):
            raise ValueError("shape and transform go together; give both, or a resolution")
        if (self.resolution is None) == (self.transform is None):
            raise ValueError("give a resolution, or shape and transform")
        for name in ("anchor", "transform"):
            if self.crs is None and getattr(self, name) is not None:
                raise ValueError(f"{name} needs a crs, onto which sources are warped; give crs, too")
        return self

    @model_validator(mode="after")
    def _refuse_grids_that_nothing_is_warped_onto(self) -> Self:
        if self.crs is None:
            return self
        if self.resolution in ("finest", "coarsest"):
            raise ValueError(f"with crs, write the width of the pixels in units of it, not {self.resolution}")
        if self.transform is not None and self.anchor is not None:
            raise ValueError("transform says where the pixels lie; leave anchor out")
        if self.transform is not None and self.crs == "utm":
            raise ValueError("a transform is in one CRS; name that instead of utm")
        if not (self.lattice().is_usable and self.lattice().is_rectilinear):
            raise ValueError("transform is [width, 0, x, 0, -height, y]: pixels lie along the axes of crs")
        return self

    @model_validator(mode="after")
    def _resampling_goes_with_crs(self) -> Self:
        asked = self.resampling.values() if isinstance(self.resampling, dict) else (self.resampling,)
        allowed = _OF_WARP if self.warps else _OF_BLOCKS
        if wrong := next((each for each in asked if each not in (None, *allowed)), None):
            where = "with crs" if self.warps else "without crs"
            raise ValueError(f"{where}, resampling is one of {', '.join(allowed)}, not {wrong}")
        return self

    @property
    def warps(self) -> bool:
        """Whether sources are warped onto a grid in a CRS of its own."""
        return self.crs is not None

    def lattice(self) -> Transform:
        """Return the transform of the pixels that sources are warped onto."""
        if self.transform is not None:
            return Transform(*self.transform)
        assert isinstance(self.resolution, float)  # noqa: S101 # checked above
        width, (x, y) = self.resolution, (0.0, 0.0)
        if self.anchor == "center":
            x, y = -width / 2, width / 2
        elif isinstance(self.anchor, tuple):
            x, y = self.anchor
        return Transform(width, 0.0, x, 0.0, -width, y)

    def box(self) -> WindowRule | None:
        """Return the window that shape and transform are."""
        if self.shape is None:
            return None
        height, width = self.shape
        return WindowRule(bounds=self.lattice().bounds(width, height), crs=self.crs)

    def resampling_of(self, band: str | None) -> Resampling:
        """Return how pixels of a band's sources become one, where that is needed."""
        named = self.resampling
        asked = named.get(band or "") if isinstance(named, dict) else named
        chosen = asked or ("nearest" if self.warps else "average")
        has_classes = band is not None and is_of_classes(band)
        return _OF_CLASSES.get(chosen, chosen) if has_classes else chosen
