"""The request of a gather. The command line, the API and Python use the same model.

Its JSON Schema is ``docs/request.schema.json``.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import to_json

from pixel_gather.errors import RequestError
from pixel_gather.model.tile_coding import AS_STORED
from pixel_gather.model.window import WindowRule
from pixel_gather.request.given_items import items_in_request, plain_items
from pixel_gather.request.shape_bounds import shape_bounds
from pixel_gather.request.web_address import without_query
from pixel_gather.request.wrong_values import in_words

type Coordinate = Annotated[float, Field(allow_inf_nan=False)]
type Size = Annotated[int, Field(ge=1, le=1_000_000)]
type Offset = Annotated[int, Field(ge=-(2**31) + 1, le=2**31 - 1)]
"""Offset in pixels. No supported raster has more columns or rows."""


_HALF: Final = re.compile("[\ud800-\udfff]")
_SOURCE_KINDS: Final = ("hrefs", "list", "prefix", "stac", "catalog")
_ITEM_KINDS: Final = ("api", "items", "cmr")
_WINDOW_KINDS: Final = ("tile", "pixels", "bbox", "point")
_PARTS_OF_WINDOW: Final = {"pixels": ("column", "row", "width", "height"), "size": ("width", "height")}
_MOST_MISTAKES: Final = 1000
_MOST_NAMED: Final = 5
_LONGEST_NAME: Final = 100


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @field_validator("*")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        """Refuse lone surrogates: they cannot be encoded as UTF-8, so nothing can send or store them."""
        texts = [*given, *given.values()] if isinstance(given, dict) else given
        for each in texts if isinstance(texts, list | tuple) else (texts,):
            if isinstance(each, str) and not each.isascii() and _HALF.search(each):
                raise ValueError("it holds half of a character; write whole ones, in UTF-8")
        return given


type GivenItems = Annotated[
    str | tuple[dict[str, Any], ...],
    BeforeValidator(plain_items),
    PlainSerializer(items_in_request, when_used="json"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""The address of a file, or STAC items themselves. In JSON a digest stands for the latter."""


class _Scenes(_Model):
    """Which scenes are looked for, and what is read of them."""

    collections: tuple[str, ...] = Field((), description="Ids of collections; all of them if not given.")
    ids: tuple[str, ...] = Field((), description="Ids of scenes; all of them if not given.")
    datetime: str | None = Field(
        None,
        min_length=1,
        description="2024, 2024-06, 2024-06/2024-08 or 2024-06-01T00:00:00Z/.., both ends included.",
    )
    area: (
        Literal["window", "all"] | tuple[Coordinate, Coordinate, Coordinate, Coordinate] | dict[str, Any]
    ) = Field(
        "window",
        description="Where scenes are looked for: window, where the request's bbox or point lies; "
        "[west, south, east, north] in degrees, west > east over the antimeridian; a GeoJSON geometry; "
        "or all.",
    )
    where: str | dict[str, Any] | None = Field(
        None,
        description="Conditions on properties: eo:cloud_cover<40 and platform=landsat-8, or "
        '{"eo:cloud_cover": {"lt": 40}}. A scene without the property does not meet them.',
    )
    assets: dict[str, str] | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Band of the cube to asset: its key, or the common name of its band. "
        "Names alone are both.",
    )
    address: Literal["asset", "s3", "https"] = Field(
        "asset", description="Which of an asset's addresses is read; asset: the first."
    )
    scene: Literal["item", "solar-day", "datatake"] = Field(
        "item",
        description="What shares a row of the cube: item, each scene by itself; solar-day, the scenes of a "
        "day by the sun; datatake, the scenes of one pass. What does not fit into one row gets a second one.",
    )
    duplicates: Literal["latest", "all", "fail"] = Field(
        "latest", description="Scenes processed several times: keep the latest, keep all, or refuse."
    )
    most: int = Field(100_000, ge=1, le=1_000_000, description="More scenes than this are refused.")

    @field_validator("assets", mode="before")
    @classmethod
    def _one_asset(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("area", "where")
    @classmethod
    def _is_plain(cls, given: Any) -> Any:
        """Refuse what cannot be stored as JSON, or comes out of it otherwise."""
        if not isinstance(given, dict):
            return given
        try:
            json.dumps(given, allow_nan=False, ensure_ascii=False).encode()
            to_json(given)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                "write plain JSON: finite numbers, texts that are UTF-8, and few levels of nesting"
            ) from error
        return given


