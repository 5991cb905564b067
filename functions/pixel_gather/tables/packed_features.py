"""Features as bytes, for workers that measure them: ids, places, times and shapes, but no columns."""

from typing import Any, Final

import msgspec
import numpy as np

from pixel_gather.core.stores import unpack
from pixel_gather.tables.features import Features
from pixel_gather.tables.shapes import Shapes

FEATURES_KEY: Final = "features"
"""Key of the file among a table's control files."""


class _Packed(msgspec.Struct, array_like=True):
    crs: str
    numbers: bytes | None
    texts: list[str] | None
    xs: bytes
    ys: bytes
    times_us: bytes | None
    problems: bytes | None
    shapes: "_Shapes | None"
    notes: tuple[str, ...]


class _Shapes(msgspec.Struct, array_like=True):
    wkb: memoryview
    sizes: bytes


def pack_features(features: Features) -> bytes:
    """Return features as bytes."""
    is_text = features.ids.dtype == object
    packed = _Packed(
        crs=features.crs,
        numbers=None if is_text else _bytes(features.ids, "<i8"),
        texts=features.ids.tolist() if is_text else None,
        xs=_bytes(features.xs, "<f8"),
        ys=_bytes(features.ys, "<f8"),
        times_us=None if features.times_us is None else _bytes(features.times_us, "<i8"),
        problems=None if features.problems is None else features.problems.tobytes(),
        shapes=None if features.geometries is None else _shapes(features.geometries),
        notes=features.notes,
    )
    return msgspec.msgpack.encode(packed)


def unpack_features(content: bytes, *, with_shapes: bool = True) -> Features:
    """Return features that were packed. Polygons take most of the memory.

    Raises:
        StoreError: The file is damaged.
    """
    it = unpack(content, _Packed, key=FEATURES_KEY)
    geometries = None
    if it.shapes is not None and with_shapes:
        geometries = Shapes.of_wkb(it.shapes.wkb, np.frombuffer(it.shapes.sizes, "<i8"))
    return Features(
        ids=np.array(it.texts, object) if it.numbers is None else np.frombuffer(it.numbers, "<i8"),
        xs=np.frombuffer(it.xs, "<f8"),
        ys=np.frombuffer(it.ys, "<f8"),
        crs=it.crs,
        geometries=geometries,
        times_us=None if it.times_us is None else np.frombuffer(it.times_us, "<i8"),
        problems=None if it.problems is None else np.frombuffer(it.problems, np.uint8),
        notes=it.notes,
    )


def _bytes(values: np.ndarray[Any, Any], dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype).tobytes()


def _shapes(shapes: Shapes) -> _Shapes:
    content = bytearray()
    for part in shapes.blocks():
        content += b"".join(each or b"" for each in shapes.wkb(part))
    return _Shapes(memoryview(content), _bytes(shapes.sizes, "<i8"))
