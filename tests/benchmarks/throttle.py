"""Grants so many requests a second, as S3 for one prefix: a bucket of tokens with a small burst. Pure."""

from typing import Final

_BURST_S: Final = 0.1


class Throttle:
    """Full at first; what it refuses takes no token."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * _BURST_S)
        self._tokens = self._most
        self._filled_s: float | None = None

    def grants(self, now_s: float) -> bool:
        """Take a token, if there is one."""
        since_s = 0.0 if self._filled_s is None else now_s - self._filled_s
        self._tokens, self._filled_s = min(self._most, self._tokens + since_s * self._per_s), now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
