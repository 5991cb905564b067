"""zarr-python reads the encoded shards bit by bit."""

import asyncio
import os
import threading
from contextlib import nullcontext
from typing import Any

import numcodecs  # type: ignore[import-untyped] # it ships no types
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from imagecodecs.zarr import register_codecs
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.io.cube.chunk_memory import ChunkMemory, LentMemory
from pixel_gather.io.cube.shard_codec import (
    ShardEncoder,
    chunk_encoder,
    decode_chunk,
    encode_shard,
    with_unique_bytes,
)
from pixel_gather.io.cube.zarr_metadata import zarr_codecs
from support.in_loop import in_loop
from support.strategies import CODECS, COMPLEXES, FLOATS, INTEGERS, images, layouts

register_codecs("imagecodecs_zfp")


def encode(
    pixels: Pixels, layout: Layout, codec: str, *, fill: float = 0, tolerance: float | None = None
) -> bytes:
    """Return the object of one shard."""
    encoder = chunk_encoder(codec, itemsize=pixels.itemsize, fill_value=fill, zfp_tolerance=tolerance)
    coroutine = encode_shard(pixels, shard=layout.shard, chunk=layout.chunk, fill_value=fill, encode=encoder)
    return b"".join(asyncio.run(coroutine))


def read_back(
    pixels: Pixels, layout: Layout, codec: str, *, fill: float = 0, tolerance: float | None = None
) -> Pixels:
    """Return the pixels that zarr-python reads of an encoded shard."""
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=pixels.shape,
        chunks=layout.chunk,
        shards=layout.shard,
        dtype=pixels.dtype,
        fill_value=pixels.dtype.type(fill),
        **zarr_codecs(codec, itemsize=pixels.itemsize),
    )
    content = encode(pixels, layout, codec, fill=fill, tolerance=tolerance)
    buffer = default_buffer_prototype().buffer.from_bytes(content)
    asyncio.run(store.set("c/0/0/0", buffer))
    found: Any = array[...]
    return np.asarray(found)


def bits(pixels: Pixels) -> bytes:
    """Return the bytes of an array, to compare NaN and -0.0 exactly."""
    return np.ascontiguousarray(pixels).tobytes()


