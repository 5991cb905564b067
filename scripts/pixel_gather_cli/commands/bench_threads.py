"""``pixel-gather bench threads``: how many sources are best read at one time, by back end."""

from pathlib import Path
from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.sources import Sources
from pixel_gather_bench.experiment import new_folder, removed_if_empty
from pixel_gather_bench.suite.records import Record
from pixel_gather_bench.suite.sources import read_hrefs
from pixel_gather_bench.suite.suite import Step
from pixel_gather_bench.threads.numbers import BACK_ENDS, BackEnd, by_back_end
from pixel_gather_bench.threads.threads import ThreadsRequest, bench_threads
from pixel_gather_cli.commands.bench_suite_options import (
    OUTPUT_OPTIONS,
    TILE_OPTIONS,
    TO_OPTION,
    parse_concurrencies_option,
    tile_of,
    times_option,
)
from pixel_gather_cli.commands.bench_suite_text import failure_lines
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.request_options import store_options, stores_of
from pixel_gather_cli.with_options import with_options


@click.command("threads")
@click.argument("lists", metavar="LIST...", nargs=-1, required=True)
@click.option("--first", type=click.IntRange(1), metavar="N", help="Only the first N files of each LIST.")
@with_options(*TILE_OPTIONS)
@click.option(
    "--concurrency",
    "concurrencies",
    type=parse_concurrencies_option,
    metavar="N,N-N:STEP,...",
    default="1,2,4,8,16,32,64,128,auto",
    help="Files read at one time, and auto, with which the reader adapts.  "
    "[default: 1,2,4,8,16,32,64,128,auto]",
)
@times_option("Runs of each.")
@click.option("--reference", is_flag=True, help="Compare with the figures published in 2016.")
@store_options
@TO_OPTION
@with_options(*OUTPUT_OPTIONS)
def bench_threads_command(
    *, lists: tuple[str, ...], to: Path, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Measure how many sources are best read at one time: from files, S3 and HTTP.

    The files of all LISTs are grouped by back end. One tile of each file is read, once with each number that
    you give and once with 'auto'. With 'auto' the reader adapts the number, as in a gather. Every run is a
    process of its own. Runs with fewer than 8 files at a time read only the first 128 files.

    \b
    pixel-gather bench threads list.txt
    pixel-gather bench threads local.txt s3.txt --first 512 --concurrency 1,8,32,auto --times 1 --unsigned
    """
    if not any(options["concurrencies"]):
        raise RequestError("give numbers too: auto is compared with them", field="--concurrency")
    request = _request(lists, options)
    folder = new_folder(to, "threads")
    crashes: list[str] = []
    records: dict[BackEnd, list[Record]] = {}

    def note(back_end: BackEnd, step: Step) -> None:
        if step.crash is not None:
            crashes.append(step.crash)
        if step.record is not None:
            records.setdefault(back_end, []).append(step.record)
        if not quiet:
            click.echo(f"{BACK_ENDS[back_end]}: {step.n_done} of {step.n_runs}, {step.name}", err=True)

    with removed_if_empty(folder):
        report = bench_threads(request, folder, on_step=note)
    hrefs_at = by_back_end(request.hrefs)
    failures = [line for at, its in records.items() for line in failure_lines(its, hrefs_at[at])]
    for line in (*failures, *crashes):
        click.echo(line, err=True)
    print_result(report.to_json(), report.to_text(), as_json=as_json)
    click.echo(f"results in {folder}", err=True)
    return 1 if crashes or failures else 0


def _request(lists: tuple[str, ...], options: dict[str, Any]) -> ThreadsRequest:
    stores = stores_of(options)
    found = (
        read_hrefs(Sources.model_validate(each), first=options["first"], stores=stores) for each in lists
    )
    return ThreadsRequest(
        hrefs=tuple(href for hrefs in found for href in hrefs),
        concurrencies=options["concurrencies"],
        times=options["times"],
        tile=tile_of(options["block"]),
        band=options["band"],
        stores=stores,
        with_published=options["reference"],
    )
