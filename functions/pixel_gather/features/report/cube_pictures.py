"""Reads the pictures of a finished cube: its quicklooks, and the few windows of the contact sheet."""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.evidence import (
    Image,
    Look,
    MaskedQuicklooks,
    Picture,
    SourceRow,
    is_shown,
    why_worst,
    worst_of,
)
from pixel_gather.core.results.timings import Integers
from pixel_gather.features.report.cube_sources import CubeSources
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY
from pixel_gather.io.cube.valid_pixels import are_inside, nodata_of
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:  # as in cube_sources
    import zarr

_MOST_WINDOW_NBYTES: Final = 64 * 2**20
"""A window is not read for its picture if its chunks have more decoded bytes."""

_MOST_QUICKLOOKS_NBYTES: Final = 128 * 2**20
"""Limit for the file and its unpacked arrays: twice the largest quicklooks that a gather writes."""


def looks_in(
    store: Store, group: "zarr.Group", sources: CubeSources, measurements: Sequence[str], place: str
) -> tuple[Look, ...]:
    """Return the pictures of each measurement. Empty if the cube has none.

    Args:
        store: At the cube's root.
        group: The cube, opened.
        sources: All of the cube's sources.
        measurements: Names of the measurements, in order.
        place: The location, for messages.

    Raises:
        StoreError: The file of quicklooks is broken.
    """
    content = _stored(store)
    if content is None:
        return ()
    try:
        arrays = _unpacked(content)
        found = {
            name: _masked(group, name, arrays, slot=slot)
            for name, slot in _slots_of(measurements, sources)
            if f"rows/{name}" in arrays
        }
    except (ValueError, TypeError, KeyError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise StoreError(f"{place}/{QUICKLOOKS_KEY} is broken: {error}; gather the cube anew") from error
    shown = {name: each for name, each in found.items() if len(each.rows)}
    return _looks(group, sources, shown, dict(_slots_of(measurements, sources))) if shown else ()


def quicklooks_in(
    store: Store, group: "zarr.Group", measurements: Mapping[str, int]
) -> tuple[MaskedQuicklooks, ...]:
    """Return the quicklooks of some measurements; none if the cube has no quicklooks of one of them.

    Args:
        store: At the cube's root.
        group: The cube, opened.
        measurements: Names, each with the position of its source in a row.
    """
    content = _stored(store)
    arrays = {} if content is None else _unpacked(content)
    if not all(f"rows/{name}" in arrays for name in measurements):
        return ()
    return tuple(_masked(group, name, arrays, slot=slot) for name, slot in measurements.items())


def _slots_of(measurements: Sequence[str], sources: CubeSources) -> list[tuple[str, int]]:
    """Return each measurement with the position of its source in a row: its own, or 0 if all share one."""
    return [(name, index if sources.n_abreast > 1 else 0) for index, name in enumerate(measurements)]


def _stored(store: Store) -> bytes | None:
    try:
        answer = obstore.get(store, QUICKLOOKS_KEY)
    except FileNotFoundError:
        return None
    return bytes(answer.bytes()) if answer.meta["size"] <= _MOST_QUICKLOOKS_NBYTES else b""


def _unpacked(content: bytes) -> dict[str, Any]:
    """Unpack all arrays, unless they would be larger than any that a gather writes."""
    with zipfile.ZipFile(io.BytesIO(content)) as held:
        n_unpacked = sum(each.file_size for each in held.infolist())
        if n_unpacked > _MOST_QUICKLOOKS_NBYTES:
            raise ValueError(f"it would unpack to {n_unpacked / 2**20:,.0f} MiB")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _masked(group: "zarr.Group", name: str, arrays: Mapping[str, Any], *, slot: int) -> MaskedQuicklooks:
    rows, pixels = arrays[f"rows/{name}"].astype("int64"), arrays[f"pixels/{name}"]
    step = int(arrays["step"])
    array: Any = group[name]
    _check(rows, pixels, step, array)
    valid = [
        is_shown(each, nodata)
        for each, nodata in zip(pixels, nodata_of(group, array, rows, slot), strict=True)
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
) -> tuple[Look, ...]:
    first = next(iter(shown.values()))
    roles = _roles(sources, first, slots[first.measurement])
    looks = []
    for name, quicklooks in shown.items():
        frames = sources.described(quicklooks.rows * sources.n_abreast + slots[name])
        rows = np.array([row for row, _, _ in roles])
        of_sheet = sources.described(rows * sources.n_abreast + slots[name])
        array: Any = group[name]
        looks.append(
            Look(
                quicklooks=quicklooks,
                frames=frames,
                contact_sheet=tuple(
                    _picture(group, array, source, quicklooks, role=role, note=note, slot=slots[name])
                    for source, (_, role, note) in zip(of_sheet, roles, strict=True)
                ),
            )
        )
    return tuple(looks)


def _roles(sources: CubeSources, quicklooks: MaskedQuicklooks, slot: int) -> list[tuple[int, str, str]]:
    """Return row, role and note of each window of the contact sheet.

    They are the first, the middle and the last window with a quicklook, and the worst of all windows.
    """
    rows = quicklooks.rows
    names: dict[int, list[str]] = {}
    for role, index in (("first", 0), ("middle", len(rows) // 2), ("last", len(rows) - 1)):
        names.setdefault(int(rows[index]), []).append(role)
    found = [(row, ", ".join(each), "") for row, each in names.items()]
    places = sources.places_of(slot)
    if not len(places):
        return found
    shares = sources.valid_share[places]
    (worst,) = sources.described([int(places[worst_of(shares, sources.total_s[places])])])
    why = why_worst(worst, int((shares <= worst.valid_share).sum()))
    return [*found, (worst.row, "worst", why)]


def _picture(
    group: "zarr.Group",
    array: Any,
    source: SourceRow,
    quicklooks: MaskedQuicklooks,
    *,
    role: str,
    note: str,
    slot: int,
) -> Picture:
    """Return one window: its quicklook, or pixels that are read from the cube."""
    pixels, is_valid = None, None
    index = int(np.searchsorted(quicklooks.rows, source.row))
    if index < len(quicklooks.rows) and quicklooks.rows[index] == source.row:
        pixels, is_valid = quicklooks.pixels[index], quicklooks.is_valid[index]
    elif role != "worst":
        note = "it was not read"
    elif (n_nbytes := _nbytes_of_window(array)) > _MOST_WINDOW_NBYTES:
        note += f"; not shown, as its chunks hold {n_nbytes / 2**20:,.0f} MiB"
    else:
        step = quicklooks.step
        pixels = np.asarray(array[source.row, ::step, ::step])
        rows = np.array([source.row])
        (nodata,) = nodata_of(group, array, rows, slot)
        is_valid = is_shown(pixels, nodata) & are_inside(group, rows, pixels[None], step, slot=slot)[0]
    return Picture(role=role, source=source, pixels=pixels, is_valid=is_valid, note=note)


def _nbytes_of_window(array: Any) -> int:
    """Return the decoded size of all chunks that hold pixels of one row."""
    rows, height, width = array.chunks
    n_chunks = -(-array.shape[1] // height) * -(-array.shape[2] // width)
    return int(n_chunks * rows * height * width * array.dtype.itemsize)
