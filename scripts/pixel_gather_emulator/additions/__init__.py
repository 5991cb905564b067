"""What AWS does and ministack does not, added to ministack inside the emulator's own process.

Every module says what AWS does, what ministack does instead and where the addition still differs. They
reach into one version of ministack, and refuse another; tests/emulator/test_additions.py asserts that
each is still needed.
"""

from importlib.metadata import version
from typing import Final

MINISTACK: Final = "1.5.33"


def apply_additions(*, max_workers: int) -> None:
    """Put every addition in place.

    Args:
        max_workers: Most children of a Distributed Map that run at one time.

    Raises:
        RuntimeError: Another version of ministack is installed.
    """
    if (found := version("ministack")) != MINISTACK:
        raise RuntimeError(
            f"the emulator needs ministack {MINISTACK}, and {found} is installed: run `uv sync`"
        )
    from pixel_gather_emulator.additions import (  # noqa: PLC0415 - ministack reads the environment as it is imported
        addresses,
        alarms,
        executions,
        machine_role,
        map_runs,
        rights,
        tasks,
        workers,
    )

    addresses.apply()
    alarms.apply()
    executions.apply()
    machine_role.apply()
    map_runs.apply(max_workers=max_workers)
    rights.apply()
    tasks.apply()
    workers.apply()
