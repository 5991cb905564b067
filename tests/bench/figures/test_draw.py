"""All figures of one run and of several runs."""

import re
import xml.etree.ElementTree as ET
from copy import replace
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from msgspec.structs import asdict

from bench.figures.made_runs import run_of
from pixel_gather.core.results.run_table import run_columns, table_as_text
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.io.pictures.theme import DARK, LIGHT
from pixel_gather_bench.figures import in_depth, warm_up
from pixel_gather_bench.figures.draw import draw_figures
from pixel_gather_bench.figures.look import Drawn, drawn_in, new_figure, themed_svg, to_png, to_svg
from pixel_gather_bench.figures.numbers import short_label

ALL = ["in_depth", "workers", "one_against_best", "latency_hiding", "throughput", "warm_up"]
MANY = [run_of(concurrency=n) for n in (1, 2, 3, 12, 48)]
COLOUR = "(?<=: )#[0-9a-fA-F]{6}"
HOSTILE = r"</svg><script> $\frac$ & \x00 _a" + "\x00" + "x" * 300


@dataclass(frozen=True, kw_only=True)
class Case:
    """Runs, and the figures that they have data for."""

    id: str
    runs: list[Run]
    names: list[str]


def without(*left_out: str) -> list[str]:
    """Return the names of all figures except these."""
    return [name for name in ALL if name not in left_out]


def idle(n: int) -> Run:
    """Return a run whose sources took no time."""
    zeros = np.zeros(n)
    shard = np.zeros(n, dtype="int64")
    timings = Timings(start_s=zeros, end_s=zeros, open_s=zeros, read_s=zeros, nbytes=shard, shard=shard)
    return replace(run_of(n=2), timings=timings)


def slowing(n: int = 600) -> Run:
    """Return a run with more and more sources in flight."""
    run = run_of(n=n, is_even=True)
    start = np.sqrt(np.arange(n) / 100.0)
    return replace(run, timings=replace(run.timings, start_s=start, end_s=start + run.timings.total_s))


CASES = [
    Case(id="several", runs=MANY, names=ALL),
    Case(id="one whose concurrency varies", runs=[slowing()], names=ALL),
    Case(id="one of even concurrency", runs=[run_of()], names=without("workers")),
    Case(id="none", runs=[], names=[]),
    Case(id="nothing read", runs=[idle(0)], names=[]),
    Case(id="one of them read nothing", runs=[idle(0), run_of()], names=without("workers")),
    Case(id="one source", runs=[run_of(n=1, concurrency=1)], names=without("workers")),
    Case(id="two sources", runs=[run_of(n=2)], names=without("workers")),
    Case(id="no time passed", runs=[idle(5)], names=["in_depth", "one_against_best"]),
    Case(id="all alike", runs=[run_of(is_even=True)], names=without("workers")),
    Case(
        id="headers known before",
        runs=[run_of(open_s=0.0, is_even=True)],
        names=without("workers", "warm_up"),
    ),
    Case(id="same name and concurrency", runs=[run_of(name="a"), run_of(name="a")], names=without("workers")),
    Case(id="names that lie in wait", runs=[run_of(concurrency=n, name=HOSTILE) for n in (1, 48)], names=ALL),
    Case(
        id="two engines, twenty concurrencies each",
        runs=[
            run_of(engine=engine, concurrency=n) for engine in ("fast", "rasterio") for n in range(1, 58, 3)
        ],
        names=ALL,
    ),
]


@pytest.fixture(scope="module")
def published() -> dict[str, str]:
    """The figures of several runs with what was published, light, as SVG by name."""
    drawn = draw_figures(MANY, with_published=True, theme=LIGHT)
    return {name: to_svg(each.figure) for name, each in drawn.items()}


@cache
def unpublished(id_: str) -> dict[str, Drawn]:
    """The figures of a case, light. They are drawn once for all tests."""
    (case,) = (each for each in CASES if each.id == id_)
    return draw_figures(case.runs, with_published=False, theme=LIGHT)


@cache
def unpublished_svg(id_: str) -> dict[str, str]:
    """The same figures as SVG by name."""
    return {name: to_svg(each.figure) for name, each in unpublished(id_).items()}


