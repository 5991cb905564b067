"""``pixel-gather bench threads``: a suite of this project's reader for each back end that a list is on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, to_builtins

from pixel_gather.core.errors import GatherError
from pixel_gather.core.model.window import TileIndex
from pixel_gather.io.store.object_store import split_href
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.experiment import about_machine, put_text
from pixel_gather_bench.suite.job import SuiteJob, TileTarget
from pixel_gather_bench.suite.records import Record, SuiteSettings, read_records, write_settings
from pixel_gather_bench.suite.sources import check_memory, find_target
from pixel_gather_bench.suite.suite import Step, run_job, run_suite
from pixel_gather_bench.threads.figure import write_figure
from pixel_gather_bench.threads.numbers import (
    OF_2016,
    BackEnd,
    BackEndCurve,
    as_text,
    basis,
    by_back_end,
    lines_beside,
    make_curve,
    shorten_job,
    verdict,
)

RECORDS: Final = "threads.json"
TEXT: Final = "threads.txt"


class ThreadsRequest(Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    hrefs: tuple[str, ...]
    """Checked; of any back ends."""

    concurrencies: tuple[int | None, ...]
    """None is found out while reading."""

    times: int
    tile: TileIndex | None
    """None for the one in the middle."""

    band: int
    stores: StoreSettings
    with_published: bool = False
    """Lay the figures published in 2016 beside them."""


class ThreadsReport(Struct, frozen=True, kw_only=True):
    """What came out."""

    curves: tuple[BackEndCurve, ...]
    machine: dict[str, Any]
    with_published: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "machine": self.machine,
            "published": OF_2016 if self.with_published else None,
            "back_ends": [
                to_builtins(curve)
                | {
                    "best": curve.best.at_a_time,
                    "share_of_best": curve.share_of_best,
                    "verdict": verdict(curve),
                    "basis": basis(curve),
                }
                for curve in self.curves
            ],
        }

    def to_text(self) -> str:
        """Return what standard output and ``threads.txt`` say."""
        text = as_text(self.curves, self.machine)
        return "\n".join((text, "", *lines_beside(self.curves))) if self.with_published else text


def bench_threads(
    request: ThreadsRequest,
    folder: Path,
    *,
    on_step: Callable[[BackEnd, Step], None],
    run_one: Callable[[SuiteJob], Record] = run_job,
    find: Callable[..., TileTarget] = find_target,
) -> ThreadsReport:
    """Measure each back end, and write ``threads.json``, ``threads.txt`` and the figure.

    The new folder gets a suite's folder for each back end.

    Raises:
        RequestError: No source has the tile, or the windows do not fit memory.
        GatherError: No run with a fixed number came to its end.
    """
    suites = {kind: _suite(request, hrefs, find) for kind, hrefs in by_back_end(request.hrefs).items()}
    curves = tuple(
        _measure_back_end(folder / kind, kind, settings, hrefs, on_step=on_step, run_one=run_one)
        for kind, (settings, hrefs) in suites.items()
    )
    report = ThreadsReport(curves=curves, machine=about_machine(), with_published=request.with_published)
    put_text(folder / RECORDS, json.dumps(report.to_json(), indent=1))
    put_text(folder / TEXT, f"{report.to_text()}\n")
    write_figure(curves, folder)
    return report


def _suite(
    request: ThreadsRequest, hrefs: tuple[str, ...], find: Callable[..., TileTarget]
) -> tuple[SuiteSettings, tuple[str, ...]]:
    target = find(hrefs, tile=request.tile, band=request.band, stores=request.stores)
    check_memory(target, len(hrefs))
    settings = SuiteSettings(
        engines=("fast",),
        concurrencies=request.concurrencies,
        times=request.times,
        target=target,
        stores=request.stores,
        warm_up=True,
        bucket_warm_up=True,
        header_nbytes=None,
        keep=False,
        best_by="time",
        machine=about_machine(),
    )
    return settings, hrefs


def _measure_back_end(
    folder: Path,
    kind: BackEnd,
    settings: SuiteSettings,
    hrefs: tuple[str, ...],
    *,
    on_step: Callable[[BackEnd, Step], None],
    run_one: Callable[[SuiteJob], Record],
) -> BackEndCurve:
    folder.mkdir()
    write_settings(folder, settings, hrefs)
    run_suite(
        folder,
        settings,
        hrefs,
        on_step=lambda step: on_step(kind, step),
        run_one=lambda job: run_one(shorten_job(job)),
    )
    curve = make_curve(kind, split_href(hrefs[0])[0], read_records(folder))
    if not curve.fixed:
        raise GatherError(f"no run on {kind} came to its end: try fewer sources with --first")
    return curve
