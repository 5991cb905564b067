"""The body of a ranking: checked the same for the function that answers at once and for the state machine."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from handlers.settings import Settings
from handlers.steps.planning import admitted
from pixel_gather.errors import RequestError
from pixel_gather.ranking.catalog_sources import catalog_sources
from pixel_gather.ranking.limits import RankLimits
from pixel_gather.ranking.ranking_request import RankingRequest
from pixel_gather.request.request import GatherRequest, parse_request

_IN_CATALOG: Final = {"datetime", "where", "collections", "ids", "most", "duplicates", "address"}
_OUR_OWN: Final = frozenset({"scenes", "sources", "limits", "check_kept"})
_DIGEST_LETTERS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A ranking that this deployment may do."""

    request: RankingRequest
    gather: GatherRequest
    """Only its sources and its limit of files are used."""

    limits: RankLimits
    """The dollars are no more than the deployment's."""

    checks_kept: bool
    """Whether the files of kept statistics are asked for their version first."""


def parsed(given: Any, settings: Settings) -> Asked:
    """Check a request's body.

    Raises:
        RequestError: It names what is wrong.
    """
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with at least scenes and by", field="request")
    _check_storable(given)
    limits = RankLimits.of(given.get("limits"))
    checks_kept = given.get("check_kept", False)
    if not isinstance(checks_kept, bool):
        raise RequestError("it must be true or false", field="check_kept")
    if len({"scenes", "sources"} & given.keys()) != 1:
        raise RequestError("give scenes, or sources as in a gather", field="scenes")
    request = RankingRequest.from_json({name: given[name] for name in given if name not in _OUR_OWN})
    sources: Any = given.get("sources")
    if "scenes" in given:
        sources = {"catalog": _scenes(given["scenes"], request, settings)}
    gather = admitted(parse_request({"sources": sources, "window": "centre"}), settings)
    if gather.sources.are_searched:
        request = replace(request, bands=())  # the assets were chosen by these names
    highest = gather.limits.usd
    if highest is not None:
        limits = replace(limits, usd=min(limits.usd or highest, highest))
    return Asked(request=request, gather=gather, limits=limits, checks_kept=checks_kept)


def ranking_name(given: Mapping[str, Any], list_digest: str, *, salt: str = "") -> str:
    """Return the name of a ranking: equal for the same request of the same list.

    Args:
        given: The request's body.
        list_digest: Of the list of scenes; empty if it could not be read in time.
        salt: Makes a name of its own.
    """
    content = json.dumps([given, list_digest, salt], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LETTERS]


def _check_storable(given: Mapping[str, Any]) -> None:
    """Refuse what is no JSON for Step Functions: NaN, and halves of characters."""
    try:
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestError(f"it cannot be stored as JSON: {error}", field="request") from error


def _scenes(given: Any, request: RankingRequest, settings: Settings) -> dict[str, Any]:
    """Return ``sources.catalog`` for the scenes of a catalog."""
    if not isinstance(given, Mapping):
        raise RequestError("write {catalog: s3://…, datetime: 2024}", field="scenes")
    if unknown := given.keys() - {"catalog", "bbox", "cloud_below", *_IN_CATALOG}:
        raise RequestError(
            f"there is no such field; it takes catalog, bbox, cloud_below, {', '.join(sorted(_IN_CATALOG))}",
            field=f"scenes.{min(unknown, key=str)}",
        )
    place = given.get("catalog", settings.catalog)
    if place is None:
        raise RequestError("this deployment has no catalog; name one", field="scenes.catalog")
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
