"""Kept statistics of a deployment: one SQLite file for each area, expression, mask and statistic, on S3.

A ranking copies the file to /tmp, and copies it back if it has measured anything. If two rankings of the same
area end at one time, the later copy stays. What the other one has measured is then measured again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_lambda_powertools import Logger

from pixel_gather.core.errors import StoreError
from pixel_gather.core.stores import ControlStore
from pixel_gather.features.rank.kept_statistics import SqliteStatistics
from pixel_gather.features.rank.ranking_request import RankingRequest

_logger = Logger()


@asynccontextmanager
async def open_kept_statistics(
    results: ControlStore, request: RankingRequest
) -> AsyncIterator[SqliteStatistics]:
    """Open the statistics that are kept for one ranking, and store them again at the end of the context.

    If the store refuses, the ranking goes on without them, and the log says why.
    """
    inputs = request.inputs_digest()
    key = f"statistics/{inputs}.sqlite"
    before = None
    try:
        before = await results.get(key)
    except StoreError as error:
        _logger.warning("kept statistics are not read", exc_info=error)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kept.sqlite"
        if before is not None:
            path.write_bytes(before)
        kept = _open_file(path, inputs)
        try:
            with kept:
                yield kept
        finally:  # also what a ranking has measured that ran out of time
            if kept.n_put:
                await _store(results, key, path.read_bytes())


async def _store(results: ControlStore, key: str, content: bytes) -> None:
    try:
        await results.put(key, content)
    except StoreError as error:
        _logger.warning("statistics are not kept", exc_info=error)


def _open_file(path: Path, inputs: str) -> SqliteStatistics:
    try:
        return SqliteStatistics(path, inputs=inputs)
    except StoreError:  # no file of ours: everything is measured anew
        path.unlink(missing_ok=True)
        return SqliteStatistics(path, inputs=inputs)
