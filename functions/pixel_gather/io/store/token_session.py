"""Asks a token service, and waits as long as it says. Can stand in for a ``requests.Session``."""

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

_TRIES: Final = 6
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 60.0
_CONNECT_S: Final = 5.0
_READ_S: Final = 30.0
_LARGEST_NBYTES: Final = 1 << 20
_NOT_FOUND: Final = 404
_BUSY: Final = frozenset({_NOT_FOUND, 429, 500, 502, 503, 504})
"""With 404: Planetary Computer has answered 404 for a container and signed for it a moment later."""

BUSY: Final = "the signing service stays busy: try again later"
REFUSED: Final = "the signing service refuses the token: give another one"
UNKNOWN: Final = (
    "the signing service does not know this container: files of others can only be read without sign (--sign)"
)
EXPIRED: Final = "the signing service hands out tokens that have expired: try again later"
ODD: Final = "the signing service's answer holds no token"
SETTINGS_FILE: Final = (
    "~/.planetarycomputer/settings.env is read by python-dotenv alone: install it, or move the file away"
)
UNSIGNED: Final = "Earthdata wants a token: set EARTHDATA_TOKEN"


class SigningError(OSError):
    """No token was given."""


class TokenAnswer:
    """An answer of a token service."""

    def __init__(self, status: int, content: bytes, *, if_not_found: str = BUSY) -> None:
        self.status_code = status
        self.reason = ""
        self._if_not_found = if_not_found
        self._content = content

    @property
    def is_redirect(self) -> bool:
        """Whether the service redirects to its sign-in page, because it does not know the token."""
        return self.status_code in range(300, 400)

    def raise_for_status(self) -> None:
        """Raise SigningError for an answer without a token."""
        if self.status_code == _NOT_FOUND:
            raise SigningError(self._if_not_found)
        if self.status_code in _BUSY:
            raise SigningError(BUSY)
        if self.status_code in range(400, 500):
            raise SigningError(REFUSED)

    def json(self) -> Any:
        """Return the body."""
        try:
            return json.loads(self._content)
        except ValueError as error:
            raise SigningError(ODD) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class TokenSession:
    """Asks for tokens over urllib3; follows no redirect."""

    def __init__(
        self,
        *,
        longest_jitter_s: float = 0.0,
        if_not_found: str = BUSY,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Ask nothing yet. ``if_not_found`` is the error of a service that goes on answering 404."""
        import urllib3  # noqa: PLC0415 # 40 ms that only signed gathers pay

        self._sleep = sleep
        self._if_not_found = if_not_found
        self._jitter_s = longest_jitter_s
        self._pool = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S)
        )

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        allow_redirects: bool = False,  # noqa: ARG002 # requests' name; none is ever followed
    ) -> TokenAnswer:
        """Ask by GET, again and again while the service is busy.

        Raises:
            SigningError: There is no answer.
        """
        self._sleep(random.uniform(0, self._jitter_s))  # noqa: S311 # no secret
        self._jitter_s = 0.0
        for attempt in range(_TRIES):
            status, retry_after, content = self._once(url, headers or {})
            wait_s = _wait_s(retry_after, attempt)
            if status not in _BUSY or attempt == _TRIES - 1 or wait_s > _LONGEST_WAIT_S:
                return TokenAnswer(status, content, if_not_found=self._if_not_found)
            self._sleep(wait_s)
        raise AssertionError("the last try returns")

    def _once(self, url: str, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
        import urllib3  # noqa: PLC0415 # as above

        try:
            answer = self._pool.request(
                "GET", url, headers=dict(headers), redirect=False, preload_content=False
            )
            content = answer.read(_LARGEST_NBYTES)
            answer.release_conn()
        except urllib3.exceptions.HTTPError:
            return 503, "", b""
        return answer.status, answer.headers.get("retry-after", ""), content


def _wait_s(retry_after: str, attempt: int) -> float:
    """Return how long to wait: as long as the service wants, and a little longer by chance."""
    from pixel_gather.io.store.json_http import retry_after_s  # noqa: PLC0415 # for signed reads alone

    asked_s = retry_after_s(retry_after)
    if asked_s is None:
        asked_s = _FIRST_WAIT_S * 2**attempt
    return asked_s * random.uniform(1.0, 1.2)  # noqa: S311 # no secret
