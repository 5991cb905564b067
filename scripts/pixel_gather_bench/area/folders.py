"""Lists folders of images by a pool of workers, as a search does, from a slow S3 server on this machine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from pixel_gather.core.request.href_policy import IN_PROCESS
from pixel_gather.core.scenes.item import asset_hrefs
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.list_folders import FolderPool
from pixel_gather.io.scenes.open_folder import Folders
from pixel_gather.io.store.object_store import StoreSettings
from pixel_gather_bench.area.clients import serving
from pixel_gather_bench.area.published import LISTING_S, N_FOLDERS, N_IMAGES


def measure_pool(folders: Folders, n_workers: int) -> tuple[float, int]:
    """Return the seconds that listing all folders takes, and how many links were found."""
    scenes = [
        {"assets": {"images": {"href": f"s3://folders/granule-{n}/IMG_DATA/"}}} for n in range(N_FOLDERS)
    ]
    pool = FolderPool(open_=folders.open_, n_listings=n_workers)
    began = time.perf_counter()
    found = run(pool.with_images(scenes))
    links = [href for scene in found for _, href in asset_hrefs(scene) if not href.endswith("/")]
    return time.perf_counter() - began, len(links)


@contextmanager
def slow_store(listing_s: float = LISTING_S) -> Iterator[Folders]:
    """Serve a bucket. Each listing takes as long as the published ones did."""

    def answer(path: str) -> bytes:
        time.sleep(listing_s)
        return _listing(parse_qs(urlsplit(path).query)["prefix"][0]).encode()

    with serving(answer) as port:
        reached = StoreSettings(endpoint=f"http://127.0.0.1:{port}", region="eu-central-1", unsigned=True)
        yield Folders(policy=IN_PROCESS, settings_of=lambda _: reached)


def _listing(folder: str) -> str:
    images = "".join(
        f"<Contents><Key>{folder}B{band:02}.jp2</Key><LastModified>2017-11-01T00:00:00.000Z</LastModified>"
        "<Size>1</Size></Contents>"
        for band in range(1, N_IMAGES + 1)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{images}</ListBucketResult>"
