"""``pixel-gather bench LIST``: one tile of every file, by every engine, many at a time; then the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pixel_gather_bench.suite.records import Record, read_list, read_records, read_settings
from pixel_gather_bench.suite.suite import Step, run_suite, write_suite_report
from pixel_gather_bench.suite.table import group_by_digest, suite_to_json
from pixel_gather_cli.commands.bench_suite_options import (
    OUTPUT_OPTIONS,
    TO_OPTION,
    begin_suite,
    check_resume,
    suite_options,
)
from pixel_gather_cli.commands.bench_suite_text import failure_lines, open_run_bar, table_text, warning_of
from pixel_gather_cli.exit_codes import INTERRUPTED
from pixel_gather_cli.json_output import print_json
from pixel_gather_cli.request_options import store_options
from pixel_gather_cli.with_options import with_options


@click.command("suite")
@suite_options
@store_options
@TO_OPTION
@click.option("--resume", metavar="FOLDER", help="Do the missing runs of this folder. Give no LIST.")
@click.option("--reference", is_flag=True, help="Compare with the figures published in 2018.")
@click.option(
    "--no-report", is_flag=True, help="Write no report. 'pixel-gather report FOLDER --to DIR' does it later."
)
@with_options(*OUTPUT_OPTIONS)
def bench_suite_command(
    *,
    resume: str | None,
    reference: bool,
    no_report: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Read one tile of every file in LIST by several engines at several concurrencies.

    LIST is a list file, or - for standard input. Every run is a process that holds all tiles in
    memory. Engines and concurrencies take turns. The folder gets the list, a record of each run, the report
    and its figures. --resume continues a suite that was stopped.

    \b
    pixel-gather bench list.txt --concurrency 1,12,49
    pixel-gather bench list.txt --engine fast --concurrency 1-56:5 --times 1
    """
    if resume is None:
        folder = begin_suite(options)
    else:
        check_resume(options)
        folder = Path(resume)
    try:
        crashes = _run(folder, quiet=quiet)
        records = read_records(folder)
        code = _tell(folder, records, crashes, as_json=as_json)
        if records and not no_report:
            write_suite_report(folder, with_published=reference)
            click.echo(f"{'report':<22} {folder / 'report.html'}", err=as_json)
    except KeyboardInterrupt:
        click.echo(f"interrupted; for the missing runs: pixel-gather bench --resume {folder}", err=True)
        return INTERRUPTED
    return code


def _run(folder: Path, *, quiet: bool) -> list[str]:
    """Do what is missing and return what crashed."""
    settings, hrefs, crashes = read_settings(folder), read_list(folder), list[str]()
    read_records(folder)  # fails now, not after hours, if a record cannot be read
    with open_run_bar(quiet=quiet) as show:

        def note(step: Step) -> None:
            show(step)
            if step.crash is not None:
                crashes.append(step.crash)

        run_suite(folder, settings, hrefs, on_step=note)
    return crashes


def _tell(folder: Path, records: Sequence[Record], crashes: Sequence[str], *, as_json: bool) -> int:
    """Print what was found, and return the exit code."""
    best_by = read_settings(folder).best_by
    for line in (*failure_lines(records, read_list(folder)), *crashes):
        click.echo(line, err=True)
    if as_json:
        print_json(suite_to_json(records, best_by, folder=str(folder), crashes=crashes))
    elif records:
        click.echo(table_text(records, best_by))
    warning = warning_of(group_by_digest(records))
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)
    has_failures = any(record.failures for record in records)
    return 1 if crashes or warning is not None or has_failures else 0
