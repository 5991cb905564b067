"""The ways to pull an object, and why some cannot be measured with this machine and object."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct


class IngestObject(Struct, frozen=True, kw_only=True):
    """One object of a store."""

    href: str
    """A checked href."""

    nbytes: int
    etag: str | None
    mounted: str | None = None
    """Its path on a mounted file system."""


class Way(Struct, frozen=True):
    """One way."""

    name: str
    title: str
    puller: str
    """``module:name`` of its `pixel_gather_bench.ingest.job.Puller`, within this package."""

    program: str | None = None
    """The other program that does it, if any."""

    s3_only: bool = False
    downloads: bool = False
    """Whether the whole object is stored before it is read."""

    only_forward: bool = False
    """Whether it cannot read random ranges."""

    mounts: bool = False
    """Whether it mounts a bucket by itself."""


def _fuse(name: str, title: str, program: str) -> Way:
    return Way(name, f"FUSE mount by {title}", "mounts:FuseWay", program, s3_only=True, mounts=True)


def _download(name: str, how: str, puller: str, program: str | None = None, *, s3_only: bool = True) -> Way:
    return Way(name, f"whole download{how}", f"whole:{puller}", program, s3_only=s3_only, downloads=True)


WAYS: Final = (
    _download("one-stream", ", one stream", "one_stream", s3_only=False),
    _download("in-parts", ", 10 parts of 8 MiB at a time (boto3)", "in_parts"),
    _download("one-thread", ", one part at a time (boto3)", "in_parts_one_by_one"),
    _download("s5cmd", " by s5cmd, 10 parts at a time", "s5cmd", "s5cmd"),
    _download("aws-cp", " by the AWS CLI (aws s3 cp)", "aws_cp", "aws"),
    Way("pipe", "stream through a pipe", "pipe:PipeWay", only_forward=True),
    Way(
        "get-object",
        "one GET read as it comes, ranged GETs at random (boto3)",
        "whole:GetObjectWay",
        s3_only=True,
    ),
    Way("one-by-one", "ranges one by one", "ranged:one_by_one"),
    Way("ahead", "ranges in parallel, read ahead (this tool)", "ranged:ahead"),
    Way("gdal", "GDAL's virtual file system", "gdal:GdalWay"),
    _fuse("rclone-mount", "rclone", "rclone"),
    _fuse("s3fs", "s3fs", "s3fs"),
    _fuse("goofys", "goofys", "goofys"),
    _fuse("mount-s3", "Mountpoint for S3", "mount-s3"),
    Way("mount", "file system mounted by somebody else", "files:MountWay"),
)
BY_NAME: Final = {way.name: way for way in WAYS}


def not_here(
    way: Way, objects: Sequence[IngestObject], *, free_nbytes: int, stores_pays: bool = False
) -> str | None:
    """Return why a way cannot be measured here; None if it can.

    Downloads go to a disk with so many free bytes.
    """
    return next(_reasons(way, objects, free_nbytes, stores_pays=stores_pays), None)


def _reasons(
    way: Way, objects: Sequence[IngestObject], free_nbytes: int, *, stores_pays: bool
) -> Iterator[str]:
    schemes = {each.href.partition("://")[0] for each in objects}
    largest = max(each.nbytes for each in objects)
    if way.downloads and largest > free_nbytes:
        yield f"the disk for downloads has {free_nbytes:,} bytes free, the object has {largest:,}"
    if way.s3_only and schemes != {"s3"}:
        yield "is for s3:// only"
    yield from _lacking_programs(way, objects)
    if way.name == "mount" and any(each.mounted is None for each in objects):
        yield "give the object's path on the mounted file system by --mount"
    if way.name == "pipe":
        yield from _lacking_pipes(schemes, stores_pays=stores_pays)


def _lacking_programs(way: Way, objects: Sequence[IngestObject]) -> Iterator[str]:
    if way.program and not works(way.program):
        yield f"{way.program} is not on the PATH, or does not start"
    if way.mounts:
        if not (sys.platform == "linux" and os.access("/dev/fuse", os.R_OK | os.W_OK)):
            yield "this machine lets nobody mount by FUSE"
        if shutil.which("fusermount3") is None and shutil.which("fusermount") is None:
            yield "fusermount3 (of the package fuse3) is not on the PATH"
        if len({each.href.split("/")[2] for each in objects}) > 1:
            yield "the objects lie in several buckets"


def _lacking_pipes(schemes: set[str], *, stores_pays: bool) -> Iterator[str]:
    if schemes == {"file"}:
        if shutil.which("cat") is None:
            yield "cat is not on the PATH"
        return
    program = pipe_program(schemes)
    if program is None:
        yield "neither curl nor, for S3, the AWS CLI is on the PATH"
    if program == "curl" and stores_pays:
        yield "curl does not say that the requester pays; the AWS CLI, which does, is not on the PATH"


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
