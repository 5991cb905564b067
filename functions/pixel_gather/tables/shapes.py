"""Shapes of features: their WKB in a file or one buffer, their boxes in memory.

A million of them take 48 MB besides the WKB.

They are parsed some at a time, where they are needed. Objects of shapely would take a kilobyte each.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.window import Transform

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

type Objects = np.ndarray[Any, Any]
"""Of shapely; None where there is none."""

type Floats = np.ndarray[Any, np.dtype[np.float64]]
type Integers = np.ndarray[Any, np.dtype[np.int64]]

TOGETHER: Final = 16_384
"""Shapes that are parsed at one time."""

_rasterising: Final = threading.Lock()
"""rasterio hides a warning of its own for all threads: two at once would show it, or hide others for ever."""


class Shapes(Struct, frozen=True, kw_only=True):
    """Shapes in two dimensions, in a fixed order. Safe to read from several threads."""

    read: Callable[[int, int], bytes]
    """Returns so many bytes of the WKB of all shapes, from a position on."""

    starts: Integers
    """Of the WKB of each shape."""

    sizes: Integers
    """Of the WKB of each shape; 0 for none."""

    bounds: Floats
    """(shape, 4): west, south, east, north; NaN for none and for empty ones."""

    kinds: frozenset[int]
    """shapely's type ids of shapes that are not empty; unknown, so empty, after `of_wkb`."""

    @classmethod
    def of(cls, blocks: Iterable[Objects]) -> "Shapes":
        """Write shapes to a temporary file, which goes with the object."""
        import shapely  # noqa: PLC0415 # points with coordinates need none of it

        file = tempfile.TemporaryFile(prefix="pixel-gather-")  # noqa: SIM115 # goes with the object
        sizes, bounds, kinds = [np.zeros(0, np.int64)], [np.zeros((0, 4))], set[int]()
        for block in blocks:
            flat = shapely.force_2d(np.asarray(block, object))
            wkbs = [each or b"" for each in shapely.to_wkb(flat)]
            file.writelines(wkbs)
            sizes.append(np.fromiter(map(len, wkbs), np.int64, len(wkbs)))
            bounds.append(shapely.bounds(flat).reshape(-1, 4))
            is_there = ~(shapely.is_missing(flat) | shapely.is_empty(flat))
            kinds |= set(shapely.get_type_id(flat[is_there]).tolist())
        file.flush()
        whole = np.concatenate(sizes)
        return cls(
            read=lambda nbytes, at: os.pread(file.fileno(), nbytes, at),
            starts=np.cumsum(whole) - whole,
            sizes=whole,
            bounds=np.concatenate(bounds),
            kinds=frozenset(kinds),
        )

    @classmethod
    def of_array(cls, shapes: Objects) -> "Shapes":
        """Write shapes that are in memory."""
        return cls.of(shapes[at : at + TOGETHER] for at in range(0, len(shapes), TOGETHER))

    @classmethod
    def of_wkb(cls, content: memoryview, sizes: Integers) -> "Shapes":
        """Return shapes whose WKB is in memory, one after the other."""
        import shapely  # noqa: PLC0415 # as above

        found = cls(
            read=lambda nbytes, at: bytes(content[at : at + nbytes]),
            starts=np.cumsum(sizes) - sizes,
            sizes=sizes,
            bounds=np.full((len(sizes), 4), np.nan),
            kinds=frozenset(),
        )
        for part in found.blocks():
            found.bounds[part] = shapely.bounds(found[part])
        return found

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.sizes)

    def __getitem__(self, which: slice | Integers) -> Objects:
        """Parse some of the shapes."""
        import shapely  # noqa: PLC0415 # as above

        parsed: Objects = shapely.from_wkb(np.array(self.wkb(which), object))
        return parsed

    def wkb(self, which: slice | Integers) -> list[bytes | None]:
        """Return the WKB of some of the shapes. What lies side by side is read at once."""
        starts, sizes = self.starts[which], self.sizes[which]
        found: list[bytes | None] = []
        breaks = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
        for run_starts, run_sizes in zip(np.split(starts, breaks), np.split(sizes, breaks), strict=True):
            if not len(run_starts):
                continue
            content, at = self.read(int(run_sizes.sum()), int(run_starts[0])), 0
            for size in run_sizes.tolist():
                found.append(content[at : at + size] or None)
                at += size
        return found

    def blocks(self) -> Iterator[slice]:
        """Yield so many at a time as are parsed together."""
        for start in range(0, len(self), TOGETHER):
            yield slice(start, min(start + TOGETHER, len(self)))

    def taken(self, order: Integers) -> "Shapes":
        """Return the shapes in another order, of the same file."""
        return Shapes(
            read=self.read,
            starts=self.starts[order],
            sizes=self.sizes[order],
            bounds=self.bounds[order],
            kinds=self.kinds,
        )

    def map_blocks(self, change: Callable[[Objects, slice], Objects]) -> "Shapes":
        """Return other shapes in another file: what a function returns of each block of them."""
        return Shapes.of(change(self[part], part) for part in self.blocks())


def rasterise(
    shape: "BaseGeometry", size: tuple[int, int], transform: Transform, *, all_touched: bool = False
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return which cells of a grid have their centre in a shape, (y, x): 1 for those, 0 for others.

    Args:
        shape: A polygon.
        size: (height, width) of the grid.
        transform: Of the grid.
        all_touched: Whether cells that the shape touches count, too.
    """
    from rasterio.features import rasterize  # noqa: PLC0415 # 0.4 s
    from rasterio.transform import Affine  # noqa: PLC0415 # as above

    with _rasterising:  # GDAL holds the GIL meanwhile, so nobody waits longer
        return np.asarray(
            rasterize(
                [shape],
                out_shape=size,
                transform=Affine(*transform),
                dtype="uint8",
                all_touched=all_touched,
            )
        )


def union_of(shapes: Sequence["BaseGeometry"]) -> "BaseGeometry":
    """Return the polygons of some shapes as one shape. Points and lines are dropped; it may be empty."""
    import shapely  # noqa: PLC0415 # as above

    parts = shapely.get_parts(shapely.get_parts(shapes))
    areas = [part for part in parts if part.geom_type == "Polygon"]
    return shapely.unary_union(areas) if areas else shapely.MultiPolygon()
