"""The address of an API in the outputs of its stack.

On AWS the output is ``https://ID.execute-api.REGION.amazonaws.com/STAGE/``. Here no name server knows this
name. So the output has the API's address on the emulator's port, by path, as not every machine resolves names
below localhost. Callers find it by DescribeStacks, as on AWS.
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
    """Return an API's address in the emulator. Return any other text unchanged."""
    found = _API.fullmatch(text)
    return f"{endpoint}/_aws/execute-api/{found['id']}/{found['stage']}/" if found else text
