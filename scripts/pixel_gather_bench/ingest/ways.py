"""The ways to pull an object, and why some cannot be measured with this machine and object."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pixel_gather_bench.ingest.job import IngestObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way."""

    name: str
    title: str
    puller: str
    """``module:name`` of its `pixel_gather_bench.ingest.job.Puller`, within this package."""

    downloads: bool = False
    """Whether the whole object is stored before it is read."""

    only_forward: bool = False
    """Whether it cannot read random ranges."""


WAYS: Final = (
    Way(name="one-stream", title="whole download, one stream", puller="whole:one_stream", downloads=True),
    Way(
        name="in-parts",
        title="whole download, 10 parts of 8 MiB at a time (boto3)",
        puller="whole:in_parts",
        downloads=True,
    ),
    Way(
        name="one-thread",
        title="whole download, one part at a time (boto3)",
        puller="whole:in_parts_one_by_one",
        downloads=True,
    ),
    Way(
        name="s5cmd",
        title="whole download by s5cmd, 10 parts at a time",
        puller="whole:s5cmd",
        downloads=True,
    ),
    Way(
        name="aws-cp",
        title="whole download by the AWS CLI (aws s3 cp)",
        puller="whole:aws_cp",
        downloads=True,
    ),
    Way(name="pipe", title="stream through a pipe", puller="pipe:PipeWay", only_forward=True),
    Way(
        name="get-object",
        title="one GET read as it comes, ranged GETs at random (boto3)",
        puller="whole:GetObjectWay",
    ),
    Way(name="one-by-one", title="ranges one by one", puller="ranged:one_by_one"),
    Way(name="ahead", title="ranges in parallel, read ahead (this tool)", puller="ranged:ahead"),
    Way(name="gdal", title="GDAL's virtual file system", puller="gdal:GdalWay"),
    Way(name="rclone-mount", title="FUSE mount by rclone", puller="mounts:FuseWay"),
    Way(name="s3fs", title="FUSE mount by s3fs", puller="mounts:FuseWay"),
    Way(name="goofys", title="FUSE mount by goofys", puller="mounts:FuseWay"),
    Way(name="mount-s3", title="FUSE mount by Mountpoint for S3", puller="mounts:FuseWay"),
    Way(name="mount", title="file system mounted by somebody else", puller="mounts:MountWay"),
)
BY_NAME: Final = {way.name: way for way in WAYS}


def not_here(
    way: Way, objects: Sequence[IngestObject], *, free_nbytes: int, stores_pays: bool = False
) -> str | None:
    """Return why a way cannot be measured here; None if it can.

    Args:
        way: Which.
        objects: What is to be read.
        free_nbytes: Free bytes of the disk that downloads go to.
        stores_pays: Whether requests say that the requester pays.
    """
    return next(_reasons(way, objects, free_nbytes, stores_pays=stores_pays), None)


def _reasons(
    way: Way, objects: Sequence[IngestObject], free_nbytes: int, *, stores_pays: bool
) -> Iterator[str]:
    schemes = {each.href.partition("://")[0] for each in objects}
    largest = max(each.nbytes for each in objects)
    if way.downloads and largest > free_nbytes:
        yield f"the disk for downloads has {free_nbytes:,} bytes free, the object has {largest:,}"
    if way.name in _S3_ONLY and schemes != {"s3"}:
        yield "is for s3:// only"
    yield from _lacking(way, objects)
    if way.name == "mount" and any(each.mounted is None for each in objects):
        yield "give the object's path on the mounted file system by --mount"
    if way.name == "pipe" and schemes != {"file"} and pipe_program(schemes) is None:
        yield "neither curl nor, for S3, the AWS CLI is on the PATH"
    if way.name == "pipe" and schemes == {"file"} and shutil.which("cat") is None:
        yield "cat is not on the PATH"
    if way.name == "pipe" and stores_pays and pipe_program(schemes) == "curl":
        yield "curl does not say that the requester pays; the AWS CLI, which does, is not on the PATH"


def _lacking(way: Way, objects: Sequence[IngestObject]) -> Iterator[str]:
    """Yield what is missing for a way of another program."""
    if way.name in _PROGRAMS and not works(_PROGRAMS[way.name]):
        yield f"{_PROGRAMS[way.name]} is not on the PATH, or does not start"
    if way.name in FUSE_WAYS:
        if not (sys.platform == "linux" and os.access("/dev/fuse", os.R_OK | os.W_OK)):
            yield "this machine lets nobody mount by FUSE"
        if shutil.which("fusermount3") is None and shutil.which("fusermount") is None:
            yield "fusermount3 (of the package fuse3) is not on the PATH"
        if len({each.href.split("/")[2] for each in objects}) > 1:
            yield "the objects lie in several buckets"


FUSE_WAYS: Final = ("rclone-mount", "s3fs", "goofys", "mount-s3")
"""Ways that mount a bucket by themselves."""

_PROGRAMS: Final = {
    "s5cmd": "s5cmd",
    "aws-cp": "aws",
    "rclone-mount": "rclone",
    "s3fs": "s3fs",
    "goofys": "goofys",
    "mount-s3": "mount-s3",
}
_S3_ONLY: Final = (*_PROGRAMS, "in-parts", "one-thread", "get-object")


def pipe_program(schemes: set[str]) -> str | None:
    """Return the program that streams such objects: ``aws`` for S3 if it works, else ``curl``."""
    if schemes == {"s3"} and works("aws"):
        return "aws"
    return "curl" if shutil.which("curl") else None


def find_program(program: str) -> str | None:
    """Return the path of a program that is installed beside this Python, or is on the PATH."""
    beside = sysconfig.get_path("scripts")
    return shutil.which(program, path=beside) or shutil.which(program)


def works(program: str) -> bool:
    """Return whether a program starts. A version manager may have put only a stand-in there."""
    path = find_program(program)
    if path is None:
        return False
    option = "version" if program == "s5cmd" else "--version"
    asked = subprocess.run([path, option], capture_output=True, check=False, timeout=60)  # noqa: S603 # found on the PATH
    return asked.returncode == 0
