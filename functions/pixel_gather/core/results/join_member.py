"""A cube that can be joined with others, as its ``zarr.json`` and its ``rows.parquet`` describe it. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import NOT_OF_A_CUBE, RequestError, StoreError, why_no_cube
from pixel_gather.core.model.band_meaning import SCALED_UNITS, UNITS
from pixel_gather.core.results.row_coordinates import Values

PRESENCE: Final = "presence"

_READ: Final = 1
"""The format of the table's metadata that this version reads."""

_ATTRIBUTES: Final = ("_FillValue", "scale_factor", "add_offset", UNITS, SCALED_UNITS)
"""Attributes that change what a pixel means. Members of one array have the same."""

OF_PIXELS: Final = ("nodata", "scale_factor", "add_offset")
"""Coordinates that say what a pixel means, if the rows of a cube differ in it.

Every table of rows has them as columns.
"""

_GRID: Final = ("spatial:transform", "proj:code", "proj:wkt2")
"""Attributes of a cube's group that say where its pixels lie."""


class MemberShard(Struct, frozen=True, kw_only=True):
    """One object with pixels of a member."""

    measurement: str
    index: tuple[int, ...]
    """Position in the member's grid of shards: (row, y, x)."""

    key: str
    """Below the member's folder, such as ``band_1/c/0/0/0``."""

    nbytes: int
    etag: str


