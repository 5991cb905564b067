"""What all benchmarks share: rounds, medians, the machine, the folder of the results, and tables as text.

A benchmark is a list of variants. Each is measured once a round, most in a fresh process (see
`pixel_gather_bench.child`), and gives a result: a struct of numbers. Records, table and figure (see
`pixel_gather_bench.figures.look`) are made of the medians.
"""

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pixel_gather.core.errors import RequestError
from pixel_gather.core.process_usage import cpu_name, meminfo_mib
from pixel_gather.io.atomic_write import replacing
from pixel_gather.version import __version__


def new_folder(to: Path, kind: str) -> Path:
    """Make ``<to>/<kind>-20261121T143015Z`` and return it."""
    name = f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        to.mkdir(parents=True, exist_ok=True)
        folders = (to / (f"{name}-{n}" if n > 1 else name) for n in count(1))
        folder = next(each for each in folders if not each.exists())  # two may start in one second
        folder.mkdir()
    except OSError as error:
        raise RequestError(f"no folder can be made in {to}: {error.strerror}", field="to") from error
    return folder


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """Remove the folder at the end of the block if nothing was written to it."""
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def put_text(file: Path, text: str) -> None:
    """Write a file. If that fails, there is no file instead of half of one."""
    with replacing(file) as partial:
        partial.write_text(text, encoding="utf-8")


def rounds[T](items: Sequence[T], times: int, *, warm_ups: int = 0) -> Iterator[tuple[int, T]]:
    """Yield every item once a round, with the round's number from 0.

    Every second round goes backwards, so that nothing always follows the same neighbour. Every other round
    begins one item later, so that nothing is always first. Warm-ups are rounds before, which do not count;
    their numbers are below 0.
    """
    for number in range(-warm_ups, times):
        first = max(number, 0) // 2 % max(len(items), 1)
        turned = [*items[first:], *items[:first]]
        for item in reversed(turned) if number > 0 and number % 2 else turned:
            yield number, item


def take_median[R: Struct](results: Sequence[R]) -> R:
    """Return a result with the median of each number. None is no number; the rest is of the first result."""
    medians = {}
    for name in results[0].__struct_fields__:
        values = [value for each in results if (value := getattr(each, name)) is not None]
        if values and all(isinstance(value, int | float) for value in values):
            medians[name] = median(values)
    return replace(results[0], **medians)


def digits(value: float | None) -> str:
    """Return a number as a table has it: three digits, or all before the point; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 # three digits


type Rows = Sequence[Sequence[str]]


def aligned(rows: Rows) -> Iterator[str]:
    """Yield a line for each row: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells)).rstrip()


def markdown(rows: Rows) -> Iterator[str]:
    """Yield a table whose head is the first row."""
    head, *others = rows
    for row in (head, ["---"] * len(head), *others):
        yield f"| {' | '.join(row)} |"


_PACKAGES: Final = ("boto3", "imagecodecs", "numpy", "obstore", "rasterio", "uvloop", "zarr")


def about_machine() -> dict[str, Any]:
    """Return ``cpu``, ``cores``, ``memory_mib``, ``system``, ``python`` and ``versions`` by package.

    Cores are those that this process may use; memory is None where the system does not tell.
    """
    return {
        "cpu": cpu_name(),
        "cores": os.process_cpu_count() or 1,
        "memory_mib": meminfo_mib("MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"pixel-gather": __version__} | {name: _version(name) for name in _PACKAGES},
    }


def machine_in_words(about: dict[str, Any]) -> str:
    """Return the result of `about_machine`, from this or another machine, as one line."""
    memory_mib, cores, python = (about.get(name) for name in ("memory_mib", "cores", "python"))
    parts = (
        about.get("cpu"),
        f"{cores} cores" if cores else "",
        f"{memory_mib / 2**10:,.1f} GiB" if memory_mib else "",
        f"Python {python}" if python else "",
    )
    return ", ".join(filter(None, parts))


def free_memory_mib() -> float | None:
    """Return the free memory in MiB; None if the system does not tell."""
    return meminfo_mib("MemAvailable")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
