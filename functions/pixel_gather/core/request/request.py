"""The request of a gather. The command line, the API and Python use the same model.

Its JSON Schema is ``docs/request.schema.json``.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.request.grid_request import GridRequest
from pixel_gather.core.request.mask_request import MaskRequest
from pixel_gather.core.request.output import Output
from pixel_gather.core.request.reduce_request import ReduceRequest
from pixel_gather.core.request.request_error import missing, mistake_in, request_error
from pixel_gather.core.request.request_part import RequestPart, may_be_path
from pixel_gather.core.request.sources import ITEM_KINDS, SOURCE_KINDS, Sources
from pixel_gather.core.request.web_address import without_query
from pixel_gather.core.request.window_request import WINDOW_KINDS, WindowRequest
from pixel_gather.core.request.windows_request import WindowsRequest

_BACK_END: Final = r"^(s3|gs|az|abfs|https?)://[A-Za-z0-9][A-Za-z0-9.:_@-]*$"
type BackEnd = Annotated[str, Field(max_length=260, pattern=_BACK_END)]
"""A bucket or host, as `pixel_gather.io.store.object_store.split_href` names it."""


type PerSecond = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]


class Limits(RequestPart):
    """Limits of the plan, checked before a pixel is read, and how the work is distributed."""

    usd: float | None = Field(None, ge=0, description="Dollars, as estimated by the plan.")
    transfer_usd: float | None = Field(
        None,
        ge=0,
        description="Dollars of transfer between Regions, as estimated; 1 if not given. Workers in the "
        "Region of the sources pay for none.",
    )
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
    requests_per_s: dict[BackEnd, PerSecond] | None = Field(
        None,
        min_length=1,
        max_length=32,
        description="Requests a second that all workers of all gathers together may send to a bucket or "
        "host, by its address: s3://bucket, gs://bucket, az://container or https://host. Workers on AWS "
        "share them through the control bucket, processes of a user on one machine through a folder. "
        "Any number if not given.",
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
        for name in type(self).model_fields.keys() - {"requests_per_s"}:
            given = [value for value in (getattr(self, name), getattr(caps, name)) if value is not None]
            lower[name] = min(given, default=None)
        ours, caps_ = self.requests_per_s or {}, caps.requests_per_s or {}
        per_s = {root: min(each.get(root, inf) for each in (ours, caps_)) for root in ours | caps_}
        return self.model_copy(update=lower | {"requests_per_s": per_s or None})


class GatherRequest(RequestPart):
    """One small window of each of many sources, as one cube."""

    sources: Sources
    window: WindowRequest | None = None
    windows: WindowsRequest | None = Field(None, description="Many windows instead of one: see chips.md.")
    bands: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] | None = Field(
        None,
        min_length=1,
        fail_fast=True,
        description="Bands of each source, from 1; all of them if not given.",
    )
    overview: Annotated[int, Field(ge=0, le=63)] | Literal["auto"] | None = Field(
        None,
        description="Read from this overview; 0 is the largest. With a grid also auto: from the coarsest one "
        "of each source that is not coarser than the grid. Full resolution if not given.",
    )
    masked: bool = Field(
        default=False,
        description="Set pixels to nodata that a source's own mask or alpha band hides. Without it these are "
        "ignored.",
    )
    nodata: float | int | None = Field(
        None,
        description="The cube's nodata if the sources declare none. Pixels that have this value count as "
        "missing. Pixels that masked or mask hides get it; others stay as they are.",
    )
    grid: Literal["any", "same"] | GridRequest = Field(
        "any",
        description="What to do with a source whose pixels do not coincide with the first one's. "
        "same: its status is unlike. any: it is kept, and the cube says that its rows are not aligned. "
        "{resolution: 10}: as same, on pixels of this width, for bands of different resolution. "
        "{crs: EPSG:3035, resolution: 10}: sources in any CRS are warped onto this grid.",
    )
    mask: MaskRequest | None = Field(
        None,
        description="Hide pixels by the values of a band of the cube: {band: scl, drop: [3, 8, 9]}.",
    )
    values: Literal["raw", "harmonised", "scaled"] = Field(
        "raw",
        description="harmonised: a number is added to the pixels of each row, a whole one to integers, so "
        "that all rows have the cube's scale and offset. Rows whose offset nobody can tell are left as they "
        "are, and marked. scaled: pixels become "
        "float32 numbers, by the scale and offset of each source, with NaN for what is missing. See grid.md.",
    )
    reduce: ReduceRequest | None = Field(
        None,
        description="Reduce the scenes of each month or other group to one row of the cube: "
        "{by: month, statistic: median}. See reduce.md.",
    )
    output: Output = Output()
    limits: Limits = Limits()
    duplicates: Literal["skip", "again", "fail"] = Field(
        "skip",
        description="What to do with sources that the cube of output.append_to has already: leave them out, "
        "gather them again, or refuse the request. Sources are compared by href or by scene.",
    )
    failed_rows: Literal["retry", "retry_all", "keep"] = Field(
        "retry",
        description="What to do with rows of the cube of output.append_to whose sources could not be read. "
        "retry: read the sources again that are missing, denied, corrupt, timed out, changed, lost or "
        "unmasked, five times in all. retry_all: read them again whatever their status, and however often "
        "they were tried. keep: leave the rows as they are.",
    )
    index: str | None = Field(
        None,
        min_length=1,
        description="A header index: a path or an href of a Parquet file, such as headers.parquet in an "
        "earlier cube of the same files. Saves a request per file. Changed files are read again.",
    )

    _index = may_be_path("index")

    @field_validator("nodata")
    @classmethod
    def _no_larger_integer(cls, nodata: float | None) -> float | None:
        """Return an integer of more than 64 bits as a float, because a plan holds no such integers.

        An integer that is too large for a float stays as it is. It fits no dtype, so it is refused later.
        """
        if isinstance(nodata, int) and not -(2**63) <= nodata < 2**64 and abs(nodata) <= sys.float_info.max:
            return float(nodata)
        return nodata

    @model_validator(mode="after")
    def _window_or_windows(self) -> Self:
        box = None if self.common_grid is None else self.common_grid.box()
        if box is not None and self.window is not None:
            raise mistake_in(
                "window", "grid.shape and grid.transform (--like) say the window; leave window out"
            )
        if box is None and self.window is None and self.windows is None:
            options = ", ".join(f"{each} (--{each})" for each in WINDOW_KINDS)
            raise missing("window", f"give one of {options}; or windows (--windows)")
        output = self.output
        one_window_only = {
            "window": self.window is not None,
            "index": self.index is not None,
            "grid": self.grid != "any",
            "reduce": self.reduce is not None,
            "output.archive": output.archive is not None,
            "output.expected_rows": output.expected_rows is not None,
            "output.layout": "layout" in output.model_fields_set,
            "output.codec: source": self.passes_through,
            "output.bands": output.has_band_axis,
            "output.sharding": not output.sharding,
        }
        self._refuse_beside("windows", one_window_only)
        return self

    @model_validator(mode="after")
    def _refuse_what_does_not_go_together(self) -> Self:
        if self.bands is not None and len(set(self.bands)) < len(self.bands):
            raise mistake_in("bands", "a band is named twice; name each band once")
        if self.duplicates != "skip" and self.output.append_to is None:
            raise mistake_in(
                "duplicates", "duplicates is for appends only; give output.append_to, or leave duplicates out"
            )
        if self.failed_rows != "retry" and self.output.append_to is None:
            raise mistake_in(
                "failed_rows", "failed_rows is for appends only; give output.append_to, or leave it out"
            )
        stored_tiles = {
            "grid": (self.common_grid is not None, "they get no other grid"),
            "mask": (self.mask is not None, "no pixel is hidden"),
            "values": (self.values != "raw", "values stay raw"),
        }
        for name, (is_given, so) in stored_tiles.items():
            if is_given and self.passes_through:
                raise mistake_in(name, f"codec source keeps tiles as they are, so {so}: leave {name} out")
        rows_of_scenes_only = {
            "output.archive": self.output.archive is not None,
            "output.codec: source": self.passes_through,
            "index": self.index is not None,
        }
        self._refuse_beside("reduce", rows_of_scenes_only)
        if self.overview == "auto" and self.common_grid is None:
            raise mistake_in(
                "overview", "overview auto chooses by the grid that all sources get; give grid, or a number"
            )
        if self.overview == "auto" and self.index is not None:
            raise mistake_in(
                "overview", "overview auto does not go with index, which is of one overview; leave one out"
            )
        return self

    def _refuse_beside(self, field: str, others: Mapping[str, bool]) -> None:
        """Refuse a field that is given beside one of others, by whether these are given."""
        wrong = next((name for name, is_given in others.items() if is_given), None)
        if wrong is not None and getattr(self, field) is not None:
            raise mistake_in(field, f"{field} does not go with {wrong}; leave one of them out")

    @property
    def level(self) -> int | None:
        """The overview that is named for all sources; None for the image, or if each source has its own."""
        return None if self.overview == "auto" else self.overview

    @property
    def common_grid(self) -> GridRequest | None:
        """The grid that all sources get. None if they keep their own."""
        return None if isinstance(self.grid, str) else self.grid

    @property
    def shares_grid(self) -> bool:
        """Whether a source on another grid is refused. Scenes are reduced pixel by pixel."""
        return self.grid != "any" or self.reduce is not None

    @property
    def cube_name(self) -> str:
        """The cube's name in a deployment."""
        if self.output.append_to is not None:
            return self.output.append_to.removesuffix(".zarr")
        return self.output.name or self.digest()

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON values, without defaults. NaN becomes a text.

        An append keeps ``values``, ``layout``, ``codec``, ``bands`` and ``sharding`` even where they are
        given as their defaults: it is refused if its cube has others.
        """
        found: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=True))
        if self.output.append_to is not None:
            found |= {name: getattr(self, name) for name in self.model_fields_set & {"values"}}
            named = self.output.model_fields_set & {"layout", "codec", "bands", "sharding"}
            found["output"] |= self.output.model_dump(mode="json", include=named, exclude_none=True)
        return found

    def rule(self) -> WindowRule:
        """Return the window that the plan places on typical sources: of chips, one of their size anywhere."""
        if self.windows is not None:
            return WindowRule(pixels=(0, 0, *self.windows.size))
        if self.window is not None:
            return self.window.rule()
        assert self.common_grid is not None  # noqa: S101 # one of these is given
        box = self.common_grid.box()
        assert box is not None  # noqa: S101 # as above
        return box

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

        Limits, also that of a search, the header index, who signs, the cube's name and the report are left
        out: they do not change the cube's content. Fields that were added later are left out at their
        defaults.
        """
        made_of = self.without_key().model_dump(
            mode="json",
            exclude={
                "limits": True,
                "index": True,
                "failed_rows": True,
                "sources": {"sign": True, "stac": {"most"}, "catalog": {"most"}},
                "output": {"name", "append_to", "report"},
            },
        )
        _unify_spellings(made_of)
        not_given = dict.fromkeys(("reduce", "window", "windows", "mask"))
        _drop(made_of, {"duplicates": "skip", "values": "raw"} | not_given)
        _drop(
            made_of["output"], {"bands": "arrays", "sharding": True, "archive": None, "expected_rows": None}
        )
        _drop(made_of["sources"], dict.fromkeys(("time", "band", "rows", "stac", "catalog")))
        if self.common_grid is not None:
            _drop(made_of["grid"], dict.fromkeys(("crs", "anchor", "transform", "shape")))
        canonical = json.dumps(made_of, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _unify_spellings(made_of: dict[str, Any]) -> None:
    """Write what may be spelled in two ways in the shorter one."""
    whole = repr(made_of["nodata"]).removesuffix(".0")
    if whole != "-0" and whole.removeprefix("-").isdecimal():  # -0.0 has other bits than 0
        made_of["nodata"] = int(whole)
    window, windows, grid = (made_of[name] for name in ("window", "windows", "grid"))
    if window is not None:
        _leave_out(window, {"crs": "EPSG:4326", "size": [1, 1]})
    if windows is not None:
        _leave_out(windows, {"seed": 0})
    if isinstance(grid, dict):
        _leave_out(grid, {"anchor": "edge", "resampling": "average" if grid["crs"] is None else "nearest"})


def _leave_out(part: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Write None, as of fields that are not given, for those that have their defaults."""
    part |= {name: None for name, default in defaults.items() if part[name] == default}


def _drop(made_of: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Remove fields that have their defaults."""
    for name, default in defaults.items():
        if made_of[name] == default:
            del made_of[name]


def parse_request(given: Mapping[str, Any] | GatherRequest) -> GatherRequest:
    """Check a request that came from outside.

    Raises:
        RequestError: The message names the field, its mistake, and other wrong fields.
    """
    if isinstance(given, GatherRequest):
        return given
    if not isinstance(given, Mapping):
        raise RequestError(
            "it must be an object with at least sources and window, such as "
            "{sources: list.csv, window: centre}",
            field="request",
        )
    try:
        return GatherRequest.model_validate(dict(given))
    except ValidationError as error:
        raise request_error(error, model=GatherRequest) from error


def parse_sources(given: Any) -> Sources:
    """Check a request's ``sources`` alone.

    Raises:
        RequestError: As `parse_request`.
    """
    try:
        return Sources.model_validate(given)
    except ValidationError as error:
        raise request_error(error, model=GatherRequest, within="sources") from error


def request_schema() -> dict[str, Any]:
    """Return the JSON Schema of a request, with its shorthands."""
    schema = GatherRequest.model_json_schema() | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    fields, parts = schema["properties"], schema["$defs"]
    parts["Sources"]["oneOf"] = [{"required": [name]} for name in SOURCE_KINDS]
    parts["StacSources"]["oneOf"] = [{"required": [name]} for name in ITEM_KINDS]
    in_grid = {"properties": {"grid": {"type": "object", "required": ["shape"]}}, "required": ["grid"]}
    schema["oneOf"] = [{"required": ["window"]}, {"required": ["windows"]}, in_grid]
    parts["WindowRequest"]["oneOf"] = [{"required": [name]} for name in WINDOW_KINDS]
    hrefs = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    fields["sources"] = {"anyOf": [fields["sources"], {"type": "string", "minLength": 1}, hrefs]}
    fields["window"] = {"anyOf": [fields["window"], {"enum": ["centre", "center"]}]}
    return schema
