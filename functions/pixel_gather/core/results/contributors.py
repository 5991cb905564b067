"""What became of each source of the rows that are reduced: the columns of ``contributors.parquet``. Pure."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.outcome import BandStats, Outcome
from pixel_gather.core.model.scaling import SCALING_COLUMNS
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.row_coordinates import NO_TIME, Values

CONTRIBUTORS: Final = "contributors"
"""Column of the table of rows that has the lines of each row, where these are reduced."""

_LISTED: Final = "listed_"
"""Start of the columns that say what the list said of a source's values."""

_SECONDS: Final = ("start", "end", "open", "reading")
_TEXTS: Final = ("href", "band", "etag", "status", "reason", "offset")

type Scenes = tuple[tuple[CubeRow, ...], list[list[Outcome]]]
"""The scenes of a row in their order, and the outcomes of each, one per slot."""


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
    lines = [
        {"row": number} | line
        for number, (row, outcomes) in enumerate(rows, start=first_row)
        for line in _lines_of(plan, row, outcomes)
    ]
    if not lines:
        return {}
    return {name: np.array([line[name] for line in lines], dtype=_dtype(name)) for name in lines[0]}


def packed_lines(plan: CubePlan, rows: Iterable[tuple[CubeRow, Sequence[Outcome]]]) -> Values:
    """Return the lines of each row as JSON, for the table of rows. An append goes on from that one file."""
    return np.array([json.dumps([*_lines_of(plan, *each)]) for each in rows], dtype=object)


def unpacked_lines(packed: Values) -> Values:
    """Return the lines of each row; the inverse of `packed_lines`."""
    found = np.empty(len(packed), dtype=object)
    found[:] = [json.loads(each) for each in packed]
    return found


def _lines_of(plan: CubePlan, row: CubeRow, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """Yield a line for each source of a row."""
    names = [each.name for each in plan.of_scenes.slots]
    claimed = [each for each in SCALING_COLUMNS if plan.values != "raw"]
    for order, (scene, of_scene) in enumerate(zip(row.members, outcomes[0].members, strict=True)):
        for slot, (source, outcome) in enumerate(zip(scene.sources, of_scene, strict=True)):
            if source is None:
                continue
            yield (
                {
                    "order": order,
                    "tries": outcome.tries,
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
                | {_LISTED + name: _or_nan(source.columns.get(name)) for name in claimed}
            )


def _dtype(name: str) -> Any:
    if name in _TEXTS:
        return object
    return "float64" if name in _SECONDS or name.startswith(_LISTED) else "int64"


def _or_nan(value: Any) -> float:
    return math.nan if value is None or isinstance(value, str) else float(value)


def scenes_from_lines(lines: Sequence[Mapping[str, Any]], names: Sequence[str | None]) -> Scenes:
    """Return the scenes of a row from its lines.

    Args:
        lines: Those of one row, by their order.
        names: Of the slots of the scenes.
    """
    n_scenes = max((line["order"] + 1 for line in lines), default=0)
    sources: list[list[Source | None]] = [[None] * len(names) for _ in range(n_scenes)]
    outcomes = [[Outcome(status=Status.ABSENT, bands=[BandStats()]) for _ in names] for _ in range(n_scenes)]
    times: list[int | None] = [None] * n_scenes
    for line in lines:
        scene, slot = line["order"], names.index(line["band"] or None)
        times[scene] = None if line["time"] == NO_TIME else line["time"]
        sources[scene][slot] = Source(
            href=line["href"], band=names[slot], time_us=times[scene], columns=_listed_values(line)
        )
        outcomes[scene][slot] = _outcome_of(line)
    scenes = zip(times, sources, strict=True)
    return tuple(CubeRow(time_us=time, sources=tuple(of_scene)) for time, of_scene in scenes), outcomes


def _listed_values(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the list said of a source's values."""
    return {
        name.removeprefix(_LISTED): value
        for name, value in line.items()
        if name.startswith(_LISTED) and not math.isnan(value)
    }


def _outcome_of(line: Mapping[str, Any]) -> Outcome:
    return Outcome(
        status=Status[line["status"].upper()],
        reason=line["reason"] or None,
        etag=line["etag"] or None,
        is_aligned=True,  # the report of the cube says whether all are
        start_s=line["start"],
        end_s=line["end"],
        cost=Cost(
            requests=line["requests"],
            nbytes=line["bytes"],
            header_nbytes=line["header_bytes"],
            open_s=line["open"],
            read_s=line["reading"],
        ),
        bands=[BandStats(n_valid=line["pixels"])],
        n_masked=None if line["masked"] < 0 else line["masked"],
        offset_reasons=line["offset"].split("; ") if line["offset"] else [],
        tries=line["tries"],
    )
