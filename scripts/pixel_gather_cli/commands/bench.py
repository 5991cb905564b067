"""``pixel-gather bench``: benchmarks. By default, the suite over a list."""

import click

from pixel_gather.core.extras import check_extra
from pixel_gather_cli.lazy_commands import LazyCommands

SUMMARIES = {
    "area": "Measure how fast the links of a box are answered, by many clients at one time.",
    "blocks": "Measure reading and writing a cube by block size, concurrency and worker processes.",
    "ingest": "Measure the ways to pull one large object or many windows from object storage.",
    "suite": "Read one tile of every file in LIST by several engines at several concurrencies.",
    "threads": "Measure how many sources are best read at one time: from files, S3 and HTTP.",
}
"""The benchmarks, each with the first sentence of its help; what one needs is imported with it."""


@click.group(
    "bench",
    cls=LazyCommands,
    summaries=SUMMARIES,
    prefix="bench_",
    default="suite",
    before_import=lambda: check_extra("report", "benchmarks"),
    subcommand_metavar="LIST | COMMAND [ARGS]...",
)
def bench_command() -> None:
    """Measure how fast your files are read, by engine and by number of files read at a time.

    With a LIST, or - for standard input, this runs the suite. Every engine reads one tile of each file at
    every concurrency. Each run is a fresh process. A report follows. The options below are the suite's.
    A COMMAND measures something else; see its --help.

    \b
    pixel-gather bench list.txt --concurrency 1,12,49 --times 3
    pixel-gather bench ingest s3://bucket/large.tif
    """
