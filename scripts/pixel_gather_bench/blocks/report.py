"""The files of ``bench blocks``, and how several runs become one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from pixel_gather.core.errors import RequestError
from pixel_gather_bench.bench_folder import put_text
from pixel_gather_bench.blocks.figures import write_figures
from pixel_gather_bench.blocks.setting import BlockRecord
from pixel_gather_bench.blocks.sweep import is_default
from pixel_gather_bench.blocks.text import as_text

RECORDS: Final = "blocks.json"
TEXT: Final = "blocks.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksReport:
    """All measurements of one run, or of several runs together."""

    machine: dict[str, Any]
    """From `about_machine`."""

    pixels: tuple[str, ...]
    """What was written: one sentence for each kind of pixels."""

    places: tuple[str, ...]
    """Checked hrefs of where it was written to."""

    records: tuple[BlockRecord, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    def to_text(self) -> str:
        """Return what standard output and ``blocks.txt`` say."""
        return as_text(self.records, pixels=self.pixels, places=self.places, machine=self.machine)


def put_records(folder: Path, report: BlocksReport) -> None:
    """Write what has been measured until now."""
    put_text(folder / RECORDS, msgspec.json.format(msgspec.json.encode(report), indent=1).decode())


def put_report(folder: Path, report: BlocksReport) -> None:
    """Write records, text and figures."""
    put_records(folder, report)
    put_text(folder / TEXT, f"{report.to_text()}\n")
    write_figures(report.records, folder)


def joined(folders: Sequence[Path]) -> BlocksReport:
    """Return several runs as one report.

    Raises:
        RequestError: A folder holds no such run, or they are of different machines or pixels.
    """
    reports = [_read(folder) for folder in folders]
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


def _read(folder: Path) -> BlocksReport:
    try:
        report = msgspec.json.decode((folder / RECORDS).read_bytes(), type=BlocksReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"no {RECORDS} of bench blocks can be read there", field=str(folder)) from error
    if not report.records:
        raise RequestError("nothing was measured there", field=str(folder))
    return report
