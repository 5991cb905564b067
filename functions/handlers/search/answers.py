"""What the routes of searches take and answer, for the OpenAPI document. No function loads this.

The texts below fields are what readers of the document see.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from handlers.api.answers import Box, Links, Time
from pixel_gather.core.scenes.folders import UnlistedFolder

type Hrefs = Annotated[list[str], Meta(description="Links of images.")]


class Scene(TypedDict):
    """One scene of the catalog."""

    id: str
    collection: str | None
    datetime: Time
    bbox: Box
    cloud_cover: float | None
    """Percent."""

    links: Links
    """By asset."""

    not_listed: NotRequired[list[UnlistedFolder]]
    """Folders of the scene that could not be listed."""


class Scenes(TypedDict):
    """One page of scenes."""

    scenes: list[Scene]
    next: str | None
    """Token of the next page."""

    warnings: list[str]
    """What may be wrong with the area."""


class StacLink(TypedDict):
    """A link of a STAC document."""

    rel: str
    href: str
    type: NotRequired[str]
    method: NotRequired[str]
    body: NotRequired[dict[str, Any]]
    merge: NotRequired[bool]
    """Whether the body is added to the one before."""


class StacCatalog(TypedDict):
    """STAC API's landing page."""

    type: Literal["Catalog"]
    stac_version: str
    id: str
    title: str
    description: str
    conformsTo: list[str]
    links: list[StacLink]


class StacConformance(TypedDict):
    """What the STAC API conforms to."""

    conformsTo: list[str]


class StacCollection(TypedDict):
    """A collection of scenes."""

    type: Literal["Collection"]
    stac_version: str
    id: str
    description: str
    license: str
    extent: dict[str, Any]
    links: list[StacLink]


class StacCollections(TypedDict):
    """The catalog's collections."""

    collections: list[StacCollection]
    links: list[StacLink]


class StacItem(TypedDict):
    """A scene as a STAC item."""

    type: Literal["Feature"]
    id: str
    collection: str
    bbox: NotRequired[Box]
    geometry: NotRequired[dict[str, Any] | None]
    properties: dict[str, Any]
    assets: dict[str, Any]
    links: list[StacLink]


class StacItems(TypedDict):
    """One page of a search."""

    type: Literal["FeatureCollection"]
    features: list[StacItem]
    links: list[StacLink]
    numberReturned: int


class StacSearch(TypedDict, total=False):
    """What a search looks for."""

    bbox: Box
    intersects: dict[str, Any]
    """GeoJSON geometry."""

    datetime: str
    ids: list[str]
    collections: list[str]
    query: dict[str, Any]
    limit: Annotated[int, Meta(ge=1)]
    token: str
