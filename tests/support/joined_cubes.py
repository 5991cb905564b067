"""Small cubes that can be joined."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from support.undrawn import gather_undrawn

SERIES: Final = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES: Final = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
SHARD_ROWS: Final = 4


def gather_member(
    to: Path | str,
    *,
    n_rows: int,
    year: int = 2020,
    col: int = 0,
    height: int = 12,
    lacks: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Gather a cube in shards of four rows. Its rows have times, a number and a text, but what it lacks."""
    lines = [
        {
            "href": str(FILES[n % len(FILES)]),
            "time": f"{year + n // 12}-{n % 12 + 1:02d}-01",
            "cloud": 10 * n,
            "sat": ("AB" if year < 2022 else "BC")[n % 2],  # so that texts are added
        }
        for n in range(n_rows)
    ]
    lines = [{name: value for name, value in line.items() if name not in lacks} for line in lines]
    layout = {"chunk": [2, 8, 8], "shard_rows": SHARD_ROWS}
    request = {
        "sources": {"list": _listed(lines, settings.pop("folder"), name=f"{year}-{n_rows}-{col}.csv")},
        "window": {"pixels": [col, 0, 16, height]},
        "output": {"layout": layout, **settings.pop("output", {})},
    }
    gather_undrawn(request, to=to, **settings)


def _listed(lines: list[dict[str, Any]], folder: Path, *, name: str) -> Path:
    head = ",".join(lines[0])
    content = "\n".join([head, *(",".join(map(str, line.values())) for line in lines)])
    (folder / name).write_text(content)
    return folder / name
