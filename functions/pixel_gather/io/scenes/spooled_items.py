"""Items on their way into a catalog, in a temporary file: a million of them need little memory."""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec
import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.columns import Columns, order_by_place, stack_columns
from pixel_gather.core.scenes.item import SceneKey, scene_key, without_links
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.io.scenes.parse_footprints import parse_shapes

_N_AT_A_TIME: Final = 8192
_DIGEST_NBYTES: Final = 16
_N_CHECKED: Final = 256
"""Items at a time. More of them, decoded, only take memory."""


class _NewItems(Struct, frozen=True, kw_only=True):
    """What was there before the first item of an existing catalog."""

    n: int
    collections: dict[str, int]
    asset_keys: dict[str, None]
    properties: dict[str, None]


class SpooledItems:
    """Takes items as they come, then gives them back in the catalog's order.

    Of two items with the same collection and id, the later one stays. Items of an existing catalog give way
    to new ones.
    """

    def __init__(self) -> None:
        self.n_replaced = 0
        """New items that a later one with the same collection and id has replaced."""

        self.collections: dict[str, int] = {}
        self.asset_keys: dict[str, None] = {}
        self.properties: dict[str, None] = {}
        self._file = tempfile.TemporaryFile(prefix="pixel-gather-catalog-")  # noqa: SIM115 # closed by close()
        self._stops: list[np.ndarray[Any, Any]] = []
        self._some_stops: list[int] = []
        self._columns: list[Columns] = []
        self._keys: list[SceneKey] = []
        self._stop = 0
        self._digests = bytearray()
        self._new: _NewItems | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary file."""
        self._file.close()

    @property
    def n_items(self) -> int:
        """Items so far."""
        return sum(map(len, self._stops)) + len(self._keys)

    def begin_existing(self) -> None:
        """Let all that follows be items of an existing catalog.

        Called again, it forgets those that came since the first time, and begins anew.
        """
        self._settle()
        if self._new is None:
            self._new = _NewItems(
                n=self.n_items,
                collections=dict(self.collections),
                asset_keys=dict(self.asset_keys),
                properties=dict(self.properties),
            )
            return
        n = self._new.n
        self.collections, self.asset_keys = dict(self._new.collections), dict(self._new.asset_keys)
        self.properties = dict(self._new.properties)
        self._stop = int(self._all_stops()[n - 1]) if n else 0
        self._stops = [self._all_stops()[:n]] if n else []
        self._columns = [{name: values[:n] for name, values in self._all_columns().items()}] if n else []
        del self._digests[n * _DIGEST_NBYTES :]
        self._file.seek(self._stop)

    def add(
        self, items: Iterable[Mapping[str, Any]], *, name: str, skipped: SkippedItems | None = None
    ) -> None:
        """Take items; each is checked.

        ``skipped`` gets those that are no STAC items.

        Raises:
            RequestError: One of them is no STAC item, and ``skipped`` is None.
        """
        some: list[tuple[Mapping[str, Any], SceneKey]] = []
        for item in items:
            try:
                some.append((item, scene_key(item, name=name)))
            except RequestError as error:
                if skipped is None:
                    raise
                skipped.add(error, item)
            if len(some) == _N_CHECKED:
                self._add(some, skipped)
                some = []
        self._add(some, skipped)

    def read_in_order(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        """Return the columns in the catalog's order, and which item each row is."""
        self._settle()
        if not self._columns:
            return stack_columns([], {}), np.empty(0, np.int64)
        columns = self._all_columns()
        n_new = self.n_items if self._new is None else self._new.n
        stays = _last_of_each(columns["hash"], n_new)
        self.n_replaced = n_new - int(np.count_nonzero(stays < n_new))
        columns = {name: values[stays] for name, values in columns.items()}
        order = order_by_place(columns)
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

    def _add(self, items: Sequence[tuple[Mapping[str, Any], SceneKey]], skipped: SkippedItems | None) -> None:
        try:
            contents = _check_items(items)
        except RequestError as error:
            if len(items) == 1:
                if skipped is None:
                    raise
                skipped.add(error, items[0][0])
                return
            for each in items:  # one of them is odd
                self._add([each], skipped)
            return
        for (item, key), content in zip(items, contents, strict=True):
            self.asset_keys.update(dict.fromkeys(item["assets"]))
            self.properties.update(dict.fromkeys(item["properties"]))
            self._digests += hashlib.blake2b(content, digest_size=_DIGEST_NBYTES).digest()
            self._file.write(content)
            self._stop += len(content)
            self._some_stops.append(self._stop)
            self._keys.append(key)
        if len(self._keys) >= _N_AT_A_TIME:
            self._settle()

    def _settle(self) -> None:
        if self._keys:
            self._columns.append(stack_columns(self._keys, self.collections))
            self._stops.append(np.array(self._some_stops, np.int64))
            self._keys, self._some_stops = [], []

    def _all_columns(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._columns]) for name in self._columns[0]}

    def _all_stops(self) -> np.ndarray[Any, Any]:
        if len(self._stops) > 1:
            self._stops = [np.concatenate(self._stops)]
        return self._stops[0]


def _check_items(items: Sequence[tuple[Mapping[str, Any], SceneKey]]) -> list[bytes]:
    """Return items as JSON. A geometry that cannot be used is refused now, not when it is searched."""
    contents = [_encode_item(without_links(item, key), key) for item, key in items]
    geometries = [item.get("geometry") for item, _ in items]
    parse_shapes(
        [None if each is None else msgspec.json.encode(each) for each in geometries],
        name_of=lambda n: f"item {items[n][1].id[:80]}",
    )
    return contents


def _encode_item(item: Mapping[str, Any], key: SceneKey) -> bytes:
    try:
        return msgspec.json.encode(item)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError) as error:
        raise RequestError(f"it cannot be stored: {error}", field=f"item {key.id[:80]!a}") from error


def _last_of_each(hashes: np.ndarray[Any, Any], n_new: int) -> np.ndarray[Any, Any]:
    """Return the positions of the last new scene of each hash and of what else is there, in order."""
    new, existing = hashes[:n_new], hashes[n_new:]
    _, firsts_from_behind = np.unique(new[::-1], return_index=True)
    stays = np.sort(n_new - 1 - firsts_from_behind)
    return np.concatenate([stays, n_new + np.flatnonzero(~np.isin(existing, new))])
