"""The versions of a cube: its first gather, and what each append has added. Pure."""

from typing import Any

from msgspec import Struct, to_builtins


class CubeVersion(Struct, frozen=True, kw_only=True):
    """One commit of a cube."""

    number: int
    """From 1, the first gather."""

    committed_at: str
    """When it became visible: ISO 8601, UTC."""

    n_rows: int
    """Rows of the cube since then. A chip has one row for each image."""

    n_sources: int
    """Sources that it added."""

    n_failed: int
    """How many of them could not be read."""

    n_skipped: int
    """Sources of its list that the cube had already."""

    digest: str
    """Digest of the request and the list whose sources it added. Of a compaction: that of the version before
    it. Of a copy of joined cubes: that of its members."""

    kind: str
    """``gather``, ``append``, ``retry`` for one that only tries failed rows again, ``compact``, or ``copy``
    for a copy of joined cubes."""

    n_retried: int = 0
    """Sources of earlier versions, which could not be read then, that it has tried again."""

    n_recovered: int = 0
    """How many of them it has read."""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        told: dict[str, Any] = to_builtins(self)
        return told


def version_key(number: int) -> str:
    """Return the key under which a former version's group metadata are kept."""
    return f"versions/{number:05d}.json"
