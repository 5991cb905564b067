"""Shows a cube of chips as rows, so that whoever reads rows need not know of chips."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import zarr

type Values = np.ndarray[Any, np.dtype[Any]]

_CHIP: Final = "chip"


class RowGroup(Mapping[str, Any]):
    """A group whose arrays have one axis of rows in the place of chips and images."""

    def __init__(self, group: "zarr.Group") -> None:
        """Look at the arrays of a cube of chips."""
        self._arrays: dict[str, Any] = dict(group.arrays())
        self.attrs = group.attrs
        self._dims, self._n = _leading(self._arrays)

    def __getitem__(self, name: str) -> Any:
        """Return an array, with rows if it has chips or images."""
        array = self._arrays[name]
        dims: Sequence[Any] = array.metadata.dimension_names or ()
        return RowArray(array, self._dims, self._n) if set(dims[:1]) & set(self._dims) else array

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the arrays."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._arrays)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """Yield each array with its name."""
        yield from self.items()


def as_rows(group: "zarr.Group") -> "zarr.Group":
    """Return a group, or a view of it as rows if it holds chips."""
    return RowGroup(group) if holds_chips(group) else group  # type: ignore[return-value] # it reads alike


def holds_chips(group: "zarr.Group") -> bool:
    """Return whether a group is a cube of chips."""
    status: Any = group.get("status")
    dims: Sequence[Any] = () if status is None else status.metadata.dimension_names or ()
    return _CHIP in dims[:1]


def stored_array(array: Any) -> Any:
    """Return the array that a view shows, or the array itself if it is none."""
    return array.stored if isinstance(array, RowArray) else array


def _leading(arrays: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[int, int]]:
    """Return the names and the lengths of the axes of chips and images."""
    status = arrays["status"]
    dims: Sequence[Any] = status.metadata.dimension_names
    chip, image = dims[:2]
    n_chips, n_images = status.shape[:2]
    return (chip, image), (n_chips, n_images)


class RowArray:
    """An array of a cube of chips, read by rows: the images of the first chip, then those of the second."""

    def __init__(self, array: Any, dims: tuple[str, str], lengths: tuple[int, int]) -> None:
        """Look at an array of chips, of images, or of both."""
        names = array.metadata.dimension_names
        self.stored = array
        self._has = tuple(dim in names[:2] for dim in dims)
        self._lengths = lengths
        self._others = array.shape[sum(self._has) :]
        self.metadata = SimpleNamespace(dimension_names=(dims[0], *names[sum(self._has) :]))
        self.dtype, self.attrs, self.fill_value = array.dtype, array.attrs, array.fill_value
        self.shape = (prod(lengths), *self._others)
        self.ndim = len(self.shape)
        self.chunks = self._in_rows(array.chunks)
        self.shards = None if array.shards is None else self._in_rows(array.shards)

    @property
    def oindex(self) -> "RowArray":
        """Itself: rows by number are always an index of their own axis."""
        return self

    def _in_rows(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        n_leading = sum(self._has)
        return (prod(lengths[:n_leading]), *lengths[n_leading:])

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Values:
        """Return all rows."""
        found: Values = np.asarray(self[:])
        return found if dtype is None else found.astype(dtype, copy=bool(copy))

    def __getitem__(self, key: Any) -> Any:
        """Return some rows; a number, a slice or an array of numbers selects them."""
        first, *others = key if isinstance(key, tuple) else (key,)
        n_rows, n_images = self.shape[0], self._lengths[1]
        if first is Ellipsis:
            first, others = slice(None), []
        if isinstance(first, slice):
            rows = np.arange(n_rows)[first]
        else:
            rows = np.atleast_1d(np.arange(n_rows)[first])
        if not len(rows):
            return np.empty((0, *self._others), self.dtype)
        low, high = int(rows.min()) // n_images, int(rows.max()) // n_images + 1
        found = self._rows_of_chips(low, high, tuple(others))[rows - low * n_images]
        return found if isinstance(first, slice) or np.ndim(first) else found[0]

    def _rows_of_chips(self, low: int, high: int, others: tuple[Any, ...]) -> Values:
        """Return the rows of chips [low, high), with a choice along the other axes."""
        n_images = self._lengths[1]
        of_chip, of_image = self._has
        chips = (slice(low, high),) if of_chip else ()
        images = (slice(None),) if of_image else ()
        values = np.asarray(self.stored[(*chips, *images, *others)])
        if not of_image:
            return np.repeat(values, n_images, axis=0)
        if not of_chip:
            return np.tile(values, (high - low, *(1 for _ in values.shape[1:])))
        return values.reshape(-1, *values.shape[2:])
