"""``pixel-gather bench ingest``: which way of reading suits a large object, or many windows."""

from pathlib import Path
from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.sources import Sources
from pixel_gather.in_process.places import href_here
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.advice import PATTERNS
from pixel_gather_bench.ingest.ingest import IngestRequest, bench_ingest, make_object
from pixel_gather_bench.ingest.job import WayTrial
from pixel_gather_bench.ingest.ways import WAYS
from pixel_gather_bench.suite.sources import read_hrefs
from pixel_gather_cli.commands.bench_suite_options import OUTPUT_OPTIONS, TO_OPTION, times_option
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.request_options import store_options, stores_of
from pixel_gather_cli.with_options import with_options

_NAMES = tuple(way.name for way in WAYS)


@click.command("ingest")
@click.argument("objects", metavar="OBJECT...", nargs=-1)
@click.option("--sources", metavar="LIST", help="Objects as a list file; - for standard input.")
@click.option("--first", type=click.IntRange(1), metavar="N", help="Only the first N of the list.")
@click.option(
    "--way",
    "ways",
    multiple=True,
    type=click.Choice(_NAMES),
    help="Measure this way. Repeat for more.  [default: all]",
)
@click.option(
    "--pattern",
    type=click.Choice(tuple(PATTERNS)),
    help="Recommend a way for this use of the data.  [default: for each]",
)
@click.option(
    "--sample-bytes",
    type=click.IntRange(1, 2**30),
    metavar="N",
    default=2**20,
    help="Bytes of a sample, of a random read and of a window.  [default: 1048576]",
)
@click.option(
    "--random-reads",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=20,
    help="Ranges read at random.  [default: 20]",
)
@click.option(
    "--ahead",
    type=click.IntRange(1, 256),
    metavar="N",
    default=16,
    help="Ranges in flight when reading ahead.  [default: 16]",
)
@click.option("--mount", metavar="PATH", help="Path of the one OBJECT on a mounted file system.")
@click.option(
    "--make",
    type=click.IntRange(1),
    metavar="N",
    help="Put the one OBJECT there first, of N random bytes, unless it is there: 2147483648 is the published "
    "2 GB. It stays.",
)
@click.option("--reference", is_flag=True, help="Compare with the figures published in 2022.")
@times_option("Rounds.")
@TO_OPTION
@store_options
@with_options(*OUTPUT_OPTIONS)
def bench_ingest_command(*, to: Path, as_json: bool, quiet: bool, **options: Any) -> None:
    """Measure the ways to pull one large object or many windows from object storage.

    One OBJECT (s3://, https://, http:// or a file) is read whole, in order and at random. If there are
    several, one window of each is read. Each way is measured in fresh processes: time to the first sample,
    throughput, random reads, CPU and memory. Ways that this machine lacks are listed with the reason. s5cmd,
    the AWS CLI and rclone come with uv sync --group ingest-tools. FUSE mounts last as long as their
    measurement. In every round, each way reads the whole object once: mind what your provider charges.

    \b
    pixel-gather bench ingest s3://bucket/large.tif
    pixel-gather bench ingest https://host/large.tif --way ahead --way one-stream --times 5
    pixel-gather bench ingest s3://bucket/two-gb.bin --make 2147483648 --reference --times 1
    """
    made = options.pop("make")
    request = _request(options)
    if made is not None:
        _make(request, made)
    outcome = bench_ingest(request, to, on_trial=_show_progress(request, quiet=quiet))
    print_result(outcome.values, outcome.text, as_json=as_json)
    click.echo(f"results in {outcome.folder}", err=True)


def _request(options: dict[str, Any]) -> IngestRequest:
    stores = stores_of(options)
    hrefs = _hrefs(options, stores)
    pattern = options["pattern"]
    if options["mount"] is not None:
        _check_mount(options["mount"], n=len(hrefs))
    if len(hrefs) > 1 and pattern not in (None, "one-window"):
        raise RequestError(
            f"of several objects only one-window is measured, not {pattern}: name a single object",
            field="pattern",
        )
    return IngestRequest(
        hrefs=hrefs,
        stores=stores,
        ways=options["ways"] or _NAMES,
        sample_nbytes=options["sample_bytes"],
        n_random=options["random_reads"],
        most_ahead=options["ahead"],
        times=options["times"],
        mount=options["mount"],
        patterns=tuple(PATTERNS) if pattern is None else (pattern,),
        with_published=options["reference"],
    )


def _make(request: IngestRequest, nbytes: int) -> None:
    if len(request.hrefs) > 1:
        raise RequestError("--make creates one object: give just one", field="make")
    (href,) = request.hrefs
    if not href.startswith(("s3://", "file://")):
        raise RequestError("only a bucket or this machine can be written to", field="make")
    click.echo(f"putting {nbytes:,} bytes, unless they are there: {href}", err=True)
    make_object(href, nbytes, request.stores)


def _hrefs(options: dict[str, Any], stores: StoreSettings) -> tuple[str, ...]:
    named, list_file = options["objects"], options["sources"]
    if bool(named) == bool(list_file):
        raise RequestError("give OBJECTs or --sources, not both", field="OBJECT")
    if list_file:
        return read_hrefs(Sources(list=list_file), first=options["first"], stores=stores)
    return tuple(href_here(each, "OBJECT") for each in named)


def _check_mount(path: str, *, n: int) -> None:
    if n > 1:
        raise RequestError("it is the path of one object: give just one", field="mount")
    if not Path(path).is_file():
        raise RequestError(f"there is no file {path}: give the object's own path", field="mount")


def _show_progress(request: IngestRequest, *, quiet: bool) -> Any:
    def show(trial: WayTrial) -> None:
        if not quiet:
            took = "refused" if trial.measured is None else f"{trial.measured.total_s:,.2f} s"
            click.echo(f"round {trial.round} of {request.times}: {trial.way}: {took}", err=True)

    return show
