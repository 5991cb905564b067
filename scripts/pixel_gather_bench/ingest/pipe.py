"""The way of a pipe: another program streams the object, and it is read as it comes."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final
from urllib.parse import unquote

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.object_store import split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.job import IngestJob, Puller, Read
from pixel_gather_bench.ingest.ways import IngestObject, find_program, pipe_program
from pixel_gather_bench.ingest.whole import options_of, s3_client

_PRESIGNED_S: Final = 3600
_CHUNK: Final = 2**20


class PipeWay(Puller):
    """Goes forward only: a range of another object is reached through all bytes before it."""

    def __init__(self, job: IngestJob) -> None:
        super().__init__(job)
        program = pipe_program({each.href.partition("://")[0] for each in job.objects})
        self._commands = [_command(each, job.stores, program) for each in job.objects]

    def stream(self, index: int) -> Iterator[bytes]:
        """Yield all bytes in order."""
        with self._open_pipe(index, to_its_end=True) as pipe:
            while chunk := pipe.read(_CHUNK):
                yield chunk

    def reads(self, reads: Iterable[Read]) -> Iterator[bytes]:
        """Yield the bytes of one range of each object."""
        for read in reads:
            with self._open_pipe(read.index, to_its_end=False) as pipe:
                left = read.start
                while left:
                    left -= len(pipe.read(min(left, _CHUNK))) or left
                yield pipe.read(read.stop - read.start)

    @contextmanager
    def _open_pipe(self, index: int, *, to_its_end: bool) -> Iterator[IO[bytes]]:
        command, said = self._commands[index]
        with subprocess.Popen(  # noqa: S603 # no shell; a checked href
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError
            process.stdin.write(said)
            process.stdin.close()
            try:
                yield process.stdout
                if to_its_end and process.wait():
                    last = process.stderr.read().decode(errors="replace").strip()
                    raise StoreError(f"{command[0]} ended with exit code {process.returncode}: {last[-500:]}")
            finally:
                process.kill()


def _command(stored: IngestObject, stores: StoreSettings, program: str | None) -> tuple[list[str], bytes]:
    """Return a command, and what it is told on its standard input, which no other user can see."""
    scheme = stored.href.partition("://")[0]
    if scheme == "file":
        return ["cat", "--", unquote(stored.href.removeprefix("file://"))], b""
    if program == "aws":
        return [find_program("aws") or "aws", "s3", "cp", stored.href, "-", *options_of(stores)], b""
    url = _presign(stored, stores) if scheme == "s3" else stored.href
    quoted = url.replace("\\", "\\\\").replace('"', '\\"')
    return ["curl", "--silent", "--show-error", "--fail", "--config", "-"], f'url = "{quoted}"\n'.encode()


def _presign(stored: IngestObject, stores: StoreSettings) -> str:
    """Return an address that needs no further signature; a plain one where requests go unsigned."""
    root, key = split_href(stored.href)
    url: str = s3_client(stores).generate_presigned_url(
        "get_object", Params={"Bucket": root.removeprefix("s3://"), "Key": key}, ExpiresIn=_PRESIGNED_S
    )
    return url
