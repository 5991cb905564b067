"""``pixel-gather report``: one gather's page, or several gathers and benchmarks side by side."""

from collections.abc import Sequence
from copy import replace
from pathlib import Path
from typing import Any

import click

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.results.report_content import Evidence, names_apart
from pixel_gather.core.results.timed_run import Run
from pixel_gather.in_process.places import check_place, refuse_within_cube, show_place
from pixel_gather.io.store.object_store import Store, open_to_read, split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.browser import open_option, open_page
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import folder_here, in_home, store_options, stores_of

_CUBE = "zarr.json"
_BENCHMARK = "settings.json"
"""Files that only a cube's folder has, and only a benchmark's."""

_OTHER_BENCHMARKS = ("ingest.txt", "blocks.txt", "threads.txt")
"""What those beside the suite leave: a report already."""


type _PlaceContent = Evidence | tuple[Run, ...]
"""A cube, or the runs of a benchmark."""


@click.command("report")
@click.argument("places", metavar="PLACE...", nargs=-1, required=True)
@click.option("--reference", is_flag=True, help="Compare with the figures published in 2018.")
@click.option(
    "--to",
    required=True,
    metavar="DIR",
    callback=folder_here,
    help="Folder for the page, the texts and the figures.",
)
@open_option
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of the table.")
@store_options
@with_progress("drawing")
def report_command(
    *, places: tuple[str, ...], reference: bool, to: Path, opens: bool, as_json: bool, **options: Any
) -> None:
    """Compare finished gathers and benchmarks: a page, a table and all figures.

    Each PLACE is a cube, a folder or s3://bucket/prefix, or the folder of a benchmark. One cube gets its
    whole report; several places become columns of one table. DIR gets report.html, report.txt and
    report.json. With several places or --reference it gets the figures of how they were read, too: PNG and
    SVG, light and dark. Files of an earlier report are replaced.

    \b
    pixel-gather report out/bolzano.zarr --reference --to out/report
    pixel-gather report out/cold.zarr out/warm.zarr --to out/compared
    """
    check_extra("report", "report pages")
    settings = stores_of(options)
    found = [_find_place(place, settings) for place in places]
    folder = _make_folder(to)
    try:
        files, figures = _write_report(folder, found, places, with_published=reference)
    except OSError as error:
        raise StoreError(f"{to} cannot be written to: {error.strerror}; choose another folder") from error
    click.echo(files["report.json" if as_json else "report.txt"].decode().rstrip())
    others = ", ".join(sorted(set(files) - {"report.html"}))
    click.echo(f"page     {folder / 'report.html'} (with {others})", err=True)
    if figures:
        click.echo(f"figures  {', '.join(figures)}: PNG and SVG, light and dark", err=True)
    if opens:
        open_page(str(folder / "report.html"))


def _find_place(place: str, settings: StoreSettings) -> _PlaceContent:
    """Read a cube, or the runs of a benchmark where the folder holds no cube.

    Raises:
        RequestError: Neither is there.
        StoreError: The cube is not complete, or cannot be read.
    """
    href = _check_href(place)
    root, path = split_href(href)
    if root == "file://":
        refuse_within_cube(Path(f"/{path}"), field="cube")
    if root == "file://" and (folder := Path(f"/{path}")) and not (folder / _CUBE).exists():
        return _runs_of_benchmark(folder, place)
    from pixel_gather.features.report.cube_evidence import read_evidence  # noqa: PLC0415 # --help is spared half a second

    return read_evidence(_open_store(href, settings), place=show_place(href))


def _check_href(place: str) -> str:
    """Return the href of a bucket's folder, or of one of this machine, however its path is written."""
    try:
        whole = place if "://" in place else str(Path(in_home(place)).resolve())
        return check_place(whole, field="cube", is_read=True)
    except RequestError as error:
        raise RequestError(
            f"a cube cannot be at this address: {error.__cause__ or error}", field=place
        ) from error


def _open_store(href: str, settings: StoreSettings) -> Store:
    try:
        return open_to_read(href, settings)
    except ValueError as error:
        raise StoreError(f"{href} cannot be reached: {error}") from error


def _runs_of_benchmark(folder: Path, place: str) -> tuple[Run, ...]:
    if not folder.is_dir():
        raise RequestError("there is no such folder; name a cube or a benchmark's folder", field=place)
    for report in _OTHER_BENCHMARKS:
        if (folder / report).is_file():
            raise RequestError(f"it has a report already: {report}, and the figures beside it", field=place)
    if not (folder / _BENCHMARK).is_file():
        raise RequestError("it contains neither a cube nor a benchmark", field=place)
    from pixel_gather_bench.suite.records import runs_in  # noqa: PLC0415 # most reports are of cubes

    return tuple(runs_in(folder))


def _write_report(
    folder: Path, found: Sequence[_PlaceContent], places: Sequence[str], *, with_published: bool
) -> tuple[dict[str, bytes], list[str]]:
    """Write one cube's report, or the comparison; return the texts and the figures' names."""
    from pixel_gather.features.report.report_files import make_comparison_files, report_files_of  # noqa: PLC0415 # as above
    from pixel_gather_bench.figures.draw import put_figures  # noqa: PLC0415 # as above

    names = iter(names_apart([each.place for each in found if isinstance(each, Evidence)]))
    found = [_rename(each, next(names)) if isinstance(each, Evidence) else each for each in found]
    evidences = [each for each in found if isinstance(each, Evidence)]
    runs = [run for each in found for run in ([each.run] if isinstance(each, Evidence) else each)]
    is_one_cube = len(found) == 1 and bool(evidences)
    # One gather's report has figures only beside those of 2018.
    drawn = runs if with_published or not is_one_cube else []
    plots = put_figures(drawn, folder, with_published=with_published)
    if is_one_cube:
        files = report_files_of(evidences[0], plots=plots, with_published=with_published)
    else:
        files = make_comparison_files(
            runs,
            plots=plots,
            evidences=evidences,
            title=places[0] if len(places) == 1 else f"{len(runs):,} runs side by side",
            with_published=with_published,
        )
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files, [plot.name for plot in plots]


def _rename(evidence: Evidence, name: str) -> Evidence:
    return replace(evidence, name=name, run=replace(evidence.run, name=name))


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}; choose another folder") from error
    return folder
