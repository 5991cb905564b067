"""One emulator for all tests of the emulator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import awslambdaric
import pytest

from emulator.machine import Machine, make_machine
from pixel_gather_emulator.emulator import Emulator, emulator

MAX_WORKERS: Final = 8


@pytest.fixture(scope="session")
def running() -> Iterator[Emulator]:
    """An emulator whose state machines do not wait between tries."""
    packages = str(Path(awslambdaric.__file__).parents[1])
    with emulator(
        max_workers=MAX_WORKERS, wait_scale=0, environment={"PIXEL_GATHER_TEST_PATH": packages}
    ) as started:
        yield started


@pytest.fixture(scope="session")
def machine(running: Emulator) -> Machine:
    """The machine in it."""
    return make_machine(running)
