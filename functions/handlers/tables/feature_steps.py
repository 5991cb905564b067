"""A table of points or zones as a kind of table: it is planned, and its parts become Parquet."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from copy import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from handlers.deployment.map_verdict import run_round
from handlers.deployment.removals import check_not_removed, count_removals, note_result
from handlers.deployment.stores import Deployment
from handlers.tables.committed_tables import CommittedTables, chunks
from handlers.tables.feature_table import WORK_KEY, FeatureTable, TableWork, open_feature_table
from handlers.tables.table_body import AdmittedTable, admit_table, kind_of_receipt
from pixel_gather.core.errors import BudgetError, StoreError
from pixel_gather.core.estimate.pricing import USD_PER_GET
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.scenes.search_criteria import NoSceneError
from pixel_gather.core.schedule import is_of_a_tick
from pixel_gather.core.stores import ControlStore, needed_file
from pixel_gather.core.time_range import format_moment
from pixel_gather.tables.feature_rounds import (
    FeatureState,
    TaskImage,
    load_round,
    lost_images,
    lost_record,
    measured_parts,
    next_round,
    write_round,
)
from pixel_gather.tables.features import Features, note_of_nowhere, note_of_timeless
from pixel_gather.tables.image_work import key_of
from pixel_gather.tables.map_round import MapRound, plan_round, usd_of_round
from pixel_gather.tables.map_tasks import MOST_TRIES, goes_on, last_attempt, result_of
from pixel_gather.tables.packed_features import FEATURES_KEY, pack_features, unpack_features
from pixel_gather.tables.part_folder import NO_LINES, PartFolder
from pixel_gather.tables.read_forecast import ReadForecast
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_plan import TablePlan
from pixel_gather.tables.table_receipt import TABLE_KEY, digest_of_path, side_path
from pixel_gather.tables.write_table import LineForm, write_features, write_table
from pixel_gather.version import __version__

MOST_IMAGES: Final = 100_000
"""In one table."""

MOST_LINES: Final = 100_000_000
"""In one table. One function puts them together, on its disk."""

_LINES_PER_TASK: Final = 1_000_000
"""A worker holds the lines of its task: some 40 bytes each."""

_INSTEAD: Final = "take fewer features or images, or raise the limit"


class FeatureSteps(Struct, frozen=True):
    """Plans and finishes tables of points and zones: a `handlers.tables.kinds.TableSteps`."""

    deployment: Deployment

    async def begin(self, given: Any, *, execution: str, left_s: float) -> dict[str, Any]:
        """Begin a table, or go on with one of the same name. Safe to run twice."""
        asked = admit_table(given, self.deployment.settings)
        try:
            return await self._begun(asked, given, execution=execution, left_s=left_s)
        except NoSceneError as error:
            nothing_new = await self._nothing_new(asked, error, execution=execution)
            if nothing_new is None:
                raise
            return {"verdict": "complete", "result": nothing_new}

    async def _nothing_new(
        self, asked: AdmittedTable, why: NoSceneError, *, execution: str
    ) -> dict[str, Any] | None:
        """Return the result of an append whose search finds nothing; None if that is an error.

        It is none if the table is there, or if nobody asked for it now: the next tick searches again.
        """
        if asked.append_to is None:
            return None
        told = {"notes": [str(why)], "appended": 0, "read": 0, "requests": 0, "bytes": 0, "usd": 0.0}
        committed = await CommittedTables(self.deployment).find(asked.append_to)
        if committed is not None:
            return {**committed.result, **told}
        of_nothing = {"kind": asked.kind.about["kind"], "name": asked.append_to, "scenes": 0, "failed": 0}
        return of_nothing | told if is_of_a_tick(execution) else None

    async def _begun(
        self, asked: AdmittedTable, given: Any, *, execution: str, left_s: float
    ) -> dict[str, Any]:
        async with open_feature_table(asked, self.deployment, left_s=left_s) as opened:
            name = opened.name
            files = self.deployment.table_files(name)
            begun, result = await last_attempt(files, load_round)
            # Looked for after the result. Else a table that is written in between would seem to be removed.
            written = await self._written(asked.append_to or name)
            if asked.append_to is None and written is not None:
                if begun is not None and result is None:  # the call that wrote it was killed before its note
                    await note_result(self.deployment, name, begun, written)
                return _complete(written)
            if opened.base is None and written is not None:
                raise StoreError("the table was made by another call while this one read the list: try again")
            if opened.base is not None and result is not None:
                return _complete(result)
            removals = await count_removals(self.deployment, asked.append_to or name)
            if begun and result is None and goes_on(begun, now_s=time.time(), removals=removals):
                _check_limits(asked.limits, begun.n_wanted, _map_round(begun, self._most_workers))
                await self._write_inputs(name, opened, given, files)
                return await self._plan_round(name, begun, execution)  # it has failed, or still runs
            # Here the table has no rounds yet, its last attempt is too old, or it was written and removed.
            # It gets new rounds.
            plan, planned = await self.plan(opened, asked.limits)
            await self._write_inputs(name, opened, given, files)
            number = 0 if begun is None else begun.number + 1
            state = _first_state(opened, plan, number=number, removals=removals)
            if opened.base is not None:
                numbered = ((number, opened.base.tries(key_of(row))) for number, row, _ in opened.wanted())
                state.tries = {number: tries for number, tries in numbered if tries}
            images = [
                TaskImage(number, row)
                for number, row, members in opened.wanted()
                if members is None or len(members)
            ]
        if not images:
            written = await self._write(name, state, [], execution)
            await note_result(self.deployment, name, state, written)
            return _complete(written)
        begun = _same_table(state, await write_round(state, images, files, n_tasks=planned.n_tasks))
        return await self._plan_round(name, begun, execution)

    async def plan(self, opened: FeatureTable, limits: TableLimits) -> tuple[TablePlan, MapRound]:
        """Return what a table would take, and how the map would make it.

        Raises:
            BudgetError: It is over a limit, or has more images or lines than a table may have.
        """
        if opened.table.n_rows > MOST_IMAGES:
            raise BudgetError(
                f"there are {opened.table.n_rows:,} images, and one table takes at most {MOST_IMAGES:,}: "
                "make one table for each part of the time"
            )
        plan = await opened.plan()
        if plan.n_lines > MOST_LINES:
            raise BudgetError(
                f"there would be about {plan.n_lines:,} lines, and one table takes at most {MOST_LINES:,}: "
                "make one table for each part of the time"
            )
        planned = plan_round(
            plan.forecast,
            n_scenes=max(plan.n_images, 1),
            most_workers=self._most_workers,
            least_tasks=-(-plan.n_lines // _LINES_PER_TASK),
        )
        _check_limits(limits, plan.n_images, planned)
        return plan, planned

    async def after(self, name: str, number: int, *, execution: str) -> dict[str, Any]:
        """Read lost images again, or write the table. Safe to run twice."""
        files = self.deployment.table_files(name)
        state = await load_round(files, number)
        if (result := await result_of(state, files)) is not None:
            return _complete(result)
        written = await self._written(name) if state.append_to is None else None
        # A table without a note: the call that wrote it was killed. Then only the note is missing.
        if written is None:
            lost = await lost_images(state, files)
            if lost and state.n_tries < MOST_TRIES:
                again = await write_round(next_round(state), lost, files, n_tasks=len(lost))
                return await self._plan_round(name, _same_table(state, again), execution)
            written = await self._write(name, state, lost, execution)
        await note_result(self.deployment, name, state, written)
        return _complete(written)

    async def _written(self, name: str) -> Mapping[str, Any] | None:
        """Return the result of a table that is there; None if it is not."""
        committed = await CommittedTables(self.deployment).find(name)
        return None if committed is None else committed.result

    @property
    def _most_workers(self) -> int:
        return int(self.deployment.settings.limits.get("workers") or 1)

    async def _write_inputs(self, name: str, opened: FeatureTable, given: Any, files: ControlStore) -> None:
        """Write what workers need, and the features' own columns beside the table to come.

        Workers of an earlier request may read them. So limits are compared before. A table that is appended
        to has the columns already.
        """
        work = TableWork(
            request=given,
            bands=tuple(opened.table.bands),
            band_numbers=dict(opened.table.band_numbers),
            of_bands=tuple(each.name for each in opened.values.values),
            sign=opened.sign,
        )
        await files.put(FEATURES_KEY, pack_features(opened.checked))
        await files.put(WORK_KEY, json.dumps(asdict(work)).encode())
        if opened.base is not None:
            return
        with TemporaryDirectory() as folder:
            path = side_path(Path(folder, TABLE_KEY), "features")
            await asyncio.to_thread(write_features, path, opened.features)
            await self.deployment.results.below(name).put_stream(path.name, chunks(path))

    async def _plan_round(self, name: str, state: FeatureState, execution: str) -> dict[str, Any]:
        planned = _map_round(state, self._most_workers)
        told = {"n_scenes": state.n_images, "n_wanted": state.n_wanted, "usd": planned.usd}
        return await run_round(self.deployment, name, state, planned, execution=execution, told=told)

    async def _write(
        self, name: str, state: FeatureState, lost: list[TaskImage], execution: str
    ) -> dict[str, Any]:
        """Write the table, and return its result."""
        files = self.deployment.table_files(name)
        packed = await needed_file(files, FEATURES_KEY)
        usd, n_requests, nbytes = 0.0, 0, 0
        with TemporaryDirectory() as folder:
            parts = PartFolder.open_(Path(folder, "parts"), digest=name)
            async for part in measured_parts(state, files):
                for record, lines, pieces in part.images:
                    n_requests, nbytes = n_requests + record.n_requests, nbytes + record.nbytes
                    there = parts.records.get(record.number)  # by a worker that was late, of a former round
                    if there is None or record.worth > there.worth:
                        tries = 1 + state.tries.get(record.number, 0)
                        await asyncio.to_thread(parts.write, replace(record, tries=tries), lines, pieces)
                usd += usd_of_round(worker_s=part.worker_s, n_tasks=1)
            for image in lost:
                if image.number not in parts.records:  # as above
                    record = replace(lost_record(image), tries=1 + state.tries.get(image.number, 0))
                    parts.write(record, NO_LINES)
            records = parts.records.values()
            if len(records) < state.n_near:
                raise StoreError(
                    f"{counted(state.n_near - len(records), 'image')} of the table cannot be found in its "
                    "control files, as some of these have expired: ask for the table again after a month"
                )
            told = {
                "kind": state.about["request"]["kind"],
                "features": state.n_features,
                "not_opened": state.n_far,
                "read": len(records),
                "requests": n_requests,
                "bytes": nbytes,
                "usd": usd + n_requests * USD_PER_GET,
                "notes": state.notes,
                "job": execution,
            }
            features = unpack_features(packed, with_shapes=False)
            return await self._commit(name, state, parts, features, told, Path(folder))

    async def _commit(  # what is written, and among what
        self,
        name: str,
        state: FeatureState,
        parts: PartFolder,
        features: Features,
        told: dict[str, Any],
        folder: Path,
    ) -> dict[str, Any]:
        """Put the lines among those of the table, as it is now, and commit its next version.

        Raises:
            RequestError: Another job has made the table meanwhile, of other features or other values.
            StoreError: The table was removed since this attempt was begun.
        """
        tables = CommittedTables(self.deployment)
        table = state.append_to or name
        while True:
            # Which table is there now? Another call may have written it since the last try.
            committed, base = await tables.find(table), None
            own = Path(tempfile.mkdtemp(dir=folder))
            if committed is not None:
                if state.append_to is None:  # another call has written this table before
                    return dict(committed.result)
                (there := own / "base").mkdir()
                base = await tables.load(committed, there, with_lines=True)
                base.check(state.about)  # another job may have made it, of other features or values
                if not base.gains(parts.records.values()):
                    return {**committed.result, "notes": state.notes, "appended": 0} | told
            # The features come from this job for a new table, else from the table that grows.
            path, version = own / TABLE_KEY, 1 if committed is None else committed.version + 1
            about, of_features = {**state.about, "appends": version - 1}, side_path(path, "features")
            if base is None:
                if state.has_base:
                    raise StoreError(
                        "the table was removed while images were appended: send the request again"
                    )
                await tables.copy_features(name, of_features)
                features_digest = digest_of_path(of_features)
            else:
                side_path(base.path, "features").replace(of_features)
                features_digest = base.receipt["files"]["features"]
                about["n_images"] = len(base.merge_records(parts.records.values()))
                about["bands"] = base.bands
            # Write the next version. Its files go to a folder of their own.
            written = await asyncio.to_thread(
                write_table,
                path,
                parts,
                features,
                LineForm(
                    columns=state.columns,
                    tolerance_us=state.tolerance_us,
                    combine=kind_of_receipt(state.about["request"]).combine,
                ),
                about=about,
                features_digest=features_digest,
                base=base,
            )
            result = {
                **told,
                "name": table,
                "version": version,
                "scenes": state.n_images if base is None else written.n_images,
                "appended": None if base is None else written.n_images - len(base.records),
                "failed": written.n_failed,
                "lines": written.n_lines,
                "statuses": dict(written.n_by_status),
                "notes": [*told["notes"], *note_of_nowhere(written.n_by_status, features.crs)],
                "last": None if written.last_us is None else format_moment(written.last_us),
                "seconds": time.time() - state.started_at,
                "removals": state.removals,
            }
            result |= await tables.upload(table, path, version=version)
            # If another version was committed meanwhile, all is done again on top of it.
            noted = await result_of(state, self.deployment.table_files(name)) if committed is None else None
            if noted is not None:  # another call has written the table, and it was removed since
                return noted
            await check_not_removed(self.deployment, table, state)
            if await tables.commit(table, result, over=committed):
                return result
            shutil.rmtree(own)


def _same_table(ours: FeatureState, begun: FeatureState) -> FeatureState:
    """Return the state of a round, which may be that of another call.

    Raises:
        StoreError: The table was removed meanwhile, and one of the two states is of its new rounds.
    """
    if begun.first != ours.first:
        raise StoreError("the table was removed meanwhile, and is made anew: try again")
    return begun


def _complete(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"verdict": "complete", "result": dict(result)}


def _first_state(opened: FeatureTable, plan: TablePlan, *, number: int, removals: int) -> FeatureState:
    tolerance_us = opened.asked.request.tolerance_us
    about = {
        "version": __version__,
        "request": opened.about,
        "list": opened.table.digest,
        "features": opened.features.digest,
        "n_features": len(opened.features),
        "n_images": plan.n_images + plan.n_far,
        "bands": opened.table.bands,
    }
    return FeatureState(
        number=number,
        first=number,
        started_at=time.time(),
        n_features=len(opened.features),
        n_images=plan.n_images + plan.n_far,
        n_far=plan.n_far,
        columns=list(opened.work.columns),
        tolerance_us=tolerance_us,
        about=about,
        notes=[
            *opened.table.notes,
            *opened.features.notes,
            *note_of_timeless(opened.table, tolerance_us),
        ],
        forecast=plan.forecast,
        append_to=opened.asked.append_to,
        has_base=opened.base is not None,
        removals=removals,
    )


def _check_limits(limits: TableLimits, n_images: int, planned: MapRound) -> None:
    images = counted(n_images, "image")
    limits.check(images, seconds=planned.seconds, usd=planned.usd, instead=_INSTEAD)


def _map_round(state: FeatureState, most_workers: int) -> MapRound:
    """Return how the map runs a round that has its tasks."""
    share = state.n_wanted / max(state.n_images - state.n_far, 1)
    it = state.forecast
    forecast = ReadForecast(it.requests * share, it.nbytes * share, it.seconds * share)
    n = len(state.tasks)
    return plan_round(forecast, n_scenes=state.n_wanted, most_workers=most_workers, n_tasks=n)
