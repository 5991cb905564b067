"""Interfaces to the stores of a gather: the cube, and the control files of a run."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from pixel_gather.errors import ArrayExistsError
from pixel_gather.plan.cube_plan import CubePlan, Measurement, claim_of
from pixel_gather.read.read_shard import Pixels

if TYPE_CHECKING:  # only plan and finish need these: a worker starts faster without them
    from pixel_gather.read.quicklook import Quicklooks
    from pixel_gather.report.report import Report
    from pixel_gather.report.row_coordinates import Coordinate, Values


PLANNED_ANEW: Final = (
    "the cube was removed and has been planned anew since: submit its request again instead of redriving"
)
_REMOVED: Final = "the cube has been removed since it was planned: submit its request again"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCube:
    """A cube that is already at the output location."""

    place: str
    """Its location, as the user wrote it."""

    digest: str
    """Digest of its plan."""

    planned_at: float
    """When the plan was made, in seconds since 1970-01-01 UTC."""

    report: Mapping[str, Any] | None
    """Its report; None if the cube is not complete."""

    @property
    def claim(self) -> str:
        """The same as `CubePlan.claim`."""
        return claim_of(self.planned_at)

    def check_is_of(self, digest: str) -> None:
        """Refuse a cube of another request or another list.

        Args:
            digest: `pixel_gather.plan.plan.gather_digest` of the gather at hand.

        Raises:
            ArrayExistsError: The cube has another digest.
        """
        if self.digest != digest:
            raise ArrayExistsError(f"{self.place}: {self.in_words(digest)} is there: choose another place")

    def in_words(self, digest: str) -> str:
        """Say what differs between this cube and a gather of another digest."""
        n = len(digest) // 2  # the request's; the other half is the list's
        if self.digest[:n] == digest[:n]:
            return "a cube of this request and another list"
        return "a cube of another request or another list"

    def check_can_continue(self, digest: str) -> None:
        """Refuse a cube that a gather cannot continue.

        Raises:
            ArrayExistsError: The cube has another digest, or it is complete.
        """
        self.check_is_of(digest)
        if self.report is not None:
            raise ArrayExistsError(
                f"{self.place}: the cube of this request is complete: there is nothing to gather"
            )

    def complete_report(self) -> "Report | None":
        """Return the report of a complete cube, or None."""
        from pixel_gather.report.report import Report  # noqa: PLC0415 # as above

        return None if self.report is None else msgspec.convert(self.report, Report)


def checked_claim(found: FoundCube | None, plan: CubePlan) -> FoundCube:
    """Return the cube at the location if it still belongs to this plan.

    Raises:
        ArrayExistsError: The cube was removed. It may have been planned again since.
    """
    if found is None or found.claim != plan.claim:
        raise ArrayExistsError(_REMOVED if found is None else PLANNED_ANEW)
    return found


class CubeStore(Protocol):
    """One cube. Its order of writing ensures that no unfinished cube looks complete."""

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if the location is empty.

        Raises:
            ArrayExistsError: Something else is there.
        """

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the location and describe the measurements.

        Returns:
            The plan. If another run of the same digest was first, with that run's ``planned_at``.

        Raises:
            ArrayExistsError: Another gather has claimed the location meanwhile, or the cube is complete.
            BusyError: Other runs write there at the same time.
        """

    async def write_shard(
        self, plan: CubePlan, measurement: Measurement, key: tuple[int, int, int], pixels: Pixels
    ) -> int:
        """Compress and store one object in one PUT; return its size in bytes.

        Args:
            plan: The cube.
            measurement: Which array.
            key: Position of the shard in the array's grid of shards.
            pixels: Shape (row, y, x). At most as large as a shard.
        """

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        """Describe the arrays along the first axis. Replaces those of an earlier try."""

    async def write_rows(self, start: int, values: Mapping[str, "Values"]) -> None:
        """Write a run of rows of several coordinates."""

    async def write_headers(self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]) -> None:
        """Write the header index, which spares later gathers the reading of headers.

        Args:
            entries: Batches of (href, packed header). Nothing is written if there are none.
        """

    async def write_found_list(self, content: bytes) -> None:
        """Write the list that a search found beside the arrays.

        Args:
            content: A Parquet file, from `pixel_gather.ports.SourceTable.found_list`.
        """

    async def write_quicklooks(self, quicklooks: Sequence["Quicklooks"]) -> None:
        """Write small pictures of some windows beside the arrays."""

    async def complete(self, plan: CubePlan, report: "Report") -> None:
        """Write the georeference, consolidate the metadata and then mark the cube as complete.

        Raises:
            ArrayExistsError: The cube was removed, and may have been planned again since. Nothing is marked
                as complete.
        """


class ControlStore(Protocol):
    """Small files of one gather: the plan, the list in shard order, the sidecars."""

    async def put(self, key: str, content: bytes) -> None:
        """Write a file. Replaces an earlier one."""

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Write a file of any length from parts. A few parts are in memory at a time."""

    async def get(self, key: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Return bytes [start, stop) of an existing file."""

    async def list_(self, prefix: str) -> set[str]:
        """Return the keys below a prefix."""

    async def clear(self) -> None:
        """Remove every file. A complete cube does not need them."""

    def below(self, folder: str) -> Self:
        """Return a store for the files in one folder."""
