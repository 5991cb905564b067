"""The cube as a Zarr v3 group: described by zarr-python, its shards written as whole objects.

Order of writing: the group's ``zarr.json`` claims the place and says ``complete: false``; then the
arrays' metadata, the shards, the coordinates; the group's consolidated metadata is put last.
"""

import asyncio
import io
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore

from pixel_gather.adapters.cube.map_coordinates import SPATIAL_REF, write_georeference
from pixel_gather.adapters.cube.shard_codec import chunk_encoder, encode_shard
from pixel_gather.adapters.cube.zarr_metadata import (
    coordinate_attributes,
    gather_of,
    group_attributes,
    measurement_attributes,
    put_array,
    scaling_attributes,
    write_small_array,
    zarr_codecs,
)
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_errors import said_of_place
from pixel_gather.errors import ArrayExistsError, BusyError, StoreError
from pixel_gather.plan.cube_plan import CubePlan, Measurement
from pixel_gather.read.read_shard import Pixels
from pixel_gather.stores import FoundCube, checked_claim

if TYPE_CHECKING:  # not in a worker's start
    import zarr
    from obstore import PutMode

    from pixel_gather.read.quicklook import Quicklooks
    from pixel_gather.report.report import Report
    from pixel_gather.report.row_coordinates import Coordinate, Values

_ARRAYS_AT_ONCE: Final = 8
"""Each waits for a request or two, a cube has some 20, and a million sources are written in 62 batches."""

