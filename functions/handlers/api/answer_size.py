"""How much Lambda can answer."""

import json
from typing import Any, Final

MOST_ANSWER_NBYTES: Final = 5_000_000
"""Largest size of an answer's rows or scenes. Lambda answers 6 MB at most. Other fields have the rest."""


def answer_nbytes(value: Any) -> int:
    """Return how many bytes a value takes in Lambda's answer, a JSON text within JSON, and a comma."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII
    return len(text) + text.count('"') + text.count("\\") + 1


def fit_scenes(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table of `Ranking.to_json` with as many of its first scenes as fit. A note says so."""
    rows, nbytes, n = table["scenes"], 0, 0
    for row in rows:
        nbytes += answer_nbytes(row)
        if nbytes > MOST_ANSWER_NBYTES:
            break
        n += 1
    if n == len(rows):
        return table
    note = f"this answer has the first {n:,} of {len(rows):,} scenes; the whole table is a file"
    return table | {"scenes": rows[:n], "notes": [*table["notes"], note]}
