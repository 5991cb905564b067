"""Shows cubes of chips, and of an axis of bands, as arrays of rows, which is all that most readers know."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.plan.cube_plan import BAND, BANDS

if TYPE_CHECKING:
    import zarr

type Values = np.ndarray[Any, np.dtype[Any]]

_CHIP: Final = "chip"


class _GroupView(Mapping[str, Any]):
    """Arrays by their names, for whoever reads a zarr group."""

    _arrays: Mapping[str, Any]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the arrays."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._arrays)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """Yield each array with its name."""
        yield from self.items()


class RowGroup(_GroupView):
    """A group whose arrays have one axis of rows in the place of chips and images."""

    def __init__(self, group: "zarr.Group") -> None:
        """Look at the arrays of a cube of chips."""
        self._arrays: dict[str, Any] = dict(group.arrays())
        self.attrs = group.attrs
        status = self._arrays["status"]
        chip, image = status.metadata.dimension_names[:2]
        n_chips, n_images = status.shape[:2]
        self._dims, self._n = (chip, image), (n_chips, n_images)

    def __getitem__(self, name: str) -> Any:
        """Return an array, with rows if it has chips or images."""
        array = self._arrays[name]
        dims: Sequence[Any] = array.metadata.dimension_names or ()
        return RowArray(array, self._dims, self._n) if set(dims[:1]) & set(self._dims) else array

    def labels_of_chips(self) -> list[str]:
        """Return the columns of texts, whole numbers and truths that chips have beside their id."""
        return [
            name
            for name, array in self._arrays.items()
            if array.metadata.dimension_names == (_CHIP,) and array.dtype.kind in "TUOiub" and name != _CHIP
        ]


def as_rows(group: "zarr.Group") -> "zarr.Group":
    """Return a group, or a view of it as arrays of rows if it holds chips or an axis of bands."""
    whole: Any = group.get(BANDS)
    if whole is not None and BAND in (whole.metadata.dimension_names or ()):
        return BandGroup(group)  # type: ignore[return-value] # it reads alike
    return RowGroup(group) if holds_chips(group) else group  # type: ignore[return-value] # as above


class BandGroup(_GroupView):
    """A group that has an array of rows for each band, in the place of one array with an axis of bands.

    That one can still be asked for by its name.
    """

    def __init__(self, group: "zarr.Group") -> None:
        """Look at the arrays."""
        stored = dict(group.arrays())
        self._whole: Any = stored.pop(BANDS)
        names = map(str, np.asarray(stored[BAND][...]))
        of_bands = {name: BandArray(self._whole, name, at) for at, name in enumerate(names)}
        self._arrays: dict[str, Any] = of_bands | stored
        self.attrs = group.attrs

    def __getitem__(self, name: str) -> Any:
        """Return an array."""
        return self._whole if name == BANDS else self._arrays[name]


class BandArray:
    """One band of an array with an axis of bands: shape (row, y, x)."""

    def __init__(self, stored: Any, name: str, band: int) -> None:
        """Look at a band, by its position."""
        self.stored, self._band = stored, band
        rows, _, *on_map = stored.metadata.dimension_names
        self.metadata = SimpleNamespace(dimension_names=(rows, *on_map))
        self.dtype, self.fill_value = stored.dtype, stored.fill_value
        self.attrs = dict(stored.attrs) | {"long_name": name}
        self.shape, self.chunks = self._without(stored.shape), self._without(stored.chunks)
        self.shards = None if stored.shards is None else self._without(stored.shards)
        self.ndim = len(self.shape)

    @staticmethod
    def _without(lengths: tuple[int, ...]) -> tuple[int, ...]:
        return (lengths[0], *lengths[2:])

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Values:
        """Return all rows."""
        found: Values = np.asarray(self[:])
        return found if dtype is None else found.astype(dtype, copy=bool(copy))

    def __getitem__(self, key: Any) -> Any:
        """Return some rows."""
        first, *others = key if isinstance(key, tuple) else (key,)
        return self.stored[(slice(None) if first is Ellipsis else first, self._band, *others)]


def holds_chips(group: "zarr.Group") -> bool:
    """Return whether a group is a cube of chips."""
    status: Any = group.get("status")
    dims: Sequence[Any] = () if status is None else status.metadata.dimension_names or ()
    return _CHIP in dims[:1]


def stored_array(array: Any) -> Any:
    """Return the array that a view shows, or the array itself if it is none."""
    return array.stored if isinstance(array, RowArray | BandArray) else array


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