class CmrCollection(_Model):
    """A collection of NASA's Common Metadata Repository."""

    short_name: str | None = Field(None, min_length=1, description="Such as HLSL30.")
    concept_id: str | None = Field(None, min_length=1, description="Such as C2021957657-LPCLOUD.")
    provider: str | None = Field(None, min_length=1, description="Such as LPCLOUD.")

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        _exactly_one(self, ("short_name", "concept_id"))
        return self


class StacSources(_Scenes):
    """Scenes as STAC items: of an API, of a file or of a program, or of NASA's CMR.

    Exactly one of api, items and cmr.
    """

    api: str | None = Field(None, min_length=1, description="Address of a STAC API's landing page.")
    items: GivenItems | None = Field(
        None,
        description="Items: a path or an href of a collection of items, of one item a line, of "
        "STAC-GeoParquet or of a static catalog. From Python also items, dicts, an ItemCollection, or what "
        "search returns. All of them are read, unless area says where.",
    )
    cmr: CmrCollection | None = Field(None, description="Granules of a collection of NASA's CMR.")

    @model_validator(mode="before")
    @classmethod
    def _items_are_wanted(cls, given: Any) -> Any:
        """Look for scenes everywhere if the items are given."""
        return {"area": "all", **given} if isinstance(given, Mapping) and "items" in given else given

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        _exactly_one(self, _ITEM_KINDS)
        return self


class CatalogSources(_Scenes):
    """Scenes of a catalog that pixel-gather catalog wrote."""

    file: str = Field(min_length=1, description="The catalog's Parquet file: a path or an href.")

    @field_validator("file", mode="before")
    @classmethod
    def _file_may_be_a_path(cls, given: Any) -> Any:
        return _as_text(given)


class Sources(_Model):
    """The files to read: named one by one, in a list file, by a prefix, or found in a catalog of scenes.

    Exactly one of hrefs, list, prefix, stac and catalog.
    """

    hrefs: tuple[str, ...] | None = Field(
        None, min_length=1, fail_fast=True, description="The sources themselves."
    )
    list: str | None = Field(
        None,
        min_length=1,
        description="A list file (text, CSV, JSONL, Parquet): a path, an href, or - for standard input.",
    )
    prefix: str | None = Field(None, min_length=1, description="A folder or an S3 prefix.")
    glob: str | None = Field(None, min_length=1, description="Pattern on the path below the prefix.")
    regex: str | None = Field(None, min_length=1, description="Regular expression on the whole href.")
    time: str | None = Field(
        None,
        min_length=1,
        description="Takes the time from hrefs if the list has none: a regular expression with %Y, %m, "
        "%d, %j, %H, %M and %S for the parts of the time, such as _%Y%m%d_; or auto for the names of "
        "Landsat, Sentinel, HLS, MODIS and VIIRS products.",
    )
    sign: Literal["none", "planetary-computer", "earthdata"] = Field(
        "none",
        description="Who signs for the sources: planetary-computer for blobs of Azure, earthdata for buckets "
        "of NASA. A deployment names what it allows.",
    )
    stac: StacSources | None = Field(None, description="Scenes as STAC items, of an API or a file.")
    catalog: CatalogSources | None = Field(
        None, description="Scenes of a catalog that pixel-gather catalog wrote."
    )

    @property
    def searched(self) -> StacSources | CatalogSources | None:
        """What is searched for; None where the list is not what a search finds."""
        return self.stac or self.catalog

    @property
    def are_searched(self) -> bool:
        """Whether the list is what a search finds."""
        return self.searched is not None

    def searched_field(self, name: str) -> str:
        """Return the name of a field of `searched` in the whole request, for errors."""
        return f"sources.{'catalog' if self.stac is None else 'stac'}.{name}"

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, given: Any) -> Any:
        """Accept a plain text as a list file and an array as hrefs. Paths count as text."""
        if isinstance(given, str | PathLike):
            return {"list": _as_text(given)}
        if isinstance(given, list | tuple):
            return {"hrefs": [_as_text(each) for each in given]}
        if isinstance(given, Mapping):
            each = {name: _as_text(value) for name, value in given.items()}
            if isinstance(hrefs := each.get("hrefs"), list | tuple):
                each["hrefs"] = [_as_text(href) for href in hrefs]
            return each
        return given

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _exactly_one(self, _SOURCE_KINDS)
        if self.prefix is None and (self.glob is not None or self.regex is not None):
            raise ValueError("glob and regex go with prefix")
        if self.glob is not None and self.regex is not None:
            raise ValueError("give glob or regex, not both")
        if self.time is not None and self.are_searched:
            raise ValueError("scenes have times of their own; leave time out")
        return self


