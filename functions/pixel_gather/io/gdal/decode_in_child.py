"""The process that GDAL runs in. It serves one request at a time, until the parent closes the channel.

``child_pool.py`` starts it. Its settings are the argument, and the channel is standard input.
"""

import contextlib
import itertools
import json
import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import rasterio
from rasterio.crs import CRS
from rasterio.enums import Interleaving, MaskFlags
from rasterio.windows import Window as RasterioWindow

from pixel_gather.core.model.source import MAX_EXACT
from pixel_gather.io import limit_child
from pixel_gather.io.child_channel import PLACE, Channel, Kind
from pixel_gather.io.gdal import gdal_error_status
from pixel_gather.io.gdal.describe_dataset import array_dtype, describe, meanings, nodata_in
from pixel_gather.io.gdal.file_in_child import NAME, OneFile, RangedBytes
from pixel_gather.io.gdal.settings import GdalSettings

_SHARE_OF_MEMORY: Final = 4
"""A block is in memory about this many times while it is decoded: stored, decoded, cached, sent."""


_MOST_BLOCKS: Final = 4096
"""Most blocks that are looked up before a read."""

_ONE_USE_TOKEN: Final = 0
"""Token of a dataset that is opened for one use and never reused."""


class _OverLimitError(Exception):
    """A valid request that exceeds a limit of this deployment."""


class _NoOverviewError(_OverLimitError):
    """The file does not have the overview that is asked for."""


class _UnplacedBlockError(Exception):
    """A block has a size but no place, as where a file is cut off within its offsets.

    GDAL would read the file's first bytes as its pixels.
    """


@dataclass(slots=True)
class _Opened:
    """The dataset that this child has open. The next request is often for the same one."""

    token: int
    content: RangedBytes
    dataset: Any


