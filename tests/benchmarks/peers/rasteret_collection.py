"""rasteret: a collection with the files' headers in it, built once, then windows read from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import rasteret

from benchmarks.peers.scenes import BAND, BOUNDS, EPSG, geographic_bounds, scene_id, scene_time

_NAME = "scenes"


type Bounds = tuple[float, float, float, float]
"""Left, bottom, right and top."""


def build(hrefs: Sequence[str], folder: Path) -> None:
    """Build the collection of the workload's scenes."""
    build_over(hrefs, folder, bounds=geographic_bounds(), epsg=EPSG)


def build_over(hrefs: Sequence[str], folder: Path, *, bounds: Bounds, epsg: int) -> None:
    """Build a collection with its headers, as its guide "Build From Parquet And Arrow Tables" has it.

    Args:
        hrefs: Each names a file below a bucket.
        folder: Where to write it.
        bounds: Of each file, in degrees.
        epsg: Code of the files' projection.
    """
    import pyarrow as pa  # noqa: PLC0415 # not in what reads
    from shapely import to_wkb  # noqa: PLC0415 # as above
    from shapely.geometry import box  # noqa: PLC0415 # as above

    footprint = to_wkb(box(*bounds))
    table = pa.table(
        {
            "id": [scene_id(index) for index in range(len(hrefs))],
            "datetime": [scene_time(index).replace(tzinfo=None) for index in range(len(hrefs))],
            "geometry": [footprint] * len(hrefs),
            "proj:epsg": [epsg] * len(hrefs),
            "assets": [{BAND: {"href": f"s3:/{urlsplit(href).path}"}} for href in hrefs],
        }
    )
    rasteret.build_from_table(
        table,
        name=_NAME,
        workspace_dir=folder,
        enrich_cog=True,
        band_codes=[BAND],
        max_concurrent=64,
        backend=_backend(hrefs),
    )


def load_collection(hrefs: Sequence[str], folder: Path) -> Any:
    """Open what was built."""
    del hrefs
    return rasteret.load(folder / f"{_NAME}_records")


def read_tiles(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: Any) -> np.ndarray[Any, Any]:
    """Return each source's centre tile, shape (source, y, x).

    By `get_numpy` of the tile's rectangle: `read_window`, its other way to a stack, gives the same pixels for
    twice the CPU time.
    """
    del out
    pixels: np.ndarray[Any, Any] = prepared.get_numpy(
        geometries=BOUNDS,
        geometry_crs=EPSG,
        bands=[BAND],
        max_concurrent=concurrency,
        backend=_backend(hrefs),
    )
    return pixels


def read_boxes(collection: Any, boxes: Sequence[Bounds], *, epsg: int, hrefs: Sequence[str]) -> Any:
    """Return the pixels of each box in each file, shape (file, box, y, x)."""
    import pyarrow as pa  # noqa: PLC0415 # as above
    from shapely import box, to_wkb  # noqa: PLC0415 # as above

    pixels = collection.get_numpy(
        geometries=pa.array(to_wkb([box(*each) for each in boxes])),
        geometry_crs=epsg,
        bands=[BAND],
        backend=_backend(hrefs),
    )
    return pixels.reshape(len(hrefs), len(boxes), *pixels.shape[1:])


def _backend(hrefs: Sequence[str]) -> Any:
    """Return its client of a public bucket at the same server; of http hrefs it only takes https."""
    url = urlsplit(hrefs[0])
    at_server = {"endpoint": f"{url.scheme}://{url.netloc}", "region": "us-east-1", "allow_http": "true"}
    return rasteret.create_backend(default_s3_config=at_server)