class WindowRequest(_Model):
    """The window wanted of every source. Exactly one of tile, pixels, bbox and point."""

    tile: Literal["centre"] | tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = Field(
        None, description="[row, column] of a tile in the source's own tiling, or centre."
    )
    pixels: tuple[Offset, Offset, Size, Size] | None = Field(
        None, description="[col_off, row_off, width, height]."
    )
    bbox: tuple[Coordinate, Coordinate, Coordinate, Coordinate] | None = Field(
        None, description="[west, south, east, north] in crs. Every pixel that it touches is read."
    )
    point: tuple[Coordinate, Coordinate] | None = Field(
        None, description="[x, y] in crs. The pixel that contains it is the window's centre."
    )
    size: tuple[Size, Size] | None = Field(None, description="[width, height] in pixels, around point.")
    crs: str | None = Field(
        None,
        min_length=1,
        description="CRS of bbox and point; EPSG:4326 (longitude, latitude) if not given; "
        "'source' for each source's own.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, given: Any) -> Any:
        """Accept the plain word centre as the centre tile."""
        if isinstance(given, str) and given not in ("centre", "center"):
            raise ValueError(
                f"it is {given[:60]!r}; write centre, or an object with one of {', '.join(_WINDOW_KINDS)}"
            )
        return {"tile": "centre"} if given in ("centre", "center") else given

    @model_validator(mode="before")
    @classmethod
    def _is_no_shape(cls, given: Any) -> Any:
        """Refuse a GeoJSON shape, and say which box is around it."""
        of_bbox = given.get("bbox") if isinstance(given, Mapping) else None
        bounds = shape_bounds(given) or (None if isinstance(of_bbox, list | tuple) else shape_bounds(of_bbox))
        if bounds is not None:
            box = ", ".join(f"{each:.12g}" for each in bounds)
            raise ValueError(
                "a shape is no window, because all pixels of a rectangle are read: write the box around it, "
                f"bbox: [{box}], and its crs if that is not EPSG:4326; clip the cube afterwards"
            )
        return given

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        _exactly_one(self, _WINDOW_KINDS)
        if self.point is None and self.size is not None:
            raise ValueError("size goes with point")
        if self.crs is not None and self.bbox is None and self.point is None:
            raise ValueError("crs goes with bbox or point")
        if self.bbox is not None:
            west, south, east, north = self.bbox
            if west > 0 > east and south < north and self.crs in (None, "EPSG:4326"):
                raise ValueError(
                    "a gather's bbox may not cross 180 degrees: gather both sides, each into its own cube: "
                    f"[{west:g}, {south:g}, 180, {north:g}] and [-180, {south:g}, {east:g}, {north:g}]; "
                    f"images that go on past 180 degrees take [{west:g}, {south:g}, {east + 360:g}, {north:g}]"
                )
            if west >= east or south >= north:
                raise ValueError("bbox is [west, south, east, north] with west < east and south < north")
        return self

    def rule(self) -> WindowRule:
        """Return the window as a `WindowRule`, which the steps use."""
        is_centre = self.tile == "centre"
        on_map = self.bbox is not None or self.point is not None
        return WindowRule(
            tile=None if isinstance(self.tile, str) else self.tile,
            is_centre=is_centre,
            pixels=self.pixels,
            bounds=self.bbox,
            point=self.point,
            size=self.size or (1, 1),
            crs=(self.crs or "EPSG:4326") if on_map and self.crs != "source" else None,
        )


class ExplicitLayout(_Model):
    """Explicit sizes of chunks and shards, if you know how the cube will be read."""

    chunk: tuple[Size, Size, Size] = Field(description="[rows, y, x] of the unit of reading.")
    shard_rows: Size | None = Field(
        None, description="Rows in one object, rounded up to whole chunks. Planned if not given."
    )


type LayoutName = Literal["balanced", "slice", "series"]
type CodecName = Literal["blosc-lz4", "blosc-zstd", "zstd", "none", "zfp", "source"]


class Output(_Model):
    """How the cube is stored, and under what name a deployment keeps it."""

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$",
        description="The cube's name in a deployment's bucket; made from the request if not given. "
        "Not used in process.",
    )
    append_to: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="Add rows to this cube: its name in a deployment; in process a folder or "
        "s3://bucket/prefix. Grid, dtype, codec, chunks, bands and columns are the cube's.",
    )
    archive: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$",
        description="Make cubes that can be joined: the first gather of this archive stores its dtype, "
        "codec, chunks, shards, bands and columns as NAME.archive.json beside its cube. Later ones have the "
        "same, or are refused. With grid: same, also its place.",
    )
    expected_rows: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Rows that the cube is expected to have after later appends. Chunks and shards, which "
        "never change, are planned for them.",
    )
    layout: LayoutName | ExplicitLayout = Field(
        "balanced",
        description="balanced: a time slice and one pixel's series both read few bytes. "
        "slice, series: that one reads the fewest bytes.",
    )
    codec: CodecName = Field(
        "blosc-lz4",
        description="blosc-lz4 and blosc-zstd shuffle bits first. zfp is for floats only and is lossy "
        "unless zfp_tolerance is 0. Readers need imagecodecs for it. source keeps the sources' compressed "
        "tiles, if they are alike and the window begins at a corner of tiles. The plan says who reads them.",
    )
    zfp_tolerance: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Largest error of a value with codec zfp. 0 is lossless."
    )
    report: bool = Field(
        default=True,
        description="false: draw no report, which takes seconds. The receipt, rows.parquet and view.html are "
        "still written. pixel-gather report CUBE --to DIR draws the report later.",
    )

    @field_validator("append_to", mode="before")
    @classmethod
    def _append_to_may_be_a_path(cls, given: Any) -> Any:
        return _as_text(given)

    @model_validator(mode="after")
    def _new_or_there(self) -> Self:
        if self.name is not None and self.append_to is not None:
            raise ValueError("give name for a new cube or append_to for one that is there, not both")
        return self

    @model_validator(mode="after")
    def _archive_of_new_cubes(self) -> Self:
        if self.archive is not None and self.append_to is not None:
            raise ValueError("archive is for new cubes: append_to takes everything from the cube")
        if self.archive is not None and self.codec == AS_STORED:
            raise ValueError("archive does not go with codec source, whose chunks are the sources' own")
        return self

    @model_validator(mode="after")
    def _tolerance_goes_with_zfp(self) -> Self:
        if (self.zfp_tolerance is not None) != (self.codec == "zfp"):
            raise ValueError("codec zfp and zfp_tolerance go together")
        return self


