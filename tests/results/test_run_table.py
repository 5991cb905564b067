"""The table of one or several runs, line by line as in the published report."""

from copy import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.results.run_table import (
    run_columns,
    shorten_in_middle,
    table_as_text,
    table_rows,
)
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings

RUN = Run(
    name="fast, 2",
    engine="fast",
    concurrency=2,
    digest="aa" * 16,
    window="tile 8_8",
    shape=(512, 256),
    dtype="uint16",
    bands=(1,),
    n_sources=5,
    n_failed=1,
    timings=Timings(
        start_s=np.array([1.0, 1.0, 2.0, 2.0]),
        end_s=np.array([2.0, 2.0, 3.0, 5.0]),
        open_s=np.array([0.1, 0.2, 0.3, 0.4]),
        read_s=np.array([0.3, 0.3, 0.3, 0.6]),
        nbytes=np.array([2**20] * 3 + [2**21]),
        shard=np.zeros(4, dtype="int64"),
    ),
)


def lines_of(*runs: Run, with_published: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the table's cells by label."""
    return {row.label: row.cells for row in table_rows(run_columns(runs, with_published=with_published))}


def test_table_has_every_line_of_the_published_report() -> None:
    """It has the figures of the run. Unknown figures have no line."""
    assert lines_of(RUN) == {
        "engine": ("fast",),
        "window": ("tile 8_8",),
        "band": ("1",),
        "shape and dtype": ("512 x 256 uint16",),
        "sources in flight": ("2",),
        "digest of all pixels": ("aa" * 16,),
        "sources read": ("4 of 5",),
        "data without headers": ("5,242,880 bytes",),
        "bytes per source": ("1,048,576 [1,048,576..2,097,152]",),
        "time per source": ("550.0 [400.0..1,000.0] ms",),
        "  open": ("250.0 [100.0..400.0] ms  45.5%",),
        "  read and decode": ("300.0 [300.0..600.0] ms  54.5%",),
        "total wait": ("2.50 s",),
        "wall time": ("4.00 s",),
        "throughput": ("1.0 sources/s",),
        "  typical": ("1.2 sources/s",),
        "  per source in flight": ("0.6 sources/s",),
        "  data": ("1.2 MiB/s",),
        "failed": ("1",),
    }


def test_table_lays_the_published_figures_beside_a_run() -> None:
    """They are as quoted. Unpublished figures are a dash."""
    lines = lines_of(RUN, with_published=True)

    assert lines["time per source"][1:] == ("53.4 [34.5..1,012.2] ms", "112.1 [42.1..476.1] ms")
    assert lines["  open"][1:] == ("30.9 [15.4..986.2] ms  59.8%", "54.5 [15.8..412.4] ms  52.8%")
    assert lines["  typical"][1:] == ("13.7 sources/s", "371.7 sources/s")
    assert lines["  per source in flight"][2] == "7.6 sources/s"
    assert lines["  data"] == ("1.2 MiB/s", "-", "139.0 MiB/s")
    assert lines["data without headers"][2] == "493,405,576 bytes"
    assert lines["digest of all pixels"][1:] == ("-", "-")


def test_table_tells_cpu_and_memory_where_they_were_measured() -> None:
    """It has these lines if at least one run has the figures."""
    lines = lines_of(replace(RUN, cpu_s=1.5, peak_rss_mib=200.0), RUN)

    assert lines["CPU"] == ("1.50 s", "-")
    assert lines["peak memory"] == ("200 MiB", "-")


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        (("a", "a"), ("compared with", "equal")),
        (("a", "b", "a"), ("compared with", "different", "equal")),
        (("", "a", "b"), ("-", "compared with", "different")),
        (("a", ""), None),
        (("a",), None),
    ],
)
def test_table_says_whether_pixels_are_equal(digests: tuple[str, ...], said: tuple[str, ...] | None) -> None:
    """Equal digests prove it. With fewer than two digests there is no such line."""
    assert lines_of(*(replace(RUN, digest=each) for each in digests)).get("  pixels") == said


def test_text_stands_in_columns_and_shortens_long_names() -> None:
    """Every cell starts at the position of its column's head."""
    long_name = replace(RUN, name="a" * 30 + "b" * 30)

    lines = table_as_text(run_columns([long_name, RUN], with_published=False)).splitlines()

    assert lines[0].split() == ["a" * 18 + "…" + "b" * 17, "fast,", "2"]
    place = lines[0].index("fast, 2")
    assert all(line[place - 2 : place] == "  " and line[place] != " " for line in lines)


def test_text_of_many_runs_goes_on_below() -> None:
    """Four runs are side by side. All are compared with the first one."""
    runs = [replace(RUN, name=f"run {n}", digest="a" if n < 5 else "b") for n in range(6)]

    blocks = table_as_text(run_columns(runs, with_published=False)).split("\n\n")

    assert len(blocks) == 2
    assert blocks[1].splitlines()[0].split() == ["run", "4", "run", "5"]
    assert "  pixels               equal" in blocks[1]
    assert "different" in blocks[1]


def test_table_of_a_run_that_read_nothing_divides_by_nothing() -> None:
    """All figures are zero."""
    empty: Any = np.array([])
    timings = Timings(start_s=empty, end_s=empty, open_s=empty, read_s=empty, nbytes=empty, shard=empty)

    column = replace(RUN, timings=timings, concurrency=0).column

    assert (column.times.wall_s, column.times.typical_per_s, column.open_share, column.by_wall_per_s) == (
        0,
        0,
        0,
        0,
    )
    assert "0.0 sources/s" in table_as_text([column])


@given(text=st.text(max_size=60), most=st.integers(3, 40))
def test_shortened_keeps_both_ends(text: str, most: int) -> None:
    """It is never longer than requested."""
    short = shorten_in_middle(text, most)

    assert len(short) <= most
    assert short == text if len(text) <= most else (short[0], short[-1]) == (text[0], text[-1])
