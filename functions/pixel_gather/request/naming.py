"""What a deployment calls a gather. Pure.

The name is made from the request, so that the same request twice is the same gather.
"""

import hashlib
import secrets
from typing import Final

from pixel_gather.request.request import GatherRequest

_SUFFIX_NBYTES: Final = 3
_LONGEST_NAME: Final = 60
"""Of ``output.name``."""


def execution_name(request: GatherRequest) -> str:
    """Return the name of the first attempt; at most 77 characters, so that attempts can be numbered.

    It has no dot, though a cube's name may have some: Step Functions logs no execution whose name holds
    anything but letters, digits, hyphens and underscores. The digest then tells ``a.b`` from ``a-b``.
    """
    name, digest = request.output.name, request.digest()
    if name is None:
        return digest
    if "." in name:
        digest = hashlib.sha256(f"{name}-{digest}".encode()).hexdigest()[: len(digest)]
    return f"{name.replace('.', '-')}-{digest}"


def forced(request: GatherRequest) -> GatherRequest:
    """Return the request with a name that none has had, and so another gather and another cube."""
    suffix = f"-{secrets.token_hex(_SUFFIX_NBYTES)}"
    name = request.cube_name[: _LONGEST_NAME - len(suffix)] + suffix
    return request.model_copy(update={"output": request.output.model_copy(update={"name": name})})
