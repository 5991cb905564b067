"""What became of each source of the rows that are reduced: the columns of ``contributors.parquet``. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.row_coordinates import NO_TIME, Values

_SECONDS: Final = ("start", "end", "open", "reading")
_TEXTS: Final = ("href", "band", "etag", "status", "reason", "offset")


def contributor_values(
    plan: CubePlan, rows: Sequence[tuple[CubeRow, Sequence[Outcome]]], *, first_row: int
) -> dict[str, Values]:
    """Return a line for each source of some rows, in order; nothing if there is none.

    ``row`` is the row of the cube, ``order`` the scene's place in it, ``pixels`` how many pixels it gave to
    the first band of its file.

    Args:
        plan: The cube.
        rows: Some rows, with their outcomes.
        first_row: The number of the first one.
    """
    names = [each.name for each in plan.of_scenes.slots]
    lines: list[dict[str, Any]] = []
    for number, (row, outcomes) in enumerate(rows, start=first_row):
        for order, (scene, of_scene) in enumerate(zip(row.members, outcomes[0].members, strict=True)):
            for slot, (source, outcome) in enumerate(zip(scene.sources, of_scene, strict=True)):
                if source is None:
                    continue
                lines.append(
                    {
                        "row": number,
                        "order": order,
                        "time": NO_TIME if scene.time_us is None else scene.time_us,
                        "href": source.href,
                        "band": names[slot] or "",
                        "etag": outcome.etag or "",
                        "status": outcome.status.name.lower(),
                        "reason": outcome.reason or "",
                        "pixels": outcome.bands[0].n_valid or 0,
                        "masked": -1 if outcome.n_masked is None else outcome.n_masked,
                        "offset": "; ".join(outcome.offset_reasons),
                        "requests": outcome.cost.requests,
                        "bytes": outcome.cost.nbytes,
                        "header_bytes": outcome.cost.header_nbytes,
                        "start": outcome.start_s,
                        "end": outcome.end_s,
                        "open": outcome.cost.open_s,
                        "reading": outcome.reading_s,
                    }
                )
    if not lines:
        return {}
    return {name: np.array([line[name] for line in lines], dtype=_dtype(name)) for name in lines[0]}


def _dtype(name: str) -> Any:
    return object if name in _TEXTS else "float64" if name in _SECONDS else "int64"
