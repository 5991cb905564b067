"""Images that change while they are measured."""

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError, StaleHeaderError
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.tables.features import Integers
from pixel_gather.tables.image_work import measure_each
from pixel_gather.tables.open_scene import ImagePlan
from pixel_gather.tables.part_folder import ImageRecord, Measured, line_dtype
from support.in_loop import in_loop

ROW = CubeRow(time_us=None, sources=(Source(href="a"),))


class FailsOnce:
    """Work whose first try fails."""

    columns = ()

    def __init__(self, error: SourceError) -> None:
        """Have tried nothing."""
        self.errors, self.n_tries = [error], 0

    async def measure(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> Measured:
        """Fail, or find nothing."""
        assert (row, members) == (ROW, None)
        self.n_tries += 1
        cost.requests += 1
        if self.errors:
            raise self.errors.pop()
        return Measured(
            ImageRecord(number=0, scene="", time_us=None, hrefs=("a",)), np.zeros(0, line_dtype(()))
        )

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Plan nothing."""
        raise NotImplementedError


@pytest.mark.parametrize(
    ("error", "status", "n_tries"),
    [
        (SourceError("replaced", href="a", status=Status.CHANGED), "ok", 2),
        (StaleHeaderError("damaged", href="a", status=Status.CORRUPT), "ok", 2),
        (SourceError("no such object", href="a", status=Status.MISSING), "missing", 1),
    ],
)
@in_loop
async def test_an_image_that_was_replaced_is_measured_again(
    error: SourceError, status: str, n_tries: int
) -> None:
    """Its header was of the former version. What fails for another reason is not tried again."""
    work = FailsOnce(error)

    (found,) = [each async for each in measure_each(work, iter([(0, ROW, None)]), most_ahead=1)]

    assert (found.record.status, work.n_tries, found.record.n_requests) == (status, n_tries, n_tries)
