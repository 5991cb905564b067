"""The body of a ranking: checked the same for the function that answers at once and for the state machine."""

import hashlib
import json
from collections.abc import Mapping
from copy import replace
from typing import Any, Final

from msgspec import Struct

from handlers.deployment.admit_request import admit
from handlers.deployment.settings import Settings
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.stores import ControlStore, decode_json, needed_file
from pixel_gather.features.rank.ranking_body import RankingBody
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.tables.table_limits import TableLimits

REQUEST_KEY: Final = "request.json"
"""Key of a large ranking's request, among its control files."""

_DIGEST_LETTERS: Final = 32


class AdmittedRanking(Struct, frozen=True, kw_only=True):
    """A ranking that this deployment may do."""

    request: RankingRequest
    gather: GatherRequest
    """Only its sources and its limit of files are used."""

    limits: TableLimits
    """The dollars are no more than the deployment's."""

    checks_kept: bool | None
    """Whether the files of kept statistics are asked for their version first."""


def admit_ranking(given: Any, settings: Settings) -> AdmittedRanking:
    """Check a request's body."""
    body = RankingBody.of(given, catalog=settings.catalog)
    request, limits = body.request, body.limits
    gather = admit(parse_request({"sources": body.sources, "window": "centre"}), settings)
    request = request.for_sources(gather.sources)
    highest = gather.limits.usd
    if highest is not None:
        limits = replace(limits, usd=min(limits.usd or highest, highest))
    return AdmittedRanking(request=request, gather=gather, limits=limits, checks_kept=body.checks_kept)


async def noted_request(files: ControlStore, settings: Settings) -> AdmittedRanking:
    """Return the request of a large ranking from its control files."""
    content = await needed_file(files, REQUEST_KEY)
    return admit_ranking(decode_json(content, dict[str, Any], key=REQUEST_KEY), settings)


def ranking_name(given: Mapping[str, Any], list_digest: str, *, salt: str = "") -> str:
    """Return the name of a ranking: equal for the same request of the same list.

    A list that could not be read in time has `unread_list` as its digest. A salt makes a name of its own.
    """
    content = json.dumps([given, list_digest, salt], sort_keys=True, ensure_ascii=False)
    return f"ranking-{hashlib.sha256(content.encode(errors='surrogatepass')).hexdigest()[:_DIGEST_LETTERS]}"
