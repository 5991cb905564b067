"""Gathered cubes of small images that were made up: some fail, some have classes and no place."""

from pathlib import Path

import numpy as np

from pixel_gather import Gathered, Settings, gather
from support.images import TILES_OF_64, Pixels, write_image

_SIDE = 64


def failing_cube(folder: Path) -> Gathered:
    """Gather five dates. One is corrupt, one missing, and one of another dtype lies far away."""
    ramp = np.add.outer(np.arange(_SIDE), np.arange(_SIDE)).astype("uint16")
    _write(folder / "good_1.tif", ramp, west=676_000)
    _write(folder / "good_2.tif", ramp + 20, west=676_000)
    _write(folder / "far.tif", ramp.astype("float32"), west=200_000)
    (folder / "bad.tif").write_bytes(b"no image at all")
    files = {"good_1": 1, "bad": 2, "no": 4, "far": 6, "good_2": 8}
    lines = [f"{folder / name}.tif,2018-{month:02}-10" for name, month in files.items()]
    return _gathered(folder, "failing", ["href,time", *lines])


def scene_class_cube(folder: Path) -> Gathered:
    """Gather three dates of scene classes without a place: three quarters are vegetation."""
    pixels = np.full((_SIDE, _SIDE), 4, "uint8")
    pixels[: _SIDE // 4] = np.array([6, 9], "uint8").repeat(_SIDE // 2)
    lines = []
    for day in (1, 6, 11):
        _write(folder / f"scl_{day}.tif", pixels, west=None)
        lines.append(f"{folder / f'scl_{day}.tif'},2023-08-{day:02},SCL")
    return _gathered(folder, "classes", ["href,time,band", *lines])


def _gathered(folder: Path, name: str, lines: list[str]) -> Gathered:
    listed = folder / f"{name}.csv"
    listed.write_text("\n".join(lines))
    request = {"sources": str(listed), "window": {"pixels": [0, 0, _SIDE, _SIDE]}}
    return gather(request, to=folder / f"{name}.zarr", settings=Settings(draws_report=False))


def _write(file: Path, pixels: Pixels, *, west: float | None) -> None:
    crs = None if west is None else "EPSG:32632"
    write_image(file, pixels, west=west or 0, north=5_154_000, crs=crs, nodata=None, **TILES_OF_64)
