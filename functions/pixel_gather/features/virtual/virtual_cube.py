"""A cube whose chunks are tiles in the sources: staged in memory, then written in one commit."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import batched
from typing import Any, Final, Self

import numpy as np
import obstore
from obstore.store import MemoryStore

from pixel_gather.core.plan.cube_plan import CubePlan, Measurement
from pixel_gather.core.results.report import Report, Tally
from pixel_gather.core.results.row_coordinates import (
    Coordinate,
    Values,
    coordinates_of,
    difference_coordinates,
    failure_coordinate,
    table_values,
)
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.features.join.icechunk_repository import Transaction
from pixel_gather.features.join.joined_group import put_object
from pixel_gather.features.join.references import Reference, innermost_folders
from pixel_gather.features.virtual.refer_tiles import ReferredRows
from pixel_gather.features.virtual.referred_tiles import ReferredTiles
from pixel_gather.io.cube.staged_cube import StagedZarrCube
from pixel_gather.io.cube.zarr_metadata import group_content

_REFERENCES_AT_ONCE: Final = 100_000
"""References that exist as Python objects at one time, some 300 bytes each."""


@dataclass(slots=True, kw_only=True)
class VirtualCube:
    """Collects rows, then writes them."""

    plan: CubePlan
    tally: Tally
    staged: StagedZarrCube
    """Metadata and coordinates, in memory."""

    tiles: list[tuple[int, ReferredTiles, int]] = field(default_factory=list)
    """First row, references and slot."""

    differences: list[Mapping[str, Values]] = field(default_factory=list)
    """Values of the coordinates that few cubes need, by batch."""

    n_references: int = 0
    referred_nbytes: int = 0
    """Bytes of the tiles that are referred to."""

    _folders: set[str] = field(default_factory=set)

    @classmethod
    async def begin(cls, plan: CubePlan, place: str) -> Self:
        """Describe the measurements and the coordinates of a plan."""
        in_memory: Any = MemoryStore()
        staged = StagedZarrCube(in_memory, place, is_sharded=False)
        plan = await staged.create(plan)
        found = cls(plan=plan, tally=Tally(plan=plan), staged=staged)
        await staged.create_coordinates(plan, found.coordinates)
        return found

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Those of a gather, and why sources have no pixels."""
        return (*coordinates_of(self.plan), failure_coordinate(self.plan))

    @property
    def folders(self) -> tuple[str, ...]:
        """The innermost folders that hold all sources that are referred to."""
        return innermost_folders(f"{folder}/" for folder in self._folders)

    async def add(self, batch: ReferredRows) -> None:
        """Add the next rows."""
        values = table_values(self.plan, batch.rows, batch.outcomes)
        await self.staged.write_rows(self.plan, self.coordinates, batch.start, values)
        names = [each.name for each in self._differences(everything=True)]
        self.differences.append({name: values[name] for name in names})
        for row, outcomes in zip(batch.rows, batch.outcomes, strict=True):
            self.tally.add_row(row, outcomes)
        for slot, tiles in enumerate(batch.tiles):
            self.tiles.append((batch.start, tiles, slot))
            self._folders.update(row.href.rpartition("/")[0] for row in tiles.rows if row.ranges)
            found = [each for row in tiles.rows for of_band in row.ranges for each in of_band if each]
            self.n_references += len(found)
            self.referred_nbytes += sum(each.nbytes for each in found)

    async def complete(self) -> Report:
        """Finish the staged metadata, and return the report."""
        report = self.tally.report()
        if wanted := self._differences(report):
            await self.staged.create_coordinates(self.plan, wanted)
            values = {
                each.name: np.concatenate([some[each.name] for some in self.differences]) for each in wanted
            }
            await self.staged.write_rows(self.plan, wanted, 0, values)
        await self.staged.complete(self.plan, report)
        return report

    def write(self, transaction: Transaction) -> None:
        """Write everything: metadata, coordinates, references."""
        for key, content in self._objects():
            put_object(transaction.store, key, content)
        for measurement in self.plan.measurements:
            band = self.plan.of_slot(measurement.slot).index(measurement)
            for some in batched(self._references(measurement, band), _REFERENCES_AT_ONCE, strict=False):
                transaction.refer(measurement.name, some)

    def _references(self, measurement: Measurement, band: int) -> Iterator[Reference]:
        n_across = self.plan.layout.shard[2] // self.plan.layout.chunk[2]
        for start, tiles, slot in self.tiles:
            if slot != measurement.slot:
                continue
            for row, source, ranges in tiles.of_band(band):
                for at, found in enumerate(ranges):
                    if found is not None:
                        yield Reference(
                            index=(start + row, *divmod(at, n_across)),
                            href=source.href,
                            etag=source.etag,
                            start=found.start,
                            nbytes=found.nbytes,
                        )

    def _differences(
        self, report: Report | None = None, *, everything: bool = False
    ) -> tuple[Coordinate, ...]:
        return difference_coordinates(
            self.plan,
            nodata=everything or (report is not None and report.nodata_differs),
            scaling=everything or (report is not None and report.scaling_differs),
            overhang=everything or (report is not None and report.n_overhanging > 0),
        )

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        """Yield the staged objects, metadata first. Icechunk needs no consolidated ones."""
        store: Any = self.staged.store
        keys = (item["path"] for page in obstore.list(store) for item in page)
        for key in sorted(keys, key=lambda each: (not each.endswith(ROOT_KEY), each != ROOT_KEY)):
            content = bytes(obstore.get(store, key).bytes())
            if key == ROOT_KEY:
                root = json.loads(content)
                del root["consolidated_metadata"]
                content = group_content(root)
            yield key, content
