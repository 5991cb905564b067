"""The ways of ranged reads: one by one, and several in flight whose answers are taken in order."""

from collections.abc import AsyncGenerator, Iterable, Iterator

from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.source import Cost
from pixel_gather.io.event_loop import open_runner
from pixel_gather.io.store.object_store import Objects
from pixel_gather_bench.ingest.job import IngestJob, Puller, Read


def one_by_one(job: IngestJob) -> "RangedWay":
    """Return the way of one range after the other."""
    return RangedWay(job, most_ahead=1)


def ahead(job: IngestJob) -> "RangedWay":
    """Return the way of as many ranges in flight as the job says."""
    return RangedWay(job, most_ahead=job.most_ahead)


class RangedWay(Puller):
    """Reads as a gather does: pinned to one version of the object, late answers asked for again."""

    def __init__(self, job: IngestJob, *, most_ahead: int) -> None:
        """Send nothing yet. So many ranges will be in flight."""
        super().__init__(job)
        self._most_ahead = most_ahead
        self._objects = Objects(job.stores)
        self._runner = open_runner()

    def reads(self, reads: Iterable[Read]) -> Iterator[memoryview]:
        """Yield the bytes of each range."""
        answers = in_order(reads, self._read_one, most_ahead=self._most_ahead)
        while (answer := self._runner.run(_next(answers))) is not None:
            yield answer

    async def _read_one(self, read: Read) -> memoryview:
        stored = self._job.objects[read.index]
        answer = await self._objects.get_range(
            stored.href, read.start, read.stop, etag=stored.etag, cost=Cost()
        )
        return answer.content


async def _next(answers: AsyncGenerator[memoryview]) -> memoryview | None:
    return await anext(answers, None)
