"""Rasterio's answers for each real file, from ``ground_truth.json`` and ``catalog.csv``."""

import csv
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.window import Transform, Window

SMALL: Final = Path(__file__).resolve().parents[1] / "data"
"""The part of the collection that is in the project."""


AS_FOR_THE_TRUTH: Final = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": False}
"""GDAL's options of these answers: no sidecar files."""


def full_data() -> Path | None:
    """Return the folder of the whole collection. None if it is not there.

    PIXEL_GATHER_DATA names it. Otherwise it is ``shared/data`` beside the project.

    Raises:
        FileNotFoundError: The variable names a folder without the collection.
    """
    named = os.environ.get("PIXEL_GATHER_DATA")
    folder = Path(named) if named else SMALL.parents[2] / "shared" / "data"
    if not (folder / "ground_truth.json").is_file():
        if named:
            raise FileNotFoundError(f"PIXEL_GATHER_DATA is {named}, but there is no ground_truth.json in it")
        return None
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One file and rasterio's answers about it."""

    file: str
    path: Path
    answers: dict[str, Any]
    has_mask: bool
    """Whether a mask or an alpha band hides pixels."""

    n_overviews: int

    @property
    def href(self) -> str:
        """Return the file's href."""
        return f"file://{self.path}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype that rasterio gives."""
        dtype: np.dtype[Any] = np.dtype(self.answers["array_dtype"])
        return dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (band, y, x) of the whole raster."""
        return self.answers["count"], self.answers["height"], self.answers["width"]

    @property
    def nbytes(self) -> int:
        """Return the size of the whole raster in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def transform(self) -> Transform | None:
        """Return the transform, or None where rasterio has the identity."""
        transform = Transform(*self.answers["transform"])
        return None if transform == Transform(1, 0, 0, 0, 1, 0) else transform

    @property
    def windows(self) -> dict[str, tuple[Window, str]]:
        """Return each window and the hash of its pixels."""
        names = ("col_off", "row_off", "width", "height")
        return {
            name: (Window(**{key: window[key] for key in names}), window["sha256"])
            for name, window in self.answers["windows"].items()
        }

    def filled(self, window: Window) -> np.ndarray[Any, Any]:
        """Return an array for a window, filled with the value of pixels beyond the raster."""
        fill = np.array(self.answers["windows"]["overhang"]["fill"]).astype(self.dtype)
        out = np.empty((self.shape[0], window.height, window.width), self.dtype)
        out[...] = fill[:, None, None]
        return out


def truths(folder: Path) -> list[Truth]:
    """Read all answers of a folder."""
    all_answers = json.loads((folder / "ground_truth.json").read_text())
    with (folder / "catalog.csv").open(newline="") as lines:
        catalogue = {row["file"]: row for row in csv.DictReader(lines)}
    return [
        Truth(
            file=file,
            path=folder / file,
            answers=one,
            has_mask="per_dataset" in catalogue[file]["mask"],
            n_overviews=len(catalogue[file]["overviews"].split()),
        )
        for file, one in all_answers["files"].items()
    ]


def sha256(pixels: np.ndarray[Any, Any]) -> str:
    """Hash pixels as ``ground_truth.json`` does: C order, little-endian."""
    little = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder("<"))
    return hashlib.sha256(little.data.cast("B")).hexdigest()


def fitting_nodata(nodata: float | str | None, dtype: np.dtype[Any]) -> float | int | None:
    """Return a nodata value as a header has it: None if the dtype cannot hold it."""
    if nodata is None:
        return None
    value = float(nodata)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(value) if value.is_integer() and limits.min <= value <= limits.max else None
    return value
