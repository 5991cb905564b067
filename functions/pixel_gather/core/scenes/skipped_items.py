"""Items that a search or a catalog leaves out because they cannot be used. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.item import hash_of

_MOST_NAMED: Final = 20


@dataclass(slots=True)
class SkippedItems:
    """Counts them. So one odd item among a million ends no search."""

    n: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)
    """Name and reason of the first twenty."""

    hashes: set[int] = field(default_factory=set)
    """`scene_hash` of those whose id is known."""

    hrefs: set[str] = field(default_factory=set)
    """Files of which no scene could be made."""

    n_unknown: int = 0
    """Those whose id is not known, such as a line that is no JSON."""

    def add(self, error: RequestError, item: Any = None) -> None:
        """Leave out the item that an error names. The item is as much of it as is known."""
        self._count(error.field, error.message)
        if isinstance(item, Mapping) and isinstance(item.get("id"), str):
            self.hashes.add(hash_of(item))
        else:
            self.n_unknown += 1

    def add_file(self, href: str, reason: str) -> None:
        """Leave out a file of which no scene can be made."""
        self._count(href, reason)
        self.hrefs.add(href)

    def may_be(self, item: Mapping[str, Any]) -> bool:
        """Tell whether a scene of a catalog may be one of them, described earlier."""
        assets = (each.get("href") for each in item["assets"].values())
        return (
            self.n_unknown > 0 or hash_of(item) in self.hashes or any(href in self.hrefs for href in assets)
        )

    def _count(self, name: str, reason: str) -> None:
        self.n += 1
        if len(self.first) < _MOST_NAMED:
            self.first.append((name, reason))
