"""The metadata of arrays of pixels, which are written without zarr-python."""

import json
import math
from itertools import product
from typing import Any

import numpy as np
import obstore
import pytest
import zarr
from obstore.store import MemoryStore
from zarr.codecs import ZstdCodec

from pixel_gather.core.model.tile_coding import TileCoding
from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.io.cube.tile_codecs import Codecs, register_codecs, tile_codecs
from pixel_gather.io.cube.zarr_metadata import (
    ArrayMetadata,
    changed_group,
    chunk_codecs,
    group_content,
    is_group_as_written,
    put_metadata,
    zarr_codecs,
)

_LAYOUT = Layout(chunk=(2, 16, 16), shard=(4, 32, 32))


def written(dtype: str, fill_value: float, codecs: Codecs, *, is_sharded: bool = True) -> str:
    """Return the text of the metadata that this project writes."""
    store = MemoryStore()
    array = ArrayMetadata(
        shape=(5, 32, 32),
        chunks=_LAYOUT.chunk,
        dtype=dtype,
        fill_value=fill_value,
        dims=("source", "y", "x"),
        attributes={"long_name": "band_1"},
        codecs=chunk_codecs(codecs),
    )
    put_metadata(
        store,  # type: ignore[arg-type] # serves as any other, in tests only
        "band_1",
        array.in_shards(_LAYOUT.shard) if is_sharded else array,
    )
    return bytes(obstore.get(store, "band_1/zarr.json").bytes()).decode()


def written_by_zarr(dtype: str, fill_value: float, codecs: Codecs, *, is_sharded: bool = True) -> str:
    """Return the text that zarr-python writes for the same array."""
    register_codecs()
    parts: dict[str, zarr.core.buffer.Buffer] = {}
    zarr.create_array(
        parts,
        shape=(5, 32, 32),
        chunks=_LAYOUT.chunk,
        shards=_LAYOUT.shard if is_sharded else None,
        dtype=dtype,
        fill_value=np.dtype(dtype).type(fill_value),
        dimension_names=("source", "y", "x"),
        attributes={"long_name": "band_1"},
        **codecs,
    )
    return parts["zarr.json"].to_bytes().decode()


def test_an_array_without_shards_is_described_as_by_zarr_python() -> None:
    """A virtual cube has one object per chunk."""
    codecs = zarr_codecs("zstd", itemsize=2)

    assert written("uint16", 0, codecs, is_sharded=False) == written_by_zarr(
        "uint16", 0, codecs, is_sharded=False
    )


@pytest.mark.parametrize("codec", ["none", "zstd", "blosc-lz4", "blosc-zstd", "zfp"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_codecs_are_described_as_by_zarr_python(codec: str, dtype: str) -> None:
    """Each codec of a request, for numbers of one byte and of several."""
    codecs = zarr_codecs(codec, itemsize=np.dtype(dtype).itemsize)

    assert written(dtype, 0, codecs) == written_by_zarr(dtype, 0, codecs)


@pytest.mark.parametrize(
    ("dtype", "fill_value"),
    [
        ("int8", -3),
        ("int64", -(2**63)),
        ("uint64", 2**64 - 1),
        ("float16", 0.1),
        ("float32", -9999.1),
        ("float32", math.nan),
        ("float64", math.inf),
        ("float64", -math.inf),
        ("float64", -0.0),
        ("float64", -1.7976931348623157e308),
        ("complex64", math.nan),
        ("complex128", 3),
    ],
)
def test_fill_values_are_written_as_by_zarr_python(dtype: str, fill_value: float) -> None:
    """Every kind of number, and words for those that JSON lacks."""
    codecs = zarr_codecs("none", itemsize=np.dtype(dtype).itemsize)

    assert written(dtype, fill_value, codecs) == written_by_zarr(dtype, fill_value, codecs)


@pytest.mark.parametrize(
    ("compression", "predictor"),
    [*product(("none", "deflate"), (1, 2, 3)), *product(("zstd", "lzma", "lzw", "packbits"), (1,))],
)
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_tiles_kept_as_they_are_are_described_as_by_zarr_python(
    compression: str, predictor: int, byte_order: str
) -> None:
    """zarr-python knows every codec by the name that is written."""
    dtype = "float32" if predictor == 3 else "uint16"
    coding = TileCoding(
        dtype=dtype,
        is_tiled=True,
        tile_width=16,
        tile_height=16,
        compression=compression,
        predictor=predictor,
        byte_order=byte_order,
        is_interleaved=False,
    )

    assert written(dtype, 0, tile_codecs(coding)) == written_by_zarr(dtype, 0, tile_codecs(coding))


@pytest.mark.parametrize(
    ("dtype", "fill_value"),
    [("string", ""), ("bool", False), ("int64", -(2**63)), ("float32", math.nan), ("uint8", 255)],
)
def test_coordinates_are_described_as_by_zarr_python(dtype: str, fill_value: float | str) -> None:
    """Each kind of coordinate, in chunks without shards."""
    store = MemoryStore()
    parts: dict[str, zarr.core.buffer.Buffer] = {}
    attributes: dict[str, Any] = {"long_name": "a", "flag_values": [0, 1]}
    zarr.create_array(
        parts,
        shape=(5, 3),
        chunks=(5, 3),
        dtype=str if dtype == "string" else dtype,
        fill_value=fill_value,
        compressors=ZstdCodec(level=0, checksum=True),
        dimension_names=("source", "affine"),
        attributes=attributes,
    )

    put_metadata(
        store,  # type: ignore[arg-type] # as above
        "a",
        ArrayMetadata(
            shape=(5, 3),
            chunks=(5, 3),
            dtype=dtype,
            fill_value=fill_value,
            dims=("source", "affine"),
            attributes=attributes,
        ),
    )

    assert bytes(obstore.get(store, "a/zarr.json").bytes()) == parts["zarr.json"].to_bytes()


def test_a_groups_checksum_covers_all_of_it() -> None:
    """Also the text of the gather's record. How JSON is written does not matter."""
    attributes = {"complete": 1, "pixel_gather": json.dumps({"digest": "a", "planned_at": 1.5})}
    written = json.loads(group_content({"zarr_format": 3, "attributes": attributes}))
    record = json.loads(written["attributes"]["pixel_gather"])
    other_record = written["attributes"] | {"pixel_gather": json.dumps(record | {"digest": "b"})}

    assert is_group_as_written(json.loads(json.dumps(written, indent=1, sort_keys=True)))
    assert not is_group_as_written(written | {"zarr_format": 2})
    assert not is_group_as_written(written | {"attributes": written["attributes"] | {"complete": 0}})
    assert not is_group_as_written(written | {"attributes": other_record})


def test_a_change_does_not_hide_damage() -> None:
    """Who notes a claim, or commits a compaction, writes the metadata that are there."""
    attributes = {"complete": 1, "pixel_gather": json.dumps({"digest": "a"})}
    whole = json.loads(group_content({"zarr_format": 3, "attributes": attributes}))
    damaged = whole | {"attributes": whole["attributes"] | {"complete": 0}}
    record = json.loads(whole["attributes"]["pixel_gather"]) | {"fence": "c"}

    assert is_group_as_written(json.loads(changed_group(whole, record)))
    assert not is_group_as_written(json.loads(changed_group(damaged, record)))
