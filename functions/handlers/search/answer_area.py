"""Answers ``GET /area`` with links of images in an area, ``GET /scenes`` with a few fields of each scene."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.event_handler import Response

from handlers.api.resolver import Resolver, answer_json
from handlers.search.open_catalog import OpenCatalog
from handlers.search.scene_answers import query_text, scene_summary
from handlers.search.search_parameters import (
    MOST_EXPANDED,
    MOST_SCENES,
    area_query,
    is_expanded,
    parse_limit,
    scenes_query,
)
from pixel_gather.core.scenes.folders import unlisted_folders
from pixel_gather.core.scenes.item import asset_hrefs

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.search.answers import Scenes

_NOT_LISTED: Final = "Pixel-Gather-Not-Listed"
"""Header that says how many folders could not be listed."""


def add_area(app: Resolver, catalog: OpenCatalog) -> None:
    """Answer both routes from a catalog."""

    @app.serve("getArea")
    def area() -> Response[str]:
        asked = app.given
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
        found = catalog.search(query, most=most, take=hrefs, expand=expand)
        headers = {_NOT_LISTED: str(n_unlisted)} if expand else {}
        if found.next is not None:
            following = query_text({**asked, "token": found.next.to_token()})
            headers["Link"] = f'<{app.address}/area?{following}>; rel="next"'
        links = [href for scene in found.parts for href in scene]
        return answer_json(links, etag=found.etag, headers=headers)

    @app.serve("getScenes")
    def scenes() -> Response[str]:
        asked = app.given
        query, assets = scenes_query(asked)
        expand, most = is_expanded(asked), parse_limit(asked)
        found = catalog.search(
            query,
            most=min(most, MOST_EXPANDED) if expand else most,
            take=lambda item: scene_summary(item, assets),
            expand=expand,
        )
        token = None if found.next is None else found.next.to_token()
        notes = () if query.area is None else query.area.notes
        page: Scenes = {"scenes": found.parts, "next": token, "warnings": list(notes)}
        return answer_json(page, etag=found.etag)