def titled(title: str) -> Figure:
    """Return a small figure, for what holds of a PNG whatever it shows."""
    with drawn_in(LIGHT):
        figure, axes = new_figure(1, 1, height_in=2.0)
        axes[0, 0].set_title(title)
    return figure


def n_marks(figure: Figure) -> int:
    """Return the smallest number of marks in any axes of a figure, but for those that say "not counted"."""
    told = [ax for ax in figure.axes if [text.get_text() for text in ax.texts] != ["not counted"]]
    return min(len(ax.lines) + len(ax.patches) + len(ax.collections) for ax in told)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.filterwarnings("error")
def test_draw_figures_returns_those_that_the_runs_fill(case: Case) -> None:
    """Only figures with data are drawn, in the page's order, with text and well-formed SVG."""
    drawn = unpublished(case.id)

    assert list(drawn) == case.names
    for name, each in drawn.items():
        assert n_marks(each.figure) > 0
        assert each.title
        assert each.caption.endswith(".")
        svg = unpublished_svg(case.id)[name]
        ET.fromstring(svg)  # noqa: S314 # our own
        assert "<script" not in svg


@pytest.mark.long
def test_draw_figures_marks_what_was_published(published: dict[str, str]) -> None:
    """Throughput and times of 2018 are marked in the figures that have a place for them."""
    names = ("workers", "one_against_best", "throughput")

    captions = [each.caption.replace("of 2018", "") for each in unpublished("several").values()]

    assert all("2018" in published[name] for name in names)
    assert not any("2018" in each for each in [*captions, *unpublished_svg("several").values()])


@pytest.mark.long
def test_figures_follow_their_page(published: dict[str, str]) -> None:
    """A themed figure has no fixed colour."""
    for svg in published.values():
        assert set(re.findall(COLOUR, svg)) <= set(asdict(LIGHT).values())
        assert not re.findall(COLOUR, themed_svg(svg))


@pytest.mark.long
def test_dark_figures_have_dark_colours_alone() -> None:
    """A dark figure has no default colour of matplotlib."""
    for each in draw_figures(MANY, with_published=True, theme=DARK).values():
        assert set(re.findall(COLOUR, to_svg(each.figure))) <= set(asdict(DARK).values())


def test_figures_stand_in_one_page_and_alone(published: dict[str, str]) -> None:
    """Ids are unique over all figures, styles are local, and nothing outside is referenced."""
    svgs = list(published.values())

    ids = [each for svg in svgs for each in re.findall(r' id="([^"]+)"', svg)]
    assert len(set(ids)) == len(ids)
    for svg in svgs:
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', svg)) <= set(ids)
        assert "<style" not in svg
        assert not re.findall(r'(?:href|src)="(?!#)', svg)
        assert not re.findall(r"url\((?!#)", svg)


@pytest.mark.long
def test_figures_are_the_same_bytes_every_time(published: dict[str, str]) -> None:
    """The same report gives the same bytes."""
    again = draw_figures(MANY, with_published=True, theme=LIGHT)

    assert {name: to_svg(each.figure) for name, each in again.items()} == published
    assert to_png(titled("a")) == to_png(titled("a"))


@pytest.mark.long
def test_the_slowest_first_source_is_a_whole_marker() -> None:
    """The axis leaves room above it."""
    drawn = warm_up.draw(MANY, LIGHT)

    assert drawn is not None
    (ax,) = drawn.figure.axes
    highest = max(max(np.asarray(line.get_ydata(), float)) for line in ax.lines)
    assert list(ax.get_ylim()) == pytest.approx([0, 1.05 * highest])


