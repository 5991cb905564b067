"""What a worker does for a table of points or zones: it measures the images of one task."""

from contextlib import AsyncExitStack

from msgspec import Struct

from handlers.deployment.report_spending import Spending
from handlers.deployment.stores import Deployment
from handlers.tables.feature_table import WORK_KEY, TableWork, access_of, open_reader
from handlers.tables.table_body import admit_table
from pixel_gather.core.stores import decode_json, needed_file
from pixel_gather.tables.feature_rounds import measure_task
from pixel_gather.tables.features import Features
from pixel_gather.tables.image_work import ImageWork
from pixel_gather.tables.map_tasks import MapTask
from pixel_gather.tables.packed_features import FEATURES_KEY, unpack_features


class _Opened(Struct, frozen=True, kw_only=True):
    """The features of one table, and what computes the lines of an image."""

    name: str
    stack: AsyncExitStack
    features: Features
    work: ImageWork
    tolerance_us: int | None


class ImageWorker:
    """Measures images of one deployment. Keeps the last table open: the next task is most likely of it.

    So where features lie on a grid is computed once for each worker, and not for each task.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._opened: _Opened | None = None

    async def measure(
        self, name: str, number: int, task: MapTask, *, longest_s: float, spent: Spending
    ) -> int:
        """Measure the images of a task, commit it, and return how many there were; 0 if it is committed.

        Images that were not read within ``longest_s`` get the status timed out. ``spent`` is added to.
        """
        opened = await self._open(name)
        records = await measure_task(
            task,
            self._deployment.table_files(name, may_list=False),
            number,
            work=opened.work,
            features=opened.features,
            tolerance_us=opened.tolerance_us,
            most_ahead=2 * self._deployment.settings.concurrency,
            longest_s=longest_s,
        )
        spent.n_shards += 1
        spent.n_puts += 1
        spent.n_gets += sum(each.n_requests for each in records)
        return len(records)

    async def aclose(self) -> None:
        """Close the last table."""
        if self._opened is not None:
            await self._opened.stack.aclose()
            self._opened = None

    async def _open(self, name: str) -> _Opened:
        if self._opened is not None and self._opened.name == name:
            return self._opened
        await self.aclose()
        files = self._deployment.table_files(name, may_list=False)
        given = decode_json(await needed_file(files, WORK_KEY), TableWork, key=WORK_KEY)
        asked = admit_table(given.request, self._deployment.settings)
        features = unpack_features(await needed_file(files, FEATURES_KEY))
        async with AsyncExitStack() as stack:
            reader = await stack.enter_async_context(open_reader(self._deployment, given.sign))
            access = access_of(self._deployment, reader, given.bands, given.band_numbers)
            values = asked.request.values_for_list.of_bands(given.of_bands)
            self._opened = _Opened(
                name=name,
                work=stack.enter_context(asked.kind.open_work(features, values, access)),
                features=features,
                tolerance_us=asked.request.tolerance_us,
                stack=stack.pop_all(),
            )
        return self._opened
