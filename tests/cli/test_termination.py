"""Leaving in good order on SIGTERM."""

import io
import os
import signal

import pytest

from pixel_gather_cli.termination import ends_when_terminated


def test_sigterm_leaves_through_the_context_and_is_as_before_afterwards() -> None:
    """What was opened is closed, the exit code is the usual one, and the signal means again what it did."""
    before = signal.getsignal(signal.SIGTERM)
    closed = io.StringIO()

    with pytest.raises(SystemExit) as caught, ends_when_terminated(), closed:
        os.kill(os.getpid(), signal.SIGTERM)

    assert caught.value.code == 143
    assert closed.closed
    assert signal.getsignal(signal.SIGTERM) == before
