"""Features as bytes, for workers that measure them: ids, places, times and shapes, but no columns."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from pixel_gather.tables.features import Features


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
    wkb: bytes
    sizes: bytes


@dataclass(frozen=True, slots=True)
class PackedFeatures:
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

    def unpacked(self, *, with_shapes: bool = True) -> Features:
        """Return the features.

        Args:
            with_shapes: Whether polygons are wanted. They take most of the memory.
        """
        it = msgspec.msgpack.decode(self.content, type=_Packed)
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


def _shapes(geometries: np.ndarray[Any, Any]) -> _Shapes:
    import shapely  # noqa: PLC0415 # points need none of it

    found = [each or b"" for each in shapely.to_wkb(geometries)]
    return _Shapes(b"".join(found), np.array([len(each) for each in found], "<i8").tobytes())


def _geometries(packed: _Shapes) -> np.ndarray[Any, Any]:
    import shapely  # noqa: PLC0415 # as above

    sizes = np.frombuffer(packed.sizes, "<i8")
    stops = np.cumsum(sizes)
    parts = [
        packed.wkb[stop - size : stop] or None
        for size, stop in zip(sizes.tolist(), stops.tolist(), strict=True)
    ]
    found: np.ndarray[Any, Any] = shapely.from_wkb(np.array(parts, object))
    return found
