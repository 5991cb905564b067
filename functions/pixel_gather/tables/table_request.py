"""What a table of features and images is asked for. Pure, but for what PROJ says of a CRS."""

import re
from collections.abc import Mapping, Sequence
from copy import replace
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.area import Box, check_box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.longitudes import HALF_TURN, short_way_around
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.sources import Sources
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import LONLAT, Features, Floats
from pixel_gather.tables.image_work import ImageWork, TableKind
from pixel_gather.tables.read_features import FeatureColumns
from pixel_gather.tables.shapes import Shapes
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_values import Values

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s|days?|hours?|minutes?|seconds?)")
_US: Final = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
_SEARCHES: Final = ("catalog", "stac")


class TableRequest(Struct, frozen=True, kw_only=True):
    """Features, images, and what is computed."""

    features: Any
    """A path, an href, or what `given_features` takes."""

    sources: Any
    columns: FeatureColumns
    values: Values
    limits: TableLimits
    tolerance_us: int | None = None

    @classmethod
    def of(  # noqa: PLR0913 # as `points`
        cls,
        *,
        features: Any,
        sources: Any,
        id: str | None = None,  # noqa: A002 # the option's name
        x: str | None = None,
        y: str | None = None,
        crs: str | None = None,
        time: str | None = None,
        tolerance: str | None = None,
        by: str | Sequence[str] | None = None,
        mask: Mapping[str, Any] | None = None,
        bands: Mapping[str, str] | None = None,
        raw: bool = False,
        limits: Mapping[str, float | None] | None = None,
    ) -> "TableRequest":
        """Check what is asked for; the arguments are those of `pixel_gather.points`.

        Raises:
            RequestError: It names what is wrong.
        """
        if (time is None) != (tolerance is None):
            raise RequestError(
                "give time (--time) and tolerance (--tolerance) together",
                field="tolerance" if time is None else "time",
            )
        if not isinstance(crs, str | None):
            raise RequestError(f"it is {crs!r}; write text, such as EPSG:32632", field="crs")
        if crs is not None:
            RasterioProjector().check(crs, field="crs")
        return cls(
            features=features,
            sources=sources,
            columns=FeatureColumns(id=id, x=x, y=y, crs=crs, time=time),
            values=Values.of(by=by, mask=mask, bands=bands, raw=raw),
            tolerance_us=None if tolerance is None else duration_us(tolerance),
            limits=TableLimits.of(limits),
        )

    @property
    def values_for_list(self) -> Values:
        """The values, without ``bands`` where these have chosen the assets of a search.

        A search without ``assets`` reads those that ``bands`` names. Its list has the request's own names.
        """
        searched = self._searched
        return self.values if searched is None or "assets" in searched[1] else replace(self.values, bands=())

    @property
    def _searched(self) -> tuple[str, Mapping[str, Any]] | None:
        """How images are searched, and the fields of the search; None if they are a list."""
        given = self.sources if isinstance(self.sources, Mapping) else {}
        kind = next((name for name in _SEARCHES if isinstance(given.get(name), Mapping)), None)
        return None if kind is None else (kind, given[kind])

    def sources_near(self, features: Features) -> Sources:
        """Return the images. A search looks for scenes in the box around the features.

        Args:
            features: Polygons across 180 degrees were cut there, as `check_zones` does it.

        Raises:
            RequestError: They are wrong.
        """
        if self._searched is None:
            return parse_sources(self.sources)
        kind, search = self._searched
        if "assets" not in search:
            search = {**search, "assets": self.values.assets()}
        elif {"area", "items"} & search.keys():
            return parse_sources(self.sources)
        return parse_sources({**self.sources, kind: {"area": list(_box_around(features)), **search}})

    def to_json(self) -> dict[str, Any]:
        """Return what decides the table, besides the list and the features."""
        mask = self.values.mask
        return {
            "by": {each.name: each.expression.text for each in self.values.values},
            "mask": None if mask is None else {"band": mask.band, "drop": mask.drop, "bits": mask.bits},
            "bands": dict(self.values.bands),
            "raw": self.values.raw,
            "tolerance_us": self.tolerance_us,
        }


def _box_around(features: Features) -> Box:
    """Return the box around features in longitudes and latitudes; west > east if it crosses 180 degrees."""
    (west, south, east, north), projector = features.box(), RasterioProjector()
    is_beyond = east - west > HALF_TURN or west < -HALF_TURN or east > HALF_TURN
    if is_beyond and projector.counts_degrees(features.crs):
        bounds = features.bounds()
        is_cut = bounds[:, 2] - bounds[:, 0] > HALF_TURN
        if features.geometries is not None and is_cut.any():
            bounds = np.concatenate([bounds[~is_cut], _bounds_of_parts(features.geometries)])
        west, east = short_way_around(bounds[:, 0], bounds[:, 2])
    box = west, south, east, north
    return check_box(projector.bounds(box, source_crs=features.crs, target_crs=LONLAT), field="features")


def _bounds_of_parts(shapes: Shapes) -> Floats:
    """Return the box of each part of those shapes that were cut at 180 degrees, shape (part, 4)."""
    import shapely  # noqa: PLC0415 # points need none of it

    with np.errstate(invalid="ignore"):
        cut = np.flatnonzero(shapes.bounds[:, 2] - shapes.bounds[:, 0] > HALF_TURN)
    found: Floats = shapely.bounds(shapely.get_parts(shapes[cut]))
    return found


def about_of(
    request: TableRequest, kind: TableKind, values: Values, work: ImageWork, numbers: Mapping[str, int]
) -> dict[str, Any]:
    """Return what decides a table, besides the list and the features, as its receipt has it.

    ``numbers`` has the number of the band to read, from 1, by the name of a band whose asset has one.
    """
    numbered = {"band_numbers": dict(numbers)} if numbers else {}
    columns = {"values": [each.name for each in values.values], "columns": list(work.columns)}
    return {**request.to_json(), **kind.about, **numbered, **columns}


def duration_us(text: str) -> int:
    """Return a duration such as ``10d``, ``36h`` or ``16 days`` in microseconds.

    Raises:
        RequestError: It is none.
    """
    found = _DURATION.fullmatch(str(text).strip().lower())
    if found is None:
        raise RequestError(f"{str(text)[:40]!r} is no duration; write 10d or 36h", field="tolerance")
    return round(float(found[1]) * _US[found[2][0]])
