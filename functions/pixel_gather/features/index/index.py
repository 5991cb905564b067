"""Make a header index in this process. Opens every source of a list and reads no pixel."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from obstore.exceptions import BaseError

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.sources import Sources
from pixel_gather.features.index.read_headers import IndexedSource, index_sources
from pixel_gather.in_process.cleanup import folders_removed_on_failure
from pixel_gather.in_process.job import listed, opened_job
from pixel_gather.in_process.places import check_parquet_place, check_place, holds_file, show_place
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.event_loop import run
from pixel_gather.io.header_index import Entry, is_index, store_index
from pixel_gather.io.store.object_store import Objects, Store, folder_and_key, open_place
from pixel_gather.io.store.store_error_status import said_of_place

_N_PER_BATCH: Final = 256
_MOST_NAMED: Final = 20


class Indexed(Struct, frozen=True, kw_only=True):
    """Result of making a header index."""

    place: str | None
    """Location of the index: a local path or an href. None if there was nothing to write."""

    n_sources: int
    n_indexed: int
    """Sources with an entry. The others failed, need GDAL, or are in stores without versions."""

    status_counts: dict[str, int]
    failed: tuple[tuple[str, str], ...]
    """Href and reason of the first twenty that failed."""

    requests: int
    fetched_nbytes: int
    wall_s: float

    @property
    def n_failed(self) -> int:
        """Sources that could not be opened."""
        return self.n_sources - self.status_counts.get("ok", 0)


@check_arguments
def index(
    sources: Any,
    *,
    to: str | os.PathLike[str],
    overview: int | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Indexed:
    """Make a header index of a list. Gathers that use it skip the reading of headers.

    Args:
        sources: As a request's ``sources``: a list file, hrefs, or a prefix.
        to: The Parquet file to write, local or on S3. An earlier index is replaced.
        overview: The overview that gathers will read from; None for full resolution.
        settings: How this machine is used.
        on_progress: Called after each source.

    Raises:
        RequestError: The list is wrong, or ``to`` exists and is no header index. Nothing was written.
        StoreError: The file could not be written.
    """
    return run(index_async(sources, to=to, overview=overview, settings=settings, on_progress=on_progress))


@check_arguments
async def index_async(
    sources: Any,
    *,
    to: str | os.PathLike[str],
    overview: int | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Indexed:
    """Make a header index of a list; see `index`."""
    if overview is not None and overview < 0:
        raise RequestError(f"it is {overview}; write a whole number from 0", field="overview")
    place = check_parquet_place(to, what="a header index")
    folder, name = folder_and_key(place)
    settings = settings or Settings()
    started = time.perf_counter()
    checked = parse_sources(sources)
    _refuse_list(place, checked)
    with folders_removed_on_failure(folder):
        async with opened_job(checked, settings) as job:
            store = open_place(folder, settings.stores)
            await asyncio.to_thread(_refuse_other_file, store, name, place, Objects(settings.stores))
            tally = _IndexTally(Progress(n_sources=job.table.n_sources), on_progress)
            with closing(listed(job.table)) as in_order:
                each = index_sources(
                    in_order,
                    overview=overview,
                    reader=job.reader,
                    limiter=job.limiter,
                    most_ahead=job.most_ahead,
                    source_timeout_s=settings.source_timeout_s,
                )
                async with aclosing(each), aclosing(tally.entries(each)) as entries:
                    try:
                        n_indexed = await store_index(entries, store, name)
                    except (BaseError, OSError) as error:
                        said = said_of_place(error)
                        raise StoreError(f"{show_place(place)} could not be written: {said}") from error
    return Indexed(
        place=show_place(place) if n_indexed else None,
        n_sources=tally.progress.n_done,
        n_indexed=n_indexed,
        status_counts=dict(tally.status_counts),
        failed=tuple(tally.failed),
        requests=tally.requests,
        fetched_nbytes=tally.progress.fetched_nbytes,
        wall_s=time.perf_counter() - started,
    )


@dataclass(slots=True)
class _IndexTally:
    """Counts the results of sources that pass on their way into the index."""

    progress: Progress
    on_progress: Callable[[Progress], None]
    requests: int = 0
    status_counts: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)

    async def entries(self, indexed: AsyncIterator[IndexedSource]) -> AsyncGenerator[list[Entry]]:
        """Yield the entries of the index in batches."""
        batch: list[Entry] = []
        async for each in indexed:
            self._add(each)
            if each.packed_header is not None:
                batch.append((each.source.href, each.packed_header))
            if len(batch) == _N_PER_BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _add(self, each: IndexedSource) -> None:
        self.requests += each.cost.requests
        self.status_counts[each.status.name.lower()] += 1
        self.progress.n_done += 1
        self.progress.fetched_nbytes += each.cost.nbytes
        if each.status.is_failure:
            self.progress.n_failed += 1
            if len(self.failed) < _MOST_NAMED:
                self.failed.append((each.source.href, each.reason or ""))
        self.on_progress(self.progress)


def _refuse_list(place: str, sources: Sources) -> None:
    if sources.list is not None and _is_at(place, sources.list):
        raise RequestError("it is the list itself; name another file", field="to")


def _is_at(place: str, list_file: str) -> bool:
    try:
        return check_place(list_file) == place
    except RequestError:  # nothing can be written there
        return False


def _refuse_other_file(store: Store, name: str, place: str, objects: Objects) -> None:
    """Refuse to replace a file that is no header index, such as a list."""
    shown = show_place(place)
    if holds_file(store, shown, name) and not is_index(place, objects=objects):
        raise RequestError(
            f"{shown} exists and is no header index, so it is not replaced; name another file", field="to"
        )
