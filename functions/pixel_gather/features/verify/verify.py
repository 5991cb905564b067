"""Compare a cube, or a table, with its receipt."""

import os

import msgspec
import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import place_text, with_home
from pixel_gather.features.verify.check_cube import Verified, check_cube
from pixel_gather.features.verify.check_table import VerifiedTable, check_table
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import holds_file, href_here, open_existing
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.tables.table_receipt import RESULT_KEY, TABLE_KEY, key_in_folder, read_result


class _Result(msgspec.Struct, frozen=True):
    """What is read of a ``result.json``."""

    kind: str
    table: str


@check_arguments
def verify(cube: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> Verified:
    """Read a whole cube and compare it with its receipt: pixels, coordinates, metadata and files.

    docs/cube.md says what is compared, and how.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3, or joined cubes or a virtual cube are
            there.
        StoreError: No cube with a receipt is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store, name = open_existing(cube, stores)
    refuse_joined(
        store,
        name,
        done="verified",
        instead="it has no receipt of its own; verify the cubes that are joined. A virtual cube has only "
        "references to files",
    )
    return check_cube(store, place=name)


def find_table(
    place: str | os.PathLike[str], *, field: str = "cube", stores: StoreSettings | None = None
) -> str | None:
    """Return the Parquet file of a deployment's table.

    The place is the table's folder, or the folder of one version. In the table's folder, the last version
    counts.

    Args:
        place: A folder, or ``s3://bucket/prefix``.
        field: What a `RequestError` names.
        stores: How to access S3.

    Returns:
        The file; None if the place has neither a ``result.json`` that can be read, nor a table.

    Raises:
        RequestError: The place is neither a local folder nor on S3, or a ranking is there.
        StoreError: The folder is missing, its ``result.json`` is damaged, or the store does not answer.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store, name = open_existing(place, stores, field=field)
    try:
        content = bytes(obstore.get(store, RESULT_KEY).bytes())
    except (BaseError, OSError):
        content = None
    if content is None:
        return f"{name}/{TABLE_KEY}" if holds_file(store, name, TABLE_KEY) else None
    result = read_result(content, place=name, type=_Result)
    if result.kind == "ranking":
        raise RequestError(f"{name} is a ranking, which has no receipt to compare it with", field=field)
    return f"{name}/{key_in_folder(result.table)}"


@check_arguments
def verify_table(table: str | os.PathLike[str], *, stores: StoreSettings | None = None) -> VerifiedTable:
    """Read the files of a table of `points` or `zones`, and compare them with its receipt.

    Args:
        table: A Parquet file, ``s3://bucket/key``, the folder of a deployment's table, or the folder of one
            of its versions.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither local nor on S3, or a ranking is there.
        StoreError: No table with a receipt is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    text = place_text(table, "table")
    if not text.endswith(".parquet"):
        text = find_table(table, field="table", stores=stores) or text
    return check_table(href_here(with_home(text), "table"), Objects(stores or StoreSettings()))
