"""One run: an engine reads all sources once."""

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from pixel_gather.core import process_usage
from pixel_gather.core.read.measure_rows import digest_of
from pixel_gather.io.atomic_write import replacing
from pixel_gather_bench.experiment import about_machine
from pixel_gather_bench.suite.job import SuiteJob
from pixel_gather_bench.suite.records import Record
from pixel_gather_bench.suite.source_times import Sheet


def do(job: SuiteJob) -> Record:
    """Read all sources and return the record."""
    engine = import_module(f"pixel_gather_bench.suite.engine_{job.configuration.engine}")
    out = np.empty((len(job.hrefs), *job.target.shape), job.target.dtype)
    out[:] = 0  # in a virtual machine a page's first touch costs as much as decoding a tile
    sheet = Sheet(len(job.hrefs))
    began = datetime.now(UTC)
    gdal = engine.read_all(job, out, sheet)
    peak_rss_mib = process_usage.peak_rss_mib()
    for failure in sheet.failures:
        out[failure.position] = 0
    digest = digest_of_all(out)
    if job.keep_in is not None:
        _keep(out, Path(job.keep_in), digest)
    return Record(
        job=job.without_hrefs(),
        machine=about_machine(),
        gdal=gdal,
        began=began.isoformat(timespec="seconds"),
        n_sources=len(job.hrefs),
        digest=digest,
        wall_s=sheet.wall_s,
        cpu_s=sheet.cpu_s,
        peak_rss_mib=peak_rss_mib,
        columns=sheet.columns,
        failures=tuple(sorted(sheet.failures, key=lambda each: each.position)),
    )


def digest_of_all(pixels: np.ndarray[Any, Any]) -> str:
    """Return the digest of all pixels. A cube of one measurement with the same rows reports the same digest.

    They are (source, y, x). Rows of sources that failed hold 0.
    """
    rows = xxhash.xxh3_128()
    for row in pixels:
        rows.update(digest_of(row).encode())
    return xxhash.xxh3_128_hexdigest(rows.hexdigest().encode())


def _keep(pixels: np.ndarray[Any, Any], folder: Path, digest: str) -> None:
    """Write the pixels. Runs with the same digest share one file."""
    file = folder / f"{digest}.npy"
    if file.exists():
        return
    folder.mkdir(exist_ok=True)
    with replacing(file) as partial:
        np.save(partial, pixels, allow_pickle=False)
