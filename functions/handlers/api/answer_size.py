"""How much Lambda can answer."""

import json
from typing import Any, Final

MOST_ANSWER_NBYTES: Final = 5_000_000
"""Largest size of an answer's rows or scenes. Lambda answers 6 MB at most. Other fields have the rest."""


def answer_nbytes(value: Any) -> int:
    """Return how many bytes a value takes in Lambda's answer, a JSON text within JSON, and a comma."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII
    return len(text) + text.count('"') + text.count("\\") + 1
