"""How many bytes to read first of a file: learned from the headers of earlier files."""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Final

_SMALLEST, _LARGEST = 4 << 10, 256 << 10
_N_REMEMBERED: Final = 64
_REQUEST_COST_NBYTES: Final = 256 << 10
"""One more request costs about as much time as this many bytes: a worker fetches them in some 3 ms."""

_N_TO_GROW: Final = 2
"""The first read grows after this many headers that did not fit. One alone may be an unusual file."""


@dataclass(slots=True)
class FirstRead:
    """The size of the next first read. Once it has learned, it is a power of two from 4 to 256 KiB.

    The best size costs least: its own bytes for every file, plus one more request for each header that does
    not fit. The size grows as soon as enough headers do not fit. It halves after each 64 files for which a
    smaller size would have cost less.
    """

    nbytes: int
    is_fixed: bool = False
    """Whether the size never changes."""

    _stops: deque[int] = field(default_factory=partial(deque, maxlen=_N_REMEMBERED), init=False)

    def learn(self, stop: int) -> None:
        """Record where the header of a file ended, including the tile offsets that were needed.

        A header that ends beyond the largest first read is ignored.
        """
        if self.is_fixed or stop > _LARGEST:
            return
        self._stops.append(stop)
        if stop > self.nbytes:
            if self._n_longer(self.nbytes) >= _N_TO_GROW:
                self.nbytes = max(self._cheapest(), self.nbytes)
        elif len(self._stops) == _N_REMEMBERED:
            if self._cheapest() <= self.nbytes // 2:
                self.nbytes = max(self.nbytes // 2, _SMALLEST)
            self._stops.clear()

    def _cheapest(self) -> int:
        """Return the power of two that would have cost least for the recent headers."""
        sizes = [1 << bits for bits in range(_SMALLEST.bit_length() - 1, _LARGEST.bit_length())]
        n = len(self._stops)
        return min(sizes, key=lambda nbytes: n * nbytes + _REQUEST_COST_NBYTES * self._n_longer(nbytes))

    def _n_longer(self, nbytes: int) -> int:
        return sum(each > nbytes for each in self._stops)
