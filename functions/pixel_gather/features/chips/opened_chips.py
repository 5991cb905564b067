"""Cubes of chips that are open for reading."""

import os
from collections.abc import Callable, Iterable, Sequence
from copy import replace
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.io.cube.chip_pixels import ChipPixels, Content
from pixel_gather.io.cube.open_group import finished_arrays
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.store.object_store import Store

type Values = np.ndarray[Any, np.dtype[Any]]
_SAME_DEGREES: Final = 1e-9

type Room = Callable[[tuple[int, ...], np.dtype[Any]], Values]
"""Gives memory for pixels of a shape and a dtype, as `numpy.empty` does."""


class ChipCube(Struct, frozen=True, kw_only=True, eq=False):
    """One cube of those that are opened together."""

    pixels: ChipPixels
    images: slice
    """Where its images are among those of all cubes."""

    order: Values
    """Where each chip of the first cube is in this one."""

    def at(self, numbers: Values) -> tuple[Values, Values]:
        """Return in which shard each of these chips is, and its place in it."""
        shard, within = np.divmod(self.order[numbers], self.pixels.shard_chips)
        return shard, within


class OpenedChips(Struct, frozen=True, kw_only=True, eq=False):
    """The coordinates of all chips in memory, and access to their pixels. Threads may share it."""

    cubes: tuple[ChipCube, ...]
    """Of the same chips. Their images follow one another."""

    columns: dict[str, Values]
    """Along the chips of the first cube."""

    images: Values
    """Time of each image, or its href."""

    status: Values
    """Shape (chip, image), or (chip, image, measurement)."""

    pid: int = msgspec.field(default_factory=os.getpid)
    """Of the process that opened it. The store waits forever in one that is forked from it."""

    @classmethod
    def open(cls, stores: Iterable[tuple[Store, str]]) -> "OpenedChips":
        """Read everything of some cubes but their pixels.

        Raises:
            RequestError: There is no cube, one holds no chips, or its chips or measurements are others.
            StoreError: One is not complete, or cannot be read.
        """
        opened = [_open_one(store, place) for store, place in stores]
        if not opened:
            raise RequestError("give at least one cube of chips", field="cube")
        first = opened[0]
        if len(opened) == 1:
            return first
        cubes: list[ChipCube] = []
        statuses: list[Values] = []
        for each in opened:
            (cube,) = each.cubes
            order = _order(first, each)
            start = cubes[-1].images.stop if cubes else 0
            cubes.append(replace(cube, images=slice(start, start + len(each.images)), order=order))
            statuses.append(each.status[order])
        return replace(
            first,
            cubes=tuple(cubes),
            images=np.concatenate([each.images for each in opened]),
            status=np.concatenate(statuses, axis=1),
        )

    @property
    def n_chips(self) -> int:
        """Chips of the cube."""
        return len(self.status)

    @property
    def shard_chips(self) -> int:
        """Chips in one shard of the first cube."""
        return self.cubes[0].pixels.shard_chips

    @property
    def receipt(self) -> Receipt:
        """The first cube's."""
        return self.cubes[0].pixels.receipt

    def choose_measurements(self, measurements: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of measurements that can be read together.

        Raises:
            RequestError: There is no such measurement, or their dtypes differ.
        """
        dtypes = self.receipt.dtypes
        names = tuple(dtypes) if measurements is None else tuple(measurements)
        if unknown := next((name for name in names if name not in dtypes), None):
            raise RequestError(
                f"there is no measurement {unknown}; there are {', '.join(dtypes)}", field="measurements"
            )
        if len({dtypes[name] for name in names}) != 1:
            said = ", ".join(f"{name} ({dtypes[name]})" for name in names) or "none"
            raise RequestError(f"give measurements of one dtype; these are {said}", field="measurements")
        return names

    def read(self, numbers: Values, measurements: Sequence[str]) -> dict[str, Values]:
        """Return chips by their numbers: pixels of shape (chip, band, image, y, x), status and columns."""
        found = self.empty(numbers, measurements)
        for cube in self.cubes:
            shards, places = cube.at(numbers)
            for shard in np.unique(shards).tolist():
                of_shard = np.flatnonzero(shards == shard)
                within = places[of_shard].tolist()
                for band, name in enumerate(measurements):
                    contents: dict[int, Content] = {}
                    for part in cube.pixels.parts(name, shard, within):
                        contents |= cube.pixels.fetch(part)
                    for at, place in zip(of_shard.tolist(), within, strict=True):
                        out = found["pixels"][at, band, cube.images]
                        cube.pixels.decode(name, contents.get(place), out)
        return found

    def empty(self, numbers: Values, measurements: Sequence[str], room: Room = np.empty) -> dict[str, Values]:
        """Return everything of chips but their pixels, and room for these."""
        receipt = self.receipt
        _, height, width = receipt.shape
        shape = (len(numbers), len(measurements), len(self.images), height, width)
        status = self.status[numbers]
        if status.ndim > 2:  # noqa: PLR2004 # chip and image
            status = np.moveaxis(
                status[..., [list(receipt.dtypes).index(name) for name in measurements]], -1, 1
            )
        return {
            "pixels": room(shape, np.dtype(receipt.dtypes[measurements[0]])),
            "status": status,
            **{name: values[numbers] for name, values in self.columns.items()},
        }


def _open_one(store: Store, place: str) -> OpenedChips:
    receipt = read_receipt(store, place)
    if receipt.images_per_chip is None:
        raise RequestError(
            f"{place} holds no chips: gather it with windows, or open it by open_cube", field="cube"
        )
    arrays = finished_arrays(store, place)
    columns = {name: np.asarray(array[...]) for name, array in arrays.items() if _dims(array) == ("chip",)}
    images = np.asarray(arrays["time" if "time" in arrays else "href"][...])
    pixels = ChipPixels(
        store=store,
        place=place,
        receipt=receipt,
        fill_values={name: arrays[name].fill_value.item() for name in receipt.dtypes},
    )
    n_chips = len(columns["chip"])
    return OpenedChips(
        cubes=(ChipCube(pixels=pixels, images=slice(0, len(images)), order=np.arange(n_chips)),),
        columns={"chip": columns.pop("chip"), **columns},
        images=images.view("datetime64[us]") if "time" in arrays else images,
        status=np.asarray(arrays["status"][...]),
    )


def _order(first: OpenedChips, other: OpenedChips) -> Values:
    """Return where each chip of the first cube is in another one.

    Raises:
        RequestError: The cubes do not fit together. It says what differs.
    """
    place, expected = (each.cubes[0].pixels.place for each in (other, first))
    theirs, ours = ({**_form(each), "ids": each.columns["chip"].dtype} for each in (other, first))
    for what, value in ours.items():
        if theirs[what] != value:
            raise RequestError(
                f"{place} has {what} {theirs[what]}, and {expected} has {value}: open them one by one",
                field="cube",
            )
    if np.array_equal(first.columns["chip"], other.columns["chip"]):
        order = np.arange(first.n_chips)
    else:
        number = {chip: at for at, chip in enumerate(other.columns["chip"].tolist())}
        ids = first.columns["chip"].tolist()
        if lacking := next((chip for chip in ids if chip not in number), None):
            raise RequestError(f"{place} has no chip {lacking}, which {expected} has", field="cube")
        order = np.array([number[chip] for chip in ids], np.int64)
    for name in ("lon", "lat"):
        is_far = np.abs(other.columns[name][order] - first.columns[name]) > _SAME_DEGREES
        if is_far.any():
            chip = first.columns["chip"][is_far][0]
            raise RequestError(f"{place} has chip {chip} at another {name} than {expected}", field="cube")
    return order


def _form(opened: OpenedChips) -> dict[str, Any]:
    """Return what is equal for cubes that are opened together."""
    (cube,) = opened.cubes
    receipt = cube.pixels.receipt
    return {
        "chips of": " x ".join(map(str, receipt.shape[1:])),
        "measurements": ", ".join(f"{name} ({dtype})" for name, dtype in receipt.dtypes.items()),
        "nodata": ", ".join(f"{value}" for value in cube.pixels.fill_values.values()),
        "images by": "time" if opened.images.dtype.kind == "M" else "href",
    }


def _dims(array: Any) -> tuple[str, ...]:
    return tuple(array.metadata.dimension_names or ())