class Limits(_Model):
    """Limits of the plan, checked before a pixel is read, and how the work is distributed."""

    usd: float | None = Field(None, ge=0, description="Dollars, as estimated by the plan.")
    files: int | None = Field(None, ge=1, description="Sources in the list.")
    pixels: int | None = Field(None, ge=1, description="Pixels of all sources together.")
    fetched_bytes: int | None = Field(None, ge=1, description="Bytes to be read, as estimated.")
    times_source: float | None = Field(
        None,
        ge=1,
        allow_inf_nan=False,
        description="Largest ratio of the window's pixels to those of the largest sampled source; 16 if not "
        "given. Windows of up to 1,048,576 pixels are always allowed. Pixels outside a source are empty.",
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Workers at one time on AWS. If not given, the plan takes the fewest with which the "
        "gather lasts at most 1 % longer than with all of the deployment's workers.",
    )
    failed_shards: float = Field(
        0,
        ge=0,
        le=1,
        description="Share of the shards, 0 to 1, that may be lost to failing workers on AWS. Their "
        "sources get the status lost. A gather that loses more stops and can be redriven.",
    )

    def within(self, caps: Self) -> Self:
        """Return the lower one of each pair of limits. A limit that only one of them has is kept."""
        lower = {}
        for name in type(self).model_fields:
            given = [value for value in (getattr(self, name), getattr(caps, name)) if value is not None]
            lower[name] = min(given, default=None)
        return self.model_copy(update=lower)


