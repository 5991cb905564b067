"""Compare a table with its receipt."""

import os
from pathlib import Path

from pixel_gather.features.verify.check_table import VerifiedTable, check_table
from pixel_gather.in_process.places import href_here
from pixel_gather.io.store.object_store import Objects, StoreSettings


def verify_table(place: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> VerifiedTable:
    """Read the files of a table of `points` or `zones`, and compare them with its receipt.

    Args:
        place: The table: a Parquet file, or ``s3://bucket/key``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local file nor on S3.
        StoreError: No table with a receipt is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    text = os.fspath(place)
    text = str(Path(text).expanduser()) if text.startswith("~/") else text
    return check_table(href_here(text, "place"), Objects(stores or StoreSettings()))
