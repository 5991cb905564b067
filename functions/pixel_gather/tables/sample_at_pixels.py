"""Reads the values of an image at many pixels: each of its tiles is fetched and decoded once.

Pixels are sorted by tile. Tiles that lie side by side are read as one window, so that neighbours in the file
come with one request.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError, StaleHeaderError
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource, SourceLimiter
from pixel_gather.core.task_group import all_of
from pixel_gather.tables.features import Integers
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.read_bands import Mask, Stored, holds_data, read_pixels

type Indexes = np.ndarray[Any, np.dtype[np.int32]]

_MOST_RUN_NBYTES: Final = 8 << 20
"""Of the decoded pixels of tiles that are read as one window, unless a single tile has more."""

_MOST_OF_UINT16: Final = 1 << 16
_LEAST_PIXELS: Final = 65_536
"""Strips of fewer pixels are read several at a time: they lie one after the other in the file."""

MOST_READ_NBYTES: Final = 64 << 20
"""Decoded pixels of all windows that are in memory at one time."""


class TileRun(Struct, frozen=True):
    """Tiles side by side, and the wanted pixels in them."""

    window: Window
    which: Indexes
    """Which of the wanted pixels."""

    at: Indexes
    """Where each of them lies in the window, counted row by row."""

    n_tiles: int


class Sampled(Struct, frozen=True):
    """The values of some bands at the wanted pixels."""

    stored: Stored
    """(band, pixel), in the dtype of the file. Undefined where there is no data."""

    is_valid: Mask
    """(band, pixel): whether the pixel holds data, is not hidden by a mask, and could be read."""

    darkest: tuple[float, ...]
    """Of each band, the smallest value with data in all tiles that were read; NaN if there is none."""

    status: np.ndarray[Any, np.dtype[np.uint8]]
    """(pixel): a `Status`; not OK if its tile could not be read."""

    reasons: dict[int, str] = {}
    """For each such status, why."""


def cut_runs(cols: Integers | Indexes, rows: Integers | Indexes, header: Header) -> list[TileRun]:
    """Return the tiles that hold the wanted pixels, in runs of neighbours.

    All pixels are on the image.
    """
    width, height = header.tile_width, header.tile_height
    if not header.is_tiled:
        height *= max(1, _LEAST_PIXELS // (width * height))
    n_across = -(-header.width // width)
    tiles = (rows // height) * n_across + cols // width
    if n_across * -(-header.height // height) <= _MOST_OF_UINT16:
        tiles = tiles.astype(np.uint16)  # numpy sorts these several times as fast
    order = np.argsort(tiles, kind="stable").astype(np.int32)
    ordered = tiles[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(ordered)]
    unique = ordered[starts].astype(np.int64)
    nbytes = width * height * np.dtype(header.dtype).itemsize
    most = max(1, _MOST_RUN_NBYTES // nbytes)
    stops = [*starts[1:].tolist(), len(order)]
    runs: list[TileRun] = []
    for first, last in _runs(unique.tolist(), n_across, most):
        tile, n = unique[first], last - first + 1
        window = Window(
            col_off=int(tile % n_across) * width,
            row_off=int(tile // n_across) * height,
            width=width * n,
            height=height,
        ).clipped(width=header.width, height=header.height)
        assert window is not None  # noqa: S101 # the wanted pixels are on the image
        which = order[starts[first] : stops[last]]
        at = (rows[which] - window.row_off) * window.width + cols[which] - window.col_off
        runs.append(TileRun(window, which, at.astype(np.int32), n))
    return runs


def _runs(tiles: Sequence[int], n_across: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each run of tiles that lie side by side."""
    first = 0
    for index in range(1, len(tiles) + 1):
        if (
            index == len(tiles)
            or tiles[index] != tiles[index - 1] + 1
            or tiles[index] % n_across == 0
            or index - first == most
        ):
            yield first, index - 1
            first = index


@dataclass(slots=True, kw_only=True)
class Sampler:
    """Reads pixels of all images of a job, within one limit of memory."""

    limiter: SourceLimiter
    timeout_s: float
    gate: PixelGate = field(default_factory=partial(PixelGate, MOST_READ_NBYTES))

    async def sample(
        self,
        opened: LevelledSource,
        numbers: Sequence[int],
        n: int,
        *,
        runs: Sequence[TileRun],
        cost: Cost,
        nodata: Sequence[float | None],
        wants_darkest: bool = False,
    ) -> Sampled:
        """Read some bands at the wanted pixels. A tile that cannot be read costs only its own pixels.

        Args:
            opened: The image.
            numbers: Which bands, from 1.
            n: The number of wanted pixels, all on the image.
            runs: What `cut_runs` says of them.
            cost: Of the image; what the reader adds to.
            nodata: Of each band, what stands for no data in a file that declares none.
            wants_darkest: Whether to look at all pixels of the tiles.

        Raises:
            SourceError: The image was replaced since it was opened.
        """
        header = opened.header
        stored = np.zeros((len(numbers), n), header.dtype)
        is_valid = np.zeros(stored.shape, np.bool_)
        status = np.zeros(n, np.uint8)
        reasons: dict[int, str] = {}
        darkest = np.full((len(runs) or 1, len(numbers)), np.nan)

        # Each tile is read by itself, so that only its own pixels lack a value if it fails.
        async def one(number: int, run: TileRun) -> None:
            nbytes = run.window.n_pixels * stored.itemsize * len(numbers)
            n_before = cost.needed_requests
            try:
                async with self.gate.hold(nbytes), self.limiter.permit(header.href, weight=1) as permit:
                    async with asyncio.timeout(self.timeout_s):
                        pixels, hidden = await read_pixels(opened, run.window, numbers)
                    permit.record_read(n_requests=max(cost.needed_requests - n_before, 1))
                    await asyncio.to_thread(take, number, run, pixels, hidden)
            except SourceError as error:
                if error.status is Status.CHANGED or isinstance(error, StaleHeaderError):
                    raise
                status[run.which] = error.status
                reasons[error.status] = error.reason
            except TimeoutError:
                status[run.which] = Status.TIMED_OUT
                reasons[Status.TIMED_OUT] = f"not read within {self.timeout_s:g} s"

        def take(number: int, run: TileRun, pixels: Stored, hidden: Mask | None) -> None:
            masks = [None] * len(pixels) if hidden is None else hidden
            for band, (of_band, mask) in enumerate(zip(pixels, masks, strict=True)):
                found = of_band.reshape(-1).take(run.at)
                valid = holds_data(found, header, nodata=nodata[band])
                if mask is not None:
                    valid &= ~mask.reshape(-1).take(run.at)
                stored[band, run.which], is_valid[band, run.which] = found, valid
                if wants_darkest:
                    whole = holds_data(of_band, header, nodata=nodata[band])
                    known = of_band[whole if mask is None else whole & ~mask]
                    darkest[number, band] = known.min() if len(known) else np.nan

        # A claimed offset is judged by the darkest pixel of all tiles.
        await all_of(one(number, run) for number, run in enumerate(runs))
        smallest = np.fmin.reduce(darkest, axis=0)
        return Sampled(stored, is_valid, tuple(smallest.tolist()), status, reasons)
