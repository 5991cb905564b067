"""Ways that download an object whole before any of it is read, and the one that reads a GET as it comes."""

import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.object_store import split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.files import FileWay
from pixel_gather_bench.ingest.job import IngestJob, Puller, Read
from pixel_gather_bench.ingest.ways import IngestObject, find_program

_CHUNK: Final = 2**20
_PARTS_AT_A_TIME: Final = 10
_PART_NBYTES: Final = 8 * 2**20
"""Both as the AWS CLI has them."""


type Download = Callable[[IngestObject, Path], None]
"""Stores an object whole, in a file that is not there yet."""


class WholeWay(FileWay):
    """Reads from a file that each object is downloaded to at its first use."""

    def __init__(self, job: IngestJob, download: Download) -> None:
        super().__init__(job)
        self._download = download

    def ready(self, index: int) -> None:
        """Download an object, unless it is here."""
        self.path(index)

    def path(self, index: int) -> Path:
        """Return where an object's file is."""
        path = Path(self._job.folder, f"object-{index}")
        if not path.exists():
            self._download(self._job.objects[index], path)
        return path


def one_stream(job: IngestJob) -> WholeWay:
    """Return the way of one GET whose body is written as it comes."""
    is_s3 = any(each.href.startswith("s3://") for each in job.objects)
    client = s3_client(job.stores) if is_s3 else None

    def chunks_of(stored: IngestObject) -> Iterator[bytes]:
        if stored.href.startswith("s3://"):
            return _s3_stream(stored, client, pays=job.stores.requester_pays)
        return _file_stream(stored) if stored.href.startswith("file://") else _http_stream(stored)

    def download(stored: IngestObject, path: Path) -> None:
        with path.open("xb") as file:
            for chunk in chunks_of(stored):
                file.write(chunk)

    return WholeWay(job, download)


def in_parts(job: IngestJob, *, is_threaded: bool = True) -> WholeWay:
    """Return the way of boto3's transfer manager, with all its parts in threads or one after the other."""
    from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 # only this way needs it

    config = TransferConfig(
        max_concurrency=_PARTS_AT_A_TIME,
        multipart_chunksize=_PART_NBYTES,
        multipart_threshold=_PART_NBYTES,
        use_threads=is_threaded,
    )
    client = s3_client(job.stores)
    extra = _payer(pays=job.stores.requester_pays)

    def download(stored: IngestObject, path: Path) -> None:
        bucket, key = _bucket_and_key(stored.href)
        client.download_file(bucket, key, str(path), Config=config, ExtraArgs=extra)

    return WholeWay(job, download)


def in_parts_one_by_one(job: IngestJob) -> WholeWay:
    """Return the same way with one part at a time."""
    return in_parts(job, is_threaded=False)


def s5cmd(job: IngestJob) -> WholeWay:
    """Return the way of s5cmd, which is told its Region by the environment."""
    options = options_of(job.stores, leaving_out=("--region",))
    parts = ["--concurrency", str(_PARTS_AT_A_TIME)]

    def download(stored: IngestObject, path: Path) -> None:
        _run("s5cmd", [*options, "cp", "--raw", *parts, stored.href, str(path)], job.stores)

    return WholeWay(job, download)


def aws_cp(job: IngestJob) -> WholeWay:
    """Return the way of the AWS CLI."""
    options = options_of(job.stores)

    def download(stored: IngestObject, path: Path) -> None:
        _run("aws", ["s3", "cp", "--only-show-errors", stored.href, str(path), *options], job.stores)

    return WholeWay(job, download)


def options_of(stores: StoreSettings, *, leaving_out: Collection[str] = ()) -> list[str]:
    """Return how the AWS CLI, and programs like it, are told of the same store."""
    options: dict[str, list[str | None]] = {
        "--endpoint-url": [stores.endpoint],
        "--no-sign-request": [] if stores.unsigned else [None],
        "--region": [stores.region],
        "--profile": [stores.profile],
        "--request-payer": ["requester" if stores.requester_pays else None],
    }
    return [
        word
        for name, values in options.items()
        if None not in values and name not in leaving_out
        for word in (name, *map(str, values))
    ]


def environment_of(stores: StoreSettings) -> dict[str, str]:
    """Return the environment of programs that are told their Region by it alone."""
    return os.environ | ({"AWS_REGION": stores.region} if stores.region else {})


def _run(program: str, arguments: Sequence[str], stores: StoreSettings) -> None:
    command = [find_program(program) or program, *arguments]
    ended = subprocess.run(command, capture_output=True, check=False, env=environment_of(stores))  # noqa: S603 # no shell; a checked href
    if ended.returncode:
        raise StoreError(f"{program}: {ended.stderr.decode(errors='replace').strip()[-500:]}")


class GetObjectWay(Puller):
    """One GET whose body is read as it comes, and a GET for each range."""

    def __init__(self, job: IngestJob) -> None:
        super().__init__(job)
        self._client = s3_client(job.stores)

    def stream(self, index: int) -> Iterator[bytes]:
        """Yield all bytes in order."""
        return _s3_stream(self._job.objects[index], self._client, pays=self._job.stores.requester_pays)

    def reads(self, reads: Iterable[Read]) -> Iterator[bytes]:
        """Yield the bytes of each range."""
        extra = _payer(pays=self._job.stores.requester_pays)
        for read in reads:
            bucket, key = _bucket_and_key(self._job.objects[read.index].href)
            span = f"bytes={read.start}-{read.stop - 1}"
            yield self._client.get_object(Bucket=bucket, Key=key, Range=span, **extra)["Body"].read()


def _payer(*, pays: bool) -> dict[str, str]:
    return {"RequestPayer": "requester"} if pays else {}


def s3_client(stores: StoreSettings) -> Any:
    """Return boto3's client of the same store."""
    import boto3  # noqa: PLC0415 # costs 0.3 s that most ways do not need
    from botocore import UNSIGNED  # noqa: PLC0415 # as above
    from botocore.config import Config  # noqa: PLC0415 # as above

    config = Config(
        signature_version=UNSIGNED if stores.unsigned else None,
        s3={"addressing_style": "path"} if stores.endpoint else None,
    )
    session = boto3.Session(profile_name=stores.profile)
    region = stores.region or session.region_name or ("us-east-1" if stores.endpoint else None)
    return session.client("s3", region_name=region, endpoint_url=stores.endpoint, config=config)


def _s3_stream(stored: IngestObject, client: Any, *, pays: bool) -> Iterator[bytes]:
    bucket, key = _bucket_and_key(stored.href)
    yield from client.get_object(Bucket=bucket, Key=key, **_payer(pays=pays))["Body"].iter_chunks(_CHUNK)


def _http_stream(stored: IngestObject) -> Iterator[bytes]:
    import urllib3  # noqa: PLC0415 # only this way needs it

    answer = urllib3.PoolManager().request("GET", stored.href, preload_content=False)
    if answer.status != 200:  # noqa: PLR2004 # OK
        raise StoreError(f"the server answered with status {answer.status}")
    yield from answer.stream(_CHUNK, decode_content=False)


def _file_stream(stored: IngestObject) -> Iterator[bytes]:
    with Path(unquote(stored.href.removeprefix("file://"))).open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _bucket_and_key(href: str) -> tuple[str, str]:
    root, key = split_href(href)
    return root.removeprefix("s3://"), key
