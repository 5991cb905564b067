"""Folders listed by a pool: each once, so many at a time, and no failure stops the rest."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from obstore.store import GCSStore

from pixel_gather.core.model.status import Status
from pixel_gather.core.request.href_policy import IN_PROCESS, HrefPolicy
from pixel_gather.core.scenes.folders import FolderListing
from pixel_gather.io.scenes.expand_folders import FolderPool
from pixel_gather.io.scenes.open_folder import Folders
from pixel_gather.io.store.store_settings import StoreSettings
from support.local_server import Answer, Asked, serving

IMAGES = ("B02.jp2", "B03.jp2", "metadata.xml", "sub/B04.TIF")


@dataclass
class Bucket:
    """A server of listings: what it was asked for, and how many at one time."""

    root: str = ""
    asked: list[str] = field(default_factory=list)
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def folders(self, policy: HrefPolicy = IN_PROCESS) -> Folders:
        """Open folders of this server."""
        settings = StoreSettings(endpoint=self.root, region="eu-west-1", unsigned=True, max_retries=0)
        return Folders(policy=policy, settings_of=lambda _: settings, open_google=self.google)

    def google(self, bucket: str) -> GCSStore:
        """Open a bucket of this server as one of Google's."""
        key = {"gcs_base_url": self.root, "disable_oauth": True}
        nothing = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return GCSStore(
            bucket,
            service_account_key=json.dumps({**key, **nothing}),
            client_options={"allow_http": True},
        )


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """Serve folders by their names: gone, forbidden, broken, slow or with images."""
    found = Bucket()

    def script(asked: Asked) -> Answer:
        folder = parse_qs(urlsplit(asked.path).query)["prefix"][0]
        with found.lock:
            found.asked.append(folder)
            found.now += 1
            found.most = max(found.most, found.now)
        time.sleep(2.5 if "slow" in folder else 0.02)
        with found.lock:
            found.now -= 1
        status = 403 if "forbidden" in folder else 500 if "broken" in folder else 200
        names = [] if "empty" in folder else IMAGES
        images = "".join(
            f"<Contents><Key>{folder}{name}</Key><Size>1</Size>"
            "<LastModified>2017-11-01T00:00:00.000Z</LastModified></Contents>"
            for name in names
        )
        content = f"<ListBucketResult><IsTruncated>false</IsTruncated>{images}</ListBucketResult>"
        return Answer(status=status, body=content.encode())

    with serving(script) as server:
        found.root = server.root
        yield found


def listed(folders: Folders, hrefs: list[str], **settings: float) -> dict[str, FolderListing]:
    """List folders."""
    pool = FolderPool(open_=folders.open_, **settings)  # type: ignore[arg-type] # a test's own
    return dict(asyncio.run(pool.listings(hrefs)))


@pytest.mark.parametrize("n_listings", [1, 4, 50])
def test_each_folder_is_listed_once_and_so_many_at_a_time(bucket: Bucket, n_listings: int) -> None:
    """Images alone are answered, sorted, with whole hrefs."""
    hrefs = [f"s3://some-bucket/g{n}/" for n in range(12)]

    found = listed(bucket.folders(), hrefs, n_listings=n_listings)

    assert sorted(bucket.asked) == sorted(f"g{n}/" for n in range(12))
    assert bucket.most <= n_listings
    assert dict(found["s3://some-bucket/g7/"].images) == {
        name: f"s3://some-bucket/g7/{name}" for name in ("B02.jp2", "B03.jp2", "sub/B04.TIF")
    }
    assert all(each.status is Status.OK for each in found.values())


def test_folders_that_cannot_be_listed_have_a_status_and_the_rest_goes_on(bucket: Bucket) -> None:
    """Whatever is wrong with one, the others are listed."""
    names = {
        "s3://some-bucket/forbidden/": Status.DENIED,
        "s3://some-bucket/broken/": Status.TIMED_OUT,
        "s3://some-bucket/slow/": Status.TIMED_OUT,
        "s3://some-bucket/empty/": Status.MISSING,
        "https://example.org/images/": Status.UNSUPPORTED,
        "ftp://some-bucket/images/": Status.DENIED,
        "s3://some-bucket/../other/": Status.DENIED,
        "file:///no/such/folder/": Status.MISSING,
    }
    good = [f"s3://some-bucket/g{n}/" for n in range(5)]

    found = listed(bucket.folders(), [*names, *good], n_listings=6, longest_s=1.0)

    assert {href: found[href].status for href in names} == names
    assert all(found[href].reason for href in names)
    assert all(len(found[href].images) == 3 for href in good)


def test_folders_that_are_left_when_time_is_up_say_so(bucket: Bucket) -> None:
    """Nothing is missing in the answer, and nothing more is asked for."""
    hrefs = [f"s3://some-bucket/slow{n}/" for n in range(20)]

    found = listed(bucket.folders(), hrefs, n_listings=2, limit_s=0.3)

    assert {each.status for each in found.values()} == {Status.TIMED_OUT}
    assert set(found) == set(hrefs)
    assert len(bucket.asked) <= 2


def test_only_allowed_buckets_are_listed(bucket: Bucket) -> None:
    """No request is sent to another."""
    policy = HrefPolicy(schemes=frozenset({"s3"}), buckets=frozenset({"mine"}))

    hrefs = ["s3://mine/g/", "s3://theirs/g/", "file:///tmp/"]
    found = listed(bucket.folders(policy), hrefs)

    assert [found[href].status for href in hrefs] == [Status.OK, Status.DENIED, Status.DENIED]
    assert "mine" in found["s3://theirs/g/"].reason
    assert bucket.asked == ["g/"]


def test_a_folder_of_this_machine_is_listed(bucket: Bucket, tmp_path: Path) -> None:
    """Its hrefs can be read."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x_B04.tif").touch()
    (tmp_path / "a b" / "readme.txt").touch()

    found = listed(bucket.folders(), [f"{tmp_path}/a b/"])

    assert dict(found[f"{tmp_path}/a b/"].images) == {"x_B04.tif": f"file://{tmp_path}/a%20b/x_B04.tif"}


def test_a_public_folder_of_google_is_listed(bucket: Bucket) -> None:
    """The public Sentinel-2 index names folders in this way."""
    folder = "https://storage.googleapis.com/gcp-public-data-sentinel-2/tiles/32/IMG_DATA/"

    found = listed(bucket.folders(), [folder])

    assert found[folder].images["B02.jp2"] == f"{folder}B02.jp2"
    assert bucket.asked == ["tiles/32/IMG_DATA/"]
