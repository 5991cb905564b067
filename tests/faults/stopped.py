"""Gathers, appends and compactions by processes that are stopped, and go on when others have committed.

Each process runs the command line in one local folder, and some stop themselves before an access to it, as
on a laptop that sleeps. Others do the same work meanwhile, or later work. A seed says which commands run and
before which access they stop. The order of events is the machine's.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import obstore
import tifffile
import xarray as xr

from faults.chaos import layout, made_sources
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.engine import row_claim
from pixel_gather.features.gather import gather
from pixel_gather.io.store import conditional_put
from pixel_gather_cli.main import main as command_line
from support.forked_commands import forking

_N_OF_LISTS: Final = (5, 3, 3, 3)
"""Sources of the first gather and of each append. A shard has four rows, so each append continues one."""

_ACCESSES: Final = ("head_async", "get_async", "put_async")
_CUBE: Final = "cube.zarr"
_LAPSES_AFTER_S: Final = 3.0
"""After so long a claim counts as abandoned. The real time would only be waited for."""

_MOST_ACCESSES: Final = 80
_LONGEST_SLEEP_S: Final = 8.0
_POLL_S: Final = 0.05
_LONGEST_STEP_S: Final = 600.0
"""Longest time until a process stops or ends. On a busy machine one takes minutes."""

_AT_ONCE: Final = 2
_STOPPING: Final = 0.6
"""Share of the processes that stop themselves."""

_COMPACTING: Final = 0.2
_AGAIN: Final = 0.15
_REFUSED: Final = 2
"""Exit code of a command that says why it has not done its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Before which access to its cube a process stops itself."""

    nth: int
    """Counted from 1 among the accesses that are meant."""

    method: str = ""
    """One of obstore's functions; any if empty."""

    key: str = ""
    """Of an object; any if empty."""

    after: str = ""
    """Key of an object. Only what comes after its first PUT is counted, if this is not empty."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that runs a command."""

    process: ForkServerProcess
    said: Path
    """What it writes to standard output and standard error."""

    command: str

    def is_stopped(self) -> bool:
        """Return whether it waits for SIGCONT."""
        try:
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:  # it has ended
            return False

    def wait_until_stopped(self) -> None:
        """Wait.

        Raises:
            TimeoutError: It has ended, or does not stop.
        """
        until = time.monotonic() + _LONGEST_STEP_S
        while not self.is_stopped():
            if time.monotonic() > until or not self.process.is_alive():
                raise TimeoutError(f"{self.command} has not stopped: {self.said.read_text()}")
            time.sleep(_POLL_S)

    def go_on(self) -> None:
        """Let it go on if it is stopped."""
        os.kill(self.process.pid or 0, signal.SIGCONT)

    def ended(self) -> tuple[int, str]:
        """Wait for its end. Return its exit code, and what it has said.

        Raises:
            TimeoutError: It does not end.
        """
        self.process.join(_LONGEST_STEP_S)
        if self.process.exitcode is None:
            raise TimeoutError(f"{self.command} does not end: {self.said.read_text()}")
        return self.process.exitcode, self.said.read_text()


@dataclass
class Commands:
    """Starts processes below a folder."""

    folder: Path
    started: list[Started] = field(default_factory=list)

    def start(self, *arguments: str | Path, stop: Stop | None = None, patience_s: float = 60.0) -> Started:
        """Run ``pixel-gather`` with these arguments in a process of its own.

        Args:
            arguments: As on the command line.
            stop: When it stops itself.
            patience_s: How long it waits for a process that is stopped while it replaces a file.
        """
        said = self.folder / f"{len(self.started):03d}.txt"
        given = tuple(map(str, arguments))
        process = forking().Process(target=_run, args=(given, stop, said, patience_s), daemon=True)
        process.start()
        one = Started(process, said, " ".join(given[:1]) + (f" {stop}" if stop else ""))
        self.started.append(one)
        return one


@contextmanager
def commands_in(folder: Path) -> Iterator[Commands]:
    """Yield what starts processes. In the end, those that are left are killed."""
    commands = Commands(folder)
    try:
        yield commands
    finally:
        for each in commands.started:
            each.process.kill()
            each.process.join()


