"""Whether a gather's control files are there."""

import asyncio

from obstore.store import MemoryStore

from pixel_gather.adapters.cube.control_files import ObjectControlStore
from pixel_gather.use_cases.step_files import PLAN_KEY, is_planned


def test_is_planned_tells_whether_the_plan_is_there() -> None:
    """It is there as soon as its file is."""
    control = ObjectControlStore(MemoryStore(), "gather/")  # type: ignore[arg-type] # serves as any other, in tests only

    assert asyncio.run(is_planned(control)) is False
    asyncio.run(control.put(PLAN_KEY, b"plan"))
    assert asyncio.run(is_planned(control)) is True
