"""Rank one list at every precision, and compare order, errors, bytes and time with the exact ranking.

``python -m pixel_gather_bench.rank LIST --by ndvi --to FOLDER`` prints a table and draws two figures. One
shows what each precision costs and finds. The other has the first scenes in their order, with pictures and
intervals.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from msgspec import Struct

from pixel_gather.features.rank.rank import Ranking, rank_async
from pixel_gather.features.rank.ranking_page import Picture, picture_values
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.io.event_loop import run
from pixel_gather.io.pictures.theme import Theme
from pixel_gather_bench.experiment import markdown
from pixel_gather_cli.request_options import mask_option
from pixel_gather_cli.value_options import bands_option

_TOP: Final = 10
_PRECISIONS: Final = ("coarse", "0.01", "every:15", "every:10", "every:5", "exact")
_INK: Final = "#1c2530"
_PALE: Final = "#b9dcc3"
_IN_A_ROW: Final = 10


class PrecisionTrial(Struct, frozen=True, kw_only=True):
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


def compare_with_exact(precision: str, found: Ranking, exact: Ranking) -> PrecisionTrial:
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
    return PrecisionTrial(
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


def table(trials: Sequence[PrecisionTrial]) -> str:
    """Return the table of a documentation page."""
    rows = [("precision", "rho", "recall", "held", "median error", "MB", "requests", "seconds", "dollars")]
    rows += [
        (
            each.precision,
            f"{each.rho:.3f}",
            f"{each.recall:.0%}",
            f"{each.coverage:.0%}",
            f"{each.error:.2g}",
            f"{each.ranking.nbytes / 1e6:.2f}",
            str(each.ranking.requests),
            f"{each.ranking.seconds:.2f}",
            f"{each.ranking.usd:.6f}",
        )
        for each in trials
    ]
    return "\n".join(markdown(rows))


def draw_trials(trials: Sequence[PrecisionTrial], theme: Theme) -> Any:
    """Draw the bytes, the seconds and the error of each precision side by side."""
    from pixel_gather_bench.figures.look import draw_bars, new_figure  # noqa: PLC0415 # 0.5 s, after the measurements

    panels = {
        "MB read": [each.ranking.nbytes / 1e6 for each in trials],
        "seconds": [each.ranking.seconds for each in trials],
        "median error, in spreads of the scenes": [each.error for each in trials],
    }
    figure, axes = new_figure(1, 3, height_in=2.6)
    for ax, (label, values) in zip(axes.flat, panels.items(), strict=True):
        draw_bars(ax, [each.precision for each in trials], values, theme, is_best=min, missing="")
        ax.set_xlabel(label)
    return figure


def draw_scenes(
    ranking: Ranking, pictures: Sequence[Picture], other: Ranking, path: Path, *, label: str
) -> None:
    """Draw scenes in their order, ten in a row: the value and its 95 % interval above a picture of each.

    ``other`` has the same scenes at another precision, which are drawn behind.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # as above

    rows = [row for row in ranking.rows()[: len(pictures)] if row["value"] is not None]
    behind = {row["id"]: row for row in other.rows()}
    pairs = [(row, behind[row["id"]]) for row in rows]
    ends = [
        each[name] for pair in pairs for each in pair for name in ("low", "high") if each[name] is not None
    ]
    margin = 0.06 * (max(ends) - min(ends))
    n_lines = -(-len(rows) // _IN_A_ROW)
    figure = Figure(figsize=(11, 3.15 * n_lines), layout="constrained")
    images = _in_colours(ranking, pictures)
    for line, part in enumerate(figure.subfigures(n_lines, 1, squeeze=False)[:, 0]):
        first = line * _IN_A_ROW
        shown = pairs[first : first + _IN_A_ROW]
        grid = part.add_gridspec(2, _IN_A_ROW, height_ratios=(1.25, 1), hspace=0.02, wspace=0.05)
        axes = part.add_subplot(grid[0, :])
        axes.set(ylim=(min(ends) - margin, max(ends) + margin), ylabel=label)
        _draw_intervals(axes, shown)
        if line == 0:
            axes.legend(
                [_legend_label(other), _legend_label(ranking)],
                loc="lower right",
                frameon=False,
                ncols=2,
                fontsize=9,
            )
        for at, (row, _) in enumerate(shown):
            _draw_picture(part.add_subplot(grid[1, at]), row, images[first + at])
    figure.savefig(path, dpi=110)


def _draw_intervals(axes: Any, shown: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
    for at, colour, width, size in ((1, _PALE, 9.0, 0.0), (0, _INK, 1.6, 3.5)):
        drawn = [pair[at] for pair in shown]
        axes.errorbar(
            range(len(drawn)),
            [row["value"] for row in drawn],
            yerr=[1.96 * (row["error"] or 0.0) for row in drawn],
            fmt="o",
            markersize=size,
            color=colour,
            ecolor=colour,
            elinewidth=width,
            capsize=3.5 if at == 0 else 0,
            capthick=1.6,
        )
    axes.set(xlim=(-0.5, _IN_A_ROW - 0.5), xticks=[])
    axes.grid(axis="y", color="#e3e8ee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    for at, (row, _) in enumerate(shown):
        axes.annotate(
            f"{row['value']:.3f}",
            (at, row["value"]),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )


def _draw_picture(axes: Any, row: Mapping[str, Any], image: Any) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if image is not None:
        axes.imshow(image, interpolation="nearest")
    within = "" if row["rank_low"] == row["rank_high"] else f"  ({row['rank_low']}-{row['rank_high']})"
    axes.set_title(f"{row['rank']}{within}", fontsize=10, fontweight="bold", color=_INK, pad=3)
    day = datetime.fromisoformat(row["time"]).strftime("%d %b %Y").lstrip("0") if row["time"] else row["id"]
    axes.set_xlabel(f"{day}\n{100 * row['clear']:.0f} % clear", fontsize=8, labelpad=3)


def _in_colours(ranking: Ranking, pictures: Sequence[Picture]) -> list[Any]:
    """Return pictures of the values: green where they are high, pale where they are low."""
    from matplotlib import colormaps  # noqa: PLC0415 # as above

    layers = [picture_values(ranking, picture) if picture else None for picture in pictures]
    known = np.concatenate([each[np.isfinite(each)] for each in layers if each is not None])
    low, high = np.percentile(known, (2, 98))
    colours = colormaps["YlGn"]
    return [None if each is None else colours(np.clip((each - low) / (high - low), 0, 1)) for each in layers]


def _legend_label(ranking: Ranking) -> str:
    precision = ranking.request.precision
    read = f"every {precision.step}th pixel" if precision.kind == "every" else "overviews"
    return f"95 % interval by {read} ({ranking.nbytes / 1e6:.2f} MB)"


def rank_at_every_precision(sources: Any, given: Mapping[str, Any]) -> list[PrecisionTrial]:
    """Rank a list at every precision."""
    exact, _ = _rank_list(sources, given, "exact")  # so that every trial finds the files in memory
    return [compare_with_exact(each, _rank_list(sources, given, each)[0], exact) for each in _PRECISIONS]


def _rank_list(
    sources: Any, given: Mapping[str, Any], precision: str, n_pictures: int = 0
) -> tuple[Ranking, list[Picture]]:
    request = RankingRequest.of(**{**given, "precision": precision})
    return run(rank_async(sources, request, n_pictures=n_pictures))


@click.command()
@click.argument("list_file", metavar="LIST")
@click.option("--by", required=True, metavar="WHAT", help="As in pixel-gather rank.")
@click.option("--mask", metavar="BAND:VALUES", help="As in pixel-gather rank.")
@click.option("--bands", metavar="NAMES", help="As in pixel-gather rank.")
@click.option("--top", default=20, show_default=True, help="Scenes in the picture.")
@click.option("--shown", default="coarse", show_default=True, help="Precision of the picture of the scenes.")
@click.option("--behind", default="every:10", show_default=True, help="Precision that is drawn behind it.")
@click.option("--to", required=True, metavar="FOLDER", help="Where the figures go.")
def main(*, list_file: str, to: str, top: int, shown: str, behind: str, **options: str | None) -> None:
    """Rank LIST at every precision and compare."""
    from pixel_gather_bench.figures.look import put_in_both_themes  # noqa: PLC0415 # as above

    given: dict[str, Any] = {"by": options["by"]}
    for name, parsed in (("mask", mask_option), ("bands", bands_option)):
        if (text := options[name]) is not None:
            given[name] = parsed(text)
    trials = rank_at_every_precision(list_file, given)
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    put_in_both_themes(partial(draw_trials, trials), folder, "rank-precision")
    ranking, pictures = _rank_list(list_file, given, shown, n_pictures=top)
    other, _ = _rank_list(list_file, given, behind)
    draw_scenes(ranking, pictures, other, folder / "rank-scenes.png", label=str(options["by"]).upper())
    sys.stdout.write(f"{len(ranking.scenes)} scenes\n\n{table(trials)}\n")


if __name__ == "__main__":
    main()
