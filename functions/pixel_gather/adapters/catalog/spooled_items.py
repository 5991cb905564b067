"""Items on their way into a catalog, in a temporary file: a million of them need little memory."""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import numpy as np

from pixel_gather.adapters.catalog.footprints import shapes_of
from pixel_gather.catalog.columns import Columns, columns_of, order_of
from pixel_gather.catalog.item import SceneKey, kept, scene_key
from pixel_gather.errors import RequestError

_N_AT_A_TIME: Final = 8192
_DIGEST_NBYTES: Final = 16
_N_CHECKED: Final = 256
"""Items at a time. More of them, decoded, only take memory."""


class SpooledItems:
    """Takes items as they come, then gives them back in the catalog's order.

    Of two items with the same collection and id, the later one stays.
    """

    def __init__(self) -> None:
        self.n_replaced = 0
        """Items that a later one with the same collection and id has replaced."""

        self.collections: dict[str, int] = {}
        self.asset_keys: dict[str, None] = {}
        self._file = tempfile.TemporaryFile(prefix="pixel-gather-catalog-")  # noqa: SIM115 # closed by close()
        self._stops: list[np.ndarray[Any, Any]] = []
        self._some_stops: list[int] = []
        self._columns: list[Columns] = []
        self._keys: list[SceneKey] = []
        self._stop = 0
        self._digests = bytearray()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the temporary file."""
        self._file.close()

    @property
    def n_items(self) -> int:
        """Items so far."""
        return sum(map(len, self._stops)) + len(self._keys)

    def add(self, items: Iterable[Mapping[str, Any]], *, name: str) -> None:
        """Take items; each is checked.

        Raises:
            RequestError: One of them is no STAC item.
        """
        some: list[tuple[Mapping[str, Any], SceneKey]] = []
        for item in items:
            some.append((item, scene_key(item, name=name)))
            if len(some) == _N_CHECKED:
                self._add(some)
                some = []
        self._add(some)

    def ordered(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        """Return the columns in the catalog's order, and which item each row is."""
        self._settle()
        if not self._columns:
            return columns_of([], {}), np.empty(0, np.int64)
        columns = {name: np.concatenate([part[name] for part in self._columns]) for name in self._columns[0]}
        stays = _last_of_each(columns["hash"])
        self.n_replaced = len(columns["hash"]) - len(stays)
        columns = {name: values[stays] for name, values in columns.items()}
        order = order_of(columns)
        return {name: values[order] for name, values in columns.items()}, stays[order]

    def read(self, which: np.ndarray[Any, Any]) -> list[bytes]:
        """Return some items, each as JSON."""
        stops = self._all_stops()
        found = []
        for n in which.tolist():
            start = int(stops[n - 1]) if n else 0
            self._file.seek(start)
            found.append(self._file.read(int(stops[n]) - start))
        return found

    def digests(self, which: np.ndarray[Any, Any]) -> bytes:
        """Return digests of some items, one behind the other."""
        digests: np.ndarray[Any, Any] = np.frombuffer(self._digests, f"V{_DIGEST_NBYTES}")
        return bytes(digests[which].tobytes())

    def _add(self, items: Sequence[tuple[Mapping[str, Any], SceneKey]]) -> None:
        geometries = [item.get("geometry") for item, _ in items]
        contents = [_encoded(kept(item, key), key) for item, key in items]
        # a geometry that cannot be used is refused now, not when it is searched
        shapes_of(
            [None if each is None else msgspec.json.encode(each) for each in geometries],
            name_of=lambda n: f"item {items[n][1].id[:80]}",
        )
        for (item, key), content in zip(items, contents, strict=True):
            self.asset_keys.update(dict.fromkeys(item["assets"]))
            self._digests += hashlib.blake2b(content, digest_size=_DIGEST_NBYTES).digest()
            self._file.write(content)
            self._stop += len(content)
            self._some_stops.append(self._stop)
            self._keys.append(key)
        if len(self._keys) >= _N_AT_A_TIME:
            self._settle()

    def _settle(self) -> None:
        if self._keys:
            self._columns.append(columns_of(self._keys, self.collections))
            self._stops.append(np.array(self._some_stops, np.int64))
            self._keys, self._some_stops = [], []

    def _all_stops(self) -> np.ndarray[Any, Any]:
        if len(self._stops) > 1:
            self._stops = [np.concatenate(self._stops)]
        return self._stops[0]


def _encoded(item: Mapping[str, Any], key: SceneKey) -> bytes:
    try:
        return msgspec.json.encode(item)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError) as error:
        raise RequestError(f"it cannot be stored: {error}", field=f"item {key.id[:80]!a}") from error


def _last_of_each(hashes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the positions of the last scene of each hash, in order."""
    _, firsts_from_behind = np.unique(hashes[::-1], return_index=True)
    return np.sort(len(hashes) - 1 - firsts_from_behind)
