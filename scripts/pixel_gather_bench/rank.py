"""Rank one list at every precision, and compare order, errors, bytes and time with the exact ranking.

``python -m pixel_gather_bench.rank LIST --by ndvi --to FOLDER`` prints a table and draws two figures: what
each precision costs and finds, and the scenes in their order with pictures and intervals.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.rank.sheet import Picture, painted_pictures
from pixel_gather.local.rank import Ranking, rank_async
from pixel_gather.ranking.ranking_request import RankingRequest

_TOP: Final = 10
_PRECISIONS: Final = ("coarse", "0.01", "every:15", "every:10", "every:5", "exact")
_GREEN: Final = "#5b9e6f"
_INK: Final = "#1c2530"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One precision against the exact ranking."""

    precision: str
    rho: float
    """Spearman's rank correlation."""

    recall: float
    """Share of the exact top ten, or of half of the scenes if there are fewer than twenty, in this one's."""

    coverage: float
    """Share of the 95 % intervals that hold the exact value."""

    error: float
    """Median distance from the exact value, as a share of the exact values' standard deviation."""

    ranking: Ranking


def compared(precision: str, found: Ranking, exact: Ranking) -> Trial:
    """Compare a ranking with the exact one of the same scenes."""
    truth = {row["id"]: row["value"] for row in exact.rows() if row["value"] is not None}
    rows = [row for row in found.rows() if row["id"] in truth and row["value"] is not None]
    order = [row["id"] for row in rows]
    n_top = min(_TOP, max(len(order) // 2, 1))
    right = [row["id"] for row in exact.rows() if row["id"] in truth]
    held = [
        row["error"] is None or row["low"] - 1e-12 <= truth[row["id"]] <= row["high"] + 1e-12 for row in rows
    ]
    spread = float(np.std(list(truth.values()))) or 1.0
    return Trial(
        precision=precision,
        rho=spearman(order, right),
        recall=len({*order[:n_top]} & {*right[:n_top]}) / n_top,
        coverage=float(np.mean(held)),
        error=float(np.median([abs(row["value"] - truth[row["id"]]) for row in rows])) / spread,
        ranking=found,
    )


def spearman(one: Sequence[str], other: Sequence[str]) -> float:
    """Return Spearman's rank correlation of two orders of the same names."""
    place = {name: at for at, name in enumerate(other)}
    n = len(one)
    squares = sum((at - place[name]) ** 2 for at, name in enumerate(one))
    return 1 - 6 * squares / (n * (n * n - 1)) if n > 1 else 1.0


def markdown(trials: Sequence[Trial]) -> str:
    """Return the table of a documentation page."""
    names = ("precision", "rho", "recall", "held", "median error", "MB", "requests", "seconds", "dollars")
    lines = [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}"]
    for each in trials:
        found = each.ranking
        cells = (
            each.precision,
            f"{each.rho:.3f}",
            f"{100 * each.recall:.0f} %",
            f"{100 * each.coverage:.0f} %",
            f"{each.error:.2g}",
            f"{found.nbytes / 1e6:.2f}",
            str(found.requests),
            f"{found.seconds:.2f}",
            f"{found.usd:.6f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _megabytes(trial: Trial) -> float:
    return trial.ranking.nbytes / 1e6


def _error(trial: Trial) -> float:
    return trial.error


def _seconds(trial: Trial) -> float:
    return trial.ranking.seconds


def draw_trials(trials: Sequence[Trial], path: Path) -> None:
    """Draw the bytes, the seconds and the error of each precision side by side."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # 0.5 s, after the measurements

    names = [each.precision for each in trials]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    panels = (
        ("MB read", _megabytes),
        ("seconds", _seconds),
        ("median error, in spreads of the scenes", _error),
    )
    for at, (label, of) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), at)
        bars = axes.barh(names, [of(each) for each in trials], color=_GREEN)
        axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.set_xticks([])
        axes.margins(x=0.2)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        if at > 1:
            axes.set_yticks([])
    figure.savefig(path, dpi=130)


def draw_scenes(ranking: Ranking, pictures: Sequence[Picture], path: Path, *, label: str) -> None:
    """Draw scenes in their order: a picture of each, its value and its 95 % interval."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # as above

    rows = [row for row in ranking.rows() if row["value"] is not None]
    images = painted_pictures(ranking, pictures[: len(rows)])
    n = len(rows)
    figure = Figure(figsize=(0.72 * n + 1, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, n, height_ratios=(3, 1.15), hspace=0, wspace=0.06)
    bars = figure.add_subplot(grid[0, :])
    values = [row["value"] for row in rows]
    margins = [0.0 if row["error"] is None else 1.96 * row["error"] for row in rows]
    bars.bar(range(n), values, width=0.72, color=_GREEN)
    bars.errorbar(range(n), values, yerr=margins, fmt="none", ecolor=_INK, elinewidth=1.4, capsize=4)
    bars.axhline(0, color=_INK, linewidth=0.8)
    bars.set(xlim=(-0.5, n - 0.5), xticks=[], ylabel=label)
    bars.spines[["top", "right", "bottom"]].set_visible(False)
    for at, (row, image) in enumerate(zip(rows, images, strict=True)):
        axes = figure.add_subplot(grid[1, at])
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        if image is not None:
            axes.imshow(image, interpolation="nearest")
        within = "" if row["rank_low"] == row["rank_high"] else f"\n({row['rank_low']}-{row['rank_high']})"
        axes.set_xlabel(f"{row['rank']}{within}", fontsize=8, labelpad=2)
        axes.set_title((row["time"] or row["id"])[:10][2:], fontsize=7, pad=3)
    figure.savefig(path, dpi=130)


def trials_of(sources: Any, given: Mapping[str, Any]) -> tuple[list[Trial], Ranking, list[Picture]]:
    """Rank a list at every precision; the exact ranking comes with pictures of all scenes."""

    def ranked(precision: str, n_pictures: int = 0) -> tuple[Ranking, list[Picture]]:
        request = RankingRequest.of(**{**given, "precision": precision})
        return run(rank_async(sources, request, n_pictures=n_pictures))

    ranked("exact")  # so that every trial finds the files in memory
    exact, pictures = ranked("exact", n_pictures=100)
    trials = [compared(each, ranked(each)[0], exact) for each in _PRECISIONS]
    return trials, exact, pictures


@click.command()
@click.argument("list_file", metavar="LIST")
@click.option("--by", required=True, metavar="WHAT", help="As in pixel-gather rank.")
@click.option("--drop-bit", type=int, metavar="N", help="Drop pixels with this bit of the band --mask-band.")
@click.option("--mask-band", default="BQA", show_default=True, metavar="NAME")
@click.option("--shown", default="every:5", show_default=True, help="Precision of the picture of the scenes.")
@click.option("--to", required=True, metavar="FOLDER", help="Where the figures go.")
def main(*, list_file: str, by: str, drop_bit: int | None, mask_band: str, shown: str, to: str) -> None:
    """Rank LIST at every precision and compare."""
    given: dict[str, Any] = {"by": by}
    if drop_bit is not None:
        given["mask"] = {"band": mask_band, "bits": [drop_bit]}
    trials, exact, _ = trials_of(list_file, given)
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    draw_trials(trials, folder / "rank-precision.png")
    request = RankingRequest.of(**{**given, "precision": shown})
    ranking, pictures = run(rank_async(list_file, request, n_pictures=100))
    draw_scenes(ranking, pictures, folder / "rank-scenes.png", label=by.upper())
    sys.stdout.write(f"{len(exact.scenes)} scenes\n\n{markdown(trials)}\n")


if __name__ == "__main__":
    main()
