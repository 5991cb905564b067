"""Features as bytes, for workers that measure them: ids, places, times and shapes, but no columns."""

from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

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
    notes: list[str]


class _Shapes(msgspec.Struct, array_like=True):
    wkb: memoryview
    sizes: bytes


class PackedFeatures(Struct, frozen=True):
    """Reads packed features."""

    content: bytes

    @classmethod
    def of(cls, features: Features) -> "PackedFeatures":
        """Pack features."""
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
            notes=list(features.notes),
        )
        return cls(msgspec.msgpack.encode(packed))

    def unpack(self, *, with_shapes: bool = True) -> Features:
        """Return the features.

        Polygons take most of the memory.

        Raises:
            StoreError: The file is damaged.
        """
        it = unpack(self.content, _Packed, key=FEATURES_KEY)
        ids = np.array(it.texts, object) if it.numbers is None else np.frombuffer(it.numbers, "<i8")
        return Features(
            ids=ids,
            xs=np.frombuffer(it.xs, "<f8"),
            ys=np.frombuffer(it.ys, "<f8"),
            crs=it.crs,
            geometries=None if it.shapes is None or not with_shapes else _geometries(it.shapes),
            times_us=None if it.times_us is None else np.frombuffer(it.times_us, "<i8"),
            problems=None if it.problems is None else np.frombuffer(it.problems, np.uint8),
            notes=tuple(it.notes),
        )


def _bytes(values: np.ndarray[Any, Any], dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype).tobytes()


def _shapes(shapes: Shapes) -> _Shapes:
    content = bytearray()
    for part in shapes.blocks():
        content += b"".join(each or b"" for each in shapes.wkb(part))
    return _Shapes(memoryview(content), _bytes(shapes.sizes, "<i8"))


def _geometries(packed: _Shapes) -> Shapes:
    return Shapes.of_wkb(packed.wkb, np.frombuffer(packed.sizes, "<i8"))
