"""The ways to pull an object that are measured, and which of them this machine and this object lack."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pixel_gather_bench.ingest.job import StoredObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way."""

    name: str
    title: str
    downloads: bool = False
    """Whether all of an object is stored before any of it is read."""

    only_forward: bool = False
    """Whether random ranges of one object are out of its reach."""


WAYS: Final = (
    Way(name="one-stream", title="whole download, one stream", downloads=True),
    Way(name="in-parts", title="whole download, 10 parts of 8 MiB at a time (boto3)", downloads=True),
    Way(name="s5cmd", title="whole download by s5cmd", downloads=True),
    Way(name="pipe", title="stream through a pipe", only_forward=True),
    Way(name="one-by-one", title="ranges one by one"),
    Way(name="ahead", title="ranges in parallel, read ahead (this tool)"),
    Way(name="gdal", title="GDAL's virtual file system"),
    Way(name="mount", title="mounted file system"),
)
BY_NAME: Final = {way.name: way for way in WAYS}


def not_here(
    way: Way, objects: Sequence[StoredObject], *, free_nbytes: int, stores_pays: bool = False
) -> str | None:
    """Return why a way cannot be measured here, or None where it can.

    Args:
        way: Which.
        objects: What is to be read.
        free_nbytes: Of the disk that downloads go to.
        stores_pays: Whether requests say that the requester pays.
    """
    return next(_reasons(way, objects, free_nbytes, stores_pays=stores_pays), None)


def _reasons(
    way: Way, objects: Sequence[StoredObject], free_nbytes: int, *, stores_pays: bool
) -> Iterator[str]:
    schemes = {each.href.partition("://")[0] for each in objects}
    largest = max(each.nbytes for each in objects)
    if way.downloads and largest > free_nbytes:
        yield f"the disk for downloads has {free_nbytes:,} bytes free, the object has {largest:,}"
    if way.name in ("in-parts", "s5cmd") and schemes != {"s3"}:
        yield "is for s3:// only"
    if way.name == "s5cmd" and shutil.which("s5cmd") is None:
        yield "s5cmd is not on the PATH"
    if way.name == "mount" and any(each.mounted is None for each in objects):
        yield "give the object's path on the mounted file system by --mount"
    if way.name == "pipe" and schemes != {"file"} and pipe_program(schemes) is None:
        yield "neither curl nor, for S3, the AWS CLI is on the PATH"
    if way.name == "pipe" and schemes == {"file"} and shutil.which("cat") is None:
        yield "cat is not on the PATH"
    if way.name == "pipe" and stores_pays and pipe_program(schemes) == "curl":
        yield "curl does not say that the requester pays; the AWS CLI, which does, is not on the PATH"


def pipe_program(schemes: set[str]) -> str | None:
    """Return what streams such objects to its output: ``aws`` for S3 where it works, else ``curl``."""
    if schemes == {"s3"} and _works("aws"):
        return "aws"
    return "curl" if shutil.which("curl") else None


def _works(program: str) -> bool:
    """Whether a program is there and starts; a version manager's stand-in may be all there is."""
    found = shutil.which(program)
    if found is None:
        return False
    asked = subprocess.run([found, "--version"], capture_output=True, check=False, timeout=30)  # noqa: S603 # found on the PATH
    return asked.returncode == 0
