"""Batches of chips as tensors. Imports torch."""

from collections.abc import Iterator, Mapping
from copy import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from pixel_gather.core.errors import RequestError
from pixel_gather.features.chips.chip_batches import ChipBatches


class TorchBatches(IterableDataset[dict[str, Any]]):  # type: ignore[misc] # torch is not installed
    """The batches of a `ChipBatches` with tensors; texts stay lists."""

    def __init__(self, batches: ChipBatches) -> None:
        """Wrap batches of NumPy arrays."""
        self._pins = torch.cuda.is_available()
        self.batches = replace(batches, room=_pinned_room) if self._pins else batches

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the batches of an epoch, or those that are left of it.

        Raises:
            RequestError: A worker process of a ``DataLoader`` asks: each would read everything.
        """
        if get_worker_info() is not None:
            raise RequestError(
                "it has threads of its own: leave num_workers of the DataLoader 0", field="workers"
            )
        for each in self.batches:
            yield {name: self._to_tensor(values) for name, values in each.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is; see `ChipBatches.state_dict`."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken; see `ChipBatches.load_state_dict`."""
        self.batches.load_state_dict(state)

    def _to_tensor(self, values: "np.ndarray[Any, Any]") -> Any:
        if values.dtype.kind not in "biufc":
            return [str(each) for each in values.tolist()]
        if isinstance(values.base, torch.Tensor):  # of `_pinned_room`; torch keeps it while a copy of it runs
            return values.base
        tensor = torch.from_numpy(values)
        return tensor.pin_memory() if self._pins else tensor


def _pinned_room(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    """Return pinned memory, so that chips are decoded where the GPU fetches them. torch uses it again."""
    of_torch = torch.from_numpy(np.empty(0, dtype)).dtype
    array: np.ndarray[Any, Any] = torch.empty(shape, dtype=of_torch, pin_memory=True).numpy()
    return array
