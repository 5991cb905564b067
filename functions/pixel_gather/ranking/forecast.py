"""What a ranking will take, after its first scene. Pure."""

from dataclasses import dataclass
from typing import Final

from pixel_gather.estimate.assumptions import CPU_PER_GET, FIRST_BYTE, NETWORK
from pixel_gather.estimate.pricing import USD_PER_GB_S, USD_PER_GET
from pixel_gather.model.source import Cost

_CPU_PER_SCENE_S: Final = 9e-3
"""Python and NumPy around a scene. Measured on x86: 1,000 COGs whose overview of 256 x 256 pixels is read."""

_READ_ON: Final = 1.3
"""Scenes whose rank is open are read again. How many is not known before."""

_GB: Final = 1769 / 1024


@dataclass(frozen=True, slots=True)
class Forecast:
    """What all scenes of a ranking will take."""

    requests: float
    nbytes: float
    seconds: float

    @property
    def usd(self) -> float:
        """Price of the requests and of one function of one vCPU."""
        return self.requests * USD_PER_GET + self.seconds * _GB * USD_PER_GB_S

    @classmethod
    def of(cls, first: Cost, *, n_scenes: int, in_flight: int) -> "Forecast":
        """Return the forecast for scenes that are like the first one.

        Args:
            first: What the first scene took.
            n_scenes: All of them.
            in_flight: Requests at one time.
        """
        n = n_scenes * _READ_ON
        requests, nbytes = n * first.requests, n * first.nbytes
        waiting_s = max(requests * FIRST_BYTE.value / in_flight, nbytes / NETWORK.value)
        cpu_s = requests * CPU_PER_GET.value + n * (first.decode_s + _CPU_PER_SCENE_S)
        return cls(requests, nbytes, max(waiting_s, cpu_s))
