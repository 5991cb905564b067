"""What `bench_startup` runs in fresh processes. Arguments: mode, time of the start, folders, and JSON.

Nothing may be imported here before the clock says so but what the interpreter has loaded anyway.
"""

import json
import sys
import time
from typing import Any


def main() -> None:
    """Do what the arguments say and print what it took: seconds since the start of the process."""
    mode, started_s, folders, given = sys.argv[1], float(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    sys.path[:0] = folders.split(":")
    told = {"worker": _worker, "tiles": _tiles, "gather": _gather}[mode](given)
    cpu_s = time.process_time()
    told = {name: moment - started_s if name.endswith("_s") else moment for name, moment in told.items()}
    print(json.dumps(told | {"cpu_s": cpu_s}))  # noqa: T201 # the answer


def _worker(given: dict[str, Any]) -> dict[str, Any]:
    """Fill a first shard by the function's own worker; what it would store goes nowhere."""
    import handlers.gather.gather_shard as function  # noqa: PLC0415 # see above

    moments: dict[str, Any] = {"imported_s": time.monotonic()}
    import msgspec  # noqa: PLC0415 # see above

    from pixel_gather.core.plan.cut_tasks import ShardTask  # noqa: PLC0415 # see above
    from pixel_gather.core.read.time_limits import ShardTimes  # noqa: PLC0415 # see above

    worker: Any = function.worker
    open_cube, open_control = worker.deployment.cube, worker.deployment.control
    worker.deployment.cube = lambda *names, **rights: _NoStore(open_cube(*names, **rights))
    worker.deployment.control = lambda *names, **rights: _NoStore(open_control(*names, **rights))
    reader_of = worker._readers.of
    worker._readers.of = lambda sign: _Watched(reader_of(sign), moments)
    task = msgspec.convert(given["task"], ShardTask)
    filled: list[Any] = []
    times = ShardTimes(left_s=800.0, limit_s=None, late_s=None)
    work = worker.gather(
        given["gather"],
        [task],
        execution="measured",
        times=times,
        done=lambda _plan, _task, shard: filled.append(shard),
    )
    worker.deployment.run(work)
    assert all(outcome.status == 0 for shard in filled for row in shard.result.rows for outcome in row)
    return moments


class _NoStore:
    """A store that is read, and whose writing costs nothing."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, key: str, content: bytes) -> None:
        """Let go of a file."""

    async def put_new(self, *_: Any) -> bool:
        """Let go of a file."""
        return True

    async def write_shard(self, *_: Any, **__: Any) -> Any:
        """Let go of a shard."""
        from pixel_gather.core.stores import StoredShard  # noqa: PLC0415 # see above

        return StoredShard(nbytes=0, etag="none")


class _Watched:
    """A reader, or what it has opened, that notes when the first window and the last had been read."""

    def __init__(self, inner: Any, moments: dict[str, Any]) -> None:
        self._inner = inner
        self._moments = moments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open_(self, *arguments: Any, **named: Any) -> Any:
        self._moments.setdefault("asked_s", time.monotonic())
        return _Watched(await self._inner.open_(*arguments, **named), self._moments)

    async def read_into(self, *arguments: Any, **named: Any) -> None:
        await self._inner.read_into(*arguments, **named)
        self._moments["last_tile_s"] = time.monotonic()
        self._moments.setdefault("first_tile_s", self._moments["last_tile_s"])


def _tiles(given: dict[str, Any]) -> dict[str, Any]:
    """Read the centre tiles by one reader, as a user would who starts Python for it."""
    from importlib import import_module  # noqa: PLC0415 # see above

    import numpy as np  # noqa: PLC0415 # every reader needs it

    module, _, function = given["reader"].partition(":")
    out = np.empty((len(given["hrefs"]), 512, 512), np.uint16)
    getattr(import_module(module), function)(given["hrefs"], out, concurrency=given["concurrency"])
    assert out.any(axis=(1, 2)).all()
    return {"last_tile_s": time.monotonic()}


def _gather(given: dict[str, Any]) -> dict[str, Any]:
    """Gather the centre tiles as a user does, from the import to the complete cube."""
    from pixel_gather import Settings, gather  # noqa: PLC0415 # see above

    moments: dict[str, Any] = {"imported_s": time.monotonic()}
    import tempfile  # noqa: PLC0415 # see above

    from pixel_gather.io.store.object_store import Objects  # noqa: PLC0415 # see above

    get_range: Any = Objects.get_range

    def noted(*arguments: Any, **named: Any) -> Any:
        moments.setdefault("asked_s", time.monotonic())
        return get_range(*arguments, **named)

    def note(_progress: Any) -> None:
        moments["last_tile_s"] = time.monotonic()
        moments.setdefault("first_tile_s", moments["last_tile_s"])

    Objects.get_range = noted  # type: ignore[method-assign] # to see the first request
    with tempfile.TemporaryDirectory() as folder:
        request = {"sources": given["hrefs"], "window": "centre"}
        gather(request, to=f"{folder}/cube", settings=Settings(draws_report=False), on_progress=note)
        moments["complete_s"] = time.monotonic()
    return moments


if __name__ == "__main__":
    main()
