"""Writes each row of a cube as one Cloud Optimized GeoTIFF, with its measurements as bands."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from pixel_gather.adapters.cube.valid_pixels import nodata_of
from pixel_gather.adapters.export.cube_rows import CubeRows, RowPixels, array_of
from pixel_gather.errors import RequestError

type Replacing = Callable[[Path], AbstractContextManager[Path]]


def write_geotiffs(rows: CubeRows, path: Path, replacing: Replacing) -> Iterator[Path]:
    """Yield the file of each row that was read, when it is written. Pixels are those of the cube, to the bit.

    Args:
        rows: All of their measurements have the same dtype.
        path: Path of the only row. With several rows, the name of each file gets its row and its day, such as
            ``x-00012-2024-05-01.tif``.
        replacing: Gives another path to write to, and then replaces the file by it.

    Raises:
        RequestError: The measurements have several dtypes.
        StoreError: No source was read.
    """
    dtypes = {name: str(array_of(rows.group, name).dtype) for name in rows.measurements}
    if len(set(dtypes.values())) > 1:
        listed = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
        raise RequestError(
            f"the bands of a GeoTIFF have one dtype, the cube has {listed}; choose one", field="measurement"
        )
    read = rows.of_read_sources()
    columns = {name: read.coordinate(name) for name in ("crs", "transform", "href")}
    for index, (row, time) in enumerate(zip(read.read(), read.times(), strict=True)):
        day = "" if time is None else f"-{time:%Y-%m-%d}"
        own = path if len(read.rows) == 1 else path.with_name(f"{path.stem}-{row.row:05d}{day}{path.suffix}")
        tags = (
            {}
            if time is None
            else {"time": time.isoformat(), "TIFFTAG_DATETIME": f"{time:%Y:%m:%d %H:%M:%S}"}
        )
        told = {name: None if values is None else values[index] for name, values in columns.items()}
        with replacing(own) as partial:
            _write(read, row, partial, tags, told)
        yield own


def _write(rows: CubeRows, row: RowPixels, path: Path, tags: dict[str, str], told: dict[str, Any]) -> None:
    import rasterio  # noqa: PLC0415 # 0.3 s
    from rasterio.transform import Affine  # noqa: PLC0415 # as above

    first = array_of(rows.group, rows.measurements[0])
    (nodata,) = nodata_of(rows.group, first, np.array([row.row]), 0)
    crs, transform = _of_first_read(told["crs"]), _of_first_read(told["transform"], n_dims=1)
    height, width = rows.shape
    with rasterio.open(
        path,
        "w",
        driver="COG",
        width=width,
        height=height,
        count=len(rows.measurements),
        dtype=str(first.dtype),
        nodata=nodata,
        crs=crs or None,
        transform=None if transform is None else Affine(*transform),
        compress="deflate",
    ) as file:
        for index, (name, pixels) in enumerate(zip(rows.measurements, row.pixels, strict=True), start=1):
            file.write(pixels, index)
            file.set_band_description(index, name)
        href = told["href"]
        file.update_tags(**tags, href=" ".join(str(each) for each in np.atleast_1d(href) if each))


def _of_first_read(value: Any, *, n_dims: int = 0) -> Any:
    """Return a row's value: its own, or of its first source that has one."""
    if value is None:
        return None
    values = np.asarray(value)
    if values.ndim == n_dims:
        return value
    return next(
        (each for each in values if each is not None and np.all(each != "") and not _is_nan(each)), None
    )


def _is_nan(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "f" and bool(np.isnan(value).any())


def _array(rows: CubeRows, name: str) -> Any:
    return rows.group[name]
