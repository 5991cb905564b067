"""The ways of a file system that a program mounts for one measurement."""

import os
import shutil
import subprocess
import tempfile
import time
from copy import replace
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.object_store import split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.files import MountWay
from pixel_gather_bench.ingest.job import IngestJob
from pixel_gather_bench.ingest.ways import find_program
from pixel_gather_bench.ingest.whole import environment_of, options_of

_LONGEST_S: Final = 60
"""Until a mount is there, or gone."""

_STEP_S: Final = 0.05


class FuseWay(MountWay):
    """A `MountWay` on a mount of its own. What is cached is gone with it."""

    def __init__(self, job: IngestJob) -> None:
        """Mount, before the clock starts: a mount serves many objects."""
        self._folder = Path(tempfile.mkdtemp(dir=job.folder))
        self._said = tempfile.TemporaryFile(dir=job.folder)  # noqa: SIM115 # open as long as the mount is there
        command, environment = _command(job, self._folder)
        self._process = subprocess.Popen(  # noqa: S603 # no shell; a checked href
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            env=environment,
        )
        self._wait_for_mount(Path(command[0]).name)
        keys = [unquote(split_href(each.href)[1]) for each in job.objects]
        objects = tuple(
            replace(each, mounted=str(self._folder / key))
            for each, key in zip(job.objects, keys, strict=True)
        )
        super().__init__(replace(job, objects=objects))

    def end(self) -> None:
        """Take the mount away and wait until the program has ended."""
        super().end()
        program = shutil.which("fusermount3") or shutil.which("fusermount") or "fusermount3"
        until = time.monotonic() + _LONGEST_S
        while os.path.ismount(self._folder) and time.monotonic() < until:
            subprocess.run([program, "-u", str(self._folder)], capture_output=True, check=False)  # noqa: S603 # found on the PATH
            time.sleep(_STEP_S)
        self._end()

    def _wait_for_mount(self, program: str) -> None:
        until = time.monotonic() + _LONGEST_S
        while not os.path.ismount(self._folder):
            if self._process.poll() is not None or time.monotonic() > until:
                self._end()
                raise StoreError(f"{program} did not mount the bucket: {_last_line(self._said)}")
            time.sleep(_STEP_S)

    def _end(self) -> None:
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(timeout=_LONGEST_S)


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace").strip().rpartition("\n")[2][-500:] or "it said nothing"


def _command(job: IngestJob, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the program in the foreground with its options, and its environment."""
    stores = job.stores
    bucket = split_href(job.objects[0].href)[0].removeprefix("s3://")
    environment = environment_of(stores)
    place = [bucket, str(folder)]
    if job.way == "rclone-mount":
        options = ["mount", f":s3:{bucket}", str(folder), "--read-only", "--config", os.devnull]
        return [_program("rclone"), *options], environment | _for_rclone(stores)
    if job.way == "s3fs":
        return [_program("s3fs"), *place, "-f", *_for_s3fs(stores)], environment
    payer = ["--requester-pays"] if stores.requester_pays else []
    if job.way == "goofys":
        options = options_of(stores, leaving_out=("--request-payer", "--no-sign-request")) + payer
        options = ["--endpoint" if each == "--endpoint-url" else each for each in options]
        return [_program("goofys"), "-f", "-o", "ro", *options, *place], environment
    options = options_of(stores, leaving_out=("--request-payer",)) + payer
    options += ["--force-path-style"] if stores.endpoint else []
    return [_program("mount-s3"), "-f", "--read-only", *options, *place], environment


def _program(name: str) -> str:
    return find_program(name) or name


def _for_rclone(stores: StoreSettings) -> dict[str, str]:
    settings = {
        "provider": "Other" if stores.endpoint else "AWS",
        "endpoint": stores.endpoint,
        "region": stores.region,
        "profile": stores.profile,
        "env_auth": None if stores.unsigned else "true",
        "requester_pays": "true" if stores.requester_pays else None,
    }
    return {f"RCLONE_S3_{name.upper()}": value for name, value in settings.items() if value}


def _for_s3fs(stores: StoreSettings) -> list[str]:
    settings = [
        "ro",
        f"url={stores.endpoint}" if stores.endpoint else "",
        "use_path_request_style" if stores.endpoint else "",
        f"endpoint={stores.region}" if stores.region else "",
        f"profile={stores.profile}" if stores.profile else "",
        "public_bucket=1" if stores.unsigned else "",
        "requester_pays" if stores.requester_pays else "",
    ]
    return [part for setting in settings if setting for part in ("-o", setting)]
