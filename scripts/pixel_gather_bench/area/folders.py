"""Lists folders of images as a search does, from an S3 on loopback that takes its time."""

import http
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import override
from urllib.parse import parse_qs, urlsplit

from pixel_gather.adapters.catalog.list_folders import FolderPool
from pixel_gather.adapters.catalog.open_folder import Folders
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import StoreSettings
from pixel_gather.catalog.item import asset_hrefs
from pixel_gather.request.href import IN_PROCESS
from pixel_gather_bench.area.clients import running
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
    """Serve a bucket whose every listing takes as long as the published ones."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the base class's name for it
            folder = parse_qs(urlsplit(self.path).query)["prefix"][0]
            time.sleep(listing_s)
            content = _listing(folder).encode()
            self.send_response(http.HTTPStatus.OK)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    with running(Handler) as port:
        reached = StoreSettings(endpoint=f"http://127.0.0.1:{port}", region="eu-central-1", unsigned=True)
        yield Folders(policy=IN_PROCESS, settings_of=lambda _: reached)


def _listing(folder: str) -> str:
    images = "".join(
        f"<Contents><Key>{folder}B{band:02}.jp2</Key><LastModified>2017-11-01T00:00:00.000Z</LastModified>"
        "<Size>1</Size></Contents>"
        for band in range(1, N_IMAGES + 1)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{images}</ListBucketResult>"
