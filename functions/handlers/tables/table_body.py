"""The body of a table of points or zones: checked the same for the API, for the plan and for workers."""

import json
from collections.abc import Callable, Mapping
from copy import replace
from typing import Any, Final

from msgspec import Struct

from handlers.deployment.admit_request import admit
from handlers.deployment.policy import check_list, check_sources
from handlers.deployment.settings import Settings
from handlers.tables.committed_tables import table_name
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_fields import check_names, check_one_of
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather.tables.features import Features
from pixel_gather.tables.image_work import TableKind
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_request import TableRequest

_COMMON: Final = frozenset(
    {"sources", "id", "crs", "time", "tolerance", "by", "mask", "bands", "raw", "limits"}
)
_APPEND_TO: Final = "append_to"


class _KindOfBody(Struct, frozen=True):
    """How a body says what one kind of table computes."""

    own: frozenset[str]
    """Fields that only this kind has; those of `TableRequest` are not among them."""

    shared: frozenset[str]
    """Fields of `TableRequest` that this kind has besides the common ones."""

    make: Callable[..., TableKind]


def _points(*, method: str = "nearest", square: int = 1) -> TableKind:
    return PointTable(Method.of(method, square))


KINDS: Final[Mapping[str, _KindOfBody]] = {
    "points": _KindOfBody(frozenset({"method", "square"}), frozenset({"x", "y"}), _points),
    "zones": _KindOfBody(frozenset({"statistics", "coverage", "merge"}), frozenset(), ZoneTable.of),
}
"""The kinds by the field of a body that names the features."""


def kind_of_receipt(request: Mapping[str, Any]) -> TableKind:
    """Return the kind of a table by what its receipt says was asked. What it does not say is off."""
    kind = KINDS[request["kind"]]
    off = {"merge": False} if "merge" in kind.own else {}
    return kind.make(**off | {name: request[name] for name in kind.own if name in request})


class AdmittedTable(Struct, frozen=True, kw_only=True):
    """A table that this deployment may make."""

    kind: TableKind
    request: TableRequest
    """Its features are an href, or GeoJSON."""

    limits: TableLimits
    """The dollars are no more than the deployment's."""

    append_to: str | None = None
    """Name of the table that it is appended to. It is made if it is not there."""

    def gather(self, features: Features, settings: Settings) -> GatherRequest:
        """Return what reads the list. Only its sources and its limit of files are used."""
        near = self.request.sources_near(features)
        check_sources(near, settings)  # before rows become their number
        sources = near.model_dump(mode="json", exclude_defaults=True)
        return admit(parse_request({"sources": sources, "window": "centre"}), settings)


def admit_table(given: Any, settings: Settings) -> AdmittedTable:
    """Check a request's body. The list is checked later: a search needs the features."""
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with points or zones, and sources", field="request")
    try:
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestError(f"it cannot be stored as JSON: {error}", field="request") from error
    check_one_of(given, *KINDS, hint="a file of features, or GeoJSON")
    name = next(each for each in KINDS if each in given)
    kind = KINDS[name]
    check_names(given, {name, _APPEND_TO} | _COMMON | kind.own | kind.shared)
    if "sources" not in given:
        raise RequestError("say which images: as in a gather", field="sources")
    features = given[name]
    if isinstance(features, str):
        features = check_list(features, settings, field=name)
    elif not isinstance(features, Mapping):
        raise RequestError("write the address of a file, or GeoJSON", field=name)
    shared = {each: given[each] for each in given if each in _COMMON | kind.shared}
    own = {each: given[each] for each in given if each in kind.own}
    try:
        request = TableRequest.of(**{**shared, "features": features, "sources": _sources(given, settings)})
        made = kind.make(**own)
    except (TypeError, AttributeError) as error:  # a number where a text belongs
        raise RequestError(f"a field has a value of the wrong kind: {error}", field="request") from error
    limits, highest = request.limits, settings.limits.get("usd")
    if highest is not None:
        limits = replace(limits, usd=min(limits.usd or highest, highest))
    append_to = given.get(_APPEND_TO)
    named = None if append_to is None else table_name(append_to, name)
    return AdmittedTable(kind=made, request=request, limits=limits, append_to=named)


def _sources(given: Mapping[str, Any], settings: Settings) -> Any:
    """Return the sources. A search of a catalog without a file searches the deployment's."""
    sources = given["sources"]
    catalog = sources.get("catalog") if isinstance(sources, Mapping) else None
    if isinstance(catalog, Mapping) and settings.catalog is not None:
        return {**sources, "catalog": {"file": settings.catalog, **catalog}}
    return sources