class GatherRequest(_Model):
    """One small window of each of many sources, as one cube."""

    sources: Sources
    window: WindowRequest
    bands: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] | None = Field(
        None,
        min_length=1,
        fail_fast=True,
        description="Bands of each source, from 1; all of them if not given.",
    )
    overview: int | None = Field(
        None,
        ge=0,
        le=63,
        description="Read from this overview; 0 is the largest. Full resolution if not given.",
    )
    masked: bool = Field(
        default=False, description="Set pixels to nodata that a source's own mask or alpha band hides."
    )
    nodata: float | int | None = Field(
        None, description="The cube's nodata if the sources declare none. It never changes pixels."
    )
    grid: Literal["any", "same"] = Field(
        "any",
        description="same: a source whose pixels do not coincide with the first one's gets the status "
        "unlike. any: it is kept, and the cube says that its rows are not aligned.",
    )
    output: Output = Output()
    limits: Limits = Limits()
    duplicates: Literal["skip", "again", "fail"] = Field(
        "skip",
        description="What to do with sources that the cube of output.append_to has already, by their href or "
        "their scene: leave them out, gather them again, or refuse the request.",
    )
    index: str | None = Field(
        None,
        min_length=1,
        description="A header index: a path or an href of a Parquet file, such as headers.parquet in an "
        "earlier cube of the same files. Saves a request per file. Changed files are read again.",
    )

    @field_validator("index", mode="before")
    @classmethod
    def _index_may_be_a_path(cls, given: Any) -> Any:
        return _as_text(given)

    @model_validator(mode="after")
    def _bands_differ(self) -> Self:
        if self.bands is not None and len(set(self.bands)) < len(self.bands):
            raise ValueError("bands names a band twice")
        return self

    @model_validator(mode="after")
    def _duplicates_go_with_append(self) -> Self:
        if self.duplicates != "skip" and self.output.append_to is None:
            raise ValueError("duplicates goes with output.append_to")
        return self

    @property
    def cube_name(self) -> str:
        """The cube's name in a deployment."""
        if self.output.append_to is not None:
            return self.output.append_to.removesuffix(".zarr")
        return self.output.name or self.digest()

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON values, without defaults. NaN becomes a text."""
        found: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=True))
        return found

    @property
    def passes_through(self) -> bool:
        """Whether compressed tiles are to become chunks unchanged."""
        return self.output.codec == AS_STORED

    def without_key(self) -> Self:
        """Return the request as it may be stored: the query of a STAC API's address may hold a key."""
        stac = self.sources.stac
        if stac is None or stac.api is None or "?" not in stac.api:
            return self
        stac = stac.model_copy(update={"api": without_query(stac.api)})
        return self.model_copy(update={"sources": self.sources.model_copy(update={"stac": stac})})

    def digest(self) -> str:
        """Return 16 hexadecimal digits that are equal only for requests of the same cube.

        Limits, the header index, who signs, the cube's name and the report are left out: they do not change
        the cube's content.
        """
        made_of = self.without_key().model_dump(
            mode="json", exclude={"limits": True, "index": True, "output": {"name", "append_to", "report"}}
        )
        if self.duplicates == "skip":
            del made_of["duplicates"]
        if self.output.archive is None:
            del made_of["output"]["archive"]
        if self.output.expected_rows is None:
            del made_of["output"]["expected_rows"]
        del made_of["sources"]["sign"]  # it changes no pixel
        for name in ("time", "stac", "catalog"):
            if made_of["sources"][name] is None:
                del made_of["sources"][name]
        canonical = json.dumps(made_of, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def parse_request(given: Mapping[str, Any] | GatherRequest) -> GatherRequest:
    """Check a request that came from outside.

    Raises:
        RequestError: The message names the field, its mistake, and other wrong fields.
    """
    if isinstance(given, GatherRequest):
        return given
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with at least sources and window", field="request")
    try:
        return GatherRequest.model_validate(dict(given))
    except ValidationError as error:
        raise _in_words(error) from error


def parse_sources(given: Any) -> Sources:
    """Check a request's ``sources`` alone.

    Raises:
        RequestError: As `parse_request`.
    """
    try:
        return Sources.model_validate(given)
    except ValidationError as error:
        raise _in_words(error, within="sources") from error


def request_schema() -> dict[str, Any]:
    """Return the JSON Schema of a request, with its shorthands."""
    schema = GatherRequest.model_json_schema() | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    fields, parts = schema["properties"], schema["$defs"]
    parts["Sources"]["oneOf"] = [{"required": [name]} for name in _SOURCE_KINDS]
    parts["StacSources"]["oneOf"] = [{"required": [name]} for name in _ITEM_KINDS]
    parts["WindowRequest"]["oneOf"] = [{"required": [name]} for name in _WINDOW_KINDS]
    hrefs = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    fields["sources"] = {"anyOf": [fields["sources"], {"type": "string", "minLength": 1}, hrefs]}
    fields["window"] = {"anyOf": [fields["window"], {"enum": ["centre", "center"]}]}
    return schema


def _as_text(value: Any) -> Any:
    """Return a path as text and any other value unchanged."""
    return fspath(value) if isinstance(value, PathLike) else value


def _in_words(error: ValidationError, *, within: str = "") -> RequestError:
    """Return an error that names the wrong field, without the names of the model's branches.

    If a field accepts several types, the branch with the deepest mistake was probably meant.
    """
    if error.error_count() > _MOST_MISTAKES:  # each takes 1 KB of memory
        return RequestError(
            f"it has {error.error_count():,} mistakes, too many to name; a request takes {_fields_at([])}",
            field="request",
        )
    problems = error.errors(include_url=False)
    paths = [
        [*filter(None, [within]), *(_shown(part) for part in problem["loc"] if not _is_branch_name(part))]
        for problem in problems
    ]
    of_field = [n for n, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    deepest = max(of_field, key=lambda n: len(paths[n]))
    first, path = problems[deepest], paths[deepest]
    message = in_words(first)
    if first["type"] == "extra_forbidden":
        message = (
            f"there is no such field; {'.'.join(path[:-1]) or 'a request'} takes {_fields_at(path[:-1])}"
        )
    if path == ["window"] and first["type"] == "missing":
        message += ": give one of " + ", ".join(f"{each} (--{each})" for each in _WINDOW_KINDS)
    if path[:1] == ["window"] and (names := _PARTS_OF_WINDOW.get(".".join(path[1:-1]))):
        path, part = path[:-1], names[int(path[-1])]
        message = f"{path[-1]} is [{', '.join(names)}]: {part} {message.removeprefix('it ')}"
    others = [each for each in paths if each[: len(paths[0])] != paths[0] and each != path[: len(each)]]
    return RequestError(message + _also_wrong(others), field=".".join(path) or "request")


def _also_wrong(paths: Sequence[Sequence[str]]) -> str:
    names = list(dict.fromkeys(".".join(path) for path in paths))
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f" (also wrong: {', '.join(names[:_MOST_NAMED])}{more})"


def _shown(part: object) -> str:
    text = str(part)
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def _is_branch_name(part: object) -> bool:
    """Return whether pydantic added this part to a location to name a branch of a union."""
    text = str(part)
    return (
        "[" in text or text in ("ExplicitLayout", "int", "float", "LayoutName") or text.startswith("literal")
    )


def _fields_at(path: list[str]) -> str:
    model: Any = GatherRequest
    for name in path:
        model = getattr(model.model_fields.get(name), "annotation", None)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return "other fields"
    return ", ".join(model.model_fields)


def _exactly_one(model: BaseModel, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        found = "none is" if not given else " and ".join(given) + " are"
        raise ValueError(f"give exactly one of {', '.join(names)}; {found} given")
