"""Checksums that a file carries in itself, so that damage is found without any other file. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

CHECKSUM: Final = "checksum"
"""Key of the checksum in a JSON object."""

_LAST_LINES: Final = {
    ".html": b"\n<!-- sha256 of all lines above: %s -->\n",
    ".txt": b"\nsha256 of all lines above: %s\n",
    ".webp": b"\nsha256 of all bytes before: %s\n",  # behind a picture's end, where decoders read nothing
}
"""By the end of a file's name."""


def checksum_of(told: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, in hexadecimal digits.

    It is that of the JSON text in ASCII without spaces, with sorted keys and without the checksum itself. So
    it does not depend on how the object is written.
    """
    others = {key: value for key, value in told.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def with_checksum(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as the last value."""
    return {key: value for key, value in told.items() if key != CHECKSUM} | {CHECKSUM: checksum_of(told)}


def has_its_checksum(told: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is as it was written."""
    return told.get(CHECKSUM) == checksum_of(told)


def file_with_checksum(name: str, content: bytes) -> bytes:
    """Return a file with its checksum: JSON as its last value, HTML, text and pictures in a last line."""
    suffix = name[name.rindex(".") :]
    if suffix == ".json":
        return json.dumps(with_checksum(json.loads(content)), indent=2).encode()
    return content + _LAST_LINES[suffix] % hashlib.sha256(content).hexdigest().encode()


def is_file_as_written(name: str, content: bytes) -> bool:
    """Return whether a file is as `file_with_checksum` has made it."""
    suffix = name[name.rindex(".") :]
    if suffix == ".json":
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            return False
        return isinstance(told, dict) and has_its_checksum(told)
    n_lines = max(len(content) - len(_LAST_LINES[suffix] % bytes(64)), 0)
    return content == file_with_checksum(name, content[:n_lines])
