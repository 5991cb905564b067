"""Compare a cube, or a table, with its receipt."""

import json
import os
from pathlib import Path

import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.request.href_policy import place_text
from pixel_gather.features.verify.check_cube import Verified, check_cube
from pixel_gather.features.verify.check_table import VerifiedTable, check_table
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import href_here, open_existing
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.tables.table_receipt import RESULT_KEY


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


def find_table(place: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> str | None:
    """Return the file of a table in the folder that a deployment has made for it; None if none is there.

    Of a table that is appended to, it is that of the last version.

    Args:
        place: A folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3.
        StoreError: The folder is missing.
        DeniedError: As `verify`.
    """
    store, name = open_existing(place, stores)
    try:
        result = json.loads(bytes(obstore.get(store, RESULT_KEY).bytes()))
    except (BaseError, OSError):  # if the store failed, who reads a cube there is told so
        return None
    if "images_table" not in result:  # it is a ranking
        return None
    return "/".join([name, *result["table"].rsplit("/", 2)[1:]])


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
    text = place_text(place, "place")
    text = str(Path(text).expanduser()) if text.startswith("~/") else text
    return check_table(href_here(text, "place"), Objects(stores or StoreSettings()))
