"""What the routes of gathers take and answer, for the OpenAPI document. No function loads this.

The texts below fields are what readers of the document see.
"""

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct

from handlers.api.answers import Amount, Count, Failure, Line, Links
from pixel_gather.core.estimate.estimate_result import Estimate

type Shape = Annotated[list[Count], Meta(min_length=3, max_length=3)]
type Href = Annotated[str, Meta(extra_json_schema={"examples": ["s3://bucket/name.zarr"]})]


class Gather(Line):
    """A gather in a list, or after it was stopped or redriven."""


class Submitted(Gather):
    """A gather that was submitted."""

    is_new: bool
    """False if the same gather was submitted before."""


class Gathers(TypedDict):
    """One page of gathers."""

    gathers: list[Gather]
    next: str | None
    """Token of the next page."""


class Result(TypedDict):
    """What a complete gather has made."""

    gather: str
    """The cube's name."""

    cube: str
    report: str | None
    """For programs; null where it could not be written."""

    report_page: str | None
    """For a browser; null where it could not be drawn."""

    digest: str
    """Digest of all pixels. Equal digests mean equal pixels."""

    n_sources: Count
    n_failed: Count
    status: dict[str, Count]
    """Sources by their status."""

    shape: Shape
    n_appended: Count | None
    """Rows that an append added: 0 if the cube had all sources; null for a new cube."""

    n_retried: Count
    """Sources of earlier rows that this append has tried again, because they could not be read before."""

    n_read_again: Count
    """How many of them it has read."""

    n_recovered: Count
    """Sources of the whole cube that could not be read at first, and that a later append has read."""

    wall_s: Amount
    fetched_nbytes: Count
    requests: Count
    retries: Count
    stored_nbytes: Count
    n_shards: Count
    n_lost_shards: Count
    usd: Amount
    warnings: list[str]
    """Of the whole cube, the gravest first."""


class ShardCounts(TypedDict):
    """Shards of a gather by what became of them."""

    total: Count
    pending: Count
    running: Count
    succeeded: Count
    failed: Count


class SourceCounts(TypedDict):
    """Sources of a gather by what became of them."""

    total: Count
    done: Count
    failed: Count | None
    """Null until the gather is complete."""


class Price(TypedDict):
    """Dollars of a gather."""

    planned: Amount | None
    so_far: Amount | None
    basis: str
    """What the dollars rest on."""


class FailedWorker(TypedDict):
    """A worker that failed, and what to do."""

    shards: list[Count]
    """Positions of the shards that it was to fill."""

    error: str
    cause: str
    advice: str


class Status(Gather):
    """A gather as it is now."""

    request: dict[str, Any] | None
    """As it was submitted."""

    cube: Href | None
    shards: ShardCounts | None
    sources: SourceCounts | None
    usd: Price
    error: Failure | None
    failures: list[FailedWorker]
    """Why workers failed, of the last few that did."""

    result: Result | None
    warnings: list[str]
    """Of the plan; once the gather is complete, those of the result. In both cases, why it has fewer workers
    than it could use."""


class PlannedMeasurement(TypedDict):
    """One array of the cube."""

    name: str
    dtype: str
    nodata: str | None
    scale: float
    offset: float


class PlannedLayout(TypedDict):
    """Shapes of chunks and shards: row, y, x."""

    chunk: Shape
    shard: Shape
    is_sharded: bool
    """false: each object is one chunk."""

    codec: str


class PlannedGrid(TypedDict):
    """The pixels that all sources get."""

    resolution: float
    """Width of a pixel in units of the CRS."""

    bands: dict[str, str]
    """What becomes of the pixels of each band, in words."""


class Plan(TypedDict):
    """What a gather would do. Sizes in bytes."""

    digest: str
    sources: Count
    dims: list[str]
    shape: Shape
    measurements: list[PlannedMeasurement]
    crs: str | None
    transform: list[float] | None
    grid: PlannedGrid | None
    """null where sources keep their own pixels."""

    mask: dict[str, Any] | None
    """As in the request; null without one."""

    values: Literal["raw", "harmonised", "scaled"]
    """Whether pixels stay as they are stored, get the scale and offset of their measurement, or become what
    they stand for."""

    reduce: dict[str, str] | None
    """As in the request; null where each scene has a row of its own."""

    layout: PlannedLayout
    shards: Count
    part_bytes: Count | None
    """Longer ranges are fetched in parallel parts; null where they are not."""

    estimate: Estimate
    warnings: list[str]


class List(Struct, forbid_unknown_fields=True):
    """A list of sources that is to be uploaded."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    suffix: Annotated[str, Meta(extra_json_schema={"examples": ["csv"]})]
    """The list's format."""

    nbytes: Annotated[int, Meta(ge=1)]


class ListPlace(TypedDict):
    """Where a list lies."""

    href: str
    """For sources.list."""

    upload: str | None
    """PUT the list here within 15 minutes; null where it is there already."""

    headers: Links
    """To be sent with it."""


class Document(TypedDict):
    """An OpenAPI document."""
