"""Whole gathers, from a list to a complete cube, and the pixels that the cube then holds.

Cubes are written to memory (``/dev/shm``) where the system has it, so that no disk is measured.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.stages import recorded_stages
from benchmarks.workload import EXTRA_TAGS

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 # memory, below a folder of its own
_ROWS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class WrittenCube:
    """A cube of one array, shape (source, y, x). Yields one source's pixels after the other.

    It is opened when it is read, so that opening it is no part of what is measured.
    """

    path: str
    folder: tempfile.TemporaryDirectory[str]
    """Removed with the cube."""

    stages: dict[str, float] = field(default_factory=dict)
    """CPU seconds of each stage, if they were recorded."""

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        """Read some rows at a time."""
        import zarr  # noqa: PLC0415 # a gather that needs it pays for it
        from imagecodecs.zarr import register_codecs  # noqa: PLC0415 # as above

        register_codecs(("delta",))
        array: Any = zarr.open_array(self.path, mode="r")
        for start in range(0, array.shape[0], _ROWS_AT_ONCE):
            yield from array[start : start + _ROWS_AT_ONCE]


def memory_folder() -> Path | None:
    """Return a folder in memory; None for the system's folder for temporary files."""
    return _MEMORY if _MEMORY.is_dir() else None


def write_cube(write: Callable[[str], str]) -> WrittenCube:
    """Call ``write`` with a new folder's path. It returns the path of the array that it has written."""
    folder = tempfile.TemporaryDirectory(dir=memory_folder())
    return WrittenCube(write(f"{folder.name}/cube"), folder)


def gather(hrefs: Sequence[str], out: object, *, concurrency: int) -> WrittenCube:
    """Gather the centre tiles as a user does, without the report's pictures.

    Args:
        hrefs: One source each.
        out: Not used.
        concurrency: Sources at one time; 0 to have it found out, as users do.
    """
    del out
    return write_cube(lambda to: _gathered(hrefs, to, concurrency))


def gather_staged(hrefs: Sequence[str], out: object, *, concurrency: int) -> WrittenCube:
    """Gather as `gather`, and record the CPU time of each stage."""
    del out
    with recorded_stages() as stages:
        cube = write_cube(lambda to: _gathered(hrefs, to, concurrency, stages.note_threads))
    cube.stages.update(stages.cpu_s)
    return cube


def gather_kept(hrefs: Sequence[str], out: object, *, concurrency: int) -> WrittenCube:
    """Gather as `gather`, and keep the compressed tiles as they are."""
    del out
    return write_cube(lambda to: _gathered(hrefs, to, concurrency, codec="source"))


def import_gather(hrefs: Sequence[str], folder: Path) -> None:
    """Import what a gather in process imports: a notebook's second gather finds it there."""
    from pixel_gather import gather as do_gather  # noqa: PLC0415 # what it takes is no part of a warm gather

    del hrefs
    make_tiny_gather(do_gather, folder)


def make_tiny_gather(do_gather: Callable[..., Any], folder: Path) -> None:
    """Gather one small file, so that every module is loaded."""
    import tifffile  # noqa: PLC0415 # as above

    source = folder / "tiny.tif"
    tifffile.imwrite(source, np.ones((16, 16), np.uint16), tile=(16, 16), extratags=EXTRA_TAGS)
    with tempfile.TemporaryDirectory() as to:
        _run(do_gather, [str(source)], f"{to}/cube")


def _gathered(
    hrefs: Sequence[str],
    to: str,
    concurrency: int,
    on_complete: Callable[[], None] = lambda: None,
    *,
    codec: str = "blosc-lz4",
) -> str:
    from pixel_gather import gather as do_gather  # noqa: PLC0415 # as above

    _run(
        do_gather,
        hrefs,
        to,
        concurrency=concurrency or None,
        on_complete=lambda _: on_complete(),
        codec=codec,
    )
    return f"{to}/band_1"


def _run(
    do_gather: Callable[..., Any],
    hrefs: Sequence[str],
    to: str,
    *,
    concurrency: int | None = None,
    on_complete: Callable[[Any], None] = lambda _: None,
    codec: str = "blosc-lz4",
) -> None:
    from pixel_gather import Settings  # noqa: PLC0415 # as above

    done = do_gather(
        {"sources": list(hrefs), "window": "centre", "output": {"codec": codec}},
        to=to,
        settings=Settings(concurrency=concurrency, draws_report=False),
        on_complete=on_complete,
    )
    assert done.report.n_failed == 0, done.report
