"""How long does an epoch of chips take until it is on the GPU, and with training? Interleaved rounds.

``PYTHONPATH=tests python -m benchmarks.bench_loader CUBE`` reads a local cube of chips; README.md beside this
file says what came out. It needs torch. Our tensors stand beside what a careful user writes: a ``DataLoader``
whose processes read by zarr-python, with pinned memory, started before the first round. Without a GPU all is
done on the CPU.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import obstore
import torch
import zarr
from obstore.store import LocalStore

from benchmarks.output import Taken, compare, parser_of, put, take_turns, timed
from pixel_gather import open_chips

_BATCH: Final = 32
_FETCHES: Final = 4
_HAS_GPU: Final = torch.cuda.is_available()
_DEVICE: Final = torch.device("cuda" if _HAS_GPU else "cpu")

WHOLE: Final = "obstore, whole shards"
COPIED: Final = "to_torch, copied"
TRAINED: Final = "to_torch, trained"
PEER_COPIED: Final = "DataLoader over zarr-python, {} processes, copied"
PEER_TRAINED: Final = "DataLoader over zarr-python, {} processes, trained"
STEPS: Final = "training alone, of one batch that is there"


class ChipsByZarr(torch.utils.data.Dataset[Any]):  # type: ignore[misc] # torch is not installed
    """Chips by their number."""

    def __init__(self, array: Path, n: int) -> None:
        """Keep the place. Each process opens the array itself."""
        self.array, self.n = array, n
        self.opened: Any = None

    def __len__(self) -> int:
        """Return the number of chips."""
        return self.n

    def __getitem__(self, number: int) -> Any:
        """Return one chip, shape (time, y, x)."""
        if self.opened is None:
            zarr.config.set({"async.concurrency": _FETCHES, "threading.max_workers": 1})
            self.opened = zarr.open_array(self.array, mode="r")
        return torch.from_numpy(np.asarray(self.opened[number]))


class Training:
    """A small convolutional net and its steps."""

    def __init__(self, n_images: int, width: int) -> None:
        """Make a net for chips of so many images."""
        nn = torch.nn
        self.net = nn.Sequential(
            nn.Conv2d(n_images, width, 4, 4), nn.GELU(), nn.Conv2d(width, width, 3, 1, 1), nn.GELU(),
            nn.Conv2d(width, width, 2, 2), nn.GELU(), nn.Conv2d(width, width, 3, 1, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2),
        ).to(_DEVICE)  # fmt: skip
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3)

    def step(self, pixels: Any) -> None:
        """Take one step with pixels of shape (chip, time, y, x)."""
        with torch.autocast(_DEVICE.type, dtype=torch.bfloat16):
            loss = self.net(pixels.to(torch.float32) / 10_000).float().square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def epoch(batches: Iterable[Any], training: Training | None) -> None:
    """Copy each batch to the GPU, and train if wanted, until all is done there."""
    for batch in batches:
        pixels = batch["pixels"][:, 0] if isinstance(batch, dict) else batch
        on_gpu = pixels.to(_DEVICE, non_blocking=True)
        if training is not None:
            training.step(on_gpu)
    if _HAS_GPU:
        torch.cuda.synchronize()


def fetch_all(cube: Path) -> None:
    """Read all shards and do nothing with them."""
    store = LocalStore(cube)
    keys = [str(path.relative_to(cube)) for path in cube.glob("band_1/c/**/*") if path.is_file()]
    with ThreadPoolExecutor(_FETCHES) as threads:
        assert all(threads.map(lambda key: len(obstore.get(store, key).bytes()), keys))


def main() -> None:
    """Measure epochs of a cube of chips, round by round."""
    parser = parser_of(main)
    parser.add_argument("cube", type=Path, help="a local cube of chips with the array band_1")
    parser.add_argument("--workers", type=int, default=4, help="threads of ours")
    parser.add_argument("--processes", type=int, nargs="*", default=[8, 16], help="of the DataLoader")
    parser.add_argument("--width", type=int, default=768, help="of the net")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chips = open_chips(options.cube)
    one = chips[0]["pixels"][0]
    training = Training(len(one), options.width)
    still = [torch.from_numpy(np.repeat(one[None], _BATCH, axis=0)).to(_DEVICE)] * -(-len(chips) // _BATCH)
    ours = partial(chips.to_torch, batch=_BATCH, shuffle=True, workers=options.workers)
    works: dict[str, Callable[[], object]] = {
        COPIED: partial(epoch, ours(), None),
        TRAINED: partial(epoch, ours(), training),
        STEPS: partial(epoch, still, training),
        WHOLE: partial(fetch_all, options.cube),
    }
    for n in options.processes:
        loader = torch.utils.data.DataLoader(
            ChipsByZarr(options.cube / "band_1", len(chips)), batch_size=_BATCH, shuffle=True, num_workers=n,
            pin_memory=_HAS_GPU, persistent_workers=True, multiprocessing_context="spawn",
        )  # fmt: skip
        works[PEER_COPIED.format(n)] = partial(epoch, loader, None)
        works[PEER_TRAINED.format(n)] = partial(epoch, loader, training)
    cases: dict[str, Callable[[], Taken]] = {name: partial(timed, work) for name, work in works.items()}
    seen = take_turns(cases, options.rounds, warm_ups=1)
    where = torch.cuda.get_device_name() if _HAS_GPU else "no GPU"
    what = f"an epoch of {len(chips):,} chips, {one.nbytes * len(chips) / 1e6:,.0f} MB decoded, {where}"
    put(compare(seen, what, COPIED), [{what: seen}], options.json)


if __name__ == "__main__":
    main()
