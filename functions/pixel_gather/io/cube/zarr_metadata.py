"""Describes the cube in Zarr's metadata: codecs, CF attributes, provenance."""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from copy import replace
from datetime import UTC, datetime
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore
from msgspec import Struct, to_builtins

from pixel_gather.core.plan.cube_plan import CubePlan, Measurement, PixelArray
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.results.own_checksum import CHECKSUM, checksum_of
from pixel_gather.io.cube.shard_codec import BLOSC_LEVELS, ZSTD_LEVEL
from pixel_gather.io.cube.tile_codecs import Codec, Codecs, bytes_codec, tile_codecs
from pixel_gather.io.store.object_store import Store
from pixel_gather.version import __version__

if TYPE_CHECKING:  # not in a worker's start
    from obstore import PutMode

    from pixel_gather.core.results.report import Report
    from pixel_gather.core.results.row_coordinates import Coordinate


_UNFINISHED: Final = (
    "NOT COMPLETE: pixels that are not gathered yet read as nodata, and rows have no coordinates; run the "
    "same request again to finish the cube"
)
_IN_DISORDER: Final = "rows are in the order in which they were appended, not in the order of their times"


def zarr_codecs(codec: str, *, itemsize: int) -> Codecs:
    """Return the codecs of a chunk for a codec of the request.

    zfp is described as lossless, because its metadata cannot hold a tolerance. Readers need none. A
    program that writes more rows loses no digits.
    """
    if codec == "zfp":
        reversible = {"name": "imagecodecs_zfp", "configuration": {"header": True, "mode": "reversible"}}
        return {"filters": [], "serializer": reversible, "compressors": []}
    return {"filters": [], "serializer": bytes_codec(itemsize), "compressors": _compressors(codec, itemsize)}


def _compressors(codec: str, itemsize: int) -> list[Codec]:
    if codec == "none":
        return []
    if codec == "zstd":
        return [{"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": False}}]
    name = codec.removeprefix("blosc-")
    settings = {
        "typesize": itemsize,
        "cname": name,
        "clevel": BLOSC_LEVELS[name],
        "shuffle": "bitshuffle",
        "blocksize": 0,
    }
    return [{"name": "blosc", "configuration": settings}]


class ArrayMetadata(Struct, frozen=True, kw_only=True):
    """What an array's ``zarr.json`` tells."""

    shape: Sequence[int]
    chunks: Sequence[int]
    """Shape of its chunks, or of its shards."""

    dtype: str
    """NumPy's name, or ``string``."""

    fill_value: float | str
    """The value of absent chunks."""

    dims: Sequence[str]
    """Names of its dimensions."""

    attributes: Mapping[str, Any]
    codecs: Sequence[Codec] | None = None
    """Codecs of a chunk. None for zarr-python's default, with zstd's checksum."""

    def in_shards(self, shard: Sequence[int]) -> "ArrayMetadata":
        """Return the same with its chunks in shards of this shape."""
        sharding = {
            "chunk_shape": self.chunks,
            "codecs": self.codecs,
            "index_codecs": [bytes_codec(8), {"name": "crc32c"}],
            "index_location": "end",
        }
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
        return replace(self, chunks=shard, codecs=codecs)


def put_pixel_array(
    store: Store,
    plan: CubePlan,
    pixels: PixelArray,
    *,
    is_sharded: bool = True,
    mode: "PutMode" = "overwrite",
) -> None:
    """Put the metadata of an array of pixels; see `put_metadata`.

    Objects of an array that is not sharded are chunks.
    """
    first = pixels.measurements[0]
    coding, itemsize = plan.slots[first.slot].coding, np.dtype(first.dtype).itemsize
    of_bands = [measurement_attributes(each) for each in pixels.measurements]
    array = ArrayMetadata(
        shape=plan.folded(plan.shape),
        chunks=plan.folded(plan.layout.chunk, n_bands=1),
        dtype=first.dtype,
        fill_value=first.fill_value,
        dims=(*plan.leading_dims, "y", "x"),
        # what all bands have in common
        attributes={"long_name": pixels.name}
        | {
            name: value
            for name, value in of_bands[0].items()
            if all(each.get(name) == value for each in of_bands)
        },
        codecs=chunk_codecs(
            zarr_codecs(plan.codec, itemsize=itemsize) if coding is None else tile_codecs(coding)
        ),
    )
    put_metadata(
        store,
        pixels.name,
        array.in_shards(plan.folded(plan.layout.shard)) if is_sharded and plan.layout.is_sharded else array,
        mode=mode,
    )


