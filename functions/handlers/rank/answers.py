"""What the route of rankings takes and answers, for the OpenAPI document. No function loads this.

The texts below fields are what readers of the document see.
"""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta


class RankingRequest(TypedDict, total=False):
    """Scenes, and what to rank them by."""

    scenes: dict[str, Any]
    """catalog, bbox, datetime, where, cloud_below, collections. Or give sources."""

    sources: Any
    """As in a gather."""

    by: Required[str]
    """red, green, blue, brightness, ndvi, ndwi, nbr, clear, valid, cloud, or an expression of bands."""

    area: Any
    """bbox or geojson; the whole of each scene if not given."""

    mask: dict[str, Any]
    """band, and the values to drop or the bits."""

    statistic: Annotated[Any, Meta(extra_json_schema={"default": "mean"})]
    """mean, median, p90 or share_above:0.3."""

    precision: Annotated[Any, Meta(extra_json_schema={"default": "2%"})]
    """Largest standard error: a number, or a share of the spread of all values, such as 2%. Or coarse, exact,
    every:5."""

    order: Annotated[Literal["desc", "asc"], Meta(extra_json_schema={"default": "desc"})]
    top: Annotated[int, Meta(ge=1)]
    """Places to decide."""

    bands: dict[str, Any]
    """The band or asset that each name in by stands for."""

    raw: Annotated[bool, Meta(extra_json_schema={"default": False})]
    """Leave scale and offset out."""

    limits: dict[str, Any]
    """usd and seconds. A ranking is refused if its forecast after the first scene is higher. A later round of
    a large ranking is not begun if it would cost more than usd."""

    check_kept: bool
    """Whether to ask first if the files of kept statistics are the same. Not given: it asks, but a large
    ranking that is complete is not begun again. True: it is."""


class RankedScene(TypedDict):
    """One row of a ranking."""

    rank: int | None
    """Null without a value."""

    rank_low: int | None
    """Best rank that the errors allow."""

    rank_high: int | None
    """Worst rank."""

    id: str
    time: str | None
    """UTC."""

    value: float | None
    """The statistic."""

    error: float | None
    """Standard error; null if unknown."""

    low: float | None
    """Lower end of the 95 % interval."""

    high: float | None
    """Upper end."""

    level: str | None
    """What was read: full, overview 2, every 5."""

    factor: float | None
    """Width of a pixel that was read, in pixels of full resolution."""

    clear: float | None
    """Share of the area, 0 to 1."""

    clear_low: float | None
    """Lower end of its 95 % interval."""

    clear_high: float | None
    """Upper end."""

    valid: float | None
    """Share of the area with data."""

    valid_low: float | None
    """Lower end of its 95 % interval."""

    valid_high: float | None
    """Upper end."""

    remarks: str | None
    """What the error relies on, and what was ignored of the metadata."""

    pixels: int | None
    """Pixels that counted."""

    bytes: int
    requests: int
    seconds: float
    kept: bool
    """Whether nothing was read, as an earlier ranking had the statistic."""

    status: str
    reason: str | None
    """Why there is no value, or why no finer level was read."""

    hrefs: list[str]


class RankingTotals(TypedDict):
    """What a ranking has read and cost."""

    scenes: int
    failed: int
    kept: int
    bytes: int
    requests: int
    seconds: float
    usd: float


class Ranking(TypedDict):
    """Scenes in their order."""

    by: str
    expression: str | None
    """Null for shares."""

    statistic: str
    order: str
    top: int | None
    """As asked."""

    scenes: list[RankedScene]
    totals: RankingTotals
    notes: list[str]
    table: NotRequired[str]
    """Address of the whole table as JSON, of a large ranking."""

    parquet: NotRequired[str]
    """The same as Parquet."""
