"""Cubes to look at. One is a made-up valley in four colours, with clouds, gaps and a missing file."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import zarr
from obstore.store import MemoryStore
from rasterio.enums import ColorInterp
from zarr.storage import ObjectStore

from pixel_gather import Gathered, Settings, gather
from pixel_gather.io.cube.tile_codecs import register_codecs
from pixel_gather.io.cube.zarr_metadata import zarr_codecs
from support.images import TILES_OF_64, write_image

BANDS = ("red", "green", "blue", "nir")
SIDE = 192
NODATA = 65535
_COLOURS = {
    "red": (0.17, 0.04, 0.03),
    "green": (0.13, 0.08, 0.05),
    "blue": (0.09, 0.03, 0.06),
    "nir": (0.22, 0.45, 0.02),
}
"""Reflectance of bare soil, of leaves and of water."""

MASKLESS = 3
"""The row of `gathered_clear` whose mask is missing."""

MISSING = 7
"""The row whose near-infrared file is missing."""

type Pixels = np.ndarray[Any, np.dtype[Any]]


def valley(n_rows: int, *, seed: int = 3) -> Mapping[str, Pixels]:
    """Return reflectances times 10,000 of each band, shape (row, y, x): seasons, fields, a river, clouds."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    shade = 1 + 0.1 * sum(_waves(random, x, y, scale) / scale for scale in (1, 2, 4))
    corners = random.uniform(-0.1, 1.1, (70, 2))
    field = np.argmin(np.hypot(y[..., None] - corners[:, 0], x[..., None] - corners[:, 1]), axis=-1)
    ripens, is_wood = random.uniform(0, 0.35, 70)[field], (random.uniform(0, 1, 70) < 0.3)[field]
    is_river = np.abs(x - 0.5 - 0.18 * np.sin(4 * y) - 0.04 * np.sin(15 * y)) < 0.02
    found: dict[str, list[Pixels]] = {band: [] for band in BANDS}
    for row in range(n_rows):
        season = 0.5 - 0.5 * np.cos(2 * np.pi * (row / n_rows - ripens))
        green = np.where(is_wood, 0.6 + 0.3 * season, season)
        sky = sum(_waves(random, x, y, scale) / scale for scale in (1, 2, 4, 8))
        cloud = np.clip(0.6 * sky - (0.2 if row % 3 == 1 else 2), 0, 0.6)
        for band, (soil, leaf, water) in _COLOURS.items():
            ground = np.where(is_river, water, shade * (soil + (leaf - soil) * green))
            found[band].append(ground + cloud + random.normal(0, 0.002, (SIDE, SIDE)))
    return {band: _stored(np.stack(rows)) for band, rows in found.items()}


def gathered_valley(
    folder: Path,
    *,
    n_rows: int = 24,
    output: Mapping[str, Any] | None = None,
    draws_report: bool = False,
    reduce: Mapping[str, str] | None = None,
) -> Gathered:
    """Write the valley as GeoTIFFs, one for each row and band. Gather them into ``folder/valley.zarr``."""
    lines = ["href,time,band"]
    for band, rows in valley(n_rows).items():
        for row, pixels in enumerate(rows):
            file = folder / f"valley_{row:03}_{band}.tif"
            lines.append(f"{file},{date(2025, 1, 4) + timedelta(15 * row)},{band}")
            if (row, band) != (MISSING, "nir"):
                _write(file, pixels)
    more = {"output": dict(output or {}), "reduce": reduce and dict(reduce)}
    return _gathered(folder, "valley", lines, draws_report=draws_report, **more)


def gathered_months(folder: Path) -> Gathered:
    """Gather the medians of the valley's months. One source of the fourth month is missing."""
    return gathered_valley(folder, reduce={"by": "month", "statistic": "median"})


def gathered_classes(folder: Path, *, n_rows: int = 4) -> Gathered:
    """Gather Sentinel-2's classes, and others under no known name, as bands SCL and kind."""
    lines = ["href,time,band"]
    for row in range(n_rows):
        for band, pixels in (("SCL", scene_classes(row)), ("kind", scene_classes(row) % 3)):
            file = folder / f"{band}_{row}.tif"
            lines.append(f"{file},{date(2025, 1, 4) + timedelta(15 * row)},{band}")
            _write(file, pixels.astype("uint8"), dtype="uint8", nodata=0 if band == "SCL" else 255)
    return _gathered(folder, "classes", lines)


