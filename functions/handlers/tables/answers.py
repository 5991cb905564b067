"""What the routes of tables take and answer, for the OpenAPI document. No function loads this.

The texts below fields are what readers of the document see.
"""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from handlers.api.answers import Failure, Line
from handlers.rank.answers import Ranking


class TableRequest(TypedDict, total=False):
    """Features, images, and what is computed of each pair. Give points or zones."""

    points: Any
    """Address of a file, CSV, GeoJSON or Parquet; or GeoJSON."""

    zones: Any
    """Polygons, in the same way."""

    sources: Required[Any]
    """As in a gather. A catalog without file is the deployment's; a search without area is around the
    features."""

    id: str
    """Column of ids; numbers from 1 if not given."""

    x: str
    """Column of longitude or easting of points; found by its name if not given."""

    y: str
    crs: str
    """CRS of the features; as the file says, or longitude and latitude, if not given."""

    time: str
    """Column of times of the features."""

    tolerance: str
    """With time: only images this near, such as 10d or 36h."""

    by: Any
    """ndvi, or red,nir, or evi=2.5*(nir-red)/(nir+1); all bands as they are stored if not given."""

    mask: dict[str, Any]
    """band, and the values to drop or the bits."""

    bands: dict[str, str]
    """The band or asset that each name in by stands for."""

    raw: Annotated[bool, Meta(extra_json_schema={"default": False})]
    """Leave scale and offset out."""

    method: Annotated[Literal["nearest", "bilinear"], Meta(extra_json_schema={"default": "nearest"})]
    """Of points."""

    square: Annotated[int, Meta(extra_json_schema={"default": 1})]
    """Pixels along the side of a square around each point; their mean is the value."""

    statistics: Annotated[Any, Meta(extra_json_schema={"default": ["mean", "stdev", "count"]})]
    """Of zones."""

    coverage: Annotated[
        Literal["fraction", "centre", "touched"], Meta(extra_json_schema={"default": "fraction"})
    ]
    """Which pixels of a zone count."""

    merge: Annotated[bool, Meta(extra_json_schema={"default": True})]
    """Whether images of one acquisition that share a zone make one line: same platform, near in time."""

    append_to: str
    """Name of a table of this deployment, which is made if it is not there. Only images that it lacks are
    read."""

    limits: dict[str, Any]
    """usd and seconds. A table is refused if its forecast is higher."""


class SeriesRequest(TypedDict, total=False):
    """One place, images, and what is computed. Give point or geojson."""

    point: Annotated[list[float], Meta(min_length=2, max_length=2)]
    """Longitude and latitude."""

    geojson: dict[str, Any]
    """A polygon: the mean of its pixels."""

    sources: Required[Any]
    """As in a table."""

    by: Any
    """As in a table."""

    mask: dict[str, Any]
    bands: dict[str, str]
    raw: Annotated[bool, Meta(extra_json_schema={"default": False})]


class SeriesTotals(TypedDict):
    """What a series has read and cost."""

    images: int
    failed: int
    """Images that could not be read."""

    requests: int
    bytes: int
    seconds: float
    usd: float


class Series(TypedDict):
    """The values of all images that show a place."""

    columns: list[str]
    """Names of the values."""

    units: dict[str, str]
    """Of the values whose files say one, by name."""

    rows: list[dict[str, Any]]
    """time, scene, href, each value by its name, valid, status and reason; by time."""

    totals: SeriesTotals
    notes: list[str]


class DrilledFile(TypedDict):
    """The pixel of one file."""

    href: str
    time: str | None
    scene: str | None
    band: str | None
    """Of the list."""

    col: int | None
    row: int | None
    values: list[Any]
    """Of each band, as it is stored; null for no data."""

    status: str
    reason: str | None


class Drilled(TypedDict):
    """One pixel of every file."""

    rows: list[DrilledFile]
    notes: list[str]


class TableLine(Line):
    """A table or large ranking in a list, or after it was stopped or redriven."""


class TableStarted(TableLine):
    """A table or large ranking. GET the link self until its state is no longer running."""

    is_new: bool
    """False if the same one was running already."""


class Tables(TypedDict):
    """One page of tables and large rankings."""

    tables: list[TableLine]
    next: str | None
    """token of the next page."""


class TableScenes(TypedDict):
    """Images of a table, or scenes of a large ranking, by what became of them."""

    total: int
    wanted: int
    """Of this round."""

    read: int
    """Of this round."""

    failed: int | None
    """At the end."""


class TablePlan(TypedDict):
    """What a table would take."""

    features: int
    images: int
    not_opened: int
    """Images that are near no feature."""

    sampled: int
    """Images whose headers the plan is made from."""

    lines: int
    tiles: int
    requests: int
    bytes: int
    workers: int
    """At one time."""

    seconds: float
    usd: float


class TableResult(TypedDict, total=False):
    """Totals of a table, and where it is. Those of a large ranking have rounds, kept and parquet."""

    kind: Required[Literal["points", "zones", "ranking"]]
    name: Required[str]
    features: int
    scenes: Required[int]
    """Images."""

    not_opened: int
    """Images that are near no feature."""

    failed: Required[int]
    """Images that could not be read."""

    kept: int
    """Scenes of which nothing was read, as an earlier ranking had the statistic."""

    version: int
    """Of the table: how often images were added, and 1."""

    appended: int | None
    """Images that this job has added to a table that was there; null if it has made the table."""

    read: int
    """Images that this job has read. Those that could not be read before are among them."""

    last: str | None
    """Time of the last image."""

    job: str
    """Which wrote this version."""

    removals: int
    """How often a table or ranking of this name was removed before."""

    rounds: int
    lines: int
    statuses: dict[str, int]
    """Lines by their status."""

    requests: int
    bytes: int
    seconds: float
    usd: Required[float]
    notes: list[str]
    table: str
    """Address of the table: Parquet, or JSON of a large ranking. None if no image was found."""

    parquet: str
    """Address of a large ranking as Parquet."""

    features_table: str
    """Address of the features with their own columns, GeoParquet."""

    images_table: str
    """Address of the table of images, Parquet."""

    pieces_table: str
    """Address of the pieces of zones that the next append may merge, Parquet. Missing if there are none."""


class TableStatus(TableLine):
    """A table or large ranking as it is now."""

    request: dict[str, Any] | None
    """As it was posted."""

    round: int | None
    """From 1; null before the first."""

    scenes: TableScenes | None
    usd: float | None
    """By list prices. Until the end, a forecast up to the end of this round."""

    error: Failure | None
    """If it has failed."""

    result: TableResult | None
    """Totals and places, once it is complete."""

    ranking: NotRequired[Ranking | None]
    """Of a large ranking, once it is complete: its table; its first rows if it is over 5 MB."""
