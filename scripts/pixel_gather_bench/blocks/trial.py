"""One measurement: fresh processes write a cube and read it. Then it is deleted."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.core.errors import GatherError, StoreError
from pixel_gather.io.store.object_store import Store, open_place, split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.pixels import BlockPixels
from pixel_gather_bench.blocks.share import BlockJob, ReadAnswer, WriteAnswer, describe
from pixel_gather_bench.blocks.sweep import MB, BlockResult, BlockSetting
from pixel_gather_bench.child import RunCrashedError, run_together

_WRITE: Final = "pixel_gather_bench.blocks.share:ready_to_write"
_READ: Final = "pixel_gather_bench.blocks.share:ready_to_read"


class Trials(Struct, frozen=True, kw_only=True):
    """Measures settings, one after the other, at one place."""

    place: str
    """Checked href of a folder or prefix that nothing else uses; emptied after each measurement."""

    stores: StoreSettings
    pixels_of: Callable[[BlockSetting], BlockPixels]
    run_together: Callable[..., list[Any]] = run_together
    """Does jobs in processes of their own."""

    def measure(self, setting: BlockSetting) -> BlockResult:
        """Write and read one cube in fresh processes.

        Raises:
            GatherError: The place refuses, or a process died.
        """
        with empty_at_end(self.place, self.stores) as store:
            describe(store, setting)
            written: list[WriteAnswer] = self._run(_WRITE, setting, WriteAnswer)
            read: list[ReadAnswer] = self._run(_READ, setting, ReadAnswer)
        return _result_of_answers(setting, written, read)

    def _run(self, function: str, setting: BlockSetting, answer: type[Any]) -> list[Any]:
        of = f"of {setting.n_workers} ({setting.codec}, blocks of {setting.block_mb:.2f} MB)"
        jobs = {
            f"worker {worker + 1} {of}": BlockJob(
                setting=setting,
                worker=worker,
                place=self.place,
                pixels=str(self.pixels_of(setting).file),
                stores=self.stores,
            )
            for worker in range(setting.n_workers)
        }
        try:
            return self.run_together(function, jobs, answer)
        except RunCrashedError as error:
            raise GatherError(
                f"{error}; try fewer --workers, smaller --sizes or a lower --total-mb"
            ) from error


@contextmanager
def empty_at_end(place: str, stores: StoreSettings) -> Iterator[Store]:
    """Yield the client of a place. Delete all that lies there when the block ends, however it ends.

    Raises:
        StoreError: The place refuses; not where the block failed, whose reason says more.
    """
    store = open_place(place, stores)
    try:
        yield store
    except BaseException:
        with suppress(StoreError):
            _empty(place, store)
        raise
    _empty(place, store)


def _empty(place: str, store: Store) -> None:
    root, path = split_href(place)
    if root == "file://":
        shutil.rmtree(Path("/", path), ignore_errors=True)
        return
    try:
        for page in obstore.list(store, chunk_size=1000):
            obstore.delete(store, [item["path"] for item in page])
    except (BaseError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise StoreError(f"{place} could not be emptied: {said}; delete what is left there") from error


def _result_of_answers(
    setting: BlockSetting, written: Sequence[WriteAnswer], read: Sequence[ReadAnswer]
) -> BlockResult:
    n_pixels = setting.shape[0] * setting.shape[1] * setting.shape[2]
    decoded_mb = n_pixels * setting.itemsize / MB
    return BlockResult(
        write_mb_per_s=decoded_mb / _wall_s(written),
        whole_mb_per_s=decoded_mb / _wall_s(read),
        slices_per_s=sum(each.slices_per_s for each in read),
        series_per_s=sum(each.series_per_s for each in read),
        write_cpu_s_per_gb=sum(each.cpu_s for each in written) * 1000 / decoded_mb,
        whole_cpu_s_per_gb=sum(each.cpu_s for each in read) * 1000 / decoded_mb,
        ratio=decoded_mb * MB / sum(each.stored_nbytes for each in written),
        largest_error=max(each.largest_error for each in read),
        peak_rss_mib=max([*(each.peak_rss_mib for each in written), *(each.peak_rss_mib for each in read)]),
    )


def _wall_s(answers: Sequence[WriteAnswer] | Sequence[ReadAnswer]) -> float:
    """Return from the first process's start to the last one's end."""
    return max(each.ended_s for each in answers) - min(each.began_s for each in answers)