COVER = {10: "#016400", 20: "#ffbb22", 80: "#0064c8"}
"""Colours of the classes of `gathered_cover`. File and cube say that 10 is forest, and 80 open water."""


def gathered_cover(folder: Path, *, n_rows: int = 3) -> Gathered:
    """Gather a map of land cover whose files have a palette, and names of two classes."""
    files = ["href"]
    for row in range(n_rows):
        file = folder / f"cover_{row}.tif"
        _write(file, cover(row), dtype="uint8", nodata=0, photometric="palette")
        with rasterio.open(file, "r+") as target:
            target.write_colormap(1, {value: tuple(bytes.fromhex(each[1:])) for value, each in COVER.items()})
            target.update_tags(flag_values="10, 80", flag_meanings="forest open_water")
        files.append(str(file))
    return _gathered(folder, "cover", files)


def cover(row: int) -> Pixels:
    """Return land cover of one row of `gathered_cover`: 10, 20, 80, and 30, which the palette has black."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    classes = np.where(x < SIDE // 2, 10, 20)
    classes[np.abs(y - x) < 12 + row] = 80
    classes[-20:, -20:] = 30
    return classes.astype("uint8")


def gathered_scenes(folder: Path, *, n_rows: int = 9) -> Gathered:
    """Gather the valley as scenes of Sentinel-2: B02, B03, B04 and B08, with classes of twice their width."""
    lines = ["href,time,band,scene,eo:cloud_cover"]
    colours = valley(n_rows)
    names = {"B02": "blue", "B03": "green", "B04": "red", "B08": "nir"}
    for row in range(n_rows):
        day = date(2025, 1, 4) + timedelta(15 * row)
        scene = f"S2B_MSIL2A_{day:%Y%m%d}T101109_R022_T32TPS_{day:%Y%m%d}T121533"
        for band in (*names, "SCL"):
            file = folder / f"{scene}_{band}.tif"
            lines.append(f"{file},{day}T10:11:09Z,{band},{scene},{10 * (row % 5)}")
            if band == "SCL":
                _write(file, scene_classes(row)[::2, ::2], dtype="uint8", nodata=0, width=20)
            elif row != MISSING:
                _write(file, colours[names[band]][row])
    return _gathered(folder, "scenes", lines, grid={"resolution": "finest"})


def gathered_bgr(folder: Path) -> Gathered:
    """Gather images of three bands whose files say that they are blue, green and red, in this order."""
    colours = valley(2)
    files = ["href"]
    for row in range(2):
        file = folder / f"bgr_{row}.tif"
        _write(file, np.stack([colours[each][row] for each in ("blue", "green", "red")]))
        with rasterio.open(file, "r+") as target:
            target.colorinterp = [ColorInterp.blue, ColorInterp.green, ColorInterp.red]
        files.append(str(file))
    return _gathered(folder, "bgr", files)


def gathered_clear(folder: Path, *, n_rows: int = 5) -> Gathered:
    """Gather red and near infrared on one grid with classes of twice their width, which hide clouds.

    The classes of `MASKLESS` are missing.
    """
    lines = ["href,time,band"]
    colours = valley(n_rows)
    for row in range(n_rows):
        for band in ("red", "nir", "scl"):
            file = folder / f"clear_{row}_{band}.tif"
            lines.append(f"{file},{date(2025, 1, 4) + timedelta(15 * row)},{band}")
            if band != "scl":
                _write(file, colours[band][row])
            elif row != MASKLESS:
                _write(file, scene_classes(row)[::2, ::2], dtype="uint8", nodata=0, width=20)
    mask = {"band": "scl", "drop": [8], "dilate": 2}
    return _gathered(folder, "clear", lines, grid={"resolution": "finest"}, mask=mask)


def scene_classes(row: int) -> Pixels:
    """Return Sentinel-2's classes of one row of `gathered_classes`: 0, 4, 5, 6 and 8."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    classes = np.where(x < SIDE // 2, 4, 5)
    classes[np.abs(y - x) < 12] = 6
    classes[np.hypot(y - 60, x - 40 * row) < 30] = 8
    classes[-20:, -20:] = 0
    return classes.astype("uint8")


