"""Arrays without pixels, as zarr-python reads them."""

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, boolean_dtypes, floating_dtypes, integer_dtypes
from obstore.store import MemoryStore
from zarr.codecs import ZstdCodec
from zarr.storage import ObjectStore

from pixel_gather.io.cube.array_chunks import encode_chunk, put_array, put_rows

_NUMBERS = arrays(
    dtype=integer_dtypes() | floating_dtypes(sizes=(32, 64)) | boolean_dtypes(),
    shape=array_shapes(max_dims=3),
)
_TEXTS = st.lists(st.text(st.characters(codec="utf-8")), min_size=1).map(
    lambda texts: np.array(texts, dtype=object)
)


def _read(store: Any, name: str = "a") -> Any:
    return zarr.open_array(ObjectStore(store), path=name)


@pytest.mark.long
@given(values=_NUMBERS | _TEXTS, chunk_rows=st.integers(1, 5))
def test_zarr_reads_what_was_put(values: np.ndarray[Any, Any], chunk_rows: int) -> None:
    """Numbers in any byte order and texts come back, also if the last chunk is not full."""
    store: Any = MemoryStore()

    dims = ("time", "y", "x")[: values.ndim]
    put_array(
        store, "a", values, chunks=(chunk_rows, *values.shape[1:]), dims=dims, attributes={"units": "1"}
    )

    found = _read(store)
    np.testing.assert_array_equal(found[...], values)
    assert found.metadata.dimension_names == dims
    assert dict(found.attrs) == {"units": "1"}


@pytest.mark.parametrize("value", [7, 1.5, True])
def test_zarr_reads_a_single_value(value: float) -> None:
    """An array without a dimension has one chunk."""
    store: Any = MemoryStore()

    put_array(store, "a", np.array(value), dims=())

    assert _read(store)[()] == value


@pytest.mark.parametrize(
    ("values", "fill_value"),
    [
        (np.array([1.5, 2.5, 3.5]), np.nan),
        (np.array(["a", "bä", ""], dtype=object), "-"),
        (np.array([1, 2, 3]), 9),
    ],
)
def test_rows_are_put_chunk_by_chunk(values: np.ndarray[Any, Any], fill_value: Any) -> None:
    """Each run begins where a chunk does. The last chunk holds the fill value behind its rows."""
    store: Any = MemoryStore()
    put_array(store, "a", values[:0], chunks=(2,), dims=("time",), attributes={}, fill_value=fill_value)

    put_rows(store, "a", 0, values[:2], chunk_rows=2, fill_value=fill_value)
    put_rows(store, "a", 2, values[2:], chunk_rows=2, fill_value=fill_value)
    found = _read(store)
    found.resize(4)

    expected = np.append(values, np.array([fill_value], dtype=values.dtype))
    np.testing.assert_array_equal(_read(store)[...], expected)


def test_rows_within_a_chunk_are_refused() -> None:
    """They would overwrite the rows before them."""
    store: Any = MemoryStore()

    with pytest.raises(ValueError, match="a: row 3 is within a chunk of 2 rows"):
        put_rows(store, "a", 3, np.zeros(2), chunk_rows=2, fill_value=0)


@pytest.mark.parametrize("values", [np.arange(5000), np.array(["text"] * 5000, dtype=object)])
def test_chunks_are_those_of_zarr_python(values: np.ndarray[Any, Any]) -> None:
    """A reader or a later zarr-python that appends rows finds what it would have written."""
    theirs: Any = {}
    array = zarr.create_array(
        theirs,
        shape=values.shape,
        chunks=values.shape,
        dtype=str if values.dtype == object else values.dtype,
        compressors=ZstdCodec(level=0, checksum=True),
    )
    array[...] = values

    assert encode_chunk(values) == theirs["c/0"].to_bytes()