class _Worker:
    def __init__(self, channel: Channel, settings: GdalSettings) -> None:
        self._channel = channel
        self._settings = settings
        self._opened: _Opened | None = None
        self._ahead: Sequence[tuple[int, memoryview]] = ()

    def answer(self, request: dict[str, Any], ahead: Sequence[tuple[int, memoryview]]) -> None:
        """Serve one request, with bytes of its file. Any error is sent to the parent."""
        self._ahead = ahead
        limit_child.limit_cpu(self._settings.timeout_s)
        try:
            if request["op"] == "open":
                self._open(request)
            else:
                self._read_pixels(request)
        except Exception as error:  # noqa: BLE001 # GDAL's, rasterio's and NumPy's have no common base
            self._close()
            status, reason = _classify(error)
            told = {"status": status, "reason": reason, "has_level": not isinstance(error, _NoOverviewError)}
            self._channel.send(Kind.FAILED, json.dumps(told).encode())
        if self._opened is not None:
            self._opened.content.ahead = ()
            if self._opened.content.has_failed:
                self._close()  # GDAL may have cached results of missing bytes

    def _open(self, request: dict[str, Any]) -> None:
        sizes, of_full = [], {}
        if request["overview"] is not None:
            full = self._dataset({**request, "overview": None, "token": _ONE_USE_TOKEN})
            # Before overviews are looked for: GDAL may report an error then, which rasterio would raise here.
            of_full = {"scales": full.scales, "offsets": full.offsets, "meanings": meanings(full)}
            n_overviews = len(full.overviews(1))
            if request["overview"] >= n_overviews:
                raise _NoOverviewError(f"has {n_overviews} overviews, not overview {request['overview']}")
            for level in range(n_overviews):
                overview = self._dataset({**request, "overview": level, "token": _ONE_USE_TOKEN})
                sizes.append((overview.width, overview.height))
        dataset = self._dataset(request)
        header = {
            **describe(dataset),
            **of_full,
            "overviews": sizes,
            "n_overviews": len(dataset.overviews(1)),
        }
        self._channel.send(Kind.HEADER, json.dumps(header).encode())

    def _read_pixels(self, request: dict[str, Any]) -> None:
        dataset = self._dataset(request)
        col_off, row_off, width, height = request["window"]
        row_nbytes = width * len(request["bands"]) * array_dtype(dataset).itemsize
        for start, stop in self._row_runs(dataset, row_off, row_off + height, row_nbytes):
            window = RasterioWindow(col_off, start, width, stop - start)
            if dataset.driver == "GTiff" and not _are_stored(dataset, window, request["bands"]):
                self._close()  # if GDAL could not look a block up, it would now read zeros there
                dataset = self._dataset(request)
            rows = np.array([start - row_off, stop - row_off], dtype="<u8").tobytes()
            pixels = dataset.read(request["bands"], window=window)
            mask = read_mask(dataset, window, request["bands"]) if request["masked"] else None
            if mask is not None:
                self._channel.send(Kind.MASK, rows, np.ascontiguousarray(mask).data)
            self._channel.send(Kind.PIXELS, rows, np.ascontiguousarray(pixels).data)
        self._channel.send(Kind.DONE)

    def _row_runs(self, dataset: Any, start: int, stop: int, row_nbytes: int) -> Iterator[tuple[int, int]]:
        """Cut rows [start, stop) into runs of about one chunk, at block borders unless blocks are huge."""
        block_height, block_width = dataset.block_shapes[0]
        n_in_block = dataset.count if dataset.interleaving == Interleaving.pixel else 1
        block_nbytes = block_height * block_width * n_in_block * array_dtype(dataset).itemsize
        most_nbytes = self._settings.child_memory_mib * 2**20 // _SHARE_OF_MEMORY
        if block_nbytes > most_nbytes:
            raise _OverLimitError(
                f"one block has {block_nbytes / 2**20:.0f} MiB of pixels, over a quarter of the "
                f"{self._settings.child_memory_mib} MiB that GDAL may use; convert it to smaller tiles"
            )
        n_rows = max(1, self._settings.chunk_nbytes // row_nbytes)
        whole_blocks = max(block_height, n_rows // block_height * block_height)
        if whole_blocks * row_nbytes <= most_nbytes:
            n_rows = whole_blocks
        while start < stop:
            border = min((start // n_rows + 1) * n_rows, stop)
            yield start, border
            start = border

    def _dataset(self, request: dict[str, Any]) -> Any:
        """Return the open dataset of a request."""
        if self._opened is not None and self._opened.token == request["token"] != _ONE_USE_TOKEN:
            self._opened.content.ahead = self._ahead
            return self._opened.dataset
        self._close()
        content = RangedBytes(
            self._channel, nbytes=request["nbytes"], block_nbytes=self._settings.block_nbytes
        )
        content.ahead = self._ahead
        options = {} if request["overview"] is None else {"overview_level": request["overview"]}
        dataset = rasterio.open(NAME, driver=request["driver"], opener=OneFile(content), **options)
        self._opened = _Opened(token=request["token"], content=content, dataset=dataset)
        if dataset.count < 1:
            raise _OverLimitError("has no bands")
        return dataset

    def _close(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(Exception):
                self._opened.dataset.close()
            self._opened = None


def _are_stored(dataset: Any, window: RasterioWindow, bands: Sequence[int]) -> bool:
    """Look up where the TIFF blocks of a window lie, unless they are very many.

    Returns:
        Whether all of them are stored. Of a block that is not, the header may also say nothing, because it is
        cut off.

    Raises:
        _UnplacedBlockError: The header does not say where a block lies.
    """
    block_height, block_width = dataset.block_shapes[0]
    cols = range(window.col_off // block_width, -(-(window.col_off + window.width) // block_width))
    rows = range(window.row_off // block_height, -(-(window.row_off + window.height) // block_height))
    planes = bands[:1] if dataset.interleaving == Interleaving.pixel else bands
    if len(cols) * len(rows) * len(planes) > _MOST_BLOCKS:
        return True
    are_stored = True
    for band, row, col in itertools.product(planes, rows, cols):
        offset = dataset.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", bidx=band)
        nbytes = dataset.get_tag_item(f"BLOCK_SIZE_{col}_{row}", "TIFF", bidx=band)
        if offset == "0" and nbytes:
            raise _UnplacedBlockError
        are_stored = are_stored and bool(offset and nbytes)
    return are_stored


def _classify(error: Exception) -> tuple[str, str]:
    """Return the name of a status, and a sentence."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    kinds = {type(link).__name__ for link in chain}
    if kinds & {"MemoryError", "CPLE_OutOfMemoryError"}:
        return "UNSUPPORTED", "needs more memory than GDAL may use here"
    if isinstance(error, _OverLimitError):
        return "UNSUPPORTED", str(error)
    if isinstance(error, _UnplacedBlockError):
        return "CORRUPT", gdal_error_status.UNPLACED
    status, reason = gdal_error_status.classify_messages([str(link) for link in chain])
    return "UNSUPPORTED" if "CPLE_NotSupportedError" in kinds else status, reason


def main() -> None:
    """Serve requests until the channel ends."""
    settings = msgspec.json.decode(sys.argv[1], type=GdalSettings)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    channel = Channel(socket.socket(fileno=0))
    with rasterio.Env(), contextlib.suppress(EOFError, ConnectionError):
        # Opens PROJ's database and does the late imports of CRSs: no file can be opened later.
        assert CRS.from_wkt(CRS.from_epsg(32618).to_wkt()) == CRS.from_epsg(32618)  # noqa: S101
        null = os.open(os.devnull, os.O_WRONLY)
        limit_child.limit_memory(settings.child_memory_mib)
        limit_child.lock_files()
        worker = _Worker(channel, settings)
        os.dup2(null, 2)  # nobody reads what libraries print from now on
        channel.send(Kind.READY)
        ahead: list[tuple[int, memoryview]] = []
        while True:
            kind, payload = channel.receive()
            if kind is Kind.AHEAD:
                (start,) = PLACE.unpack_from(payload)
                ahead.append((start, memoryview(payload)[PLACE.size :]))
            else:
                worker.answer(json.loads(bytes(payload)), ahead)
                ahead = []


def read_mask(dataset: Any, window: RasterioWindow, bands: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """Return GDAL's mask of a window, 0 where a pixel is hidden, or None where no mask is needed.

    All bands may share one mask, as that of an alpha band, or each may have its own. No mask is needed for
    pixels that hold the nodata value exactly. But GDAL also hides floating point values close to nodata, and
    truncates a nodata value of integers, such as 0.5.

    Returns:
        Shape (1, y, x) where all bands share a mask, else (band, y, x).
    """
    flags = [dataset.mask_flag_enums[band - 1] for band in bands]
    if all(MaskFlags.per_dataset in each for each in flags):
        return np.asarray(dataset.read_masks([bands[0]], window=window))
    if all(each == [MaskFlags.all_valid] for each in flags):
        return None
    told = zip(flags, bands, strict=True)
    if all(
        each == [MaskFlags.all_valid] or (each == [MaskFlags.nodata] and _is_exact_nodata(dataset, band))
        for each, band in told
    ):
        return None
    return np.asarray(dataset.read_masks(bands, window=window))


def _is_exact_nodata(dataset: Any, band: int) -> bool:
    """Tell whether a band is of integers and has an integer as nodata that rasterio knows exactly.

    Rasterio knows it as a float64, and has None for the largest integers of 64 bits.
    """
    value, dtype = dataset.nodatavals[band - 1], array_dtype(dataset)
    if value is None or abs(value) > MAX_EXACT:
        return False
    return dtype.kind in "iu" and nodata_in(value, dtype) is not None
