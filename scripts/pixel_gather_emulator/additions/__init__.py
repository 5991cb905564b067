"""Adds behaviour of AWS to ministack, inside the emulator's process.

Every module says what AWS does, what ministack does instead, and how the addition still differs from AWS. The
modules change private parts of one version of ministack and refuse other versions.
tests/emulator/test_additions.py asserts that each is still needed.
"""

from importlib.metadata import version
from typing import Final

MINISTACK: Final = "1.5.33"


def apply_additions(*, max_workers: int) -> None:
    """Put every addition in place.

    So many children of a map, and workers of one function, run at the same time.

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
        budgets,
        executions,
        machine_role,
        map_runs,
        paths,
        rights,
        schedules,
        task_clock,
        tasks,
        workers,
    )

    addresses.apply()
    alarms.apply()
    budgets.apply()
    executions.apply()
    machine_role.apply()
    map_runs.apply(max_workers=max_workers)
    paths.apply()
    rights.apply()
    schedules.apply()
    task_clock.apply()
    tasks.apply()
    workers.apply(max_workers=max_workers)
