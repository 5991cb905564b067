"""Lambda entry point: which scenes of the deployment's catalog lie in an area, and when.

``GET /area`` answers links, ``GET /scenes`` a few fields of each scene, and the other paths are a STAC API,
so that pystac-client, QGIS and odc-stac take a deployment as their catalog. It reads the catalog and writes
nothing.
"""

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.api.api import address, answered, body_of, resolver
from handlers.api.scene_answers import (
    CONFORMANCE,
    GEOJSON,
    LARGEST_ANSWER_NBYTES,
    collection,
    collections_document,
    item_document,
    item_page,
    landing_page,
    nbytes_of,
    scene_summary,
)
from handlers.api.search_parameters import (
    MOST_SCENES,
    area_query,
    item_search_query,
    limit_of,
    scenes_query,
)
from handlers.settings import Settings
from pixel_gather.adapters.catalog.catalog_search import Catalog, open_catalog
from pixel_gather.adapters.event_loop import open_runner
from pixel_gather.adapters.object_store.object_store import StoreSettings, open_place
from pixel_gather.catalog.item import asset_hrefs
from pixel_gather.catalog.query import Position, SceneQuery
from pixel_gather.errors import RequestError, SceneNotFoundError

_LOOK_AGAIN_S: Final = 30.0
"""A warm function notices a new version of the catalog after so long."""


class OpenCatalog:
    """The newest version of the deployment's catalog, opened again from time to time."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._clock = clock
        self._runner = open_runner()
        self._catalog: Catalog | None = None
        self._opened_at = 0.0

    def newest(self) -> Catalog:
        """Return the catalog.

        Raises:
            RequestError: The deployment has none.
            StoreError: It cannot be read.
        """
        now = self._clock()
        if self._catalog is None or now - self._opened_at > _LOOK_AGAIN_S:
            self._catalog = self._runner.run(self._open())
            self._opened_at = now
        return self._catalog

    def collect(
        self, query: SceneQuery, *, most: int, take: Callable[[Mapping[str, Any]], Any]
    ) -> tuple[list[Any], Position | None]:
        """Return what is taken of each scene, until there are enough or the answer is large enough.

        Args:
            query: What is looked for.
            most: Most scenes.
            take: Returns what a scene adds to the answer, which counts in bytes.
        """
        return self._runner.run(_collected(self.newest(), query, most, take))

    async def _open(self) -> Catalog:
        href = self._settings.catalog
        if href is None:
            raise RequestError(
                "this deployment has no catalog; its setting `catalog` names one", field="catalog"
            )
        folder, _, key = href.rpartition("/")
        return await open_catalog(open_place(folder, StoreSettings(endpoint=self._settings.endpoint)), key)


async def _collected(
    catalog: Catalog, query: SceneQuery, most: int, take: Callable[[Mapping[str, Any]], Any]
) -> tuple[list[Any], Position | None]:
    found: list[Any] = []
    nbytes = 0
    last: Position | None = None
    async for position, item in catalog.scenes(query, n_expected=most + 1):
        taken = take(item)
        nbytes += nbytes_of(taken)
        if len(found) == most or (found and nbytes > LARGEST_ANSWER_NBYTES):
            return found, last
        found.append(taken)
        last = position
    return found, None


def app_of(opened: OpenCatalog, logger: Logger) -> APIGatewayRestResolver:
    """Return the routes over one catalog."""
    app = resolver(logger)

    def root() -> str:
        return address(app.current_event.raw_event)

    def given() -> dict[str, str]:
        return {
            name: value for name, value in (app.current_event.query_string_parameters or {}).items() if value
        }

    def answer(body: Any, *, media_type: str = "application/json", link: str | None = None) -> Response[str]:
        headers = {"ETag": opened.newest().etag or '"none"'}
        if link is not None:
            headers["Link"] = link
        text = json.dumps(body, separators=(",", ":"))
        return Response(status_code=HTTPStatus.OK, content_type=media_type, body=text, headers=headers)

    @app.get("/area")
    def area() -> Response[str]:
        asked = given()
        query, assets = area_query(asked)
        scenes, after = opened.collect(
            query, most=MOST_SCENES, take=lambda item: [href for _, href in asset_hrefs(item, assets)]
        )
        token = None if after is None else after.to_token()
        link = None if token is None else f'<{root()}/area?{_with(asked, token=token)}>; rel="next"'
        return answer([href for hrefs in scenes for href in hrefs], link=link)

    @app.get("/scenes")
    def scenes() -> Response[str]:
        asked = given()
        query, assets = scenes_query(asked)
        found, after = opened.collect(
            query, most=limit_of(asked), take=lambda item: scene_summary(item, assets)
        )
        return answer({"scenes": found, "next": None if after is None else after.to_token()})

    @app.get("/search")
    def search_by_get() -> Response[str]:
        return page(given(), "GET", "/search")

    @app.post("/search")
    def search_by_post() -> Response[str]:
        body = body_of(app)
        if not isinstance(body, Mapping):
            raise RequestError("write a JSON object", field="body")
        return page(body, "POST", "/search")

    def page(asked: Mapping[str, Any], method: str, path: str) -> Response[str]:
        query = item_search_query(asked)
        found, after = opened.collect(
            query, most=limit_of(asked), take=lambda item: item_document(root(), item)
        )
        body = item_page(root(), found, after=after, method=method, path=path, asked=asked)
        return answer(body, media_type=GEOJSON)

    @app.get("/")
    def landing() -> Response[str]:
        return answer(
            landing_page(root(), title="Pixel Gather", collections=opened.newest().header.collections)
        )

    @app.get("/conformance")
    def conformance() -> Response[str]:
        return answer({"conformsTo": list(CONFORMANCE)})

    def documents() -> dict[str, dict[str, Any]]:
        return {
            each.id or "none": collection(
                root(), name=each.id or "none", box=each.box, start_us=each.start_us, stop_us=each.stop_us
            )
            for each in opened.newest().header.extents
        }

    def document(name: str) -> dict[str, Any]:
        if name not in (found := documents()):
            raise SceneNotFoundError(f"there is no collection {name}")
        return found[name]

    @app.get("/collections")
    def collections() -> Response[str]:
        return answer(collections_document(root(), documents().values()))

    @app.get("/collections/<name>")
    def one_collection(name: str) -> Response[str]:
        return answer(document(name))

    @app.get("/collections/<name>/items")
    def items(name: str) -> Response[str]:
        document(name)
        asked = given()
        query = item_search_query({**asked, "collections": name})
        found, after = opened.collect(
            query, most=limit_of(asked), take=lambda item: item_document(root(), item)
        )
        path = f"/collections/{name}/items"
        return answer(
            item_page(root(), found, after=after, method="GET", path=path, asked=asked), media_type=GEOJSON
        )

    @app.get("/collections/<name>/items/<item_id>")
    def one_item(name: str, item_id: str) -> Response[str]:
        document(name)
        query = item_search_query({"collections": name, "ids": item_id})
        found, _ = opened.collect(query, most=1, take=lambda item: item_document(root(), item))
        if not found:
            raise SceneNotFoundError(f"there is no scene {item_id} in {name}")
        return answer(found[0], media_type=GEOJSON)

    return app


def _with(asked: Mapping[str, str], *, token: str) -> str:
    from urllib.parse import urlencode  # noqa: PLC0415 # only long answers have a next page

    return urlencode({**asked, "token": token})


logger = Logger()
app = app_of(OpenCatalog(Settings.from_environment()), logger)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return answered(app, logger, event, context)
