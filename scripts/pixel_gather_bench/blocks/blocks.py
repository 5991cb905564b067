"""``pixel-gather bench blocks``: measures every setting in rounds, and writes table and figures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.figures import write_figures
from pixel_gather_bench.blocks.pixels import BlockPixels, as_floats, copy_cube, make_field
from pixel_gather_bench.blocks.sweep import (
    BlockRecord,
    BlockSetting,
    Sweep,
    is_default,
    left_out,
    list_settings,
)
from pixel_gather_bench.blocks.text import as_text
from pixel_gather_bench.blocks.trial import Trials, empty_at_end
from pixel_gather_bench.experiment import about_machine, put_text, rounds


class BlocksRequest(Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    sweep: Sweep
    times: int
    dtype: str
    """Dtype of the field that is made; a cube has its own."""

    cube: str | None
    """Checked href; None for a field that is made."""

    measurement: str | None
    total_mb: float
    place: str
    """Checked href below which cubes are written, each deleted as soon as it is measured."""

    stores: StoreSettings


RECORDS: Final = "blocks.json"
TEXT: Final = "blocks.txt"


class BlocksReport(Struct, frozen=True, kw_only=True):
    """All measurements of one run, or of several runs together."""

    machine: dict[str, Any]
    """From `about_machine`."""

    pixels: tuple[str, ...]
    """What was written: one sentence for each kind of pixels."""

    places: tuple[str, ...]
    """Checked hrefs of where it was written to."""

    records: tuple[BlockRecord, ...]

    def to_text(self) -> str:
        """Return what standard output and ``blocks.txt`` say."""
        return as_text(self.records, pixels=self.pixels, places=self.places, machine=self.machine)


def bench_blocks(
    request: BlocksRequest,
    folder: Path,
    *,
    on_trial: Callable[[BlockSetting, int, int], None] = lambda *_: None,
    on_left_out: Callable[[str], None] = lambda _: None,
) -> BlocksReport:
    """Measure, and write ``blocks.json``, ``blocks.txt`` and the figures.

    The folder is new; the pixels lie there while the benchmark runs. ``on_trial`` is called before each
    measurement with its setting, its number from 1 and how many there are; ``on_left_out`` with a sentence
    for what was asked for and cannot be measured.

    Raises:
        GatherError: The cube or the place refuses, or a process died. What was measured until then is kept.
    """
    place = f"{request.place}/{folder.name}-cubes"
    with empty_at_end(place, request.stores), _pixels(request, folder) as pixels:
        written = {codec: (each.shape, each.dtype) for codec, each in pixels.items()}
        settings = list_settings(request.sweep, written)
        for sentence in left_out(request.sweep, written):
            on_left_out(sentence)
        trials = Trials(place=place, stores=request.stores, pixels_of=lambda setting: pixels[setting.codec])
        report = BlocksReport(
            machine=about_machine(),
            pixels=tuple(dict.fromkeys(each.about for each in pixels.values())),
            places=(request.place,),
            records=(),
        )
        for number, (round_index, setting) in enumerate(rounds(settings, request.times), 1):
            on_trial(setting, number, len(settings) * request.times)
            result = trials.measure(setting)
            record = BlockRecord(setting=setting, round_index=round_index, result=result)
            report = replace(report, records=(*report.records, record))
            put_records(folder, report)
    put_report(folder, report)
    return report


@contextmanager
def _pixels(request: BlocksRequest, folder: Path) -> Iterator[dict[str, BlockPixels]]:
    """Make each codec's pixels, and delete them at the end."""
    file, of_floats = folder / "pixels.npy", folder / "floats.npy"
    cube, total_mb = request.cube, request.total_mb
    try:
        if cube is None:
            pixels = make_field(file, dtype=request.dtype, total_mb=total_mb)
        else:
            measurement, stores = request.measurement, request.stores
            pixels = copy_cube(file, cube, name=measurement, settings=stores, total_mb=total_mb)
        floats = pixels
        if "zfp" in request.sweep.codecs and pixels.dtype not in ("float32", "float64"):
            floats = (
                make_field(of_floats, dtype="float32", total_mb=total_mb)
                if cube is None
                else as_floats(pixels, of_floats)
            )
        yield {codec: floats if codec == "zfp" else pixels for codec in request.sweep.codecs}
    finally:
        for each in (file, of_floats):
            each.unlink(missing_ok=True)


def put_records(folder: Path, report: BlocksReport) -> None:
    """Write what has been measured until now."""
    put_text(folder / RECORDS, msgspec.json.format(msgspec.json.encode(report), indent=1).decode())


def put_report(folder: Path, report: BlocksReport) -> None:
    """Write records, text and figures."""
    put_records(folder, report)
    put_text(folder / TEXT, f"{report.to_text()}\n")
    write_figures(report.records, folder)


def join_reports(folders: Sequence[Path]) -> BlocksReport:
    """Return several runs as one report.

    Raises:
        RequestError: A folder holds no such run, or they are of different machines or pixels.
    """
    reports = [_read_report(folder) for folder in folders]
    first = reports[0].machine
    for folder, report in zip(folders, reports, strict=True):
        if (report.machine["cpu"], report.machine["cores"]) != (first["cpu"], first["cores"]):
            raise RequestError("it is of another machine: speeds cannot be compared", field=str(folder))
    defaults = {each.setting for report in reports for each in report.records if is_default(each.setting)}
    if len({each.codec for each in defaults}) < len(defaults):
        raise RequestError("one codec's runs differ in --total-mb, --dtype or their cube", field="from")
    return BlocksReport(
        machine=first,
        pixels=tuple(dict.fromkeys(each for report in reports for each in report.pixels)),
        places=tuple(dict.fromkeys(each for report in reports for each in report.places)),
        records=tuple(record for report in reports for record in report.records),
    )


def _read_report(folder: Path) -> BlocksReport:
    try:
        report = msgspec.json.decode((folder / RECORDS).read_bytes(), type=BlocksReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"no {RECORDS} of bench blocks can be read there", field=str(folder)) from error
    if not report.records:
        raise RequestError("nothing was measured there", field=str(folder))
    return report
