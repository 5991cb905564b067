"""A cube of chips that is open for reading."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.io.cube.chip_pixels import ChipPixels, Content
from pixel_gather.io.cube.open_group import finished_arrays
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.store.object_store import Store

type Values = np.ndarray[Any, np.dtype[Any]]
type Room = Callable[[tuple[int, ...], np.dtype[Any]], Values]
"""Gives memory for pixels of a shape and a dtype, as `numpy.empty` does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedChips:
    """The coordinates of all chips in memory, and access to their pixels. Threads may share it."""

    pixels: ChipPixels
    columns: dict[str, Values]
    """Along the chips."""

    images: Values
    """Time of each image, or its href."""

    status: Values
    """Shape (chip, image), or (chip, image, measurement)."""

    pid: int = field(default_factory=os.getpid)
    """Of the process that opened it. The store waits forever in one that is forked from it."""

    @classmethod
    def open(cls, store: Store, place: str) -> "OpenedChips":
        """Read everything of a cube but its pixels.

        Raises:
            RequestError: It holds no chips.
            StoreError: It is not complete, or cannot be read.
        """
        receipt = read_receipt(store, place)
        if receipt.images_per_chip is None:
            raise RequestError(
                f"{place} holds no chips: gather it with windows, or open it by open_cube", field="cube"
            )
        arrays = finished_arrays(store, place)
        columns = {
            name: np.asarray(array[...]) for name, array in arrays.items() if _dims(array) == ("chip",)
        }
        names = receipt.dtypes
        images = np.asarray(arrays["time" if "time" in arrays else "href"][...])
        return cls(
            pixels=ChipPixels(
                store=store,
                place=place,
                receipt=receipt,
                fill_values={name: arrays[name].fill_value.item() for name in names},
            ),
            columns={"chip": columns.pop("chip"), **columns},
            images=images.view("datetime64[us]") if "time" in arrays else images,
            status=np.asarray(arrays["status"][...]),
        )

    @property
    def n_chips(self) -> int:
        """Chips of the cube."""
        return len(self.status)

    def checked(self, measurements: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of measurements that can be read together.

        Raises:
            RequestError: There is no such measurement, or their dtypes differ.
        """
        dtypes = self.pixels.receipt.dtypes
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
        found, shard_chips = self.empty(numbers, measurements), self.pixels.shard_chips
        for shard in np.unique(numbers // shard_chips).tolist():
            of_shard = np.flatnonzero(numbers // shard_chips == shard)
            within = (numbers[of_shard] - shard * shard_chips).tolist()
            for band, name in enumerate(measurements):
                contents: dict[int, Content] = {}
                for part in self.pixels.parts(name, shard, within):
                    contents |= self.pixels.fetch(part)
                for at, place in zip(of_shard.tolist(), within, strict=True):
                    self.pixels.decode(name, contents.get(place), found["pixels"][at, band])
        return found

    def empty(self, numbers: Values, measurements: Sequence[str], room: Room = np.empty) -> dict[str, Values]:
        """Return everything of chips but their pixels, and room for these."""
        receipt = self.pixels.receipt
        _, height, width = receipt.shape
        shape = (len(numbers), len(measurements), receipt.images_per_chip or 0, height, width)
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


def _dims(array: Any) -> tuple[str, ...]:
    return tuple(array.metadata.dimension_names or ())
