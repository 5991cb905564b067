"""Hold a cube against its receipt."""

import os
from dataclasses import dataclass
from pathlib import Path

from pixel_gather.adapters.cube.check_cube import check_cube
from pixel_gather.adapters.object_store.object_store import StoreSettings, open_place
from pixel_gather.errors import StoreError
from pixel_gather.local.gather import check_place, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a cube's verification has found."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    differences: tuple[str, ...]
    """One sentence for each difference from the receipt. Empty if there is none."""

    n_shards: int
    """Number of shards that the receipt names."""

    n_compared: int
    """Number of shards whose pixels were compared with their digest.

    Shards that were lost have no digest. Pixels that were stored with loss are decoded, but not compared.
    """

    n_files: int
    """Number of files beside the arrays that were compared."""

    @property
    def is_same(self) -> bool:
        """Whether the cube is as its receipt says."""
        return not self.differences


def verify(place: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> Verified:
    """Read a whole cube and compare it with its receipt: shapes, dtypes, the pixels of every shard, files.

    Args:
        place: The cube: a folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3.
        StoreError: No cube with a receipt is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    href = check_place(os.fspath(place))
    name = shown(href)
    if "://" not in name and not Path(name).is_dir():
        raise StoreError(f"{name}: no cube is there; name the folder that a gather has written")
    found = check_cube(open_place(href, stores or StoreSettings()), place=name)
    return Verified(
        place=name,
        differences=found.differences,
        n_shards=found.n_shards,
        n_compared=found.n_compared,
        n_files=found.n_files,
    )
