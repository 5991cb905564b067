"""Time of one worker to read and to store one task, and its limits. Pure.

Fetching, waiting and decoding overlap, so the slowest of them decides.
"""

from math import ceil
from typing import Self

from msgspec import Struct

from pixel_gather.core.estimate import assumptions


class Share(Struct, frozen=True, kw_only=True):
    """Average work of one task."""

    n_sources: float
    n_gets: float
    n_puts: float
    fetched_nbytes: float
    decoded_nbytes: float
    is_decoded: bool = True
    """False if compressed tiles are stored as they are."""

    @property
    def stored_nbytes(self) -> float:
        """Bytes to store, compressed."""
        if not self.is_decoded:
            return self.fetched_nbytes
        return self.decoded_nbytes / assumptions.RATIO.value


class Worker(Struct, frozen=True, kw_only=True):
    """One machine that reads and stores."""

    vcpus: float
    network_bytes_per_s: float
    in_flight: int
    """Sources read at one time."""

    first_byte_s: float
    cpu_s_per_get: float
    cpu_s_per_source: float
    decoding_bytes_per_s: float
    tls_bytes_per_s: float

    @classmethod
    def on_lambda(cls, *, memory_mib: int, in_flight: int) -> Self:
        """Return a Lambda worker. More memory means more CPU, but not a faster network."""
        return cls(
            vcpus=memory_mib / assumptions.ONE_VCPU.value,
            network_bytes_per_s=assumptions.NETWORK.value,
            in_flight=in_flight,
            first_byte_s=assumptions.FIRST_BYTE.value,
            cpu_s_per_get=assumptions.CPU_PER_GET.value,
            cpu_s_per_source=assumptions.CPU_PER_SOURCE.value + assumptions.CPU_PER_ROW.value,
            decoding_bytes_per_s=assumptions.DECODING.value,
            tls_bytes_per_s=assumptions.TLS.value,
        )

    def reading_s(self, share: Share) -> float:
        """Return the wall time of reading, if no answer is late and the store does not limit the rate."""
        if not share.n_sources:
            return 0.0
        round_trips_s = self.first_byte_s * share.n_gets / share.n_sources
        waiting_s = round_trips_s * ceil(share.n_sources / self.in_flight)
        fetching_s = share.fetched_nbytes / self.network_bytes_per_s
        return max(waiting_s, round_trips_s + max(fetching_s, self._cpu_s(share) / self.vcpus))

    def storing_s(self, share: Share) -> float:
        """Return the wall time of statistics, compression and writing."""
        decoded_nbytes = share.decoded_nbytes if share.is_decoded else 0.0
        cpu_s = decoded_nbytes * (1 / assumptions.MEASURING.value + 1 / assumptions.COMPRESSING.value)
        put_s = share.stored_nbytes / self.network_bytes_per_s
        return cpu_s / self.vcpus + put_s + self.first_byte_s

    def _cpu_s(self, share: Share) -> float:
        return (
            share.n_gets * self.cpu_s_per_get
            + share.n_sources * self.cpu_s_per_source
            + share.fetched_nbytes / self.tls_bytes_per_s
            + (share.decoded_nbytes if share.is_decoded else 0.0) / self.decoding_bytes_per_s
        )
