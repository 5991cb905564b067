"""What scenes are ranked by, where, and how precisely: checked once. Pure."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from copy import replace
from typing import Any, Final, Literal

from msgspec import Struct

from pixel_gather.core.area import Area, check_box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.core.request.given_fields import check_names
from pixel_gather.core.request.sources import Sources
from pixel_gather.core.scenes.scene_sources import asset_choices
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression
from pixel_gather.tables.spectral_indexes import EXPRESSIONS, SHARES
from pixel_gather.tables.table_values import named_bands

DEFAULT_PRECISION: Final = "2%"
"""Of the spread of the scenes' values."""

_MEAN: Final = Statistic("mean")
_STEPS: Final = range(2, 101)
_NAMED: Final = re.compile(r"\w+\s*=")
"""What a value of a table may begin with."""

RANKING_FIELDS: Final = ("area", "by", "mask", "statistic", "precision", "order", "top", "bands", "raw")
"""Those of a ranking's body, but for its scenes and limits."""


class Precision(Struct, frozen=True, kw_only=True):
    """How far each scene is read."""

    kind: Literal["bound", "coarse", "exact", "every"]
    bound: float = 0.0
    """``bound``: a scene is read on until its standard error is at most this, or its rank is decided."""

    is_relative: bool = False
    """Whether the bound is a share of the spread of the scenes' values."""

    step: int = 1
    """``every``: every so many pixels across and down. All of the area's bytes are read."""

    @classmethod
    def of(cls, given: object) -> "Precision":
        """Check a number, a share such as ``2%``, ``coarse``, ``exact`` or ``every:5``.

        Raises:
            RequestError: It is none of them.
        """
        if isinstance(given, Mapping) and given.keys() == {"every"}:
            given = f"every:{given['every']}"
        text = str(given).strip()
        if text == "coarse":
            return cls(kind="coarse")
        if text == "exact":
            return cls(kind="exact")
        name, _, number = text.partition(":")
        if name == "every" and number.strip() in {str(step) for step in _STEPS}:
            return cls(kind="every", step=int(number))
        is_relative = text.endswith("%")
        try:
            bound = math.nan if isinstance(given, bool) else float(text.removesuffix("%"))
        except ValueError:
            bound = math.nan
        if not 0 <= bound < math.inf:
            raise RequestError(
                f"it is {text[:60]!r}; write coarse, exact, every:5 (2 to 100), or the largest standard "
                "error, such as 0.01, or 2% of the spread of all values",
                field="precision",
            )
        return cls(kind="bound", bound=bound / 100 if is_relative else bound, is_relative=is_relative)


_DEFAULT: Final = Precision.of(DEFAULT_PRECISION)


