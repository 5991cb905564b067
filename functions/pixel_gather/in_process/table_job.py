"""Runs a table job in this process: every image of the list, then the table."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from pixel_gather.core.errors import BudgetError, RequestError, SourceError, StaleHeaderError, StoreError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import Cost, CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.in_process.job import Job
from pixel_gather.in_process.progress import Progress
from pixel_gather.tables.features import Features, Integers
from pixel_gather.tables.forecast import ReadForecast
from pixel_gather.tables.open_scene import ImagePlan
from pixel_gather.tables.parts import ImageRecord, Lines, PartFolder
from pixel_gather.tables.write_table import Written, write_table
from pixel_gather.version import __version__

_SAMPLES: Final = 8
"""Images that a plan opens."""

_CPU_PER_IMAGE_S: Final = 5e-3
"""Python and NumPy around an image."""

_CPU_PER_LINE_S: Final = 2e-6
"""From pixel to Parquet. Measured on x86 for points: docs/points-and-zones.md."""


class ImageWork(Protocol):
    """What a job does with one image."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""

    async def measure(
        self, row: CubeRow, members: Integers | None, *, cost: Cost
    ) -> tuple[ImageRecord, Lines]:
        """Return the lines of an image.

        Args:
            row: Of the list.
            members: The features that are wanted; None for all.
            cost: Is added to.

        Raises:
            SourceError: A file cannot be read.
        """

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take. Reads headers, and no pixel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What a table would take, from the headers of some of its images."""

    n_features: int
    n_images: int
    """Images that would be opened."""

    n_far: int
    """Images that would not be opened: they are near no feature in time."""

    n_sampled: int
    n_lines: int
    n_tiles: int
    forecast: ReadForecast

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "features": self.n_features,
            "images": self.n_images,
            "not_opened": self.n_far,
            "sampled": self.n_sampled,
            "lines": self.n_lines,
            "tiles": self.n_tiles,
            "requests": round(self.forecast.requests),
            "bytes": round(self.forecast.nbytes),
            "seconds": self.forecast.seconds,
            "usd": self.forecast.usd,
        }

    @property
    def text(self) -> str:
        """The plan in words."""
        it = self.forecast
        far = f", {self.n_far:,} more near no feature in time" if self.n_far else ""
        return (
            f"{counted(self.n_features, 'feature')} on {counted(self.n_images, 'image')}{far}\n"
            f"{self.n_lines:,} lines from {counted(self.n_tiles, 'tile')}: {round(it.requests):,} requests, "
            f"{it.nbytes / 1e6:,.1f} MB\n"
            f"about {it.seconds:,.1f} s and ${it.usd:.6f} in one function of one vCPU\n"
            f"From the headers of {counted(self.n_sampled, 'image')}.\n"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    """A table that was made."""

    path: Path
    """The table. Those of features and images are beside it."""

    n_features: int
    n_images: int
    """Images of the list."""

    n_failed: int
    """Images that could not be read."""

    n_far: int
    """Images that were not opened: they are near no feature in time."""

    n_lines: int
    n_by_status: Mapping[str, int]
    """Lines by their status."""

    n_requests: int
    nbytes: int
    seconds: float
    notes: tuple[str, ...] = ()
    digest: str = field(default="", repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "table": str(self.path),
            "features": self.n_features,
            "images": self.n_images,
            "failed": self.n_failed,
            "not_opened": self.n_far,
            "lines": self.n_lines,
            "statuses": dict(self.n_by_status),
            "requests": self.n_requests,
            "bytes": self.nbytes,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJob:
    """Features, the images of a list, and what is computed of each pair."""

    job: Job
    features: Features
    work: ImageWork
    request: Mapping[str, Any]
    """As JSON values. With the list and the features it decides the table."""

    tolerance_us: int | None = None
    """Longest time between feature and image; None if any image will do."""

    @property
    def digest(self) -> str:
        """Differs for another list, other features or another request."""
        made_of = [self.job.table.digest, self.features.digest, self.request, __version__]
        return hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def wanted(self) -> Iterator[tuple[int, CubeRow, Integers | None]]:
        """Yield the number and the row of each image, with the features that are near it in time."""
        table = self.job.table
        with closing(table.rows(0, table.n_rows)) as rows:
            for number, row in enumerate(rows):
                yield number, row, self.features.within(row.time_us, self.tolerance_us)

    async def plan(self) -> TablePlan:
        """Return what the table would take. Reads the headers of some images, and no pixel."""
        is_near = [members is None or len(members) > 0 for _, _, members in self.wanted()]
        near = [number for number, each in enumerate(is_near) if each]
        chosen = set(near[:: max(1, len(near) // _SAMPLES)][:_SAMPLES])
        plans: list[ImagePlan] = []
        failed: SourceError | None = None
        for number, row, members in self.wanted():
            if number not in chosen:
                continue
            try:
                plans.append(await self.work.plan(row, members, cost=Cost()))
            except SourceError as error:
                failed = failed or error
        if not plans and failed is not None:
            raise failed
        n, of = len(near), max(len(plans), 1)
        lines, tiles, requests, nbytes, decoded = (
            sum(getattr(each, name) for each in plans) / of
            for name in ("n_lines", "n_tiles", "n_requests", "nbytes", "decoded_nbytes")
        )
        forecast = ReadForecast.of_each(
            n,
            requests,
            nbytes,
            _CPU_PER_IMAGE_S + lines * _CPU_PER_LINE_S + decoded / _decoded_per_s(),
            in_flight=self.job.in_flight,
        )
        return TablePlan(
            n_features=len(self.features),
            n_images=n,
            n_far=len(is_near) - n,
            n_sampled=len(plans),
            n_lines=round(n * lines),
            n_tiles=round(n * tiles),
            forecast=forecast,
        )

    async def check_limits(self, *, usd: float | None, seconds: float | None) -> None:
        """Refuse a table whose forecast is over a limit.

        Raises:
            BudgetError: It says which limit.
        """
        if usd is None and seconds is None:
            return
        forecast = (await self.plan()).forecast
        if usd is not None and forecast.usd > usd:
            raise BudgetError(f"limits.usd: it would cost ${forecast.usd:.6f}, over the limit of ${usd:g}")
        if seconds is not None and forecast.seconds > seconds:
            raise BudgetError(
                f"limits.seconds: it would take {forecast.seconds:,.1f} s, over the limit of {seconds:g} s"
            )

    async def run(self, to: Path, *, on_progress: Callable[[Progress], None]) -> MadeTable:
        """Make the table. What an earlier run of the same job has computed is used.

        Raises:
            StoreError: A file cannot be written.
        """
        started = asyncio.get_running_loop().time()
        try:
            parts = PartFolder.open_(_folder_of(to), digest=self.digest)
        except OSError as error:
            raise StoreError(f"{to} cannot be written: {error.strerror or error}") from error
        progress = Progress(n_sources=self.job.table.n_rows)
        n_far = 0

        def todo() -> Iterator[tuple[int, CubeRow, Integers | None]]:
            nonlocal n_far
            for number, row, members in self.wanted():
                if members is not None and not len(members):
                    n_far += 1
                elif number not in parts.records:
                    yield number, row, members
                    continue
                progress.n_done += 1

        async with aclosing(self._measured(todo())) as measured:
            async for record, lines in measured:
                try:
                    await asyncio.to_thread(parts.write, record, lines)
                except OSError as error:
                    raise StoreError(f"{parts.path} cannot be written: {error.strerror or error}") from error
                progress.n_done += 1
                progress.n_failed += record.status != "ok"
                progress.fetched_nbytes += record.nbytes
                on_progress(progress)
        written = await asyncio.to_thread(self._write, to, parts)
        made = self._made(to, parts, written, n_far=n_far)
        parts.remove()
        return replace(made, seconds=asyncio.get_running_loop().time() - started)

    def _write(self, to: Path, parts: PartFolder) -> Written:
        about = {
            "version": __version__,
            "job": self.digest,
            "request": dict(self.request),
            "list": self.job.table.digest,
            "features": self.features.digest,
            "n_features": len(self.features),
            "n_images": self.job.table.n_rows,
        }
        is_matched = self.tolerance_us is not None
        return write_table(to, parts, self.features, self.work.columns, about=about, is_matched=is_matched)

    def _made(self, to: Path, parts: PartFolder, written: Written, *, n_far: int) -> MadeTable:
        records = parts.records.values()
        return MadeTable(
            path=to,
            n_features=len(self.features),
            n_images=self.job.table.n_rows,
            n_failed=sum(each.status != "ok" for each in records),
            n_far=n_far,
            n_lines=written.n_lines,
            n_by_status=written.n_by_status,
            n_requests=sum(each.n_requests for each in records),
            nbytes=sum(each.nbytes for each in records),
            seconds=0.0,
            notes=(*self.job.table.notes, *self.features.notes),
            digest=written.digest,
        )

    async def _measured(
        self, wanted: Iterator[tuple[int, CubeRow, Integers | None]]
    ) -> AsyncGenerator[tuple[ImageRecord, Lines]]:
        async def one(each: tuple[int, CubeRow, Integers | None]) -> tuple[ImageRecord, Lines]:
            number, row, members = each
            cost = Cost()
            try:
                record, lines = await self._twice(row, members, cost)
            except SourceError as error:
                status, reason = error.status, error.reason
            except RequestError as error:
                if error.field != "crs":  # PROJ finds no way to this image's CRS
                    raise
                status, reason = Status.UNSUPPORTED, str(error)
            else:
                return replace(record, number=number, **record.with_cost(cost)), lines
            hrefs = tuple(source.href for source in row.sources if source is not None)
            record = ImageRecord(
                number=number,
                scene=next((each.scene or each.href for each in row.sources if each is not None), ""),
                time_us=row.time_us,
                hrefs=hrefs,
                status=status.name.lower(),
                reason=reason,
            )
            return replace(record, **record.with_cost(cost)), np.zeros(0, np.uint8).view(np.void)

        async with aclosing(in_order(wanted, one, most_ahead=self.job.most_ahead)) as found:
            async for each in found:
                yield each

    async def _twice(self, row: CubeRow, members: Integers | None, cost: Cost) -> tuple[ImageRecord, Lines]:
        """Measure an image, again if it was replaced meanwhile."""
        try:
            return await self.work.measure(row, members, cost=cost)
        except SourceError as error:
            if error.status is not Status.CHANGED and not isinstance(error, StaleHeaderError):
                raise
        return await self.work.measure(row, members, cost=cost)


def _folder_of(to: Path) -> Path:
    return to.with_name(f"{to.name}.parts")


def _decoded_per_s() -> float:
    from pixel_gather.core.estimate.assumptions import DECODING  # noqa: PLC0415 # for plans alone

    return DECODING.value
