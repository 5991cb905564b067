"""Lambda entry point: POST /rankings ranks scenes, where one function can do it while the caller waits."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.problems import TooSlowError
from handlers.api.resolver import answered, body_of, resolver
from handlers.settings import Settings
from handlers.steps.planning import admitted, opened_table
from handlers.wiring import Deployment
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.rank.kept_ranges import KeptRanges
from pixel_gather.adapters.rank.ranker import ranker_of
from pixel_gather.adapters.source_reader import CogReader
from pixel_gather.errors import BudgetError, RequestError
from pixel_gather.ranking.catalog_sources import catalog_sources
from pixel_gather.ranking.forecast import Forecast
from pixel_gather.ranking.ranking_request import RankingRequest
from pixel_gather.ranking.rounds import NothingKept, RankedScene
from pixel_gather.ranking.scenes import scenes_of
from pixel_gather.ranking.table import Ranking
from pixel_gather.request.request import GatherRequest, parse_request

_TO_ANSWER_S: Final = 3.0
_LONGEST_S: Final = 20.0
"""A ranking that would take longer is refused after its first scene."""

_MOST_ROWS: Final = 5_000
"""Of one answer, which Lambda holds to 6 MB."""

_INSTEAD: Final = (
    "rank fewer scenes or a smaller area, say precision: coarse, or run pixel-gather rank on a machine in "
    "the Region of the data"
)
_IN_CATALOG: Final = {"datetime", "where", "collections", "ids", "most", "duplicates", "address"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    request: RankingRequest
    gather: GatherRequest
    """Only its sources and limits are used."""

    seconds: float
    usd: float | None


@dataclass(frozen=True, slots=True)
class RankService:
    """Ranks scenes of one deployment."""

    deployment: Deployment

    async def rank(self, given: Any, *, left_s: float) -> dict[str, Any]:
        """Rank scenes.

        Raises:
            RequestError: The request is wrong.
            BudgetError: It would take too long or cost too much.
            TooSlowError: It took too long.
        """
        asked = parsed(given, self.deployment.settings)
        started = asyncio.get_running_loop().time()
        ranges = KeptRanges(self.deployment.signed_objects(asked.gather.sources.sign))
        settings = GdalSettings.within_memory(self.deployment.settings.memory_mib, holds_a_shard=False)
        reader = CogReader.over(ranges, fast=GeoTiffSettings(), fall_back=settings)
        try:
            async with (
                asyncio.timeout(left_s),
                opened_table(asked.gather, self.deployment, left_s=left_s) as table,
                reader,
            ):
                scenes = scenes_of(table, asked.request)
                if len(scenes) > _MOST_ROWS:
                    raise BudgetError(
                        f"there are {len(scenes):,} scenes, and an answer holds {_MOST_ROWS:,}: {_INSTEAD}"
                    )
                guard = _Guard(asked, len(scenes), self.deployment.settings.concurrency)
                ranker = ranker_of(
                    asked.request,
                    reader=reader,
                    limiter=self.deployment.limiter,
                    ranges=ranges,
                    kept=NothingKept(),
                    source_timeout_s=left_s,
                    most_ahead=2 * self.deployment.settings.concurrency,
                    on_scene=guard.check,
                )
                ranked = await ranker.rank(scenes)
        except TimeoutError as error:
            raise TooSlowError(f"it was not done in {left_s:.0f} s: {_INSTEAD}") from error
        seconds = asyncio.get_running_loop().time() - started
        found = Ranking(request=asked.request, scenes=tuple(ranked), seconds=seconds, notes=table.notes)
        return found.to_json()


@dataclass(slots=True)
class _Guard:
    """Refuses a ranking after its first scene if all of them would take too long."""

    asked: _Asked
    n_scenes: int
    in_flight: int
    is_checked: bool = False

    def check(self, first: RankedScene) -> None:
        """Check the forecast once, by the first scene that could be read."""
        if self.is_checked or first.measured is None:
            return
        self.is_checked = True
        forecast = Forecast.of(first.cost, n_scenes=self.n_scenes, in_flight=self.in_flight)
        if forecast.seconds > self.asked.seconds:
            raise BudgetError(
                f"limits.seconds: {self.n_scenes:,} scenes would take about {forecast.seconds:.0f} s, over "
                f"the {self.asked.seconds:g} s of one answer: {_INSTEAD}"
            )
        if self.asked.usd is not None and forecast.usd > self.asked.usd:
            raise BudgetError(
                f"limits.usd: {self.n_scenes:,} scenes would cost about ${forecast.usd:.4f}, over the limit "
                f"of ${self.asked.usd:g}: rank fewer scenes, or raise the limit"
            )


def parsed(given: Any, settings: Settings) -> _Asked:
    """Check a request's body.

    Raises:
        RequestError: It names what is wrong.
    """
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with at least scenes and by", field="request")
    limits = given.get("limits") or {}
    if not isinstance(limits, Mapping) or limits.keys() - {"usd", "seconds"}:
        raise RequestError("it takes usd and seconds", field="limits")
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise RequestError(f"it is {value!r}; write a number above 0", field=f"limits.{name}")
    places = {"scenes", "sources"} & given.keys()
    if len(places) != 1:
        raise RequestError("give scenes, or sources as in a gather", field="scenes")
    rest = {name: value for name, value in given.items() if name not in ("scenes", "sources", "limits")}
    request = RankingRequest.from_json(rest)
    if "sources" in given:
        sources: Any = given["sources"]
    else:
        sources = {"catalog": _scenes(given["scenes"], request, settings)}
        request = replace(request, bands=())  # the assets were chosen by these names
    gather = admitted(parse_request({"sources": sources, "window": "centre"}), settings)
    return _Asked(
        request=request,
        gather=gather,
        seconds=min(limits.get("seconds", _LONGEST_S), _LONGEST_S),
        usd=limits.get("usd"),
    )


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


def app_of(service: RankService, logger: Logger) -> APIGatewayRestResolver:
    """Return the route over one deployment."""
    app = resolver(logger)

    @app.post("/rankings")
    def rank() -> dict[str, Any]:
        left_s = app.lambda_context.get_remaining_time_in_millis() / 1000 - _TO_ANSWER_S
        return service.deployment.run(service.rank(body_of(app), left_s=left_s))

    return app


logger = Logger()
deployment = Deployment(Settings.from_environment())
app = app_of(RankService(deployment), logger)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(app, logger, event, context)
