"""Cubes of chips as a dataset: a chip by its number, subsets, and batches for training."""

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import MissingExtraError, RequestError
from pixel_gather.core.extras import is_installed
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import path_here, place_text
from pixel_gather.features.chips.chip_batches import ChipBatches
from pixel_gather.features.chips.opened_chips import OpenedChips
from pixel_gather.features.chips.split_places import places_apart, share_out
from pixel_gather.features.chips.webdataset import write_tars
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset

type Values = np.ndarray[Any, np.dtype[Any]]


class ChipDataset(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Chips of a cube, or of several with the same chips.

    ``len(chips)`` is their number, ``chips[3]`` is one of them.

    It can be given to ``torch.utils.data.DataLoader`` as it is, and needs no torch. Processes that get a copy
    open the cube anew. A forked process cannot: give the loader ``multiprocessing_context="spawn"``.
    """

    places: tuple[str, ...]
    """The cubes: folders, or ``s3://bucket/prefix``."""

    measurements: tuple[str, ...]
    """What is read, in the order of the axis ``band``."""

    numbers: Values
    """Numbers of the chips along the first cube's first axis."""

    stores: StoreSettings | None = None

    def __len__(self) -> int:
        """Return the number of chips."""
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"<{len(self):,} chips of {' and '.join(self.places)}: {', '.join(self.measurements)}>"

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a chip: its pixels, shape (band, time, y, x), status, id, and the columns of its table.

        Raises:
            IndexError: There is no such chip.
            RequestError: The process was forked from the one that opened the cube.
            StoreError: It cannot be read.
        """
        if os.getpid() != self._opened.pid:
            raise RequestError(
                "this process was forked from the one that opened the cube, where threads are lost: give the "
                'DataLoader multiprocessing_context="spawn"',
                field="workers",
            )
        number = int(self.numbers[index])
        found = self._opened.read(np.array([number]), self.measurements)
        return {name: values[0] for name, values in found.items()}

    @property
    def times(self) -> Values:
        """The time of each image, in UTC; their hrefs if the list had no times."""
        return self._opened.images

    @property
    def columns(self) -> dict[str, Values]:
        """Values of each chip: ``chip`` (its id), ``lon``, ``lat``, and the columns of its table."""
        return {name: values[self.numbers] for name, values in self._opened.columns.items()}

    def where(self, **columns: Any) -> "ChipDataset":
        """Return the chips that have these values of columns, such as ``where(split="train")``.

        Args:
            columns: A value, or a list of values, of each column.

        Raises:
            RequestError: There is no such column.
        """
        there, is_kept = self.columns, np.ones(len(self), bool)
        for name, wanted in columns.items():
            if name not in there:
                raise RequestError(f"there is no column {name}; there are {', '.join(there)}", field=name)
            values = wanted if isinstance(wanted, list | tuple | set) else [wanted]
            is_kept &= np.isin(there[name].astype(object), np.array(list(values), object))
        return self._some(is_kept)

    @check_arguments
    def split(
        self, shares: Mapping[str, float], *, apart_km: float, seed: int = 0
    ) -> dict[str, "ChipDataset"]:
        """Split the chips by place: chips of two parts are at least ``apart_km`` from each other.

        Neighbours that share pixels, or weather, so never stand in training and in test. Give more than the
        diagonal of a chip. Parts consist of whole places, so their shares are met as well as places allow.

        Args:
            shares: For each part its share, such as ``{"train": 0.8, "test": 0.2}``: together 1 at most.
                Chips beyond the shares are in no part.
            apart_km: The distance between the middles of chips.
            seed: From 0. Another seed gives another split.

        Raises:
            RequestError: There are too few places for so many parts, or the shares are above 1.
        """
        if not apart_km > 0:
            raise RequestError("give a distance above 0", field="apart_km")
        if not isinstance(shares, Mapping):
            raise RequestError("write {'train': 0.8, 'test': 0.2}", field="shares")
        _check_seed(seed)
        columns = self.columns
        places = places_apart(columns["lon"], columns["lat"], apart_km=apart_km)
        return {name: self._some(at) for name, at in share_out(places, shares, seed=seed).items()}

    @check_arguments
    def batches(
        self,
        *,
        batch: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        workers: int = 4,
        window_shards: int = 4,
        drop_last: bool = False,
    ) -> ChipBatches:
        """Return batches of NumPy arrays. Each loop over them is an epoch.

        Args:
            batch: Chips in a batch.
            shuffle: Whether each epoch has an order of its own: shards are shuffled, and the chips of
                ``window_shards`` shards together. So an epoch reads whole shards, one after the other.
            seed: Of the order, from 0. Equal seeds give equal orders.
            workers: Threads that fetch and decode ahead.
            window_shards: Shards in memory at one time, compressed. The next ones are fetched meanwhile.
            drop_last: Leave out a last batch that is not full.

        Raises:
            RequestError: A number is less than 1, or the seed less than 0.
        """
        for name, value in (("batch", batch), ("workers", workers), ("window_shards", window_shards)):
            if value < 1:
                raise RequestError(f"it is {value}; the least is 1", field=name)
        _check_seed(seed)
        return ChipBatches(
            opened=self._opened,
            numbers=self.numbers,
            measurements=self.measurements,
            batch=batch,
            seed=seed if shuffle else None,
            workers=workers,
            window_shards=window_shards,
            drop_last=drop_last,
        )

    def to_torch(self, **options: Any) -> "IterableDataset[dict[str, Any]]":
        """Return the same batches with tensors, in pinned memory where there is a GPU; see `batches`.

        It is an ``IterableDataset`` of whole batches: loop over it, or give it to a ``DataLoader`` with
        ``batch_size=None``. It has its own threads, so ``num_workers`` stays 0.

        Args:
            options: Those of `batches`.

        Raises:
            MissingExtraError: torch is not installed.
        """
        if not is_installed("torch"):
            raise MissingExtraError("tensors need torch, which is not installed: pip install torch")
        from pixel_gather.features.chips.torch_batches import TorchBatches  # noqa: PLC0415 # seconds

        return TorchBatches(self.batches(**options))

    @check_arguments
    def to_webdataset(self, to: str | os.PathLike[str], *, chips_per_file: int | None = None) -> list[Path]:
        """Write the chips as tar files for WebDataset and loaders that read its format.

        ``train.tar`` becomes ``train-000000.tar``, ``train-000001.tar`` and so on. A chip is two files in one
        of them: ``000000007.npy`` with its pixels, shape (band, time, y, x), and ``000000007.json`` with what
        else a chip has, the measurements, and the times in UTC.

        Args:
            to: The local files' name with the suffix ``.tar``. No such file may exist.
            chips_per_file: Chips in a file. As many as in a shard of the cube if not given.

        Returns:
            The files, in order.

        Raises:
            RequestError: The name does not end with .tar or is on S3, or such files exist.
            StoreError: The cube cannot be read, or a file cannot be written.
        """
        if chips_per_file is not None and chips_per_file < 1:
            raise RequestError(f"it is {chips_per_file}; the least is 1", field="chips_per_file")
        return write_tars(
            self._opened,
            self.numbers,
            self.measurements,
            path_here(to, "to", said="the files are"),
            chips_per_file=chips_per_file or self._opened.shard_chips,
        )

    def _some(self, which: Values) -> "ChipDataset":
        part = replace(self, numbers=self.numbers[which])
        part.__dict__["_opened"] = self._opened  # opened once for all parts
        return part

    @cached_property
    def _opened(self) -> OpenedChips:  # another process gets the fields alone, and opens the cube itself
        return _open_all(self.places, self.stores)


@check_arguments
def open_chips(
    cube: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    measurements: Sequence[str] | None = None,
    stores: StoreSettings | None = None,
) -> ChipDataset:
    """Open a cube of chips as a dataset for training. docs/chips.md has an example.

    Args:
        cube: A folder, or ``s3://bucket/prefix``. Or several cubes of the same chips: their images follow one
            another in this order. Chips, their order and columns are those of the first one.
        measurements: What is read; all of them if not given. They must be of one dtype.
        stores: How to access S3.

    Raises:
        RequestError: The cube holds no chips, it has no such measurement, or their dtypes differ. Or one of
            several cubes lacks a chip of the first one, or has others of size, measurements or nodata.
        StoreError: There is no complete cube, or it cannot be read.
    """
    given = [cube] if isinstance(cube, str | os.PathLike) or not isinstance(cube, Iterable) else cube
    places = tuple(place_text(each, "cube") for each in given)
    opened = _open_all(places, stores)
    names = opened.choose_measurements(measurements)
    found = ChipDataset(places=places, measurements=names, numbers=np.arange(opened.n_chips), stores=stores)
    found.__dict__["_opened"] = opened
    return found


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise RequestError(f"it is {seed}; the least is 0", field="seed")


def _open_all(places: Sequence[str], stores: StoreSettings | None) -> OpenedChips:
    return OpenedChips.open([open_existing(each, stores) for each in places])
