"""Makes a table of features and images in this process: every image of the list, then the table."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from copy import replace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.shown import facts_in_html, shown_href
from pixel_gather.core.request.href_policy import path_here, with_home
from pixel_gather.in_process.job import Job, listed, opened_job
from pixel_gather.in_process.places import href_here
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.atomic_write import errors_of_writing
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.store.file_lock import file_lock
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.tables.base_table import BaseTable, refuse_repeated_ids
from pixel_gather.tables.features import Features, note_of_nowhere, note_of_timeless
from pixel_gather.tables.first_image import KeepsFirst
from pixel_gather.tables.image_work import ImageWork, TableKind, WantedImage, measure_each
from pixel_gather.tables.merge_zone_lines import Combine
from pixel_gather.tables.open_scene import ImageAccess
from pixel_gather.tables.part_folder import ImageRecord, Lines, PartFolder
from pixel_gather.tables.read_features import given_features, read_features
from pixel_gather.tables.scene_filter import SceneFilter
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_plan import TablePlan, plan_images
from pixel_gather.tables.table_receipt import Written, side_path, staged_path
from pixel_gather.tables.table_request import TableRequest, about_of
from pixel_gather.tables.write_table import LineForm, write_features, write_table
from pixel_gather.version import __version__

_INSTEAD = "take fewer features or images, or raise the limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    """A table that was made."""

    path: Path
    """The table. Those of features and images are beside it."""

    n_features: int
    n_images: int
    """Images of the list; of the whole table, if it was appended to."""

    n_failed: int
    """Images of them that could not be read."""

    n_far: int
    """Images that were not opened: they are near no feature in time."""

    n_lines: int
    n_by_status: Mapping[str, int]
    """Lines by their status."""

    n_requests: int
    nbytes: int
    seconds: float
    n_read: int = 0
    """Images that were read for it: fewer than it has, if it was appended to."""

    notes: tuple[str, ...] = ()
    digest: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: where the table is, and what it took."""
        statuses = ", ".join(f"{n:,} {name}" for name, n in self.n_by_status.items())
        facts = (
            ("table", str(self.path)),
            ("lines", f"{self.n_lines:,} ({statuses})" if statuses else f"{self.n_lines:,}"),
            ("features", f"{self.n_features:,}"),
            ("images", f"{self.n_images:,}, of which {self.n_failed:,} failed and {self.n_far:,} are far"),
            ("took", f"{size(self.nbytes)} in {counted(self.n_requests, 'request')}, {self.seconds:,.1f} s"),
        )
        return facts_in_html("Table of features and images", facts, self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "table": str(self.path),
            "features": self.n_features,
            "images": self.n_images,
            "failed": self.n_failed,
            "not_opened": self.n_far,
            "read": self.n_read,
            "lines": self.n_lines,
            "statuses": dict(self.n_by_status),
            "requests": self.n_requests,
            "bytes": self.nbytes,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


class TableJob(Struct, frozen=True, kw_only=True):
    """Features, the images of a list, and what is computed of each pair."""

    job: Job
    features: Features
    work: ImageWork
    combine: Combine | None
    """What merges lines of one acquisition; None if nothing does."""

    request: Mapping[str, Any]
    """As JSON values. With the list and the features it decides the table."""

    tolerance_us: int | None = None
    """Longest time between feature and image; None if any image will do."""

    base: BaseTable | None = None
    """The table that is appended to."""

    @property
    def digest(self) -> str:
        """Differs for another list, other features, another request or another table to append to."""
        made_of = [self.job.table.digest, self.features.digest, self.request, __version__]
        if self.base is not None:
            made_of.append(self.base.receipt["digest"])
        return hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def wanted(self) -> Iterator[WantedImage]:
        """Yield the number and the row of each image to read, with the features that are near it in time."""
        table = self.job.table
        with closing(table.rows(0, table.n_rows)) as rows:
            for number, row in enumerate(rows if self.base is None else self.base.to_read(rows)):
                yield number, row, self.features.within(row.time_us, self.tolerance_us)

    def check_new(self, to: Path) -> None:
        """Refuse to replace a table, unless it is that of the same list, features and request.

        Raises:
            RequestError: There is another one. It says what differs.
            StoreError: There is a table whose receipt cannot be read.
        """
        is_there = to.exists() or staged_path(to).exists()  # else somebody has removed the table alone
        if is_there and side_path(to, "images").exists():
            there = BaseTable.of_images(to)
            said = there.difference(self.about, names=("request", "features", "list"))
            if there.receipt["appends"]:
                said = "has grown"
            if said is not None:
                raise RequestError(
                    f"{to} {said}: choose another name, or add what it lacks (--append-to)", field="to"
                )

    async def plan(self) -> TablePlan:
        """Return what the table would take. Reads the headers of some images, and no pixel."""
        return await plan_images(
            self.work,
            self.wanted,
            n_features=len(self.features),
            in_flight=self.job.in_flight,
            may_all_fail=self.base is not None,
        )

    async def run(self, to: Path, *, on_progress: Callable[[Progress], None]) -> MadeTable:
        """Make the table. What an earlier run of the same job has computed is used.

        Raises:
            StoreError: A file cannot be written.
        """
        started = asyncio.get_running_loop().time()
        parts = self._open_parts(to)
        n_images = self.job.table.n_rows if self.base is None else sum(1 for _ in self.wanted())
        progress = Progress(n_sources=n_images)
        n_far = 0

        def todo() -> Iterator[WantedImage]:
            nonlocal n_far
            for number, row, members in self.wanted():
                if members is not None and not len(members):
                    n_far += 1
                elif number not in parts.records:
                    yield number, row, members
                    continue
                progress.n_done += 1

        ahead = self.job.most_ahead
        async with aclosing(measure_each(self.work, todo(), most_ahead=ahead)) as images:
            async for record, lines, pieces in images:
                # How often was the image read, also by earlier appends?
                tries = 1 if self.base is None else self.base.tries(record.key) + 1
                with errors_of_writing(parts.path):
                    await asyncio.to_thread(parts.write, replace(record, tries=tries), lines, pieces)
                progress.n_done += 1
                progress.n_failed += record.status != "ok"
                progress.fetched_nbytes += record.nbytes
                on_progress(progress)
        written = await asyncio.to_thread(self._write, to, parts)
        made = self._made(to, parts, written, n_far=n_far)
        parts.remove()
        return replace(made, seconds=asyncio.get_running_loop().time() - started)

    def _open_parts(self, to: Path) -> PartFolder:
        """Open the parts of an earlier run of this job, or begin anew.

        While the table is there, parts get another digest. So they are not used if it is removed later.
        """
        digest = f"{self.digest} again" if to.exists() else self.digest
        with errors_of_writing(to):
            return PartFolder.open_(to.with_name(f"{to.name}.parts"), digest=digest)

    def _write(self, to: Path, parts: PartFolder) -> Written:
        base = self.base
        if base is not None and not parts.records:  # the table lacks nothing
            return base.written
        about = {"version": __version__, "job": self.digest, **self.about}
        if base is None:
            about |= {"n_images": self.job.table.n_rows, "appends": 0, "bands": self.job.table.bands}
            of_features = write_features(side_path(to, "features"), self.features)
        else:
            n_images = len(base.merge_records(parts.records.values()))
            about |= {"n_images": n_images, "appends": base.receipt["appends"] + 1, "bands": base.bands}
            of_features = base.receipt["files"]["features"]
        return write_table(
            to,
            parts,
            self.features,
            LineForm(
                columns=self.work.columns,
                tolerance_us=self.tolerance_us,
                combine=self.combine,
            ),
            about=about,
            features_digest=of_features,
            base=base,
        )

    @property
    def about(self) -> dict[str, Any]:
        """What the receipt tells of what was asked."""
        return {
            "request": dict(self.request),
            "list": self.job.table.digest,
            "features": self.features.digest,
            "n_features": len(self.features),
        }

    def _made(self, to: Path, parts: PartFolder, written: Written, *, n_far: int) -> MadeTable:
        records = parts.records.values()
        untimed = note_of_timeless(self.job.table, self.tolerance_us)
        notes = [*self.job.table.notes, *self.features.notes, *untimed]
        failed = next((each for each in records if each.status != "ok" and each.reason), None)
        if failed is not None:
            notes.append(f"{shown_href(failed.hrefs[0])} is {failed.status}: {failed.reason}")
        notes += note_of_nowhere(written.n_by_status, self.features.crs)
        return MadeTable(
            path=to,
            n_features=len(self.features),
            n_images=self.job.table.n_rows if self.base is None else written.n_images,
            n_failed=written.n_failed,
            n_far=n_far,
            n_lines=written.n_lines,
            n_by_status=written.n_by_status,
            n_requests=sum(each.n_requests for each in records),
            nbytes=sum(each.nbytes for each in records),
            seconds=0.0,
            n_read=len(records),
            notes=tuple(notes),
            digest=written.digest,
        )


async def make_table(
    kind: TableKind,
    request: TableRequest,
    *,
    to: str | os.PathLike[str] | None = None,
    append_to: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> MadeTable:
    """Write a table, or append what it lacks to one. One that is not there is made.

    Raises:
        BusyError: Another process writes the same table.
        RequestError: The request is wrong. The error names the field.
        BudgetError: The forecast is over a limit.
        StoreError: The table cannot be written.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    given = append_to if to is None else to
    if given is None or (to is not None and append_to is not None):
        raise RequestError("give the table to write, or the one to append to", field="to")
    field = "append_to" if to is None else "to"
    path = _checked_path(given, field=field)
    with file_lock(path):
        is_there = side_path(path, "images").exists()
        if path.exists() and not is_there:
            raise RequestError(f"{path} exists and is no table of ours: choose another name", field=field)
        base = BaseTable.open_(path) if append_to is not None and is_there else None
        grows, limits = append_to is not None, request.limits
        async with _open_job(kind, request, settings or Settings(), base, grows=grows) as job:
            if base is None:
                job.check_new(path)
            if limits.usd is not None or limits.seconds is not None:
                _check_limits(await job.plan(), limits)
            return await job.run(path, on_progress=on_progress)


async def measure_images(
    kind: TableKind,
    request: TableRequest,
    *,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> tuple[tuple[str, ...], list[tuple[ImageRecord, Lines]]]:
    """Return the names of the values, and the lines of all images, which are held in memory.

    Raises:
        RequestError: The request is wrong. The error names the field.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    async with _open_job(kind, request, settings or Settings()) as job:
        progress, found = Progress(n_sources=job.job.table.n_rows), []
        async with aclosing(measure_each(job.work, job.wanted(), most_ahead=job.job.most_ahead)) as images:
            async for record, lines, _ in images:
                found.append((record, lines))
                progress.n_done += 1
                progress.n_failed += record.status != "ok"
                progress.fetched_nbytes += record.nbytes
                on_progress(progress)
        return job.work.columns, found


async def plan_table(
    kind: TableKind,
    request: TableRequest,
    *,
    append_to: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
) -> TablePlan:
    """Return what a table or an append would take. Reads the headers of some images, and no pixel.

    Raises:
        RequestError: The request is wrong. The error names the field.
        BudgetError: The forecast is over a limit.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    base = None
    if append_to is not None:
        path = _checked_path(append_to, field="append_to")
        base = BaseTable.open_(path) if side_path(path, "images").exists() else None
    grows = append_to is not None
    async with _open_job(kind, request, settings or Settings(), base, grows=grows) as job:
        plan = await job.plan()
    _check_limits(plan, request.limits)
    return plan


def _check_limits(plan: TablePlan, limits: TableLimits) -> None:
    limits.check("it", seconds=plan.forecast.seconds, usd=plan.forecast.usd, instead=_INSTEAD)


@asynccontextmanager
async def _open_job(
    kind: TableKind,
    request: TableRequest,
    settings: Settings,
    base: BaseTable | None = None,
    *,
    grows: bool = False,
) -> AsyncIterator[TableJob]:
    """Read the features and the list, and open what reads its images.

    Args:
        kind: Of the table.
        request: What is computed, and of which images.
        settings: Of this process.
        base: The table that is appended to, if it is there.
        grows: Whether the table is appended to, now or later.

    Raises:
        RequestError: The features or the list are wrong, or do not fit the table that is appended to.
    """
    features = await asyncio.to_thread(_features, request, settings)
    if grows:
        refuse_repeated_ids(features)
    checked = await asyncio.to_thread(kind.check, features)
    values = request.values_for_list
    keeps = SceneFilter(checked, RasterioProjector()).meets
    async with opened_job(request.sources_near(checked), settings, keeps=keeps) as job:
        reader = KeepsFirst(job.reader, timeout_s=settings.source_timeout_s)
        if not values.values and base is not None:
            values = values.of_bands(base.receipt["request"]["values"])
        if not values.values:
            with closing(listed(job.table)) as sources:
                values = values.of_bands(job.table.bands or await reader.bands_of_first(sources))
        access = ImageAccess(
            bands=job.table.bands,
            band_numbers=job.table.band_numbers,
            reader=reader,
            limiter=job.limiter,
            projector=job.projector,
            timeout_s=settings.source_timeout_s,
        )
        with kind.open_work(checked, values, access) as work:
            opened = TableJob(
                job=job,
                features=replace(features, problems=checked.problems, notes=checked.notes),
                work=work,
                combine=kind.combine,
                request=about_of(request, kind, values, work, job.table.band_numbers),
                tolerance_us=request.tolerance_us,
                base=base,
            )
            if base is not None:
                base.check(opened.about)
            yield opened


def _features(request: TableRequest, settings: Settings) -> Features:
    given = request.features
    if not isinstance(given, str | os.PathLike):
        return given_features(given, columns=request.columns)
    text = with_home(os.fspath(given))
    place = "-" if text == "-" else href_here(text, "features")
    name, file = open_list_file(place, objects=Objects(settings.stores), what="file of features")
    return read_features(file, name=name, columns=request.columns)


def _checked_path(to: str | os.PathLike[str], *, field: str) -> Path:
    """Return where the table is written.

    Raises:
        RequestError: It is no place for a Parquet file on this machine.
    """
    path = path_here(to, field, said="a table is")
    if path.suffix != ".parquet":
        raise RequestError(f"{to} does not end with .parquet", field=field)
    if not path.parent.is_dir():
        raise RequestError(f"there is no folder {path.parent}", field=field)
    return path
