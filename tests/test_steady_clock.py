"""What is kept across calls of a function ends in time, also where Lambda stops the process in between."""

from types import SimpleNamespace
from typing import Any

import pytest

from handlers.deployment.settings import Settings
from handlers.search.open_catalog import OpenCatalog
from pixel_gather.core import steady_clock
from pixel_gather.core.steady_clock import SteadyClock
from pixel_gather.io.aws.executions import SharedLooks
from pixel_gather.io.aws.gather_document import SeenExecution
from pixel_gather.io.store.limiter.govern_host import Budget, HostGovernor
from pixel_gather.io.store.signing import _FreshTokens
from pixel_gather.io.store.token_session import SigningError
from support.lambda_functions import ENVIRONMENT


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clocks of a process that Lambda has stopped: only that of the wall goes on, by ``wall_s``."""
    clocks = SimpleNamespace(wall_s=1_796_000_000.0, monotonic_s=50.0)
    read = SimpleNamespace(time=lambda: clocks.wall_s, monotonic=lambda: clocks.monotonic_s)
    monkeypatch.setattr(steady_clock, "time", read)
    return clocks


def test_clock_goes_on_by_the_clock_that_has_gone_further(stopped: SimpleNamespace) -> None:
    """The wall clock may be set back meanwhile."""
    clock = SteadyClock()

    stopped.wall_s += 60
    after_a_stop_s = clock()
    stopped.wall_s -= 3600
    stopped.monotonic_s += 70

    assert (after_a_stop_s, clock()) == (60.0, 70.0)


def test_status_is_not_kept_while_lambda_has_stopped_the_function(stopped: SimpleNamespace) -> None:
    """A caller that asks every five seconds gets the new status."""
    looks, seen = SharedLooks(), iter(range(9))

    def look() -> SeenExecution:
        return SeenExecution(found={"status": next(seen)})

    first, again = looks.get("a", look), looks.get("a", look)
    stopped.wall_s += 5

    assert first is again
    assert looks.get("a", look).found == {"status": 1}


def test_token_service_is_asked_again_a_minute_after_a_failure(stopped: SimpleNamespace) -> None:
    """That minute passes while Lambda has stopped the worker, too."""
    asked: list[Any] = []

    def fail() -> Any:
        asked.append(None)
        raise SigningError("busy")

    tokens = _FreshTokens(lambda: fail)
    for waits_s in (0, 30, 31):
        stopped.wall_s += waits_s
        with pytest.raises(SigningError):
            tokens()

    assert len(asked) == 2


def test_catalog_and_leases_have_such_a_clock() -> None:
    """They live as long as the function does."""
    catalog = OpenCatalog(Settings.from_environment(dict(ENVIRONMENT)))
    governor = HostGovernor(SimpleNamespace(), Budget(per_s=1.0))

    assert isinstance(catalog._clock, SteadyClock)
    assert isinstance(governor._clock, SteadyClock)
    catalog.close()
