"""Values that were used last, kept up to a number of bytes."""

from collections.abc import Iterator
from threading import Lock


class KeptValues[K, V]:
    """Keeps what was used last. Several threads may share it."""

    def __init__(self, most_nbytes: int) -> None:
        """Keep nothing yet.

        Args:
            most_nbytes: Bytes of all values. The newest stays even if it alone has more.
        """
        self.most_nbytes = most_nbytes
        self.nbytes = 0
        self._lock = Lock()
        self._values: dict[K, tuple[V, int]] = {}
        """The one that was used last comes last."""

    def __iter__(self) -> Iterator[K]:
        """Yield the keys, the one used last at the end."""
        return iter([*self._values])

    def get(self, key: K) -> V | None:
        """Return a value and keep it longer. None if it is not there."""
        with self._lock:
            if (found := self._values.pop(key, None)) is None:
                return None
            self._values[key] = found
            return found[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Keep a value. To make room, drop those that nobody has asked for for the longest time."""
        with self._lock:
            self._drop(key)
            self._values[key] = value, nbytes
            self.nbytes += nbytes
            while self.nbytes > self.most_nbytes and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def _drop(self, key: K) -> None:
        if (dropped := self._values.pop(key, None)) is not None:
            self.nbytes -= dropped[1]