_CLAIM_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Longest pause after each try to claim a place that another PUT is under way to."""

ROOT_KEY: Final = "zarr.json"
QUICKLOOKS_KEY: Final = "quicklooks.npz"
CONTROL_FOLDER: Final = ".gather/"


@dataclass(frozen=True, slots=True)
class ZarrCube:
    """Implements `pixel_gather.stores.CubeStore` at the root of a store."""

    store: Store
    place: str
    """As the user wrote it, for messages."""

    async def found(self) -> FoundCube | None:
        """Return what cube is at the place, or None where the place is empty."""
        found, _ = await self._found_version()
        return found if found is not None else await self._found_in_empty_place()

    async def _found_version(self) -> tuple[FoundCube | None, str | None]:
        """Return what the group's metadata tell, and their ETag; None where there are none."""
        try:
            answer = await obstore.get_async(self.store, ROOT_KEY)
            attributes = json.loads(bytes(await answer.bytes_async()))["attributes"]
            gather = gather_of(attributes)
            found = FoundCube(
                digest=str(gather["digest"]),
                planned_at=datetime.fromisoformat(gather["planned_at"]).timestamp(),
                report=gather.get("report") if attributes["complete"] else None,
            )
        except FileNotFoundError:
            return None, None
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of any other shape
            raise ArrayExistsError(
                f"{self.place}: a Zarr that no gather made is there: choose another place"
            ) from error
        return found, answer.meta["e_tag"]

    async def _found_in_empty_place(self) -> FoundCube | None:
        """Return None, or what another gather has put there since it was found to be empty."""
        try:
            async for page in obstore.list(self.store, chunk_size=2):
                others = [item["path"] for item in page if not item["path"].startswith(CONTROL_FOLDER)]
                if ROOT_KEY in others:
                    return await self.found()
                if others:
                    raise ArrayExistsError(
                        f"{self.place}: it is not empty ({others[0]} is there) and holds no cube: "
                        "choose another place"
                    )
        except (BaseError, OSError) as error:
            raise self._failed("listed", error) from error
        return None

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the place and describe the measurements; goes on with a claim of the same digest."""
        content = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": group_attributes(plan)})
        plan = await self._claimed(plan, content.encode())
        await self._write_in_thread(self._create_measurements, plan)
        return plan

    async def _claimed(self, plan: CubePlan, content: bytes) -> CubePlan:
        """Put the group's metadata where there is none; return the plan of whoever was first.

        S3 refuses a conditional PUT not only where something is there: while another such PUT is under way,
        too (409), and that one may fail. obstore raises the same for both; what is there tells them apart.
        """
        for longest_s in _CLAIM_PAUSES_S:
            try:
                await obstore.put_async(self.store, ROOT_KEY, content, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                found = await self.found()
                if found is None:
                    await asyncio.sleep(random.uniform(longest_s / 2, longest_s))  # noqa: S311 # no secret
                    continue
                if found.digest != plan.digest or found.report is not None:
                    raise ArrayExistsError(
                        f"{self.place}: another gather has just begun there: choose another place"
                    ) from error
                return replace(plan, planned_at=found.planned_at)
            except (BaseError, OSError) as error:
                raise self._failed("written", error) from error
            return plan
        raise BusyError(f"{self.place}: others are writing there at the same time: run again")

    async def write_shard(
        self, plan: CubePlan, measurement: Measurement, key: tuple[int, int, int], pixels: Pixels
    ) -> int:
        """Compress and store one object in one PUT; return its size in bytes."""
        parts = await encode_shard(
            pixels,
            shard=plan.layout.shard,
            chunk=plan.layout.chunk,
            fill_value=measurement.fill_value,
            encode=chunk_encoder(
                plan.codec,
                itemsize=pixels.itemsize,
                fill_value=measurement.fill_value,
                zfp_tolerance=plan.zfp_tolerance,
            ),
        )
        path = f"{measurement.name}/c/{'/'.join(map(str, key))}"
        try:
            await obstore.put_async(self.store, path, parts, use_multipart=False)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error
        return sum(len(part) for part in parts)

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        """Describe the arrays along the first axis."""
        await self._write_in_thread(self._create_coordinates, plan, coordinates)

    async def write_rows(self, start: int, values: Mapping[str, "Values"]) -> None:
        """Write a run of rows of several coordinates."""
        await self._write_in_thread(self._write_rows, start, values)

    async def write_headers(self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]) -> None:
        """Write the cube's header index beside its arrays, in parts as its entries come."""
        from pixel_gather.adapters.cube.header_index import HEADERS_KEY, store_index  # noqa: PLC0415 # see above

        try:
            await store_index(entries, self.store, HEADERS_KEY)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    async def write_quicklooks(self, quicklooks: Sequence["Quicklooks"]) -> None:
        """Write ``quicklooks.npz``, which NumPy opens without pickle: of each measurement rows and pixels."""
        content = io.BytesIO()
        arrays: dict[str, Any] = {"step": np.array(quicklooks[0].step, dtype="int64")}
        for each in quicklooks:
            arrays |= {f"rows/{each.measurement}": each.rows, f"pixels/{each.measurement}": each.pixels}
        np.savez(content, **arrays)
        try:
            await obstore.put_async(self.store, QUICKLOOKS_KEY, content.getvalue(), use_multipart=False)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    async def complete(self, plan: CubePlan, report: "Report") -> None:
        """Place the cube on the map, consolidate, and say that it is complete.

        The last PUT replaces only what bore this plan's claim when the rest began: S3 checks it by ETag.
        """
        found, etag = await self._found_version()
        checked_claim(found, plan)
        content = await self._write_in_thread(self._completed, plan, report)
        mode: PutMode = "overwrite" if etag is None else {"e_tag": etag}
        if isinstance(self.store, LocalStore):  # which knows no conditions: look again, at the last moment
            checked_claim((await self._found_version())[0], plan)
            mode = "overwrite"
        try:
            await obstore.put_async(self.store, ROOT_KEY, content, mode=mode, use_multipart=False)
        except PreconditionError as error:
            if checked_claim((await self._found_version())[0], plan).report is None:
                raise self._failed("written", error) from error
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    async def _write_in_thread[*Ts, T](self, write: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Let zarr-python block a thread, and say in our own words what the store refused."""
        try:
            return await asyncio.to_thread(write, *arguments)
        except (BaseError, OSError) as error:
            raise self._failed("written", error) from error

    def _group(self) -> "zarr.Group":
        import zarr  # noqa: PLC0415 # as in zarr_metadata.put_array
        from zarr.storage import ObjectStore  # noqa: PLC0415 # as above

        return zarr.open_group(ObjectStore(self.store), mode="r+", use_consolidated=False)

    def _create_measurements(self, plan: CubePlan) -> None:
        for measurement in plan.measurements:
            put_array(
                self.store,
                measurement.name,
                shape=plan.shape,
                chunks=plan.layout.chunk,
                shards=plan.layout.shard,
                dtype=measurement.dtype,
                fill_value=np.dtype(measurement.dtype).type(measurement.fill_value),
                dimension_names=(plan.dim, "y", "x"),
                attributes=measurement_attributes(measurement),
                **zarr_codecs(plan.codec, itemsize=np.dtype(measurement.dtype).itemsize),
            )

    def _create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        from pixel_gather.report.row_coordinates import CHUNK_ROWS  # noqa: PLC0415 # see above

        rows = min(CHUNK_ROWS, plan.n_rows)

        def create(each: "Coordinate") -> None:
            put_array(
                self.store,
                each.name,
                shape=each.shape,
                chunks=(rows, *each.shape[1:]),
                dtype=str if each.dtype == "string" else each.dtype,
                fill_value=each.fill,
                dimension_names=each.dims,
                attributes=coordinate_attributes(each),
            )

        _each_in_threads(create, coordinates)

    def _write_rows(self, start: int, values: Mapping[str, "Values"]) -> None:
        group = self._group()

        def write(name: str, rows: "Values") -> None:
            array: Any = group[name]
            array = array.with_config({"write_empty_chunks": True})  # else zarr-python deletes them
            array[start : start + len(rows)] = rows

        _each_in_threads(lambda item: write(*item), values.items())

    def _completed(self, plan: CubePlan, report: "Report") -> bytes:
        """Describe all arrays to the end, and return the group's metadata of a complete cube."""
        group = self._group()
        on_map = write_georeference(self.store, plan, report)
        if len(plan.measurements) > 1:
            names = np.array([each.name for each in plan.measurements], dtype=object)
            write_small_array(self.store, "measurement", names, dims=("measurement",))
        measurements = [each.name for each in plan.measurements]
        others = self._array_names() - set(measurements)
        arrays = [*measurements, *sorted(others)]  # readers show them in this order
        beside = sorted(others - {"x", "y", plan.dim, "measurement"})
        attributes: dict[str, Any] = {"coordinates": " ".join(beside)}
        if SPATIAL_REF in beside:
            attributes["grid_mapping"] = SPATIAL_REF
        for each in plan.measurements:
            scaling = {} if report.scaling_differs else scaling_attributes(each)
            overhang = {"comment": each.overhang} if report.n_overhanging else {}
            group[each.name].update_attributes(attributes | scaling | overhang)
        content = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": group_attributes(plan, report) | on_map,
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": dict(zip(arrays, _each_in_threads(self._metadata_of, arrays), strict=True)),
            },
        }
        return json.dumps(content).encode()

    def _array_names(self) -> set[str]:
        """Return the arrays below the root; zarr-python's own walk warns of the control folder."""
        folders = obstore.list_with_delimiter(self.store)["common_prefixes"]
        return {folder for folder in folders if f"{folder}/" != CONTROL_FOLDER}

    def _metadata_of(self, name: str) -> Any:
        return json.loads(bytes(obstore.get(self.store, f"{name}/{ROOT_KEY}").bytes()))

    def _failed(self, verb: str, error: Exception) -> StoreError:
        return StoreError(f"{self.place} could not be {verb}: {said_of_place(error)}")


def _each_in_threads[Item, Found](work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """Do the same with several arrays at one time; what fails is raised once all of them have ended."""
    with ThreadPoolExecutor(_ARRAYS_AT_ONCE) as threads:
        return list(threads.map(work, items))
