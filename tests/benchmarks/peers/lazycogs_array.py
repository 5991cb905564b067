"""lazycogs: STAC items in a GeoParquet file, opened as one lazy array, loaded as a whole."""

import asyncio
import platform
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import lazycogs
import numpy as np
import rustac
from obstore.store import HTTPStore

from benchmarks.peers.scenes import BAND, BOUNDS, EPSG, PIXEL_M, stac_items


def write_items(hrefs: Sequence[str], folder: Path) -> None:
    """Write what a search of a catalogue gives: the items as stac-geoparquet."""

    async def write() -> None:
        await rustac.write(str(folder / "items.parquet"), stac_items(hrefs))

    asyncio.run(write())
    _link_extensions(folder)


def load_client(hrefs: Sequence[str], folder: Path) -> tuple[Path, rustac.DuckdbClient]:
    """Return the items' file and a client that reads it."""
    del hrefs
    client = rustac.DuckdbClient(
        extension_directory=str(folder / "extensions"), extensions=["spatial"], install_extensions=False
    )
    return folder / "items.parquet", client


def read_tiles(
    hrefs: Sequence[str], out: object, *, concurrency: int, prepared: tuple[Path, rustac.DuckdbClient]
) -> np.ndarray[Any, Any]:
    """Return each source's centre tile, shape (source, y, x): one time step for each item."""
    del out
    url = urlsplit(hrefs[0])
    items, client = prepared
    array = lazycogs.open(
        str(items),
        bbox=BOUNDS,
        crs=f"EPSG:{EPSG}",
        resolution=PIXEL_M,
        bands=[BAND],
        time_period=None,
        max_concurrent_reads=concurrency,
        duckdb_client=client,
        store=HTTPStore(f"{url.scheme}://{url.netloc}", client_options={"allow_http": url.scheme == "http"}),
    )
    pixels: np.ndarray[Any, Any] = array.compute().to_numpy()
    first: np.ndarray[Any, Any] = pixels[0]
    return first


def _link_extensions(folder: Path) -> None:
    """Put DuckDB's extensions, which it would download, where it looks for them."""
    cpu = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    for name in ("icu", "parquet", "spatial"):
        package = find_spec(f"duckdb_extension_{name}")
        if package is None or package.origin is None:
            raise ModuleNotFoundError(name)
        for version in Path(package.origin).parent.glob("extensions/v*"):
            place = folder / "extensions" / version.name / f"linux_{cpu}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{name}.duckdb_extension").symlink_to(version / f"{name}.duckdb_extension")
