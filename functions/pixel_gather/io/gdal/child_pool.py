"""The child processes. Each is started when first needed, serves many files, and is ended at any failure."""

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Buffer
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pixel_gather.core.errors import BusyError
from pixel_gather.io.child_channel import HEAD, LARGEST_FRAME_NBYTES, Kind
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.limit_child import clean_environment

_START: Final = """\
import sys
sys.modules["boto3"] = None  # rasterio would import it, which takes 0.3 s
from pixel_gather.io.gdal.decode_in_child import main
main()
"""
_GDAL_OPTIONS: Final = {
    "CPL_DEBUG": "OFF",
    "GDAL_CACHEMAX": "64",
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_DRIVER_PATH": "disable",
    "GDAL_NUM_THREADS": "1",  # rasterio's file callbacks work only in the thread that opened
    "GDAL_PAM_ENABLED": "NO",
    "MALLOC_PERTURB_": "255",  # glibc fills new memory with zeros. GDAL returns it where a tile is too short
    "OPENBLAS_NUM_THREADS": "1",
    "PROJ_NETWORK": "OFF",
}

_JOINED_NBYTES: Final = 2**20
"""A frame up to this size is copied, so that it is sent by one call."""


class ChildError(Exception):
    """The child cannot be used any more."""


class ChildTimeoutError(ChildError):
    """It did not answer in time."""


class ChildDiedError(ChildError):
    """It has ended, or sent an invalid frame."""

    exit_code: int = 0
    """Exit code, or the negative number of the signal that ended it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Child:
    """One running child. Only one task uses it at a time."""

    process: asyncio.subprocess.Process
    channel: socket.socket
    holds: int | None = None
    """Token of the source whose dataset it has open."""

    left_s: float = 0.0
    """Seconds that it may still work on the current request."""

    waited_s: float = 0.0
    """Seconds that it has worked on the current request."""

    async def send(self, kind: Kind, *parts: bytes) -> None:
        """Send one frame."""
        loop = asyncio.get_running_loop()
        nbytes = sum(len(part) for part in parts)
        head = HEAD.pack(kind, nbytes)
        for part in [b"".join([head, *parts])] if nbytes <= _JOINED_NBYTES else [head, *parts]:
            await self._await_in_time(loop.sock_sendall(self.channel, part))

    async def receive(self) -> tuple[Kind, int]:
        """Wait for the head of a frame. Return its kind, and the size of the payload to take next."""
        head = await self.take(HEAD.size)
        kind, nbytes = HEAD.unpack(head)
        if nbytes > LARGEST_FRAME_NBYTES or kind not in Kind:
            raise ChildDiedError("sent an invalid frame")
        return Kind(kind), nbytes

    async def take(self, nbytes: int) -> bytearray:
        """Read this many bytes of payload."""
        content = bytearray(nbytes)
        await self.take_into(content)
        return content

    async def take_into(self, target: Buffer) -> None:
        """Read payload into a buffer until it is full."""
        loop = asyncio.get_running_loop()
        view = memoryview(target).cast("B")
        while view.nbytes:
            n_received = await self._await_in_time(loop.sock_recv_into(self.channel, view))
            if n_received == 0:
                raise ChildDiedError("ended")
            view = view[n_received:]

    async def _await_in_time[T](self, step: Awaitable[T]) -> T:
        """Await one step, for no longer than the time that is left."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(max(self.left_s, 0.0)):
                return await step
        except TimeoutError as error:
            raise ChildTimeoutError from error
        except ConnectionError as error:
            raise ChildDiedError("ended") from error
        finally:
            elapsed = time.perf_counter() - started
            self.left_s -= elapsed
            self.waited_s += elapsed

    async def end(self) -> int:
        """Kill it and wait for its end. Return its exit code, negative for a signal."""
        self.channel.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        return await self.process.wait()


@dataclass(slots=True)
class Children:
    """A bounded pool of children."""

    settings: GdalSettings
    _idle: list[Child] = field(default_factory=list)
    _busy: set[Child] = field(default_factory=set)
    _semaphore: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._semaphore = asyncio.Semaphore(self.settings.max_children)

    @contextlib.asynccontextmanager
    async def child(self, token: int) -> AsyncIterator[Child]:
        """Hold a child. If the child that has this source open is free, it is that one.

        On an exception the child is ended, because its next frame may belong to the failed request.
        """
        async with self._semaphore:
            child = self._pick(token) or await self._start()
            self._busy.add(child)
            child.left_s, child.waited_s = self.settings.timeout_s, 0.0
            try:
                yield child
            except BaseException as error:
                code = await asyncio.shield(child.end())
                if isinstance(error, ChildDiedError):
                    error.exit_code = code
                raise
            else:
                self._idle.append(child)
            finally:
                self._busy.discard(child)

    async def aclose(self) -> None:
        """End all children."""
        children = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        await asyncio.gather(*(child.end() for child in children))

    def _pick(self, token: int) -> Child | None:
        for dead in [child for child in self._idle if child.process.returncode is not None]:
            self._idle.remove(dead)
            dead.channel.close()
        if not self._idle:
            return None
        holding = [index for index, child in enumerate(self._idle) if child.holds == token]
        return self._idle.pop(holding[0] if holding else 0)

    async def _start(self) -> Child:
        """Start a child and wait until it is ready.

        Raises:
            BusyError: It does not start: the system lacks memory, processes or time.
        """
        # Start Python with one end of a pair of sockets as its standard input.
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)  # noqa: FBT003 # its only parameter
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-s",
                "-c",
                _START,
                msgspec.json.encode(self.settings),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=clean_environment() | _GDAL_OPTIONS,
                close_fds=True,
            )
        except OSError as error:
            ours.close()
            raise _not_started(str(error)) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        # Its first answer says that it is ready. Whatever happens instead, no process is left.
        child = Child(process=process, channel=ours, left_s=self.settings.start_timeout_s)
        try:
            await child.receive()
        except ChildTimeoutError as error:
            await asyncio.shield(child.end())
            raise _not_started(f"it was not ready within {self.settings.start_timeout_s:g} s") from error
        except ChildError as error:
            said = b"" if process.stderr is None else await process.stderr.read()
            code = await asyncio.shield(child.end())
            raise _not_started(f"exit code {code}", said=said) from error
        except BaseException:
            await asyncio.shield(child.end())
            raise
        return child


def _not_started(how: str, *, said: bytes = b"") -> BusyError:
    last = said[-500:].decode(errors="replace").strip().rpartition("\n")[2]
    return BusyError(f"GDAL's process did not start ({how}){f': {last}' if last else ''}: run again")
