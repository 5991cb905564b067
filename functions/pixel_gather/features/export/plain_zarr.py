"""Writes rows of a cube as Zarr v3 without shards, for programs that know none, such as GDAL 3.12."""

import os
import shutil
import warnings
from pathlib import Path
from typing import Any, Final

import zarr
from zarr.codecs import GzipCodec

from pixel_gather.core.errors import StoreError
from pixel_gather.features.export.cube_rows import CubeRows, dims_of, open_array

_SIDE: Final = 512
"""Most pixels of a chunk along each side. A chunk has one row, as programs that show pictures read one."""

_OF_CUBES: Final = ("pixel_gather", "complete")
"""Attributes of the group that a copy must not have: it is no cube that can grow."""


def write_plain_zarr(rows: CubeRows, path: Path) -> None:
    """Write the chosen rows and measurements, and all coordinates. Holds 64 MiB of pixels at one time.

    Pixels and attributes are those of the cube, to the bit. The codec is gzip, which every reader knows. The
    folder must not exist.

    Raises:
        StoreError: The folder exists.
        OSError: It cannot be written.
    """
    if path.exists():
        raise StoreError(f"{path} is there already: give another name")
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        _write(rows, partial)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(rows: CubeRows, folder: Path) -> None:
    attributes = {name: value for name, value in rows.group.attrs.items() if name not in _OF_CUBES}
    target = zarr.open_group(folder, mode="w", zarr_format=3, attributes=attributes)
    for name, array, values in rows.arrays():
        shape = (len(rows.rows), *array.shape[1:]) if values is None else values.shape
        _create(target, name, array, shape, values)
    for index, row in enumerate(rows.read()):
        for name, pixels in zip(rows.measurements, row.pixels, strict=True):
            open_array(target, name)[index] = pixels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the specification of consolidated metadata is not final
        zarr.consolidate_metadata(target.store)


def _create(target: zarr.Group, name: str, array: Any, shape: tuple[int, ...], values: Any) -> None:
    """Make one array. The pixels of measurements come later."""
    of_pixels = (1, *(min(side, _SIDE) for side in shape[1:]))
    chunks = of_pixels if values is None else tuple(max(n, 1) for n in shape)
    created = target.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=str if array.dtype.kind in "TOU" else array.dtype,
        fill_value=array.fill_value,
        compressors=GzipCodec(level=5),
        dimension_names=dims_of(array),
        attributes=dict(array.attrs),
    )
    if values is not None:
        created[...] = values