@st.composite
def shards(draw: st.DrawFn, dtypes: tuple[str, ...]) -> tuple[Pixels, Layout]:
    """Draw one shard's pixels and its layout, which may be larger than the pixels."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)))
    layout = draw(layouts(shape))
    shape = min(shape[0], layout.shard[0]), min(shape[1], layout.shard[1]), shape[2]
    return draw(images(shape, dtypes)), layout


@pytest.mark.long
@settings(max_examples=120)
@given(shard=shards(INTEGERS + FLOATS + COMPLEXES), codec=st.sampled_from(CODECS), fills=st.booleans())
def test_encode_shard_is_read_back_to_the_bit(shard: tuple[Pixels, Layout], codec: str, fills: bool) -> None:  # noqa: FBT001 # Hypothesis draws it
    """Every dtype, codec and layout keeps every bit: payloads of NaN, -0.0 and infinities."""
    pixels, layout = shard
    fill = float("nan") if fills and pixels.dtype.kind in "fc" else 0

    found = read_back(pixels, layout, codec, fill=fill)

    assert bits(found) == bits(pixels)


@pytest.mark.long
@settings(max_examples=40)
@given(shard=shards(("float32", "float64")))
def test_encode_shard_with_zfp_is_lossless_at_tolerance_0(shard: tuple[Pixels, Layout]) -> None:
    """Tolerance 0 keeps every bit, also of NaN."""
    pixels, layout = shard

    found = read_back(pixels, layout, "zfp", fill=float("nan"), tolerance=0.0)

    assert bits(found) == bits(pixels)


@pytest.mark.long
@settings(max_examples=80)
@given(
    data=st.data(),
    dtype=st.sampled_from(("float32", "float64")),
    nodata=st.sampled_from((float("nan"), -9999.0, float(np.finfo("f4").min), 0.0)),
    tolerance=st.sampled_from((0.5, 1e-2, 1e-9)),
)
def test_encode_shard_with_zfp_stays_within_tolerance_and_keeps_nodata(
    data: st.DataObject, dtype: str, nodata: float, tolerance: float
) -> None:
    """No value moves by more than the tolerance. Nodata stays nodata, and no other pixel becomes nodata."""
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)))
    layout = data.draw(layouts(shape))
    shape = min(shape[0], layout.shard[0]), min(shape[1], layout.shard[1]), shape[2]
    numbers = st.sampled_from((nodata, 0.25, -3.75, 1234.5, 5e-5))
    pixels = data.draw(
        npst.arrays(dtype, shape, elements=numbers.map(lambda v: float(np.dtype(dtype).type(v))))
    )

    found = read_back(pixels, layout, "zfp", fill=nodata, tolerance=tolerance)

    is_nodata = np.isnan(pixels) if np.isnan(nodata) else pixels == pixels.dtype.type(nodata)
    assert bits(found[is_nodata]) == bits(pixels[is_nodata])
    assert np.all(np.abs(found[~is_nodata] - pixels[~is_nodata]) <= tolerance)


@pytest.mark.long
@settings(max_examples=80)
@given(
    pixels=npst.arrays(
        st.sampled_from(("uint8", "int16", "float32", "float64", "complex128")),
        st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(1, 70)),
        elements=st.integers(0, 3),
        fill=st.nothing(),
    ),
    is_noise=st.booleans(),
    codec=st.sampled_from(("blosc-lz4", "blosc-zstd", "zstd")),
)
def test_unique_chunks_differ_and_are_decoded_as_they_were(
    *, pixels: Pixels, is_noise: bool, codec: str
) -> None:
    """What cannot be compressed, too. The library that zarr-python uses knows nothing of it."""
    if is_noise:
        pixels = np.random.default_rng(0).integers(0, 256, pixels.nbytes, "uint8").view(pixels.dtype)
    chunk = chunk_encoder(codec, itemsize=pixels.itemsize, fill_value=0)(pixels)
    decoder = numcodecs.Zstd() if codec == "zstd" else numcodecs.Blosc()

    one, other = (b"".join(with_unique_bytes(chunk, codec)) for _ in range(2))

    assert len({bytes(chunk), one, other}) == 3
    assert len(one) <= len(chunk) + 32
    for each in (bytes(chunk), one, other):
        assert bytes(decoder.decode(each)) == pixels.tobytes()


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_only_a_chunk_of_the_same_size_is_decoded(codec: str, n_rows: int) -> None:
    """A smaller one would leave pixels as they were in memory."""
    pixels = np.arange(n_rows * 16, dtype="float32").reshape(n_rows, 4, 4)
    content = bytes(chunk_encoder(codec, itemsize=4, fill_value=0)(pixels))
    out = np.empty((2, 4, 4), "float32")

    with nullcontext() if n_rows == 2 else pytest.raises((ValueError, RuntimeError)):
        decode_chunk(content, codec, out)
    assert n_rows != 2 or np.array_equal(out, pixels)


@pytest.mark.parametrize("codec", CODECS)
def test_encode_shard_leaves_out_chunks_of_nothing_but_fill(codec: str) -> None:
    """A shard of failed rows has only its index."""
    layout = Layout(chunk=(1, 4, 4), shard=(2, 4, 8))

    content = encode(np.full((2, 4, 8), 7, "uint16"), layout, codec, fill=7)

    assert len(content) == 4 * 16 + 4


def test_encode_shard_keeps_minus_zero_where_zero_is_the_fill() -> None:
    """A chunk is left out only if every bit equals the fill value."""
    pixels = np.full((1, 4, 4), -0.0, "float32")

    found = read_back(pixels, Layout(chunk=(1, 4, 4), shard=(1, 4, 4)), "none")

    assert np.signbit(found).all()


def test_encode_shard_is_the_same_whatever_the_order_in_memory() -> None:
    """Views with strides and of other byte order give the same object."""
    layout = Layout(chunk=(2, 3, 2), shard=(2, 6, 4))
    pixels = np.arange(48, dtype="int32").reshape(2, 6, 4)

    plain = encode(pixels, layout, "zstd")

    assert encode(np.asfortranarray(pixels), layout, "zstd") == plain
    assert encode(np.repeat(pixels, 2, axis=0)[::2], layout, "zstd") == plain
    assert encode(pixels.astype(">i4"), layout, "zstd") == plain


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("top", [3, 65_535], ids=["compressible", "noise"])
def test_shards_share_memory_one_after_another(codec: str, top: int) -> None:
    """Parts stay as they are until their shard is closed. The next shard then takes no fresh memory."""
    layout, n_chunks = Layout(chunk=(1, 16, 16), shard=(4, 64, 64)), 64
    rng, memory = np.random.default_rng(1), ChunkMemory()
    shards = [rng.integers(1, top, (4, 60, 64)).astype("uint16") for _ in range(3)]

    def begun(pixels: Pixels) -> ShardEncoder:
        lent = LentMemory(memory)
        compress = chunk_encoder(codec, itemsize=pixels.itemsize, fill_value=0, take=lent.take)
        encoder = ShardEncoder(
            [pixels], shard=layout.shard, chunk=layout.chunk, fill_value=0, encode=compress, memory=lent
        )
        asyncio.run(encoder.encode_rows(0, len(pixels)))
        return encoder

    first, second = (begun(pixels) for pixels in shards[:2])
    for encoder, pixels in zip((first, second), shards[:2], strict=True):
        assert b"".join(encoder.parts()) == encode(pixels, layout, codec)
    first.close()
    n_free = memory.n_free
    third = begun(shards[2])

    assert b"".join(third.parts()) == encode(shards[2], layout, codec)
    assert b"".join(second.parts()) == encode(shards[1], layout, codec)
    third.close()
    assert n_free >= n_chunks
    assert memory.n_free < n_free + n_chunks  # each thread may have one more for itself


@in_loop
async def test_encode_shard_leaves_the_event_loop_free_and_uses_every_core() -> None:
    """The loop runs on while chunks are compressed, as many at one time as there are cores."""
    n_cores = os.process_cpu_count() or 1
    pixels = np.ones((n_cores, 4, 4), "uint16")
    all_at_work, loop_went_on = threading.Barrier(n_cores), threading.Event()
    threads = set[int]()

    def encoder(chunk: Pixels) -> bytes:
        threads.add(threading.get_ident())
        all_at_work.wait(timeout=10)
        assert loop_went_on.wait(timeout=10)
        return chunk.tobytes()

    asyncio.get_running_loop().call_soon(loop_went_on.set)  # once this has let go of the loop
    parts = await encode_shard(pixels, shard=(n_cores, 4, 4), chunk=(1, 4, 4), fill_value=0, encode=encoder)

    assert parts[:-1] == [pixels[row].tobytes() for row in range(n_cores)]
    assert len(threads) == n_cores
    assert threading.get_ident() not in threads
