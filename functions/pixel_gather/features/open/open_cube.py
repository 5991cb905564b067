"""Opens a cube with xarray, as it is or as it was."""

import os
from typing import TYPE_CHECKING, Any

from pixel_gather.core.errors import RequestError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.plan.cube_version import version_key
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.features.versions.named_version import number_of
from pixel_gather.features.versions.versions import find_complete, growing_cube
from pixel_gather.io.cube.open_group import errors_of_cube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    import xarray as xr


@check_arguments
def open_cube(
    cube: str | os.PathLike[str],
    version: int | str | None = None,
    *,
    stores: StoreSettings | None = None,
    **decoding: Any,
) -> "xr.Dataset":
    """Open a cube with xarray, as it is or as it was. Pixels are read when they are used.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        version: A number, or a time such as ``2026-11-01`` or ``2026-11-01T12:00``, in UTC. A time stands for
            the last version that was committed by then, and a date for the last one of that day or before.
            None for the present version.
        stores: How to access S3.
        decoding: Arguments of xarray that say how values are decoded: ``mask_and_scale=False`` gives them as
            they are stored.

    Raises:
        RequestError: There is no such version, it was forgotten, or there is no complete cube.
        StoreError: The folder is missing, or the store failed.
        MissingExtraError: xarray is not installed.
    """
    check_extra("xarray", "datasets")
    from zarr.storage import ObjectStore  # noqa: PLC0415 # 0.2 s

    from pixel_gather.io.cube.bounded_codecs import open_foreign_dataset  # noqa: PLC0415 # as above
    from pixel_gather.io.cube.version_store import VersionStore  # noqa: PLC0415 # as above

    growing = growing_cube(cube, stores)
    found = find_complete(growing)
    number = found.version if version is None else number_of(found, version)
    store = ObjectStore(growing.store, read_only=True)
    if number == found.version:
        with errors_of_cube(growing.place):
            return open_foreign_dataset(store, decoding)
    root = run(growing.read_object(version_key(number)))
    if root is None:
        raise RequestError(f"version {number} was forgotten", field="version")
    with errors_of_cube(growing.place):
        return open_foreign_dataset(VersionStore(store, root.content), decoding)