def _run(arguments: Sequence[str], stop: Stop | None, said: Path, patience_s: float) -> None:
    out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for each in (1, 2):
        os.dup2(out, each)
    if stop is not None:
        stops = _Stops(stop)
        for name in _ACCESSES:
            setattr(obstore, name, stops.before(getattr(obstore, name), name))
    with (
        patch.object(row_claim, "LAPSES_AFTER_S", _LAPSES_AFTER_S),
        patch.object(row_claim, "_RENEWED_AFTER_S", _LAPSES_AFTER_S / 6),
        patch.object(gather, "_LOOK_AGAIN_S", _POLL_S),
        patch.object(conditional_put, "_LONGEST_WAIT_S", patience_s),
    ):
        command_line(list(arguments))


@dataclass
class _Stops:
    """Stops its process once."""

    stop: Stop
    n_seen: int = 0
    counts: bool = field(init=False)

    def __post_init__(self) -> None:
        self.counts = not self.stop.after

    def before(self, access: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function of obstore that looks first whether to stop."""

        def accessed(store: Any, key: str, *arguments: Any, **options: Any) -> Any:
            if Path(getattr(store, "prefix", None) or "").name == _CUBE:
                self._look(name, key)
            return access(store, key, *arguments, **options)

        return accessed

    def _look(self, name: str, key: str) -> None:
        self.n_seen += self.counts and self.stop.method in {"", name} and self.stop.key in {"", key}
        if self.n_seen == self.stop.nth:
            self.n_seen += 1
            os.kill(os.getpid(), signal.SIGSTOP)
        self.counts = self.counts or (name == "put_async" and key == self.stop.after)


@dataclass(frozen=True, slots=True)
class Place:
    """Sources, their lists, and one cube."""

    folder: Path
    pixels: Mapping[str, np.ndarray[Any, Any]]
    """By the hrefs of the sources."""

    lists: tuple[tuple[str, ...], ...]

    @property
    def cube(self) -> Path:
        """Where it is."""
        return self.folder / _CUBE

    def gathering(self, number: int) -> tuple[str | Path, ...]:
        """Return the command that gathers a list. The first one makes the cube, the others append to it."""
        to = "--append-to" if number else "--to"
        return "run", self.folder / f"{number}.json", to, self.cube, "--quiet", "--no-report"

    def versions(self) -> list[dict[str, Any]]:
        """Return what the cube tells of its versions."""
        try:
            root = json.loads((self.cube / ROOT_KEY).read_bytes())
        except OSError:
            return []
        told: list[dict[str, Any]] = json.loads(root["attributes"]["pixel_gather"]).get("versions", [])
        return told

    def check(self, n_lists: int) -> None:
        """Compare the cube with the sources of its first lists.

        Raises:
            AssertionError: It differs.
        """
        cube = xr.open_zarr(self.cube, chunks=None)
        hrefs = [str(each).removeprefix("file://") for each in np.ravel(cube["href"].values)]
        listed = [href for each in self.lists[:n_lists] for href in each]
        assert sorted(hrefs) == sorted(listed), f"the rows are {hrefs}"
        assert not cube["status"].values.any(), "a row was not read"
        for row, href in enumerate(hrefs):
            assert np.array_equal(cube["band_1"].values[row], self.pixels[href]), (
                f"row {row} has other pixels"
            )


def made_place(folder: Path, n_lists: int = len(_N_OF_LISTS)) -> Place:
    """Write sources and requests below an empty folder. Each list after the first one is appended."""
    pixels, lists = {}, []
    files = iter(made_sources(sum(_N_OF_LISTS[:n_lists])).items())
    for number, n_sources in enumerate(_N_OF_LISTS[:n_lists]):
        hrefs = []
        for _ in range(n_sources):
            path, content = next(files)
            file = folder / Path(path).name
            file.write_bytes(content)
            pixels[str(file)] = tifffile.imread(file)
            hrefs.append(str(file))
        lists.append(tuple(hrefs))
        request: dict[str, Any] = {"sources": hrefs, "window": layout()["window"]}
        if not number:
            request["output"] = {
                "layout": {**layout()["output"]["layout"], "chunk": [2, 64, 64], "shard_rows": 4}
            }
        (folder / f"{number}.json").write_text(json.dumps(request))
    return Place(folder, pixels, tuple(lists))


def run(
    folder: Path, *, seed: int, n_least: int, n_lists: int = len(_N_OF_LISTS), longest_s: float = 1800.0
) -> dict[str, int]:
    """Gather and append all lists while processes are stopped and go on. Check what has come of it.

    Args:
        folder: Empty.
        seed: Says which commands run, and when they stop.
        n_least: Processes that are started at least. More are, until one has stopped.
        n_lists: How many lists are gathered and appended.
        longest_s: Seconds after which the run is given up.

    Returns:
        What is counted, by its name.

    Raises:
        AssertionError: The cube is wrong, or a process has not ended as it should.
        TimeoutError: It does not end.
    """
    chance = random.Random(seed)  # noqa: S311 # no secret
    place = made_place(folder, n_lists)
    until = time.monotonic() + longest_s
    sleeps_s: list[float] = []
    wakes_at: dict[int, float] = {}
    n_gathered = 0
    versions: list[dict[str, Any]] = []
    with commands_in(folder) as commands:
        while n_gathered < len(place.lists) or len(commands.started) < n_least or not wakes_at:
            before, versions = versions, place.versions()
            assert versions[: len(before)] == before, "a version is lost"
            n_gathered = sum(each["kind"] != "compact" for each in versions)
            at_work = {n: each for n, each in enumerate(commands.started) if each.process.is_alive()}
            for n, each in at_work.items():
                if each.is_stopped():
                    now = time.monotonic()
                    if now > wakes_at.setdefault(n, now + sleeps_s[n]):
                        each.go_on()
            if sum(not each.is_stopped() for each in at_work.values()) < _AT_ONCE:
                sleeps_s.append(chance.random() * _LONGEST_SLEEP_S)  # for each process, however it is seen
                stop = Stop(nth=chance.randint(1, _MOST_ACCESSES)) if chance.random() < _STOPPING else None
                commands.start(*_next_command(place, n_gathered, chance), stop=stop, patience_s=1.0)
            if time.monotonic() > until:
                raise TimeoutError(f"seed {seed} does not end: {versions}")
            time.sleep(_POLL_S)
        for each in commands.started:
            _check_end(each)
        after = place.versions()
        assert after[: len(versions)] == versions, "a version is lost"
        code, said = commands.start("verify", place.cube).ended()
        assert code == 0, said
        place.check(len(place.lists))
        n_refused = sum(each.process.exitcode == _REFUSED for each in commands.started)
    return {"started": len(commands.started), "stopped": len(wakes_at), "refused": n_refused} | {
        "versions": len(after)
    }


def _next_command(place: Place, n_gathered: int, chance: random.Random) -> tuple[str | Path, ...]:
    """Return the next list's command mostly. Sometimes return that of a former list, or a compaction."""
    if not n_gathered:
        return place.gathering(0)
    drawn = chance.random()
    if drawn < _COMPACTING:
        return "compact", place.cube
    is_again = drawn < _COMPACTING + _AGAIN or n_gathered == len(place.lists)
    return place.gathering(chance.randrange(n_gathered) if is_again else n_gathered)


def _check_end(started: Started) -> None:
    """Let a process go on, and wait for it. It has done its work, or says in one line why not."""
    until = time.monotonic() + _LONGEST_STEP_S
    while started.process.is_alive() and time.monotonic() < until:
        if started.is_stopped():
            started.go_on()
        time.sleep(_POLL_S)
    code, said = started.ended()
    last = said.strip().rpartition("\n")[2]
    assert code == 0 or (code == _REFUSED and last.startswith("pixel-gather: ")), (
        f"{started.command}: {code} {said}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run some seeds and tell what happened. Return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="scripts/chaos --stops", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=20, help="that are started at least, for each seed")
    given = parser.parse_args(arguments)
    n_broken = 0
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        began_s = time.monotonic()
        with TemporaryDirectory(prefix="chaos-") as folder:
            try:
                told = run(Path(folder), seed=seed, n_least=given.processes)
                said = ", ".join(f"{number} {name}" for name, number in told.items())
            except (AssertionError, TimeoutError) as error:
                n_broken += 1
                said = f"BROKEN: {error}"
        sys.stderr.write(f"seed {seed}: {time.monotonic() - began_s:.0f} s, {said}\n")
    return int(n_broken > 0)
