"""A clock for values that outlive a call of a function."""

import time


class SteadyClock:
    """Counts seconds, also while Lambda has stopped the process between two calls.

    The machine's monotonic clock stands still then. It would keep a value of one second for hundreds of calls
    (https://github.com/hashicorp/vault-lambda-extension/pull/150).
    """

    def __init__(self) -> None:
        self._since_s, self._since = time.monotonic(), time.time()

    def __call__(self) -> float:
        """Return seconds since the start, by the clock that has gone further."""
        return max(time.monotonic() - self._since_s, time.time() - self._since)
