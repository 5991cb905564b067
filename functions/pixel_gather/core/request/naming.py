"""Names of gathers in a deployment.

The name is made from the request. So the same request always has the same name.
"""

import hashlib
import secrets
from typing import Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import GatherRequest

_SUFFIX_NBYTES: Final = 3
_LONGEST_NAME: Final = 60
"""Longest ``output.name``, in characters."""


def execution_name(request: GatherRequest, *, day: str = "") -> str:
    """Return the name of a gather's first execution. It has at most 77 characters: a number can follow.

    Step Functions does not log executions with other characters in their name than letters, digits, hyphens
    and underscores. So dots become hyphens, and the digest distinguishes ``a.b`` from ``a-b``.

    Args:
        request: The request.
        day: The date of today. Only the names of appends have it: the same append may find other sources on
            another day.
    """
    name, digest = request.output.name, request.digest()
    if request.output.append_to is not None:
        name = request.cube_name
        of_append = f"append-{digest}-{request.failed_rows}-{day}"
        digest = hashlib.sha256(of_append.encode()).hexdigest()[: len(digest)]
    if name is None:
        return digest
    if "." in name:
        digest = hashlib.sha256(f"{name}-{digest}".encode()).hexdigest()[: len(digest)]
    return f"{name.replace('.', '-')}-{digest}"


def with_random_name(request: GatherRequest) -> GatherRequest:
    """Return a copy of the request with a fresh random name: another gather and another cube."""
    if request.output.append_to is not None:
        raise RequestError(
            "force is for new cubes; leave it out: an append finds new sources by itself", field="force"
        )
    suffix = f"-{secrets.token_hex(_SUFFIX_NBYTES)}"
    name = request.cube_name[: _LONGEST_NAME - len(suffix)] + suffix
    return request.model_copy(update={"output": request.output.model_copy(update={"name": name})})
