"""Compare a cube with its receipt."""

import os

from pixel_gather.features.verify.check_cube import Verified, check_cube
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.store.object_store import StoreSettings


def verify(place: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> Verified:
    """Read a whole cube and compare it with its receipt: pixels, coordinates, metadata and files.

    docs/cube.md says what is compared, and how.

    Args:
        place: The cube: a folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3, or joined cubes or a virtual cube are
            there.
        StoreError: No cube with a receipt is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store, name = open_existing(place, stores)
    refuse_joined(
        store,
        name,
        done="verified",
        instead="it has no receipt of its own; verify the cubes that it joins",
    )
    return check_cube(store, place=name)
