"""The exit codes of the command ``pixel-gather``. ``pixel-gather --help`` lists them."""

import signal
from typing import Final

ALL_GATHERED: Final = 0
SOME_FAILED: Final = 1
"""Also: a cube that was verified or replayed differs."""

REFUSED: Final = 2
"""Also: bad usage, or a gather on AWS that failed."""

DEFECT: Final = 70
INTERRUPTED: Final = 128 + signal.SIGINT
PIPE_CLOSED: Final = 128 + 13
"""SIGPIPE, which Windows has not."""

TERMINATED: Final = 128 + signal.SIGTERM
