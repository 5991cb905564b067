"""Writes what a search reads of a catalog of made-up scenes, ten thousand a second and more."""

import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from pixel_gather.core.scenes.columns import N_PER_BLOCK, BlockTable, Columns, block_to_bytes, order_by_place
from pixel_gather.core.time_range import format_moment
from pixel_gather.io.scenes.catalog_format import N_PER_GROUP, CatalogHeader, CollectionExtent, head_to_bytes
from pixel_gather_bench.area import N_FOLDERS, N_IMAGES, PUBLISHED_BOX

COLLECTION: Final = "sentinel-2"
_FIRST_US: Final = 1_420_070_400_000_000  # 2015
_LAST_US: Final = 1_735_689_600_000_000  # 2025
_LINK: Final = (
    "https://storage.googleapis.com/gcp-public-data-sentinel-2/tiles/33/U/UB/"
    "S2A_MSIL1C_20171101T102151_N0206_R065_T33UUB_20171101T121500.SAFE/GRANULE/"
    "L1C_T33UUB_A012318_20171101T102146/IMG_DATA/{id}/T33UUB_20171101T102151_{band}.jp2"
)


def write_made_up(folder: Path, n: int, *, n_links: int = N_IMAGES) -> None:
    """Write a catalog of scenes of 1.4 x 1 degrees all over the Earth, of ten years.

    Of them, 120 lie around the box of the published measurements, and no others do.

    Args:
        folder: Gets ``catalog.columns`` and its items.
        n: Scenes.
        n_links: Number of links of each scene.
    """
    columns = _columns(n)
    order = order_by_place(columns)
    columns = {name: values[order] for name, values in columns.items()}
    offsets = np.zeros(-(-n // N_PER_GROUP) + 1, np.uint64)
    items_key = "catalog.0123456789abcdef.items"
    with (folder / items_key).open("wb") as file:
        for number in range(len(offsets) - 1):
            rows = range(number * N_PER_GROUP, min(n, (number + 1) * N_PER_GROUP))
            items = [_item(columns, row, n_links) for row in rows]
            file.write(zlib.compress(msgspec.msgpack.encode(items), 1))
            offsets[number + 1] = file.tell()
    box = (-180.0, -80.0, 180.0, 82.0)
    extent = CollectionExtent(id=COLLECTION, n_scenes=n, box=box, start_us=_FIRST_US, stop_us=_LAST_US)
    header = CatalogHeader(n_scenes=n, items_key=items_key, extents=(extent,))
    with (folder / "catalog.columns").open("wb") as file:
        file.write(head_to_bytes(header, BlockTable.of(columns), offsets))
        for start in range(0, n, N_PER_BLOCK):
            file.write(block_to_bytes(columns, start, min(start + N_PER_BLOCK, n)))


def _columns(n: int) -> Columns:
    rng = np.random.default_rng(1)
    x0 = rng.uniform(-180, 178, n).astype("<f4")
    y0 = rng.uniform(-80, 80, n).astype("<f4")
    is_near = (np.abs(x0 - PUBLISHED_BOX[0]) < 2) & (np.abs(y0 - PUBLISHED_BOX[1]) < 2)
    y0[is_near] -= 10
    x0[:N_FOLDERS], y0[:N_FOLDERS] = 12, 55
    start_us = rng.integers(_FIRST_US, _LAST_US, n)
    return {
        "start_us": start_us,
        "stop_us": start_us,
        "hash": rng.integers(0, 2**64 - 1, n, np.uint64),
        "x0": x0,
        "y0": y0,
        "x1": x0 + np.float32(1.4),
        "y1": y0 + np.float32(1.0),
        "acquisition": np.zeros(n, "<u4"),
        "collection": np.zeros(n, "<u2"),
        "cloud": rng.integers(0, 101, n).astype("|u1"),
        "is_box": np.ones(n, "|u1"),
    }


def _item(columns: Columns, row: int, n_links: int) -> bytes:
    name = f"s{columns['hash'][row]:020}"
    assets: dict[str, Any] = {
        f"B{band:02}": {"href": _LINK.format(id=name, band=f"B{band:02}")} for band in range(1, n_links + 1)
    }
    return msgspec.json.encode(
        {
            "type": "Feature",
            "stac_version": "1.0.0",
            "id": name,
            "collection": COLLECTION,
            "bbox": [float(columns[side][row]) for side in ("x0", "y0", "x1", "y1")],
            "properties": {
                "datetime": format_moment(int(columns["start_us"][row])),
                "eo:cloud_cover": int(columns["cloud"][row]),
            },
            "assets": assets,
        }
    )
