"""Answers as a STAC API. Clients such as pystac-client, QGIS and odc-stac can search the catalog by it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from aws_lambda_powertools.event_handler import Response
from msgspec import Struct

from handlers.api.resolver import Resolver, answer_json, read_body
from handlers.search.open_catalog import FoundScenes, OpenCatalog
from handlers.search.routes import ITEM_SEARCH
from handlers.search.scene_answers import (
    CONFORMANCE,
    GEOJSON,
    NO_COLLECTION,
    collection,
    collections_document,
    item_document,
    item_page,
    landing_page,
)
from handlers.search.search_parameters import body_query, item_search_query, parse_limit
from pixel_gather.core.errors import SceneNotFoundError
from pixel_gather.core.scenes.catalog_query import SceneQuery

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.search.answers import StacCollection

_NO_ETAG: Final = '"none"'


class _Service(Struct, frozen=True):
    """What all routes use: the app that has the present request, and the catalog."""

    app: Resolver
    catalog: OpenCatalog

    def items(self, query: SceneQuery, *, most: int) -> FoundScenes:
        """Return the scenes of a query as STAC items, ``most`` of them or fewer."""
        root = self.app.address
        return self.catalog.search(query, most=most, take=lambda item: item_document(root, item))

    def page(self, asked: Mapping[str, Any], *, method: str, path: str, **more: Any) -> Response[str]:
        """Answer one page of a STAC search.

        ``asked`` are the parameters or the body of the request. The link to the next page repeats them.
        ``more`` are the parameters that the path says.
        """
        found = self.items(item_search_query({**asked, **more}), most=parse_limit(asked))
        page = item_page(
            self.app.address, found.parts, after=found.next, method=method, path=path, asked=asked
        )
        return answer_json(page, etag=found.etag, media_type=GEOJSON)

    def collections(self) -> dict[str, "StacCollection"]:
        """Return the document of each collection, by name."""
        root = self.app.address
        return {
            name: collection(root, name=name, box=each.box, start_us=each.start_us, stop_us=each.stop_us)
            for each in self.catalog.newest().header.extents
            for name in [each.id or NO_COLLECTION]
        }

    def collection(self, name: str) -> "StacCollection":
        """Return the document of one collection."""
        found = self.collections().get(name)
        if found is None:
            raise SceneNotFoundError(f"there is no collection {name}; GET /collections lists them")
        return found

    def answer(self, document: Any) -> Response[str]:
        """Answer a document, with the ETag of the catalog."""
        return answer_json(document, etag=self.catalog.newest().etag or _NO_ETAG)


def add_stac_api(app: Resolver, catalog: OpenCatalog) -> None:
    """Answer the routes of a STAC API from a catalog."""
    service = _Service(app, catalog)
    _add_item_search(app, service)
    _add_collections(app, service)


def _add_item_search(app: Resolver, service: _Service) -> None:
    @app.serve("getItemSearch")
    def by_get() -> Response[str]:
        return service.page(app.given, method="GET", path="/search")

    @app.serve("postItemSearch")
    def by_post() -> Response[str]:
        return service.page(body_query(read_body(app), known=ITEM_SEARCH), method="POST", path="/search")


def _add_collections(app: Resolver, service: _Service) -> None:
    @app.serve("getLandingPage")
    def landing() -> Response[str]:
        return service.answer(landing_page(app.address, collections=service.collections()))

    @app.serve("getConformance")
    def conformance() -> Response[str]:
        return service.answer({"conformsTo": list(CONFORMANCE)})

    @app.serve("getCollections")
    def collections() -> Response[str]:
        return service.answer(collections_document(app.address, service.collections().values()))

    @app.serve("getCollection")
    def one_collection(name_: str) -> Response[str]:
        return service.answer(service.collection(unquote(name_)))

    @app.serve("getItems")
    def items(name_: str) -> Response[str]:
        name = unquote(name_)
        service.collection(name)
        path = f"/collections/{quote(name, safe='')}/items"
        return service.page(app.given, method="GET", path=path, collections=[name])

    @app.serve("getItem")
    def one_item(name_: str, item_: str) -> Response[str]:
        name, item = unquote(name_), unquote(item_)
        service.collection(name)
        found = service.items(item_search_query({"collections": [name], "ids": [item]}), most=1)
        if not found.parts:
            raise SceneNotFoundError(f"there is no scene {item} in {name}")
        return answer_json(found.parts[0], etag=found.etag, media_type=GEOJSON)
