"""A clock for what is kept longer than one call of a function."""

import time


class SteadyClock:
    """Tells seconds. It does not stand still while Lambda has stopped the process between two calls.

    The machine's monotonic clock does so: what was to be kept for a second was kept for hundreds of calls
    (https://github.com/hashicorp/vault-lambda-extension/pull/150).
    """

    def __init__(self) -> None:
        self._since_s, self._since = time.monotonic(), time.time()

    def __call__(self) -> float:
        """Return seconds since the start, by the clock that has gone further."""
        return max(time.monotonic() - self._since_s, time.time() - self._since)
