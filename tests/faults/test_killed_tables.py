"""Tables of this process, killed at any file operation: what they hold is what was there to read.

Images are replaced and the table is removed between commands. The same command comes again, with another
list, or with other values.
"""

import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import obstore
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore

from pixel_gather import points
from pixel_gather.core.errors import RequestError
from support.images import TILES_OF_64, write_image

_N_IMAGES: Final = 3
_PLOTS: Final = [{"id": n, "x": 300_100.0 + 200 * n, "y": 4_999_900.0} for n in range(2)]
_FACTORS: Final = (1, 2)
"""A value is a pixel times one of them."""

_N_COMMANDS: Final = 12


class Killed(BaseException):
    """The process has ended right before a file operation."""


@dataclass
class Machine:
    """Kills at the nth change of a file below a folder. From then on no file changes."""

    folder: str = ""
    left: int | None = None
    """Changes until the kill; None for no kill."""

    counts: bool = True
    """Whether changes count. If not, they do from the commit on: the table of images takes its place."""

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count a change. An audit hook: it is called before the operation."""
        if self.left is None or not self._changes(event, arguments):
            return
        self.counts = self.counts or (event == "os.rename" and str(arguments[1]).endswith("t.images.parquet"))
        if not self.counts:
            return
        self.left = max(self.left - 1, 0)
        if not self.left:
            raise Killed

    def _changes(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return False
        if event not in {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}:
            return False
        # `shutil.rmtree` gives names only: beside them stands the descriptor of their folder.
        is_name = event == "os.remove" and arguments[1] != -1
        path = str(arguments[0])
        return is_name or (path.startswith(self.folder) and not path.endswith(".lock"))  # the kernel frees it


@cache
def _machine() -> Machine:
    """Return the only one: a hook cannot be taken away."""
    machine = Machine()
    sys.addaudithook(machine.look)
    return machine


@contextmanager
def _killed_at(folder: Path, nth: int | None, *, in_commit: bool) -> Iterator[None]:
    machine = _machine()
    machine.folder, machine.left, machine.counts = str(folder), nth, not in_commit
    try:
        yield
    finally:
        machine.left = None


@dataclass
class Place:
    """Images of several versions, and one table."""

    folder: Path
    chance: random.Random
    versions: list[int] = field(default_factory=lambda: [0] * _N_IMAGES)
    floors: list[int] = field(default_factory=lambda: [0] * _N_IMAGES)
    """Versions that were current when the table was removed last."""

    version_by_etag: dict[str, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    """Images that the table had last."""

    factor: int = 1
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in ("images", "tables"):
            (self.folder / each).mkdir()
        for number in range(_N_IMAGES):
            self.replace_image(number)
        self.versions = [1] * _N_IMAGES
        self.floors = [1] * _N_IMAGES

    @property
    def table(self) -> Path:
        """Where it is."""
        return self.folder / "tables" / "t.parquet"

    def replace_image(self, number: int) -> None:
        """Write the next version of an image. Its pixels tell which image and version it is."""
        self.versions[number] += 1
        version = self.versions[number]
        pixels = np.full((64, 64), 1000 * (number + 1) + version, "uint16")
        write_image(self.folder / "images" / f"{number}.tif", pixels, **TILES_OF_64)
        store = LocalStore(self.folder / "images")
        self.version_by_etag[str(obstore.head(store, f"{number}.tif")["e_tag"])] = version

    def remove_table(self) -> None:
        """Remove what can be seen of the table, if there is something."""
        seen = [each for each in self.table.parent.glob("t*.parquet") if ".features." not in each.name]
        if seen:
            for each in self.table.parent.glob("t*.parquet"):
                each.unlink()
            self.floors, self.known = list(self.versions), set()
        self.told.append(f"remove {[each.name for each in seen]}")

    def command(self, *, appends: bool, numbers: list[int], factor: int, is_last: bool) -> None:
        """Make the table or append to it, and check it, unless the process is killed."""
        in_commit, nth = self.chance.random() < 0.5, None
        if not is_last and self.chance.random() < 0.6:
            nth = self.chance.randint(1, 6 if in_commit else 20)
        self.told.append(
            f"{'append' if appends else 'make'} {numbers} * {factor}, killed at {nth} {in_commit=}"
        )
        rows = [
            {"href": str(self.folder / "images" / f"{n}.tif"), "time": f"2024-06-{n + 1:02d}"}
            for n in numbers
        ]
        to: dict[str, Any] = {"append_to" if appends else "to": self.table}
        with _killed_at(self.table.parent, nth, in_commit=in_commit), suppress(Killed, RequestError):
            points(_PLOTS, {"rows": rows}, id="id", crs="EPSG:32632", by=f"b1 * {factor}", **to)
            self.factor = factor
            self.known |= set(numbers)
            self.check()

    def check(self) -> None:
        """Compare the table with the versions of the images that it names."""
        images = pq.read_table(self.table.with_name("t.images.parquet")).to_pylist()
        named = {each["scene"]: self.version_by_etag[json.loads(each["etags"])[0]] for each in images}
        lines = pq.read_table(self.table).to_pylist()
        assert len(lines) == len(named) * len(_PLOTS)
        assert {f"{number}.tif" for number in self.known} <= named.keys(), "an image is lost"
        for line in lines:
            number = int(line["time"].day) - 1
            version, rest = divmod(line[f"b1 * {self.factor}"], self.factor)
            version -= 1000 * (number + 1)
            assert not rest
            assert version == named[line["scene"]], f"{line} is not of the version that the table names"
            assert self.floors[number] <= version <= self.versions[number], f"{line} is too old"


def _run(folder: Path, seed: int) -> None:
    folder.mkdir()
    chance = random.Random(seed)  # noqa: S311 # no secret
    place = Place(folder, chance)
    again: dict[str, Any] = {}
    try:
        for turn in range(_N_COMMANDS):
            if not again or chance.random() < 0.25:
                numbers = chance.sample(range(_N_IMAGES), chance.randint(1, _N_IMAGES))
                again = {
                    "appends": chance.random() < 0.3,
                    "numbers": numbers,
                    "factor": chance.choice(_FACTORS),
                }
            place.command(**again, is_last=turn == _N_COMMANDS - 1)
            if chance.random() < 0.5:
                for number in range(_N_IMAGES):
                    place.replace_image(number)
                if chance.random() < 0.7:
                    place.remove_table()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {place.told}") from error


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 60), marks=pytest.mark.long)], ids=len)
def test_a_killed_table_holds_what_was_there_since_it_was_removed(seeds: range, tmp_path: Path) -> None:
    """Each value is of a version that was current since then, and of the one that the table names."""
    for seed in seeds:
        _run(tmp_path / str(seed), seed)
