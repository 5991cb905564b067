"""What a cube prescribes to gathers that add rows to it, or that make another cube like it. Pure.

A finished cube stores its `CubeTemplate` in its group's metadata. A new plan inherits from it: pixel grid,
window, dtypes, bands, chunks, shards, codec and columns. If the request or its sources differ, the gather is
refused. The error has both values.
"""

import math
from collections.abc import Mapping, Sequence
from copy import replace
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec import to_builtins

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import ListColumn
from pixel_gather.core.plan.cube_plan import (
    BANDS,
    CubeObjects,
    CubePlan,
    Measurement,
    Reduction,
    SourceSlot,
)
from pixel_gather.core.plan.locate_window import Placement

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.output import Output
    from pixel_gather.core.request.request import GatherRequest


class CubeTemplate(CubeObjects, frozen=True, kw_only=True):
    """The properties of a cube that other gathers inherit."""

    is_aligned: bool
    """Whether all rows of the cube share one grid. Sources that do not are then ``unlike``."""

    reduce: dict[str, str] | None = None
    """How scenes became rows, as in a request; None if each scene is one."""

    scene_slots: tuple[SourceSlot, ...] = ()
    """Those of the scenes, if these are reduced. Cubes of earlier versions do not tell."""

    scene_measurements: tuple[Measurement, ...] = ()
    scene_columns: tuple[ListColumn, ...] = ()

    @classmethod
    def of(cls, plan: CubePlan, *, is_aligned: bool) -> Self:
        """Return what a planned cube prescribes.

        Args:
            plan: The cube.
            is_aligned: Whether the rows that were gathered share one grid.
        """
        as_planned = plan.shared_fields() | {"mask": plan.of_scenes.mask}
        of_scenes = {} if plan.reduction is None else _told_of_scenes(plan.reduction)
        return cls(is_aligned=is_aligned, **as_planned, **of_scenes)

    @property
    def of_scenes(self) -> "CubeTemplate":
        """What is prescribed to the scenes of the rows: by it, sources are read."""
        if self.reduce is None:
            return self
        return replace(
            self,
            slots=self.scene_slots,
            measurements=self.scene_measurements,
            columns=self.scene_columns,
            reduce=None,
        )

    @property
    def chunk_grid(self) -> tuple[int, ...]:
        """Number of chunks in a shard: along rows, bands, y and x."""
        sides = zip(self.layout.shard, self.layout.chunk, strict=True)
        rows, *others = (whole // part for whole, part in sides)
        return rows, len(self.measurements) if self.bands_are_axis else 1, *others

    def to_json(self) -> dict[str, Any]:
        """Return JSON values. A nodata that JSON cannot hold, such as NaN, becomes a text."""
        told: dict[str, Any] = to_builtins(self)
        for each in (*told["measurements"], *told["scene_measurements"]):
            for of_values in filter(None, (each, each["stored"])):
                of_values["nodata"] = _finite(of_values["nodata"])
        told["default_nodata"] = _finite(told["default_nodata"])
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Return the template that `to_json` has written.

        Raises:
            msgspec.ValidationError: It is not such a template.
        """
        numbers: dict[str, Any] = {
            name: [_with_number(each) for each in told.get(name, ())]
            for name in ("measurements", "scene_measurements")
        }
        numbers["default_nodata"] = _number(told["default_nodata"])
        return msgspec.convert(dict(told) | numbers, cls)

    def columns_missing_in(self, columns: Sequence[ListColumn]) -> tuple[str, ...]:
        """Return the cube's columns that a list does not have. Its rows have no value there."""
        there = {each.name for each in columns}
        return tuple(each.name for each in self.columns if each.name not in there)

    def columns_with(self, columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
        """Return the cube's columns when it has the rows of a list, too."""
        there = {each.name: each for each in columns}
        return tuple(
            replace(each, has_gaps=True) if each.name not in there else each.grown_by(there[each.name])
            for each in self.columns
        )

    def slot_order(self, bands: Sequence[str]) -> tuple[int | None, ...]:
        """Return, for each slot of the cube, its position among a list's bands; None if the list lacks it.

        Raises:
            RequestError: The list has bands that the cube does not have, or one of both has no bands.
        """
        names = [each.name for each in self.slots]
        if names == [None] and not bands:
            return (0,)
        if not bands or not set(bands) <= set(names):
            raise RequestError(
                f"the list's bands are {', '.join(bands) or 'not named'}; "
                f"the cube's are {', '.join(name or 'not named' for name in names)}. "
                "Name only bands of the cube",
                field="sources",
            )
        return tuple(bands.index(name) if name in bands else None for name in names if name is not None)


def check_inherits(
    template: CubeTemplate,
    request: "GatherRequest",
    *,
    slots: Sequence[SourceSlot],
    has_time: bool,
    columns: Sequence[ListColumn],
    first: Mapping[str, Any],
) -> None:
    """Refuse a request, or sources, that do not fit a cube; `check_reduces_alike` looks at ``reduce``.

    Args:
        template: The cube's. Its scenes are compared, where these are reduced to rows.
        request: The checked request. Fields that it does not give are the cube's.
        slots: What was found in the headers of some sources.
        has_time: Whether all rows of the list have a time.
        columns: The list's columns.
        first: The request that made the cube, as JSON values. Empty for a new cube of an archive.

    Raises:
        RequestError: The message names the field, and both values.
    """
    _check_output(template, request, first)
    template = template.of_scenes
    if request.overview != template.overview:
        raise _differs("overview", _overview(template.overview), _overview(request.overview))
    theirs_nodata = [each.source_nodata for each in template.measurements]
    if (
        request.nodata is not None
        and not _is_same(request.nodata, template.default_nodata)  # files may declare another one
        and not all(_is_same(request.nodata, each) for each in theirs_nodata)
    ):
        there = ", ".join(map(_or_none, theirs_nodata))
        raise _differs("nodata", f"nodata {there}", f"nodata {request.nodata}")
    if request.masked and None in theirs_nodata:
        raise RequestError(
            "masked pixels need a nodata value, and the cube has none: leave it out", field="masked"
        )
    if request.mask is not None and (asked := request.mask.mask()) != template.mask:
        there = "no hidden pixels" if template.mask is None else f"pixels {template.mask.in_words()}"
        raise _differs("mask", there, f"pixels {asked.in_words()}")
    if "values" in request.model_fields_set and request.values != template.values:
        raise _differs("values", f"{template.values} values", f"{request.values} ones")
    if has_time != template.has_time:
        raise _differs(
            "sources", _TIMED[template.has_time], _TIMED[has_time], instead=_INSTEAD[template.has_time]
        )
    theirs = {each.name: each for each in template.slots}
    for slot in slots:
        _check_slot(theirs[slot.name], slot, is_aligned=template.is_aligned)
    _check_columns(template, columns)


def _told_of_scenes(reduction: Reduction) -> dict[str, Any]:
    return {
        "reduce": reduction.to_json(),
        "scene_slots": reduction.slots,
        "scene_measurements": reduction.measurements,
        "scene_columns": reduction.columns,
    }


def _finite(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _with_number(told: Mapping[str, Any]) -> dict[str, Any]:
    stored = told.get("stored")
    stored = stored if stored is None else dict(stored) | {"nodata": _number(stored["nodata"])}
    return dict(told) | {"nodata": _number(told["nodata"]), "stored": stored}


def _number(told: float | str | None) -> float | None:
    return float(told) if isinstance(told, str) else told


def _check_output(template: CubeTemplate, request: "GatherRequest", first: Mapping[str, Any]) -> None:
    output = request.output
    for name, theirs in (("codec", template.codec), ("zfp_tolerance", template.zfp_tolerance)):
        asked = getattr(output, name)
        if name in output.model_fields_set and asked != theirs:
            raise _differs(f"output.{name}", _or_none(theirs), _or_none(asked))
    if "bands" in output.model_fields_set and output.has_band_axis != template.bands_are_axis:
        shapes = (f"one array {BANDS} with an axis of bands", "an array for each band")
        raise _differs("output.bands", *(shapes if template.bands_are_axis else reversed(shapes)))
    if "sharding" in output.model_fields_set and output.sharding != template.layout.is_sharded:
        kinds = ("shards", "no shards")
        raise _differs("output.sharding", *(kinds if template.layout.is_sharded else reversed(kinds)))
    of_first = first.get("output", {}) if first else None
    check_layout(template, output, of_first)
    if of_first is not None and output.expected_rows not in (None, expected := of_first.get("expected_rows")):
        raise _differs(
            "output.expected_rows",
            f"shards planned for {'its first rows' if expected is None else f'{expected:,} rows'}",
            f"shards planned for {output.expected_rows:,}",
            instead=_LEAVE_OUT,
        )


def check_layout(template: CubeTemplate, output: "Output", first: Mapping[str, Any] | None) -> None:
    """Refuse chunks and shards that are not the cube's, or are chosen in another way than by ``first``.

    The way of the first gather may be named again, also if its few rows made the shards smaller.

    Args:
        template: The cube's.
        output: Of the request.
        first: ``output`` of the request that made the cube, as JSON values; None if it is not known.

    Raises:
        RequestError: The message names the field, and both values.
    """
    if "layout" not in output.model_fields_set:
        return
    asked = output.layout
    of_first = None if first is None else first.get("layout", "balanced")
    if isinstance(asked, str):
        if of_first is not None and asked != of_first:
            is_named = isinstance(of_first, str)
            there = f"the layout {of_first}" if is_named else f"chunks of {_by(of_first['chunk'])}"
            raise _differs("output.layout", there, f"the layout {asked}", instead=_LEAVE_OUT)
    elif asked.model_dump(mode="json", exclude_defaults=True) != of_first:
        if asked.chunk != template.layout.chunk:
            raise _differs("output.layout.chunk", _by(template.layout.chunk), _by(asked.chunk))
        if asked.shard_rows is not None and asked.shard_rows != template.layout.shard[0]:
            there = str(template.layout.shard[0])
            raise _differs("output.layout.shard_rows", there, str(asked.shard_rows))


def check_reduces_alike(template: CubeTemplate, request: "GatherRequest") -> None:
    """Refuse a request that reduces scenes to other rows than the cube has.

    Raises:
        RequestError: The message names both.
    """
    asked = None if request.reduce is None else request.reduce.told()
    if asked != template.reduce:
        raise _differs("reduce", _describe_reduction(template.reduce), _describe_reduction(asked))


def _describe_reduction(told: Mapping[str, str] | None) -> str:
    if told is None:
        return "a row for each scene"
    ordered = f" by {told['order']}" if "order" in told else ""
    return f"the {told['statistic']}{ordered} of each {told['by']}"


def _check_slot(theirs: SourceSlot, found: SourceSlot, *, is_aligned: bool) -> None:
    of_band = f" of {theirs.name}" if theirs.name is not None else ""
    if found.dtype != theirs.dtype:
        raise _differs("sources", f"dtype {theirs.dtype}{of_band}", found.dtype)
    if found.resampling != theirs.resampling:
        raise _differs("grid.resampling", f"{theirs.resampling}{of_band}", found.resampling)
    if found.bands != theirs.bands:
        raise _differs("bands", f"{_bands(theirs)}{of_band}", _bands(found))
    sizes = [(each.window.width, each.window.height) for each in (theirs, found)]
    if sizes[0] != sizes[1]:
        raise _differs("window", *(f"{width} x {height} pixels" for width, height in sizes))
    places = [Placement.on(each.grid, each.window) for each in (theirs, found)]
    if is_aligned and not places[1].covers_same_pixels_as(places[0]):
        raise _differs("window", *map(_describe_place, places))


def _bands(slot: SourceSlot) -> str:
    return f"{counted(len(slot.bands), 'band')} ({', '.join(map(str, slot.bands))})"


def _check_columns(template: CubeTemplate, columns: Sequence[ListColumn]) -> None:
    theirs = {each.name: each for each in template.columns}
    for each in columns:
        if each.name not in theirs:
            raise _differs(
                "sources", f"the columns {', '.join(theirs) or '(none)'}", f"a column {each.name}, too"
            )
        there = theirs[each.name]
        if each.dtype != there.dtype and (each.dtype, there.dtype) != ("int64", "float64"):
            raise _differs("sources", f"{there.dtype} in the column {each.name}", each.dtype)
        if each.is_large and there.dtype == "float64":
            raise _differs("sources", f"{there.dtype} in the column {each.name}", "integers beyond 2^53")
        if each.varies_in_row and not there.varies_in_row:
            raise _differs("sources", f"one value of {each.name} in each row", "several, one for each band")


def _differs(field: str, theirs: str, asked: str, *, instead: str = "") -> RequestError:
    return RequestError(f"the cube has {theirs}; the new rows would have {asked}{instead}", field=field)


def _is_same(one: float, other: float | None) -> bool:
    """Return whether two numbers are equal. NaN equals NaN."""
    return other is not None and str(float(one)) == str(float(other))


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def _overview(overview: int | str | None) -> str:
    if overview == "auto":
        return "overviews that fit the grid"
    return "full resolution" if overview is None else f"overview {overview}"


_LEAVE_OUT: Final = ": leave it out"

_TIMED: Final = {True: "a time in every row", False: "no time in some rows"}
_INSTEAD: Final = {
    True: ": give each line of the list a time, or say by sources.time (--time) how the names tell it",
    False: ": leave out the list's times and sources.time (--time), or gather a new cube",
}
"""What to do if the rows of a cube have times and new ones lack them, or the other way round."""


def _describe_place(place: Placement) -> str:
    if place.transform is None:
        return f"no georeference and a window at column {place.col_off}, line {place.row_off}"
    crs = (place.crs or "no CRS").partition("\n")[0][:60]
    corner = f"x {place.transform.c:.10g}, y {place.transform.f:.10g}"
    size = f"{abs(place.transform.a):.8g} x {abs(place.transform.e):.8g}"
    return f"a window with its corner at {corner} in {crs} and pixels of {size}"


def _by(lengths: Sequence[int]) -> str:
    return " x ".join(map(str, lengths))
