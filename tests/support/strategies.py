"""Hypothesis strategies for the types of Pixel Gather, with usual and unusual values."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.request.request import GatherRequest, parse_request
from support.fakes import header_of

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
CODECS = ("none", "zstd", "blosc-lz4", "blosc-zstd")

finite = st.floats(-1e7, 1e7, allow_nan=False).map(lambda value: round(value, 3))
_longitudes = st.floats(-360, 360).map(lambda value: round(value, 3))
_latitudes = st.floats(-90, 90).map(lambda value: round(value, 3))


def windows(reach: int = 40) -> st.SearchStrategy[Window]:
    """Windows near the origin, also with negative offsets."""
    offsets, sizes = st.integers(-reach, reach), st.integers(1, reach)
    return st.builds(Window, col_off=offsets, row_off=offsets, width=sizes, height=sizes)


@st.composite
def windows_touching(draw: st.DrawFn, width: int, height: int) -> Window:
    """Windows that share at least one pixel with a raster. They may overhang it on any side."""
    size = draw(st.integers(1, 2 * width)), draw(st.integers(1, 2 * height))
    return Window(
        col_off=draw(st.integers(1 - size[0], width - 1)),
        row_off=draw(st.integers(1 - size[1], height - 1)),
        width=size[0],
        height=size[1],
    )


@st.composite
def transforms(draw: st.DrawFn) -> Transform:
    """Usable transforms: north up, south up, or rotated."""
    side = draw(st.sampled_from((1e-4, 0.5, 1.0, 10.0, 30.0)))
    b, d = draw(st.sampled_from(((0.0, 0.0), (0.2 * side, 0.3 * side))))
    sign = draw(st.sampled_from((-1.0, 1.0)))
    return Transform(side, b, draw(finite), d, sign * side, draw(finite))


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """Headers of images of every dtype and size."""
    dtype = draw(st.sampled_from(INTEGERS + FLOATS + COMPLEXES))
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 300), st.integers(1, 300)))
    return header_of(
        np.broadcast_to(np.zeros((), dtype), shape),
        "s3://bucket/a.tif",
        transform=draw(st.none() | transforms()),
        crs=draw(st.sampled_from((None, "EPSG:4326", "EPSG:32631"))),
        nodata=draw(st.none() | st.integers(0, 100)),
        tile_width=draw(st.integers(1, 64)),
        tile_height=draw(st.integers(1, 64)),
    )


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, int, int]) -> Layout:
    """Layouts of a cube. Shards and chunks may overhang its end, and shards are as wide as it."""
    chunk = tuple(draw(st.integers(1, length + 2)) for length in shape)
    per_shard = draw(st.integers(1, 3)), draw(st.integers(1, 3)), -(-shape[2] // chunk[2])
    return Layout(
        chunk=(chunk[0], chunk[1], chunk[2]),
        shard=(chunk[0] * per_shard[0], chunk[1] * per_shard[1], chunk[2] * per_shard[2]),
    )


def images(shape: Any, dtypes: tuple[str, ...] = INTEGERS + FLOATS + COMPLEXES) -> st.SearchStrategy[Pixels]:
    """Arrays of arbitrary bits: NaNs with payloads, -0.0, infinities."""

    def of_bits(dtype: str) -> st.SearchStrategy[Pixels]:
        kind = np.dtype(dtype)
        nbytes = kind.itemsize
        raw = npst.arrays("u1", (*shape, nbytes), fill=st.sampled_from((0, 0, 255)))
        return raw.map(lambda bits: bits.view(kind)[..., 0])

    return st.sampled_from(dtypes).flatmap(of_bits)


_window_requests = st.one_of(
    st.just("centre"),
    st.builds(lambda col, row: {"tile": [col, row]}, st.integers(0, 99), st.integers(0, 99)),
    windows().map(lambda w: {"pixels": [w.col_off, w.row_off, w.width, w.height]}),
    st.builds(
        lambda x, y, crs: {"bbox": [x, y, x + 1, y + 1]} | crs,
        finite,
        finite,
        st.sampled_from(({"crs": "source"}, {"crs": "EPSG:32631"})),
    ),
    st.builds(lambda x, y: {"bbox": [x, y, x + 1, y + 1]}, _longitudes, _latitudes),
    st.builds(
        lambda x, y, size: {"point": [x, y]} | size,
        _longitudes,
        _latitudes,
        st.sampled_from(({}, {"size": [3, 5]})),
    ),
)

_outputs = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "layout": st.sampled_from(("balanced", "slice", "series", {"chunk": [1, 2, 3]})),
            "codec": st.sampled_from(CODECS),
        },
    ),
    st.builds(
        lambda tolerance: {"codec": "zfp", "zfp_tolerance": tolerance}, st.sampled_from((0, 0.5, 1e-9))
    ),
)


def requests() -> st.SearchStrategy[GatherRequest]:
    """Valid requests of every kind, as users write them."""
    given = st.fixed_dictionaries(
        {
            "sources": st.one_of(
                st.lists(st.text(min_size=1), min_size=1, max_size=3),
                st.just("list.csv"),
                st.just({"prefix": "s3://bucket/a/", "glob": "*.tif"}),
            ),
            "window": _window_requests,
        },
        optional={
            "bands": st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
            "overview": st.integers(0, 5),
            "masked": st.booleans(),
            "nodata": st.one_of(st.integers(-9, 2**64 - 1), finite),
            "grid": st.sampled_from(("any", "same")),
            "output": _outputs,
            "limits": st.fixed_dictionaries(
                {}, optional={"usd": st.floats(0, 9), "files": st.integers(1, 9)}
            ),
        },
    )
    return given.map(parse_request)