class Member(Struct, frozen=True, kw_only=True, eq=False):
    """One complete cube."""

    place: str
    """Its folder: ``s3://bucket/prefix`` or ``file:///folder``."""

    shown: str
    """Its folder, as errors name it."""

    version: str
    """ETag of its ``zarr.json``."""

    digest: str
    """That of its first gather."""

    dims: tuple[str, ...]
    shape: tuple[int, int, int]
    """(row, y, x) of every measurement."""

    shard_rows: int
    """Rows in one shard."""

    shards: tuple[MemberShard, ...]
    measurements: tuple[str, ...]
    arrays: Mapping[str, Mapping[str, Any]]
    """Zarr's metadata of all arrays, by name."""

    attributes: Mapping[str, Any]
    """Those of its group."""

    columns: Mapping[str, Values]
    """Values of its rows, by name, as `read_table` returns them."""

    table: Mapping[str, Any]
    """Metadata of its ``rows.parquet``."""

    values: str = "raw"
    """As `CubePlan.values`."""

    reduce: Mapping[str, str] | None = None
    """As `CubeTemplate.reduce`."""

    @property
    def n_rows(self) -> int:
        """Number of its rows."""
        return self.shape[0]

    @property
    def exists(self) -> Values:
        """1 for each row, 0 for padding within it. Only a copy of joined cubes has padding."""
        return self.columns.get(PRESENCE, np.ones(self.n_rows, dtype="uint8"))

    @property
    def n_padded(self) -> int:
        """Number of its rows, rounded up to whole shards."""
        return -(-self.n_rows // self.shard_rows) * self.shard_rows

    @property
    def of_pixels(self) -> tuple[str, ...]:
        """Those of `OF_PIXELS` that this cube has. Without them, its pixels cannot be interpreted."""
        return tuple(name for name in OF_PIXELS if name in self.arrays)

    def kind(self, *, any_grid: bool) -> dict[str, Any]:
        """Return what members of one array have in common.

        Args:
            any_grid: Leave out where the pixels lie.
        """
        found: dict[str, Any] = {"axes": list(self.dims), "window (y, x)": list(self.shape[1:])}
        if not any_grid:
            found["grid"] = {name: self.attributes.get(name) for name in _GRID}
        if self.values != "raw":
            found["values"] = self.values
        if self.reduce:
            found["reduce"] = self.reduce
        found["measurements"] = list(self.measurements)
        for name in self.measurements:
            array = self.arrays[name]
            found[f"dtype of {name}"] = array["data_type"]
            found[f"shard of {name}"] = array["chunk_grid"]
            found[f"chunk and codec of {name}"] = array["codecs"]
            found[f"fill value of {name}"] = array["fill_value"]
            found[f"nodata and scaling of {name}"] = {
                each: array["attributes"].get(each) for each in _ATTRIBUTES
            }
        return found


def make_member(
    place: str,
    root: bytes,
    *,
    shown: str,
    version: str,
    table: Mapping[str, Any],
    columns: Mapping[str, Values],
) -> Member:
    """Return a cube that can be joined.

    Args:
        place: Its folder, as an href.
        root: Content of its ``zarr.json``.
        shown: Its folder, as errors name it.
        version: ETag of that.
        table: Metadata of its ``rows.parquet``.
        columns: Values of its rows.

    Raises:
        StoreError: It is not complete, it is no cube, or its parts do not belong together.
    """
    # What does zarr.json tell of the gather?
    try:
        content = json.loads(root)
        attributes = content["attributes"]
        gather = json.loads(attributes["pixel_gather"])
        digest = str(gather["digest"])
        template = gather.get("template", gather)  # a copy of joined cubes tells some of it itself
        values, reduce = str(template.get("values", "raw")), template.get("reduce")
    except NOT_OF_A_CUBE as error:
        raise StoreError(f"{shown}: {why_no_cube(error)}") from error
    # Can cubes of this kind be joined?
    if tuple(table.get("dims", ()))[:1] == ("chip",):
        raise RequestError(
            f"{shown} is a cube of chips, which cannot be joined: leave it out, or gather the chips of all "
            "cubes into one by output.append_to (--append-to)",
            field="cubes",
        )
    if "band_axis" in table:
        raise RequestError(
            f"{shown} has an axis of bands; only cubes with arrays can be joined", field="cubes"
        )
    if not attributes.get("complete"):
        raise StoreError(f"{shown}: this cube is not complete: run its request again to finish it, then join")
    if table.get("format") != _READ:
        raise StoreError(
            f"{shown}: its rows.parquet has format {table.get('format')}; this version of Pixel Gather joins "
            f"format {_READ}"
        )
    try:
        # What do the arrays look like, and which shards are stored?
        arrays = content["consolidated_metadata"]["metadata"]
        measurements = tuple(table["dtypes"])
        shape, dims = _triple(table["shape"]), tuple(table["dims"])
        found = tuple(_shard(key, int(nbytes), str(etag)) for key, nbytes, etag in table["shards"])
        stored = {tuple(arrays[name]["shape"]) for name in measurements}
        shard_rows = int(arrays[measurements[0]]["chunk_grid"]["configuration"]["chunk_shape"][0])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(f"{shown}: its zarr.json or rows.parquet is damaged ({error!r})") from error
    # Both files have to be of one version of the cube.
    if (
        table["digest"] != digest
        or stored != {shape}
        or any(len(each) != shape[0] for each in columns.values())
    ):
        raise StoreError(
            f"{shown}: it has changed since its rows.parquet was written: zarr.json and rows.parquet are of "
            "different versions. Run its request again to finish it, then join"
        )
    return Member(
        place=place,
        shown=shown,
        version=version,
        digest=digest,
        dims=dims,
        shape=shape,
        shard_rows=shard_rows,
        shards=found,
        measurements=measurements,
        arrays=arrays,
        attributes=attributes,
        columns=columns,
        table=table,
        values=values,
        reduce=reduce,
    )


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the name of the first thing in which two kinds differ."""
    names = dict.fromkeys((*one, *other))
    return next((name for name in names if one.get(name) != other.get(name)), "nothing")


def _shard(key: str, nbytes: int, etag: str) -> MemberShard:
    measurement, _, place = key.partition("/c/")
    index = tuple(int(part) for part in place.split("/"))
    return MemberShard(measurement=measurement, index=index, key=key, nbytes=nbytes, etag=etag)


def _triple(values: Sequence[Any]) -> tuple[int, int, int]:
    rows, height, width = values
    return int(rows), int(height), int(width)