def chunk_codecs(codecs: Codecs) -> list[Codec]:
    """Return the codecs of a chunk in their order."""
    return [*codecs["filters"], codecs["serializer"], *codecs["compressors"]]


def put_metadata(store: Store, name: str, array: ArrayMetadata, *, mode: "PutMode" = "overwrite") -> None:
    """Put the metadata of an array, byte for byte as zarr-python would.

    Importing zarr-python takes 0.3 s. Then it takes 3 ms for each array. The mode ``create`` raises an error
    if there are metadata.
    """
    fill = array.fill_value
    metadata = {
        "shape": array.shape,
        "data_type": array.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill if isinstance(fill, str) else _fill_in_json(np.dtype(array.dtype).type(fill)),
        "codecs": array.codecs or _default_codecs(array.dtype),
        "attributes": array.attributes,
        "dimension_names": array.dims,
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    content = json.dumps(metadata, indent=2, allow_nan=False).encode()
    obstore.put(store, f"{name}/zarr.json", content, mode=mode, use_multipart=False)


def _default_codecs(dtype: str) -> list[Codec]:
    """Return the codecs that zarr-python chooses, with zstd's checksum."""
    text: Codec = {"name": "vlen-utf8", "configuration": {}}
    return [
        text if dtype == "string" else bytes_codec(np.dtype(dtype).itemsize),
        {"name": "zstd", "configuration": {"level": 0, "checksum": True}},
    ]


def _fill_in_json(value: Any) -> Any:
    """Encode a fill value as Zarr's specification wants it: numbers, and words for NaN and infinities."""
    if value.dtype.kind in "biu":
        return value.item()
    if value.dtype.kind == "c":
        return [_fill_in_json(value.real), _fill_in_json(value.imag)]
    number = float(value)
    if isnan(number):
        return "NaN"
    return number if isfinite(number) else f"{'-' if number < 0 else ''}Infinity"


def measurement_attributes(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement's CF attributes without its scaling, which is known only at the end."""
    attributes: dict[str, Any] = {"long_name": measurement.name}
    if measurement.nodata is not None:
        attributes["_FillValue"] = _encoded_fill(measurement.nodata, np.dtype(measurement.dtype))
    return attributes | measurement.meaning.attributes(measurement.dtype)


def scaling_attributes(measurement: Measurement) -> dict[str, Any]:
    """Return CF's scale and offset, which readers apply. The stored values are raw."""
    if (measurement.scale, measurement.offset) == (1.0, 0.0):
        return {}
    return {"scale_factor": measurement.scale, "add_offset": measurement.offset}


def coordinate_attributes(coordinate: "Coordinate") -> dict[str, Any]:
    """Return a coordinate's attributes. Only a missing time has to be masked by readers."""
    if coordinate.name == "time":
        return coordinate.attributes | {"_FillValue": coordinate.fill}
    return dict(coordinate.attributes)


def group_attributes(plan: CubePlan, report: "Report | None" = None) -> dict[str, Any]:
    """Return the group's attributes: title, request and, if the cube is complete, its report.

    All attributes are text, numbers or lists of these, because netCDF stores no others. So xarray can write
    the cube by ``to_netcdf``. The gather's own record is therefore one JSON text.
    """
    gather = dict(plan.append.origin or _origin_of(plan))
    if report is not None:
        gather["report"] = report.to_json()
        gather["versions"] = [each.to_json() for each in versions_after(plan, report)]
        gather["template"] = CubeTemplate.of(plan, is_aligned=report.is_aligned).to_json()
    comment = _UNFINISHED if report is None else _IN_DISORDER if not report.is_in_time_order else None
    return {
        "Conventions": "CF-1.11",
        "title": _title(plan, plan.n_sources if report is None else report.n_sources),
        "pixel_gather": json.dumps(gather),
        "complete": int(report is not None),
    } | ({} if comment is None else {"comment": comment})


def _origin_of(plan: CubePlan) -> dict[str, Any]:
    """Return what a cube tells of its first gather."""
    origin: dict[str, Any] = {
        "version": __version__,
        "digest": plan.digest,
        "planned_at": datetime.fromtimestamp(plan.planned_at, UTC).isoformat(timespec="microseconds"),
        "request": plan.request,
    }
    return origin if plan.footprints is None else origin | {"footprints": to_builtins(plan.footprints)}


def versions_after(plan: CubePlan, report: "Report") -> tuple[CubeVersion, ...]:
    """Return the versions of a cube when a gather or an append is complete."""
    earlier = plan.append.versions
    kind = "gather" if plan.append.is_first else "append" if plan.n_rows > plan.first_row else "retry"
    added = CubeVersion(
        number=plan.append.version,
        committed_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        n_rows=plan.n_rows,
        n_sources=plan.n_sources,
        n_failed=report.n_failed + report.n_recovered - sum(each.n_failed for each in earlier),
        n_skipped=plan.append.n_skipped,
        digest=plan.digest,
        kind=kind,
        n_retried=plan.append.n_again,
        n_recovered=report.n_recovered - sum(each.n_recovered for each in earlier),
    )
    return (*earlier, added)


def gather_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gather's own record from its cube's attributes.

    Raises:
        KeyError: The attributes have no record.
        TypeError, ValueError: The record is not the JSON text of an object.
    """
    gather: dict[str, Any] = dict(json.loads(attributes["pixel_gather"]))
    return gather


def reduced_by(attributes: Mapping[str, Any]) -> str | None:
    """Return what a cube's rows are reduced by, such as ``month``. None if each row is a scene."""
    try:
        gather = gather_of(attributes)
        reduce = gather.get("template", gather)["reduce"]  # a copy of joined cubes tells it itself
        return None if reduce is None else str(reduce["by"])
    except (ValueError, KeyError, TypeError):  # no gather has written it
        return None


def is_of_chips(root: Any) -> bool:
    """Return whether a group's ``zarr.json`` says that the cube holds chips."""
    try:
        return "windows" in gather_of(root["attributes"]).get("request", {})
    except (ValueError, KeyError, TypeError, AttributeError):  # no gather has written it
        return False


def is_unfinished(root: Any) -> bool:
    """Return whether a group's ``zarr.json`` says that a gather has not finished the cube."""
    try:
        return not root["attributes"]["complete"]
    except (KeyError, TypeError):  # no gather has written it
        return False


def group_content(root: Mapping[str, Any]) -> bytes:
    """Return the content of a group's ``zarr.json``. The gather's record gets the checksum of all of it."""
    gather = gather_of(root["attributes"])
    told = json.dumps(gather | {CHECKSUM: _checksum_of_group(root, gather)})
    return json.dumps(_with_record(root, told)).encode()


def changed_group(root: Mapping[str, Any], gather: Mapping[str, Any]) -> bytes:
    """Return the content of a group's ``zarr.json`` with another record of the gather.

    Damage stays visible: metadata that were not as written get no checksum that says otherwise.
    """
    changed = _with_record(root, json.dumps(gather))
    return group_content(changed) if is_group_as_written(root) else json.dumps(changed).encode()


def is_group_as_written(root: Mapping[str, Any]) -> bool:
    """Return whether a group's metadata are those that were written.

    Raises:
        KeyError, TypeError, ValueError: They are not those of a gather.
    """
    gather = gather_of(root["attributes"])
    return bool(gather.get(CHECKSUM) == _checksum_of_group(root, gather))


def _checksum_of_group(root: Mapping[str, Any], gather: Mapping[str, Any]) -> str:
    """Return the checksum of a group's metadata, with the gather's record as an object, not as text."""
    return checksum_of(_with_record(root, {key: gather[key] for key in gather if key != CHECKSUM}))


def _with_record(root: Mapping[str, Any], record: Any) -> dict[str, Any]:
    return {**root, "attributes": {**root["attributes"], "pixel_gather": record}}


def _title(plan: CubePlan, n_sources: int) -> str:
    if plan.chips is not None:
        n_chips, n_images = plan.folded((plan.n_rows,))
        return f"{n_chips:,} chips of {plan.height} x {plan.width} pixels in {n_images:,} images"
    return f"{plan.height} x {plan.width} pixels of each of {n_sources:,} sources"


def _encoded_fill(value: float, dtype: np.dtype[Any]) -> Any:
    """Encode ``_FillValue`` as xarray does for Zarr v3.

    Floats are base64 of a little-endian double, so that JSON keeps NaN and every digit. They are first
    rounded to the array's dtype like the pixels, or no pixel would equal them.
    """
    if dtype.kind in "iu":
        return int(value)
    stored = dtype.type(value).real
    double = base64.standard_b64encode(struct.pack("<d", float(stored))).decode()
    if dtype.kind == "c":
        return [double, base64.standard_b64encode(struct.pack("<d", 0.0)).decode()]
    return double
