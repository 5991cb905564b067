"""The sources of a ranking of a catalog's scenes: the assets that it needs, in its area. Pure."""

from collections.abc import Mapping
from typing import Any

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.sources import Sources
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.tables.values import asset_sources


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
        area = "all" if request.area is None else list(request.area.box)
    return asset_sources(names, asset_of, kind, {**given, "area": area})
