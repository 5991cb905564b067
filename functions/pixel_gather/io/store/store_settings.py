"""How object stores are reached: where, by whose rights, how long, and how often again."""

import msgspec
from msgspec import Struct

from pixel_gather.io.store.hedge_policy import HedgeSettings
from pixel_gather.io.store.signing import Signing


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
