"""Reads the JSON that executions carry: inputs, outputs, and the errors of functions. Pure."""

import json
from typing import Any


def json_object(text: str | None) -> dict[str, Any] | None:
    """Return the object that a text is in JSON; None where it is none."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def said_by_function(cause: str) -> str:
    """Return the message of a failed function, without Lambda's traceback."""
    wrapped = json_object(cause)
    return str(wrapped.get("errorMessage", cause)) if wrapped else cause
