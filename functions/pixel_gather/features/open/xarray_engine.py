"""Lets ``xarray.open_dataset(place, engine="pixel-gather")`` open a cube, joined cubes or a virtual cube.

``pyproject.toml`` names the class as a backend of xarray, which imports it.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, override

import xarray as xr
from xarray.backends import BackendEntrypoint

from pixel_gather.core.errors import RequestError
from pixel_gather.features.join.join import open_joined
from pixel_gather.features.open.open_cube import open_cube
from pixel_gather.features.virtual.virtual import open_virtual
from pixel_gather.in_process.joined_places import is_joined, refuse_choice
from pixel_gather.io.cube.bounded_codecs import DECODERS
from pixel_gather.io.store.store_settings import StoreSettings


class PixelGatherEngine(BackendEntrypoint):
    """The engine ``pixel-gather``."""

    description: ClassVar[str] = "Cubes of Pixel Gather, as they are or as they were"
    url: ClassVar[str] = ""
    open_dataset_parameters: ClassVar[tuple[str, ...]] = (
        "filename_or_obj", "drop_variables", "at", "group", "stores", *DECODERS,
    )  # fmt: skip

    @override
    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        at: int | str | datetime | None = None,
        group: str | None = None,
        stores: StoreSettings | None = None,
        **decoding: Any,
    ) -> xr.Dataset:
        """Open what is at a place. Pixels are read when they are used.

        Args:
            filename_or_obj: A folder, or ``s3://bucket/prefix``, of a cube, of joined cubes or of a virtual
                cube.
            drop_variables: Names of arrays that are left out.
            at: The version: a number, or a time in UTC. None for the present one.
            group: Name of the group, if joined cubes have several.
            stores: How to access S3.
            decoding: Arguments of xarray, such as ``mask_and_scale``. Those of its other engines are refused.
        """
        if "version" in decoding:
            raise RequestError("it is at here: at=2 or at='2026-11-01'", field="version")
        place: str | os.PathLike[str] = filename_or_obj
        found = _open(place, at, group, stores, decoding)
        left_out = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        return found.drop_vars(left_out, errors="ignore")

    @override
    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return False: xarray's own engine for Zarr opens cubes, too, so this one is asked for by name."""
        return False


def _open(
    place: str | os.PathLike[str],
    at: int | str | datetime | None,
    group: str | None,
    stores: StoreSettings | None,
    decoding: Mapping[str, Any],
) -> xr.Dataset:
    if not is_joined(place, stores=stores):
        refuse_choice(group, None)
        return open_cube(place, at.isoformat() if isinstance(at, datetime) else at, stores=stores, **decoding)
    if group is None:
        try:
            return open_virtual(place, at, stores=stores, **decoding)
        except RequestError as error:
            if error.field != "cube":  # joined cubes are there
                raise
    return open_joined(place, at, group=group, stores=stores, **decoding)
