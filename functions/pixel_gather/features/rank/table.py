"""A finished ranking as a table: one row a scene, and what it cost. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from pixel_gather.core.estimate.pricing import USD_PER_GB_S, USD_PER_GET
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.shown import shown, table_in_html
from pixel_gather.core.model.status import Status
from pixel_gather.core.text_table import in_columns
from pixel_gather.core.time_range import format_moment
from pixel_gather.features.rank.choose_reads import RankedScene
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.sampling_error import INTERVAL
from pixel_gather.io.pictures.stretch import error_in_words, number_in_words
from pixel_gather.tables.read_forecast import GB_OF_ONE_VCPU

COLUMNS: Final[Mapping[str, Literal["bool", "float64", "int64", "utf8"]]] = {
    "rank": "int64",
    "rank_low": "int64",
    "rank_high": "int64",
    "id": "utf8",
    "time": "utf8",
    "value": "float64",
    "error": "float64",
    "low": "float64",
    "high": "float64",
    "level": "utf8",
    "factor": "float64",
    "clear": "float64",
    "clear_low": "float64",
    "clear_high": "float64",
    "valid": "float64",
    "valid_low": "float64",
    "valid_high": "float64",
    "remarks": "utf8",
    "pixels": "int64",
    "bytes": "int64",
    "requests": "int64",
    "seconds": "float64",
    "kept": "bool",
    "status": "utf8",
    "reason": "utf8",
    "hrefs": "utf8",
}
"""Columns of the table, and their types as a file has them. docs/rank.md says what each holds."""

_MOST_SHOWN: Final = 20
"""Scenes that a notebook shows."""

_TITLES: Final = (
    "rank",
    "within",
    "time",
    "id",
    "value",
    "error",
    "level",
    "clear",
    "valid",
    "bytes",
    "requests",
    "status",
)
"""Columns of the table for a terminal."""


class Ranking(Struct, frozen=True, kw_only=True):
    """Scenes in the order of their values, and what ranking them took: bytes, requests, seconds, dollars."""

    request: RankingRequest
    scenes: tuple[RankedScene, ...]
    """Ranked scenes first, then those without a clear pixel, then those that could not be read."""

    seconds: float
    """Wall time, the list included."""

    notes: tuple[str, ...] = ()
    """What readers of the ranking should know, such as scenes that were left out as duplicates."""

    spent_usd: float | None = None
    """What several functions have cost on AWS; None where one process has ranked."""

    def __repr__(self) -> str:
        told = [f"{each['rank'] or '-'} {each['id']} {each['value']}" for each in self.rows()]
        return shown(f"Ranking: {counted(len(self.scenes), 'scene')} by {self.request.by}", told, most=10)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first scenes, with the errors of their values.

        What several scenes lack for one reason is told once, below.
        """
        singles, repeated = tell_once(self.rows())
        first = singles[:_MOST_SHOWN]
        rows = [
            (
                str(each["rank"] or "-"),
                each["id"],
                (each["time"] or "")[:10],
                "" if each["value"] is None else number_in_words(each["value"]),
                "" if not each["error"] else f"\u00b1 {error_in_words(INTERVAL * each['error'])}",
                "" if each["clear"] is None else f"{each['clear']:.0%}",
                each["reason"] or each["status"],
            )
            for each in first
        ]
        more = len(singles) - len(first)
        cost = f"{size(self.nbytes)} in {counted(self.requests, 'request')}, {self.seconds:,.1f} s"
        spent = "; ".join([*repeated, cost])
        return table_in_html(
            f"{counted(len(self.scenes), 'scene')} by {self.request.by}",
            ("rank", "scene", "time", "value", "95 %", "clear", "status"),
            rows,
            below=f"and {more:,} more; {spent}" if more else spent,
        )

    @property
    def n_failed(self) -> int:
        """Scenes that could not be read."""
        return sum(each.is_failed for each in self.scenes)

    @property
    def requests(self) -> int:
        """Requests sent, retries included."""
        return sum(each.cost.requests for each in self.scenes)

    @property
    def nbytes(self) -> int:
        """Bytes received."""
        return sum(each.cost.nbytes for each in self.scenes)

    @property
    def n_kept(self) -> int:
        """Scenes of which nothing was read."""
        return sum(each.was_kept for each in self.scenes)

    @property
    def usd(self) -> float:
        """What it costs on AWS beside the data: its GET requests, and one function of one vCPU."""
        if self.spent_usd is not None:
            return self.spent_usd
        return self.requests * USD_PER_GET + self.seconds * GB_OF_ONE_VCPU * USD_PER_GB_S

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a scene, with the columns of `COLUMNS`. What is unknown is None."""
        return [_row(each) for each in self.scenes]

    def to_json(self) -> dict[str, Any]:
        """Return the ranking as JSON values."""
        request = self.request
        return {
            "by": request.by,
            "expression": None if request.expression is None else request.expression.text,
            "statistic": request.statistic.text,
            "order": request.order,
            "top": request.top,
            "scenes": self.rows(),
            "totals": {
                "scenes": len(self.scenes),
                "failed": self.n_failed,
                "kept": self.n_kept,
                "bytes": self.nbytes,
                "requests": self.requests,
                "seconds": round(self.seconds, 3),
                "usd": round(self.usd, 6),
            },
            "notes": list(self.notes),
        }


def _row(ranked: RankedScene) -> dict[str, Any]:
    measured, place = ranked.measured, ranked.place
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {
        "id": ranked.scene.id,
        "time": None if ranked.scene.time_us is None else format_moment(ranked.scene.time_us),
        "bytes": ranked.cost.nbytes,
        "requests": ranked.cost.requests,
        "seconds": round(ranked.seconds, 4),
        "kept": ranked.was_kept,
        "status": ranked.status.name.lower(),
        "reason": ranked.reason,
        "hrefs": list(ranked.scene.hrefs),
    }
    if place is not None:
        row |= {"rank": place.rank, "rank_low": place.low, "rank_high": place.high}
    if measured is None:
        return row
    row |= {
        "level": _level(measured),
        "factor": measured.factor,
        "clear": measured.clear,
        "valid": measured.valid,
        "remarks": measured.remarks,
        "pixels": measured.n_pixels,
    }
    row["clear_low"], row["clear_high"] = measured.clear_range
    row["valid_low"], row["valid_high"] = measured.valid_range
    if math.isfinite(measured.value):
        row["value"] = measured.value
        if math.isfinite(measured.error):
            margin = INTERVAL * measured.error
            row |= {"error": measured.error, "low": measured.value - margin, "high": measured.value + margin}
    return row


def _level(measured: MeasuredScene) -> str:
    if measured.level is not None:
        return f"overview {measured.level}"
    return "full" if measured.factor == 1 else f"every {measured.factor:g}"


def table_text(rows: Sequence[dict[str, Any]], *, most: int | None) -> str:
    """Return the table for a terminal: the first rows and all that could not be read.

    If several scenes lie outside the area, one line tells their number.
    """
    shown = [row for n, row in enumerate(rows) if most is None or n < most or row["rank"] is None]
    outside = [row for row in shown if _is_outside(row)]
    if len(outside) > 1:
        shown = [row for row in shown if not _is_outside(row)]
    lines = [_TITLES] if shown or not outside else []
    for row in shown:
        within = "" if row["rank"] is None else _within(row)
        lines.append(
            (
                "" if row["rank"] is None else str(row["rank"]),
                within,
                (row["time"] or "")[:10],
                row["id"],
                _number(row["value"]),
                "unknown" if row["value"] is not None and row["error"] is None else _number(row["error"]),
                "" if row["level"] is None else row["level"],
                _percent(row["clear"]),
                _percent(row["valid"]),
                f"{row['bytes']:,}",
                f"{row['requests']:,}",
                row["status"] + (f": {row['reason']}" if row["reason"] else ""),
            )
        )
    text = list(in_columns(lines))
    if len(outside) > 1:
        text.append(_in_one_line(outside, len(rows)))
    return "\n".join(text) + "\n"


def tell_once(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Take the scenes away that have no value for the same reason as another one, and count them.

    Returns:
        The other rows, in their order, and a sentence without a full stop for each reason that several
        scenes share. Scenes outside the area share one, wherever their windows lie.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["rank"] is None:
            groups.setdefault((row["status"], "" if _is_outside(row) else row["reason"] or ""), []).append(
                row
            )
    repeated = [each for each in groups.values() if len(each) > 1]
    taken = {id(row) for alike in repeated for row in alike}
    return [row for row in rows if id(row) not in taken], [_in_one_line(each, len(rows)) for each in repeated]


def _in_one_line(alike: Sequence[dict[str, Any]], n_scenes: int) -> str:
    first = alike[0]
    status = first["status"].replace("_", " ")
    what = f"could not be read ({status})"
    if _is_outside(first):
        what = "lie outside the area"
    elif status == "ok":
        what = "have no value"
    reason = f": {first['reason']}" if first["reason"] else ""
    return f"{len(alike):,} of {counted(n_scenes, 'scene')} {what}, such as {first['id']}{reason}"


def _is_outside(row: dict[str, Any]) -> bool:
    return bool(row["status"] == Status.OUTSIDE.name.lower())


def _within(row: dict[str, Any]) -> str:
    return "" if row["rank_low"] == row["rank_high"] else f"{row['rank_low']}-{row['rank_high']}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
