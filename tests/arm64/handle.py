"""Enter a package as Lambda does: one handler, one line of JSON for each event on standard input.

Arguments: the package's folder, that of Lambda's runtime, the module of ``handlers``, and the program that
stands for this Python, by which the worker starts GDAL's processes.
"""

import importlib
import json
import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Context:
    """What Lambda tells a handler of its invocation."""

    function_name: str = "function"
    memory_limit_in_mb: int = 1769
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:function"
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        """Return as much as Lambda gives at most."""
        return 900_000


def main() -> None:
    """Handle all events, each answer a line that begins with ``answer:``."""
    folder, runtime, module, python = sys.argv[1:]
    sys.path[:0] = [folder, runtime]
    sys.executable = python
    handler = importlib.import_module(f"handlers.{module}").handler
    for line in sys.stdin:
        answer = handler(json.loads(line), Context())
        sys.stdout.write(f"answer:{json.dumps(answer)}\n")
    sys.stdout.flush()
    os._exit(0)  # as Lambda does: what runs in the background is not waited for


if __name__ == "__main__":
    main()
