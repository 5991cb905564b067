"""Statistics of earlier rankings, in one SQLite file: a later ranking reads only what is not kept."""

import json
import sqlite3
from collections.abc import Sequence
from os import PathLike
from typing import Any, Final, Self

import msgspec
from msgspec.structs import asdict

from pixel_gather.core.errors import SourceError, StoreError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.ports import SourceLimiter
from pixel_gather.core.task_group import all_of
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.io.store.fetched import Ranges

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS file (href TEXT PRIMARY KEY, etag TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS statistic (
    inputs TEXT, parts TEXT, step TEXT, etags TEXT, measured TEXT, PRIMARY KEY (inputs, parts, step)
) WITHOUT ROWID;
"""


class SqliteStatistics:
    """Statistics by file, version, area, mask, expression, statistic and level.

    An entry counts as long as no ranking has seen another version of one of its files. Nobody asks the store
    whether there is one: `known_etag` lets the caller do so.
    """

    def __init__(self, path: str | PathLike[str], *, inputs: str) -> None:
        """Open the file, or make it.

        The inputs are the `RankingRequest.inputs_digest` of this ranking.

        Raises:
            StoreError: It cannot be opened, or is no such file.
        """
        self._inputs = inputs
        self._path = path
        self.n_put = 0
        """Entries that were kept since the file was opened."""

        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")  # a lost entry is measured anew
            self._database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            said = f"{path}: the kept statistics cannot be opened: {error}; name another file"
            raise StoreError(said) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._database.close()

    def get(self, scene: RankScene, *, step: str) -> MeasuredScene | None:
        """Return what was measured of a scene at a step, if its files are still those; None otherwise."""
        row = self._one(
            "SELECT etags, measured FROM statistic WHERE inputs = ? AND parts = ? AND step = ?",
            (self._inputs, scene.parts_key, step),
        )
        if row is None or json.loads(row[0]) != [self.known_etag(href) for href in scene.hrefs]:
            return None
        # earlier versions wrote what is not finite as a text
        return msgspec.convert(json.loads(row[1]), MeasuredScene, strict=False)

    def put(self, scene: RankScene, *, step: str, measured: MeasuredScene) -> None:
        """Keep what was measured, and note the versions of the scene's files."""
        try:
            self._database.execute("BEGIN")
            for href, etag in zip(scene.hrefs, measured.etags, strict=True):
                self._database.execute("INSERT OR REPLACE INTO file VALUES (?, ?)", (href, etag))
            self._database.execute(
                "INSERT OR REPLACE INTO statistic VALUES (?, ?, ?, ?, ?)",
                (
                    self._inputs,
                    scene.parts_key,
                    step,
                    json.dumps(measured.etags),
                    json.dumps(asdict(measured)),
                ),
            )
            self._database.execute("COMMIT")
            self.n_put += 1
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: statistics cannot be kept: {error}") from error

    def known_etag(self, href: str) -> str | None:
        """Return the version of a file that was seen last; None if it never was, or the store has none."""
        row = self._one("SELECT etag FROM file WHERE href = ?", (href,))
        return None if row is None else row[0]

    def drop(self, href: str) -> None:
        """Forget the version of a file, and with it what was measured of it."""
        self._database.execute("DELETE FROM file WHERE href = ?", (href,))

    def _one(self, query: str, values: tuple[str, ...]) -> Any:
        try:
            return self._database.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: the kept statistics cannot be read: {error}") from error


async def drop_replaced(
    scenes: Sequence[RankScene],
    kept: SqliteStatistics,
    *,
    objects: Ranges,
    limiter: SourceLimiter,
    most_ahead: int,
) -> None:
    """Drop the kept statistics of files that have been replaced, by reading one byte of each.

    Files of which nothing is kept are not asked for.
    """

    async def check(href: str) -> None:
        known = kept.known_etag(href)
        if known is None:
            return
        try:
            async with limiter.permit(href, weight=1):
                fetched = await objects.get_range(href, 0, 1, etag=None, cost=Cost())
        except SourceError:
            kept.drop(href)
            return
        if fetched.etag != known:
            kept.drop(href)

    hrefs = {href: None for scene in scenes for href in scene.hrefs}
    await all_of((check(href) for href in hrefs), at_once=most_ahead)
