"""A pool of workers lists folders of images. The store is a slow S3 server on this machine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import obstore

from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import Store, StoreSettings, open_place
from pixel_gather.task_group import all_of
from pixel_gather_bench.area.clients import serving
from pixel_gather_bench.area.published import LISTING_S, N_FOLDERS, N_IMAGES


def measure_pool(store: Store, n_workers: int) -> tuple[float, int]:
    """Return the seconds that listing all folders takes, and how many links were found."""
    began = time.perf_counter()
    n_links = run(_listed(store, n_workers))
    return time.perf_counter() - began, n_links


@contextmanager
def slow_store(listing_s: float = LISTING_S) -> Iterator[Store]:
    """Serve a bucket. Each listing takes as long as the published ones did."""

    def answer(path: str) -> bytes:
        time.sleep(listing_s)
        return _listing(parse_qs(urlsplit(path).query)["prefix"][0]).encode()

    with serving(answer) as port:
        endpoint = f"http://127.0.0.1:{port}"
        yield open_place(
            "s3://folders", StoreSettings(endpoint=endpoint, region="eu-central-1", unsigned=True)
        )


async def _listed(store: Store, n_workers: int) -> int:
    waiting = iter(range(N_FOLDERS))
    n_links = 0

    async def work() -> None:
        nonlocal n_links
        for number in waiting:
            found = await obstore.list(store, prefix=f"granule-{number}/IMG_DATA/").collect_async()
            n_links += len(found)

    await all_of(work() for _ in range(n_workers))
    return n_links


def _listing(folder: str) -> str:
    images = "".join(
        f"<Contents><Key>{folder}B{band:02}.jp2</Key><LastModified>2017-11-01T00:00:00.000Z</LastModified>"
        "<Size>1</Size></Contents>"
        for band in range(1, N_IMAGES + 1)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{images}</ListBucketResult>"
