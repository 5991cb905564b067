"""Gathers over an S3 that misbehaves, by workers that are killed at random: the cube is that of a calm run.

Every tenth request fails in some way: 503, 500, a connection that breaks before the request is done, after
it, or within the body, a late answer, no answer. Two processes gather the same cube beside each other. Each
is killed after a random time and started again, for a while.
"""

import argparse
import hashlib
import io
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import tifffile
import urllib3
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from pixel_gather import Settings, StoreSettings, gather
from pixel_gather.core.errors import GatherError
from pixel_gather.core.model.status import Status
from support.appends import CLOCKS, equal_but_for_clocks
from support.cloud_store import Answer, Cloud, CloudStore, PassOn, etag_of, serving, variables
from support.forked_commands import forking

_SIDE: Final = 64
_SHARD_ROWS: Final = 64
_FAILING: Final = 0.1
_HANGS_S: Final = 3.0
_COSTS: Final = ("requests", "retries", "bytes", "header_bytes")
SAME: Final = "the same cube"
OTHER_PIXELS: Final = "ANOTHER CUBE"
_OF_CONNECTION: Final = {"connection", "keep-alive", "transfer-encoding", "expect"}


def passing_on(endpoint: str, *, ca_certs: str | None = None) -> PassOn:
    """Return what has the store at an endpoint answer requests.

    Args:
        endpoint: Its address.
        ca_certs: PEM file of the authorities to trust; None for those of the system.
    """
    pool = urllib3.PoolManager(ca_certs=ca_certs, retries=False, maxsize=64, timeout=300)

    def pass_on(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = pool.request(
            method,
            endpoint + path,
            body=body,
            headers=_without_connection(headers),
            redirect=False,
            decode_content=False,
        )
        return answer.status, answer.data, _without_connection(answer.headers)

    return pass_on


def _without_connection(headers: Mapping[str, str]) -> dict[str, str]:
    """Leave out the headers that are about one connection."""
    return {name.title(): each for name, each in headers.items() if name.lower() not in _OF_CONNECTION}


def made_sources(n_files: int) -> dict[str, bytes]:
    """Return small GeoTIFFs of noise, by ``bucket/key``. Header and tile need a request each."""
    made: dict[str, bytes] = {}
    for index in range(n_files):
        pixels = np.random.default_rng(index).integers(1, 60_000, (_SIDE, _SIDE), "uint16")
        file = io.BytesIO()
        tifffile.imwrite(file, pixels, tile=(_SIDE, _SIDE), compression="zlib")
        made[f"sources/{index:05d}.tif"] = file.getvalue()
    return made


def layout() -> dict[str, Any]:
    """Return the part of a request that says which pixels are wanted, and how they are stored."""
    return {
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "output": {"layout": {"chunk": [16, _SIDE, _SIDE], "shard_rows": _SHARD_ROWS}},
    }


@patch.dict(os.environ)
def work(endpoint: str, n_files: int, patience: float = 1.0, cloud: Cloud = "s3") -> None:
    """Gather the cube in this process, as `pixel-gather run` does. It waits ``patience`` times as long."""
    os.environ.update(variables(cloud, endpoint))
    gather(
        {"sources": [f"{cloud}://sources/{index:05d}.tif" for index in range(n_files)], **layout()},
        to=f"{cloud}://cubes/chaos.zarr",
        settings=Settings(
            stores=StoreSettings(
                first_byte_timeout_s=2.0 * patience,
                stall_timeout_s=2.0 * patience,
                write_timeout_s=10.0 * patience,
                first_backoff_s=0.02,
            ),
            header_nbytes=512,
            draws_report=False,
        ),
    )


def _work_quietly(endpoint: str, n_files: int, patience: float, cloud: Cloud) -> None:
    """Gather. Say in one line why it failed."""
    try:
        work(endpoint, n_files, patience, cloud)
    except GatherError as error:
        sys.stderr.write(f"  {type(error).__name__}: {str(error)[:150]}\n")
        sys.exit(1)


@dataclass(kw_only=True)
class ChaosRun:
    """What happened in a run."""

    seconds: float
    n_started: int
    """Processes, or executions of the state machine."""

    n_killed: int
    """Processes."""

    n_failed: int
    """Processes that ended with an error, or tries of the state machine that failed."""

    requests: Counter[str]
    cube: xr.Dataset
    shards: dict[str, bytes]
    """The shards of pixels, by their keys."""


def run(
    n_files: int,
    *,
    seed: int,
    failing: float,
    n_kills: int,
    sources: dict[str, bytes],
    longest_s: float = 900.0,
    patience: float = 1.0,
    cloud: Cloud = "s3",
) -> ChaosRun:
    """Gather until a process ends well.

    Args:
        n_files: Number of sources.
        seed: Seed of everything that is random here. The order of requests is not.
        failing: Share of the requests that fail.
        n_kills: Most processes that are killed.
        sources: From `made_sources`.
        longest_s: Seconds after which the run is given up.
        patience: How many times as long requests are waited for. More than 1 on a machine that is busy.
        cloud: How the store is asked.

    Raises:
        TimeoutError: It does not end.
    """
    hangs_s = _HANGS_S * patience
    store = CloudStore(dict(sources), failing, random.Random(seed), hangs_s=hangs_s)  # noqa: S311 # no secret
    chance = random.Random(-seed)  # noqa: S311 # as above
    began_s = time.monotonic()
    n_started = n_killed = n_failed = 0
    working: dict[ForkServerProcess, float] = {}
    context = forking()
    with serving(store, cloud) as endpoint:
        while True:
            while len(working) < (1 if not n_kills else 2):
                process = context.Process(
                    target=_work_quietly, args=(endpoint, n_files, patience, cloud), daemon=True
                )
                process.start()
                n_started += 1
                working[process] = time.monotonic() + chance.random() * 12
            time.sleep(0.05)
            ended = [each for each in working if not each.is_alive()]
            if any(each.exitcode == 0 for each in ended):
                break
            for each in ended:
                del working[each]
                n_failed += each.exitcode != -9
            for each, until_s in list(working.items()):
                if n_killed < n_kills and time.monotonic() > until_s:
                    each.kill()
                    n_killed += 1
                    working[each] = float("inf")
            if time.monotonic() - began_s > longest_s:
                raise TimeoutError(f"seed {seed} does not end: {store.counts}")
        for each in working:  # the last one may still be writing
            each.join(60)
            each.kill()
        seconds, store.failing = time.monotonic() - began_s, 0.0
    with serving(store) as endpoint:
        cube = opened(endpoint)
    shards = {path: content for path, content in store.objects.items() if "/band_1/c/" in path}
    return ChaosRun(
        seconds=seconds,
        n_started=n_started,
        n_killed=n_killed,
        n_failed=n_failed,
        requests=store.counts,
        cube=cube,
        shards=shards,
    )


def opened(endpoint: str) -> xr.Dataset:
    """Return the cube, as any reader finds it."""
    client: Any = {"allow_http": True}
    cubes = S3Store(
        "cubes",
        prefix="chaos.zarr",
        endpoint=endpoint,
        region="us-east-1",
        skip_signature=True,
        client_options=client,
    )
    opened: xr.Dataset = xr.open_zarr(ObjectStore(cubes, read_only=True), chunks=None).load()
    return opened


def main() -> int:
    """Run some seeds and tell what happened. Return 1 if a cube differs from that of a calm run."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--files", type=int, default=1278)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--longest", type=float, default=900.0, help="seconds after which a run is given up")
    parser.add_argument("--evidence", type=Path, default=Path(".chaos"), help="folder for what differs")
    parser.add_argument("--patience", type=float, default=1.0, help="more than 1 on a busy machine")
    parser.add_argument("--cloud", choices=("s3", "gs", "az"), default="s3", help="how the store is asked")
    parser.add_argument("--stack", action="store_true", help="gather on the emulated stack")
    parser.add_argument(
        "--stops", action="store_true", help="stop processes while a cube grows: see --stops -h"
    )
    if "--stops" in sys.argv:
        from faults.stopped import main as main_with_stops  # noqa: PLC0415 # it imports this module

        return main_with_stops([each for each in sys.argv[1:] if each != "--stops"])
    given = parser.parse_args()
    sources = made_sources(given.files)
    if not given.stack:
        patiently = partial(run, given.files, sources=sources, patience=given.patience, cloud=given.cloud)
        return _compare(given, partial(patiently, longest_s=given.longest))
    from faults.chaos_on_stack import stack_under_faults  # noqa: PLC0415 # the emulator is only for it

    with stack_under_faults(sources) as stack:
        return _compare(given, partial(stack.run, longest_s=given.longest))


def _compare(given: argparse.Namespace, run_one: Callable[..., ChaosRun]) -> int:
    calm = run_one(seed=0, failing=0.0, n_kills=0)
    _tell("calm run", calm, "")
    n_different = 0
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        stormy = run_one(seed=seed, failing=_FAILING, n_kills=given.kills)
        told = difference(stormy.cube, calm.cube)
        n_different += not told.endswith(SAME)
        _tell(f"seed {seed}", stormy, told)
        if lines := [*evidence(stormy.cube, calm.cube), *other_shards(stormy, calm, given.evidence)]:
            given.evidence.mkdir(exist_ok=True)
            text = "\n".join(lines) + "\n"
            (given.evidence / f"seed-{seed}.txt").write_text(text)
            sys.stderr.write(text)
    return int(n_different > 0)


def difference(one: xr.Dataset, other: xr.Dataset) -> str:
    """Say how two cubes differ in their pixels and coordinates, apart from what reading cost.

    A source that cannot be read in all of its tries is no difference if its row is empty and says so.
    """
    left, right = (_without_costs(each) for each in (one, other))
    read = left["status"].values == right["status"].values
    told = f"{int((~read).sum())} rows say why they were not read; " if not read.all() else ""
    if left["band_1"].values[~read].any():
        return "A ROW THAT WAS NOT READ HAS PIXELS"
    rows = dict.fromkeys(left["band_1"].dims[:1], np.flatnonzero(read))
    return told + (SAME if equal_but_for_clocks(left.isel(rows), right.isel(rows)) else OTHER_PIXELS)


def evidence(one: xr.Dataset, other: xr.Dataset) -> Iterator[str]:
    """Yield a line for each row that differs, with statuses and digests, and for each coordinate."""
    left, right = (_without_costs(each) for each in (one, other))
    along = left["band_1"].dims[0]
    for row, (mine, theirs) in enumerate(zip(left["band_1"].values, right["band_1"].values, strict=True)):
        statuses = [Status(int(each["status"].values[row])).name for each in (left, right)]
        if statuses[0] != statuses[1] or not np.array_equal(mine, theirs):
            digests = _digest(mine), _digest(theirs)
            yield f"  row {row}: {' instead of '.join(statuses)}, pixels {' instead of '.join(digests)}"
    for name in left.variables:
        values = [each[name].values for each in (left, right)]
        if name not in CLOCKS and left[name].dims[:1] == (along,) and values[0].shape == values[1].shape:
            differ = np.array([repr(a) != repr(b) for a, b in zip(*values, strict=True)])
            if differ.any():
                yield f"  {name} differs in rows {np.flatnonzero(differ).tolist()}"


def other_shards(one: ChaosRun, other: ChaosRun, folder: Path) -> Iterator[str]:
    """Yield a line for each shard that has other bytes. Keep both in a folder."""
    for key, content in sorted(one.shards.items()):
        if content != (theirs := other.shards.get(key, b"")):
            folder.mkdir(exist_ok=True)
            paths = [folder / f"{etag_of(each).strip('"')}.shard" for each in (content, theirs)]
            for path, each in zip(paths, (content, theirs), strict=True):
                path.write_bytes(each)
            yield f"  {key} has other bytes: {paths[0]} instead of {paths[1]}"


def _without_costs(cube: xr.Dataset) -> xr.Dataset:
    return cube.drop_vars([name for name in _COSTS if name in cube])


def _digest(pixels: np.ndarray[Any, Any]) -> str:
    if not pixels.any():
        return "of zeros"
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()[:12]


def _tell(name: str, done: ChaosRun, verdict: str) -> None:
    failed = done.requests.total() - done.requests["well"]
    sys.stderr.write(
        f"{name}: {done.seconds:.0f} s, {done.requests.total()} requests, {failed} of them failed, "
        f"{done.n_started} started, {done.n_killed} processes killed, {done.n_failed} failed. "
        f"{verdict}\n"
    )
