"""The pictures of a finished cube: its quicklooks, and the few windows of the contact sheet."""

import io
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.adapters.cube_sources import CubeSources
from pixel_gather.adapters.object_store import Store
from pixel_gather.adapters.zarr_cube import QUICKLOOKS_KEY
from pixel_gather.errors import StoreError
from pixel_gather.evidence import Image, MaskedQuicklooks, Picture, SourceRow, is_shown, why_worst, worst_of
from pixel_gather.run import Integers

if TYPE_CHECKING:  # as in cube_sources
    import zarr

_MOST_WINDOW_NBYTES: Final = 64 * 2**20
"""Decoded size of the chunks that one window lies in, above which it is not read for its picture."""


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
        content = bytes(obstore.get(store, QUICKLOOKS_KEY).bytes())
    except FileNotFoundError:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as held:
            rows, pixels, step = held["rows"].astype("int64"), held["pixels"], int(held["step"])
            valid = [_valid(group, array, int(row), each) for row, each in zip(rows, pixels, strict=True)]
            is_valid = np.array(valid, dtype=bool).reshape(pixels.shape)
            found = MaskedQuicklooks(rows=rows, pixels=pixels, is_valid=is_valid, step=step)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StoreError(f"{place}/{QUICKLOOKS_KEY} is broken: {error}; gather the cube anew") from error
    return found if len(rows) else None


def _valid(group: "zarr.Group", array: Any, row: int, pixels: Image) -> Any:
    """Return which pixels of a row are values; a row may have nodata of its own."""
    nodata = array.fill_value if "_FillValue" in array.attrs else None
    if "nodata" in group:
        nodata = float(np.ravel(np.asarray(group["nodata"][row]))[0])  # type: ignore[index] # an array, not a group
    return is_shown(pixels, nodata)


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
    is_valid = _valid(group, array, source.row, pixels)
    return Picture(role="worst", source=source, pixels=pixels, is_valid=is_valid, note=why)


def _nbytes_of_window(array: Any) -> int:
    """Return the decoded size of all chunks that one row lies in."""
    rows, height, width = array.chunks
    n_chunks = -(-array.shape[1] // height) * -(-array.shape[2] // width)
    return int(n_chunks * rows * height * width * array.dtype.itemsize)
