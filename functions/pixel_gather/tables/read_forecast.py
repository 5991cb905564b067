"""What reading parts of many images takes, in one function of one vCPU. Pure."""

from typing import Final, Self

from msgspec import Struct

from pixel_gather.core.estimate.assumptions import CPU_PER_GET, FIRST_BYTE, NETWORK
from pixel_gather.core.estimate.pricing import USD_PER_GB_S, USD_PER_GET

GB_OF_ONE_VCPU: Final = 1769 / 1024
"""Memory of a function of one vCPU, in GB."""


class ReadForecast(Struct, frozen=True):
    """What reading images takes."""

    requests: float
    nbytes: float
    seconds: float
    """Time of one function of one vCPU."""

    @property
    def usd(self) -> float:
        """Price of the requests and of one function of one vCPU."""
        return self.requests * USD_PER_GET + self.seconds * GB_OF_ONE_VCPU * USD_PER_GB_S

    def to_json(self) -> dict[str, float]:
        """Return it as JSON values."""
        return {
            "requests": round(self.requests),
            "bytes": round(self.nbytes),
            "seconds": self.seconds,
            "usd": self.usd,
        }

    @classmethod
    def of_each(cls, n: float, requests: float, nbytes: float, cpu_s: float, *, in_flight: int) -> Self:
        """Return the forecast for ``n`` images that take so much each.

        The CPU's seconds are those of decoding and computing, without what each request takes.
        """
        waiting_s = max(n * requests * FIRST_BYTE.value / in_flight, n * nbytes / NETWORK.value)
        return cls(n * requests, n * nbytes, max(waiting_s, n * (requests * CPU_PER_GET.value + cpu_s)))
