"""List the files below a folder or prefix, as sources of a gather."""

import os
from collections.abc import Iterator
from pathlib import Path

from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import IN_PROCESS, place_text
from pixel_gather.io.lists.list_prefix import ListedObject, list_prefix
from pixel_gather.io.store.store_settings import StoreSettings


@check_arguments
def ls(
    prefix: str | os.PathLike[str],
    *,
    glob: str | None = None,
    regex: str | None = None,
    stores: StoreSettings | None = None,
) -> Iterator[ListedObject]:
    """Yield the files below a folder, sorted by name. Their hrefs can be sources of a gather.

    Args:
        prefix: ``s3://bucket/folder/`` or a local folder.
        glob: Pattern for the path below the prefix; ``**`` means any number of folders.
        regex: Regular expression, searched for in the whole href.
        stores: How to access S3.

    Raises:
        RequestError: The prefix or a pattern is wrong, or the store cannot list it.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    return list_prefix(
        place_text(prefix, "prefix"),
        glob=glob,
        regex=regex,
        policy=IN_PROCESS.within(str(Path.cwd())),
        settings=stores or StoreSettings(),
    )
