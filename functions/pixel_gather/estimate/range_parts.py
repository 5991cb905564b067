"""In how many parts, side by side, to fetch the bytes that are wanted of one object. Pure.

Object stores give one connection a bandwidth of its own. Where the machine has more for the sources that it
reads at one time, parts use it; where those share all of it already, as in a Lambda worker, parts would only
be more requests.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pixel_gather.estimate import assumptions

MOST_PARTS: Final = 8
"""Of one object at one time: as many requests as a window may have in flight."""

SMALLEST_PART: Final = 256 << 10
"""Bytes that cost about as much as another request."""

_HARDLY_LONGER: Final = 1.05
"""Fewer parts are chosen over the fastest number where they take no longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a machine and the stores that it reads from are capable of."""

    first_byte_s: float
    """From a request to the first byte of its answer."""

    connection_bytes_per_s: float
    """Of one connection, where nothing else limits it."""

    machine_bytes_per_s: float
    """Of all connections together."""

    more_s: float
    """What each request after the first costs."""

    def transfer_s(self, nbytes: float, *, n_parts: int, n_in_flight: int) -> float:
        """Return how long the bytes of one object take in equal parts side by side.

        Args:
            nbytes: Of the object.
            n_parts: 1 for a single range.
            n_in_flight: Sources that are read at one time, this one among them; they share the machine.
        """
        share = self.machine_bytes_per_s / n_in_flight
        bytes_per_s = min(n_parts * self.connection_bytes_per_s, share)
        return self.first_byte_s + nbytes / bytes_per_s + (n_parts - 1) * self.more_s


def _link(machine: assumptions.Figure) -> Link:
    return Link(
        first_byte_s=assumptions.FIRST_BYTE.value,
        connection_bytes_per_s=assumptions.CONNECTION.value,
        machine_bytes_per_s=machine.value,
        more_s=assumptions.CPU_PER_GET.value,
    )


LAMBDA: Final = _link(assumptions.NETWORK)
"""A worker of a deployment."""

HERE: Final = _link(assumptions.NETWORK_HERE)
"""The machine that a gather in process runs on; where it has less, parts gain nothing and cost little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """How the bytes wanted of one object are fetched."""

    n: int = 1
    """Side by side; 1 is a single range."""

    part_nbytes: int | None = None
    """Of the largest; None where there is one only."""


def choose_parts(nbytes: float, *, link: Link, n_in_flight: int, most: int = MOST_PARTS) -> Parts:
    """Return the fewest parts that take at most 5 % longer than the fastest number of them.

    Args:
        nbytes: Wanted of one object.
        link: Through which.
        n_in_flight: Sources that are read at one time, this one among them.
        most: Parts of one object at one time.
    """
    counts = range(1, max(min(most, int(nbytes) // SMALLEST_PART), 1) + 1)
    seconds = [link.transfer_s(nbytes, n_parts=n, n_in_flight=n_in_flight) for n in counts]
    longest_s = min(seconds) * _HARDLY_LONGER
    n = next(n for n, each in zip(counts, seconds, strict=True) if each <= longest_s)
    return Parts(n=n, part_nbytes=None if n == 1 else -(-int(nbytes) // n))


def cut_range(start: int, stop: int, *, part_nbytes: int | None, most: int) -> list[tuple[int, int]]:
    """Cut bytes [start, stop) into equal parts of at most ``part_nbytes``, but never more than ``most``.

    Returns:
        The parts [start, stop) in their order; just one where ``part_nbytes`` is None.
    """
    nbytes = stop - start
    n = 1 if part_nbytes is None else max(min(-(-nbytes // part_nbytes), most), 1)
    edges = [start + nbytes * part // n for part in range(n + 1)]
    return list(pairwise(edges))
