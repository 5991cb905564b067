"""What each way took, as numbers, as a table and as a figure; also beside the published figures.

Published were one object of 2 GB in 2,048 samples, in 2022, by a blog article on pulling training data from
S3: a local machine, default settings, averages of ten. A random read was one of 10 offsets, 100 MB apart. CPU
and memory were not measured.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather_bench.experiment import aligned, digits, take_median
from pixel_gather_bench.ingest.job import MeasuredWay, WayTrial
from pixel_gather_bench.ingest.ways import BY_NAME, Way

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pixel_gather.io.pictures.theme import Theme


class Summary(Struct, frozen=True, kw_only=True):
    """One way."""

    way: Way
    n_times: int
    took: MeasuredWay
    """Medians."""

    nbytes: int
    """Read in ``took.total_s``."""

    @property
    def sample_s(self) -> float:
        """Average of one sample when all are read in order, with everything before the first."""
        return self.took.total_s / self.took.n_samples

    @property
    def mb_per_s(self) -> float:
        """MB of 1,000,000 bytes."""
        return self.nbytes / 1e6 / max(self.took.total_s, 1e-9)

    def random_total_s(self, n: int) -> float | None:
        """Return the seconds of so many random reads, with the download if there is one."""
        return None if self.took.random_s is None else self.took.download_s + n * self.took.random_s


def summarize(trials: Sequence[WayTrial], *, nbytes: int) -> tuple[Summary, ...]:
    """Return the medians of each way that was measured, in the order of the trials.

    So many bytes were read in ``total_s``.
    """
    runs: dict[str, list[MeasuredWay]] = {}
    for trial in trials:
        if trial.measured is not None:
            runs.setdefault(trial.way, []).append(trial.measured)
    return tuple(
        Summary(way=BY_NAME[way], n_times=len(measured), took=take_median(measured), nbytes=nbytes)
        for way, measured in runs.items()
    )


def refused_of(trials: Sequence[WayTrial]) -> dict[str, str]:
    """Return each way that was never measured, with its last message."""
    measured = {trial.way for trial in trials if trial.measured is not None}
    return {trial.way: trial.refused or "" for trial in trials if trial.way not in measured}


def check_contents(trials: Sequence[WayTrial]) -> None:
    """Refuse to compare ways that read different bytes."""
    for kind in ("digest", "random_digest"):
        found: dict[str, set[str]] = {}
        for trial in trials:
            digest = None if trial.measured is None else getattr(trial.measured, kind)
            if digest is not None:
                found.setdefault(digest, set()).add(trial.way)
        if len(found) > 1:
            said = " but ".join(
                f"{digest[:8]} by {', '.join(sorted(ways))}" for digest, ways in found.items()
            )
            raise StoreError(
                f"ways read different bytes, so nothing can be said of their speed ({kind} {said}). The "
                "object changed meanwhile, or the server does not answer ranges right. Run it again"
            )


type _Value = Callable[[Summary], float | None]


def _ms(name: str) -> _Value:
    def of(summary: Summary) -> float | None:
        value = getattr(summary.took, name)
        return None if value is None else 1000 * value

    return of


_COST: Final[dict[str, tuple[str, _Value]]] = {
    "CPU": ("s", lambda each: each.took.cpu_s),
    "Memory": ("MiB", lambda each: each.took.peak_rss_mib),
}
_WHOLE: Final[dict[str, tuple[str, _Value]]] = {
    "First sample": ("ms", _ms("first_sample_s")),
    "In order": ("MB/s", lambda each: each.mb_per_s),
    "Random read": ("ms", _ms("random_s")),
    "First random": ("ms", _ms("first_random_s")),
    **_COST,
}
_WINDOWS: Final[dict[str, tuple[str, _Value]]] = {
    "First window": ("ms", _ms("first_sample_s")),
    "A window": ("ms", lambda each: 1000 * each.sample_s),
    **_COST,
}
"""What is measured of one object, and of windows of several: a column of the table, a panel of the figure."""


def table_lines(summaries: Sequence[Summary], *, n_objects: int) -> Iterator[str]:
    """Yield a table with a row per way."""
    columns = _WHOLE if n_objects == 1 else _WINDOWS
    heads = ("way", *(f"{title}, {unit}" for title, (unit, _) in columns.items()))
    yield from aligned(
        [heads, *((each.way.title, *(digits(of(each)) for _, of in columns.values())) for each in summaries)]
    )
    if n_objects == 1:
        yield _NOTE


_NOTE: Final = "a random read is an average one after any download; the first random one begins from nothing"


def write_figure(summaries: Sequence[Summary], folder: Path, *, n_objects: int) -> None:
    """Write the figure as PNG and SVG, light and dark."""
    from pixel_gather_bench.figures.look import put_in_both_themes  # noqa: PLC0415 # matplotlib, at the end

    put_in_both_themes(partial(draw, summaries, n_objects=n_objects), folder, "ingest")


def draw(summaries: Sequence[Summary], theme: "Theme", *, n_objects: int) -> "Figure":
    """Draw the panels. The best bar of each is coloured. A way without a value has no bar."""
    from pixel_gather_bench.figures.look import draw_bars, new_figure, note_below  # noqa: PLC0415 # as above

    panels = _WHOLE if n_objects == 1 else _WINDOWS
    n_rows = len(panels) // 2
    figure, axes = new_figure(n_rows, 2, height_in=n_rows * (1.1 + 0.26 * len(summaries)))
    names = [each.way.name for each in summaries]
    for position, (ax, (title, (unit, value_of))) in enumerate(zip(axes.flat, panels.items(), strict=True)):
        values = [value_of(each) for each in summaries]
        is_best = max if unit == "MB/s" else min
        draw_bars(ax, names, values, theme, is_best=is_best, missing="none: it only goes forward")
        ax.set(xlabel=unit)
        ax.set_title(title, loc="left")
        if position % 2:
            ax.set_yticklabels([])
    if n_objects == 1:
        note_below(figure, _NOTE, theme)
    return figure


NBYTES: Final = 2 * 2**30
"""Size of the published object."""

OF_2022: Final[dict[str, tuple[str, dict[str, float]]]] = {
    "in-parts": ("boto3 download_file", {"first_sample_s": 21.3}),
    "one-thread": ("boto3 use_threads=False", {"first_sample_s": 156}),
    "s5cmd": ("s5cmd --concurrency 10", {"first_sample_s": 23.1}),
    "aws-cp": ("aws s3 cp, as boto3", {"first_sample_s": 21.3}),
    "pipe": ("FIFO, download_fileobj", {"first_sample_s": 2.31, "sample_s": 0.01, "total_s": 24.7}),
    "get-object": ("get_object", {"first_sample_s": 1.37, "total_s": 119, "random_s": 0.191}),
    "goofys": ("goofys mount", {"first_sample_s": 1.36, "total_s": 27.6, "random_s": 0.149}),
}
"""By our own way that does the same: what the article calls it, and its seconds as far as it has them."""

_OTHER_MOUNTS: Final = ("rclone-mount", "s3fs", "mount-s3")
"""Measured beside goofys, which serves a mount as they do."""

_SECONDS: Final = {
    "first sample": "first_sample_s",
    "a sample": "sample_s",
    "total": "total_s",
    "random read": "random_s",
}


def lines_beside(summaries: Sequence[Summary], *, nbytes: int) -> Iterator[str]:
    """Yield a table: in each cell what was measured here and, behind a bar, what was published."""
    here = {each.way.name: each for each in summaries}
    names = [*(name for name in here if name in OF_2022 or name in _OTHER_MOUNTS)]
    names += [name for name in OF_2022 if name not in here]
    heads = ("way, here | in 2022", *(f"{what}, s" for what in _SECONDS))
    yield "beside the figures published in 2022 (2 GB in 2,048 samples, a local machine, averages of 10)"
    yield from aligned([heads, *(_row_beside(name, here.get(name)) for name in names)])
    if nbytes != NBYTES:
        yield f"the object here has {nbytes:,} bytes, not {NBYTES:,}: totals cannot be compared (see --make)"
    if here:
        soonest = min(here.values(), key=lambda each: each.took.first_sample_s)
        fastest = min(here.values(), key=lambda each: each.took.total_s)
        yield (
            f"first sample soonest: here {soonest.way.title}, in 2022 the goofys mount. "
            f"Least time in all: here {fastest.way.title}, in 2022 the download by boto3 in parts"
        )


def _row_beside(name: str, here: Summary | None) -> tuple[str, ...]:
    title, then = OF_2022.get(name, ("-", {}))
    cells = []
    for what in _SECONDS.values():
        ours = None if here is None else getattr(here if what == "sample_s" else here.took, what)
        cells.append(f"{digits(ours)} | {digits(then.get(what))}")
    return (f"{'-' if here is None else here.way.name} | {title}", *cells)
