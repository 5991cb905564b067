"""Reads the pictures of a finished cube: its quicklooks, and those of them on the contact sheet."""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.status import Status
from pixel_gather.core.results.report_content import (
    ArrayScaling,
    Image,
    Look,
    MaskedQuicklooks,
    Picture,
    is_shown,
)
from pixel_gather.core.results.timings import Integers
from pixel_gather.features.report.cube_sources import CubeSources
from pixel_gather.io.cube.pixels_with_data import are_inside, read_nodata
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:  # as in cube_sources
    import zarr

_MOST_ON_SHEET: Final = 24
"""Windows of the contact sheet."""

_MOST_QUICKLOOKS_NBYTES: Final = 128 * 2**20
"""Limit for the file and its unpacked arrays: twice the largest quicklooks that a gather writes."""


def looks_in(
    store: Store,
    group: "zarr.Group",
    sources: CubeSources,
    measurements: Sequence[str],
    place: str,
    *,
    n_pictured: int,
) -> tuple[Look, ...]:
    """Return the pictures of each measurement, of the first ``n_pictured`` rows. Empty if there are none.

    Raises:
        StoreError: The file of quicklooks is broken.
    """
    content = _fetch_quicklooks(store)
    if content is None:
        return ()
    try:
        arrays = _unpack_arrays(content)
        found = {
            name: _mask_quicklooks(group, name, arrays, slot=slot)
            for name, slot in _slots_of(measurements, sources)
            if f"rows/{name}" in arrays
        }
    except (ValueError, TypeError, KeyError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise StoreError(f"{place}/{QUICKLOOKS_KEY} is broken: {error}; gather the cube anew") from error
    shown = {name: each for name, each in found.items() if len(each.rows)}
    if not shown:
        return ()
    return _looks(group, sources, shown, dict(_slots_of(measurements, sources)), n_pictured=n_pictured)


def quicklooks_in(
    store: Store, group: "zarr.Group", measurements: Mapping[str, int]
) -> tuple[MaskedQuicklooks, ...]:
    """Return the quicklooks of some measurements; none if the cube has no quicklooks of one of them.

    Each measurement comes with the position of its source in a row.
    """
    content = _fetch_quicklooks(store)
    arrays = {} if content is None else _unpack_arrays(content)
    if not all(f"rows/{name}" in arrays for name in measurements):
        return ()
    return tuple(_mask_quicklooks(group, name, arrays, slot=slot) for name, slot in measurements.items())


def _slots_of(measurements: Sequence[str], sources: CubeSources) -> list[tuple[str, int]]:
    """Return each measurement with the position of its source in a row: its own, or 0 if all share one."""
    return [(name, index if sources.n_abreast > 1 else 0) for index, name in enumerate(measurements)]


def _fetch_quicklooks(store: Store) -> bytes | None:
    try:
        answer = obstore.get(store, QUICKLOOKS_KEY)
    except FileNotFoundError:
        return None
    return bytes(answer.bytes()) if answer.meta["size"] <= _MOST_QUICKLOOKS_NBYTES else b""


def _unpack_arrays(content: bytes) -> dict[str, Any]:
    """Unpack all arrays, unless they would be larger than any that a gather writes."""
    with zipfile.ZipFile(io.BytesIO(content)) as held:
        n_unpacked = sum(each.file_size for each in held.infolist())
        if n_unpacked > _MOST_QUICKLOOKS_NBYTES:
            raise ValueError(f"it would unpack to {n_unpacked / 2**20:,.0f} MiB")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _mask_quicklooks(
    group: "zarr.Group", name: str, arrays: Mapping[str, Any], *, slot: int
) -> MaskedQuicklooks:
    rows, pixels = arrays[f"rows/{name}"].astype("int64"), arrays[f"pixels/{name}"]
    step = int(arrays["step"])
    array: Any = group[name]
    _check(rows, pixels, step, array)
    valid = [
        is_shown(each, nodata)
        for each, nodata in zip(pixels, read_nodata(group, array, rows, slot), strict=True)
    ]
    return MaskedQuicklooks(
        measurement=name,
        rows=rows,
        pixels=pixels,
        is_valid=np.array(valid, dtype=bool).reshape(pixels.shape)
        & are_inside(group, rows, pixels, step, slot=slot),
        step=step,
    )


def _check(rows: Integers, pixels: Image, step: int, array: Any) -> None:
    """Refuse quicklooks whose shape, dtype or rows do not fit the measurement."""
    n_rows, height, width = array.shape
    shape = (len(rows), -(-height // step), -(-width // step)) if step > 0 else ()
    if (pixels.shape, pixels.dtype) != (shape, array.dtype):
        raise ValueError(f"{pixels.dtype} of shape {pixels.shape} and step {step} are not of {array.shape}")
    if len(rows) and (rows[0] < 0 or rows[-1] >= n_rows or (np.diff(rows) <= 0).any()):
        raise ValueError(f"rows are not ascending, or not among {n_rows:,}")


def _looks(
    group: "zarr.Group",
    sources: CubeSources,
    shown: Mapping[str, MaskedQuicklooks],
    slots: Mapping[str, int],
    *,
    n_pictured: int,
) -> tuple[Look, ...]:
    n_abreast = sources.n_abreast
    first = next(iter(shown.values()))
    rows = _rows_of_sheet(sources.status[slots[first.measurement] :: n_abreast][:n_pictured], first.rows)
    looks = []
    for name, quicklooks in shown.items():
        slot = slots[name]
        array: Any = group[name]
        looks.append(
            Look(
                quicklooks=quicklooks,
                frames=sources.describe(quicklooks.rows * n_abreast + slot),
                contact_sheet=_sheet(sources, quicklooks, rows * n_abreast + slot),
                scaling=ArrayScaling.of_attributes(array.attrs),
                meaning=BandMeaning.of_attributes(array.attrs),
                chunk_rows=int(array.chunks[0]),
            )
        )
    return tuple(looks)


def _rows_of_sheet(status: Integers, with_picture: Integers) -> Integers:
    """Return rows spread over the cube. Those that were read give way to the next one with a quicklook.

    Args:
        status: Of each row's source.
        with_picture: Rows with a quicklook, ascending.
    """
    n_rows = len(status)
    spread = np.linspace(0, n_rows - 1, min(n_rows, _MOST_ON_SHEET)).round().astype("int64")
    after = np.searchsorted(with_picture, spread).clip(max=len(with_picture) - 1)
    before = (after - 1).clip(min=0)
    is_nearer = spread - with_picture[before] < with_picture[after] - spread
    nearest = with_picture[np.where(is_nearer, before, after)]
    chosen: Integers = np.unique(np.where(status[spread] == Status.OK, nearest, spread))
    return chosen


def _sheet(sources: CubeSources, quicklooks: MaskedQuicklooks, places: Integers) -> tuple[Picture, ...]:
    """Return the windows of some sources: their quicklooks, or nothing but what became of them."""
    at = {int(row): index for index, row in enumerate(quicklooks.rows)}
    pictures = []
    chips = sources.chips_in_words(places)
    for place, source, chip in zip(places, sources.describe(places), chips, strict=True):
        index = at.get(source.row)
        pictures.append(
            Picture(
                label=f"{chip}, {source.label}" if chip else source.label,
                href=source.href,
                pixels=None if index is None else quicklooks.pixels[index],
                is_valid=None if index is None else quicklooks.is_valid[index],
                status=Status(int(sources.status[place])).name.lower(),
            )
        )
    return tuple(pictures)