class RankingRequest(Struct, frozen=True, kw_only=True):
    """One ranking, as it came from outside and was checked."""

    by: str
    """As it was given: a name or an expression."""

    expression: Expression | None
    """None for the shares of `pixel_gather.tables.spectral_indexes.SHARES`."""

    area: Area | None = None
    """None for the whole of each scene."""

    mask: PixelMask | None = None
    statistic: Statistic = _MEAN
    precision: Precision = _DEFAULT
    order: Literal["asc", "desc"] = "desc"
    top: int | None = None
    """How many scenes from the first have to be in their place; None for all."""

    bands: tuple[tuple[str, str], ...] = ()
    """(name in the expression, band of the list or asset of the catalog)."""

    raw: bool = False
    """Whether scale and offset are left out."""

    @classmethod
    def of(  # noqa: PLR0913 # as `rank`
        cls,
        *,
        by: str,
        bbox: Sequence[float] | None = None,
        geojson: Mapping[str, Any] | None = None,
        mask: Mapping[str, Any] | None = None,
        statistic: str = "mean",
        precision: object = DEFAULT_PRECISION,
        order: str = "desc",
        top: int | None = None,
        bands: Mapping[str, str] | None = None,
        raw: bool = False,
    ) -> "RankingRequest":
        """Check what is ranked.

        Raises:
            RequestError: It names what is wrong.
        """
        if not isinstance(by, str) or not by.strip():
            raise RequestError("write what to rank by, such as ndvi or (nir - red) / (nir + red)", field="by")
        by = by.strip()
        if named := _NAMED.match(by):
            raise RequestError(
                f"a ranking is by one expression, which needs no name: leave {named[0].strip()!r} out",
                field="by",
            )
        if order not in ("asc", "desc"):
            raise RequestError(f"it is {order!r}; write asc or desc", field="order")
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            raise RequestError(f"it is {top!r}; write a number of scenes above 0", field="top")
        expression = None if by in SHARES else Expression.parse(EXPRESSIONS.get(by, by))
        given_bands = named_bands(bands)
        _refuse_shares(expression, dict(given_bands))
        checked_mask = None if mask is None else PixelMask.of(mask)
        parsed = Statistic.parse(str(statistic))
        if by in SHARES:
            if by != "valid" and checked_mask is None:
                raise RequestError(f"{by} needs a mask, such as scl:0,1,3,8,9,10", field="mask")
            if parsed.kind != "mean":
                raise RequestError(f"{by} is a share already; leave the statistic out", field="statistic")
        return cls(
            by=by,
            expression=expression,
            area=_area(bbox, geojson),
            mask=checked_mask,
            statistic=parsed,
            precision=Precision.of(precision),
            order="asc" if order == "asc" else "desc",
            top=top,
            bands=given_bands,
            raw=bool(raw),
        )

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "RankingRequest":
        """Check the fields of a request's body, all but its scenes.

        Raises:
            RequestError: It names what is wrong.
        """
        check_names(given, RANKING_FIELDS)
        area = given.get("area") or {}
        if area == "scene":
            area = {}
        if not isinstance(area, Mapping) or area.keys() - {"bbox", "geojson"}:
            raise RequestError("write {bbox: [W, S, E, N]}, {geojson: …} or scene", field="area")
        statistic = given.get("statistic", "mean")
        if isinstance(statistic, Mapping) and len(statistic) == 1:
            ((name, value),) = statistic.items()
            statistic = f"{name}:{value}"
        more = {
            name: given[name]
            for name in ("by", "mask", "precision", "order", "top", "bands", "raw")
            if name in given
        }
        if "by" not in more:
            raise RequestError("write what to rank by, such as ndvi", field="by")
        if not isinstance(more.get("raw", False), bool):
            raise RequestError("it must be true or false", field="raw")
        return cls.of(**more, statistic=str(statistic), bbox=area.get("bbox"), geojson=area.get("geojson"))

    def for_sources(self, sources: Sources) -> "RankingRequest":
        """Return the request without the entries of ``bands`` that are assets of the search.

        The search already calls these assets by the names of the request.
        """
        if sources.searched is None:
            return self
        chosen = asset_choices(sources.searched.assets)
        left = (each for each in self.bands if asset_choices(dict([each]))[0] not in chosen)
        return replace(self, bands=tuple(left))

    @property
    def reads_on(self) -> bool:
        """Whether scenes whose rank is open are read at finer levels."""
        return self.precision.kind == "bound"

    @property
    def names(self) -> tuple[str, ...]:
        """The bands that its values are computed from, by their names in the expression."""
        return () if self.expression is None else self.expression.names

    def inputs_digest(self) -> str:
        """Return a digest of all that a scene's statistic depends on, but for the scene and the level."""
        area = None if self.area is None else [self.area.box, self.area.geometry and self.area.geometry.wkt]
        mask = None if self.mask is None else [self.mask.drop, self.mask.bits]
        made_of = [
            3,
            self.by if self.expression is None else self.expression.text,
            area,
            mask,
            [self.statistic.kind, self.statistic.at],
            self.raw,
        ]
        return hashlib.sha256(json.dumps(made_of, default=str).encode()).hexdigest()[:32]


def _refuse_shares(expression: Expression | None, bands: Mapping[str, str]) -> None:
    """Refuse a share of the area beside other values, unless the request says that it is a band."""
    for name in () if expression is None else expression.names:
        if name in SHARES and name not in bands:
            raise RequestError(
                f"{name} is a share of the whole area, not a value of each pixel. Rank by {name} alone. "
                f"If it is a band, say which one, such as bands: {{{name}: b1}}",
                field="by",
            )


def _area(bbox: Sequence[float] | None, geojson: Mapping[str, Any] | None) -> Area | None:
    if bbox is not None and geojson is not None:
        raise RequestError("give bbox or geojson, not both", field="area")
    if bbox is not None:
        box = check_box(bbox, field="area.bbox")
        west, south, east, north = box
        if west == east or south >= north or (west, east) == (180, -180):
            raise RequestError(
                "it has no width or no height; write west, south, east, north", field="area.bbox"
            )
        return Area(box)
    if geojson is None:
        return None
    area = Area.of_geojson(geojson, field="area.geojson")
    if area.shape.area == 0:
        raise RequestError("draw a polygon: a point or a line has no area", field="area.geojson")
    return area
