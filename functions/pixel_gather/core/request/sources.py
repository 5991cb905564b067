"""Which files a request reads. `Sources` is its field ``sources``."""

import json
from collections.abc import Iterator, KeysView, Mapping, ValuesView
from os import PathLike
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    InstanceOf,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import to_json

from pixel_gather.core.request.given_items import are_items, items_in_request, plain_items
from pixel_gather.core.request.given_rows import GivenTable, given_table, is_table, table_in_request
from pixel_gather.core.request.request_part import (
    Coordinate,
    RequestPart,
    as_text,
    exactly_one,
    may_be_path,
    plain_list,
)
from pixel_gather.core.request.wrong_values import show_value

SOURCE_KINDS: Final = ("hrefs", "list", "prefix", "stac", "catalog")
"""What a request in JSON says. A program may also give `Sources.rows`."""

ITEM_KINDS: Final = ("api", "items", "cmr")
_WRITE: Final = "a list file, hrefs, or an object such as {prefix: s3://bucket/folder/}"

type GivenItems = Annotated[
    str | tuple[dict[str, Any], ...],
    BeforeValidator(plain_items),
    PlainSerializer(items_in_request, when_used="json"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""The address of a file, or STAC items themselves. In JSON a digest stands for the latter."""


type GivenRows = Annotated[
    InstanceOf[GivenTable],
    BeforeValidator(given_table),
    PlainSerializer(table_in_request, when_used="json"),
]
"""A data frame, an Arrow table, or dicts. In JSON their number stands for them."""


class _Scenes(RequestPart):
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
        description="Where scenes are looked for. window: where the request's bbox or point lies. "
        "Or [west, south, east, north] in degrees, with west > east across the antimeridian. "
        "Or a GeoJSON geometry. all: everywhere.",
    )
    where: str | dict[str, Any] | None = Field(
        None,
        description="Conditions on properties: eo:cloud_cover<40 and platform=landsat-8, or "
        '{"eo:cloud_cover": {"lt": 40}}. A scene without the property does not meet them.',
    )
    assets: dict[str, str] | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="For each band of the cube, its asset: a key, or the common name of a band. "
        "A name alone stands for both.",
    )
    address: Literal["asset", "s3", "https"] = Field(
        "asset", description="Which of an asset's addresses is read; asset: the first."
    )
    scene: Literal["item", "solar-day", "datatake"] = Field(
        "item",
        description="What shares a row of the cube. item: each scene by itself. solar-day: the scenes of a "
        "day by the sun. datatake: the scenes of one pass. Those that do not fit get a second row.",
    )
    duplicates: Literal["latest", "all", "fail"] = Field(
        "latest", description="Scenes processed several times: keep the latest, keep all, or refuse."
    )
    duplicates_by: tuple[str, ...] = Field(
        (),
        description="Properties by which scenes are one, such as [grid:code, datetime]. "
        "Without them: platform, acquisition, time and place.",
    )
    most: int = Field(100_000, ge=1, le=1_000_000, description="A search that finds more scenes is refused.")

    @field_validator("assets", mode="before")
    @classmethod
    def _one_asset(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("area", "where")
    @classmethod
    def _refuse_what_json_cannot_store(cls, given: Any) -> Any:
        """Refuse what JSON cannot store, or what would be read back as something else."""
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


class CmrCollection(RequestPart):
    """A collection of NASA's Common Metadata Repository."""

    short_name: str | None = Field(None, min_length=1, description="Such as HLSL30.")
    concept_id: str | None = Field(None, min_length=1, description="Such as C2021957657-LPCLOUD.")
    provider: str | None = Field(None, min_length=1, description="Such as LPCLOUD.")

    @model_validator(mode="after")
    def _refuse_no_name_or_two(self) -> Self:
        exactly_one(self, ("short_name", "concept_id"))
        return self


class StacSources(_Scenes):
    """Scenes as STAC items: of an API, of a file or of a program, or of NASA's CMR.

    Exactly one of api, items and cmr.
    """

    api: str | None = Field(None, min_length=1, description="Address of a STAC API's landing page.")
    items: GivenItems | None = Field(
        None,
        repr=False,
        description="A path or an href: a collection of items, a file of one item a line, STAC-GeoParquet or "
        "a static catalog. From Python also items, dicts, an ItemCollection, or what search returns. "
        "All of them are read, unless area says where.",
    )
    cmr: CmrCollection | None = Field(None, description="Granules of a collection of NASA's CMR.")

    @model_validator(mode="before")
    @classmethod
    def _items_are_wanted(cls, given: Any) -> Any:
        """Look for scenes everywhere if the items are given."""
        return {"area": "all", **given} if isinstance(given, Mapping) and "items" in given else given

    @model_serializer(mode="wrap")
    def _with_area_of_items(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the area also where it is a default: without it, items are looked for everywhere."""
        found: dict[str, Any] = serialize(self)
        return found if self.items is None else found | {"area": found.get("area", self.area)}

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one(self, ITEM_KINDS)
        return self


class CatalogSources(_Scenes):
    """Scenes of a catalog that pixel-gather catalog wrote."""

    file: str = Field(min_length=1, description="The catalog's Parquet file: a path or an href.")

    _file = may_be_path("file")


class Sources(RequestPart):
    """The files to read: named one by one, in a list file, by a prefix, or found in a catalog of scenes.

    Exactly one of hrefs, list, prefix, stac and catalog; or, from Python, rows.
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
        description="Takes the time from hrefs if the list has none. A regular expression with %Y, %m, "
        "%d, %j, %H, %M and %S for the parts of the time, such as _%Y%m%d_. Or auto, for the names of "
        "Landsat, Sentinel, HLS, MODIS, VIIRS, OPERA, ECOSTRESS, EMIT, Planet and NAIP products, which is "
        "the default of a prefix.",
    )
    band: str | None = Field(
        None,
        min_length=1,
        description="Takes the band from hrefs if the list has none, so that files of a scene share a row. A "
        r"regular expression with the band in parentheses, such as _(B\d+)\.tif. Or auto, for the names of "
        "Landsat, Sentinel, HLS, OPERA and ECOSTRESS products.",
    )
    rows: SkipJsonSchema[GivenRows | None] = Field(
        None,
        repr=False,
        description="The list itself, from Python: a data frame, an Arrow table or a list of dicts, with the "
        "columns of a list file.",
    )
    sign: Literal["none", "planetary-computer", "earthdata"] = Field(
        "none",
        description="Service that gives tokens for the sources: planetary-computer for blobs of Azure, "
        "earthdata for buckets of NASA. A deployment names what it allows.",
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
        """Accept a plain text as a list file, an array as hrefs, and a table. Paths count as text."""
        if isinstance(given, str | PathLike):
            return {"list": as_text(given)}
        given = plain_list(given)
        if isinstance(given, Iterator | KeysView | ValuesView):
            given = list(given)
        if are_items(given):
            raise ValueError('it holds STAC items; write {"stac": {"items": ..., "assets": ["red"]}}')
        if is_table(given):
            return {"rows": given}
        if isinstance(given, list | tuple):
            return {"hrefs": [as_text(each) for each in given]}
        if isinstance(given, Mapping):
            each = {name: as_text(value) for name, value in given.items()}
            if isinstance(hrefs := plain_list(each.get("hrefs")), list | tuple):
                each["hrefs"] = [as_text(href) for href in hrefs]
            return each
        if isinstance(given, cls):
            return given
        raise ValueError(f"it is {show_value(given)}; write {_WRITE}")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        exactly_one(self, SOURCE_KINDS if self.rows is None else (*SOURCE_KINDS, "rows"))
        if self.prefix is None and (self.glob is not None or self.regex is not None):
            raise ValueError("glob and regex are for prefix only; give prefix, or leave them out")
        if self.glob is not None and self.regex is not None:
            raise ValueError("give glob or regex, not both")
        for name in ("time", "band"):
            if getattr(self, name) is not None and self.are_searched:
                raise ValueError(f"scenes have {name}s of their own; leave {name} out")
        return self
