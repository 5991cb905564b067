"""How many bytes to read of a file of which nothing is known: learned from those seen before."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

_SMALLEST, _LARGEST = 4 << 10, 256 << 10
_N_REMEMBERED: Final = 64
_OF_A_REQUEST: Final = 256 << 10
"""Bytes that cost about as much as another request: what a worker fetches in some 3 ms."""

_N_TO_GROW: Final = 2
"""Headers that did not fit; one alone may be an odd file."""


def _deque() -> deque[int]:
    return deque(maxlen=_N_REMEMBERED)


@dataclass(slots=True)
class FirstRead:
    """The size of the next first read: a power of two, from 4 to 256 KiB, once it has learned.

    It is to cost least: its own bytes for every file, and another request for each header that does not fit.
    It grows as soon as enough do not, and shrinks by half after each 64 files that would do with less.
    """

    nbytes: int
    is_fixed: bool = False
    """Whether it stays as it is."""

    _stops: deque[int] = field(default_factory=_deque, init=False)

    def learn(self, stop: int) -> None:
        """Take note of where a file's header, and the offsets of its tiles that were needed, ended.

        Files whose header lies deeper than any first read tell nothing.
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
        """Return the power of two with which the headers seen lately would have cost least."""
        sizes = [1 << bits for bits in range(_SMALLEST.bit_length() - 1, _LARGEST.bit_length())]
        n = len(self._stops)
        return min(sizes, key=lambda nbytes: n * nbytes + _OF_A_REQUEST * self._n_longer(nbytes))

    def _n_longer(self, nbytes: int) -> int:
        return sum(each > nbytes for each in self._stops)
