"""A ranking as one JSON object: the body of ``POST /rankings``, and the file of ``rank --request``. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_fields import check_names, check_one_of
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.sources import Sources
from pixel_gather.features.rank.ranking_request import RANKING_FIELDS, RankingRequest
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_values import assets_of

_IN_CATALOG: Final = {
    *("datetime", "where", "collections", "ids", "most", "duplicates", "duplicates_by", "address")
}
_OUR_OWN: Final = frozenset({"scenes", "sources", "limits", "check_kept"})


class RankingBody(Struct, frozen=True, kw_only=True):
    """What such an object says."""

    request: RankingRequest
    sources: Any
    """As a gather's ``sources``, not checked yet."""

    limits: TableLimits
    checks_kept: bool | None
    """Whether the files of kept statistics are asked for their version first.

    None if the request does not say: they are, but a large ranking that is complete is not begun again.
    """

    @classmethod
    def of(cls, given: Any, *, catalog: str | None = None) -> Self:
        """Check an object.

        Args:
            given: The object.
            catalog: That of scenes which do not name theirs.

        Raises:
            RequestError: It names what is wrong.
        """
        if not isinstance(given, Mapping):
            raise RequestError("it must be an object with at least scenes and by", field="request")
        _check_storable(given)
        check_names(given, _OUR_OWN.union(RANKING_FIELDS))
        check_one_of(given, "scenes", "sources", hint="sources are as in a gather")
        limits = TableLimits.of(given.get("limits"))
        checks_kept = given.get("check_kept")
        if not isinstance(checks_kept, bool | None):
            raise RequestError("it must be true or false", field="check_kept")
        request = RankingRequest.from_json({name: given[name] for name in given if name not in _OUR_OWN})
        sources: Any = _in_area(given.get("sources"), request)
        if "scenes" in given:
            sources = {"catalog": _scenes(given["scenes"], request, catalog)}
        return cls(request=request, sources=sources, limits=limits, checks_kept=checks_kept)


def _check_storable(given: Mapping[str, Any]) -> None:
    """Refuse what is no JSON for Step Functions: NaN, and halves of characters."""
    try:
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestError(f"it cannot be stored as JSON: {error}", field="request") from error


def _in_area(sources: Any, request: RankingRequest) -> Any:
    """Return ``sources``. A search that names no area gets the ranking's: there is no window to search in."""
    if not isinstance(sources, Mapping):
        return sources
    area = {"area": _area_of(request)}
    return {
        name: area | dict(part) if name in ("catalog", "stac") and isinstance(part, Mapping) else part
        for name, part in sources.items()
    }


def _area_of(request: RankingRequest) -> Any:
    """Return where a search looks for the scenes of a ranking."""
    return "all" if request.area is None else list(request.area.box)


def _scenes(given: Any, request: RankingRequest, default: str | None) -> dict[str, Any]:
    """Return ``sources.catalog`` for the scenes of a catalog."""
    if not isinstance(given, Mapping):
        raise RequestError("write {catalog: s3://…, datetime: 2024}", field="scenes")
    check_names(given, {"catalog", "bbox", "cloud_below", *_IN_CATALOG}, within="scenes")
    place = given.get("catalog", default)
    if place is None:
        raise RequestError("there is no other catalog: name one", field="scenes.catalog")
    more = {name: given[name] for name in _IN_CATALOG if name in given}
    if "bbox" in given:
        more["area"] = given["bbox"]
    if "cloud_below" in given:
        if "where" in more:
            raise RequestError("give it in where: eo:cloud_cover<40 and …", field="scenes.cloud_below")
        more["where"] = f"eo:cloud_cover<{given['cloud_below']}"
    found = catalog_sources(request, "catalog", {"file": place, **more}).catalog
    assert found is not None  # noqa: S101 # it was asked for
    return found.model_dump(exclude_defaults=True)


def catalog_sources(request: RankingRequest, kind: str, given: Mapping[str, Any]) -> Sources:
    """Return the sources of a catalog or STAC API.

    ``given`` has the other fields of the request's ``sources.catalog`` or ``sources.stac``.

    Raises:
        RequestError: They are wrong.
    """
    asset_of = dict(request.bands)
    names = list(request.names) or ([] if request.by in ("clear", "cloud") else list(asset_of))
    if request.mask is not None:
        names.append(request.mask.band)
    if not names:
        raise RequestError("say of which asset, such as valid=red", field="bands")
    area: Any = given.get("area")
    if area is None:
        area = _area_of(request)
    return parse_sources({kind: {**given, "area": area, "assets": assets_of(names, asset_of)}})
