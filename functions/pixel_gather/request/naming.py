"""What a deployment calls a gather. Pure.

The name is made from the request, so that the same request twice is the same gather.
"""

import secrets
from typing import Final

from pixel_gather.request.request import GatherRequest

_SUFFIX_NBYTES: Final = 3
_LONGEST_NAME: Final = 60
"""Of ``output.name``."""


def execution_name(request: GatherRequest) -> str:
    """Return the name of the first attempt; at most 77 characters, so that attempts can be numbered."""
    digest = request.digest()
    return digest if request.output.name is None else f"{request.output.name}-{digest}"


def forced(request: GatherRequest) -> GatherRequest:
    """Return the request with a name that none has had, and so another gather and another cube."""
    suffix = f"-{secrets.token_hex(_SUFFIX_NBYTES)}"
    name = request.cube_name[: _LONGEST_NAME - len(suffix)] + suffix
    return request.model_copy(update={"output": request.output.model_copy(update={"name": name})})
