"""What does a common grid cost, and a mask? Interleaved rounds of whole gathers of made files.

``PYTHONPATH=tests uv run python -m benchmarks.bench_grid``; README.md beside this file says what came out.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from rasterio.transform import from_origin

from benchmarks.made_images import write_tiled
from benchmarks.output import Taken, parser_of, put, ratios, spread, take_turns, timed
from pixel_gather import gather
from pixel_gather.in_process.settings import Settings
from pixel_gather_bench.experiment import markdown

_SIDE: Final = 1024
_WEST: Final = 300_000
_NORTH: Final = 5_000_040
_WINDOW: Final = {"bbox": (_WEST, _NORTH - 5120, _WEST + 5120, _NORTH), "crs": "source"}
_BANDS: Final = {"red": (10, "uint16"), "nir": (10, "uint16"), "scl": (20, "uint8"), "scl10": (10, "uint8")}

COMPARED: Final = (
    ("two gathers, of 10 m and of 20 m", "one grid"),
    ("all of 10 m, no grid", "all of 10 m, on a grid"),
    ("one grid", "one grid, a mask"),
    ("one grid", "one grid, a mask, dilated"),
)

type Request = dict[str, Any]


def write_scenes(folder: Path, n: int) -> list[Request]:
    """Write scenes of smooth noise, in tiles of 512 x 512, and return their lines of a list."""
    rows = []
    random = np.random.default_rng(7)
    for at in range(n):
        for name, (width, dtype) in _BANDS.items():
            side = _SIDE * 10 // width
            coarse = random.integers(0, 11, (side // 16, side // 16))
            pixels = coarse.repeat(16, axis=0).repeat(16, axis=1)
            if dtype == "uint16":
                pixels = pixels * 900 + random.integers(0, 60, pixels.shape)
            file = folder / f"{name}_{at}.tif"
            place = from_origin(_WEST, _NORTH, width, width)
            write_tiled(file, pixels.astype(dtype), transform=place)
            time_of = f"2024-01-01T00:{at:02}"
            rows.append({"href": str(file), "band": name, "scene": f"s{at:04}", "time": time_of})
    return rows


def cases_of(rows: list[Request]) -> Mapping[str, list[Request]]:
    """Return the gathers of each case."""

    def of(*names: str, **more: Any) -> Request:
        return {"sources": {"rows": [row for row in rows if row["band"] in names]}, "window": _WINDOW} | more

    grid = {"grid": {"resolution": "finest"}}
    return {
        "two gathers, of 10 m and of 20 m": [of("red", "nir"), of("scl")],
        "one grid": [of("red", "nir", "scl", **grid)],
        "all of 10 m, no grid": [of("red", "nir", "scl10")],
        "all of 10 m, on a grid": [of("red", "nir", "scl10", **grid)],
        "one grid, a mask": [of("red", "nir", "scl", mask={"band": "scl", "drop": [3, 8, 9]}, **grid)],
        "one grid, a mask, dilated": [
            of("red", "nir", "scl", mask={"band": "scl", "drop": [3, 8, 9], "dilate": 3}, **grid)
        ],
    }


def main() -> None:
    """Measure every case in turn, round by round, and print medians and ratios."""
    parser = parser_of(main)
    parser.add_argument("--scenes", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        cases = cases_of(write_scenes(Path(folder), options.scenes))
        works = {name: partial(_gather_all, those, Path(folder)) for name, those in cases.items()}
        seen = take_turns(works, options.rounds, warm_ups=1)
    put(tables(seen, COMPARED), [seen], options.json)


def tables(seen: Mapping[str, Sequence[Taken]], compared: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield lines of Markdown: a table of the cases, and one of ratios, formed within each round.

    Args:
        seen: What each case took, by its name.
        compared: Pairs of cases: which one is divided by which other.
    """
    rows = ((name, *map(spread, [*zip(*taken, strict=True)][:2])) for name, taken in seen.items())
    yield from markdown([("gather", "s", "CPU s"), *rows])
    yield ""
    beside = ((other, one, *ratios(seen[one], seen[other])) for one, other in compared)
    yield from markdown([("gather", "beside", "x time", "x CPU"), *beside])


def _gather_all(requests: Sequence[Request], folder: Path) -> Taken:
    """Return what it takes to gather each request."""

    def work() -> None:
        for at, request in enumerate(requests):
            gather(request, to=folder / f"cube{at}", settings=Settings(draws_report=False))

    taken = timed(work)
    for at in range(len(requests)):
        shutil.rmtree(folder / f"cube{at}")
    return taken


if __name__ == "__main__":
    main()