def _gathered(
    folder: Path, name: str, lines: list[str], *, draws_report: bool = False, **more: Any
) -> Gathered:
    """Gather whole files of a list. None leaves a field of the request out."""
    listed = folder / "sources.csv"
    listed.write_text("\n".join(lines))
    request = {"sources": str(listed), "window": {"pixels": [0, 0, SIDE, SIDE]}}
    request |= {key: value for key, value in more.items() if value is not None}
    return gather(request, to=folder / f"{name}.zarr", settings=Settings(draws_report=draws_report))


def _waves(random: np.random.Generator, x: Pixels, y: Pixels, scale: float) -> Pixels:
    along, across, start = random.normal(0, scale, 2), random.normal(0, scale, 2), random.uniform(0, 6, 2)
    waves: Pixels = np.sum([np.sin(6 * (along[n] * x + across[n] * y) + start[n]) for n in range(2)], axis=0)
    return waves


def _stored(reflectance: Pixels) -> Pixels:
    pixels = np.clip(np.round(reflectance * 10_000), 1, 60_000).astype("uint16")
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    pixels[1::4, x + y < SIDE // 4] = NODATA  # the edge of an orbit
    return pixels


def _write(
    file: Path,
    pixels: Pixels,
    *,
    dtype: str = "uint16",
    nodata: float = NODATA,
    width: int = 10,
    **options: Any,
) -> None:
    place: dict[str, Any] = {"west": 676_000, "north": 5_154_000, "size": width}
    write_image(file, pixels.astype(dtype), nodata=nodata, **place, **TILES_OF_64, **options)


def gathered_warm(folder: Path, *, n_rows: int = 4) -> Gathered:
    """Gather temperatures: fractions in kelvin, and whole numbers that a scale makes degrees."""
    lines = ["href,time,band"]
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    for row in range(n_rows):
        kelvin = 280 + 12 * np.sin(row + 3 * x) + 6 * y
        for band, pixels, unit in (("t2m", kelvin, "K"), ("lst", (kelvin - 273.15) / 0.02, "\u00b0C")):
            file = folder / f"{band}_{row}.tif"
            lines.append(f"{file},{date(2025, 1, 4) + timedelta(15 * row)},{band}")
            dtype = "float32" if band == "t2m" else "int16"
            _write(file, pixels.astype(dtype), dtype=dtype, nodata=-9999)
            with rasterio.open(file, "r+") as target:
                target.units = [unit]
                target.scales = [1.0 if band == "t2m" else 0.02]
    return _gathered(folder, "warm", lines)


def plain_cube(n_rows: int, *, dim: str, dtype: str = "int64", codec: str = "blosc-lz4") -> Any:
    """Return a store with a cube off the map: rows of 16 x 16 pixels. The first and last 64 are stored."""
    store = MemoryStore()
    group = zarr.create_group(ObjectStore(store), attributes={"complete": 1})
    rows = np.arange(n_rows)
    register_codecs()
    stored: dict[str, Any] = dict(zarr_codecs(codec, itemsize=np.dtype(dtype).itemsize))
    stored |= {"chunks": (8, 8, 8), "shards": (64, 16, 16)}
    pixels: Any = group.create_array(
        "band_1", shape=(n_rows, 16, 16), dtype=dtype, dimension_names=(dim, "y", "x"), fill_value=0, **stored
    )
    for part in (slice(0, 64), slice(n_rows - 64, n_rows)):
        pixels[part] = plain_pixels(rows[part]).astype(dtype)
    values: dict[str, Pixels] = {"status": np.zeros(n_rows, "uint8"), "href": _hrefs(n_rows)}
    if dim == "time":
        values["time"] = 1_577_836_800_000_000 + rows * 3_600_000_000
    flags: dict[str, Any] = {"flag_values": [0, 2], "flag_meanings": "ok missing"}
    for name, each in values.items():
        array: Any = group.create_array(
            name,
            shape=each.shape,
            chunks=(min(n_rows, 16_384),),
            dtype=str if each.dtype == object else each.dtype,
            dimension_names=(dim,),
            attributes=flags if name == "status" else {},
        )
        array[...] = each
    zarr.consolidate_metadata(ObjectStore(store))
    return store


def plain_pixels(rows: Pixels) -> Pixels:
    """Return the pixels of some rows of `plain_cube`."""
    pixels: Pixels = rows[:, None, None] * 1000 + np.arange(256).reshape(16, 16)
    return pixels


def _hrefs(n_rows: int) -> Pixels:
    return np.array([f"s3://b/{row}.tif" for row in range(n_rows)], dtype=object)
