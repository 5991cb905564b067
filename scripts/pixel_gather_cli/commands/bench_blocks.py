"""``pixel-gather bench blocks``: which block size, codec, concurrency and number of processes suit a cube."""

import os
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.in_process.places import check_place, href_here
from pixel_gather_bench.blocks.blocks import RECORDS, BlocksRequest, bench_blocks, join_reports, put_report
from pixel_gather_bench.blocks.sweep import CODECS, SWEEPS, BlockSetting, Sweep
from pixel_gather_bench.experiment import new_folder, removed_if_empty
from pixel_gather_cli.commands.bench_suite_options import OUTPUT_OPTIONS, TO_OPTION, times_option
from pixel_gather_cli.exit_codes import INTERRUPTED
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.request_options import Numbers, store_options, stores_of
from pixel_gather_cli.signals import ends_when_terminated
from pixel_gather_cli.with_options import Option, with_options

_SIZES_MB: Final = "0.64,1.3,2.5,5,10,20,50"
_IN_FLIGHT: Final = "1,2,4,8,16"
_MOST_MB: Final = 500


def _names_option(option: str, known: tuple[str, ...], what: str) -> Option:
    """Return an option that takes some of several names, with commas between them, in any order."""

    def parse(text: str) -> tuple[str, ...]:
        wanted = [part.strip() for part in text.split(",")]
        if unknown := [name for name in wanted if name not in known]:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return tuple(name for name in known if name in wanted)

    all_ = ",".join(known)
    return click.option(option, type=parse, metavar=all_, default=all_, help=f"{what}.  [default: all]")


@click.command("blocks")
@click.option(
    "--cube", metavar="CUBE", help="Use the pixels of this cube, local or on S3.  [default: generated]"
)
@click.option("--measurement", metavar="NAME", help="Measurement of the cube.  [default: its first]")
@click.option(
    "--dtype",
    type=click.Choice(["uint16", "float32"]),
    default="uint16",
    help="Type of the generated pixels; zfp always gets floats.  [default: uint16]",
)
@_names_option("--codecs", CODECS, "Codecs to measure")
@click.option(
    "--zfp-tolerance",
    type=click.FloatRange(0),
    metavar="ERROR",
    default=1e-4,
    help="Largest error with zfp; 0 is lossless.  [default: 0.0001]",
)
@_names_option("--sweeps", SWEEPS, "What to vary")
@click.option(
    "--sizes",
    type=Numbers("MB,...", kind=float),
    default=_SIZES_MB,
    help=f"Decoded block sizes in MB of 1,000,000 bytes.  [default: {_SIZES_MB}]",
)
@click.option(
    "--in-flight",
    type=Numbers("N,...", kind=int),
    default=_IN_FLIGHT,
    help=f"Number of shards written, and of chunks read, at one time.  [default: {_IN_FLIGHT}]",
)
@click.option(
    "--workers",
    type=Numbers("N,...", kind=int),
    help="Processes at one time.  [default: 1,2,4... up to twice the cores]",
)
@click.option(
    "--total-mb",
    type=click.FloatRange(0.01, 100_000),
    metavar="MB",
    default=256.0,
    help="Decoded size of each cube in MB of 1,000,000 bytes.  [default: 256]",
)
@times_option("Rounds.")
@click.option(
    "--place",
    metavar="PLACE",
    help="Folder or s3://bucket/prefix for the cubes, which are deleted again.  [default: below --to]",
)
@TO_OPTION
@click.option(
    "--from",
    "earlier",
    multiple=True,
    metavar="FOLDER",
    help="Measure nothing; join the results of these folders.",
)
@store_options
@with_options(*OUTPUT_OPTIONS)
def bench_blocks_command(*, to: Path, as_json: bool, quiet: bool, **options: Any) -> int:
    """Measure reading and writing a cube by block size, concurrency and worker processes.

    A block is a Zarr chunk. Cubes are written as a gather writes them and read by zarr-python: whole, as
    slices in time, and as series of one pixel. Every measurement runs in fresh processes. All of them take a
    quarter of an hour. Choose some by --codecs and --sweeps, and join results by --from. Only the results are
    kept.

    \b
    pixel-gather bench blocks --codecs blosc-lz4,zstd --sweeps sizes --times 1
    pixel-gather bench blocks --cube cube.zarr --place s3://my-bucket/scratch
    """
    earlier: tuple[str, ...] = options.pop("earlier")
    if earlier:
        report = join_reports([Path(each) for each in earlier])
        folder = new_folder(to, "blocks")
        put_report(folder, report)
    else:
        request = _request(options, to)
        folder = new_folder(to, "blocks")
        try:
            with ends_when_terminated(), removed_if_empty(folder):
                report = bench_blocks(
                    request,
                    folder,
                    on_trial=_show_progress(quiet=quiet),
                    on_left_out=partial(click.echo, err=True),
                )
        except KeyboardInterrupt:
            if not (folder / RECORDS).exists():
                raise
            click.echo(
                f"interrupted; what was measured is shown by: pixel-gather bench blocks --from {folder}",
                err=True,
            )
            return INTERRUPTED
    print_result(report, report.to_text(), as_json=as_json)
    click.echo(f"results in {folder}", err=True)
    return 0


def _request(options: dict[str, Any], to: Path) -> BlocksRequest:
    cores = os.process_cpu_count() or 1
    powers = [2**n for n in range((2 * cores).bit_length())]
    sizes_mb, in_flight, cube = options["sizes"], options["in_flight"], options["cube"]
    workers = options["workers"] or powers
    for field, numbers, most in (
        ("sizes", sizes_mb, _MOST_MB),
        ("in-flight", in_flight, 1024),
        ("workers", workers, 256),
    ):
        if wrong := [number for number in numbers if not 0 < number <= most]:
            raise RequestError(f"{wrong[0]:g} is not above 0 and at most {most:,}", field=field)
    return BlocksRequest(
        sweep=Sweep(
            codecs=options["codecs"],
            sweeps=options["sweeps"],
            sizes_mb=tuple(sizes_mb),
            in_flight=tuple(in_flight),
            workers=tuple(workers),
            zfp_tolerance=options["zfp_tolerance"],
        ),
        times=options["times"],
        dtype=options["dtype"],
        cube=None if cube is None else href_here(cube.rstrip("/"), "cube"),
        measurement=options["measurement"],
        total_mb=options["total_mb"],
        place=check_place(options["place"] or to),
        stores=stores_of(options),
    )


def _show_progress(*, quiet: bool) -> Any:
    def show(setting: BlockSetting, number: int, n: int) -> None:
        if not quiet:
            click.echo(
                f"{number:>4} of {n}: {setting.codec}, blocks of {setting.block_mb:.2f} MB, "
                f"{setting.writes_in_flight}, {setting.reads_in_flight} in flight, "
                f"{setting.n_workers} processes",
                err=True,
            )

    return show
