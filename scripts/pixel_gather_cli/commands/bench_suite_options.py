"""The options of ``pixel-gather bench LIST``, and the folder that a suite begins with."""

from pathlib import Path
from typing import Any, get_args

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import TileIndex
from pixel_gather.core.request.sources import Sources
from pixel_gather_bench.experiment import about_machine, new_folder
from pixel_gather_bench.suite.job import ENGINES, MOST, EngineName, parse_concurrencies
from pixel_gather_bench.suite.records import BestBy, SuiteSettings, write_settings
from pixel_gather_bench.suite.sources import check_memory, find_target, read_hrefs
from pixel_gather_cli.json_output import json_option
from pixel_gather_cli.option_names import is_given
from pixel_gather_cli.request_options import Tile, folder_here, stores_of
from pixel_gather_cli.with_options import Option, with_options


def _parse_engines(text: str) -> tuple[str, ...]:
    """Return the names of engines, each once."""
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in ENGINES]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(ENGINES)}")
    return names


def parse_concurrencies_option(text: str) -> tuple[int | None, ...]:
    """Return numbers, also those of ranges; None for ``auto``."""
    try:
        return parse_concurrencies(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


TILE_OPTIONS = (
    click.option(
        "--block", type=Tile(), default="centre", help="A tile: its column and row.  [default: centre]"
    ),
    click.option(
        "--band", type=click.IntRange(1), default=1, metavar="N", help="Band of each file.  [default: 1]"
    ),
)
TO_OPTION = click.option(
    "--to",
    default="out/bench",
    metavar="DIR",
    callback=folder_here,
    help="Folder for the results.  [default: out/bench]",
)
OUTPUT_OPTIONS = (
    json_option,
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def times_option(help_: str) -> Option:
    """Return the option ``--times``."""
    return click.option(
        "--times", type=click.IntRange(1, 100), default=3, metavar="N", help=f"{help_}  [default: 3]"
    )


def tile_of(block: Any) -> TileIndex | None:
    """Return the tile of ``--block``, or None for the one in the middle."""
    if block == "centre":
        return None
    column, row = block
    return TileIndex(column=column, row=row)


suite_options = with_options(
    click.argument("list_file", metavar="[LIST]", required=False),
    click.option(
        "--prefix", metavar="PREFIX", help="All files below a folder or s3://bucket/prefix, not a LIST."
    ),
    click.option("--glob", metavar="PATTERN", help="Match the path below the prefix, such as '**/*_B4.TIF'."),
    click.option("--regex", metavar="PATTERN", help="Search this regular expression in the whole href."),
    click.option("--first", type=click.IntRange(1), metavar="N", help="Only the first N files."),
    *TILE_OPTIONS,
    click.option(
        "--engine",
        "engines",
        type=_parse_engines,
        metavar="NAME,...",
        default="fast,rasterio",
        help="fast: this project's reader. rasterio: GDAL in threads.  [default: fast,rasterio]",
    ),
    click.option(
        "--concurrency",
        "concurrencies",
        type=parse_concurrencies_option,
        metavar="N,N-N:STEP,...",
        default="1,2,3,6,12,24,49,auto",
        help=f"Files read at one time, up to {MOST}: numbers, ranges such as 1-56:5, and auto, "
        "with which fast adapts while reading.  [default: 1,2,3,6,12,24,49,auto]",
    ),
    times_option("Runs of each."),
    click.option(
        "--best-by",
        type=click.Choice(get_args(BestBy.__value__)),
        default="throughput",
        help="Show the run with the best throughput, or the best wall time.  [default: throughput]",
    ),
    click.option(
        "--warm-up/--no-warm-up",
        default=True,
        help="Read one file before the clock of a run starts.  [default: warm-up]",
    ),
    click.option("--bucket-warm-up", is_flag=True, help="Read every tile once before the first run."),
    click.option(
        "--header-bytes",
        "header_nbytes",
        type=click.IntRange(16, 16 * 2**20),
        metavar="N",
        help="Bytes of the first read of each file.  [default: each engine's own]",
    ),
    click.option("--keep", is_flag=True, help="Keep the pixels as .npy, shape (file, y, x)."),
)
"""Adds the options of a suite."""


def check_resume(options: dict[str, Any]) -> None:
    """Refuse options that the folder of a suite already sets."""
    if any(map(is_given, options)):
        raise RequestError("the folder sets what to run: give no LIST and no such options", field="--resume")


def begin_suite(options: dict[str, Any]) -> Path:
    """Create the folder of a suite, with its settings and its list, and return it."""
    engines: tuple[EngineName, ...] = options["engines"]
    if options["concurrencies"] == (None,) and engines == ("rasterio",):
        raise RequestError("rasterio needs numbers: only fast has auto", field="--concurrency")
    stores = stores_of(options)
    hrefs = read_hrefs(_sources_of(options), first=options["first"], stores=stores)
    target = find_target(hrefs, tile=tile_of(options["block"]), band=options["band"], stores=stores)
    check_memory(target, len(hrefs))
    same = (
        *("engines", "concurrencies", "times", "warm_up", "bucket_warm_up"),
        *("header_nbytes", "keep", "best_by"),
    )
    settings = SuiteSettings(
        target=target, stores=stores, machine=about_machine(), **{name: options[name] for name in same}
    )
    folder = new_folder(options["to"], "suite")
    write_settings(folder, settings, hrefs)
    return folder


def _sources_of(options: dict[str, Any]) -> Sources:
    list_file, prefix, glob, regex = (options[name] for name in ("list_file", "prefix", "glob", "regex"))
    if (list_file is None) == (prefix is None):
        raise RequestError("give a LIST, or --prefix, or --resume", field="bench")
    if list_file is not None and (glob or regex):
        raise RequestError("use --glob and --regex only with --prefix", field="bench")
    if glob and regex:
        raise RequestError("give --glob or --regex, not both", field="bench")
    if list_file is not None:
        return Sources.model_validate(list_file)
    return Sources(prefix=prefix, glob=glob, regex=regex)
