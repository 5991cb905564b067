"""Writes each row of a cube as one Cloud Optimized GeoTIFF, with its measurements as bands."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandMeaning, has_classes
from pixel_gather.features.export.cube_rows import CubeRows, MeasurementOfRow, RowPixels, open_array
from pixel_gather.io.atomic_write import replacing


def write_geotiffs(rows: CubeRows, path: Path) -> Iterator[Path]:
    """Yield the file of each row that was read, when it is written. Pixels are those of the cube, to the bit.

    Args:
        rows: All of their measurements have the same dtype.
        path: Path of the only row. With several rows, the name of each file gets its row and its day, such as
            ``x-00012-2024-05-01.tif``.

    Raises:
        RequestError: The measurements have several dtypes, or those of a row have several nodata values or
            places.
        StoreError: No source was read.
    """
    dtypes = {name: str(open_array(rows.group, name).dtype) for name in rows.measurements}
    if len(set(dtypes.values())) > 1:
        listed = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
        raise RequestError(
            f"the bands of a GeoTIFF have one dtype, the cube has {listed}; choose one", field="measurement"
        )
    meanings = {name: rows.meaning(name) for name in rows.measurements}
    read = rows.of_read_sources()
    columns = (read.times(), read.hrefs(), read.of_read_measurements(), read.scalings())
    for row, time, href, told, scaling in zip(read.read(), *columns, strict=True):
        day = "" if time is None else f"-{time:%Y-%m-%d}"
        own = path if len(read.rows) == 1 else path.with_name(f"{path.stem}-{row.row:05d}{day}{path.suffix}")
        tags = (
            {}
            if time is None
            else {"time": time.isoformat(), "TIFFTAG_DATETIME": f"{time:%Y:%m:%d %H:%M:%S}"}
        )
        tags["href"] = href
        with replacing(own) as partial:
            _write(row, partial, tags, told, scaling, meanings)
        yield own


def _write(
    row: RowPixels,
    path: Path,
    tags: dict[str, str],
    told: Mapping[str, MeasurementOfRow],
    scaling: Mapping[str, tuple[float, float]],
    meanings: Mapping[str, BandMeaning],
) -> None:
    """Write one file. Python writes it, because GDAL says nothing of a full disk.

    rasterio's own writer of COGs loses the nodata of 64-bit integers. So a COG is copied from a plain file.
    """
    from rasterio.io import MemoryFile  # noqa: PLC0415 # 0.3 s
    from rasterio.shutil import copy  # noqa: PLC0415 # as above
    from rasterio.transform import Affine  # noqa: PLC0415 # as above

    crs = _value_of_all_bands("CRS", row.row, {name: each.crs for name, each in told.items()})
    transform = _value_of_all_bands(
        "transform", row.row, {name: each.transform for name, each in told.items()}
    )
    nodata = _nodata(row.row, {name: each.nodata for name, each in told.items()}, row.pixels[0].dtype)
    height, width = row.pixels[0].shape
    with MemoryFile(ext=".tif") as cog:
        with MemoryFile() as plain:
            with plain.open(
                driver="GTiff",
                width=width,
                height=height,
                count=len(scaling),
                dtype=str(row.pixels[0].dtype),
                nodata=nodata,
                crs=crs,
                transform=None if transform is None else Affine(*transform),
                BIGTIFF="IF_SAFER",
            ) as file:
                for index, (name, pixels) in enumerate(zip(scaling, row.pixels, strict=True), start=1):
                    file.write(pixels, index)
                    file.set_band_description(index, name)
                    _tell_meaning(file, index, meanings[name])
                file.scales, file.offsets = zip(*scaling.values(), strict=True)
                file.units = [meanings[name].unit for name in scaling]
                file.update_tags(**tags)
            # a mean of classes is no class
            are_classes = any(has_classes(name, meanings[name]) for name in scaling)
            options = {"overview_resampling": "mode"} if are_classes else {}
            exact = plain.name if _is_exact(nodata) else _with_nodata(plain.name, nodata)
            copy(exact, cog.name, driver="COG", compress="deflate", **options)
        path.write_bytes(cog.getbuffer())


def _is_exact(nodata: complex | None) -> bool:
    """Tell whether rasterio writes a nodata value as it is: it makes a float of it, and GDAL 17 digits."""
    return not isinstance(nodata, int | np.integer) or f"{float(nodata):.17g}" == str(nodata)


def _with_nodata(name: str, nodata: complex | None) -> str:
    """Return a VRT of a file with another nodata value, to the last digit."""
    from rasterio.io import MemoryFile  # noqa: PLC0415 # as above
    from rasterio.shutil import copy  # noqa: PLC0415 # as above

    with MemoryFile(ext=".vrt") as vrt:
        copy(name, vrt.name, driver="VRT")
        text = vrt.read().decode()
    text = re.sub(r"<NoDataValue>[^<]*<", f"<NoDataValue>{nodata}<", text)
    return re.sub(r'relativeToVRT="1">[^<]*<', f'relativeToVRT="0">{name}<', text)


def _tell_meaning(file: Any, band: int, meaning: BandMeaning) -> None:
    """Write what is said of a band: colour and classes, as the reader of a gather's sources finds them."""
    from rasterio.enums import ColorInterp  # noqa: PLC0415 # as above

    dtype = file.dtypes[band - 1]
    said = meaning.attributes(dtype)
    if "flag_values" in said:
        values = " ".join(map(str, said["flag_values"]))
        file.update_tags(band, flag_values=values, flag_meanings=said["flag_meanings"])
    colours = {each.value: each.colour for each in meaning.classes if each.colour is not None}
    if colours and file.count == 1 and dtype == "uint8":
        file.write_colormap(band, {value: tuple(bytes.fromhex(each[1:])) for value, each in colours.items()})
    elif meaning.colour in ColorInterp.__members__ and meaning.colour != ColorInterp.palette.name:
        file.colorinterp = [
            ColorInterp[meaning.colour] if index == band else each
            for index, each in enumerate(file.colorinterp, start=1)
        ]


def _nodata(row: int, values: Mapping[str, complex | None], dtype: np.dtype[Any]) -> complex | None:
    """Return the nodata of all bands. A NaN is never data, whether it is declared as nodata or not.

    So floats without another nodata have NaN. Else GDAL takes NaN for data, and overviews lose the pixels
    around it.
    """
    is_nan = {name: each is not None and bool(np.isnan(each)) for name, each in values.items()}
    shared = _value_of_all_bands(
        "nodata value", row, {name: None if is_nan[name] else each for name, each in values.items()}
    )
    return math.nan if shared is None and dtype.kind in "fc" else shared


def _value_of_all_bands(what: str, row: int, values: Mapping[str, Any]) -> Any:
    """Return what all bands of a file have: GeoTIFF has one for all of them."""
    found = set(values.values())
    if len(found) > 1:
        listed = ", ".join(f"{name} {'none' if each is None else each}" for name, each in values.items())
        raise RequestError(
            f"the bands of a GeoTIFF have one {what}, row {row} has {listed}; choose one", field="measurement"
        )
    return found.pop()
