"""Tiles found by VirtualiZarr and virtual-tiff, which nobody here wrote: the same bytes of the same files.

They are in the dependency group join-anchors. Without it this test is skipped. ``scripts/test --all``
runs it in an environment of its own.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from obstore.store import LocalStore

from pixel_gather import Settings
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.core.request.request import parse_sources
from pixel_gather.in_process.job import opened_job
from support.dependency_groups import module_of_group

SIDE, TILE = 200, 32
CODINGS: tuple[dict[str, Any], ...] = (
    {},
    {"compress": "deflate", "predictor": 2},
    {"compress": "zstd"},
    {"compress": "lzw", "predictor": 2, "endianness": "BIG"},
)


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS)
def test_virtual_tiff_finds_the_same_bytes(tmp_path: Path, coding: dict[str, Any]) -> None:
    """Its manifest of a file has the offsets and lengths that a virtual cube refers to.

    It refuses files in which a tile is absent.
    """
    virtualizarr = module_of_group("virtualizarr", "join-anchors")
    parser = module_of_group("virtual_tiff", "join-anchors").VirtualTIFF(ifd=0)
    registry = module_of_group("obspec_utils.registry", "join-anchors").ObjectStoreRegistry(
        {"file://": LocalStore()}
    )
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "tiled": True, "blockxsize": TILE, "blockysize": TILE} | coding
    with rasterio.open(path, "w", width=SIDE, height=SIDE, count=1, dtype="uint16", **profile) as file:
        file.write(np.random.default_rng(0).integers(0, 9999, (1, SIDE, SIDE)).astype("uint16"))

    ours = asyncio.run(found_tiles(path))
    theirs: Any = virtualizarr.open_virtual_dataset(f"file://{path}", registry=registry, parser=parser)

    (variable,) = theirs.data_vars.values()
    n_across = -(-SIDE // TILE)
    assert {key: (each["offset"], each["length"]) for key, each in variable.data.manifest.dict().items()} == {
        ".".join(map(str, divmod(at, n_across))): each for at, each in enumerate(ours) if each is not None
    }


async def found_tiles(path: Path) -> list[TileRange | None]:
    """Return where all tiles of a file are."""
    async with opened_job(parse_sources([str(path)]), Settings()) as job:
        opened = await job.reader.open_(f"file://{path}", overview=None, cost=Cost())
        whole = Window(col_off=0, row_off=0, width=opened.header.width, height=opened.header.height)
        return (await opened.find_tiles(whole, (1,)))[0]