@pytest.mark.long
def test_figures_of_many_sources_stay_small() -> None:
    """All figures of a hundred thousand sources take 1.5 MB of SVG."""
    drawn = draw_figures([run_of(n=100_000, concurrency=256)], with_published=True, theme=LIGHT)

    assert sum(len(to_svg(each.figure)) for each in drawn.values()) < 1_500_000


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_names_in_any_script_are_drawn_without_a_warning() -> None:
    """Missing glyphs print no warning, because the page's fonts have them."""
    names = ["\u65e5\u672c\u8a9e", "\u0e44\u0e17\u0e22 \U0001f389", "\u0627\u0644\u0639", "$x^{$"]
    runs = [run_of(name=name, n=30, concurrency=n) for n, name in enumerate(names, 1)]

    drawn = draw_figures(runs, with_published=False, theme=LIGHT)

    svgs = "".join(to_svg(each.figure) for each in drawn.values())
    assert [name for name in names if name.strip("$") not in svgs] == []
    for name in names:
        assert to_png(titled(short_label(name))).startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_run_whose_sources_took_no_time_is_drawn() -> None:
    """Where clocks are coarse, no source is in flight at any time."""
    runs = [replace(run_of(concurrency=1), concurrency=0), run_of(concurrency=2)]

    assert "workers" in draw_figures(runs, with_published=False, theme=LIGHT)


@pytest.mark.long
@pytest.mark.parametrize("n", [9_999, 12_000, 20_000, 60_000, 100_000, 999_999])
def test_long_counts_along_an_axis_do_not_touch(n: int) -> None:
    """Axes with longer numbers have fewer ticks."""
    with drawn_in(LIGHT):
        figure = in_depth.draw([_long(n)], LIGHT).figure
    figure.draw_without_rendering()

    axis = figure.axes[0].xaxis
    low, high = axis.get_view_interval()
    ticks = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [label.get_window_extent() for label in ticks]
    assert len(boxes) > 1
    assert all(right.x0 - left.x1 > 6 for left, right in pairwise(sorted(boxes, key=lambda box: box.x0)))


def _long(n: int) -> Run:
    run = run_of(n=200)
    times = {name: np.resize(each, n) for name, each in asdict(run.timings).items() if len(each) == 200}
    return replace(run, timings=Timings(**times))


@pytest.mark.long
def test_bytes_that_were_not_counted_are_not_drawn_as_zero() -> None:
    """The panels say so, and the table leaves them out."""
    runs = [run_of(concurrency=n) for n in (4, 8)]
    uncounted = [
        replace(run, timings=replace(run.timings, nbytes=np.zeros_like(run.timings.nbytes))) for run in runs
    ]

    drawn = draw_figures(uncounted, with_published=False, theme=LIGHT)

    assert [text.get_text() for ax in drawn["in_depth"].figure.axes[:3] for text in ax.texts] == [
        "not counted"
    ] * 3
    assert [text.get_text() for text in drawn["workers"].figure.axes[2].texts] == ["not counted"]
    assert "0 bytes" not in table_as_text(run_columns(uncounted, with_published=False))
    assert "MiB/s" not in table_as_text(run_columns(uncounted, with_published=False))


@pytest.mark.long
def test_bytes_of_an_engine_that_counts_none_are_left_out_beside_one_that_does() -> None:
    """No point stands at 0 MiB/s, and a line below says whose bytes were not counted."""
    runs = [run_of(concurrency=n) for n in (4, 8)]
    none = [
        replace(
            run, engine="rasterio", timings=replace(run.timings, nbytes=np.zeros_like(run.timings.nbytes))
        )
        for run in runs
    ]

    drawn = draw_figures([*runs, *none], with_published=True, theme=LIGHT)
    panel = drawn["workers"].figure.axes[2]
    shown = np.concatenate([np.asarray(line.get_ydata(), "float64") for line in panel.lines])

    assert np.isfinite(shown).sum() >= 2 * len(runs)
    assert not (shown == 0).any()
    assert panel.get_xlabel().endswith("rasterio: not counted")
    assert "rasterio: not counted" not in drawn["workers"].figure.axes[0].get_xlabel()


@pytest.mark.long
def test_draw_figures_leaves_out_sources_without_times() -> None:
    """A source without a known time is left out, and the others are drawn."""
    run = run_of(n=50)
    opens = run.timings.open_s.copy()
    opens[7] = np.nan

    drawn = draw_figures(
        [replace(run, timings=replace(run.timings, open_s=opens))], with_published=False, theme=LIGHT
    )

    assert "49 sources" in to_svg(drawn["in_depth"].figure)
