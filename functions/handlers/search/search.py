"""Lambda entry point: which scenes of the deployment's catalog lie in an area, and when.

``GET /area`` answers links and ``GET /scenes`` a few fields of each scene. The other paths are a STAC API, so
pystac-client, QGIS and odc-stac can use a deployment as their catalog. The function reads the catalog and
writes nothing.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlencode

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import Response
from msgspec import Struct

from handlers.api.problems import STAC_KINDS
from handlers.api.resolver import Resolver, api_address, handler_of, read_body
from handlers.deployment.settings import Settings
from handlers.search.open_catalog import FoundScenes, OpenCatalog
from handlers.search.routes import ITEM_SEARCH, ROUTES
from handlers.search.scene_answers import (
    CONFORMANCE,
    GEOJSON,
    JSON,
    NO_COLLECTION,
    collection,
    collections_document,
    item_document,
    item_page,
    landing_page,
    scene_summary,
)
from handlers.search.search_parameters import (
    MOST_EXPANDED,
    MOST_SCENES,
    area_query,
    body_query,
    is_expanded,
    item_search_query,
    parse_limit,
    scenes_query,
)
from pixel_gather.core.errors import SceneNotFoundError
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.scenes.folders import unlisted_folders
from pixel_gather.core.scenes.item import asset_hrefs

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.search.answers import Scenes, StacCollection

_NO_ETAG: Final = '"none"'
_NOT_LISTED: Final = "Pixel-Gather-Not-Listed"
"""Header that says how many folders could not be listed."""


class _Service(Struct, frozen=True):
    """The routes' common part: the request at hand, and the catalog that answers it."""

    app: Resolver
    catalog: OpenCatalog

    @property
    def root(self) -> str:
        """Address that the API's paths begin with."""
        return api_address(self.app.current_event.raw_event)

    @property
    def given(self) -> dict[str, str]:
        """The parameters of the address, without empty ones."""
        given = self.app.current_event.query_string_parameters or {}
        return {name: value for name, value in given.items() if value}

    def items(self, query: SceneQuery, *, most: int) -> FoundScenes:
        """Return scenes as STAC items."""
        root = self.root
        return self.catalog.search(query, most=most, take=lambda item: item_document(root, item))

    def page(self, asked: Mapping[str, Any], *, method: str, path: str, **more: Any) -> Response[str]:
        """Answer one page of a STAC search.

        ``asked`` are the parameters or the body, which the link to the next page repeats; ``more`` is what
        the path says.
        """
        found = self.items(item_search_query({**asked, **more}), most=parse_limit(asked))
        page = item_page(self.root, found.parts, after=found.next, method=method, path=path, asked=asked)
        return answer(page, etag=found.etag, media_type=GEOJSON)

    def collections(self) -> dict[str, "StacCollection"]:
        """Return the document of each collection, by name."""
        root = self.root
        return {
            name: collection(root, name=name, box=each.box, start_us=each.start_us, stop_us=each.stop_us)
            for each in self.catalog.newest().header.extents
            for name in [each.id or NO_COLLECTION]
        }

    def collection(self, name: str) -> "StacCollection":
        """Return the document of one collection.

        Raises:
            SceneNotFoundError: There is none of this name.
        """
        found = self.collections().get(name)
        if found is None:
            raise SceneNotFoundError(f"there is no collection {name}; GET /collections lists them")
        return found

    @property
    def etag(self) -> str:
        """ETag of the catalog."""
        return self.catalog.newest().etag or _NO_ETAG


def answer(
    body: Any, *, etag: str, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Response[str]:
    """Answer JSON, with the ETag of the catalog that it comes from."""
    text = json.dumps(body, separators=(",", ":"))
    return Response(
        status_code=HTTPStatus.OK,
        content_type=media_type,
        body=text,
        headers={"ETag": etag, **(headers or {})},
    )


def app_of(catalog: OpenCatalog, logger: Logger) -> Resolver:
    """Return the routes over one catalog."""
    app = Resolver(ROUTES, logger, kinds=STAC_KINDS)
    service = _Service(app, catalog)
    _add_links(app, service)
    _add_item_search(app, service)
    _add_collections(app, service)
    return app


def _add_links(app: Resolver, service: _Service) -> None:
    @app.serve("getArea")
    def area() -> Response[str]:
        asked = service.given
        query, assets = area_query(asked)
        expand = is_expanded(asked)
        n_unlisted = 0

        def hrefs(item: Mapping[str, Any]) -> list[str]:
            nonlocal n_unlisted
            unlisted = [each["href"] for each in unlisted_folders(item)]
            n_unlisted += len(unlisted)
            links = [href for _, href in asset_hrefs(item, assets)]
            return links + [href for href in unlisted if href not in links]

        most = MOST_EXPANDED if expand else MOST_SCENES
        found = service.catalog.search(query, most=most, take=hrefs, expand=expand)
        headers = {_NOT_LISTED: str(n_unlisted)} if expand else {}
        if found.next is not None:
            following = urlencode({**asked, "token": found.next.to_token()})
            headers["Link"] = f'<{service.root}/area?{following}>; rel="next"'
        links = [href for scene in found.parts for href in scene]
        return answer(links, etag=found.etag, headers=headers)

    @app.serve("getScenes")
    def scenes() -> Response[str]:
        asked = service.given
        query, assets = scenes_query(asked)
        expand, most = is_expanded(asked), parse_limit(asked)
        found = service.catalog.search(
            query,
            most=min(most, MOST_EXPANDED) if expand else most,
            take=lambda item: scene_summary(item, assets),
            expand=expand,
        )
        token = None if found.next is None else found.next.to_token()
        page: Scenes = {"scenes": found.parts, "next": token}
        return answer(page, etag=found.etag)


def _add_item_search(app: Resolver, service: _Service) -> None:
    @app.serve("getItemSearch")
    def by_get() -> Response[str]:
        return service.page(service.given, method="GET", path="/search")

    @app.serve("postItemSearch")
    def by_post() -> Response[str]:
        return service.page(body_query(read_body(app), known=ITEM_SEARCH), method="POST", path="/search")


def _add_collections(app: Resolver, service: _Service) -> None:
    @app.serve("getLandingPage")
    def landing() -> Response[str]:
        page = landing_page(service.root, collections=service.collections())
        return answer(page, etag=service.etag)

    @app.serve("getConformance")
    def conformance() -> Response[str]:
        return answer({"conformsTo": list(CONFORMANCE)}, etag=service.etag)

    @app.serve("getCollections")
    def collections() -> Response[str]:
        document = collections_document(service.root, service.collections().values())
        return answer(document, etag=service.etag)

    @app.serve("getCollection")
    def one_collection(name_: str) -> Response[str]:
        return answer(service.collection(unquote(name_)), etag=service.etag)

    @app.serve("getItems")
    def items(name_: str) -> Response[str]:
        name = unquote(name_)
        service.collection(name)
        path = f"/collections/{quote(name, safe='')}/items"
        return service.page(service.given, method="GET", path=path, collections=[name])

    @app.serve("getItem")
    def one_item(name_: str, item_: str) -> Response[str]:
        name, item = unquote(name_), unquote(item_)
        service.collection(name)
        found = service.items(item_search_query({"collections": [name], "ids": [item]}), most=1)
        if not found.parts:
            raise SceneNotFoundError(f"there is no scene {item} in {name}")
        return answer(found.parts[0], etag=found.etag, media_type=GEOJSON)


logger = Logger()
catalog = OpenCatalog(Settings.from_environment())
app = app_of(catalog, logger)
handler = handler_of(app, logger)
