"""Choose the number of parallel parts in which to fetch the wanted bytes of one object. Pure.

Object stores limit the bandwidth of one connection. Parts help if the machine has bandwidth left. If the
concurrent sources already use all of it, as in a Lambda worker, parts only add requests.
"""

from typing import Final

from msgspec import Struct

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.estimate.worker_limits import MOST_PARTS

SMALLEST_PART: Final = 256 << 10
"""Smallest part in bytes. Fetching them costs about as much as one more request."""

_SLIGHTLY_LONGER: Final = 1.05
"""Fewer parts are chosen if they take at most this many times as long as the fastest number."""


class Link(Struct, frozen=True, kw_only=True):
    """Speeds of a machine's network and of the stores that it reads."""

    first_byte_s: float
    """Time from a request to the first byte of its answer."""

    connection_bytes_per_s: float
    """Bandwidth of one connection if nothing else limits it."""

    machine_bytes_per_s: float
    """Bandwidth of all connections together."""

    more_s: float
    """Cost of each request after the first."""

    def transfer_s(self, nbytes: float, *, n_parts: int, n_in_flight: int) -> float:
        """Return the time to fetch one object's bytes in equal parallel parts.

        Args:
            nbytes: Bytes wanted of the object.
            n_parts: Number of parts; 1 for a single range.
            n_in_flight: Sources read at one time, this one included. They share the machine's bandwidth.
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
"""Network of a worker on Lambda."""

HERE: Final = _link(assumptions.NETWORK_HERE)
"""Network of a machine that runs a gather in process. If it is slower, parts gain nothing and cost little."""


class Parts(Struct, frozen=True, kw_only=True):
    """How to fetch the wanted bytes of one object."""

    n: int = 1
    """Number of parallel parts; 1 is a single range."""

    part_nbytes: int | None = None
    """Size of the largest part; None if there is only one."""


def choose_parts(nbytes: float, *, link: Link, n_in_flight: int) -> Parts:
    """Return the smallest number of parts that takes at most 5 % longer than the fastest number.

    Args:
        nbytes: Bytes wanted of one object.
        link: The network.
        n_in_flight: Sources read at one time, this one included.
    """
    counts = range(1, max(min(MOST_PARTS, int(nbytes) // SMALLEST_PART), 1) + 1)
    seconds = [link.transfer_s(nbytes, n_parts=n, n_in_flight=n_in_flight) for n in counts]
    longest_s = min(seconds) * _SLIGHTLY_LONGER
    n = next(n for n, each in zip(counts, seconds, strict=True) if each <= longest_s)
    return Parts(n=n, part_nbytes=None if n == 1 else -(-int(nbytes) // n))
