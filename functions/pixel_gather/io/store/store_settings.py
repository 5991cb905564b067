"""How object stores are reached: where, by whose rights, how long, and how often again."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.io.store.hedge_policy import HedgeSettings
from pixel_gather.io.store.signing import Signing

_TIME_LIMITS: Final = (
    "connect_timeout_s",
    "first_byte_timeout_s",
    "stall_timeout_s",
    "request_timeout_s",
    "write_timeout_s",
)


class StoreSettings(Struct, frozen=True, kw_only=True):
    """How object stores are reached. None leaves a setting to the environment, as the AWS tools do."""

    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    unsigned: bool = False
    """Send requests to buckets without credentials, as public buckets allow."""

    requester_pays: bool = False
    """Pay for requests to buckets of S3 and of Google. The project GOOGLE_CLOUD_PROJECT pays Google's."""

    signing: Signing | None = None
    """How reads of some back ends are signed. None: by the AWS credentials alone."""

    stays_on_host: bool = False
    """Refuse redirects of http and https, as a deployment must. obstore follows them to any host."""

    connect_timeout_s: float = 5.0
    first_byte_timeout_s: float = 10.0
    """Longest wait for the first byte of a range. More than ``stall_timeout_s`` has no effect."""

    stall_timeout_s: float = 10.0
    """Longest silence within a range. After it the request is given up and sent again."""

    request_timeout_s: float = 30.0
    """Longest time for one request, including its body."""

    hedging: HedgeSettings | None = msgspec.field(default_factory=HedgeSettings)
    """Which late ranges are requested a second time. None: no hedges."""

    write_timeout_s: float = 300.0
    """Longest time for one PUT, including its body: a whole shard over a slow link."""

    max_retries: int = 6
    """Most retries where a store is busy or a connection breaks."""

    first_backoff_s: float = 0.1
    """Upper bound of the first random pause. It doubles at each retry, up to 5 s."""

    def __post_init__(self) -> None:
        """Refuse times and numbers of retries below 0, and time limits of 0."""
        refuse_low(self, above_0=_TIME_LIMITS, from_0=("max_retries", "first_backoff_s"), within="stores")


def refuse_low(settings: Struct, *, above_0: Sequence[str], from_0: Sequence[str], within: str) -> None:
    """Refuse numbers that are too low, and NaN. Values of another type are refused where they are given.

    Args:
        settings: The settings.
        above_0: Names of those that must be more than 0.
        from_0: Names of those that may be 0.
        within: What an error calls the settings.
    """
    for name in (*above_0, *from_0):
        value = getattr(settings, name)
        if isinstance(value, int | float) and not (value > 0 or (value == 0 and name in from_0)):
            least = "a number from 0" if name in from_0 else "a number above 0"
            raise RequestError(f"it is {value!r}, not {least}", field=f"{within}.{name}")
