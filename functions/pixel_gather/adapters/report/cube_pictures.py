"""The pictures of a finished cube: its quicklooks, and the few windows of the contact sheet."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.adapters.cube.zarr_cube import QUICKLOOKS_KEY
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.report.cube_sources import CubeSources
from pixel_gather.errors import StoreError
from pixel_gather.report.evidence import (
    Image,
    Mask,
    MaskedQuicklooks,
    Picture,
    SourceRow,
    is_shown,
    why_worst,
    worst_of,
)
from pixel_gather.report.run import Integers

if TYPE_CHECKING:  # as in cube_sources
    import zarr

_MOST_WINDOW_NBYTES: Final = 64 * 2**20
"""Decoded size of the chunks that one window lies in, above which it is not read for its picture."""

_MOST_QUICKLOOKS_NBYTES: Final = 128 * 2**20
"""Of the file and of what it unpacks to: twice what the largest quicklooks of a gather are."""


def quicklooks_in(store: Store, group: "zarr.Group", array: Any, place: str) -> MaskedQuicklooks | None:
    """Return the cube's quicklooks, or None where it has none.

    Args:
        store: At the cube's root.
        group: The same, opened.
        array: The first measurement.
        place: For messages.

    Raises:
        StoreError: The file is broken.
    """
    try:
        answer = obstore.get(store, QUICKLOOKS_KEY)
        nbytes = answer.meta["size"]
        content = bytes(answer.bytes()) if nbytes <= _MOST_QUICKLOOKS_NBYTES else b""
    except FileNotFoundError:
        return None
    try:
        rows, pixels, step = _unpacked(content)
        _check(rows, pixels, step, array)
        valid = [
            is_shown(each, nodata)
            for each, nodata in zip(pixels, _nodata_of(group, array, rows), strict=True)
        ]
        is_valid = np.array(valid, dtype=bool).reshape(pixels.shape) & _are_inside(group, rows, pixels, step)
        found = MaskedQuicklooks(rows=rows, pixels=pixels, is_valid=is_valid, step=step)
    except (ValueError, TypeError, KeyError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise StoreError(f"{place}/{QUICKLOOKS_KEY} is broken: {error}; gather the cube anew") from error
    return found if len(rows) else None


def _unpacked(content: bytes) -> tuple[Integers, Image, int]:
    """Unpack rows, pixels and step, unless they would be more than a gather ever keeps."""
    with zipfile.ZipFile(io.BytesIO(content)) as held:
        n_unpacked = sum(each.file_size for each in held.infolist())
        if n_unpacked > _MOST_QUICKLOOKS_NBYTES:
            raise ValueError(f"it would unpack to {n_unpacked / 2**20:,.0f} MiB")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["rows"].astype("int64"), arrays["pixels"], int(arrays["step"])


def _check(rows: Integers, pixels: Image, step: int, array: Any) -> None:
    """Refuse pictures that are not of this cube's first measurement."""
    n_rows, height, width = array.shape
    shape = (len(rows), -(-height // step), -(-width // step)) if step > 0 else ()
    if (pixels.shape, pixels.dtype) != (shape, array.dtype):
        raise ValueError(f"{pixels.dtype} of shape {pixels.shape} and step {step} are not of {array.shape}")
    if len(rows) and (rows[0] < 0 or rows[-1] >= n_rows or (np.diff(rows) <= 0).any()):
        raise ValueError(f"rows are not ascending, or not among {n_rows:,}")


def _nodata_of(group: "zarr.Group", array: Any, rows: Integers) -> list[complex | None]:
    """Return the nodata of some rows, which may each have their own; None and NaN where there is none."""
    if "nodata" in group:
        own: Any = group["nodata"]
        return [float(each) for each in np.asarray(own.oindex[rows]).reshape(len(rows), -1)[:, 0]]
    return [array.fill_value if "_FillValue" in array.attrs else None] * len(rows)


def _are_inside(group: "zarr.Group", rows: Integers, pixels: Image, step: int) -> Mask:
    """Return which pixels of some rows' pictures lie inside their source; the others were filled.

    Args:
        group: The cube.
        rows: Of it.
        pixels: Their pictures, shape (row, y, x).
        step: Every so many pixels of the window were taken.
    """
    if "inside_x_start" not in group:
        return np.ones(pixels.shape, dtype=bool)
    n_rows, height, width = pixels.shape

    def edge(name: str) -> Integers:
        found: Any = group[f"inside_{name}"]
        return np.asarray(found.oindex[rows]).reshape(n_rows, -1)[:, :1]

    cols, lines = np.arange(width) * step, np.arange(height) * step
    in_x = (edge("x_start") <= cols) & (cols < edge("x_stop"))
    in_y = (edge("y_start") <= lines) & (lines < edge("y_stop"))
    are_inside: Mask = in_y[:, :, None] & in_x[:, None, :]
    return are_inside


def contact_sheet_of(
    group: "zarr.Group",
    array: Any,
    sources: CubeSources,
    quicklooks: MaskedQuicklooks | None,
    frames: Sequence[SourceRow],
) -> tuple[Picture, ...]:
    """Return the first, the middle and the last window that has a quicklook, and the worst of all.

    Args:
        group: The cube.
        array: Its first measurement.
        sources: All of its sources.
        quicklooks: Without them there is no sheet: windows are no pictures.
        frames: What the quicklooks are of.
    """
    places = sources.places_shown
    if quicklooks is None or not len(places):
        return ()
    roles: dict[int, list[str]] = {}
    for role, index in (("first", 0), ("middle", len(frames) // 2), ("last", len(frames) - 1)):
        roles.setdefault(index, []).append(role)
    shown = [
        Picture(
            role=", ".join(names),
            source=frames[index],
            pixels=quicklooks.pixels[index],
            is_valid=quicklooks.is_valid[index],
        )
        for index, names in roles.items()
    ]
    return (*shown, _worst(group, array, sources, places, quicklooks))


def _worst(
    group: "zarr.Group", array: Any, sources: CubeSources, places: Integers, quicklooks: MaskedQuicklooks
) -> Picture:
    shares = sources.valid_share[places]
    worst = places[worst_of(shares, sources.total_s[places])]
    (source,) = sources.described([int(worst)])
    why = why_worst(source, int((shares <= source.valid_share).sum()))
    n_nbytes = _nbytes_of_window(array)
    if n_nbytes > _MOST_WINDOW_NBYTES:
        why += f"; not shown, as its chunks hold {n_nbytes / 2**20:,.0f} MiB"
        return Picture(role="worst", source=source, pixels=None, is_valid=None, note=why)
    step = quicklooks.step
    pixels = np.asarray(array[source.row, ::step, ::step])
    rows = np.array([source.row])
    (nodata,) = _nodata_of(group, array, rows)
    is_valid = is_shown(pixels, nodata) & _are_inside(group, rows, pixels[None], step)[0]
    return Picture(role="worst", source=source, pixels=pixels, is_valid=is_valid, note=why)


def _nbytes_of_window(array: Any) -> int:
    """Return the decoded size of all chunks that one row lies in."""
    rows, height, width = array.chunks
    n_chunks = -(-array.shape[1] // height) * -(-array.shape[2] // width)
    return int(n_chunks * rows * height * width * array.dtype.itemsize)
