"""Where an API is, as the stack that has made it says.

On AWS the output ``https://ID.execute-api.REGION.amazonaws.com/STAGE/`` is an address that anybody can call.
Here no name server knows it: the output names the same API on the emulator's own port, by path, because not
every machine resolves names below localhost either. So whoever asks DescribeStacks finds it, as on AWS.
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

import os
import re
from collections.abc import Callable
from typing import Any, Final

from ministack.services.cloudformation import stacks

_API: Final = re.compile(
    r"https://(?P<id>[a-z0-9]+)\.execute-api\.[a-z0-9-]+\.amazonaws\.com/(?P<stage>[^/]+)/?"
)

_outputs: Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]] = stacks._resolve_stack_outputs


def apply() -> None:
    """Put the addition in place."""
    stacks._resolve_stack_outputs = resolve_stack_outputs


def resolve_stack_outputs(*given: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a stack's outputs, and its exports."""
    outputs, exports = _outputs(*given)
    for output in outputs:
        output["OutputValue"] = emulated_address(output["OutputValue"], os.environ["AWS_ENDPOINT_URL"])
    return outputs, exports


def emulated_address(text: str, endpoint: str) -> str:
    """Return where the emulator serves an API; any other text as it is."""
    found = _API.fullmatch(text)
    return f"{endpoint}/_aws/execute-api/{found['id']}/{found['stage']}/" if found else text
