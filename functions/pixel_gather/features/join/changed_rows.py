"""Finds the rows of a virtual cube whose local files have changed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr

from pixel_gather.core.model.status import Status
from pixel_gather.features.join.read_members import is_same_file


def changed_rows(group: zarr.Group, measurements: Sequence[str]) -> dict[str, str]:
    """Return the rows of chunks whose local file has another size or time than when it was referred to.

    Returns:
        The files by keys such as ``red/c/3``.
    """
    arrays: dict[str, Any] = {name: group[name] for name in ("href", "etag", "status")}
    n_rows = arrays["href"].shape[0]
    hrefs, etags, status = (np.asarray(each[...]).reshape(n_rows, -1).tolist() for each in arrays.values())
    found: dict[str, str] = {}
    for row, (of_row, versions, codes) in enumerate(zip(hrefs, etags, status, strict=True)):
        for slot, (href, etag) in enumerate(zip(of_row, versions, strict=True)):
            of_slot = measurements if len(of_row) == 1 else measurements[slot : slot + 1]
            is_read = codes[min(slot, len(codes) - 1)] == Status.OK and href.startswith("file://")
            if is_read and not is_same_file(href, etag):
                found |= {f"{name}/c/{row}": href for name in of_slot}
    return found
